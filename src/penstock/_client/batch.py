"""`client.map`: many requests with a limit of concurrent ones.

A rate limit of the provider is obeyed: after a 429 all requests for the model wait as long as it says, and fewer run at
once; after successes their number rises again, as in TCP. Requests are taken from the iterable one by one, and results
wait for the reader: memory does not grow with the number of requests, except for the list that `await` returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from penstock._client.batch_progress import BatchProgress, ProgressOption, open_progress
from penstock._client.results import Answer
from penstock.errors import InputError, Overloaded, RateLimited
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

MAX_CONCURRENCY = 10_000
MAX_PAUSE = 600.0  # seconds: a provider that asks for a longer wait ends the request with its error
MAX_ATTEMPTS = 8  # of one request, after rate limits
_FIRST_PAUSE = 1.0  # seconds, if the provider does not say how long; doubled with each attempt
_STEPS = ("rate-limit", "overloaded")
BatchRequest: TypeAlias = "str | Request | Mapping[str, Any]"
_END = None
T_co = TypeVar("T_co", covariant=True)  # of a result: an answer, or also an error


class BatchItem(msgspec.Struct, frozen=True):
    """The result of one request: its `index` in the input, and its `answer` or its `error`."""

    index: int
    answer: Answer | None = None
    error: Exception | None = None

    def result(self) -> Answer:
        """Returns the answer, or raises the error."""
        if self.error is not None or self.answer is None:
            raise self.error or AssertionError
        return self.answer


class RateGate:
    """Limits how many requests for one model run at once. Halved by a rate limit, raised by successes."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit: float = float(most)
        self._most, self._clock = most, clock
        self._running = 0
        self.epoch: int = 0  # rises with each slowdown
        self._resume_at = 0.0
        self._waiters: set[asyncio.Future[None]] = set()

    async def enter(self) -> int:
        """Waits for a slot. Returns the epoch, for `slow_down`."""
        while True:
            pause = self._resume_at - self._clock()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._running < max(int(self.limit), 1):
                self._running += 1
                return self.epoch
            else:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)

    def leave(self) -> None:
        """Frees a slot. Those that wait look again."""
        self._running -= 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def slow_down(self, epoch: int, pause: float) -> None:
        """A rate limit: nothing starts for so many seconds. Of requests that ran together, one halves the limit."""
        self._resume_at = max(self._resume_at, self._clock() + pause)
        if epoch == self.epoch:
            self.epoch += 1
            self.limit = max(self.limit / 2, 1.0)

    def speed_up(self) -> None:
        """A success: the limit rises by one for each round of requests."""
        self.limit = min(self.limit + 1 / self.limit, float(self._most))


class BatchAsker:
    """Asks one request of a batch. `model` and `parameters` are those of `map`."""

    def __init__(self, chat: Callable[..., Awaitable[Answer]], model: str, parameters: Mapping[str, Any]) -> None:
        self._chat, self._parameters = chat, dict(parameters)
        self.model: str = model

    def model_of(self, request: Any) -> str:
        """Returns the name of the model that is asked."""
        if isinstance(request, Request):
            return request.model
        body: Any = request
        return str((isinstance(request, Mapping) and body.get("model")) or self.model)

    async def __call__(self, request: Any) -> Answer:
        if isinstance(request, Request):
            return await self._chat(replace(request, model=request.model or self.model), **self._parameters)
        if isinstance(request, Mapping):
            body: dict[str, Any] = dict(request)  # pyright: ignore[reportUnknownArgumentType]
            return await self._chat({**body, "model": body.get("model") or self.model}, **self._parameters)
        return await self._chat(self.model, request, **self._parameters)


