"""The parts of a VS Code reply, after the classes of its language-model API, and the one line that is none of them.

Each is also a line of the NDJSON wire form, by its `kind`. Leans on no other protocol.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from penstock.jsontext import usable

_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> bytes:
    """A part, or anything in one, as JSON. What UTF-8 cannot carry (half an emoji in a provider's state) is mended."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return (usable(json.dumps(msgspec.to_builtins(value))) or "null").encode()


class Part(msgspec.Struct, frozen=True, tag_field="kind", rename="camel", omit_defaults=True):
    """The root of all parts and lines."""


class TextPart(Part, frozen=True, tag="text"):
    """`LanguageModelTextPart`. `refusal`: the model declines in these words."""

    value: str
    refusal: bool = False


class ThinkingPart(Part, frozen=True, tag="thinking"):
    """`LanguageModelThinkingPart` (proposed). The host keeps one per round, with the last id and metadata it was given.

    `metadata` therefore holds all state of the round so far; see `penstock.protocols.vscode.thinking`.
    """

    value: str
    id: str = ""
    metadata: dict[str, Any] | None = None


class ToolCallPart(Part, frozen=True, tag="call"):
    """`LanguageModelToolCallPart`: a whole call, for the host to run. `extra` is the provider's state for this call."""

    call_id: str
    name: str
    input: dict[str, Any]
    extra: dict[str, Any] | None = None


class DataPart(Part, frozen=True, tag="data"):
    """`LanguageModelDataPart`. On the wire the bytes are base64."""

    data: bytes
    mime_type: str

    @classmethod
    def image(cls, data: bytes, mime_type: str) -> DataPart:
        return cls(data, mime_type)

    @classmethod
    def json(cls, value: Any, mime_type: str = "application/json") -> DataPart:
        return cls(encoded(value), mime_type)

    @classmethod
    def text(cls, value: str, mime_type: str = "text/plain") -> DataPart:
        return cls(value.encode("utf-8", "replace"), mime_type)


class ErrorPart(Part, frozen=True, tag="error"):
    """What went wrong, as a line of its own: it can never be mistaken for something the model said."""

    fault: str
    message: str
    status: int | None = None
    code: str = ""
    request_id: str = ""
    retry_after: float | None = None


HostPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | DataPart
