"""The list of models in the shape that each client expects, which its row in the table of clients names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock.engines.model_resolution import REPLAY, known
from penstock.errors import InputError
from penstock.gateway.callers import refused
from penstock.gateway.endpoints import ollama
from penstock.protocols import protocol
from penstock.providers.models import NAME, detail, max_input_tokens
from penstock.tokens.file_costs import DEFAULT_SIZE, image_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.catalogue import Entry
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object
    from penstock.providers.models import Model
    from penstock.providers.registry import Provider

WHEN = "2026-01-01T00:00:00Z"
_CREATED = 1_767_225_600
_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_FRACTION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_OUTPUT = 16_000  # of a model that nothing is known of: an editor wants a number


# ── one model ─────────────────────────────────────────────────────────────────────────────────────


def openai(entry: Entry) -> Object:
    """As OpenAI lists it."""
    return {"id": entry.name, "object": "model", "created": _CREATED, "owned_by": entry.model.provider}


def anthropic(entry: Entry) -> Object:
    """As Anthropic does."""
    return {"id": entry.name, "type": "model", "display_name": _title(entry), "created_at": WHEN}


def mistral(entry: Entry) -> Object:
    """As Mistral does, whose client insists on what it can do."""
    can = entry.model.capabilities
    abilities = {
        "completion_chat": "chat" in can, "completion_fim": "fim" in can, "function_calling": "tools" in can,
        "fine_tuning": False, "vision": "images" in can,
    }  # fmt: skip
    made = {**openai(entry), "type": "base", "capabilities": abilities, "name": _title(entry)}
    return made | ({"max_context_length": entry.model.context} if entry.model.context else {})


def gemini(entry: Entry) -> Object:
    """As Google does. Limits that nobody knows are left out."""
    model = entry.model
    limits = {"inputTokenLimit": entry.max_input, "outputTokenLimit": model.max_output}
    return {
        "name": f"models/{entry.name}", "baseModelId": entry.name, "version": model.version or "1",
        "displayName": _title(entry), "description": detail(model), "supportedGenerationMethods": _METHODS,
        **{name: limit for name, limit in limits.items() if limit},
    }  # fmt: skip


# ── all of them ───────────────────────────────────────────────────────────────────────────────────


def _openai_list(rows: list[Object]) -> Object:
    return {"object": "list", "data": rows}


def _anthropic_list(rows: list[Object]) -> Object:
    first, last = (rows[0]["id"], rows[-1]["id"]) if rows else (None, None)
    return {"data": rows, "has_more": False, "first_id": first, "last_id": last}


def _models_list(rows: list[Object]) -> Object:
    return {"models": rows}


SHAPES: dict[str, tuple[Callable[[Entry], Object], Callable[[list[Object]], Object]]] = {
    "openai": (openai, _openai_list), "anthropic": (anthropic, _anthropic_list), "mistral": (mistral, _openai_list),
    "gemini": (gemini, _models_list), "ollama": (ollama.listed, _models_list),
}  # fmt: skip


async def listed(services: Services, visit: Visit) -> bytes:
    """`/v1/models`; Gemini's and Ollama's own addresses leave no choice."""
    one, many = SHAPES[visit.params.get("shape") or visit.client.models]
    rows = [one(entry) for entry in await services.catalogue.entries(visit.caller)]
    return msgspec.json.encode(many(rows))


async def shown(services: Services, visit: Visit) -> bytes:
    """`/v1/models/{model}`."""
    one, _ = SHAPES[visit.params.get("shape") or visit.client.models]
    return msgspec.json.encode(one(await services.catalogue.find(visit.caller, visit.params["model"])))


# ── an editor's ───────────────────────────────────────────────────────────────────────────────────


async def editors(services: Services, visit: Visit) -> bytes:
    """`/vscode/models`: what a host takes of a model that can be talked to. `max_input`: a policy of the host's own."""
    entries = [entry for entry in await services.catalogue.entries(visit.caller) if entry.model.chat]
    rows = {row.name: row for row in known(services.router.config, services.env)}
    if visit.query.get("max_input"):
        entries = _limited(entries, rows, visit.query["max_input"])
    models = [_editor(services, entry, rows.get(entry.model.provider)) for entry in entries]
    return msgspec.json.encode({"version": 1, "models": models})


