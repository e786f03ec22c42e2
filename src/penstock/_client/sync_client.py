"""`SyncClient` and `SyncStream`: the client and its streams without `await`.

A `LoopThread` runs the asynchronous client. It works inside a running event loop, too, for example in a notebook.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from penstock._client.api import Client
from penstock._client.batch_api import SyncMapMethods
from penstock._client.displayed import Displayed
from penstock._client.run_api import SyncRunMethods
from penstock.events import TextDelta

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping, Sequence

    from penstock._client import parameters as params
    from penstock._client.costs import Cost, UsageTracker
    from penstock._client.embedding_formats import Embeddings, Ranking
    from penstock._client.results import Answer, Stream
    from penstock._client.timeline import Timeline
    from penstock._diagnostics import Diagnostic
    from penstock._engines.config import Config
    from penstock._engines.engine_interface import DecisionLog
    from penstock._engines.reply import ModelReply
    from penstock._engines.router import Router
    from penstock._providers.models import Model
    from penstock.events import AnyEvent, Fault, Finish, Usage

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread. The thread starts with the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process: int | None = None  # that has the thread
        self.closed: bool = False

    @property
    def running(self) -> bool:
        """True if the thread has started and is not closed."""
        return self._loop is not None and not self.closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread. Returns its result; Ctrl-C cancels it."""
        try:
            self._check_caller()
            loop = self._start()
        except RuntimeError:
            work.close()
            raise
        task = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return task.result()
        except KeyboardInterrupt:
            task.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yields the items of an asynchronous generator. Leaving the loop early closes it."""
        try:
            while (item := self.run(_next_item(source))) is not None:
                yield item[0]
        finally:
            if not self.closed:
                self.run(source.aclose())

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs a last coroutine, and stops the thread."""
        try:
            self._check_caller()
        except RuntimeError:
            last.close()
            raise
        with self._lock:
            loop, thread, is_closed = self._loop, self._thread, self.closed
            self.closed = True
        if is_closed or loop is None or thread is None:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(last, loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def abandon(self, last: Coroutine[Any, Any, None]) -> None:
        """Stops the thread without waiting for it."""
        loop, thread = self._loop, self._thread
        self.closed = True
        if loop is None or thread is None or not thread.is_alive() or sys.is_finalizing():
            last.close()
            return
        task = asyncio.run_coroutine_threadsafe(last, loop)
        task.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))

    def _check_caller(self) -> None:
        """Raises where the call would wait for itself: in the client's own thread, and after a fork."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a hook or an async tool called its own SyncClient; use penstock.Client there")
        if self._process not in (None, os.getpid()):
            raise RuntimeError("the client was used before os.fork(): create one in each process")

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self.closed:
                raise RuntimeError("the client is closed")
            if self._loop is None:
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                loop = self._loop
                self._thread = threading.Thread(target=_run_loop, args=(loop,), name="penstock-client", daemon=True)
                self._thread.start()
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _next_item(source: AsyncGenerator[T, None]) -> tuple[T] | None:
    """Returns the next item in a tuple; None at the end."""
    async for item in source:
        return (item,)
    return None


class SyncStream(Displayed):
    """A `Stream` without `await`. Close it, read it to its end, or use it as a context manager."""

    def __init__(self, stream: Stream, thread: LoopThread) -> None:
        self.stream = stream
        self._thread = thread

    def open(self) -> ModelReply:
        """Sends the request now. The reply has the status, the headers and the record of decisions."""
        return self._thread.run(self.stream.open())

    def batches(self) -> Iterator[list[AnyEvent]]:
        """Yields a list of events for each read: cheaper than one by one."""
        return self._thread.iterate(self.stream.batches())

    def __iter__(self) -> Iterator[AnyEvent]:
        for batch in self.batches():
            yield from batch

    def text(self) -> Iterator[str]:
        """Yields only the text of the answer."""
        return (event.text for event in self if isinstance(event, TextDelta))

    def to(self, protocol: str, **options: Any) -> Iterator[bytes]:
        """Yields the chunks that a client of this protocol would get."""
        return self._thread.iterate(self.stream.to(protocol, **options))

    def turn(self) -> Answer:
        """Returns the complete answer. Raises its fault, if any."""
        return self._thread.run(self.stream.turn())

    def show(self) -> Answer:
        """Returns the complete answer, and shows it while it grows."""
        return self._thread.run(self.stream.show())

    def _timeline(self) -> Timeline:
        return self.stream._timeline()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    @property
    def reply(self) -> ModelReply | None:
        return self.stream.reply

    @property
    def record(self) -> DecisionLog | None:
        """The router's decisions."""
        return self.stream.record

    @property
    def usage(self) -> Usage | None:
        """The token counts that are known so far."""
        return self.stream.usage

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars, once the stream has ended; None if it is unknown."""
        return self.stream.cost

    @property
    def cached(self) -> bool:
        """True if the answer comes from the response cache."""
        return self.stream.cached

    @property
    def end(self) -> Finish | Fault | None:
        return self.stream.end

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self.stream.diagnostics

    def close(self) -> None:
        """Closes the connection to the provider, unless the answer is complete."""
        if not self._thread.closed:
            self._thread.run(self.stream.aclose())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncClient(SyncRunMethods, SyncMapMethods):
    """`Client` without `await`: the same parameters, methods and results. Streams are `SyncStream`s.

    Close it with `close`, or use it as a context manager.

    Examples:
        >>> from penstock.events import TextDelta
        >>> with SyncClient() as client:
        ...     answer = client.chat("replay/text", "What is a penstock?")
        ...     stream = client.chat_stream("replay/text", "What is a penstock?")
        ...     text = "".join(event.text for event in stream if isinstance(event, TextDelta))
        >>> answer.text == text
        True
        >>> answer.finish.reason, answer.usage.input
        ('stop', 17)
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        **parameters: Unpack[params.ClientParameters],
    ) -> None:
        self.client: Client = Client(config, **parameters)
        self._thread = LoopThread()

    def _runner(self) -> tuple[Client, LoopThread]:
        return self.client, self._thread

    def _mapper(self) -> tuple[Client, LoopThread]:
        return self.client, self._thread

    @property
    def router(self) -> Router:
        return self.client.router

    @property
    def spending(self) -> UsageTracker:
        """Calls and tokens by provider and model."""
        return self.client.spending

    def close(self) -> None:
        """Closes all connections and stops the thread."""
        self._thread.close(self.client.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.running:
            thread.abandon(self.client.aclose())
            text = "unclosed SyncClient: use it as a context manager, or call its close()"
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    def chat(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Answer:
        """Returns the answer to a conversation. `messages` may be a text."""
        return self._thread.run(self.client.chat(model, messages, **parameters))

    def chat_stream(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> SyncStream:
        """Does the same, but yields events."""
        return SyncStream(self.client.chat_stream(model, messages, **parameters), self._thread)

    def responses(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> Answer:
        """Returns the answer to a request in the format of OpenAI's Responses API."""
        return self._thread.run(self.client.responses(model, input, **parameters))

    def responses_stream(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> SyncStream:
        """Does the same, but yields events."""
        return SyncStream(self.client.responses_stream(model, input, **parameters), self._thread)

    def complete(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> Answer:
        """Returns the continuation of a prompt."""
        return self._thread.run(self.client.complete(model, prompt, **parameters))

    def complete_stream(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> SyncStream:
        """Does the same, but yields events."""
        return SyncStream(self.client.complete_stream(model, prompt, **parameters), self._thread)

    def fim_stream(
        self,
        model: params.CompletionInput = "",
        prefix: str = "",
        suffix: str = "",
        **parameters: Unpack[params.FimParameters],
    ) -> SyncStream:
        """Yields the text between a prefix and a suffix, as events."""
        return SyncStream(self.client.fim_stream(model, prefix, suffix, **parameters), self._thread)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def embed(
        self, model: str, texts: params.EmbedInput | None = None, **parameters: Unpack[params.EmbedParameters]
    ) -> Embeddings:
        """Returns a vector for each text."""
        return self._thread.run(self.client.embed(model, texts, **parameters))

    def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        top: int | None = None,
        **parameters: Unpack[params.RerankParameters],
    ) -> Ranking:
        """Returns documents by how well they answer a query, the best first."""
        return self._thread.run(self.client.rerank(model, query, documents, top, **parameters))

    def list_models(self, provider: str = "", **parameters: Unpack[params.ListModelsParameters]) -> list[Model]:
        """Returns the models that a provider lists; without a name, those of all configured providers."""
        return self._thread.run(self.client.list_models(provider, **parameters))
