"""The parts of a VS Code reply, named after its language-model API, and the other lines of the NDJSON wire form.

The other lines are start, usage, notices, errors, end and incomplete calls. docs/vscode-parts.md describes the form.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from penstock import events as ev
from penstock._fold import sum_usage
from penstock._jsontext import complete_json

NAME = "vscode"
VERSION = 1


_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> bytes:
    """A part, or anything in one, as JSON. What UTF-8 cannot carry (half an emoji in a provider's state) is mended."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return (complete_json(json.dumps(msgspec.to_builtins(value))) or "null").encode()


class Part(msgspec.Struct, frozen=True, tag_field="kind", rename="camel", omit_defaults=True):
    """The root of all parts and lines."""


class TextPart(Part, frozen=True, tag="text"):
    """`LanguageModelTextPart`. `refusal`: the model declines in these words."""

    value: str
    refusal: bool = False


class ThinkingPart(Part, frozen=True, tag="thinking"):
    """`LanguageModelThinkingPart` (proposed). The host keeps one per round, with the last id and metadata it was given.

    `metadata` therefore holds all state of the round so far; see `penstock._protocols.vscode.thinking`.
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
    """What VS Code reads in a data part of media type `usage`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class Usage(Part, frozen=True, tag="usage"):
    """`value` is the last model call, which fills the host's context; `total` all calls, if there were several."""

    value: Tokens
    total: Tokens | None = None
    step: int = 0
    estimated: bool = False


class Wait(Part, frozen=True, tag="wait"):
    """The gateway waits so many seconds before it retries, because of `message`."""

    seconds: float
    message: str = ""


class Compacted(Part, frozen=True, tag="compacted"):
    """The conversation was shortened before it was sent: estimated tokens before and after."""

    before: int | None = None
    after: int | None = None


class End(Part, frozen=True, tag="end"):
    """`message` says why the reply is empty; it is empty itself if there is something to show."""

    reason: str
    raw: str = ""
    message: str = ""


class Whole(Part, frozen=True, tag="whole"):
    """A reply that was not streamed: the same lines in one object, neighbouring text put together."""

    lines: list[Any]
    version: int = 0


Line: TypeAlias = (
    Start | TextPart | ThinkingPart | ToolCallPart | Cut | DataPart | Usage | Wait | Compacted | ErrorPart | End | Whole
)
KINDS = frozenset(str(line.__struct_config__.tag) for line in Line.__args__)


MIME = "usage"


def tokens(usage: ev.Usage) -> Tokens:
    """The whole prompt and the whole output, their sum, and what is known of their insides."""
    known = usage.input is not None and usage.output is not None
    inside = None
    if usage.cached is not None or usage.written is not None:
        inside = InputDetails(usage.cached, usage.written)
    thought = None if usage.reasoning is None else OutputDetails(usage.reasoning)
    total = (usage.input or 0) + (usage.output or 0) if known else None
    return Tokens(usage.input, usage.output, total, inside, thought)


def spent(usages: dict[int, ev.Usage]) -> ev.Usage | None:
    """The usage of a turn: as given, or the sum of its steps."""
    return usages.get(0) or (sum_usage(usages.values()) if usages else None)


def usage_line(usages: dict[int, ev.Usage]) -> Usage | None:
    """A turn of several model calls fills the context with the last of them, not with their sum."""
    turn = spent(usages)
    if turn is None:
        return None
    step = max(usages)
    last = usages[step] if step else turn
    same = last.input == turn.input and last.output == turn.output
    return Usage(tokens(last), None if same else tokens(turn), step, not turn.exact)


def usage_part(usage: ev.Usage) -> DataPart | None:
    """The data part that fills the host's context ring; None while a number is missing that it insists on."""
    said = tokens(usage)
    return None if said.total_tokens is None else DataPart(msgspec.json.encode(said), MIME)


def usage_of(said: Tokens, *, step: int = 0, estimated: bool = False) -> ev.Usage:
    """The canonical usage of what was written by `tokens`."""
    inside, thought = said.prompt_tokens_details, said.completion_tokens_details
    return ev.Usage(
        said.prompt_tokens,
        said.completion_tokens,
        inside.cached_tokens if inside else None,
        inside.cache_creation_tokens if inside else None,
        thought.reasoning_tokens if thought else None,
        exact=not estimated,
        step=step,
    )
