"""The lines of the NDJSON wire form that are not parts of a reply: start, tokens, notices, end, a call cut short.

docs/vscode-parts.md describes the form for whoever writes a client. Leans on the parts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from penstock.protocols.vscode.parts import (
    DataPart,
    ErrorPart,
    HostPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

VERSION = 1


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
    """Whoever writes the reply waits before it asks again: for so many seconds, because of this."""

    seconds: float
    message: str = ""


class Compacted(Part, frozen=True, tag="compacted"):
    """The conversation was made shorter before it was sent: about how many tokens it was, and is."""

    before: int | None = None
    after: int | None = None


class End(Part, frozen=True, tag="end"):
    """`message` says why there is nothing to show, and is only there if so."""

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

__all__ = [
    "KINDS", "VERSION", "Compacted", "Cut", "End", "HostPart", "Line", "Start", "Tokens", "Usage", "Wait", "Whole",
]  # fmt: skip
