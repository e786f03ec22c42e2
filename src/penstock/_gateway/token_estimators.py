"""The gateway's token estimators: one for each tenant, over one store, for counting, learning and warnings.

They read and write SQLite and digest whole prompts, so they are not called on the event loop: requests use `run`, which
counts in a thread; `TurnEstimates` learns in another one. Only short prompts are counted on the event loop, with what
is in memory (`find_in_memory`). All share the estimators, which are made for
that. Large requests are counted in a thread of their own, one of each tenant at a time, so that small counts do not
wait for them and tenants take turns. No count is refused for its size: the body has its own limit. The store holds
digests and numbers only.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from penstock._gateway.callers import ANONYMOUS
from penstock._gateway.config import GatewayConfig, data_path
from penstock._store.sqlite import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._gateway.catalogue import InputLimit
    from penstock._gateway.endpoints import Headers
    from penstock._http.response_writer import ResponseWriter
    from penstock._store.postgres import PostgresDatabase
    from penstock._store.postgres_stores import PostgresFactors
    from penstock._store.tokens import TokenStore
    from penstock._tokens.estimate import Estimate, HybridTokenEstimator
    from penstock.request import Request

T = TypeVar("T")
FILE = "tokens.sqlite"
MAX_TENANTS = 64  # estimators in memory; the store has the counts of all tenants
MAX_ROWS = 5_000  # counts of messages, and prompts, that an estimator holds in memory
SMALL_BODY = 64 * 1024  # bytes of a request that is counted at once
LOCK_TIMEOUT = 0.25  # seconds to wait for another process that writes to the store
WARNING_HEADER = b"x-penstock-warning"
WARNING_TIMEOUT = 1.0  # seconds that an answer waits for the estimate of its prompt
WARNING_SHARE = 0.9  # of the input limit
MIN_BYTES_PER_TOKEN = 1.0  # no text has shorter tokens: a prompt with fewer bytes than that cannot come near a limit
log = logging.getLogger("penstock.tokens")


class TokenEstimators:
    """Creates the estimators and runs counts. The store is opened at first use; in memory if it cannot be."""

    def __init__(self, config: GatewayConfig, database: PostgresDatabase | None = None) -> None:
        self._database = database  # of the factors
        self._path: Path = data_path("", config.data, FILE)
        self._lock = threading.Lock()  # for `_estimators` and `_store`
        self._estimators: OrderedDict[str, HybridTokenEstimator] = OrderedDict()
        self._in_memory: dict[str, HybridTokenEstimator] = {}  # of the same tenants
        self._store: TokenStore | None = None
        self._factors: PostgresFactors | None = None
        self._pools: dict[bool, ThreadPoolExecutor] = {}  # for large and for small requests
        self._large: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by tenant

    async def run(self, tenant: str, count: Callable[[HybridTokenEstimator], T], size: int = 0) -> T:
        """Call `count` with the tenant's estimator in a counting thread. `size`: the bytes of the request."""
        if size <= SMALL_BODY:
            return await self._run(tenant, count, large=False)
        turn = self._large.setdefault(tenant, asyncio.Lock())
        async with turn:
            return await self._run(tenant, count, large=True)

    async def _run(self, tenant: str, count: Callable[[HybridTokenEstimator], T], *, large: bool) -> T:
        pool = self._pools.get(large)
        if pool is None:
            pool = self._pools[large] = ThreadPoolExecutor(1, f"penstock-counting{'-large' * large}")
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: count(self.find(tenant)))

    def find(self, tenant: str) -> HybridTokenEstimator:
        """Return the estimator of a tenant. Not for the event loop.

        Callers without a key share the counts of the library and of `penstock tokens`, which have no tenant.
        """
        tenant = "" if tenant == ANONYMOUS else tenant
        with self._lock:
            found = self._estimators.get(tenant)
            if found is None:
                found = self._estimators[tenant] = self._create(tenant)
                self._in_memory[tenant] = found.in_memory()
                while len(self._estimators) > MAX_TENANTS:
                    self._in_memory.pop(self._estimators.popitem(last=False)[0], None)
            self._estimators.move_to_end(tenant)
            return found

    def find_in_memory(self, tenant: str) -> HybridTokenEstimator | None:
        """Return an estimator for the event loop, which knows what is in memory; None before the tenant's first count.

        It does not find prompts that only the store has: those are estimated, with wider bounds.
        """
        return self._in_memory.get("" if tenant == ANONYMOUS else tenant)

    def close(self) -> None:
        """Close the store once the running counts are finished."""
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        if self._store is not None:
            self._store.close()

    def _create(self, tenant: str) -> HybridTokenEstimator:
        from penstock._tokens.count_cache import CountCache  # noqa: PLC0415 — tables and code that most gateways
        from penstock._tokens.estimate import HybridTokenEstimator  # noqa: PLC0415 — need only after the first turn

        store = self._store = self._store or self._open_store()
        factors = store.factors if self._database is None else self._open_factors(self._database)
        estimator = HybridTokenEstimator(counts=store, learned=factors, tenant=tenant, prompts=MAX_ROWS)
        estimator.cache = CountCache(store, tenant, MAX_ROWS)
        return estimator

    def _open_factors(self, database: PostgresDatabase) -> PostgresFactors:
        from penstock._store.postgres_stores import PostgresFactors  # noqa: PLC0415 — an extra

        self._factors = self._factors or PostgresFactors(database)
        return self._factors

    def _open_store(self) -> TokenStore:
        from penstock._store.migrations import NewerSchemaError  # noqa: PLC0415 — as it is first needed
        from penstock._store.tokens import TokenStore  # noqa: PLC0415 — as it is first needed

        try:
            return TokenStore(self._path, timeout=LOCK_TIMEOUT, required=False)
        except (OSError, NewerSchemaError) as error:
            log.warning("token counts are kept in memory only: %s", error)
            return TokenStore(IN_MEMORY)


