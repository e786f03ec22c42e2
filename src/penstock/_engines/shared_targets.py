"""Cool-downs and open circuits that processes tell each other, such as the replicas of a gateway over Redis.

Only those of the configured keys: a caller's own key is nobody else's concern. Error messages stay in their process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from penstock._engines.deployments import MAX_COOL_DOWN, CoolDown
from penstock._engines.failure_policy import CircuitKey, SharedCircuit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engines.target_loop import TargetLoop


class NoticeBoard(Protocol):
    """Where processes leave notices for each other, by name. Both methods return at once."""

    def publish(self, name: str, value: str, seconds: float) -> None:
        """Leaves a notice for so many seconds."""
        ...

    def withdraw(self, name: str) -> None:
        """Takes a notice back."""
        ...


class FoundNotice(Protocol):
    """A notice of another process."""

    @property
    def owner(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def seconds(self) -> float: ...


class TargetNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process says about a target. `seconds`: how long the notice holds from its beginning."""

    kind: Literal["cool-down", "circuit"]
    provider: str
    model: str
    seconds: float
    why: str = ""
    stated: bool = False
    streak: int = 0
    opened: int = 0

    @property
    def key(self) -> CircuitKey:
        return CircuitKey(self.provider, self.model)

    @property
    def name(self) -> str:
        """The name among the notices of a process."""
        return f"{self.kind}:{self.provider}/{self.model}"


_decode = msgspec.json.Decoder(TargetNotice).decode


class SharedTargets:
    """A `TargetPublisher` over a board, and what the board says for a router. `router` returns the current one."""

    def __init__(self, board: NoticeBoard, router: Callable[[], TargetLoop]) -> None:
        self._board, self._router = board, router
        current = router()
        current.deployments.shared = current.breakers.shared = self

    def publish_cool_down(self, key: CircuitKey, seconds: float, why: str, *, stated: bool) -> None:
        self._publish(TargetNotice("cool-down", key.provider, key.model, seconds, why=why, stated=stated))

    def publish_circuit(self, key: CircuitKey, streak: int, opened: int, seconds: float) -> None:
        self._publish(TargetNotice("circuit", key.provider, key.model, seconds, streak=streak, opened=opened))

    def withdraw_circuit(self, key: CircuitKey) -> None:
        self._board.withdraw(TargetNotice("circuit", key.provider, key.model, 0.0).name)

    def _publish(self, notice: TargetNotice) -> None:
        self._board.publish(notice.name, msgspec.json.encode(notice).decode(), notice.seconds)

    def adopt(self, found: Sequence[FoundNotice]) -> None:
        """Takes what the other processes say now. A notice that cannot be read is ignored: versions differ."""
        router = self._router()
        now, cool_downs = router.deployments.clock(), dict[CircuitKey, CoolDown]()
        circuits: dict[CircuitKey, list[SharedCircuit]] = {}
        for one in found:
            try:
                notice = _decode(one.value)
            except msgspec.DecodeError:
                continue
            left = min(one.seconds, MAX_COOL_DOWN)
            if notice.kind == "circuit":
                age = max(0.0, notice.seconds - one.seconds)
                row = SharedCircuit(f"{one.owner}:{notice.streak}", max(1, notice.opened), age, left)
                circuits.setdefault(notice.key, []).append(row)
                continue
            cool_down = CoolDown(now + left, f"{notice.why} (another process was told)", notice.stated)
            if notice.key not in cool_downs or cool_downs[notice.key].until < cool_down.until:
                cool_downs[notice.key] = cool_down
        router.deployments.adopt(cool_downs)
        router.breakers.adopt(circuits)
