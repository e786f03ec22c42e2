"""How many tokens a request is: by the provider's own count where it has one, else by the estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import lenient_fields as lenient
from penstock import strict_fields as strict
from penstock.client.embeddings import read
from penstock.errors import InputError, ProviderError
from penstock.gateway.endpoints import canonical
from penstock.messages import convert_request
from penstock.messages.request_codecs import reader

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.engines.decisions import Record
    from penstock.engines.model_resolution import Target
    from penstock.gateway.aux_requests import Errand
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object
    from penstock.tokens import HybridTokenEstimator

# What a count takes of a request, by the protocol of the endpoint; and what its answer calls the number.
TAKEN: dict[str, tuple[str, ...]] = {
    "anthropic": (
        "model", "messages", "system", "tools", "tool_choice", "thinking", "mcp_servers", "output_config",
        "context_management",
    ),
    "gemini": ("contents", "systemInstruction", "tools", "toolConfig"),
}  # fmt: skip
NUMBERS = ("input_tokens", "totalTokens")


async def messages(services: Services, visit: Visit) -> bytes:
    """`/v1/messages/count_tokens`."""
    _, request = await visit.offload(lambda: canonical(visit, "anthropic"))
    count, _ = await counted(services, visit, request, "anthropic")
    return msgspec.json.encode({"input_tokens": count})


async def gemini(services: Services, visit: Visit) -> bytes:
    """`…:countTokens`; the request may stand a level deeper."""
    request = await visit.offload(lambda: _gemini_request(visit))
    request.model = visit.params["model"]
    count, _ = await counted(services, visit, request, "gemini")
    return msgspec.json.encode({"totalTokens": count})


def _gemini_request(visit: Visit) -> rq.Request:
    body = visit.body()
    inner = lenient.get_object(body, "generateContentRequest") or body
    return reader("gemini")({"contents": [], **inner})


async def editor(services: Services, visit: Visit) -> bytes:
    """`/vscode/count`: texts, messages and tools, each for itself."""
    body = await visit.offload(visit.body)
    name = strict.require_text(body, "model")
    target, estimator = services.catalogue.target(name), services.estimator_for(visit)
    counts = await visit.offload(lambda: [_item(estimator, item, target) for item in lenient.get_list(body, "items")])
    _met(visit, name, target, sum(counts))
    return msgspec.json.encode({"version": 1, "counts": counts, "exact": False})


def _item(estimator: HybridTokenEstimator, item: Any, target: Target) -> int:
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


async def counted(services: Services, visit: Visit, request: rq.Request, source: str) -> tuple[int, bool]:
    """The count, and whether it is the provider's own."""
    request.model = request.model or services.default
    visit.caller.check(request.model)
    target = services.catalogue.target(request.model)
    if target.provider.endpoint("count", target.model) is not None:
        found, record = await _asked(services, visit, request, source)
        if found is not None:
            _met(visit, request.model, target, found, record)
            return found, True
    estimator = services.estimator_for(visit)
    found_here = await visit.offload(
        lambda: estimator.estimate_conversation(request, target.model, target.provider.name)
    )
    made = found_here.tokens
    _met(visit, request.model, target, made)
    return made, False


def _met(visit: Visit, name: str, target: Target, count: int, record: Record | None = None) -> None:
    """For the journal: what was counted for whom; without a record nobody was asked."""
    errand: Errand | None = visit.errand
    if errand is not None:
        errand.asked, errand.counted = name, count
        errand.met(target.provider.name, target.model, None, record)


async def _asked(
    services: Services, visit: Visit, request: rq.Request, source: str
) -> tuple[int | None, Record | None]:
    """The provider's own count; None where it gives none, for whatever reason."""

    def body(target: Target, shape: str) -> dict[str, Any]:
        made = convert_request(request, source, shape, model=target.model).body
        return {name: made[name] for name in TAKEN[shape] if name in made}

    try:
        _, data, record = await services.router.fetch(
            request.model, "count", body, options=services.options(visit), headers=visit.headers
        )
    except (ProviderError, InputError, KeyError):
        return None, None
    answer = lenient.as_object(read(data))
    return next((found for name in NUMBERS if (found := lenient.get_integer(answer, name)) is not None), None), record
