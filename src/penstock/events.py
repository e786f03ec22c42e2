"""The canonical events between decoders and encoders.

Grammar (held by `penstock._grammar.Guard`, guaranteed by decoders, assumed by encoders):

    stream = turn*
    turn   = Start (part | Step | Usage | Data | Unknown)* (Finish | Fault)
    part   = TextStart TextDelta* TextEnd            | RefusalStart RefusalDelta* RefusalEnd
           | ReasoningStart ReasoningDelta* ReasoningEnd
           | CallStart CallDelta* (CallEnd | CallCut) | FileStart FileDelta* FileEnd
           | Result | Ask | Source | Opaque

Parts are numbered 0, 1, 2 … in the order they open, and may interleave; all are closed before the terminal.
An end with `broken` closes a part that the provider did not end: a `Fault` follows. Encoders write no end for it, and
only calls keep their `extra` then.
`extra` is opaque data to echo, keyed by protocol: `{"anthropic": {"signature": "…"}}`.
Raw JSON travels as text (`json: str`), so that what a model wrote is never reformatted.

Examples:
    >>> import penstock
    >>> text = [TextStart(0), TextDelta(0, "3.2"), TextDelta(0, " m"), TextEnd(0)]
    >>> turn = penstock.fold([Start("id", "model"), *text, Finish("stop")])
    >>> turn.text
    '3.2 m'
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, get_args

import msgspec

Extra: TypeAlias = dict[str, dict[str, Any]]
By: TypeAlias = Literal["client", "provider"]
CallForm: TypeAlias = Literal["json", "text"]
ReasoningForm: TypeAlias = Literal["full", "summary", "redacted"]
Reason: TypeAlias = Literal["stop", "length", "calls", "filter", "refusal", "pause", "other"]
_RefusalKind: TypeAlias = Literal["auth", "permission", "quota", "not-found", "invalid", "too-large", "rate-limit"]
_FailureKind: TypeAlias = Literal["overloaded", "server", "timeout", "network", "cancelled"]
_AnswerKind: TypeAlias = Literal["filter", "truncated", "malformed", "grammar", "other"]
FaultKind: TypeAlias = Literal[_RefusalKind, _FailureKind, _AnswerKind]


def kebab(name: str) -> str:
    """`TextDelta` → `text-delta`: the tag of an event."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag=kebab, omit_defaults=True):
    """The root of all canonical events."""


class TextPartStart(Event, frozen=True, gc=False):
    """The fields of `TextStart` and `RefusalStart`."""

    index: int
    item: str = ""
    choice: int = 0
    extra: Extra | None = None


class PartEnd(Event, frozen=True, gc=False):
    """The fields of all ends but those of calls."""

    index: int
    extra: Extra | None = None
    broken: bool = False


class Start(Event, frozen=True, gc=False):
    """A turn begins."""

    id: str = ""
    model: str = ""
    created: int | None = None
    extra: Extra | None = None


class Step(Event, frozen=True, gc=False):
    """Another model call inside one turn begins (agent loops that stream several answers as one)."""

    number: int
    extra: Extra | None = None


class TextStart(TextPartStart, frozen=True, gc=False):
    """A text begins."""


class TextDelta(Event, frozen=True, gc=False):
    index: int
    text: str
    logprobs: Any = None


class TextEnd(PartEnd, frozen=True, gc=False):
    """A part of text ends."""


class RefusalStart(TextPartStart, frozen=True, gc=False):
    """Text in which the model declines: shown like text, never mistaken for an answer."""


class RefusalDelta(Event, frozen=True, gc=False):
    index: int
    text: str


class RefusalEnd(PartEnd, frozen=True, gc=False):
    """A part of refusal ends."""


class ReasoningStart(Event, frozen=True, gc=False):
    index: int
    item: str = ""
    choice: int = 0
    form: ReasoningForm = "full"
    extra: Extra | None = None


class ReasoningDelta(Event, frozen=True, gc=False):
    index: int
    text: str


class ReasoningEnd(PartEnd, frozen=True, gc=False):
    """`extra` holds what must be echoed next turn: signatures, encrypted content, redacted data."""


class CallStart(Event, frozen=True, gc=False):
    """A tool call begins. `by="provider"`: the provider runs it, not the client."""

    index: int
    id: str
    name: str
    by: By = "client"
    form: CallForm = "json"
    item: str = ""
    choice: int = 0
    extra: Extra | None = None


class CallDelta(Event, frozen=True, gc=False):
    """A fragment of the call's input; the fragments of a part joined are the `json` of its end."""

    index: int
    json: str


