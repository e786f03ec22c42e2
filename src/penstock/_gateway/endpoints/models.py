"""Lists of models, in the form that each client expects (`models` in the table of clients)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._engines.model_resolution import REPLAY, list_configured_providers
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import IncomingRequest, ollama
from penstock._protocols import protocol
from penstock._providers.fim import FIM
from penstock._providers.models import NAME, Model, Policy, detail, max_input_tokens
from penstock._tokens.file_costs import DEFAULT_SIZE, image_tokens
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.catalogue import ModelEntry
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object
    from penstock._providers.registry import Provider
    from penstock._tokens.estimate import HybridTokenEstimator

CREATED_AT = "2026-01-01T00:00:00Z"
_CREATED = 1_767_225_600
_GEMINI_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_FRACTION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_ASSUMED_OUTPUT = 16_000  # of models whose longest answer is unknown; at most a quarter of the window
_PRICE_LENGTH = 6  # characters
_TOKENS = re.compile(r"[1-9][0-9]{0,7}")


# ── one model ─────────────────────────────────────────────────────────────────────────────────────


def format_openai(entry: ModelEntry) -> Object:
    """Format a model as OpenAI lists it."""
    return {"id": entry.name, "object": "model", "created": _CREATED, "owned_by": entry.model.provider}


def format_anthropic(entry: ModelEntry) -> Object:
    """Format a model as Anthropic lists it."""
    return {"id": entry.name, "type": "model", "display_name": _display_name(entry), "created_at": CREATED_AT}


def format_mistral(entry: ModelEntry) -> Object:
    """Format a model as Mistral lists it. Its client requires the capabilities."""
    can = entry.model.capabilities
    abilities = {
        "completion_chat": "chat" in can,
        "completion_fim": FIM in can,
        "function_calling": "tools" in can,
        "fine_tuning": False,
        "vision": "images" in can,
    }
    fields = {**format_openai(entry), "type": "base", "capabilities": abilities, "name": _display_name(entry)}
    return fields | ({"max_context_length": entry.model.context} if entry.model.context else {})


def format_gemini(entry: ModelEntry) -> Object:
    """Format a model as Google lists it. Unknown limits are left out."""
    model = entry.model
    limits = {"inputTokenLimit": entry.max_input, "outputTokenLimit": model.max_output}
    return {
        "name": f"models/{entry.name}",
        "baseModelId": entry.name,
        "version": model.version or "1",
        "displayName": _display_name(entry),
        "description": detail(model),
        "supportedGenerationMethods": _GEMINI_METHODS,
        **{name: limit for name, limit in limits.items() if limit},
    }


# ── all of them ───────────────────────────────────────────────────────────────────────────────────


def _openai_list(rows: list[Object]) -> Object:
    return {"object": "list", "data": rows}


def _anthropic_list(rows: list[Object]) -> Object:
    first, last = (rows[0]["id"], rows[-1]["id"]) if rows else (None, None)
    return {"data": rows, "has_more": False, "first_id": first, "last_id": last}


def _models_list(rows: list[Object]) -> Object:
    return {"models": rows}


SHAPES: dict[str, tuple[Callable[[ModelEntry], Object], Callable[[list[Object]], Object]]] = {
    "openai": (format_openai, _openai_list),
    "anthropic": (format_anthropic, _anthropic_list),
    "mistral": (format_mistral, _openai_list),
    "gemini": (format_gemini, _models_list),
    "ollama": (ollama.format_ollama_model, _models_list),
}


async def list_models(services: Services, incoming: IncomingRequest) -> bytes:
    """`/v1/models`, and the lists of Gemini and Ollama, whose routes fix the form."""
    one, many = SHAPES[incoming.params.get("shape") or incoming.client.models]
    rows = [one(entry) for entry in await services.catalogue.entries(incoming.caller)]
    return msgspec.json.encode(many(rows))


async def show_model(services: Services, incoming: IncomingRequest) -> bytes:
    """`/v1/models/{model}`."""
    one, _ = SHAPES[incoming.params.get("shape") or incoming.client.models]
    return msgspec.json.encode(one(await services.catalogue.find(incoming.caller, incoming.params["model"])))


# ── an editor's ───────────────────────────────────────────────────────────────────────────────────


async def list_vscode_models(services: Services, incoming: IncomingRequest) -> bytes:
    """`/vscode/models`: the chat models, with what VS Code needs of each.

    The query may have `max_input`, a policy for prompt lengths, and `assumed_context`, the window to assume where none
    is known.
    """
    listed = await services.catalogue.entries(incoming.caller)
    entries = [entry for entry in listed if entry.model.chat]
    rows = {row.name: row for row in list_configured_providers(services.upstream.router.config, services.env)}
    policy = read_policy(incoming) or services.config.features.max_input
    limits = [vscode_input_limit(entry.model, policy, rows.get(entry.model.provider)) for entry in entries]
    entries = [replace(entry, max_input=limit) for entry, limit in zip(entries, limits, strict=True)]
    assumed = _read_assumed_context(incoming) or services.config.features.assumed_context
    counting = await services.estimators.run(
        incoming.caller.tenant, lambda estimator: [_counting_factors(estimator, entry.model) for entry in entries]
    )
    models = [
        {**_format_vscode(services, entry, rows.get(entry.model.provider), assumed), "counting": factors}
        for entry, factors in zip(entries, counting, strict=True)
    ]
    fim = [entry.name for entry in listed if FIM in entry.model.capabilities]
    return msgspec.json.encode({"version": 1, "models": models, "fim": fim})


def read_policy(incoming: IncomingRequest) -> Policy | None:
    """Return the policy for prompt lengths that the query names in `max_input`; None if it names none."""
    given = incoming.query.get("max_input", "")
    policy: Any = float(given) if _FRACTION.fullmatch(given) else given
    if not given:
        return None
    try:
        max_input_tokens(Model(id="", provider=""), policy)  # raises if it is not a policy
    except InputError as error:
        raise make_refusal(400, "invalid", f"max_input: {error}") from None
    return policy  # type: ignore[no-any-return]


def _read_assumed_context(incoming: IncomingRequest) -> int:
    """Return the window to assume that the query names in `assumed_context`; 0 if it names none."""
    given = incoming.query.get("assumed_context", "")
    if given and not _TOKENS.fullmatch(given):
        raise make_refusal(400, "invalid", "assumed_context: expected a number of tokens from 1 to 99999999")
    return int(given or 0)


def vscode_input_limit(model: Model, policy: Policy, provider: Provider | None, max_output: int | None = None) -> int:
    """Return how long a prompt may be in VS Code; 0 if unknown.

    As `max_input_tokens`, but a model whose longest answer is unknown also leaves room for one: VS Code adds input and
    output up to the window.
    """
    limit = max_input_tokens(model, policy, provider, max_output)
    if policy != "reserve-output" or not model.context or model.max_output or (max_output or 0) > 0:
        return limit
    return min(limit, model.context - _assume_output(model.context))


def _assume_output(window: int) -> int:
    """Return the room for an answer whose limit is unknown."""
    return min(_ASSUMED_OUTPUT, window // 4)


def _vscode_limits(entry: ModelEntry, assumed: int) -> tuple[int, int]:
    """Return the input and output limits of a model. If the window is unknown, together they are `assumed`."""
    window = entry.model.context or entry.max_input or assumed
    output = entry.max_output or _assume_output(window)
    if entry.max_input:
        return entry.max_input, output
    output = min(output, window // 2)
    return window - output, output


def _format_vscode(services: Services, entry: ModelEntry, row: Provider | None, assumed: int) -> Object:
    model = entry.model
    max_input, max_output = _vscode_limits(entry, assumed)
    provider = _short_title(row.title) if row else _REPLAY_TITLES.get(model.provider, model.provider)
    fields: dict[str, Any] = {
        "id": entry.name,
        "name": _display_name(entry),
        "family": model.family or model.id.rpartition("/")[2],
        "version": model.version or "1",
        "maxInputTokens": max_input,
        "maxOutputTokens": max_output,
        "capabilities": _vscode_capabilities(entry),
        "detail": provider,
        "tooltip": _format_tooltip(entry, assumed),
        "isUserSelectable": True,
        "isBYOK": True,
    }
    if not entry.max_input:
        fields["assumed"] = True  # the limit is not known, and nothing enforces the number
    if model.context:
        fields["maxContextWindowTokens"] = model.context
    if "reasoning" in model.capabilities:
        fields["configurationSchema"] = {"type": "object", "properties": _effort_schema(row, model.id)}
    if model.prices and model.prices.input is not None and model.prices.output is not None:
        fields["prices"] = {"input": model.prices.input, "output": model.prices.output}
        fields["pricing"] = short_price(model.prices.input, model.prices.output)
    if model.provider == REPLAY:
        fields["played"] = True
    elif services.config.features.context_management:
        fields["compacts"] = True
    return fields


def _vscode_capabilities(entry: ModelEntry) -> Object:
    """Return the capabilities. An unknown model is said to call tools: an editor's agent hides models that cannot."""
    can = entry.model.capabilities
    guessed = entry.model.source.get("capabilities") == NAME
    return {"toolCalling": guessed or "tools" in can, "imageInput": "images" in can}


