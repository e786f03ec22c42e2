"""Who watches, and what they are shown of the turns that go by. As long as nobody does, nothing is done for it.

While somebody watches, `services.watch` is this, every new turn that is going to be shown has a `Tap`, and those who
listen are told which turns have changed; they fetch the rows when they are ready to. All in memory, within bounds; all
in the event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.inspector import rows
from penstock.inspector.tap import Tap

if TYPE_CHECKING:
    from penstock.gateway.turn import Turn
    from penstock.store.journal import Turn as Noted

TURNS = 200  # that are over and still held
TOTAL = 64 * 2**20  # bytes of all of them
LINGER = 300.0  # seconds that turns are held for when nobody watches any more
FRESH = 100  # turns that wait for one listener: nobody reads more at once, and the rest is only counted


class Listener:
    """One who watches the list. `news` is set when there is something to fetch."""

    def __init__(self, tenant: str | None) -> None:
        self.tenant = tenant
        self.news = asyncio.Event()
        self.missed = 0  # turns that went by too fast to be told of, since the last time
        self._fresh: dict[str, Noted | None] = {}
        self._going: set[str] = set()  # that it was told are going on: it will be told of their end

    def sees(self, tenant: str) -> bool:
        """Whether it may see the turns of a tenant."""
        return self.tenant is None or self.tenant == tenant

    def wants(self, tenant: str) -> bool:
        """Whether a turn that begins now will be told of: only such a turn is worth being held."""
        return len(self._fresh) < FRESH and self.sees(tenant)

    def told(self, id: str, tenant: str, row: Noted | None = None) -> None:
        """A turn has changed. `row`: it is over."""
        if not self.sees(tenant):
            return
        if len(self._fresh) >= FRESH and id not in self._fresh and id not in self._going:
            self.missed += row is not None
            return
        self._fresh[id] = row
        self.news.set()

    def fetch(self) -> dict[str, Noted | None]:
        """All that changed since the last time."""
        fresh, self._fresh = self._fresh, {}
        self.news.clear()
        for name, row in fresh.items():
            (self._going.add if row is None else self._going.discard)(name)
        return fresh


class Watch:
    """All taps, the oldest first, and all listeners."""

    def __init__(self, services: Any) -> None:
        self.taps: OrderedDict[str, Tap] = OrderedDict()
        self.size = 0
        self.closed = False
        self._services = services
        self._loop: Any = None
        self._listeners: set[Listener] = set()
        self._timer: asyncio.TimerHandle | None = None

    # ── who watches ───────────────────────────────────────────────────────────────────────────────

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def enter(self, tenant: str | None) -> Listener:
        """Somebody watches. `tenant`: whose turns; None is everybody's."""
        self._loop = asyncio.get_running_loop()
        made = Listener(tenant)
        self._listeners.add(made)
        self._services.watch = self
        self._services.estimates.told = self._estimated
        if self._timer is not None:
            self._timer.cancel()
        return made

    def leave(self, listener: Listener) -> None:
        """Somebody has gone. What is held stays a while for those who come back."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._services.watch = self._services.estimates.told = None
            self._timer = asyncio.get_running_loop().call_later(LINGER, self.clear)

    def clear(self) -> None:
        """Forget all that is over."""
        for tap in list(self.taps.values()):
            if tap.over:
                self._drop(tap)

    def close(self) -> None:
        """The gateway stops: whoever listens is let go."""
        self.closed = True
        for listener in self._listeners:
            listener.news.set()
        for tap in self.taps.values():
            tap.tell()

    # ── what goes by ──────────────────────────────────────────────────────────────────────────────

    def begin(self, turn: Turn) -> Tap | None:
        """A turn has begun. Where there are too many to be shown, it is only counted in the end."""
        tenant = turn.visit.caller.tenant
        for listener in self._listeners:
            if listener.wants(tenant):
                return self._tapped(turn)
        return None

    def _tapped(self, turn: Turn) -> Tap:
        tap = self.taps[turn.visit.id] = Tap(turn, self)
        if len(self.taps) > TURNS:
            self._forget()
        self._tell(tap.id, tap.tenant)
        return tap

    def changed(self, tap: Tap) -> None:
        """Its answer has begun."""
        self._tell(tap.id, tap.tenant)

    def noted(self, row: Noted) -> None:
        """Something is over, or more is known of it."""
        tap = self.taps.get(row.request_id)
        if tap is not None and tap.row is not None:
            tap.row = row
        self._tell(row.request_id, row.tenant, row)

    def _estimated(self, row: Noted) -> None:
        """In the thread that estimates."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.noted, row)

    def _tell(self, id: str, tenant: str, row: Noted | None = None) -> None:
        for listener in self._listeners:
            listener.told(id, tenant, row)

    # ── bounds ────────────────────────────────────────────────────────────────────────────────────

    def took(self, tap: Tap, size: int) -> None:
        """A tap has grown. The oldest that are over make room; if none is, the one that grew is dropped."""
        self.size += size
        if self.size > TOTAL:
            for old in list(self.taps.values()):
                if self.size <= TOTAL:
                    return
                if old.over:
                    self._drop(old)
            if self.size > TOTAL:
                self.size -= tap.drop()

    def _forget(self) -> None:
        """No more turns than there is room for; those that go on stay."""
        first = next(iter(self.taps.values()))
        if first.over:  # as most often
            self._drop(first)
            return
        over = next((tap for tap in self.taps.values() if tap.over), None)
        if over is not None:
            self._drop(over)

    def _drop(self, tap: Tap) -> None:
        self.size -= tap.drop()
        del self.taps[tap.id]

    # ── for those who look ────────────────────────────────────────────────────────────────────────

    def get(self, id: str, tenant: str | None) -> Tap | None:
        """A turn that is held, if it is one that may be seen."""
        tap = self.taps.get(id)
        return tap if tap is not None and tenant in {None, tap.tenant} else None

    def row(self, id: str, noted: Noted | None) -> rows.Row | None:
        """A turn as it is now."""
        tap = self.taps.get(id)
        if tap is not None:
            return tap.shown()
        return rows.of_journal(noted, held=False) if noted is not None else None

    def going(self, tenant: str | None) -> list[rows.Row]:
        """Those that go on now."""
        return [tap.shown() for tap in self.taps.values() if not tap.over and tenant in {None, tap.tenant}]
