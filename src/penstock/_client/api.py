"""`LlmApi`, the interface of a client for language models; `Client` and `SyncClient` implement it for every provider.

A request is a body in OpenAI's format, a `Request`, or a model's name and messages. Answers are canonical events.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from penstock._client import embedding_formats
from penstock._client.embedding_formats import Embeddings, Ranking
from penstock._client.results import Answer, Stream, UsageTracker
from penstock._engines.model_resolution import REPLAY, Target, list_configured_providers
from penstock._engines.router import Router
from penstock._http.request_options import RequestOptions
from penstock._messages.options import OPTIONS
from penstock._messages.request_codecs import reader
from penstock._option_checks import check_options
from penstock._providers.model_lists import read_model_list
from penstock._providers.models import Model
from penstock._providers.models import models as built_in_models
from penstock.errors import BadRequest, InputError, ProviderError
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from penstock._engines.config import Config
    from penstock._engines.reply import ModelReply
    from penstock._messages.options import ConvertOptions
    from penstock.events import AnyEvent
    from penstock.stores import ReasoningStore

ModelOrRequest: TypeAlias = "str | Request | Mapping[str, Any]"
Options: TypeAlias = "RequestOptions | Mapping[str, Any] | None"


_OPERATIONS = {  # operation → the protocol of its requests, and the field of the content
    "chat": ("openai-chat", "messages"),
    "responses": ("responses", "input"),
    "completions": ("completions", "prompt"),
    "fim": ("completions", "prompt"),
}


class LlmApi(Protocol):
    """What a program needs of a model. The `_stream` methods yield events, the others return complete results."""

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
    """`LlmApi` for every provider. Create one for a program: it keeps connections, tokens and the state of providers.

    `config` is a `Config`, a mapping or the path of a TOML file; `options` apply to every call; `store` keeps the
    reasoning state that messages in OpenAI's format cannot hold. Each call takes `options` and `engine` too.
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
        """Closes all connections."""
        await self.router.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    async def chat(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Answer:
        """Returns the answer to a conversation. `messages` may be a text."""
        return await self._stream("chat", model, messages, more, stream=False).turn()

    def chat_stream(self, model: ModelOrRequest, messages: Any = None, /, **more: Any) -> Stream:
        """Does the same, but yields events."""
        return self._stream("chat", model, messages, more)

    async def responses(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Answer:
        """Returns the answer to a request in the format of OpenAI's Responses API."""
        return await self._stream("responses", model, input, more, stream=False).turn()

    def responses_stream(self, model: ModelOrRequest, input: Any = None, /, **more: Any) -> Stream:
        """Does the same, but yields events."""
        return self._stream("responses", model, input, more)

    async def complete(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Answer:
        """Returns the continuation of a prompt."""
        return await self._stream("completions", model, prompt, more, stream=False).turn()

    def complete_stream(self, model: ModelOrRequest, prompt: Any = None, /, **more: Any) -> Stream:
        """Does the same, but yields events."""
        return self._stream("completions", model, prompt, more)

    def fim_stream(self, model: ModelOrRequest, prefix: str = "", suffix: str = "", /, **more: Any) -> Stream:
        """Yields the text between a prefix and a suffix, as events."""
        fields = {**more, "suffix": suffix} if suffix else more
        return self._stream("fim", model, prefix or None, fields)

    def _stream(
        self, operation: str, model: ModelOrRequest, content: Any, more: Mapping[str, Any], *, stream: bool = True
    ) -> Stream:
        protocol, key = _OPERATIONS[operation]
        options, engine, fields = self._split_options(more)
        convert: ConvertOptions = fields.pop("convert", {}).copy()
        check_options("convert", convert, OPTIONS)
        convert["prompt_caching"] = bool(fields.pop("prompt_caching", False))
        convert["context_management"] = bool(fields.pop("context_management", False))
        if fields.pop("strict", False):
            convert["strict"] = True
        if self._store is not None:
            convert["store"], convert["tenant"] = self._store, self._tenant
        request = replace(read_request(model, protocol, key, content, fields), stream=stream)

        async def send() -> ModelReply:
            return await self.router.open(
                request, operation, source=protocol, engine=engine, options=options, convert=convert
            )

        return Stream(send, on_close=self.spending.add, store=self._store, tenant=self._tenant)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    async def embed(self, model: str, texts: str | Sequence[str], /, **more: Any) -> Embeddings:
        """Returns a vector for each text."""
        inputs = [texts] if isinstance(texts, str) else list(texts)
        if not inputs:
            raise InputError("texts: expected at least one text, found none")
        fields = await self._fetch("embeddings", embedding_formats.EMBEDDINGS, model, (inputs,), more)
        return Embeddings(embedding_formats.read_vectors(fields["raw"]), **fields)

    async def rerank(
        self, model: str, query: str, documents: Sequence[str], /, top: int | None = None, **more: Any
    ) -> Ranking:
        """Returns documents by how well they answer a query, the best first."""
        inputs = list(documents)
        fields = await self._fetch("rerank", embedding_formats.RANKINGS, model, (query, inputs, top), more)
        results = embedding_formats.read_ranking(fields["raw"])
        for one in results:
            one.document = inputs[one.index] if one.index < len(inputs) else ""
        return Ranking(results, **fields)

    async def _fetch(
        self,
        operation: str,
        writers: Mapping[str, Callable[..., dict[str, Any]]],
        model: str,
        content: tuple[Any, ...],
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Sends a request that is not a turn. Returns the fields that all results share."""
        options, engine, rest = self._split_options(more)

        def write_body(target: Target, shape: str) -> dict[str, Any]:
            if shape not in writers:
                raise InputError(f"no way is known to speak {shape}; known are: {', '.join(writers)}")
            return writers[shape](target.model, *content, **rest)

        job, data, record = await self.router.fetch(model, operation, write_body, engine=engine, options=options)
        answer, provider = embedding_formats.decode_answer(data), job.provider.name
        usage = embedding_formats.read_usage(answer)
        self.spending.count(provider, job.model, usage)
        return {"model": job.model, "usage": usage, "raw": answer, "provider": provider, "record": record}

    async def list_models(self, provider: str = "", /, *, chat: bool = False, **more: Any) -> list[Model]:
        """Returns the models that a provider lists; without a name, those of all configured providers.

        If a provider cannot be reached, its built-in list is used; if it is named, its error is raised.
        """
        options, _, _ = self._split_options(more)
        config, env = self.router.config, self.router.env
        if provider:
            return await self._list_provider(provider, chat, options)
        rows = list_configured_providers(config, env) or [config.provider(REPLAY)]
        results = await asyncio.gather(
            *(self._list_provider(row.name, chat, options) for row in rows), return_exceptions=True
        )
        models: list[Model] = []
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, ProviderError | InputError):
                raise result
            models += built_in_models(row) if isinstance(result, BaseException) else result
        return models

    async def _list_provider(self, provider: str, chat: bool, options: RequestOptions) -> list[Model]:  # noqa: FBT001
        row = self.router.config.provider(provider)
        target = Target(row, "", f"{row.name} was named")
        _, data, _ = await self.router.fetch(target, "models", lambda _target, _shape: {}, options=options)
        return read_model_list(row, embedding_formats.decode_answer(data), chat=chat)

    def _split_options(self, more: Mapping[str, Any]) -> tuple[RequestOptions, str, dict[str, Any]]:
        rest = dict(more)
        options = RequestOptions.read(rest.pop("options", None)).over(self._options)
        return options, rest.pop("engine", ""), rest


def read_request(model: ModelOrRequest, protocol: str, key: str, content: Any, more: Mapping[str, Any]) -> Request:
    """Returns the request from any form that callers may use."""
    if isinstance(model, Request):
        if content is not None or more:
            raise InputError("a Request says it all: messages and settings belong into it")
        return model
    if isinstance(model, str):
        if content is None:
            raise BadRequest("what to ask", None, key)
        is_text = key == "messages" and isinstance(content, str)
        value = [{"role": "user", "content": content}] if is_text else content
        return reader(protocol)({"model": model, key: value, **more})
    return reader(protocol)({**model, **({key: content} if content is not None else {}), **more})


T = TypeVar("T")


class SyncClient:
    """`Client` without async. Streams are iterators; leaving one early closes its connection."""

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
        """Closes all connections and stops the thread."""
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
        return self._iterate(self.client.chat_stream(*args, **more))

    def responses(self, *args: Any, **more: Any) -> Answer:
        return self._run(self.client.responses(*args, **more))

    def responses_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._iterate(self.client.responses_stream(*args, **more))

    def complete(self, *args: Any, **more: Any) -> Answer:
        return self._run(self.client.complete(*args, **more))

    def complete_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._iterate(self.client.complete_stream(*args, **more))

    def fim_stream(self, *args: Any, **more: Any) -> Iterator[AnyEvent]:
        return self._iterate(self.client.fim_stream(*args, **more))

    def embed(self, *args: Any, **more: Any) -> Embeddings:
        return self._run(self.client.embed(*args, **more))

    def rerank(self, *args: Any, **more: Any) -> Ranking:
        return self._run(self.client.rerank(*args, **more))

    def list_models(self, *args: Any, **more: Any) -> list[Model]:
        return self._run(self.client.list_models(*args, **more))

    def _iterate(self, stream: Stream) -> Iterator[AnyEvent]:
        batches = stream.batches()
        try:
            while (batch := self._run(_next(batches))) is not None:
                yield from batch
        finally:
            self._run(_close(batches, stream))


async def _next(batches: Any) -> Any:
    return await anext(batches, None)


async def _close(batches: Any, stream: Stream) -> None:
    await batches.aclose()
    await stream.aclose()
