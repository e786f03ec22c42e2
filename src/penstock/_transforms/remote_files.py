"""Files of a stream that are given by their address become data: between decoder and encoder, where it is asked for.

Nothing is fetched here. The function that fetches is given; `penstock.fetch.Fetcher` is one behind a guard. A file that
cannot be fetched, or is of another kind than the stream says, stays an address, with a diagnostic.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from penstock import events as ev
from penstock._diagnostics import Diagnostics
from penstock._media import is_of_kind, sniff_media_type
from penstock.errors import InputError, PenstockError
from penstock.request import File

Fetch: TypeAlias = Callable[[str], Awaitable[File | bytes | None]]
MAX_FILES = 32  # that are fetched for one stream
REMOTE = ("http://", "https://")


class RemoteFiles:
    """The files of one stream. `fill` gives the events with the data of those that were fetched."""

    def __init__(self, fetch: Fetch, limit: int = MAX_FILES) -> None:
        self._fetch = fetch
        self._left = limit
        self._open: dict[int, ev.FileStart] = {}  # that have no data so far
        self._held: ev.FileStart | None = None  # not yet handed on: what is fetched tells its media type
        self.diagnostics: Diagnostics = Diagnostics("fetch")

    async def fill(self, events: Sequence[Any]) -> list[Any]:
        """The events of one batch."""
        out: list[Any] = []
        for event in events:
            if type(event) is ev.FileStart and event.url.lower().startswith(REMOTE) and not event.choice:
                out += self._release()
                self._open[event.index] = self._held = event
            elif type(event) is ev.FileEnd and event.index in self._open:
                out += [*await self._ended(self._open.pop(event.index)), event]
            else:
                if type(event) is ev.FileDelta:
                    self._open.pop(event.index, None)
                out += [*self._release(), event]
        return out

    def _release(self) -> list[Any]:
        """The start that is held: other events come before its end."""
        held, self._held = self._held, None
        return [held] if held is not None else []

    async def _ended(self, start: ev.FileStart) -> list[Any]:
        """The start of a file, if it was held, and its data."""
        is_held = self._held is start
        before = [] if is_held else self._release()
        self._held = None
        file = await self._fetched(start)
        if file is None:
            return [start] if is_held else before
        data = ev.FileDelta(start.index, file.data)
        return [replace(start, media=file.media, url=""), data] if is_held else [*before, data]

    async def _fetched(self, start: ev.FileStart) -> File | None:
        if not self._left:
            self.diagnostics.add("fetch-limit", "more files than are fetched for one stream: the rest stay addresses")
            return None
        self._left -= 1
        try:
            found = await self._fetch(start.url)
            file = _checked(found, start.media)
        except PenstockError as error:
            self.diagnostics.add("fetch-failed", f"a file stays an address: {error}")
        except Exception:  # noqa: BLE001 — a caller's function may raise anything; its text may hold addresses
            self.diagnostics.add("fetch-failed", "a file stays an address: the function that fetches files failed")
        else:
            return file
        return None


def _checked(found: Any, label: str) -> File | None:
    """A fetched file with the media type of its bytes."""
    if found is None:
        raise InputError("nothing was fetched")
    if isinstance(found, bytes | bytearray):
        found = File("", data=b64encode(found).decode())
    if not isinstance(found, File):
        raise InputError(f"expected a File or bytes from the function that fetches, found {type(found).__name__}")
    media = sniff_media_type(found.data) or found.media or label
    if not (is_of_kind(label, found.data) and is_of_kind(media, found.data)):
        raise InputError(f"it is said to be {label if label.strip('*/') else media!r}, and its bytes are not")
    return replace(found, media=media)
