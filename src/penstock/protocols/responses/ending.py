"""How a response ends: its status to a finish reason, its errors to one fault, its usage to canonical counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import pick
from penstock.faults import classify
from penstock.protocols.responses import wire
from penstock.protocols.responses.speech import NAME, own
from penstock.rejection import retry_after, retry_after_message

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics
    from penstock.events import FaultKind, Reason

DETAILS: dict[str, Reason] = {  # why a response is incomplete
    "max_output_tokens": "length", "max_tokens": "length", "": "length", "content_filter": "filter",
    "max_messages": "pause", "max_tool_calls": "pause", "steered": "pause",
}  # fmt: skip
CODES: dict[str, FaultKind] = {  # what the common table of error words does not know
    "bio_policy": "filter", "misalignment_policy_violation": "filter", "image_content_policy_violation": "filter",
    "vector_store_timeout": "timeout", "previous_response_not_found": "not-found", "image_file_not_found": "not-found",
    "data_residency_mismatch": "permission",
}  # fmt: skip
_BAD_IMAGE = "image"


def finish_of(response: wire.Response, diagnostics: Diagnostics) -> tuple[Reason | None, str]:
    """The finish reason and the provider's word for it; None where the response failed."""
    status = response.status or "completed"
    if status in ("failed", "cancelled", "canceled"):
        return None, status
    if status == "incomplete":
        raw = pick.text(response.incomplete_details or {}, "reason")
        if raw not in DETAILS:
            diagnostics.add("unknown-reason", f"incomplete for {raw!r} is read as another reason than the known ones")
        return DETAILS.get(raw, "other"), raw or status
    if status in ("queued", "in_progress"):
        return "pause", status  # the body of a response that runs in the background
    if not status.startswith("complete"):
        diagnostics.add("unknown-reason", f"status {status!r} is read as a normal stop")
    return "stop", status


def fault_of(alarm: wire.Error | None, response: wire.Response | None) -> dict[str, Any]:
    """One fault of an `error` event, a failed response, or both: the response's words first, the event fills in."""
    failed = (response.error if response is not None else None) or {}
    nested = alarm.error if alarm is not None else None
    told = nested if isinstance(nested, dict) else _flat(alarm, nested)
    code = _word(failed, "code") or _word(told, "code")
    kind, status = pick.text(told, "type"), alarm.status if alarm is not None else None
    message = pick.text(failed, "message") or pick.text(told, "message")
    if response is not None and (response.status or "").startswith("cancel"):
        code, message = code or "cancelled", message or "the response was cancelled"
    sent = alarm.headers if alarm is not None else None  # over a WebSocket they stand beside the error
    headers = {key.lower(): str(value) for key, value in (sent or pick.table(told, "headers")).items()}
    return {
        "kind": _kind(code, kind, message, status), "message": message or "the provider reported an error",
        "status": status, "code": code or kind, "request_id": pick.text(headers, "x-request-id"),
        "retry_after": _wait(headers, message), "extra": own(error={**told, **failed} or None),
    }  # fmt: skip


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """None when the object holds no counts, or is of another shape."""
    try:
        said = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None
    if said.input_tokens is None and said.output_tokens is None:
        return None
    taken, made = said.input_tokens_details or wire.Details(), said.output_tokens_details or wire.Details()
    return ev.Usage(
        said.input_tokens, said.output_tokens, taken.cached_tokens, taken.cache_write_tokens, made.reasoning_tokens,
        extra={NAME: raw},
    )  # fmt: skip


def _flat(alarm: wire.Error | None, message: str | None) -> dict[str, Any]:
    """An error that is not nested: its words beside each other, or a bare message."""
    if alarm is None:
        return {}
    said = {"code": alarm.code, "message": message or alarm.message, "param": alarm.param}
    return {key: value for key, value in said.items() if value is not None}


def _kind(code: str, kind: str, message: str, status: int | None) -> FaultKind:
    known = CODES.get(code)
    if known is not None:
        return known
    found = classify((code, kind), message, status)
    if found != "other":
        return found
    return "invalid" if code.startswith("invalid") or _BAD_IMAGE in code else "server" if code else "other"


def _word(source: dict[str, Any], key: str) -> str:
    value = source.get(key)
    return str(value) if isinstance(value, (str, int)) else ""


def _wait(headers: dict[str, str], message: str) -> float | None:
    found = retry_after(headers)
    return found if found is not None else retry_after_message(message)