def _short_title(title: str) -> str:
    """Return a provider's title without the explanation that follows it."""
    return re.split(r"[:,(]", title)[0].strip()


_REPLAY_TITLES = {REPLAY: "Replay"}
_EFFORTS = ("low", "medium", "high")


def _effort_schema(row: Provider | None, model: str) -> Object:
    """Return the schema of the effort picker, lowest first. The choice comes back as modelConfiguration."""
    endpoint = row.endpoint("chat", model) if row else None
    words = ["none", *_EFFORTS] if endpoint and protocol(endpoint.protocol).disables_thinking else [*_EFFORTS]
    labels = [word.title() for word in words]
    schema = {"type": "string", "title": "Thinking Effort", "enum": words, "enumItemLabels": labels}
    return {"reasoningEffort": {**schema, "group": "navigation"}}


def _format_tooltip(entry: ModelEntry, assumed: int) -> str:
    """Format what is known of a model, and the source of its limits and prices."""
    model, facts = entry.model, detail(entry.model)
    sources: dict[str, str] = {}
    for field, name in (("context", "limits"), ("prices", "prices")):
        if told := model.source.get(field):
            sources[told] = f"{sources[told]} and {name}" if told in sources else name
    told = "; ".join(f"{names}: {source}" for source, names in sources.items())
    facts += f" ({told})" if facts and told else ""
    if model.context or model.max_input:
        return facts
    unknown = f"its context window is not known, {assumed:,} tokens are assumed"
    return f"{entry.name}: {unknown}{f'; {facts}' if facts else ''}"


