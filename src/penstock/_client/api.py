"""`LlmApi`, the interface of a client for language models, and `Client`, which implements it for every provider.

A request is a body in OpenAI's format, a `Request`, or a model's name and content. Answers are canonical events.

Every call takes one of two ways, each with one method that features extend:

- Turns: a method reads its arguments into a `TurnCall` and passes it to `_stream`, which returns a `Stream`. The stream
  calls `_send` when it is first read. What happens around a turn (hooks, a cache, a budget, spans) is in its
  `CallObserver`.
- Embeddings, rankings: `_fetch` sends them, and `ClientOperations` counts their usage.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, runtime_checkable

from penstock._client import embedding_formats
from penstock._client import parameters as params
from penstock._client.batch_api import MapMethods
from penstock._client.call_observer import ClientOperations, FetchedAnswer
from penstock._client.embedding_formats import Embeddings, Ranking
from penstock._client.parameter_values import COUNT, check_value, check_values
from penstock._client.results import Answer, Stream
from penstock._client.run_api import RunMethods
from penstock._client.turn_calls import TurnCall, read_turn_call, take_options
from penstock._engines.model_resolution import REPLAY, Target, list_configured_providers
from penstock._http.request_options import RequestOptions
from penstock._option_checks import TEXT
from penstock._providers.model_lists import read_model_list
from penstock._providers.models import Model
from penstock._providers.models import models as built_in_models
from penstock.errors import InputError, ProviderError
from penstock.stores import MemoryStore

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from penstock._client.costs import UsageTracker
    from penstock._engines.config import Config
    from penstock._engines.reply import ModelReply
    from penstock._engines.router import Router
    from penstock._messages.options import ConvertOptions
    from penstock.stores import ReasoningStore


@runtime_checkable
class LlmApi(Protocol):
    """What a program needs of a model. The `_stream` methods yield events, the others return complete results.

    `SyncClient` has the same methods without `await`; `isinstance` looks at the names of the methods only.
    """

    async def chat(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Answer: ...
    def chat_stream(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Stream: ...
    async def responses(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> Answer: ...
    def responses_stream(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> Stream: ...
    async def complete(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> Answer: ...
    def complete_stream(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> Stream: ...
    def fim_stream(
        self,
        model: params.CompletionInput = "",
        prefix: str = "",
        suffix: str = "",
        **parameters: Unpack[params.FimParameters],
    ) -> Stream: ...
    async def embed(
        self, model: str, texts: params.EmbedInput | None = None, **parameters: Unpack[params.EmbedParameters]
    ) -> Embeddings: ...
    async def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        top: int | None = None,
        **parameters: Unpack[params.RerankParameters],
    ) -> Ranking: ...
    async def list_models(
        self, provider: str = "", **parameters: Unpack[params.ListModelsParameters]
    ) -> list[Model]: ...


class Client(RunMethods, MapMethods):
    """`LlmApi` for every provider. Create one for a program: it keeps connections, tokens and the state of providers.

    `config` is a `Config`, a mapping or the path of a TOML file. `ClientParameters` describes the other parameters.
    Close it with `aclose`, or use it as a context manager.

    Examples:
        `replay/…` models need no key and no network:

        >>> import asyncio
        >>> async def ask() -> str:
        ...     async with Client() as client:
        ...         answer = await client.chat("replay/text", "What is a penstock?")
        ...         return answer.text
        >>> asyncio.run(ask())[:52]
        'A penstock is the pipe that feeds water to a turbine'
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        **parameters: Unpack[params.ClientParameters],
    ) -> None:
        params.check_parameters("Client", parameters, params.ClientParameters, ("config",))
        router, store = parameters.get("router"), parameters.get("store")
        self.router: Router = router or _create_router(config, parameters.get("env"))
        self._operations = ClientOperations(self.router, parameters)
        self.spending: UsageTracker = self._operations.spending
        self._options = RequestOptions.read(parameters.get("options"))
        kept = MemoryStore(time.monotonic) if store is None else store
        self._store: ReasoningStore | None = None if kept is False else kept
        self._tenant = parameters.get("tenant") or ""
        self._owns_router = router is None
        self._unclosed = False

    async def aclose(self) -> None:
        """Closes all connections."""
        self._unclosed = False
        await self._operations.aclose()
        await self.router.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_unclosed", False):
            text = f"unclosed {type(self).__name__}: use it as a context manager, or await its aclose()"
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    async def chat(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Answer:
        """Returns the answer to a conversation. `messages` may be a text."""
        return await self._read_turn("chat", "chat", model, messages, parameters).turn()

    def chat_stream(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        **parameters: Unpack[params.ChatParameters],
    ) -> Stream:
        """Does the same, but yields events."""
        return self._read_turn("chat_stream", "chat", model, messages, parameters)

    async def responses(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> Answer:
        """Returns the answer to a request in the format of OpenAI's Responses API."""
        return await self._read_turn("responses", "responses", model, input, parameters).turn()

    def responses_stream(
        self,
        model: params.ResponsesInput = "",
        input: params.Messages | None = None,
        **parameters: Unpack[params.ResponsesParameters],
    ) -> Stream:
        """Does the same, but yields events."""
        return self._read_turn("responses_stream", "responses", model, input, parameters)

    async def complete(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> Answer:
        """Returns the continuation of a prompt."""
        return await self._read_turn("complete", "completions", model, prompt, parameters).turn()

    def complete_stream(
        self,
        model: params.CompletionInput = "",
        prompt: params.Prompt | None = None,
        **parameters: Unpack[params.CompleteParameters],
    ) -> Stream:
        """Does the same, but yields events."""
        return self._read_turn("complete_stream", "completions", model, prompt, parameters)

    def fim_stream(
        self,
        model: params.CompletionInput = "",
        prefix: str = "",
        suffix: str = "",
        **parameters: Unpack[params.FimParameters],
    ) -> Stream:
        """Yields the text between a prefix and a suffix, as events."""
        content = prefix or parameters.pop("prompt", None) or None
        fields = {**parameters, "suffix": suffix} if suffix else parameters
        return self._read_turn("fim_stream", "fim", model, content, fields)

    def _read_turn(
        self, function: str, operation: str, model: Any, content: Any, parameters: Mapping[str, Any]
    ) -> Stream:
        return self._stream(read_turn_call(function, operation, model, content, parameters, self._options))

    def _stream(self, call: TurnCall) -> Stream:
        """Returns the stream of a turn. It sends the request when it is first read."""
        observer = self._operations.observe(call)
        return Stream(partial(self._send, call), observer, store=self._store, tenant=self._tenant)

    async def _send(self, call: TurnCall) -> ModelReply:
        """Sends a turn. Returns once its answer has begun."""
        self._unclosed = self._owns_router
        convert: ConvertOptions = call.convert
        if self._store is not None:
            convert = {**convert, "store": self._store, "tenant": self._tenant}
        # Without options of their own, calls share the router's plans.
        options = call.options if call.options.explicit_names() else None
        return await self.router.open(
            call.request, call.operation, source=call.source, engine=call.engine, options=options, convert=convert
        )

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    async def embed(
        self, model: str, texts: params.EmbedInput | None = None, **parameters: Unpack[params.EmbedParameters]
    ) -> Embeddings:
        """Returns a vector for each text. More texts than a request may hold are sent in several requests."""
        params.check_parameters("embed", parameters, params.EmbedParameters, ("model", "texts"))
        check_value("model", model, TEXT)
        fields: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        given = fields.pop("input", None)
        from penstock._client.embedding_batches import embed_batches, find_batch_limit  # noqa: PLC0415 — few programs

        inputs = embedding_formats.read_inputs(given if texts is None else texts)
        limit = find_batch_limit(model, self.router, fields.pop("batch_size", None))
        return await embed_batches(inputs, limit, partial(self._embed, model, fields), model)

    async def _embed(self, model: str, fields: Mapping[str, Any], texts: Sequence[Any]) -> Embeddings:
        found = await self._fetch("embeddings", embedding_formats.EMBEDDINGS, model, (texts,), dict(fields))
        return Embeddings(embedding_formats.read_vectors(found["raw"]), **found)

    async def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        top: int | None = None,
        **parameters: Unpack[params.RerankParameters],
    ) -> Ranking:
        """Returns documents by how well they answer a query, the best first."""
        params.check_parameters("rerank", parameters, params.RerankParameters, ("model", "query", "documents"))
        check_value("model", model, TEXT)
        check_values({"query": query, "documents": documents, "top": top})
        check_value("top_k", parameters.get("top_k"), COUNT)
        fields: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        limits: list[int | None] = [top, fields.pop("top_n", None), fields.pop("top_k", None)]
        top, inputs = next(filter(None, limits), None), list(documents)
        found = await self._fetch("rerank", embedding_formats.RANKINGS, model, (query, inputs, top), fields)
        results = embedding_formats.read_ranking(found["raw"])
        for one in results:
            one.document = inputs[one.index] if one.index < len(inputs) else ""
        return Ranking(results, **found)

    async def _fetch(
        self,
        operation: str,
        writers: Mapping[str, Callable[..., dict[str, Any]]],
        model: str,
        content: tuple[Any, ...],
        fields: dict[str, Any],
    ) -> dict[str, Any]:
        """Sends a request that is not a turn. Returns the fields that all results share."""
        vendor = fields.pop("extra_body", {})  # the writers know where these fields stand
        options, engine = take_options(fields, self._options)
        self._unclosed = self._owns_router

        def write_body(target: Target, shape: str) -> dict[str, Any]:
            if shape not in writers:
                raise InputError(f"no way is known to speak {shape}; known are: {', '.join(writers)}")
            return writers[shape](target.model, *content, **{**fields, **vendor})

        async def send() -> FetchedAnswer:
            job, data, record = await self.router.fetch(model, operation, write_body, engine=engine, options=options)
            answer = embedding_formats.decode_answer(data)
            return FetchedAnswer(job, record, answer, embedding_formats.read_usage(answer))

        (job, record, answer, usage), cost = await self._operations.fetch(operation, model, send)
        known = {"model": job.model, "usage": usage, "raw": answer, "provider": job.provider.name, "record": record}
        return {**known, "cost_parts": None if cost is None else cost.parts}

    async def list_models(self, provider: str = "", **parameters: Unpack[params.ListModelsParameters]) -> list[Model]:
        """Returns the models that a provider lists; without a name, those of all configured providers.

        If a provider cannot be reached, its built-in list is used; if it is named, its error is raised.
        """
        params.check_parameters("list_models", parameters, params.ListModelsParameters, ("provider",))
        check_value("provider", provider)
        fields: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        chat = bool(fields.pop("chat", False))
        options, _ = take_options(fields, self._options)
        config, env = self.router.config, self.router.env
        if provider:
            return await self._list_provider(provider, options, chat=chat)
        from asyncio import gather  # noqa: PLC0415 — a sixth of the work that the import of `Client` was

        rows = list_configured_providers(config, env) or [config.provider(REPLAY)]
        calls = (self._list_provider(row.name, options, chat=chat) for row in rows)
        results = await gather(*calls, return_exceptions=True)
        models: list[Model] = []
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, ProviderError | InputError):
                raise result
            models += built_in_models(row) if isinstance(result, BaseException) else result
        return models

    async def _list_provider(self, provider: str, options: RequestOptions, *, chat: bool) -> list[Model]:
        row = self.router.config.provider(provider)
        target = Target(row, "", f"{row.name} was named")
        self._unclosed = self._owns_router
        _, data, _ = await self.router.fetch(target, "models", lambda _target, _shape: {}, options=options)
        models = read_model_list(row, embedding_formats.decode_answer(data), chat=chat)
        if "loaded" not in row.endpoints or not row.local:
            return models
        from penstock._client.loaded_models import find_loaded_windows  # noqa: PLC0415 — for self-hosted servers

        return await find_loaded_windows(self.router, row, models, options)


def _create_router(config: Any, env: Mapping[str, str] | None) -> Router:
    """Returns the router of a client. Its modules are imported with the first client, not with the class."""
    from penstock._engines.refreshed_facts import load_refreshed_facts  # noqa: PLC0415
    from penstock._engines.router import Router  # noqa: PLC0415 — a fifth of the time that the import of `Client` took
    from penstock._store.data_folder import data_folder  # noqa: PLC0415

    if env is None:
        load_refreshed_facts(data_folder())
    return Router(config, env=env)
