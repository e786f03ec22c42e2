"""The parts of a VS Code reply, named after its language-model API, and the other lines of the NDJSON wire form.

The other lines are start, usage, notices, errors, end and incomplete calls. docs/vscode-parts.md describes the form.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from penstock import events as ev
from penstock._fold import sum_usage
from penstock._lenient_json import complete_json

NAME = "vscode"
VERSION = 1
USAGE_MIME = "usage"
_encode = msgspec.json.Encoder().encode


def encode_json(value: Any) -> bytes:
    """Returns a part, or any value in one, as JSON. Replaces lone surrogates, which UTF-8 cannot encode."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return (complete_json(json.dumps(msgspec.to_builtins(value))) or "null").encode()


class Part(msgspec.Struct, frozen=True, tag_field="kind", rename="camel", omit_defaults=True):
    """The root of all parts and lines."""


class TextPart(Part, frozen=True, tag="text"):
    """`LanguageModelTextPart`. `refusal`: the text is a refusal."""

    value: str
    refusal: bool = False


class ThinkingPart(Part, frozen=True, tag="thinking"):
    """`LanguageModelThinkingPart` (proposed). The host keeps one per round, with the last id and metadata it was given.

    So `metadata` holds all state of the round so far; see `encode_parts.pack_reasoning`.
    """

    value: str
    id: str = ""
    metadata: dict[str, Any] | None = None


class ToolCallPart(Part, frozen=True, tag="call"):
    """`LanguageModelToolCallPart`: a complete call, for the host to run. `extra` is the provider's state."""

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
        return cls(encode_json(value), mime_type)

    @classmethod
    def text(cls, value: str, mime_type: str = "text/plain") -> DataPart:
        return cls(value.encode("utf-8", "replace"), mime_type)


class ErrorPart(Part, frozen=True, tag="error"):
    """A fault. It is a separate kind of line, so that nobody takes it for text of the model."""

    fault: str
    message: str
    status: int | None = None
    code: str = ""
    request_id: str = ""
    retry_after: float | None = None


HostPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | DataPart


class Start(Part, frozen=True, tag="start"):
    version: int = 0
    id: str = ""
    model: str = ""
    created: int | None = None
    prefix: str = ""


class Cut(Part, frozen=True, tag="cut"):
    call_id: str
    name: str
    input: str = ""


class InputDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None


class OutputDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    reasoning_tokens: int | None = None


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON that VS Code reads in a data part of media type `usage`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class Usage(Part, frozen=True, tag="usage"):
    """`value` counts the last model call, which fills the host's context; `total` counts all calls of a turn."""

    value: Tokens
    total: Tokens | None = None
    step: int = 0
    estimated: bool = False


class Wait(Part, frozen=True, tag="wait"):
    """The gateway waits for some seconds before a retry. `message` is the reason."""

    seconds: float
    message: str = ""


class Compacted(Part, frozen=True, tag="compacted"):
    """The conversation was shortened before it was sent: estimated tokens before and after."""

    before: int | None = None
    after: int | None = None


class End(Part, frozen=True, tag="end"):
    """The end of a turn. `message` is the reason why the reply has no content; else it is empty."""

    reason: str
    raw: str = ""
    message: str = ""


class Whole(Part, frozen=True, tag="whole"):
    """A reply that was not streamed: the same lines in one object. Consecutive text is joined."""

    lines: list[Any]
    version: int = 0


AnyLine: TypeAlias = (
    Start | TextPart | ThinkingPart | ToolCallPart | Cut | DataPart | Usage | Wait | Compacted | ErrorPart | End | Whole
)
KINDS = frozenset(str(line.__struct_config__.tag) for line in AnyLine.__args__)


def write_tokens(usage: ev.Usage) -> Tokens:
    """Writes prompt and output tokens, their sum, and the details that are known."""
    known = usage.input is not None and usage.output is not None
    input_details = None
    if usage.cached is not None or usage.written is not None:
        input_details = InputDetails(usage.cached, usage.written)
    output_details = None if usage.reasoning is None else OutputDetails(usage.reasoning)
    total = (usage.input or 0) + (usage.output or 0) if known else None
    return Tokens(usage.input, usage.output, total, input_details, output_details)


def read_tokens(tokens: Tokens, *, step: int = 0, estimated: bool = False) -> ev.Usage:
    """Reads what `write_tokens` wrote."""
    inputs = tokens.prompt_tokens_details or InputDetails()
    reasoning = (tokens.completion_tokens_details or OutputDetails()).reasoning_tokens
    counts = (tokens.prompt_tokens, tokens.completion_tokens, inputs.cached_tokens, inputs.cache_creation_tokens)
    return ev.Usage(*counts, reasoning, exact=not estimated, step=step)


def total_usage(usages: dict[int, ev.Usage]) -> ev.Usage | None:
    """Returns the usage of a turn: as the provider sent it, or the sum of its steps."""
    return usages.get(0) or (sum_usage(usages.values()) if usages else None)


def usage_line(usages: dict[int, ev.Usage]) -> Usage | None:
    """Returns the usage of a turn. The last model call fills the host's context, not the sum of all calls."""
    turn = total_usage(usages)
    if turn is None:
        return None
    step = max(usages)
    last = usages[step] if step else turn
    same = last.input == turn.input and last.output == turn.output
    return Usage(write_tokens(last), None if same else write_tokens(turn), step, not turn.exact)


def usage_part(usage: ev.Usage) -> DataPart | None:
    """Returns the data part for the host's context meter; None if a count that the host requires is unknown."""
    tokens = write_tokens(usage)
    return None if tokens.total_tokens is None else DataPart(msgspec.json.encode(tokens), USAGE_MIME)
