"""The client without `await`: the same names, run by an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.client.api import Client

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from penstock.client.shapes import Embeddings, Ranking
    from penstock.client.stream import Answer, Stream
    from penstock.events import AnyEvent
    from penstock.providers.models import Model

T = TypeVar("T")


class SyncClient:
    """Takes what `Client` takes. Streams are plain iterators; leaving one early closes its connection."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.client = Client(*args, **more)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-client", daemon=True)
        self._thread.start()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return task.result()
        except KeyboardInterrupt:
            task.cancel()
            raise

    def close(self) -> None:
        """Close all connections and stop the thread."""
        if not self._loop.is_closed():
            self._run(self.client.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chat(self, *args: Any, **more: Any) -> Answer:
        return self._run(self.client.chat(*args, **more))

    def chat_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._each(self.client.chat_stream(*args, **more))

    def responses(self, *args: Any, **more: Any) -> Answer:
        return self._run(self.client.responses(*args, **more))

    def responses_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._each(self.client.responses_stream(*args, **more))

    def complete(self, *args: Any, **more: Any) -> Answer:
        return self._run(self.client.complete(*args, **more))

    def complete_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._each(self.client.complete_stream(*args, **more))

    def fim_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._each(self.client.fim_stream(*args, **more))

    def embed(self, *args: Any, **more: Any) -> Embeddings:
        return self._run(self.client.embed(*args, **more))

    def rerank(self, *args: Any, **more: Any) -> Ranking:
        return self._run(self.client.rerank(*args, **more))

    def list_models(self, *args: Any, **more: Any) -> list[Model]:
        return self._run(self.client.list_models(*args, **more))

    def _each(self, stream: Stream) -> Iterator[AnyEvent]:
        batches = stream.batches()
        try:
            while (batch := self._run(_next(batches))) is not None:
                yield from batch
        finally:
            self._run(_left(batches, stream))


async def _next(batches: Any) -> Any:
    return await anext(batches, None)


async def _left(batches: Any, stream: Stream) -> None:
    await batches.aclose()
    await stream.aclose()