class Batch(Generic[T_co]):
    """The results of `client.map`.

    `await` it for a list in the order of the requests, or iterate over it for each `BatchItem` as it finishes. Leaving
    the loop, an error and a cancellation end all requests that run; `async with` does so at once.
    """

    def __init__(
        self,
        ask: BatchAsker,
        requests: Iterable[BatchRequest],
        *,
        concurrency: int,
        progress: ProgressOption = None,
        return_errors: bool = False,
    ) -> None:
        if type(concurrency) is not int or not 1 <= concurrency <= MAX_CONCURRENCY:
            raise InputError(f"concurrency: expected a number from 1 to {MAX_CONCURRENCY}, found {concurrency!r}")
        given: Any = requests
        if isinstance(given, str | bytes | Mapping | Request) or not isinstance(given, Iterable):
            kind = type(given).__name__  # pyright: ignore[reportUnknownArgumentType]
            raise InputError(f"requests: expected a list of requests, found {kind}")
        self._ask, self._return_errors = ask, return_errors
        total = len(requests) if isinstance(requests, Sized) else None
        self._requests = enumerate(requests)
        self._concurrency = concurrency if total is None else max(min(concurrency, total), 1)
        self._gates: dict[str, RateGate] = {}
        self._show = open_progress(progress)
        self.progress: BatchProgress = BatchProgress(total=total)
        self._items: AsyncGenerator[BatchItem, None] | None = None

    def __await__(self) -> Generator[Any, None, list[T_co]]:
        return self.results().__await__()

    async def results(self) -> list[T_co]:
        """Returns the answers in the order of the requests; with `return_errors`, also errors."""
        found: dict[int, Any] = {}
        items = aiter(self)  # before `async with`: a second reader must not close the first one's
        async with self:
            async for item in items:
                found[item.index] = item.error if item.error is not None else item.answer
        return [found[index] for index in sorted(found)]

    def __aiter__(self) -> AsyncGenerator[BatchItem, None]:
        if self._items is not None:
            raise InputError("a batch can be read once")
        self._items = self._run()
        return self._items

    @property
    def limits(self) -> dict[str, int]:
        """How many requests may run at once now, by model."""
        return {model: max(int(gate.limit), 1) for model, gate in self._gates.items()}

    async def aclose(self) -> None:
        """Ends all requests that run."""
        if self._items is not None:
            await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(self) -> AsyncGenerator[BatchItem, None]:
        results: asyncio.Queue[BatchItem | None] = asyncio.Queue(self._concurrency)
        workers = [asyncio.create_task(self._work(results)) for _ in range(self._concurrency)]
        running = len(workers)
        try:
            while running:
                item = await results.get()
                if item is None:
                    running -= 1
                    continue
                self._show(replace(self.progress))
                if item.error is not None and (not self._return_errors or item.index < 0):
                    raise item.error
                yield item
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._show(self.progress.finished())

    async def _work(self, results: asyncio.Queue[BatchItem | None]) -> None:
        """Takes requests until there are no more."""
        try:
            for index, request in self._requests:
                item = await self._answer(index, request)
                self.progress.count(item.answer, failed=item.error is not None)
                await results.put(item)
        except Exception as error:  # noqa: BLE001 — of the caller's iterable
            await results.put(BatchItem(-1, error=error))
        await results.put(_END)

    async def _answer(self, index: int, request: Any) -> BatchItem:
        gate = self._gate(request)
        for attempt in range(MAX_ATTEMPTS):
            epoch = await gate.enter()
            try:
                answer = await self._ask(request)
            except Exception as error:  # noqa: BLE001 — returned or raised by the reader
                if not self._pause(gate, epoch, error, attempt):
                    return BatchItem(index, error=error)
            else:
                self._adapt(gate, epoch, answer)
                return BatchItem(index, answer)
            finally:
                gate.leave()
        raise AssertionError  # the last attempt returned

    def _gate(self, request: Any) -> RateGate:
        """Returns the gate of a request's model. Providers limit each model apart."""
        return self._gates.setdefault(self._ask.model_of(request), RateGate(self._concurrency))

    def _pause(self, gate: RateGate, epoch: int, error: Exception, attempt: int) -> bool:
        """Slows down after a rate limit. False if the request must not be repeated."""
        if not isinstance(error, RateLimited | Overloaded) or attempt + 1 >= MAX_ATTEMPTS:
            return False
        pause = _FIRST_PAUSE * 2**attempt if error.retry_after is None else error.retry_after
        if pause > MAX_PAUSE:
            return False
        gate.slow_down(epoch, pause)
        self.progress.waits += 1
        return True

    def _adapt(self, gate: RateGate, epoch: int, answer: Answer) -> None:
        """Learns from an answer. The router may have waited for a rate limit itself."""
        decisions = answer.record.decisions if answer.record is not None else ()
        waits = [one.wait for one in decisions if one.what == "retry" and one.code in _STEPS]
        if waits:
            gate.slow_down(epoch, 0.0)
        else:
            gate.speed_up()
