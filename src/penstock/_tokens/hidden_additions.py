"""What a provider adds to a prompt and never shows: built-in tools, a prompt for reasoning, an endpoint's own prompt.

The tokens are facts in tables.toml (`[[builtin_tools.…]]`, `endpoints`) or fitted constants (`thinking`). This module
finds out which of them a request gets.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._tokens.families import BuiltinTool, Family
    from penstock.request import Request, Tool

_NO_EFFORT = ("", "none")
_ENDPOINTS = ("responses",)  # protocols whose endpoint may add something; their readers mark a request
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


def read_endpoint(request: Request) -> str:
    """Returns the protocol that the request was read from, if its endpoint may add something; else an empty text."""
    return next((name for name in _ENDPOINTS if name in (request.extra or {})), "")


def _fields(tool: Tool) -> Iterator[dict[str, Any]]:
    """Yields what protocols keep about a tool: their fields, and the tool as it was sent."""
    for row in (tool.extra or {}).values():
        yield row
        if isinstance(row.get("tool"), dict):
            yield row["tool"]


def _types(tool: Tool) -> Iterator[str]:
    return (row["type"] for row in _fields(tool) if isinstance(row.get("type"), str))
