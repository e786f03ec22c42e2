"""The frames of an encoded stream as one response: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock import openai_errors
from penstock.faults import classify
from penstock.http_errors import retry_after, retry_after_message
from penstock.jsontext import decode_own
from penstock.protocols.responses import wire
from penstock.protocols.responses.wire import NAME, own
from penstock.vendor_errors import vendor_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.diagnostics import Diagnostics
    from penstock.events import Fault, FaultKind, Reason
    from penstock.framing import Frame

_ENDS = (b"response.completed", b"response.incomplete")


def body(frames: Sequence[Frame]) -> bytes:
    """The final snapshot, less calls that were cut: a body has no other way to say that they must not be run."""
    for name, data in reversed(frames):
        if name in _ENDS:
            response: dict[str, Any] = decode_own(data)["response"]
            response["output"] = [item for item in response["output"] if not _is_cut(item)]
            return msgspec.json.encode(response)
        if name == b"error":
            return msgspec.json.encode({"error": decode_own(data)["error"]})
    return b"{}"


def _is_cut(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and item.get("status") == "incomplete"


# Its first two sentences are OpenAI's whole message: https://github.com/dyad-sh/dyad/issues/1672. Copilot CLI compacts
# a conversation after these words, and not after those of Chat.
_TOO_LONG = (
    "Your input exceeds the context window of this model. Please adjust your input and try again. Input tokens exceed "
    "the configured limit of {limit} tokens. Your messages resulted in {tokens} tokens."
)
# Codex recovers from an overflow only if a response fails with it, not after a status 400:
# https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/api_bridge.rs
ERRORS = openai_errors.errors_with_prompt("input", overflow=_TOO_LONG, in_stream=True)


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}


def error_event(fault: Fault) -> dict[str, Any]:
    """The error object of an event. Its code is a text, always: readers insist on one in a failed response."""
    error = openai_errors.error_object(fault, NAME, ERRORS, event=True)
    row = vendor_error(ERRORS, fault)
    return {**error, "code": str(error["code"] or row.event_code or row.code or "server_error")}


DEFAULTS: dict[str, Any] = {
    "background": False, "completed_at": None, "error": None, "frequency_penalty": 0.0, "incomplete_details": None,
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True, "presence_penalty": 0.0, "previous_response_id": None, "prompt_cache_key": None,
    "reasoning": None, "safety_identifier": None, "service_tier": "default", "store": False, "temperature": 1.0,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
    "truncation": "disabled",
}  # fmt: skip
INCOMPLETE: dict[Reason, str] = {
    "length": "max_output_tokens", "filter": "content_filter", "refusal": "content_filter",
}  # fmt: skip


def usage_object(event: ev.Usage, own: dict[str, Any]) -> dict[str, Any]:
    """All the counts that readers insist on; the provider's own object over them, if it is of this protocol."""
    taken = {"cached_tokens": event.cached or 0, "cache_write_tokens": event.written or 0}
    made = {"reasoning_tokens": event.reasoning or 0}
    counts = {
        "input_tokens": event.input or 0, "input_tokens_details": taken, "output_tokens": event.output or 0,
        "output_tokens_details": made, "total_tokens": (event.input or 0) + (event.output or 0),
    }  # fmt: skip
    return {
        **counts, **{key: value for key, value in own.items() if value is not None},
        "input_tokens_details": {**taken, **lenient.get_object(own, "input_tokens_details")},
        "output_tokens_details": {**made, **lenient.get_object(own, "output_tokens_details")},
    }  # fmt: skip


def token_logprobs(logprobs: Any) -> list[dict[str, Any]]:
    """Log probabilities as this protocol lists them, from its own list or the one in Chat's envelope."""
    content = lenient.get_list(lenient.as_object(logprobs), "content") or logprobs
    return [
        {**_token(one), "top_logprobs": [_token(other) for other in lenient.get_objects(one, "top_logprobs")]}
        for one in lenient.as_objects(content)
    ]


def _token(one: dict[str, Any]) -> dict[str, Any]:
    token = lenient.get_text(one, "token")
    return {"token": token, "bytes": one.get("bytes") or list(token.encode()), "logprob": one.get("logprob") or 0.0}


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
        raw = lenient.get_text(response.incomplete_details or {}, "reason")
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
    kind, status = lenient.get_text(told, "type"), alarm.status if alarm is not None else None
    message = lenient.get_text(failed, "message") or lenient.get_text(told, "message")
    if response is not None and (response.status or "").startswith("cancel"):
        code, message = code or "cancelled", message or "the response was cancelled"
    sent = alarm.headers if alarm is not None else None  # over a WebSocket they stand beside the error
    headers = {key.lower(): str(value) for key, value in (sent or lenient.get_object(told, "headers")).items()}
    return {
        "kind": _kind(code, kind, message, status), "message": message or "the provider reported an error",
        "status": status, "code": code or kind, "request_id": lenient.get_text(headers, "x-request-id"),
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


SAID = frozenset({  # what events say themselves
    "id", "object", "model", "created_at", "completed_at", "status", "output", "usage", "error", "incomplete_details",
})  # fmt: skip
_shallow = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Echo:
    """The fields beside the output, as they were last seen."""

    def __init__(self) -> None:
        self._seen: dict[str, bytes] = {}

    def first(self, frame: bytes) -> dict[str, dict[str, Any]] | None:
        """All of them, where a response begins."""
        self._seen = {}
        return own(**self.more(frame))

    def more(self, frame: bytes) -> dict[str, Any]:
        """Those that have changed since."""
        fields = {key: bytes(value) for key, value in _response(frame).items() if key not in SAID}
        fresh = {key: _value(value) for key, value in fields.items() if value != self._seen.get(key)}
        self._seen.update(fields)
        return fresh


def _response(frame: bytes) -> dict[str, msgspec.Raw]:
    try:
        payload = _shallow(frame)
        whole = bytes(payload.get("object", b"")) == b'"response"'
        return payload if whole else _shallow(payload["response"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        return {}


def _value(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
