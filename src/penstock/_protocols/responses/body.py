"""Reads and writes the response object: errors, finish reason, usage, echoed request fields, the non-stream body."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _openai_errors as openai_errors
from penstock import events as ev
from penstock._http_errors import retry_after, retry_after_message
from penstock._jsontext import decode_trusted
from penstock._protocols.responses import wire
from penstock._protocols.responses.wire import NAME, wrap_extra
from penstock._vendor_errors import classify_fault, vendor_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._diagnostics import Diagnostics
    from penstock._framing.frame import Frame
    from penstock.events import Fault, FaultKind, Reason

# The first two sentences are OpenAI's complete message: https://github.com/dyad-sh/dyad/issues/1672. Copilot CLI
# compacts a conversation when it sees this message, but not when it sees the message of Chat Completions.
_OVERFLOW = (
    "Your input exceeds the context window of this model. Please adjust your input and try again. Input tokens exceed "
    "the configured limit of {limit} tokens. Your messages resulted in {tokens} tokens."
)
# Codex recovers from an overflow only if a response fails with it, not after a status 400:
# https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/api_bridge.rs
ERRORS = openai_errors.errors_with_prompt("input", overflow=_OVERFLOW, in_stream=True)
build_error_body = partial(openai_errors.error_body, protocol=NAME, errors=ERRORS)
# The fields that Open Responses requires. The gateway fills in what the request asked for.
DEFAULTS: dict[str, Any] = {
    "background": False, "completed_at": None, "error": None, "frequency_penalty": 0.0, "incomplete_details": None,
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True, "presence_penalty": 0.0, "previous_response_id": None, "prompt_cache_key": None,
    "reasoning": None, "safety_identifier": None, "service_tier": "default", "store": False, "temperature": 1.0,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
    "truncation": "disabled",
}  # fmt: skip
INCOMPLETE_REASONS: dict[Reason, str] = {
    "length": "max_output_tokens",
    "filter": "content_filter",
    "refusal": "content_filter",
}
_FINISH_REASONS: dict[str, Reason] = {  # by `incomplete_details.reason`
    **dict.fromkeys(("max_output_tokens", "max_tokens", ""), "length"),
    "content_filter": "filter",
    **dict.fromkeys(("max_messages", "max_tool_calls", "steered"), "pause"),
}
_FAULT_KINDS: dict[str, FaultKind] = {  # codes that the common table in `faults` does not have
    **dict.fromkeys(("bio_policy", "misalignment_policy_violation", "image_content_policy_violation"), "filter"),
    "vector_store_timeout": "timeout",
    **dict.fromkeys(("previous_response_not_found", "image_file_not_found"), "not-found"),
    "data_residency_mismatch": "permission",
}
_EVENT_FIELDS = frozenset(  # fields that the decoder turns into events
    str.split("id object model created_at completed_at status output usage error incomplete_details")
)
_decode_shallow = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def build_body(frames: Sequence[Frame]) -> bytes:
    """Returns the final snapshot of an encoded stream as a non-stream body.

    Incomplete calls are left out: a body cannot mark them as calls that must not be run.
    """
    for name, data in reversed(frames):
        if name in (b"response.completed", b"response.incomplete"):
            response: dict[str, Any] = decode_trusted(data)["response"]
            response["output"] = [item for item in response["output"] if not _is_incomplete_call(item)]
            return msgspec.json.encode(response)
        if name == b"error":
            return msgspec.json.encode({"error": decode_trusted(data)["error"]})
    return b"{}"


def _is_incomplete_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and item.get("status") == "incomplete"


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


def build_error_event(fault: Fault) -> dict[str, Any]:
    """Returns the error object of a stream event. Its code is always a string: clients require one."""
    error = openai_errors.error_object(fault, NAME, ERRORS, event=True)
    row = vendor_error(ERRORS, fault)
    return {**error, "code": str(error["code"] or row.event_code or row.code or "server_error")}


def read_fault(event: wire.ErrorEvent | None, response: wire.ResponseObject | None) -> dict[str, Any]:
    """Returns the fields of one fault for an `error` event, a failed response, or both.

    Fields of the response win; the event fills the gaps.
    """
    failed = (response.error if response is not None else None) or {}
    nested = event.error if event is not None else None
    error = nested if isinstance(nested, dict) else _flatten_error(event, nested)
    code = _get_code(failed) or _get_code(error)
    kind, status = lenient.get_text(error, "type"), event.status if event is not None else None
    message = lenient.get_text(failed, "message") or lenient.get_text(error, "message")
    if response is not None and (response.status or "").startswith("cancel"):
        code, message = code or "cancelled", message or "the response was cancelled"
    sent = event.headers if event is not None else None  # over a WebSocket, headers are a field beside the error
    headers = {key.lower(): str(value) for key, value in (sent or lenient.get_object(error, "headers")).items()}
    delay = retry_after(headers)
    return {
        "kind": _classify_error(code, kind, message, status),
        "message": message or "the provider reported an error",
        "status": status,
        "code": code or kind,
        "request_id": lenient.get_text(headers, "x-request-id"),
        "retry_after": delay if delay is not None else retry_after_message(message),
        "extra": wrap_extra(error={**error, **failed} or None),
    }


def _flatten_error(event: wire.ErrorEvent | None, message: str | None) -> dict[str, Any]:
    """Returns an error that is not nested: fields of the event, or a bare message."""
    if event is None:
        return {}
    fields = {"code": event.code, "message": message or event.message, "param": event.param}
    return {key: value for key, value in fields.items() if value is not None}


def _get_code(error: dict[str, Any]) -> str:
    code = error.get("code")
    return str(code) if isinstance(code, (str, int)) else ""


def _classify_error(code: str, kind: str, message: str, status: int | None) -> FaultKind:
    if code in _FAULT_KINDS:
        return _FAULT_KINDS[code]
    found = classify_fault((code, kind), message, status)
    if found != "other":
        return found
    return "invalid" if code.startswith("invalid") or "image" in code else "server" if code else "other"


# ── finish reason, usage, log probabilities ───────────────────────────────────────────────────────


def read_finish_reason(response: wire.ResponseObject, diagnostics: Diagnostics) -> tuple[Reason | None, str]:
    """Returns the finish reason and the provider's own value. The reason is None if the response failed."""
    status = response.status or "completed"
    if status in ("failed", "cancelled", "canceled"):
        return None, status
    if status == "incomplete":
        raw = lenient.get_text(response.incomplete_details or {}, "reason")
        if raw not in _FINISH_REASONS:
            diagnostics.add("unknown-reason", f"incomplete reason {raw!r} is unknown and read as `other`")
        return _FINISH_REASONS.get(raw, "other"), raw or status
    if status in ("queued", "in_progress"):
        return "pause", status  # the body of a background response
    if not status.startswith("complete"):
        diagnostics.add("unknown-reason", f"status {status!r} is read as a normal stop")
    return "stop", status


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Returns canonical usage; None if the object holds no counts or has another shape."""
    try:
        usage = msgspec.convert(raw, wire.ResponseUsage, strict=False)
    except msgspec.ValidationError:
        return None
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    read = usage.input_tokens_details or wire.TokenDetails()
    reasoning = (usage.output_tokens_details or wire.TokenDetails()).reasoning_tokens
    cached, written = read.cached_tokens, read.cache_write_tokens
    return ev.Usage(usage.input_tokens, usage.output_tokens, cached, written, reasoning, extra={NAME: raw})


def build_usage_object(event: ev.Usage, own: dict[str, Any]) -> dict[str, Any]:
    """Returns a usage object with all counts that clients require. Fields of this protocol's own object win."""
    input_details = {"cached_tokens": event.cached or 0, "cache_write_tokens": event.written or 0}
    output_details = {"reasoning_tokens": event.reasoning or 0}
    counts = {
        "input_tokens": event.input or 0,
        "input_tokens_details": input_details,
        "output_tokens": event.output or 0,
        "output_tokens_details": output_details,
        "total_tokens": (event.input or 0) + (event.output or 0),
    }
    return {
        **counts,
        **{key: value for key, value in own.items() if value is not None},
        "input_tokens_details": {**input_details, **lenient.get_object(own, "input_tokens_details")},
        "output_tokens_details": {**output_details, **lenient.get_object(own, "output_tokens_details")},
    }


