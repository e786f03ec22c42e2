"""`LlmApi`, the interface to a model whoever serves it, and `Client`, which has it for every provider there is.

A request is an OpenAI-shaped body, a `Request`, or a model's name and messages; answers are canonical. Leans on
`engines.routing` for the way there. Nothing here knows a provider.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from penstock._client.embeddings import EMBEDDINGS, RANKINGS, Embeddings, Ranking, WireFormat, decode_answer
from penstock._client.stream import Answer, Stream, UsageTracker
from penstock._engines.model_resolution import REPLAY, Target, list_configured_providers
from penstock._engines.router import Router
from penstock._http.request_options import RequestOptions
from penstock._messages.request_codecs import reader
from penstock._providers.listing import read_model_list
from penstock._providers.models import Model
from penstock._providers.models import models as table
from penstock.errors import BadRequest, InputError, ProviderError
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from penstock._engines.config import Config
    from penstock._engines.reply import ModelReply
    from penstock._messages.options import ConvertOptions
    from penstock.events import AnyEvent
    from penstock.stores import ReasoningStore

ModelOrRequest: TypeAlias = "str | Request | Mapping[str, Any]"
Options: TypeAlias = "RequestOptions | Mapping[str, Any] | None"


class LlmApi(Protocol):
    """What a program needs of a model. Streams are events, the rest comes whole."""

    async def chat(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Answer: ...
    def chat_stream(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Stream: ...
    async def responses(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Answer: ...
    def responses_stream(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Stream: ...
    async def complete(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Answer: ...
    def complete_stream(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Stream: ...
    def fim_stream(self, model: ModelOrRequest, prefix: str = "", suffix: str = "", /, **more: Any) -> Stream: ...
    async def embed(self, model: str, texts: str | Sequence[str], /, **more: Any) -> Embeddings: ...
    async def rerank(
        self, model: str, query: str, documents: Sequence[str], /, top: int | None = None, **more: Any
    ) -> Ranking: ...
    async def list_models(self, provider: str = "", /, **more: Any) -> list[Model]: ...


class Client:
    """`LlmApi` for every provider. One for a program: it keeps connections, tokens and what is known of failures.

    `config` is a `Config`, a mapping or the path of a TOML file; `options` go for every call; `store` keeps the
    reasoning state that OpenAI-shaped messages have no place for. Each call takes `options` and `engine` too.
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | None = None,
        *,
        options: Options = None,
        env: Mapping[str, str] | None = None,
        store: ReasoningStore | None = None,
        tenant: str = "",
        router: Router | None = None,
    ) -> None:
        self.router: Router = router or Router(config, env=env)
        self.spending: UsageTracker = UsageTracker()
        self._options = RequestOptions.read(options)
        self._store, self._tenant = store, tenant

    async def aclose(self) -> None:
        """Close all connections."""
        await self.router.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    async def chat(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Answer:
        """A whole answer to a conversation. `messages` may be a plain question."""
        return await self._stream("chat", "openai-chat", model, "messages", messages, more, stream=False).turn()

    def chat_stream(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Stream:
        """The same, event by event."""
        return self._stream("chat", "openai-chat", model, "messages", messages, more)

    async def responses(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Answer:
        """A whole answer to a body as OpenAI's Responses has it."""
        return await self._stream("responses", "responses", model, "input", input, more, stream=False).turn()

    def responses_stream(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Stream:
        """The same, event by event."""
        return self._stream("responses", "responses", model, "input", input, more)

    async def complete(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Answer:
        """A text that goes on where the prompt ends."""
        return await self._stream("completions", "completions", model, "prompt", prompt, more, stream=False).turn()

    def complete_stream(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Stream:
        """The same, event by event."""
        return self._stream("completions", "completions", model, "prompt", prompt, more)

    def fim_stream(self, model: ModelOrRequest, prefix: str = "", suffix: str = "", /, **more: Any) -> Stream:
        """What fits between a prefix and a suffix, event by event."""
        given = {**more, "suffix": suffix} if suffix else more
        return self._stream("fim", "completions", model, "prompt", prefix or None, given)

    def _stream(
        self,
        operation: str,
        protocol: str,
        model: ModelOrRequest,
        key: str,
        content: Any,
        more: Mapping[str, Any],
        *,
        stream: bool = True,
    ) -> Stream:
        given = dict(more)
        options = RequestOptions.read(given.pop("options", None)).over(self._options)
        engine: str = given.pop("engine", "")
        said: ConvertOptions = given.pop("convert", {})
        convert = said.copy()
        convert["prompt_caching"] = bool(given.pop("prompt_caching", False))
        convert["context_management"] = bool(given.pop("context_management", False))
        if given.pop("strict", False):
            convert["strict"] = True
        if self._store is not None:
            convert["store"], convert["tenant"] = self._store, self._tenant
        request = replace(read_request(model, protocol, key, content, given), stream=stream)

        async def ask() -> ModelReply:
            return await self.router.open(
                request, operation, source=protocol, engine=engine, options=options, convert=convert
            )

        return Stream(ask, done=self.spending.add, store=self._store, tenant=self._tenant)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    async def embed(self, model: str, texts: str | Sequence[str], /, **more: Any) -> Embeddings:
        """A vector for each text."""
        options, engine, rest = self._said(more)
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given:
            raise InputError("texts: expected at least one text, found none")

        def body(target: Target, shape: str) -> dict[str, Any]:
            return _shape(EMBEDDINGS, shape).write(target.model, given, **rest)

        job, data, record = await self.router.fetch(model, "embeddings", body, engine=engine, options=options)
        answer = decode_answer(data)
        vectors, usage = EMBEDDINGS[job.endpoint.protocol].read(answer)
        self.spending.count(job.provider.name, job.model, usage)
        return Embeddings(vectors, job.model, usage, answer, job.provider.name, record)

    async def rerank(
        self, model: str, query: str, documents: Sequence[str], /, top: int | None = None, **more: Any
    ) -> Ranking:
        """Documents by how well they answer a query, the best first."""
        options, engine, rest = self._said(more)
        given = list(documents)

        def body(target: Target, shape: str) -> dict[str, Any]:
            return _shape(RANKINGS, shape).write(target.model, query, given, top, **rest)

        job, data, record = await self.router.fetch(model, "rerank", body, engine=engine, options=options)
        answer = decode_answer(data)
        results, usage = RANKINGS[job.endpoint.protocol].read(answer)
        for one in results:
            one.document = given[one.index] if one.index < len(given) else ""
        self.spending.count(job.provider.name, job.model, usage)
        return Ranking(results, job.model, usage, answer, job.provider.name, record)

    async def list_models(self, provider: str = "", /, *, chat: bool = False, **more: Any) -> list[Model]:
        """The models of a provider as it lists them itself; without one, of all that are configured.

        One that cannot be asked is answered for by the table of facts; if it was asked for by name, that is an error.
        """
        options, _, _ = self._said(more)
        config, env = self.router.config, self.router.env
        if provider:
            return await self._listed(provider, chat, options)
        rows = list_configured_providers(config, env) or [config.provider(REPLAY)]
        found = await asyncio.gather(*(self._listed(row.name, chat, options) for row in rows), return_exceptions=True)
        made: list[Model] = []
        for row, result in zip(rows, found, strict=True):
            if isinstance(result, ProviderError | InputError):
                made += table(row)
            elif isinstance(result, BaseException):
                raise result
            else:
                made += result
        return made

    async def _listed(self, provider: str, chat: bool, options: RequestOptions) -> list[Model]:  # noqa: FBT001
        row = self.router.config.provider(provider)
        _, data, _ = await self.router.fetch(
            Target(row, "", f"{row.name} was named"), "models", lambda _target, _shape: {}, options=options
        )
        return read_model_list(row, decode_answer(data), chat=chat)

    def _said(self, more: Mapping[str, Any]) -> tuple[RequestOptions, str, dict[str, Any]]:
        rest = dict(more)
        options = RequestOptions.read(rest.pop("options", None)).over(self._options)
        return options, rest.pop("engine", ""), rest


def read_request(model: ModelOrRequest, protocol: str, key: str, content: Any, more: Mapping[str, Any]) -> Request:
    """A request from any of the forms it may have."""
    if isinstance(model, Request):
        if content is not None or more:
            raise InputError("a Request says it all: messages and settings belong into it")
        return model
    if isinstance(model, str):
        if content is None:
            raise BadRequest("what to ask", None, key)
        asked = [{"role": "user", "content": content}] if key == "messages" and isinstance(content, str) else content
        return reader(protocol)({"model": model, key: asked, **more})
    return reader(protocol)({**model, **({key: content} if content is not None else {}), **more})


def _shape(shapes: Mapping[str, WireFormat], name: str) -> WireFormat:
    if name not in shapes:
        raise InputError(f"no way is known to speak {name}; known are: {', '.join(shapes)}")
    return shapes[name]


T = TypeVar("T")


class SyncClient:
    """Takes what `Client` takes. Streams are plain iterators; leaving one early closes its connection."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.client: Client = Client(*args, **more)
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
