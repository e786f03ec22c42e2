"""Learns from finished turns, in a thread: the actual count of each prompt, and of a sample the correction factor.

The event loop only appends a turn to a queue. The worker digests the prompt and stores its actual count, from which the
next request is counted (`hybrid`). For a sample of turns it also estimates the prompt as before the request: the
estimate is added to the turn's row in the journal, and corrects the model's factor. The worker takes about 1% of one
core: after each slice of work it pauses. When the queue is full, turns are dropped and counted. Only digests and
numbers are stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from penstock._fold import fold_all
from penstock._store.journal_queries import JournalHistory
from penstock._tokens.hidden_additions import has_hidden_context, list_uncounted_fields
from penstock.errors import PenstockError
from penstock.request import File, Reasoning, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engines.reply import ModelReply
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.relay import ReplyCapture
    from penstock._gateway.token_estimators import TokenEstimators
    from penstock._store.journal import JournalEntry as Row
    from penstock._store.journal import JournalRows
    from penstock._tokens.estimate import Estimate, HybridTokenEstimator
    from penstock.events import AnyEvent
    from penstock.request import Part, Request, Turn

MIN_INTERVAL = 0.5  # seconds between two estimates
IDLE_FACTOR = 100  # an estimate is followed by so many times its own duration without one
MAX_BODY = 128 * 1024  # bytes: larger requests take too long to estimate
MAX_TURNS = 64  # turns that wait. Their objects lie between those of running turns, which slows these down
MAX_BYTES = 32 * 2**20  # of all turns that wait, request and answer
MAX_TURN_BYTES = 8 * 2**20  # of one turn
SLICE = 0.001  # seconds of work before a pause
PAUSE_FACTOR = 100  # a pause takes so many times the work before it,
MAX_PAUSE = 2.0  # but no more seconds than this
MAX_FAILURES = 5  # turns in a row that fail unexpectedly, until nothing is learned any more
FLUSH_TIMEOUT = 10.0
CLOSE_TIMEOUT = 2.0  # seconds for the turns that wait when the gateway stops
log = logging.getLogger("penstock.tokens")


class FinishedTurn(NamedTuple):
    """A turn to learn from: its request, its answer and its row in the journal."""

    request: Request
    events: list[AnyEvent]
    row: Row

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self.row.bytes_in + self.row.bytes_out


class TurnEstimates:
    """The queue and its worker. `interval` 0 estimates all turns, for tests. `dropped`: turns without room.

    `on_estimate` is called with each row that got an estimate, in the worker's thread.
    """

    def __init__(
        self,
        config: GatewayConfig,
        estimators: TokenEstimators,
        rows: JournalRows | None,
        interval: float = MIN_INTERVAL,
    ) -> None:
        self.on_estimate: Callable[[Row], None] | None = None
        self.enabled: bool = config.features.estimates
        self.dropped: int = 0
        self._estimators = estimators
        self._history = JournalHistory(rows) if rows is not None else None
        self._interval = interval
        self._next_estimate = 0.0
        self._failures = 0  # in a row
        self._queue: deque[FinishedTurn | threading.Event] = deque()
        self._bytes_added, self._bytes_taken = 0, 0  # each is changed by one thread only
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()  # there may be work
        self._hurry = threading.Event()  # no pauses: somebody waits for the queue
        self._closed_at: float | None = None

    # ── on the event loop ─────────────────────────────────────────────────────────────────────────

    @property
    def has_room(self) -> bool:
        """Whether an answer that begins now is worth capturing: its turn can probably wait in the queue."""
        return self.enabled and len(self._queue) < MAX_TURNS

    def add_turn(self, request: Request, answer: ReplyCapture | None, reply: ModelReply, row: Row) -> None:
        """Learn from a turn soon, if it has an exact count of its whole prompt. Called for every turn.

        `answer`: None if the answer was not captured, because the queue was full when it began.
        """
        usage = reply.usage
        if usage is None or not usage.exact or not row.input or row.status != "finish":
            return
        if answer is not None and answer.full:
            return
        if not self.enabled or reply.cleared is not None:  # a shortened prompt is not the client's
            return
        size, waiting = row.bytes_in + row.bytes_out, self._bytes_added - self._bytes_taken
        if answer is None or len(self._queue) >= MAX_TURNS or size > MAX_TURN_BYTES or waiting + size > MAX_BYTES:
            self.dropped += 1
            return
        self._bytes_added += size
        self._queue.append(FinishedTurn(request, answer.events(), row))
        if not self._wake.is_set():
            self._start()

    def _start(self) -> None:
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-estimates", daemon=True)
            self._thread.start()

    # ── for other threads ─────────────────────────────────────────────────────────────────────────

    def flush(self) -> None:
        """Wait until all turns so far are learned."""
        if self._thread is None or not self._thread.is_alive():
            return
        done = threading.Event()
        self._hurry.set()
        self._queue.append(done)
        self._wake.set()
        done.wait(FLUSH_TIMEOUT)
        if self._closed_at is None:
            self._hurry.clear()

    def close(self) -> None:
        """Learn the turns that wait, for a short time, and end the thread."""
        self.enabled = False
        self._closed_at = time.monotonic()
        self._hurry.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(FLUSH_TIMEOUT)

    # ── thread ────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._queue:
                began = time.thread_time()
                while self._queue and time.thread_time() - began < SLICE:
                    self._take(self._queue.popleft())
                self._hurry.wait(min(PAUSE_FACTOR * (time.thread_time() - began), MAX_PAUSE))
            if self._closed_at is not None:
                return

    def _take(self, turn: FinishedTurn | threading.Event) -> None:
        if isinstance(turn, threading.Event):
            turn.set()
            return
        self._bytes_taken += turn.size
        if self._closed_at is not None and time.monotonic() - self._closed_at > CLOSE_TIMEOUT:
            self.dropped += 1
            return
        try:
            self._learn(turn)
        except PenstockError as error:  # a request that cannot be counted
            log.debug("nothing was learned from a turn: %s", error)
        except Exception:
            self._failures += 1
            self.dropped += 1
            if self._failures == 1:
                log.exception("nothing was learned from a turn")
            if self._failures >= MAX_FAILURES:
                log.error("nothing is learned any more: %d turns in a row failed", MAX_FAILURES)  # noqa: TRY400 — as above
                self.enabled = False  # the next one would fail the same way
        else:
            self._failures = 0

    def _learn(self, turn: FinishedTurn) -> None:
        row, events = turn.row, turn.events
        if not events or (not self.enabled and self._closed_at is None) or has_hidden_context(turn.request):
            return
        answer = fold_all(events)[0]
        estimator = self._estimators.find(row.tenant)
        if not self._is_sampled(turn) or any(step.step > 1 for step in answer.steps):  # a sum is not the prompt's count
            estimator.calibrate(turn.request, answer, row.model, row.provider, learn=False)
            return
        began = time.monotonic()
        try:
            estimated = self._add_estimate(estimator, turn, answer)
        finally:
            pause = max(self._interval, IDLE_FACTOR * (time.monotonic() - began) * bool(self._interval))
            self._next_estimate = time.monotonic() + pause
        if self._history is not None:
            self._history.add_estimate(estimated)
        if self.on_estimate is not None:
            self.on_estimate(estimated)

    def _is_sampled(self, turn: FinishedTurn) -> bool:
        return turn.row.bytes_in <= MAX_BODY and time.monotonic() >= self._next_estimate

    def _add_estimate(self, estimator: HybridTokenEstimator, turn: FinishedTurn, answer: Turn) -> Row:
        row, request = turn.row, turn.request
        uncertain = find_uncertain_parts(request)
        # With such tools or fields, the count may include what the provider added.
        learn = "provider-tools" not in uncertain and not list_uncounted_fields(request)
        found: Estimate = estimator.estimate_conversation(request, row.model, row.provider)
        estimator.calibrate(request, answer, row.model, row.provider, learn=learn)
        factor = round(estimator.factor(row.model, row.provider).value, 4) if learn else None
        row = replace(row, estimate=found.tokens, low=found.low, high=found.high, method=found.method, factor=factor)
        return replace(row, uncertain=" ".join(uncertain))


UncertainKind: TypeAlias = Literal["provider-tools", "image-urls", "file-urls", "audio", "video", "hidden-reasoning"]


def find_uncertain_parts(request: Request) -> dict[UncertainKind, int]:
    """Returns what in a request can only be guessed, and how often it occurs. Files inside of results count too."""
    found: Counter[UncertainKind] = Counter()
    found["provider-tools"] = sum(tool.kind == "provider" for tool in request.tools)
    for message in request.messages:
        for part in message.parts:
            found.update(_uncertain_kinds(part))
    return {kind: count for kind, count in sorted(found.items()) if count}


def _uncertain_kinds(part: Part) -> Iterator[UncertainKind]:
    if isinstance(part, Result):
        for inner in part.content:
            yield from _uncertain_kinds(inner)
    elif isinstance(part, File):
        medium = part.media.partition("/")[0]
        if medium == "audio":
            yield "audio"
        elif medium == "video":
            yield "video"
        elif not part.data:
            yield "image-urls" if medium == "image" else "file-urls"
    elif isinstance(part, Reasoning) and not part.text and (part.extra is not None or part.item):
        yield "hidden-reasoning"
