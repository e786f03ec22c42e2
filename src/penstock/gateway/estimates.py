"""Estimates beside what providers counted: a sample of turns, when they are over, in a thread of its own.

No request waits for it: the loop looks at a clock, and now and then hands a turn over. What is found goes to the turn's
row in the journal; the factor that is learned, to the store that `penstock tokens --learned` reads. Only numbers are
kept.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.errors import PenstockError
from penstock.gateway.config import place_of
from penstock.store.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Usage
    from penstock.gateway.config import GatewayConfig
    from penstock.gateway.turn import Turn
    from penstock.request import Request
    from penstock.store.journal import JournalRows
    from penstock.store.journal import Turn as Row

FILE = "tokens.sqlite"
EVERY = 0.5  # seconds between two turns that are estimated, at least,
SHARE = 100  # and times as long as the last one took
BODY = 128 * 1024  # bytes of a request: a longer one takes too long to count
PATIENCE = 10.0
log = logging.getLogger("penstock.tokens")


class Estimates:
    """Takes a turn now and then. `every` 0 takes all of them, for tests; `told` hears of each row that is done."""

    def __init__(self, config: GatewayConfig, rows: JournalRows | None, every: float = EVERY) -> None:
        self.told: Callable[[Row], None] | None = None
        self._on = rows is not None and config.features.estimates
        self._history = History(rows) if rows is not None else None
        self._path = place_of("", config.data, FILE)
        self._every = every
        self._next = 0.0
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._estimator: Any = None
        self._store: Any = None

    def note(self, turn: Turn, row: Row) -> None:
        """A turn is over. Most go by: this is on the way of every one."""
        now = time.monotonic()
        if not self._on or now < self._next or not row.input or row.status != "finish":
            return
        asked, reply = turn.asked, turn.reply
        if asked is None or reply is None or reply.usage is None or not reply.usage.exact:
            return
        if len(turn.visit.raw) > BODY or any(tool.kind == "provider" for tool in asked.request.tools):
            return  # tools that the provider ran are in its figure
        if self._every and self._last is not None and not self._last.done():
            return
        self._next = now + self._every
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-estimates")
        self._last = self._pool.submit(self._take, asked.request, reply.usage, row)

    def flush(self) -> None:
        """Wait for the last one that was taken."""
        if self._last is not None:
            self._last.result(PATIENCE)

    def close(self) -> None:
        """Let go; what is being estimated is finished."""
        self._on = False
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._store is not None:
            self._store.close()

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _take(self, request: Request, usage: Usage, row: Row) -> None:
        if not self._on:
            return
        began = time.monotonic()
        try:
            made = self._estimated(request, usage, row)
        except PenstockError as error:  # of a form that nobody can count
            log.debug("a turn was not estimated: %s", error)
            return
        except OSError as error:
            log.warning("turns are not estimated: %s", error)
            self._on = False
            return
        except Exception:
            log.exception("a turn was not estimated")
            self._on = False  # the next one would fail the same way
            return
        finally:
            self._next = max(self._next, time.monotonic() + SHARE * (time.monotonic() - began) * bool(self._every))
        if self._history is not None:
            self._history.estimated(made)
        if self.told is not None:
            self.told(made)

    def _estimated(self, request: Request, usage: Usage, row: Row) -> Row:
        estimator = self._ready()
        found = estimator.estimate_conversation(request, row.model, row.provider)
        estimator.calibrate(request, usage, row.model, row.provider)
        factor = round(estimator.factor(row.model, row.provider).value, 4)
        return replace(row, estimate=found.tokens, low=found.low, high=found.high, factor=factor)

    def _ready(self) -> Any:
        """The estimator, with no prompt remembered: one that is asked again would be known, not estimated."""
        if self._estimator is None:
            from penstock.store.tokens import TokenStore  # noqa: PLC0415 — as it is first needed
            from penstock.tokens import HybridTokenEstimator  # noqa: PLC0415

            self._store = TokenStore(self._path)
            self._estimator = HybridTokenEstimator(learned=self._store.factors, prompts=0)
        return self._estimator