def convert_logprobs(logprobs: Any) -> list[dict[str, Any]]:
    """Returns log probabilities as a list of tokens, from this protocol's list or Chat Completions' object."""
    content = lenient.get_list(lenient.as_object(logprobs), "content") or logprobs
    return [
        {
            **_build_token(row),
            "top_logprobs": [_build_token(other) for other in lenient.get_objects(row, "top_logprobs")],
        }
        for row in lenient.as_objects(content)
    ]


def _build_token(row: dict[str, Any]) -> dict[str, Any]:
    token = lenient.get_text(row, "token")
    return {"token": token, "bytes": row.get("bytes") or list(token.encode()), "logprob": row.get("logprob") or 0.0}


# ── echoed request fields ─────────────────────────────────────────────────────────────────────────


class EchoedFields:
    """The response's fields that are not events: mostly its request, repeated. Kept unchanged for this protocol.

    They are read from the frame's bytes, and only changed values are decoded: instructions and tools may be long, and
    three events repeat them.
    """

    def __init__(self) -> None:
        self._seen: dict[str, bytes] = {}

    def read_all(self, frame: bytes) -> dict[str, dict[str, Any]] | None:
        """Returns all fields as extra data. Call it at the start of a response."""
        self._seen = {}
        return wrap_extra(**self.read_changed(frame))

    def read_changed(self, frame: bytes) -> dict[str, Any]:
        """Returns the fields that changed since the last call."""
        fields = {key: bytes(value) for key, value in _read_raw_fields(frame).items() if key not in _EVENT_FIELDS}
        changed = {key: _decode_value(value) for key, value in fields.items() if value != self._seen.get(key)}
        self._seen.update(fields)
        return changed


def _read_raw_fields(frame: bytes) -> dict[str, msgspec.Raw]:
    try:
        payload = _decode_shallow(frame)
        is_body = bytes(payload.get("object", b"")) == b'"response"'
        return payload if is_body else _decode_shallow(payload["response"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        return {}


def _decode_value(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
