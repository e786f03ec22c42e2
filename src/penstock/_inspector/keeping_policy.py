"""Decides whose turns are kept, remembers what was forgotten, and says why a turn has no content.

Reasons are remembered in memory, and written to the file of kept turns, if there is one.

On a gateway that only this machine can reach, and that has no team keys, all turns are kept. With team keys only those
of keys that opt in (`inspect_keep`). The key that a gateway was started with is not a team key.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock._gateway.callers import is_loopback
from penstock._gateway.worker_metrics import WorkerMetrics
from penstock._store.kept_turns_missing import DELETED, MissingTurn

if TYPE_CHECKING:
    from penstock._gateway.callers import Caller
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.services import Services
    from penstock._store.journal import JournalEntry
    from penstock._store.kept_turns_missing import MissingReason

MAX_FORGOTTEN = 20_000  # turns whose reason is remembered, the newest
Forgotten: TypeAlias = Literal[
    "memory", "too-large", "deleted", "paused", "unwatched", "disk-full", "disk-age", "disk-busy", "disk-error"
]
REASONS: dict[Forgotten, str] = {
    "memory": "newer turns took its place in memory ({memory} MB)",
    "too-large": "it was dropped because too much went on at once for the memory of the inspector ({memory} MB)",
    "deleted": "it was deleted on the inspector's page",
    "paused": "keeping was paused when it began",
    "unwatched": "nobody has watched for {minutes} minutes, and this gateway keeps no turns of this key",
    "disk-full": "newer turns took its place on disk ({disk} MB)",
    "disk-age": "it is older than {days:g} days, and older turns are deleted",
    "disk-busy": "too many turns came at once to keep them all on disk, and newer ones took its place in memory",
    "disk-error": "it could not be written to disk (the log says why), and newer turns took its place in memory",
}
_RESTARTED = "the gateway was restarted since, and turns were kept in memory only"
_RESTARTED_WITH_DISK = (
    "the gateway was restarted since; it was in memory only, or it was deleted, or newer turns took its place on disk"
)
_RESTARTED_NOT_ON_DISK = "the gateway was restarted since, and it was not written to disk"
_OTHER_WORKER = "another worker of this gateway may have it in memory (open it again, or keep turns on disk)"
_OTHER_WORKER_WITH_DISK = (
    "another worker of this gateway may have it in memory (open it again), or it was deleted, or newer turns took its "
    "place on disk"
)
_WRITTEN = frozenset({"disk-age", "disk-full"})  # the file remembers these by itself
_KEY_OPTED_OUT = (
    "turns of the key {key!r} are not kept, and nobody watched: `penstock keys edit {key} --inspect-keep on` keeps them"
)
_PUBLIC = "a gateway that other machines can reach keeps no turns without keys, and nobody watched"


class KeepingPolicy:
    """Whose turns are kept. `paused`: nothing is, until somebody resumes it."""

    def __init__(self, services: Services, *, memory: int, minutes: float) -> None:
        self.paused: bool = False
        self.started: float = time.time()
        self._services, self._memory, self._minutes = services, memory >> 20, minutes
        self._config: GatewayConfig | None = None
        self._keys_version, self._keeps_all = -1, False
        self.forgotten: OrderedDict[str, Forgotten] = OrderedDict()
        self.unwritten: deque[MissingTurn] = deque(maxlen=MAX_FORGOTTEN)  # reasons that are not in the file yet

    def keeps(self, caller: Caller) -> bool:
        """True if the turns of a caller are kept whether or not somebody watches. Called for every turn."""
        if self.paused:
            return False
        services = self._services
        if services.access.ring.version != self._keys_version or services.config is not self._config:
            self._read_config()
        return self._keeps_all or caller.keeps_turns

    @property
    def keeps_all(self) -> bool:
        """True if the turns of all callers are kept."""
        self._read_config()
        return self._keeps_all

    def _read_config(self) -> None:
        ring, config = self._services.access.ring, self._services.config
        self._keys_version, self._config = ring.version, config
        self._keeps_all = is_loopback(config.serve.host) and not ring.has_team_keys

    # ── what was forgotten ────────────────────────────────────────────────────────────────────────

    def forget(self, id: str, reason: Forgotten) -> None:
        """Remembers why a turn has no content any more. A deletion stays the reason."""
        if self.forgotten.get(id) == DELETED:
            return
        self.forgotten[id] = reason
        self.forgotten.move_to_end(id)
        if reason not in _WRITTEN:
            self.unwritten.append(MissingTurn(id, reason))
        if len(self.forgotten) > MAX_FORGOTTEN:
            self.forgotten.popitem(last=False)

    @property
    def has_other_workers(self) -> bool:
        """True if this process is one of several, each with a memory of its own."""
        return self._services.metrics.shared is not None

    def _read_start(self) -> float:
        """Returns when the gateway was started. One of several workers may have been started later."""
        shared = self._services.metrics.shared
        return shared.read_start() if isinstance(shared, WorkerMetrics) else self.started

    def explain(
        self, entry: JournalEntry, *, disk: int, days: float, is_disk_used: bool, missing: MissingReason | None = None
    ) -> str:
        """Returns why a turn has no content.

        `disk`, `days`: the bounds of what is kept on disk. `missing`: what the file tells of the turn.
        """
        is_older = entry.time < self.started
        reason = self.forgotten.get(entry.request_id) or _reason_of(missing)
        if reason is None and is_older and is_disk_used and entry.time < time.time() - days * 86_400.0:
            reason = "disk-age"
        if reason is not None:
            return REASONS[reason].format(memory=self._memory, minutes=f"{self._minutes:g}", disk=disk >> 20, days=days)
        if entry.time < self._read_start():
            return _explain_restart(entry, missing, is_disk_used=is_disk_used)
        if not self.keeps_all:
            match = self._services.access.ring.find_name(entry.key)
            if match is None or not match.key.inspect_keep:
                return _KEY_OPTED_OUT.format(key=entry.key) if self._services.access.keyed else _PUBLIC
        if self.has_other_workers:
            return _OTHER_WORKER_WITH_DISK if is_disk_used else _OTHER_WORKER
        return REASONS["memory"].format(memory=self._memory)


def _reason_of(missing: MissingReason | None) -> Forgotten | None:
    """Returns the reason that the file tells; None if it tells none that is known here."""
    return next((one for one in REASONS if missing is not None and one == missing.reason), None)


def _explain_restart(entry: JournalEntry, missing: MissingReason | None, *, is_disk_used: bool) -> str:
    if not is_disk_used:
        return _RESTARTED
    # The file has the reasons of all turns that it had since a time. Of older ones it may have forgotten them.
    is_complete = missing is not None and entry.time >= missing.since
    return _RESTARTED_NOT_ON_DISK if is_complete else _RESTARTED_WITH_DISK
