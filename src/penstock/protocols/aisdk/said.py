"""What every version of the encoder says alike: who answered, what went wrong, what cannot be said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock import pick
from penstock.aisdk.words import WRITES, own

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.codec import Encoder, Losses

LOSSES: Losses = {
    "answered": "a call that is answered, or asked about, in the same turn is taken for one that was run upstream",
    "approval": "there is no request for approval before version 6, nor of a call that is not in the turn",
    "choice": "only the first of several choices is written",
    "cut-call": "version 4 says only by an error that a call never became whole; one that a fault broke off stays open",
    "cut-file": "a file that a fault broke off is not written",
    "data": "an application's own data has no part in a full stream",
    "file": "a file given by its address is written as a source",
    "file-state": "before version 6 files have no metadata, and only 7 tells those of the reasoning apart",
    "free-text": "before version 6 nothing but metadata says that a call's input is free text, and in 4 nothing",
    "logprobs": "log probabilities have no field",
    "opaque": "there is no part for opaque state before version 7",
    "provider-call": "version 4 cannot say that the provider runs a tool itself",
    "reason": "a pause and other reasons are written as stopped, a refusal as filtered; only the raw word tells",
    "reasoning-state": "version 4 knows the state of Claude's reasoning only",
    "refusal": "a refusal is written as text; only its metadata tells, and in version 4 nothing",
    "source": "a source without an address is left out of version 4; without a title it is given one",
    "span": "version 4 does not say which text a source is for",
    "text-state": "version 4 has no metadata on text",
    "unknown": "another protocol's unknown payload is not written",
    "usage": "version 4 counts no cached and no reasoning tokens",
    "fault-usage": "the usage of a turn that a fault broke off is not written: only ends have a field for it",
    "written": "before version 6 tokens written to a cache are not counted",
}


def response(event: ev.Start, id: str, model: str, created: int) -> dict[str, Any]:
    """The response that a step's end names."""
    return {"id": event.id or id, "timestamp": timestamp(event.created or created), "modelId": event.model or model}


def timestamp(seconds: int) -> str:
    """A JavaScript date in JSON; one that no calendar has is the first."""
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        when = datetime.fromtimestamp(0, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reason(encoder: Encoder, event: ev.Finish) -> str:
    """The word for a finish; what it cannot say is reported."""
    if event.reason in ("pause", "other", "refusal"):
        encoder.lose("reason")
    if event.others:
        encoder.lose("choice")
    return WRITES[event.reason]


def error(event: ev.Fault) -> dict[str, Any]:
    """A fault as an Error would look in JSON."""
    said = {
        "name": "AI_APICallError" if event.status else "Error", "message": event.message, "type": event.kind,
        "code": event.code, "statusCode": event.status, "requestId": event.request_id, "retryAfter": event.retry_after,
    }  # fmt: skip
    known = {key: value for key, value in said.items() if value}
    return {**pick.table(own(event.extra), "error"), **known}
