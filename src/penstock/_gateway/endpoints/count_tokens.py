"""Token counts of requests: from the provider if it has a count endpoint, else from the estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._client.embedding_formats import decode_answer
from penstock._gateway import read_tables
from penstock._gateway.endpoints import IncomingRequest, read_request
from penstock._messages.convert import convert_request
from penstock._messages.request_codecs import reader
from penstock.errors import InputError, ProviderError

if TYPE_CHECKING:
    from penstock._engines.engine_interface import DecisionLog
    from penstock._engines.model_resolution import Target
    from penstock._gateway.journal import AuxRequest
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object
    from penstock._tokens.estimate import HybridTokenEstimator

COUNTED_FIELDS: dict[str, list[str]] = read_tables()["counted_fields"]
COUNT_NAMES = ("input_tokens", "totalTokens")  # the number in the answer of a count endpoint


async def count_messages(services: Services, incoming: IncomingRequest) -> bytes:
    """`/v1/messages/count_tokens`."""
    _, request = await incoming.offload(lambda: read_request(incoming, "anthropic"))
    count, _ = await count_request(services, incoming, request, "anthropic")
    return msgspec.json.encode({"input_tokens": count})


async def count_gemini(services: Services, incoming: IncomingRequest) -> bytes:
    """`…:countTokens`; the request may be nested in `generateContentRequest`."""
    request = await incoming.offload(lambda: _gemini_request(incoming))
    request.model = incoming.params["model"]
    count, _ = await count_request(services, incoming, request, "gemini")
    return msgspec.json.encode({"totalTokens": count})


def _gemini_request(incoming: IncomingRequest) -> rq.Request:
    body = incoming.json_body()
    inner = lenient.get_object(body, "generateContentRequest") or body
    return reader("gemini")({"contents": [], **inner})


async def count_vscode(services: Services, incoming: IncomingRequest) -> bytes:
    """`/vscode/count`: counts each text, message and tool separately."""
    body = await incoming.offload(incoming.json_body)
    name = strict.require_text(body, "model")
    target, estimator = services.catalogue.target(name), services.upstream.estimator_for(incoming)
    counts = await incoming.offload(
        lambda: [_count_item(estimator, item, target) for item in lenient.get_list(body, "items")]
    )
    _record_count(incoming, name, target, sum(counts))
    return msgspec.json.encode({"version": 1, "counts": counts, "exact": False})


def _count_item(estimator: HybridTokenEstimator, item: Any, target: Target) -> int:
    model, provider = target.model, target.provider.name
    if isinstance(item, str):
        return estimator.estimate_text(item, model, provider).tokens
    value: Object = strict.as_object(item)
    if "role" in value:
        found = reader("vscode")({"messages": [value]}).messages
        return sum(estimator.estimate_message(one, model, provider).tokens for one in found)
    asked = reader("vscode")({"messages": [], "tools": [value]})
    whole = estimator.estimate_conversation(asked, model, provider).tokens
    return whole - estimator.estimate_conversation(replace(asked, tools=[]), model, provider).tokens


async def count_request(
    services: Services, incoming: IncomingRequest, request: rq.Request, source: str
) -> tuple[int, bool]:
    """Return the count, and whether it is the provider's."""
    request.model = request.model or services.catalogue.default_model
    incoming.caller.check_model(request.model)
    target = services.catalogue.target(request.model)
    if target.provider.endpoint("count", target.model) is not None:
        found, record = await _ask_provider(services, incoming, request, source)
        if found is not None:
            _record_count(incoming, request.model, target, found, record)
            return found, True
    estimator = services.upstream.estimator_for(incoming)
    model, provider = target.model, target.provider.name
    estimate = await incoming.offload(lambda: estimator.estimate_conversation(request, model, provider))
    _record_count(incoming, request.model, target, estimate.tokens)
    return estimate.tokens, False


def _record_count(
    incoming: IncomingRequest, name: str, target: Target, count: int, record: DecisionLog | None = None
) -> None:
    """Set what the journal records of a count. Without `record` no provider was asked."""
    aux_request: AuxRequest | None = incoming.aux_request
    if aux_request is not None:
        aux_request.requested_model, aux_request.counted = name, count
        aux_request.set_answer(target.provider.name, target.model, None, record)


async def _ask_provider(
    services: Services, incoming: IncomingRequest, request: rq.Request, source: str
) -> tuple[int | None, DecisionLog | None]:
    """Return the provider's count; None if it fails for any reason."""

    def body(target: Target, shape: str) -> dict[str, Any]:
        result = convert_request(request, source, shape, model=target.model).body
        return {name: result[name] for name in COUNTED_FIELDS[shape] if name in result}

    try:
        _, data, record = await services.upstream.router.fetch(
            request.model, "count", body, options=services.upstream.options(incoming), headers=incoming.headers
        )
    except (ProviderError, InputError, KeyError):
        return None, None
    answer = lenient.as_object(decode_answer(data))
    counts = (lenient.get_integer(answer, name) for name in COUNT_NAMES)
    return next((count for count in counts if count is not None), None), record
