"""Other spellings of the same payload: snake case, as some proxies write it; and times as text."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from penstock.jsontext import fit, loose
from penstock.protocols.gemini import wire

_HUMP = re.compile(r"_([a-z0-9])")
_DATA = frozenset({"args", "response", "custom_metadata", "part_metadata"})  # the keys below are the application's
_KNOWN = frozenset({"thought", "thoughtSignature", "thought_signature", "text"})
_QUIET = frozenset({"thought", "thought_signature", "text"})


def camel(value: Any) -> Any:
    """The value with its keys in camel case."""
    if isinstance(value, list):
        return [camel(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_HUMP.sub(lambda match: match[1].upper(), str(key)): _inner(key, one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def keys(source: dict[str, Any]) -> dict[str, Any]:
    """The object with its own keys in camel case, whatever is below them; itself where they are."""
    for key in source:
        if "_" in key:
            return {_HUMP.sub(lambda match: match[1].upper(), name): value for name, value in source.items()}
    return source


def _inner(key: str, value: Any) -> Any:
    if key not in _DATA or (isinstance(value, dict) and "candidates" in value):  # Code Assist's `response` is no tool's
        return camel(value)
    return value  # pyright: ignore[reportUnknownVariableType]


def camel_chunk(data: bytes) -> wire.Chunk:
    """A payload read once more, in camel case."""
    try:
        chunk: wire.Chunk = fit(camel(loose(data)), wire.Chunk)[0]
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return wire.Chunk()
    return chunk


def camel_part(data: bytes, candidate: int, number: int) -> tuple[dict[str, Any], wire.Part | None]:
    """A part read once more: as it was sent, less the keys that say nothing, and in camel case if that says more."""
    try:
        body: Any = loose(data)
        raw: dict[str, Any] = body.get("response", body)["candidates"][candidate]["content"]["parts"][number]
        told = {key: value for key, value in raw.items() if key not in _KNOWN and value is not None}
        part: wire.Part = fit(camel(raw), wire.Part)[0]
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError, RecursionError):
        return {}, None
    said = any(getattr(part, name) is not None for name in wire.Part.__struct_fields__ if name not in _QUIET)
    return (raw if told else {}), part if said and told else None


def created(time: str | None) -> int | None:
    """Seconds of a time such as `2025-06-01T10:00:00.123456Z`."""
    try:
        return int(datetime.fromisoformat(time).timestamp()) if time else None
    except (ValueError, OverflowError):
        return None
