"""Clients of several processes that hear of each other's cool-downs and open circuits, when a test says so.

The boards are in memory; `tests/wire/gateway/test_replica_notices.py` has them in Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock._engines.shared_targets import SharedTargets

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engines.router import Router
    from tests.support.routed_client import Clock, RoutedClient


class Notice(NamedTuple):
    owner: str
    value: str
    seconds: float


class Board:
    """The notices of one process, by name."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rows: dict[str, tuple[str, float]] = {}

    def publish(self, name: str, value: str, seconds: float) -> None:
        self.rows[name] = (value, self.clock.now + seconds)

    def withdraw(self, name: str) -> None:
        self.rows.pop(name, None)

    def notices(self, owner: str) -> list[Notice]:
        live = [(value, until - self.clock.now) for value, until in self.rows.values()]
        return [Notice(owner, value, left) for value, left in live if left > 0]


class Neighbours:
    """Clients that hear of each other when `exchange` is called."""

    def __init__(self, *clients: RoutedClient, clock: Clock) -> None:
        self.boards = [Board(clock) for _ in clients]
        self._sides = [
            SharedTargets(board, _always(one.router)) for board, one in zip(self.boards, clients, strict=True)
        ]

    def exchange(self) -> None:
        for side, own in zip(self._sides, self.boards, strict=True):
            others = [(f"p{number}", board) for number, board in enumerate(self.boards) if board is not own]
            side.adopt([row for name, board in others for row in board.notices(name)])

    def tell_first(self, *notices: Notice) -> None:
        """The first client finds these notices."""
        self._sides[0].adopt(notices)


def _always(router: Router) -> Callable[[], Router]:
    return lambda: router
