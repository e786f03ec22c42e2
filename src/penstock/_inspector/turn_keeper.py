"""Keeps finished turns on disk: a thread opens a `KeptTurnStore`, encodes turns and writes them to it.

Secrets are removed before anything is written. The thread uses a small share of the time, so that it takes little from
turns that run; captures that wait are bounded, and those that cannot be kept say why. A file that cannot be opened or
written (a full disk, a read-only folder) is tried again with later turns; the first failure is logged.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from penstock._inspector.api_router import encode_redacted
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.request_pieces import join_request, read_short_texts, split_request
from penstock._inspector.turn_texts import read_redacted_answer
from penstock._inspector.work_pace import CpuUse, WorkPace
from penstock._redaction import MARK, redact_bytes
from penstock._store.kept_turns import FILE_ERRORS, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import JSON, STORED, TextPiece
from penstock._store.sqlite import DamagedDatabaseError, remove_database
from penstock._stream_redaction import redact_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from penstock._inspector.keeping_policy import Forgotten
    from penstock._store.kept_turns_missing import MissingTurn

MAX_WAITING = 500  # turns that wait to be written
BATCH, BATCH_BYTES = 20, 4 * 2**20  # turns in a transaction; a larger turn has its own
CLOSE_TIMEOUT = 5.0  # seconds
TRIM_INTERVAL = 60.0  # seconds between two looks for turns that are too old, and for reasons to write
ERASE_INTERVAL = 1.0  # seconds between two attempts to erase deleted text that another reader holds
OPEN_INTERVAL = 30.0  # seconds between two attempts to open a file that could not be opened
OPEN_TIMEOUT = 15.0  # seconds that a reader waits for the file to be opened
log = logging.getLogger("penstock.inspector")


class KeepableTurn(Protocol):
    """A finished turn in memory. `on_disk` is set when it is written."""

    id: str
    on_disk: bool
    dropped: bool
    size: int

    @property
    def tenant(self) -> str: ...

    @property
    def secret(self) -> str: ...

    def to_kept(self) -> KeptTurn: ...


class TurnKeeper:
    """Writes turns to a file. `on_forget` hears of turns that are gone: id, tenant, reason.

    `missing`: other turns that are gone, which others append. They are written with the next turns, or after
    `TRIM_INTERVAL`.
    """

    def __init__(
        self, path: Path, *, size: int, days: float, secrets: Callable[[], Iterable[str]],
        on_forget: Callable[[str, str, Forgotten], None], missing: deque[MissingTurn] | None = None,
    ) -> None:  # fmt: skip
        self.path: Path = path
        self.open_problem: str = ""  # why the file cannot be opened
        self.problem: str = ""  # why the last turns could not be written, or old ones not deleted
        self._size, self._age = size, days * 86_400.0
        self._store: KeptTurnStore | None = None
        self._open_lock = threading.Lock()
        self._is_damaged = False  # so the file cannot be opened
        self._missing: deque[MissingTurn] = deque() if missing is None else missing
        self._tried = threading.Event()  # to open the file
        self._next_try = 0.0
        self._secrets, self._on_forget = secrets, on_forget
        self._waiting: deque[KeepableTurn] = deque()
        self._condition = threading.Condition()
        self._deleted: list[Callable[[KeepableTurn], bool]] = []  # which turns of the batch are deleted meanwhile
        self._busy = self._closing = self._flushing = self._erasing = False
        self._thread = threading.Thread(target=self._run, name="penstock-turn-keeper", daemon=True)
        self._thread.start()

    def find_store(self) -> KeptTurnStore | None:
        """Returns the file; None if it cannot be opened. Waits until that was tried: not for the event loop."""
        self._tried.wait(OPEN_TIMEOUT)
        store = self._store
        if store is not None and store.is_replaced:  # by another process, which has emptied it
            self._open()
        return self._store

    @property
    def waits(self) -> bool:
        """True if turns wait to be written."""
        return bool(self._waiting)

    @property
    def may_hold_deleted(self) -> bool:
        """True if deleted text may still be in the file's WAL."""
        return self._store is not None and self._store.may_hold_deleted

    def add(self, turn: KeepableTurn) -> bool:
        """Writes a turn soon. False if too many wait. Called for every turn."""
        if len(self._waiting) >= MAX_WAITING or self._closing:
            return False
        with self._condition:
            self._waiting.append(turn)
            if len(self._waiting) == 1:
                self._condition.notify_all()
        return True

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until all turns are written, without pauses. False if that takes too long."""
        with self._condition:
            self._flushing = True
            self._condition.notify_all()
            done = self._condition.wait_for(lambda: not self._waiting and not self._busy, timeout)
            self._flushing = False
            return done

    def close(self) -> None:
        """Writes what waits, within `CLOSE_TIMEOUT`, and closes the file."""
        self.flush(CLOSE_TIMEOUT)
        with self._condition:
            self._closing = True
            self._waiting.clear()
            self._condition.notify_all()
        self._thread.join(CLOSE_TIMEOUT)
        if self._store is not None and not self._thread.is_alive():
            self._store.close()

    def delete_turns(self, ids: Collection[str] | None, tenant: str | None) -> dict[str, str]:
        """Deletes turns from the file, and those that wait. Returns the tenants of those that were written."""

        def is_wanted(turn: KeepableTurn) -> bool:
            return (ids is None or turn.id in ids) and tenant in {None, turn.tenant}

        with self._condition:
            left = [turn for turn in self._waiting if not is_wanted(turn)]
            self._waiting.clear()
            self._waiting.extend(left)
            if not self._condition.wait_for(lambda: not self._busy, CLOSE_TIMEOUT):
                self._deleted.append(is_wanted)  # the batch that is being written may hold some
        store = self.find_store()
        if store is None and self._is_damaged and ids is None and tenant is None:
            self._replace_damaged()
            return {}
        if store is None:
            raise OSError(self.open_problem)
        deleted = store.delete_turns(ids, tenant)
        with self._condition:
            self._erasing = store.may_hold_deleted  # wakes the thread, which tries again
            self._condition.notify_all()
        if ids is None and tenant is None:  # a damaged file is empty now
            self.problem = ""
        return deleted

    def _replace_damaged(self) -> None:
        """Removes a file that cannot be opened, because it is damaged. The next turns make a new one."""
        with self._open_lock:
            log.warning("%s is removed: it is damaged", self.path)
            remove_database(self.path)
            self._is_damaged, self._next_try = False, 0.0
        self._open()

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        self._open()
        pace = WorkPace(CpuUse())
        while True:
            with self._condition:
                self._busy = self._erasing = False
                self._deleted.clear()
                self._condition.notify_all()
                self._pause(pace)
                interval = ERASE_INTERVAL if self.may_hold_deleted else TRIM_INTERVAL
                self._condition.wait_for(lambda: self._waiting or self._closing or self._erasing, interval)
                if self._closing and not self._waiting:
                    break
                batch, self._busy = self._take_batch(), True
            began = time.thread_time()
            self._write_batch(batch)
            pace.used = time.thread_time() - began
        with suppress(*FILE_ERRORS):
            self._write_missing()

    def _pause(self, pace: WorkPace) -> None:
        while (pause := pace.next_pause()) > 0:
            if self._condition.wait_for(lambda: self._closing or self._flushing, pause):
                return

    def _take_batch(self) -> list[KeepableTurn]:
        """Takes the turns of the next transaction, so few that it is short: others wait for the lock of the file."""
        batch: list[KeepableTurn] = []
        size = 0
        while self._waiting and len(batch) < BATCH:
            size += self._waiting[0].size
            if batch and size > BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _open(self) -> None:
        """Opens the file, if it is time to try, or if the one that is open was replaced."""
        with self._open_lock:
            if self._store is not None and self._store.is_replaced:
                self._store.close()
                self._store = None
            if self._store is None and time.monotonic() >= self._next_try:
                self._try_to_open()

    def _try_to_open(self) -> None:
        self._next_try = time.monotonic() + OPEN_INTERVAL
        try:
            self._store = KeptTurnStore(self.path, size=self._size, age=self._age)
            self.open_problem, self._next_try = "", 0.0
        except Exception as error:  # noqa: BLE001 — the thread tries again
            if not self.open_problem:
                log.error("turns cannot be kept on disk: %s", error)  # noqa: TRY400 — the message says all
            self.open_problem = f"turns cannot be kept on disk: {error}"
            self._is_damaged = isinstance(error, DamagedDatabaseError)
        finally:
            self._tried.set()

    def _write_missing(self) -> None:
        """Writes the reasons of turns that are gone. They stay in the queue if that fails."""
        if not self._missing or self._store is None:
            return
        missing = [self._missing.popleft() for _ in range(len(self._missing))]  # others append meanwhile
        try:
            self._store.write_missing(missing)
        except BaseException:
            self._missing.extendleft(reversed(missing))
            raise

    def _write_batch(self, batch: list[KeepableTurn]) -> None:
        """Writes turns, and deletes old ones. Nothing that fails ends the thread."""
        left = {turn.id: turn.tenant for turn in batch}
        try:
            self._open()
            if self._store is not None:
                self._write(self._store, batch, left)
                self._write_missing()
        except FILE_ERRORS as error:
            self._report(f"the file cannot be written: {error}")
            if self._store is not None:
                self._tell_removals(self._store)
        except Exception:
            log.exception("turns were not kept on disk")
            self.problem = "the last turns were not kept on disk (the log says why)"
        for name, tenant in left.items():
            self._on_forget(name, tenant, "disk-error")

    def _write(self, store: KeptTurnStore, batch: list[KeepableTurn], left: dict[str, str]) -> None:
        """Writes turns. Those that are done with are removed from `left`."""
        rows = self._encode_batch(batch, left)
        removed = store.write_turns([row for _, row in rows]) if rows else store.trim()
        with self._condition:
            late = [turn.id for turn, _ in rows if any(is_deleted(turn) for is_deleted in self._deleted)]
        if late:
            store.delete_turns(late)
        for turn, _ in rows:
            turn.on_disk = True
            left.pop(turn.id, None)
        if store.trim_problem:
            self._report(f"old turns cannot be deleted: {store.trim_problem}")
        elif rows:
            self.problem = ""
        for name, tenant, reason in removed:
            self._on_forget(name, tenant, reason)

    def _encode_batch(self, batch: list[KeepableTurn], left: dict[str, str]) -> list[tuple[KeepableTurn, KeptTurnRow]]:
        known = tuple(self._secrets())
        rows: list[tuple[KeepableTurn, KeptTurnRow]] = []
        for turn in batch:
            try:
                kept = turn.to_kept()
                if turn.dropped:  # while it waited, or meanwhile
                    left.pop(turn.id, None)
                    self._on_forget(turn.id, turn.tenant, "disk-busy")
                    continue
                rows.append((turn, encode_turn(kept, (*known, turn.secret) if turn.secret else known)))
            except Exception:
                log.exception("a turn was not kept on disk")
        return rows

    def _tell_removals(self, store: KeptTurnStore) -> None:
        """Deletes turns that are too old also while none can be written."""
        for name, tenant, reason in store.trim():
            self._on_forget(name, tenant, reason)

    def _report(self, problem: str) -> None:
        """Keeps a problem for the page, and logs the first of several."""
        if not self.problem:
            log.error("%s: %s", self.path, problem)
        self.problem = problem


# ── the form in the file ──────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct, array_like=True):
    """What is stored of a turn beside its texts. `facts` is the `KeptTurn` as JSON, without bytes."""

    facts: bytes
    templates: list[bytes]  # of the client's request, and of each attempt's
    times: list[float | None]
    chunks: list[bytes]
    notices: list[bytes]


_MARK = MARK.encode()
_encode_body = msgspec.msgpack.Encoder().encode
_decode_body = msgspec.msgpack.Decoder(_Body).decode
_decode_facts = msgspec.json.Decoder(KeptTurn).decode


def encode_turn(turn: KeptTurn, secrets: tuple[str, ...]) -> KeptTurnRow:
    """Returns the form of a turn in the file, without secrets."""
    cleaned = redact_bytes(turn.request, secrets)  # before it is split: the name of a secret is not in its piece
    template, pieces = split_request(cleaned)
    templates, request = [template], [TextPiece(piece, JSON) for piece in pieces]
    chunks, hidden = redact_chunks([(at or 0.0, chunk) for at, chunk in turn.chunks], secrets)
    data = [chunk for _, chunk in chunks]
    answer = read_redacted_answer(turn, data, secrets, is_redacted=True)
    if answer is not None:
        request.append(answer)
    texts = read_short_texts(template)
    if texts:
        request.append(TextPiece(texts, JSON))  # to be searched only
    paths = [request]
    for attempt in turn.attempts:
        split = split_request(redact_bytes(attempt.body.encode("utf-8", "replace"), secrets))
        templates.append(split.template)
        paths.append([TextPiece(piece, STORED) for piece in split.pieces])
    hidden += max(cleaned.count(_MARK) - turn.request.count(_MARK), 0)
    facts = replace(
        turn, request=b"", chunks=[], notices=(), attempts=[replace(one, body="") for one in turn.attempts],
        hidden=hidden, pieces=len(pieces),
    )  # fmt: skip
    body = _Body(
        encode_redacted(facts, secrets),
        templates,
        [at for at, _ in turn.chunks],
        data,
        [redact_bytes(notice, secrets) for notice in turn.notices],
    )
    packed, cut = zlib.compress(_encode_body(body), 6), turn.request_cut or turn.cut
    return KeptTurnRow(turn.id, turn.tenant, turn.entry.time, packed, paths, cut)


def decode_turn(data: bytes, paths: list[list[TextPiece]]) -> KeptTurn:
    """Returns the turn that `encode_turn` has encoded."""
    body = _decode_body(zlib.decompress(data))
    turn = _decode_facts(body.facts)
    bodies = [[text.body for text in texts] for texts in paths]
    turn.request = join_request(body.templates[0], bodies[0][: turn.pieces])
    turn.chunks = list(zip(body.times, body.chunks, strict=True))
    turn.notices = tuple(body.notices)
    for attempt, template, pieces in zip(turn.attempts, body.templates[1:], bodies[1:], strict=True):
        attempt.body = join_request(template, pieces).decode("utf-8", "replace")
    return turn