def _counting_factors(estimator: HybridTokenEstimator, model: Model) -> Object:
    """Return the factors with which a client counts tokens as the estimator does.

    `factor` was learned for the model from the tenant's turns. `factors` include it, the other numbers do not.
    """
    found = estimator.factors(model.id, model.provider)
    text = found.constants["text"]
    factors = {name: max(0.0, round(weight * text * found.factor, 6)) for name, weight in found.weights.items()}
    fields = {name: round(found.constants[name], 4) for name in ("base", "message", "call", "result", "tools", "tool")}
    of_text = {name: round(found.constants[name] / (text or 1.0), 4) for name in ("reasoning", "schema")}
    image = round(image_tokens(found.picture, *DEFAULT_SIZE))
    learned = {"factor": round(found.factor, 4)}
    return {"factors": factors, **learned, **fields, **of_text, "image": image, "rendering": found.rendering}


def _display_name(entry: ModelEntry) -> str:
    return entry.model.name or entry.name


def short_price(input: float, output: float) -> str:
    """Return prices for VS Code's column, which has room for six characters: `$3/15`. The tooltip has all digits.

    `$1.25/10` is too long, so it is rounded: `$1/10`.
    """
    forms = [f"${_round_price(input, digits)}/{_round_price(output, digits)}" for digits in (3, 2, 1)]
    return next((form for form in forms if len(form) <= _PRICE_LENGTH), forms[-1])


def _round_price(number: float, digits: int) -> str:
    """Return a number with so many digits, but all of those before the point: `0.15` is `.15`."""
    number *= 1 + 1e-9  # a half is rounded up: 2.5 to 3
    text = f"{number:.{digits}g}" if number < 10**digits else f"{number:.0f}"
    return text.removeprefix("0") or "0"
