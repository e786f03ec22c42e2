"""What a provider counts and a request does not show.

A provider adds built-in tools, a prompt for reasoning, an endpoint's own prompt. The tokens are facts in tables.toml
(`[[builtin_tools.…]]`, `endpoints`) or fitted constants (`thinking`). This module finds out which of them a request
gets. It also finds the fields that the estimator cannot count, and those that name a context on the server.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock._lenient_fields import as_object
from penstock.request import Opaque

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._tokens.families import BuiltinTool, Family
    from penstock.request import Request, Tool

_NO_EFFORT = ("", "none")
_ENDPOINTS = ("responses",)  # protocols whose endpoint may add something; their readers mark a request
_CLIENT_FORMS = frozenset({"aisdk", "uistream", "vscode"})  # protocols whose other fields are the client's own
# Fields that change no count. Names here and below are without case and underscores: two spellings are one field.
_FREE_FIELDS = frozenset(
    """audiotimestamp background bestof cachecontrol cachekey candidatecount echo frequencypenalty
    guardrailconfig include inferencegeo keepalive labels logitbias logprobs maxcompletiontokens maxoutputtokens
    maxtokens maxtoolcalls metadata minp mintokens n paralleltoolcalls performanceconfig prediction
    presencepenalty promptcachekey promptcacheoptions promptcacheretention reasoningeffort reasoningsummary
    repetitionpenalty requestmetadata responselogprobs safetyidentifier safetysettings seed servicetier
    speechconfig speed stop stopsequences store stream streamoptions strictjsonschema temperature textverbosity
    thinkingbudget topa topk toplogprobs topp usage user verbosity""".split()
)
_NESTED_FIELDS = frozenset({"extrabody", "generationconfig", "options"})  # objects that hold fields of the request
_CONTEXT_FIELDS = frozenset(
    """cachedcontent container conversation conversationid previousinteractionid previousresponseid prompt""".split()
)
_DEFAULTS = {"truncation": "disabled"}  # values that say the same as no field
_REFERENCES = ("item_reference",)  # parts that only the provider can read
_compile = cache(re.compile)  # patterns come from tables, not from requests


def find_builtin(tool: Tool, family: Family) -> BuiltinTool | None:
    """Returns the row of a tool that the provider defines; None for a tool that the request defines."""
    if tool.kind not in ("provider", "unknown"):
        return None
    names = [*_types(tool), tool.name]
    for row in family.builtin:
        if any(_compile(row.match).search(name) for name in names):
            return row if tool.kind == "provider" or row.match else None
    return None


def is_deferred(tool: Tool) -> bool:
    """True if the provider shows the tool only after a tool search."""
    return any(row.get("defer_loading") is True for row in _fields(tool))


def asks_to_think(request: Request) -> bool:
    """True if the request asks for reasoning."""
    settings = request.settings
    if settings.budget is not None:
        return settings.budget > 0
    return settings.effort not in _NO_EFFORT or bool(settings.thoughts)


def adds_system(request: Request, family: Family) -> bool:
    """True if the chat template adds its own system prompt, because the request begins without one."""
    return family.default_system > 0 and not (request.messages and request.messages[0].role == "system")


def read_endpoint(request: Request) -> str:
    """Returns the protocol that the request was read from, if its endpoint may add something; else an empty text."""
    return next((name for name in _ENDPOINTS if name in (request.extra or {})), "")


def list_uncounted_fields(request: Request) -> dict[str, Any]:
    """Returns what else the provider may count: all fields that are not known to change nothing, by protocol."""
    rows = [(name, fields) for name, fields in (request.extra or {}).items() if name not in _CLIENT_FORMS]
    rows += [(f"options.{name}", fields) for name, fields in request.options.items()]
    return {name: kept for name, fields in rows if (kept := _select_fields(fields))}


def has_hidden_context(request: Request) -> bool:
    """True if a part of the prompt is on the server, and the request has only its name."""
    if any(_names_context(fields) for fields in list_uncounted_fields(request).values()):
        return True
    return any(
        isinstance(part, Opaque) and part.kind in _REFERENCES for message in request.messages for part in message.parts
    )


def _select_fields(fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in as_object(fields).items():
        name = _plain_name(key)
        if not name or value is None or name in _FREE_FIELDS or _DEFAULTS.get(name) == value:
            continue
        if name in _NESTED_FIELDS:
            value = _select_fields(value)  # noqa: PLW2901 — only what counts of it
            if not value:
                continue
        found[name] = value
    return found


def _names_context(fields: dict[str, Any]) -> bool:
    nested = (value for name, value in fields.items() if name in _NESTED_FIELDS)
    return not _CONTEXT_FIELDS.isdisjoint(fields) or any(map(_names_context, nested))


def _plain_name(key: str) -> str:
    """Returns a field's name without case and underscores. The readers' own notes, under `_`, have none."""
    return key.replace("_", "").lower()


def _fields(tool: Tool) -> Iterator[dict[str, Any]]:
    """Yields what protocols keep about a tool: their fields, and the tool as it was sent."""
    for row in (tool.extra or {}).values():
        yield row
        if isinstance(row.get("tool"), dict):
            yield row["tool"]


def _types(tool: Tool) -> Iterator[str]:
    return (row["type"] for row in _fields(tool) if isinstance(row.get("type"), str))
