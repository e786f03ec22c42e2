"""`client.map` for `Client` and `SyncClient`. The type of the results says whether errors may stand among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from penstock._client import parameters as params
from penstock._client.parameter_values import check_value
from penstock._option_checks import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._client.batch import Batch, BatchRequest
    from penstock._client.batch_progress import ProgressOption
    from penstock._client.results import Answer
    from penstock._client.run_api import AsyncRunner

DEFAULT_CONCURRENCY = 8


class MapMethods:
    """The method `map` of `Client`."""

    async def chat(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Answer:
        raise NotImplementedError

    @overload
    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: Literal[False] = False,
        **parameters: Unpack[params.ChatParameters],
    ) -> Batch[Answer]: ...
    @overload
    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: bool,
        **parameters: Unpack[params.ChatParameters],
    ) -> Batch[Answer | Exception]: ...

    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: bool = False,
        **parameters: Unpack[params.ChatParameters],
    ) -> Batch[Any]:
        """Asks many requests, `concurrency` at once. `await` it for a list of answers in the order of the requests.

        A request is a `Request`, a body, or a question for `model`. `parameters` are those of `chat`, for all of them.
        """
        from penstock._client.batch import Batch, BatchAsker  # noqa: PLC0415 — few programs, and asyncio is slow to import

        check_value("model", model, TEXT)
        check_value("return_errors", return_errors)
        params.check_parameters("map", parameters, params.ChatParameters, ("requests", "model", "concurrency"))
        ask = BatchAsker(self.chat, model, parameters)
        return Batch(ask, requests, concurrency=concurrency, progress=progress, return_errors=return_errors)


class SyncMapMethods:
    """The method `map` of `SyncClient`."""

    def _mapper(self) -> tuple[MapMethods, AsyncRunner]:
        """Returns the asynchronous client, and what runs its coroutines."""
        raise NotImplementedError

    @overload
    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: Literal[False] = False,
        **parameters: Unpack[params.ChatParameters],
    ) -> list[Answer]: ...
    @overload
    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: bool,
        **parameters: Unpack[params.ChatParameters],
    ) -> list[Answer | Exception]: ...

    def map(
        self,
        requests: Iterable[BatchRequest],
        *,
        model: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: ProgressOption = None,
        return_errors: bool = False,
        **parameters: Unpack[params.ChatParameters],
    ) -> list[Any]:
        """Asks many requests, `concurrency` at once. Returns the answers in the order of the requests."""
        client, thread = self._mapper()
        batch: Batch[Any] = client.map(
            requests,
            model=model,
            concurrency=concurrency,
            progress=progress,
            return_errors=return_errors,
            **parameters,
        )
        return thread.run(batch.results())