def _limited(entries: list[Entry], rows: dict[str, Provider], said: str) -> list[Entry]:
    """The entries with prompts as long as a policy lets them be."""
    policy: Any = float(said) if _FRACTION.fullmatch(said) else said

    def limit(model: Model) -> int:
        return max_input_tokens(model, policy, rows.get(model.provider)) or model.max_input

    try:
        return [replace(entry, max_input=limit(entry.model)) for entry in entries]
    except InputError as error:
        raise refused(400, "invalid", f"max_input: {error}") from None


def _editor(services: Services, entry: Entry, row: Provider | None) -> Object:
    model, assumed = entry.model, services.config.features.assumed_context
    provider = _short(row.title) if row else _PLAYED.get(model.provider, model.provider)
    made: dict[str, Any] = {
        "id": entry.name, "name": _title(entry), "family": model.family or model.id.rpartition("/")[2],
        "version": model.version or "1", "maxInputTokens": entry.max_input or assumed,
        "maxOutputTokens": entry.max_output or _OUTPUT, "capabilities": _abilities(entry), "detail": provider,
        "tooltip": _tooltip(entry, assumed), "isUserSelectable": True, "isBYOK": True,
        "counting": _counting(services, entry),
    }  # fmt: skip
    if model.context:
        made["maxContextWindowTokens"] = model.context
    if "reasoning" in model.capabilities:
        made["configurationSchema"] = {"type": "object", "properties": {"reasoningEffort": _effort(row, model.id)}}
    if model.prices and model.prices.input is not None and model.prices.output is not None:
        made["prices"] = {"input": model.prices.input, "output": model.prices.output}
        made["pricing"] = _pricing(model.prices.input, model.prices.output, model.source.get("context", ""))
    if model.provider == REPLAY:
        made["played"] = True
    elif services.config.features.context_management:
        made["compacts"] = True
    return made


def _abilities(entry: Entry) -> Object:
    """A model of which nothing but the name is known may well call tools; an editor's agent hides one that cannot."""
    can = entry.model.capabilities
    guessed = entry.model.source.get("capabilities") == NAME
    return {"toolCalling": guessed or "tools" in can, "imageInput": "images" in can}


def _short(title: str) -> str:
    """A provider's title as a word in a sentence: without what is put after it to explain it."""
    return re.split(r"[:,(]", title)[0].strip()


_PLAYED = {REPLAY: "Replay"}
_EFFORTS = ("low", "medium", "high")


def _effort(row: Provider | None, model: str) -> Object:
    """What a host makes a picker of, the least first; what is picked comes back as modelConfiguration."""
    endpoint = row.endpoint("chat", model) if row else None
    words = ["none", *_EFFORTS] if endpoint and protocol(endpoint.protocol).disables_thinking else [*_EFFORTS]
    return {
        "type": "string", "title": "Thinking Effort", "enum": words,
        "enumItemLabels": [word.title() for word in words], "group": "navigation",
    }  # fmt: skip


def _pricing(given: float, made: float, told: str) -> str:
    """A host that shows this shows no tooltip, so it says whose limits those are, too."""
    return f"${given:g} in · ${made:g} out per million tokens{f' (prices and limits: {told})' if told else ''}"


def _tooltip(entry: Entry, assumed: int) -> str:
    """What is known of a model, and who says so."""
    told = entry.model.source.get("context")
    if entry.model.context:
        return f"{detail(entry.model)}{f' (limits: {told})' if told else ''}"
    return f"{entry.name}: its limits are not known, {assumed // 1000}K of context are assumed"


def _counting(services: Services, entry: Entry) -> Object:
    """What a client counts with; its sums are those of the estimator, less what only a whole request has."""
    found = services.estimator.factors(entry.model.id, entry.model.provider)
    text = found.constants["text"]
    factors = {name: max(0.0, round(weight * text * found.factor, 6)) for name, weight in found.weights.items()}
    said = {name: round(found.constants[name], 4) for name in ("base", "message", "call", "result", "tools", "tool")}
    of_text = {name: round(found.constants[name] / (text or 1.0), 4) for name in ("reasoning", "schema")}
    image = round(image_tokens(found.picture, *DEFAULT_SIZE))
    return {"factors": factors, **said, **of_text, "image": image, "rendering": found.rendering}


def _title(entry: Entry) -> str:
    return entry.model.name or entry.name
