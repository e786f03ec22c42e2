"""How a model gives an answer of a JSON Schema: by the API's own format, by a tool, by JSON mode, or by the prompt.

The rows are in `output_formats.toml`, each with the vendor's documentation.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock._diagnostics import read_tables
from penstock._providers.model_identity import identify
from penstock._providers.models import NAME
from penstock._providers.models import model as facts_of

if TYPE_CHECKING:
    from penstock._providers.registry import Provider

OutputWay: TypeAlias = Literal["schema", "tool", "json", "prompt"]
Dialect: TypeAlias = Literal["openai", "azure", "xai", "cerebras", "anthropic", "cohere", "any"]


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table."""

    way: OutputWay
    dialect: Dialect = "any"
    with_tools: bool = True
    strict_only: bool = False
    providers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    source: str = ""


_UNKNOWN = OutputFormat(way="prompt", source="no row")
_CALLS_TOOLS = OutputFormat(way="tool", source="the model's capabilities")


def output_format(provider: Provider, model: str, operation: str = "chat") -> OutputFormat:
    """Returns how a model of a provider gives structured output."""
    endpoint = provider.endpoint(operation, model)
    protocol = endpoint.protocol if endpoint is not None else provider.protocol
    name = identify(model).name.lower()
    for row in _rows():
        if _matches(row, provider, protocol, name):
            return row
    facts = facts_of(provider, model)
    is_guessed = facts.source.get("capabilities") == NAME  # most chat models call tools
    return _CALLS_TOOLS if "tools" in facts.capabilities or (is_guessed and facts.chat) else _UNKNOWN


def _matches(row: OutputFormat, provider: Provider, protocol: str, model: str) -> bool:
    if row.providers and not {provider.name, provider.similar_to} & set(row.providers):
        return False
    if row.protocols and protocol not in row.protocols:
        return False
    return not row.models or any(fnmatchcase(model, pattern) for pattern in row.models)


@cache
def _rows() -> tuple[OutputFormat, ...]:
    tables = read_tables("penstock._providers", "output_formats.toml")
    return msgspec.convert(tables["rows"], tuple[OutputFormat, ...])
