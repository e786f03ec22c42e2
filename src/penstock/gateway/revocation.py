"""Ends what a caller began with a gateway key that is revoked meanwhile: streams, turns, connections, feeds.

Requests are checked when they come. What lasts longer registers here, and is ended within a second of the change.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from penstock.gateway.keys import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock.events import Fault
    from penstock.gateway.access import Access, Caller

    End = Callable[[Fault], None]


_UNGUARDED = nullcontext()


class Revocations:
    """All that runs with a key. Looks for changed keys every `LOOK` seconds while there is anything."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._running: dict[object, tuple[Caller, End, bool]] = {}
        self._seen = access.keys_version
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running)

    def guard(self, caller: Caller | None, end: End, *, open_ended: bool = False) -> AbstractContextManager[None]:
        """Call `end`, once, if the caller's key is revoked before this is left. See `Access.revoked`."""
        if caller is None or not (caller.key_hash or open_ended):
            return _UNGUARDED
        return self._guarded(caller, end, open_ended=open_ended)

    @contextmanager
    def _guarded(self, caller: Caller, end: End, *, open_ended: bool) -> Generator[None]:
        fault = self._access.revoked(caller, open_ended=open_ended)
        if fault is not None:  # revoked between the request's head and now
            end(fault)
            yield
            return
        name = object()
        self._running[name] = (caller, end, open_ended)
        self._watch()
        try:
            yield
        finally:
            self._running.pop(name, None)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._tick)

    def _tick(self) -> None:
        self._timer = None
        version = self._access.keys_version
        if version != self._seen:
            self._seen = version
            self._end_revoked()
        if self._running:
            self._watch()

    def _end_revoked(self) -> None:
        for name, (caller, end, open_ended) in list(self._running.items()):
            fault = self._access.revoked(caller, open_ended=open_ended)
            if fault is not None:
                self._running.pop(name, None)
                end(fault)
