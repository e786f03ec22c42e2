"""Token counts of requests: from the provider if it has a count endpoint, else from the estimator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._client.embedding_formats import decode_answer
from penstock._engines.model_resolution import REPLAY
from penstock._gateway import read_tables
from penstock._gateway.endpoints import IncomingRequest, read_request
from penstock._gateway.endpoints.models import read_policy, vscode_input_limit
from penstock._gateway.token_estimators import count_headers
from penstock._input_limits import MAX_COUNT
from penstock._messages.context_trimming import estimate_request
from penstock._messages.convert import convert_request
from penstock._messages.request_codecs import reader
from penstock._tokens.estimate import Estimate, warning
from penstock._tokens.hidden_additions import has_hidden_context
from penstock.errors import BadRequest, InputError, ProviderError, TooDeep

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    count = await count_request(services, incoming, request, "anthropic")
    return msgspec.json.encode({"input_tokens": count.tokens})


async def count_gemini(services: Services, incoming: IncomingRequest) -> bytes:
    """`…:countTokens`; the request may be nested in `generateContentRequest`."""
    request = await incoming.offload(lambda: _gemini_request(incoming))
    request.model = incoming.params["model"]
    count = await count_request(services, incoming, request, "gemini")
    return msgspec.json.encode({"totalTokens": count.tokens})


def _gemini_request(incoming: IncomingRequest) -> rq.Request:
    body = incoming.json_body()
    inner = strict.get_object(body, "generateContentRequest") or body
    return reader("gemini")({"contents": [], **inner})


async def count_vscode(services: Services, incoming: IncomingRequest) -> bytes:
    """`/vscode/count`: counts a whole prompt (`messages`), or each text, message and tool of `items` separately."""
    asked = await incoming.offload(lambda: _read_vscode_count(incoming))
    if isinstance(asked, rq.Request):
        return await _count_vscode_prompt(services, incoming, asked)
    name, items = asked
    incoming.caller.check_model(name)
    target = services.catalogue.target(name)
    model, provider = target.model, target.provider.name
    counts, factor = await services.estimators.run(
        incoming.caller.tenant,
        lambda estimator: (
            [_count_item(estimator, item, model, provider) for item in items],
            estimator.factor(model, provider).value,
        ),
        len(incoming.raw),
    )
    _record_count(incoming, name, target, _sum_estimates(counts))
    answer = {"counts": [count.tokens for count in counts], "exact": False, "factor": round(factor, 4)}
    return msgspec.json.encode({"version": 1, **answer})


async def _count_vscode_prompt(services: Services, incoming: IncomingRequest, request: rq.Request) -> bytes:
    """Count a prompt in the form of `/vscode/chat`, without asking the provider: an editor counts often."""
    name = request.model = request.model or services.catalogue.default_model
    incoming.caller.check_model(name)
    target = services.catalogue.target(name)
    count = await _estimate(services, incoming, request, target)
    _record_count(incoming, name, target, count)
    policy = read_policy(incoming) or services.config.features.max_input
    known = services.catalogue.target_model(target)
    limit = vscode_input_limit(known, policy, target.provider, request.settings.max_output)
    warned = warning(count, limit)
    answer = {
        "version": 1,
        "prompt": count,
        "limit": limit or None,
        "assumed": not limit,
        "warning": f"{warned.code}; {warned.message}" if warned is not None else None,
    }
    return msgspec.json.encode(answer)


_Item: TypeAlias = "str | tuple[rq.Message, ...] | rq.Request"


def _read_vscode_count(incoming: IncomingRequest) -> rq.Request | tuple[str, list[_Item]]:
    """Return a whole prompt, or the name of a model and items."""
    try:
        body = incoming.json_body()
    except TooDeep:  # inputs of calls may be nested deeper than the rest of a body
        return read_request(incoming, "vscode")[1]
    if "messages" in body and "items" not in body:
        return reader("vscode")(body)
    items = lenient.get_list(body, "items")
    if not items and body.get("items") not in (None, []):
        raise BadRequest("a list", body["items"], "items")
    return strict.require_text(body, "model"), [_read_item(item, at) for at, item in enumerate(items)]


def _read_item(item: Any, position: int) -> _Item:
    """Return a text, the messages of a message, or a request that holds only a tool."""
    if isinstance(item, str):
        return item
    try:
        value: Object = strict.as_object(item)
        if "role" in value:
            return tuple(reader("vscode")({"messages": [value]}).messages)
        return reader("vscode")({"messages": [], "tools": [value]})
    except BadRequest as error:
        error.path = re.sub(r"^(messages|tools)\[0\]\.?", "", error.path)
        raise error.at(position).at("items") from None


def _count_item(estimator: HybridTokenEstimator, item: _Item, model: str, provider: str) -> Estimate:
    if isinstance(item, str):
        return estimator.estimate_text(item, model, provider)
    if isinstance(item, tuple):
        return _sum_estimates([estimator.estimate_message(one, model, provider) for one in item])
    whole = estimator.estimate_conversation(item, model, provider)
    rest = estimator.estimate_conversation(replace(item, tools=[]), model, provider)
    low, high = (max(getattr(whole, name) - rest.tokens, 0) for name in ("low", "high"))
    return Estimate(whole.tokens - rest.tokens, "estimated", whole.confidence, low, high)


def _sum_estimates(counts: Sequence[Estimate]) -> Estimate:
    tokens, low, high = (sum(getattr(count, name) for count in counts) for name in ("tokens", "low", "high"))
    confidence = max(0.0, 1 - (high - low) / (2 * tokens)) if tokens else 0.0
    return Estimate(tokens, "estimated", round(confidence, 3), low, high)


async def count_request(services: Services, incoming: IncomingRequest, request: rq.Request, source: str) -> Estimate:
    """Count a request: by the provider if it has a count endpoint, else by the tenant's estimator."""
    request.model = request.model or services.catalogue.default_model
    incoming.caller.check_model(request.model)
    target = services.catalogue.target(request.model)
    # A count endpoint is not asked about a context that is not sent to it: its answer would be too small.
    if target.provider.endpoint("count", target.model) is not None and not has_hidden_context(request):
        found, record = await _ask_provider(services, incoming, request, source)
        if found is not None:
            count = _actual(found)
            _record_count(incoming, request.model, target, count, record)
            return count
    count = await _estimate(services, incoming, request, target)
    _record_count(incoming, request.model, target, count)
    return count


