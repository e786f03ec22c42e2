"""Reads tables of models in the form of models.dev (https://models.dev/api.json) into lines of `models.json`."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, cast

from penstock._diagnostics import read_package_file
from penstock._providers.model_facts import LETTERS
from penstock._providers.model_identity import kind
from penstock._providers.registry import providers
from penstock.errors import InputError

_KINDS = {"chat": "chat", "embeddings": "embeddings", "rerank": "rerank"}
_INPUTS = {"image": "images", "pdf": "documents", "audio": "audio", "video": "video"}
_PRICES = ("input", "output", "cache_read", "cache_write")
_OUTPUTS = {"image": "image-output", "audio": "audio-output"}
FactTables = dict[str, list[dict[str, Any]]]


def read_models_dev(given: Any) -> FactTables:
    """Returns the lines of the providers that penstock knows, by the name of their table.

    Raises an `InputError` if the input is not such a table, or names none of these providers.
    """
    if not isinstance(given, dict):
        raise InputError("a table of models is a JSON object: provider → models")
    given = cast("dict[str, Any]", given)
    wanted = sorted({row.facts or name for name, row in providers().items()} & set(given))
    if not wanted:
        raise InputError("the table names none of the providers that penstock knows")
    return {name: _read_provider(name, given[name]) for name in wanted}


def _read_provider(name: str, row: Any) -> list[dict[str, Any]]:
    models = cast("dict[str, Any]", row).get("models") if isinstance(row, dict) else None
    if not isinstance(models, dict):
        raise InputError(f"{name}.models: expected an object: id → model")
    models = cast("dict[str, Any]", models)
    return [_read_model(name, model, models[model]) for model in sorted(models)]


def _read_model(provider: str, id: str, row: Any) -> dict[str, Any]:
    try:
        cost: dict[str, Any] = {**_corrections()["missing"].get(provider, {}).get(id, {}), **(row.get("cost") or {})}
        return _write_line(id, row, cost)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{provider}.models.{id}: this is not a model in the form of models.dev") from error


def _write_line(id: str, row: dict[str, Any], cost: dict[str, Any]) -> dict[str, Any]:
    limit = row.get("limit") or {
        "context": row.get("context"),
        "input": row.get("input_limit"),
        "output": row.get("output"),
    }
    line: dict[str, Any] = {
        "id": id, "name": row["name"] if row["name"] != id else "", "ctx": _count(limit.get("context")),
        "inp": _count(limit.get("input")), "out": _count(limit.get("output")), "price": _read_prices(cost, _PRICES),
        "audio": _read_prices(cost, ("input_audio", "output_audio")), "think": _price(cost.get("reasoning")),
        "tiers": [] if _has_one_price(id) else _read_tiers(cost), "can": _read_capabilities(id, row),
    }  # fmt: skip
    return {key: value for key, value in line.items() if value}


@cache
def _corrections() -> dict[str, Any]:
    return tomllib.loads(read_package_file("penstock._providers", "models_dev.toml").decode())


def _has_one_price(id: str) -> bool:
    return any(fnmatchcase(id, pattern) for pattern in _corrections()["one_price"])


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _price(value: Any) -> float | None:
    """Returns a price; None if it is unknown. A negative one stands for "unknown", too."""
    return None if value is None or float(value) < 0 else value


def _read_prices(cost: dict[str, Any], keys: tuple[str, ...]) -> list[float | None]:
    """Returns the prices of some keys, without unknown ones at the end."""
    prices = [_price(cost.get(key)) for key in keys]
    while prices and prices[-1] is None:
        prices.pop()
    return prices


def _read_tiers(cost: dict[str, Any]) -> list[list[float | None]]:
    """Returns the prices of long prompts: models.dev names the threshold, or has it in the key."""
    rows = [(row["tier"]["size"], row) for row in cost.get("tiers", []) if "size" in row.get("tier", {})]
    rows += [(row["context"]["min"], row) for row in cost.get("tiers", []) if "min" in row.get("context", {})]
    if not rows and cost.get("context_over_200k"):
        rows = [(200_000, cost["context_over_200k"])]
    return [[above, *_read_prices(row, _PRICES)] for above, row in sorted(rows, key=lambda one: one[0])]


def _read_capabilities(id: str, row: dict[str, Any]) -> str:
    modalities = row.get("modalities") or {"input": row.get("in") or (), "output": row.get("out") or ()}
    inputs, outputs = modalities.get("input") or (), modalities.get("output") or ()
    words = {_INPUTS.get(word) for word in inputs} | {_OUTPUTS.get(word) for word in outputs}
    words.add(_KINDS.get(kind(id)) if "text" in outputs else None)
    flags = {"reasoning": row.get("reasoning"), "temperature": row.get("temperature")}
    flags["tools"] = row.get("tool_call", row.get("tools"))
    words.update(word for word, value in flags.items() if value)
    return "".join(letter for letter, word in LETTERS.items() if word in words)
