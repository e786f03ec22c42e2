"""Reads the inspector's server-sent events in a thread; a test can wait for one."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.inspector import Inspected

LIMIT = 20.0


class Reader:
    """Reads server-sent events until it is left. `events` are those so far: (name, data)."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        place = urlsplit(url)
        self._path = f"{place.path}?{place.query}"
        self._headers = headers or {}
        self._connection = http.client.HTTPConnection(place.netloc, timeout=LIMIT)
        self._socket: socket.socket | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.events: list[tuple[str, Any]] = []
        self.status = 0
        self.over = False

    def _read(self) -> None:
        name = ""
        try:
            self._connection.request("GET", self._path, headers=self._headers)
            self._socket = self._connection.sock
            response = self._connection.getresponse()
            self.status = response.status
            while line := response.readline():
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    self._tell(name, json.loads(line[6:]))
        except (OSError, http.client.HTTPException, ValueError):
            pass  # left
        finally:
            with self._news:
                self.over = True
                self._news.notify_all()

    def _tell(self, name: str, data: Any) -> None:
        with self._news:
            self.events.append((name, data))
            self._news.notify_all()

    def until(self, told: Callable[[], Any]) -> Any:
        """Wait until something is so; what it is then."""
        with self._news:
            assert self._news.wait_for(told, LIMIT), self.events[-3:]
            return told()

    def named(self, name: str) -> list[Any]:
        """The data of all events of that name."""
        return [data for other, data in self.events if other == name]

    @property
    def rows(self) -> dict[str, Any]:
        """The list as the page would show it."""
        return {row["id"]: row for data in self.named("turns") for row in data["rows"]}

    @property
    def latest(self) -> dict[str, Any]:
        """The same with what was told of turns after their end."""
        told = self.named("turns")
        return {row["id"]: row for data in told for row in (*data["rows"], *data.get("updates", ()))}

    def states(self, id: str) -> list[str]:
        """Which states of a turn were told, in order."""
        found = [row["state"] for data in self.named("turns") for row in data["rows"] if row["id"] == id]
        return [state for place, state in enumerate(found) if not place or found[place - 1] != state]

    def leave(self) -> None:
        """Go away, as a page does that is closed."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self._connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self.until(lambda: self.over or self.events)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def watching(url: str, headers: dict[str, str] | None = None) -> Reader:
    """Somebody who looks at the list."""
    return Reader(f"{url}/inspector/live", headers)


def ended(gateway: Inspected, name: str) -> None:
    """Wait until the gateway is through with a turn: it is a moment later than the client."""

    async def over() -> None:
        async with asyncio.timeout(10):
            captures = gateway.inspector.watch.captures
            while name in captures and not captures[name].finished:  # noqa: ASYNC110 — it is the next thing that happens
                await asyncio.sleep(0)

    gateway.call(over())


def bearer(key: str) -> dict[str, str]:
    """The header in which the page sends its key."""
    return {"authorization": f"Bearer {key}"}