class LimitWarning:
    """Estimates a prompt that may be near its model's input limit, while the provider is asked.

    The warning becomes a response header. Nothing is refused: the provider decides.
    """

    def __init__(
        self,
        estimators: TokenEstimators,
        tenant: str,
        request: Request,
        limit: InputLimit,
        out: ResponseWriter,
        size: int,
    ) -> None:
        self.headers: Headers = ()
        self._out, self._size = out, size
        self._task = asyncio.get_running_loop().create_task(self._estimate(estimators, tenant, request, limit))

    @staticmethod
    def is_possible(size: int, limit: int) -> bool:
        """Return whether a body of this size may be near the limit. A limit of 0 is unknown."""
        return bool(limit) and size >= WARNING_SHARE * limit * MIN_BYTES_PER_TOKEN

    async def wait(self) -> None:
        """Wait for the estimate, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WARNING_TIMEOUT):
                await asyncio.shield(self._task)

    async def _estimate(self, estimators: TokenEstimators, tenant: str, request: Request, limit: InputLimit) -> None:
        try:
            found = await estimators.run(
                tenant,
                lambda estimator: estimator.preflight(request, limit.tokens, limit.model, limit.provider),
                self._size,
            )
        except Exception as error:  # noqa: BLE001 — the turn is answered without a warning
            log.debug("a prompt could not be estimated: %s", error)
            return
        if found is not None:
            self.headers = ((WARNING_HEADER, f"{found.code}; {found.message}".encode("ascii", "replace")),)
            self._out.late_headers = (*self._out.late_headers, *self.headers)


def count_headers(estimate: Estimate) -> Headers:
    """Return the response headers that tell how a count was made, and its bounds."""
    values = {"method": estimate.method, "confidence": f"{estimate.confidence:g}"}
    values |= {"low": str(estimate.low), "high": str(estimate.high)}
    return tuple([(f"x-penstock-tokens-{name}".encode(), value.encode()) for name, value in values.items()])
