"""Keeps finished turns on disk: a thread encodes them and writes them to a `KeptTurnStore`.

Secrets are removed before anything is written. The thread uses a small share of the time, so that it takes little from
turns that run; captures that wait are bounded, and those that cannot be kept say why.
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

from penstock._gateway.recordings import redact_chunks
from penstock._inspector.api_router import encode_redacted
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.request_pieces import join_request, split_request
from penstock._inspector.turn_texts import answer_piece
from penstock._redaction import redact_bytes
from penstock._store.kept_turns import FILE_ERRORS, KeptTurnRow, KeptTurnStore, RemovedTurn
from penstock._store.kept_turns_index import JSON, STORED, WORDS, TextPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from penstock._inspector.keeping_policy import Forgotten

MAX_WAITING = 500  # turns that wait to be written
BATCH = 20  # turns in a transaction
IDLE_SHARE, BUSY_SHARE = 0.2, 0.02  # of the time that the thread may use
BUSY = 0.4  # of a core that the rest of the gateway uses: then it is busy
MAX_PAUSE = 5.0  # seconds between two transactions
CLOSE_TIMEOUT = 5.0  # seconds
TRIM_INTERVAL = 600.0  # seconds between two looks for turns that are too old
log = logging.getLogger("penstock.inspector")


class KeepableTurn(Protocol):
    """A finished turn in memory. `on_disk` is set when it is written."""

    id: str
    tenant: str
    on_disk: bool
    dropped: bool
    secret: str

    def to_kept(self) -> KeptTurn: ...


class CpuUse:
    """Measures how much of a core the other threads of this process use."""

    def __init__(self) -> None:
        self._last = self._read()

    @staticmethod
    def _read() -> tuple[float, float]:
        return time.monotonic(), time.process_time() - time.thread_time()

    def measure(self) -> float:
        """Returns the share of a core since the last measurement."""
        (then, used_then), (now, used_now) = self._last, self._read()
        self._last = (now, used_now)
        return (used_now - used_then) / max(now - then, 1e-6)


class TurnKeeper:
    """Writes turns to a file. `on_forget` hears of turns that are gone: id, tenant, reason."""

    def __init__(
        self, path: Path, *, size: int, days: float, secrets: Callable[[], Iterable[str]],
        on_forget: Callable[[str, str, Forgotten], None],
    ) -> None:  # fmt: skip
        self.store: KeptTurnStore = KeptTurnStore(path, size=size, age=days * 86_400.0)
        self.problem: str = ""  # why the last turns could not be written
        self._secrets, self._on_forget = secrets, on_forget
        self._waiting: deque[KeepableTurn] = deque()
        self._condition = threading.Condition()
        self._busy = self._closing = self._flushing = False
        self._thread = threading.Thread(target=self._run, name="penstock-turn-keeper", daemon=True)
        self._thread.start()

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
        if not self._thread.is_alive():
            self.store.close()

    def delete_turns(self, ids: Collection[str] | None, tenant: str | None) -> dict[str, str]:
        """Deletes turns from the file, and those that wait. Returns the tenants of those that were written."""

        def is_wanted(turn: KeepableTurn) -> bool:
            return (ids is None or turn.id in ids) and tenant in {None, turn.tenant}

        with self._condition:
            left = [turn for turn in self._waiting if not is_wanted(turn)]
            self._waiting.clear()
            self._waiting.extend(left)
            self._condition.wait_for(lambda: not self._busy, CLOSE_TIMEOUT)  # the batch that is being written
        return self.store.delete_turns(ids, tenant)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def read_turn(self, id: str, tenant: str | None) -> KeptTurn | None:
        """Returns a turn of the file, if the tenant may see it."""
        found = self.store.read_turn(id, tenant)
        return decode_turn(*found) if found is not None else None

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        pause, last = 0.0, CpuUse()
        while True:
            with self._condition:
                self._busy = False
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._closing or self._flushing, pause)
                self._condition.wait_for(lambda: self._waiting or self._closing, TRIM_INTERVAL)
                if self._closing and not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._busy = True
            began = time.thread_time()
            self._write(batch)
            used = time.thread_time() - began
            share = BUSY_SHARE if last.measure() > BUSY else IDLE_SHARE
            pause = min(used * (1 / share - 1), MAX_PAUSE)

    def _write(self, batch: list[KeepableTurn]) -> None:
        known = tuple(self._secrets())
        rows: list[tuple[KeepableTurn, KeptTurnRow]] = []
        for turn in batch:
            try:
                kept = turn.to_kept()
                if turn.dropped:  # while it waited, or meanwhile
                    self._on_forget(turn.id, turn.tenant, "disk-busy")
                    continue
                rows.append((turn, encode_turn(kept, (*known, turn.secret) if turn.secret else known)))
            except Exception:
                log.exception("a turn was not kept on disk")
                self._on_forget(turn.id, turn.tenant, "disk-error")
        try:
            removed = self.store.write_turns([row for _, row in rows]) if rows else self._trim()
        except FILE_ERRORS as error:
            if not self.problem:
                log.error("turns are not kept on disk: %s: %s", self.store.path, error)  # noqa: TRY400 — no traceback
            self.problem = f"the file cannot be written: {error}"
            for turn, _ in rows:
                self._on_forget(turn.id, turn.tenant, "disk-error")
            return
        self.problem = ""
        for turn, _ in rows:
            turn.on_disk = True
        for name, tenant, reason in removed:
            self._on_forget(name, tenant, reason)

    def _trim(self) -> list[RemovedTurn]:
        """Deletes turns that are too old, while nothing is written."""
        with suppress(*FILE_ERRORS):
            return self.store.trim()
        return []


# ── the form in the file ──────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct, array_like=True):
    """What is stored of a turn beside its texts. `facts` is the `KeptTurn` as JSON, without bytes."""

    facts: bytes
    templates: list[bytes]  # of the client's request, and of each attempt's
    times: list[float | None]
    chunks: list[bytes]
    notices: list[bytes]


_encode_body = msgspec.msgpack.Encoder().encode
_decode_body = msgspec.msgpack.Decoder(_Body).decode
_decode_facts = msgspec.json.Decoder(KeptTurn).decode


def encode_turn(turn: KeptTurn, secrets: tuple[str, ...]) -> KeptTurnRow:
    """Returns the form of a turn in the file, without secrets."""
    template, pieces = split_request(turn.request)
    clean = [redact_bytes(piece, secrets) for piece in pieces]
    templates, request = [redact_bytes(template, secrets)], [TextPiece(piece, JSON) for piece in clean]
    chunks, hidden = redact_chunks([(at or 0.0, chunk) for at, chunk in turn.chunks], secrets)
    data = [chunk for _, chunk in chunks]
    more = [turn.entry.fault_message, *(attempt.error_body for attempt in turn.attempts)]
    answer = answer_piece(turn.answer_protocol, turn.framing, data, [text for text in more if text])
    if answer is not None:  # secrets that were spelled in several frames are whole here
        request.append(TextPiece(redact_bytes(answer.body, secrets), WORDS))
    paths = [request]
    for attempt in turn.attempts:
        split = split_request(redact_bytes(attempt.body.encode("utf-8", "replace"), secrets))
        templates.append(split.template)
        paths.append([TextPiece(piece, STORED) for piece in split.pieces])
    hidden += sum(one != other for one, other in zip(pieces, clean, strict=True))
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
    return KeptTurnRow(turn.id, turn.tenant, turn.entry.time, zlib.compress(_encode_body(body), 6), paths)


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
