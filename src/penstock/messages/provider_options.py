"""Provider options as the AI SDK spells them → fields of a protocol's body.

The SDK writes `topK` where Anthropic's and OpenAI's bodies have `top_k`. Options of other spellings pass as they are: a
protocol may have fields that we do not know. Names of the SDK: https://ai-sdk.dev/providers/ai-sdk-providers
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics
    from penstock.pick import Object

_SNAKE = frozenset({"openai-chat", "responses", "completions", "anthropic", "cohere", "ollama"})  # whose fields are so
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CAMEL = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+")
# Objects with names of the caller's own inside.
_OPAQUE = frozenset({"metadata", "schema", "input_schema", "parameters", "logit_bias", "headers"})


def rename_options(options: Object, protocol: str, notes: Diagnostics) -> Object:
    """The options with the names that the protocol has for them. Every name that changes is a diagnostic."""
    if protocol not in _SNAKE:
        return options
    changed: list[str] = []
    made = _renamed(options, changed)
    if changed:
        notes.add(
            "renamed-options", f"options in the AI SDK's spelling are sent in the provider's: {', '.join(changed)}",
            "options",
        )  # fmt: skip
    return made


def _renamed(fields: Object, changed: list[str]) -> Object:
    made: Object = {}
    for key, value in fields.items():
        name = _HUMP.sub("_", key).lower() if _CAMEL.fullmatch(key) else key
        if name != key and name in fields:  # the provider's own spelling counts
            changed.append(f"{key} not at all, beside {name}")
            continue
        if name != key:
            changed.append(f"{key} as {name}")
        made[name] = value if name in _OPAQUE else _inside(value, changed)
    return made


def _inside(value: Any, changed: list[str]) -> Any:
    if isinstance(value, dict):
        return _renamed(cast("Object", value), changed)
    if isinstance(value, list):
        return [_inside(one, changed) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value
