"""Compares token estimates with the counts of providers, for a sample of finished turns, in a thread.

No request waits for it. The estimate is added to the turn's row in the journal; the learned factor goes to the store
that `penstock tokens --learned` reads. Only numbers are stored.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._gateway.config import GatewayConfig, data_path
from penstock._store.journal_queries import JournalHistory
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._store.journal import JournalEntry as Row
    from penstock._store.journal import JournalStore
    from penstock.events import Usage
    from penstock.request import Request

FILE = "tokens.sqlite"
MIN_INTERVAL = 0.5  # seconds between two estimates
IDLE_FACTOR = 100  # an estimate is followed by a pause of so many times its own duration
MAX_BODY = 128 * 1024  # bytes: larger requests take too long to count
FLUSH_TIMEOUT = 10.0
log = logging.getLogger("penstock.tokens")


class TurnEstimates:
    """Estimates a sample of turns. `every` 0 estimates all, for tests. `told` is called with each estimated row."""

    def __init__(self, config: GatewayConfig, rows: JournalStore | None, interval: float = MIN_INTERVAL) -> None:
        self.on_estimate: Callable[[Row], None] | None = None
        self._enabled = rows is not None and config.features.estimates
        self._history = JournalHistory(rows) if rows is not None else None
        self._path = data_path("", config.data, FILE)
        self._interval = interval
        self._next = 0.0
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._estimator: Any = None
        self._store: Any = None

    def sample_turn(self, request: Request, size: int, usage: Usage | None, row: Row) -> None:
        """Estimate a finished turn, if its time has come. Called for every turn. `size`: bytes of the body."""
        now = time.monotonic()
        if not self._enabled or now < self._next or not row.input or row.status != "finish":
            return
        if usage is None or not usage.exact or size > MAX_BODY:
            return
        if any(tool.kind == "provider" for tool in request.tools):
            return  # the provider's count includes what its own tools added
        if self._interval and self._last is not None and not self._last.done():
            return
        self._next = now + self._interval
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-estimates")
        self._last = self._pool.submit(self._estimate_turn, request, usage, row)

    def flush(self) -> None:
        """Wait for the running estimate."""
        if self._last is not None:
            self._last.result(FLUSH_TIMEOUT)

    def close(self) -> None:
        """Close the store once the running estimate is finished."""
        self._enabled = False
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._store is not None:
            self._store.close()

    # ── thread ─────────────────────────────────────────────────────────────────────────────

    def _estimate_turn(self, request: Request, usage: Usage, row: Row) -> None:
        if not self._enabled:
            return
        began = time.monotonic()
        try:
            estimated = self._add_estimate(request, usage, row)
        except PenstockError as error:  # a request that cannot be counted
            log.debug("a turn was not estimated: %s", error)
            return
        except OSError as error:
            log.warning("turns are not estimated: %s", error)
            self._enabled = False
            return
        except Exception:
            log.exception("a turn was not estimated")
            self._enabled = False  # the next one would fail the same way
            return
        finally:
            pause = IDLE_FACTOR * (time.monotonic() - began) * bool(self._interval)
            self._next = max(self._next, time.monotonic() + pause)
        if self._history is not None:
            self._history.add_estimate(estimated)
        if self.on_estimate is not None:
            self.on_estimate(estimated)

    def _add_estimate(self, request: Request, usage: Usage, row: Row) -> Row:
        if self._estimator is None:
            from penstock._store.tokens import TokenStore  # noqa: PLC0415 — as it is first needed
            from penstock._tokens.estimate import HybridTokenEstimator  # noqa: PLC0415

            self._store = TokenStore(self._path)
            # It caches no prompts: a cached prompt would be known, not estimated.
            self._estimator = HybridTokenEstimator(learned=self._store.factors, prompts=0)
        estimator = self._estimator
        found = estimator.estimate_conversation(request, row.model, row.provider)
        estimator.calibrate(request, usage, row.model, row.provider)
        factor = round(estimator.factor(row.model, row.provider).value, 4)
        return replace(row, estimate=found.tokens, low=found.low, high=found.high, factor=factor)