async def _estimate(services: Services, incoming: IncomingRequest, request: rq.Request, target: Target) -> Estimate:
    """Count without the provider. Packaged streams have a counter of their own, which their usage shows too."""
    model, provider = target.model, target.provider.name
    if provider == REPLAY:
        return _actual(await incoming.offload(lambda: estimate_request(request)))
    return await services.estimators.run(
        incoming.caller.tenant,
        lambda estimator: estimator.estimate_conversation(request, model, provider),
        incoming.prompt_bytes,
    )


def _actual(tokens: int) -> Estimate:
    return Estimate(tokens, "actual", 1.0, tokens, tokens)


def _record_count(
    incoming: IncomingRequest, name: str, target: Target, count: Estimate, record: DecisionLog | None = None
) -> None:
    """Set what the response headers and the journal say of a count. Without `record` no provider was asked."""
    aux_request: AuxRequest | None = incoming.aux_request
    if aux_request is not None:
        aux_request.requested_model, aux_request.counted = name, count
        aux_request.headers = count_headers(count)
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
        answer = lenient.as_object(decode_answer(data))
    except (ProviderError, InputError, KeyError):
        return None, None
    counts = (lenient.get_integer(answer, name) for name in COUNT_NAMES)
    return next((count for count in counts if count is not None and 1 <= count <= MAX_COUNT), None), record
