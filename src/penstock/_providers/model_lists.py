"""Reads a provider's list of models. Its facts replace those of the models table, and `source` names the provider.

Lists differ in their keys and words, not in their content, so the tables of `listing.toml` read them all.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import read_tables
from penstock._lenient_fields import Object, as_object
from penstock._providers.fim import FIM
from penstock._providers.model_identity import kind
from penstock._providers.models import NAME, PROVIDER, Model, model, with_configured
from penstock._providers.registry import Prices, Provider
from penstock._strict_fields import parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ListingTables(msgspec.Struct, frozen=True):
    """`listing.toml`: paths to the facts of a model, and the words for its kinds and capabilities."""

    rows: list[str]
    id: list[str]
    context: list[str]
    max_input: list[str]
    max_output: list[str]
    prices: list[list[str]]
    capabilities: list[str]
    output_modalities: list[str]
    ids: dict[str, list[str]]
    kinds: dict[str, list[str]]
    abilities: dict[str, list[str]]
    outputs: dict[str, list[str]]


@cache
def _tables() -> ListingTables:
    return msgspec.convert(read_tables("penstock._providers", "listing.toml"), ListingTables)


def read_model_list(provider: Provider, body: bytes | Any, *, chat: bool = True) -> list[Model]:
    """Returns the models of a response to `models`; all of them if `chat` is off, else those for chat."""
    value = parse_value(body)[0] if isinstance(body, bytes) else body
    endpoint = provider.endpoints.get("models")
    ids = _tables().ids.get(endpoint.protocol if endpoint else "", _tables().id)
    listed = [_read_model(provider, row, ids) for row in _active_rows(value) if _first_value(row, ids)]
    listed_ids = {row.id for row in listed}
    configured = [model(provider, name) for name in provider.models if name not in listed_ids]
    return [row for row in (*listed, *configured) if row.chat or not chat]


def _active_rows(value: Any) -> Iterator[Object]:
    """Yields the rows of a list that are not switched off."""
    rows: Any = value
    if isinstance(value, dict):
        rows = next(
            (as_object(value)[key] for key in _tables().rows if isinstance(as_object(value).get(key), list)), ()
        )
    for item in rows if isinstance(rows, list) else ():  # pyright: ignore[reportUnknownVariableType]
        row: Object = as_object(item) or ({"id": item} if isinstance(item, str) else {})
        if row and row.get("active") is not False and row.get("archived") is not True:
            yield row


def _read_model(provider: Provider, row: Object, ids: list[str]) -> Model:
    id = str(_first_value(row, ids))  # noqa: A001 — the name of the field
    for prefix in (*provider.strip, "models/"):
        id = id.removeprefix(prefix)  # noqa: A001 — the same
    known = model(provider, id)
    limits = {name: _first_number(row, getattr(_tables(), name)) for name in ("context", "max_input", "max_output")}
    facts: dict[str, Any] = {name: value for name, value in (*limits.items(), ("prices", _read_prices(row))) if value}
    source = {**known.source, **dict.fromkeys(facts, PROVIDER)}
    facts["capabilities"], source["capabilities"] = _read_capabilities(row, known)
    title = _first_value(row, ["display_name", "displayName", "title"])
    name = title if isinstance(title, str) else known.name
    return with_configured(replace(known, **facts, name=name, source=source), provider.models.get(id))


def _read_capabilities(row: Object, known: Model) -> tuple[frozenset[str], str]:
    """Returns the capabilities and their source. The list may deny some; the models table adds what it leaves out."""
    tables = _tables()
    words = [*_words(row), *(word for path in tables.capabilities for word in _words(_value_at(row, path)))]
    output_words = [word for path in tables.output_modalities for word in _words(_value_at(row, path))]
    denied = [word for value in (row, _value_at(row, "capabilities")) for word in _words(value, expected=False)]
    kinds = _meanings(tables.kinds, words)
    listed = _meanings(tables.abilities, words) | _meanings(tables.outputs, output_words)
    known_kinds = known.capabilities & tables.kinds.keys()
    if kinds and FIM in known.capabilities and FIM not in _meanings(tables.kinds, denied):
        kinds |= {FIM}  # few lists have a word for it
    added = known.capabilities - known_kinds - _meanings(tables.abilities, denied) - listed
    sources = [PROVIDER] if kinds or listed else []
    if added or not sources:
        sources.append(known.source.get("capabilities", NAME))
    return frozenset(kinds or known_kinds or {kind(known.id)}) | listed | added, ", ".join(sources)


def _meanings(table: dict[str, list[str]], words: Iterable[str]) -> frozenset[str]:
    present = set(words)
    return frozenset(meaning for meaning, names in table.items() if not present.isdisjoint(names))


def _words(value: Any, *, expected: bool = True) -> Iterator[str]:
    """Yields the words of a field: its text, its items, its keys that are true (or false, if that is `expected`)."""
    if isinstance(value, str) and expected:
        yield "".join(char for char in value.lower() if char.isalnum())
    elif isinstance(value, list) and expected:
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _words(as_object(item).get("id") if isinstance(item, dict) else item)
    elif isinstance(value, dict):
        for key, inner in as_object(value).items():
            if inner is expected or as_object(inner).get("supported") is expected:
                yield from _words(key)


def _read_prices(row: Object) -> Prices | None:
    for paths in _tables().prices:
        given, made, cached, written = (_read_price(_value_at(row, path)) for path in paths)
        if given is not None and made is not None:
            return Prices(given, made, cached, written)
    return None


def _read_price(value: Any) -> float | None:
    """Reads a price: a number is for a million tokens, a string for one token."""
    try:
        price = round(float(value) * 1_000_000, 6) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return None
    return price if 0 <= price < 1_000_000 else None  # a negative price means that it varies  # noqa: PLR2004


def _value_at(row: Object, path: str) -> Any:
    value: Any = row
    for step in path.split("."):
        value = as_object(value).get(step)
    return value


def _first_value(row: Object, paths: list[str]) -> Any:
    return next((value for path in paths if (value := _value_at(row, path))), None)


def _first_number(row: Object, paths: list[str]) -> int:
    values = (_value_at(row, path) for path in paths)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0), 0)