class EndedCall(Event, frozen=True, gc=False):
    """The fields of `CallEnd` and `CallCut`."""

    index: int
    id: str
    name: str
    json: str
    by: By = "client"
    form: CallForm = "json"
    extra: Extra | None = None
    broken: bool = False


class CallEnd(EndedCall, frozen=True, gc=False):
    """The call is complete, and only now may be run. `json` is its whole input.

    `broken`: its input is complete, but a fault came before the provider ended the call.

    Examples:
        >>> import json
        >>> call = CallEnd(0, "call_1", "get_level", '{"river": "Rhine"}')
        >>> json.loads(call.json)["river"]
        'Rhine'
    """


class CallCut(EndedCall, frozen=True, gc=False):
    """The call is incomplete. It has another type than a complete call, so that no consumer runs it by mistake.

    `broken`: because of a fault. Without it, because the provider ended the answer (`length`) or sent a bad input.
    """


class Result(Event, frozen=True, gc=False):
    """The answer of a tool that ran upstream. `partial`: a later one for the same call replaces it."""

    index: int
    call: str
    name: str
    json: str
    failed: bool = False
    partial: bool = False
    extra: Extra | None = None


class Ask(Event, frozen=True, gc=False):
    """The provider asks for approval (`id`) of a call (`call`)."""

    index: int
    call: str
    id: str
    extra: Extra | None = None


class FileStart(Event, frozen=True, gc=False):
    """A file by `url`, or by the base64 `data` of its deltas."""

    index: int
    media: str
    url: str = ""
    item: str = ""
    choice: int = 0
    extra: Extra | None = None


class FileDelta(Event, frozen=True, gc=False):
    index: int
    data: str


class FileEnd(PartEnd, frozen=True, gc=False):
    """A part of file data ends."""


class Source(Event, frozen=True, gc=False):
    """A citation. `of` is the part it belongs to, `span` its code points there; None means all of it."""

    index: int
    url: str = ""
    title: str = ""
    of: int | None = None
    span: tuple[int, int] | None = None
    quote: str = ""
    id: str = ""
    media: str = ""
    filename: str = ""
    extra: Extra | None = None


class Opaque(Event, frozen=True, gc=False):
    """Something only its own protocol understands and wants back next turn (compaction, containers)."""

    index: int
    protocol: str
    kind: str
    data: Any = None


class Data(Event, frozen=True, gc=False):
    """An application's own data beside the answer (`data-*` of the AI SDK)."""

    name: str
    json: str
    id: str = ""
    transient: bool = False


class Usage(Event, frozen=True, gc=False):
    """Tokens. Cumulative: each event holds all that is known so far, None is unknown.

    `input` is the whole prompt with `cached` and `written`; `output` includes `reasoning`.
    `step` 0 is the turn; n is step n alone, of which only the turn's total is a sum.
    `exact` is false for an estimate. `extra` keeps the provider's own object. `summed`: of a turn with several steps,
    whose prompts are all counted, so that `input` is not the size of one prompt.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None
    reasoning: int | None = None
    exact: bool = True
    step: int = 0
    extra: Extra | None = None
    summed: bool = False


class Finish(Event, frozen=True, gc=False):
    """The turn ended by itself. `raw` is the provider's reason; `others` the reasons of further choices."""

    reason: Reason
    raw: str = ""
    others: tuple[Reason, ...] = ()
    extra: Extra | None = None


class Fault(Event, frozen=True, gc=False):
    """The turn failed. `truncated`: the bytes ended before the answer was complete.

    Examples:
        >>> fault = Fault("truncated", "the stream ended before the answer was complete")
        >>> fault.kind, fault.status
        ('truncated', None)
    """

    kind: FaultKind
    message: str
    status: int | None = None
    code: str = ""
    request_id: str = ""
    retry_after: float | None = None
    extra: Extra | None = None


class Unknown(Event, frozen=True, gc=False):
    """A well-formed payload without a canonical event. The same protocol writes `data` unchanged."""

    protocol: str
    data: str
    name: str = ""


_TextEvent: TypeAlias = TextStart | TextDelta | TextEnd | RefusalStart | RefusalDelta | RefusalEnd
_ReasoningEvent: TypeAlias = ReasoningStart | ReasoningDelta | ReasoningEnd
_CallEvent: TypeAlias = CallStart | CallDelta | CallEnd | CallCut | Result | Ask
_FileEvent: TypeAlias = FileStart | FileDelta | FileEnd
_TurnEvent: TypeAlias = Source | Opaque | Data | Usage | Finish | Fault | Unknown
AnyEvent: TypeAlias = Start | Step | _TextEvent | _ReasoningEvent | _CallEvent | _FileEvent | _TurnEvent
EVENTS: tuple[type[Event], ...] = get_args(AnyEvent)
