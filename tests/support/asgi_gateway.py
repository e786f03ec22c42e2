"""A gateway without a socket: a request is an ASGI scope, so it comes from whichever address a test says."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import httpx

from penstock._gateway.access_log import AccessLog
from penstock.gateway import App
from tests.support.gateway import journal_rows, read_config

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE: dict[str, Any] = {"serve": {"pace": 0.0}, "journal": {"path": "memory"}, "state": {"path": "memory"}}


class AsgiGateway:
    """Keyword arguments are tables of penstock.toml. `log`: the form of an access log, which `lines` gives."""

    def __init__(self, *, env: Mapping[str, str] | None = None, log: Any = "off", **tables: Any) -> None:
        self.app = App(read_config(**BASE | tables), env=env or {})
        self._log: AccessLog | None = None
        if log != "off":
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 — closed with the gateway
            self._log = AccessLog(self.app, log, self.app.services, self._file.fileno())
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self.app.services.aclose())
        self._runner.close()
        if self._log is not None:
            self._log.close()
            self._file.close()

    def ask(
        self,
        path: str = "/v1/models",
        body: Any = None,
        *,
        method: str = "",
        client: str | None = "127.0.0.1",
        version: str = "1.1",
        **headers: str | None,
    ) -> httpx.Response:
        """Ask. A header's name is written with `_` for `-`; one that is None is not sent."""
        sent = {"host": "127.0.0.1:4480", **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method or ("GET" if body is None else "POST"), "http_version": version,
            "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
            "client": (client, 5000) if client else None, "server": ("127.0.0.1", 4480), "scheme": "http",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items() if value is not None],
        }  # fmt: skip
        return self._runner.run(self._call(scope, data))

    async def _call(self, scope: dict[str, Any], data: bytes) -> httpx.Response:
        """Send one request, as a server does, whose client waits for all of the response."""
        said: list[Any] = []
        asked = [{"type": "http.request", "body": data, "more_body": False}]
        left = asyncio.Event()

        async def receive() -> Any:
            if not asked:
                await left.wait()
            return asked.pop() if asked else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        await (self._log or self.app)(scope, receive, send)
        start, *parts = said
        return httpx.Response(start["status"], headers=start["headers"], content=b"".join(one["body"] for one in parts))

    def status(self, path: str = "/v1/models", body: Any = None, **more: Any) -> int:
        return self.ask(path, body, **more).status_code

    def refusal(self, path: str = "/v1/models", body: Any = None, **more: Any) -> tuple[int, str]:
        """The status of a request that is refused, and the code of its error."""
        reply = self.ask(path, body, **more)
        return reply.status_code, reply.json()["error"]["code"]

    def reload(self, **tables: Any) -> None:
        """Replace the configuration of the running gateway."""
        self.app.services.reload(read_config(**BASE | tables))

    def set_clock(self, now: float) -> None:
        """Have the daily budget, and the windows of an editor, take it to be this time."""
        services: Any = self.app.services
        services.budget._clock = services.editor_keys._clock = lambda: now

    def rows(self, limit: int = 1000) -> list[Any]:
        """The journal's rows so far, the last first."""
        return journal_rows(self.app, limit)

    def lines(self) -> list[bytes]:
        """The access log. Nothing may be asked afterwards."""
        assert self._log is not None
        self._log.close()
        self._file.seek(0)
        return self._file.read().splitlines()
