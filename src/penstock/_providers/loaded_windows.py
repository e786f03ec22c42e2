"""The context windows with which self-hosted servers have loaded their models.

A list of models names the length that a model was trained with, if any. What counts is the length that the server has
loaded it with, which its owner chose: vLLM lists it (`max_model_len`), the others answer another request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._lenient_fields import Object, as_object
from penstock._providers.models import PROVIDER, Model, with_configured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._providers.registry import Provider

MAX_SHOWN = 50  # models of one server that are asked for one by one
_NUM_CTX = re.compile(r"^num_ctx[ \t]+([0-9]{1,9})", re.MULTILINE)
_CLOUD = (":cloud", "-cloud")  # Ollama serves these elsewhere, with their full window
_OLLAMA_WORDS = {"tools": "tools", "vision": "images", "thinking": "reasoning"}


def read_loaded_windows(protocol: str, body: Any) -> dict[str, int]:
    """Returns the windows of loaded models by id. The id "*" means every model of the server."""
    value = as_object(body)
    if protocol == "llamacpp-loaded":
        window = _count(as_object(value.get("default_generation_settings")).get("n_ctx"))
        return {"*": window} if window else {}
    rows = value.get("models") if protocol == "ollama-loaded" else value.get("data")
    field = "context_length" if protocol == "ollama-loaded" else "loaded_context_length"
    found: dict[str, int] = {}
    for item in rows if isinstance(rows, list) else ():  # pyright: ignore[reportUnknownVariableType]
        row = as_object(item)
        name = row.get("model") or row.get("name") or row.get("id")
        if isinstance(name, str) and (window := _count(row.get(field))):
            found[name] = window
    return found


def read_shown_model(body: Any) -> tuple[int, frozenset[str]]:
    """Returns what `POST /api/show` of Ollama says of a model: `num_ctx` of its parameters, its capabilities."""
    value = as_object(body)
    parameters, words = value.get("parameters"), value.get("capabilities")
    match = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    known = {str(word) for word in words} if isinstance(words, list) else set[str]()  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return int(match[1]) if match else 0, frozenset(_OLLAMA_WORDS[word] for word in known & _OLLAMA_WORDS.keys())


def with_loaded_windows(
    provider: Provider,
    models: list[Model],
    windows: Mapping[str, int],
    shown: Mapping[str, tuple[int, frozenset[str]]],
) -> list[Model]:
    """Returns the models with the windows that the server has loaded them with. The configuration still goes first.

    A model of Ollama that is not loaded has the window of its parameters. Without one its window is unknown: Ollama
    chooses it by the memory of the machine.
    """
    return [
        _with_window(provider, one, windows.get(one.id) or windows.get("*", 0), shown.get(one.id)) for one in models
    ]


def _with_window(provider: Provider, model: Model, loaded: int, shown: tuple[int, frozenset[str]] | None) -> Model:
    facts: Object = {}
    if loaded or (shown is not None and not model.id.endswith(_CLOUD)):
        window = loaded or (shown[0] if shown is not None else 0)
        longest = min(model.max_output, window // 2) if window else model.max_output
        facts = {"context": window, "max_input": 0, "max_output": longest}
    if shown is not None and shown[1]:
        facts["capabilities"] = (model.capabilities - set(_OLLAMA_WORDS.values())) | shown[1]
    unknown = {name for name, value in facts.items() if not value}
    source = {**model.source, **dict.fromkeys(facts, PROVIDER)}
    source = {name: told for name, told in source.items() if name not in unknown}
    return with_configured(replace(model, **facts, source=source), provider.models.get(model.id))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
