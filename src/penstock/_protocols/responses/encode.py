"""Encodes events as Responses frames: the complete lifecycle, and a final snapshot that equals the stream.

A call that was cut is never done, because Codex runs calls that are done. The snapshot has such a call as incomplete,
with input that cannot be parsed, or not at all. A fault is sent as `error` and `response.failed`, like OpenAI does.
`[DONE]` is last, as in Open Responses. After a fault no open item is done, because Codex keeps items that are done:
only the snapshot has them, as incomplete.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _vendor_errors as vendor_errors
from penstock import events as ev
from penstock._codec import lost
from penstock._diagnostics import read_losses, read_package_file
from penstock._lenient_json import decode_trusted
from penstock._protocols.responses.encode_calls import ResponsesCallEncoder
from penstock._protocols.responses.encode_text import PART_FORMATS
from penstock._protocols.responses.wire import NAME, STRUCTS
from penstock._vendor_errors import vendor_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.base import Frame
    from penstock.events import Fault, Reason

# The first two sentences are OpenAI's complete message: https://github.com/dyad-sh/dyad/issues/1672. Copilot CLI
# compacts a conversation when it sees this message, but not when it sees the message of Chat Completions.
_OVERFLOW = (
    "Your input exceeds the context window of this model. Please adjust your input and try again. Input tokens exceed "
    "the configured limit of {limit} tokens. Your messages resulted in {tokens} tokens."
)
# Codex recovers from an overflow only if a response fails with it, not after a status 400:
# https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/api_bridge.rs
ERRORS = vendor_errors.openai_errors("input", overflow=_OVERFLOW, in_stream=True)
build_error_body = partial(vendor_errors.build_openai_error_body, protocol=NAME, errors=ERRORS)
# The fields that Open Responses requires. The gateway fills in what the request asked for.
# The fields that Open Responses requires. The gateway fills in what the request asked for.
DEFAULTS: dict[str, Any] = decode_trusted(read_package_file("penstock._protocols.responses", "response_defaults.json"))
_INCOMPLETE_REASONS: dict[Reason, str] = {
    "length": "max_output_tokens",
    "filter": "content_filter",
    "refusal": "content_filter",
}


class ResponsesEncoder(ResponsesCallEncoder):
    """State beside that of text and calls: the response object so far.

    `renames`: which responses get the id given here: none, those of other protocols, or all. `clock` returns the time
    at which a response was completed.
    """

    protocol = NAME
    losses = read_losses(__name__, "answers")

    def __init__(
        self,
        *,
        id: str = "resp",
        model: str = "unknown",
        created: int = 0,
        settings: Mapping[str, Any] | None = None,
        reasoning: Literal["summary", "reasoning_text", "reasoning"] = "summary",
        done: bool = True,
        renames: Literal["none", "foreign", "all"] = "none",
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(reasoning)
        self._id, self._model, self._created = id, model, created
        self._renames, self._clock = renames, clock
        self._settings = dict(settings or {})
        self._done = done
        self._response: dict[str, Any] = {}

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        self.out = self._output.out = []
        for event in events:
            self.write(event)
        return self.out

    def _start_response(self, event: ev.Start) -> None:
        foreign = self._renames == "foreign" and NAME not in (event.extra or ())
        response_id = self._id if foreign or self._renames == "all" or not event.id else event.id
        self._response = {
            "id": response_id,
            "object": "response",
            "created_at": event.created or self._created,
            "status": "in_progress",
            "model": event.model or self._model,
            "output": [],
            "usage": None,
            **DEFAULTS,
            **self._get_extras(event.extra),
            **self._settings,
        }
        self._reset(response_id)
        self._output.send("response.created", response=self._response)
        self._output.send("response.in_progress", response=self._response)

    def _set_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        self._response["usage"] = build_usage_object(event, self._get_extras(event.extra))

    def _finish_response(self, event: ev.Finish) -> None:
        extras = self._get_extras(event.extra)
        refused = any(part.format is PART_FORMATS["refusal"] for part in self._parts.values())
        details = lenient.get_object(extras, "incomplete_details") or None
        if details is None and event.reason in _INCOMPLETE_REASONS and not (event.reason == "refusal" and refused):
            details = {"reason": _INCOMPLETE_REASONS[event.reason]}
        if details is None and event.reason in ("pause", "other"):
            self.report_loss("pause" if event.reason == "pause" else "reason")
        elif event.reason == "refusal":
            self.report_loss("reason")
        if event.others:
            self.report_loss("choice")
        self._end_response("incomplete" if details else "completed", {**extras, "incomplete_details": details})

    def _end_response(self, status: str, changes: dict[str, Any]) -> None:
        if self._waiting_sources:
            self.report_loss("source-outside-text")
        if status != "failed":
            self._finish_provider_items()
            self._output.finish_ended("incomplete" if changes.get("incomplete_details") else "completed")
        output = [entry.item for entry in self._output.items if not entry.cut]
        if self._clock is not None and status == "completed":
            changes = {"completed_at": self._clock(), **changes}
        response = {**self._response, **changes, "status": status, "output": output}
        self._output.send(f"response.{status}", response=response)
        if self._done:
            self.out.append((b"", b"[DONE]"))

    def _write_fault(self, event: ev.Fault) -> None:
        """Writes the error flat and nested in one event, because clients read either form; then the failed response."""
        self._abandon()
        error = build_error_event(event)
        flat = {key: error[key] for key in ("code", "message", "param")}
        self._output.send("error", **flat, error=error)
        self._end_response("failed", {"error": {"code": error["code"], "message": error["message"]}})

    def _end_step(self, _: ev.Step) -> None:
        self._output.finish_ended()

    def _write_unknown(self, event: ev.Unknown) -> None:
        """Writes the payload unchanged except for its sequence number."""
        try:
            payload = msgspec.json.decode(event.data, type=dict[str, msgspec.Raw]) if event.protocol == NAME else {}
        except (msgspec.DecodeError, UnicodeEncodeError):
            payload = {}
        kind = bytes(payload.get("type", b""))
        if not payload or kind.decode().strip('"') in STRUCTS:
            self.report_loss("unknown")
            return
        payload["sequence_number"] = msgspec.Raw(b"%d" % self._output.next_number)
        self._output.next_number += 1
        self.out.append((event.name.encode(), msgspec.json.encode(payload)))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start_response,
        ev.Step: _end_step,
        ev.Usage: _set_usage,
        ev.Finish: _finish_response,
        ev.Fault: _write_fault,
        ev.Data: lost("data"),
        ev.Unknown: _write_unknown,
        **ResponsesCallEncoder.text_handlers,
        **ResponsesCallEncoder.call_handlers,
    }


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


def build_error_event(fault: Fault) -> dict[str, Any]:
    """Returns the error object of a stream event. Its code is always a string: clients require one."""
    error = vendor_errors.openai_error_object(fault, NAME, ERRORS, event=True)
    row = vendor_error(ERRORS, fault)
    return {**error, "code": str(error["code"] or row.event_code or row.code or "server_error")}


def build_usage_object(event: ev.Usage, extras: dict[str, Any]) -> dict[str, Any]:
    """Returns a usage object with all counts that clients require. Fields of an object of this protocol win."""
    usage: dict[str, Any] = {
        "input_tokens": event.input or 0,
        "input_tokens_details": {"cached_tokens": event.cached or 0, "cache_write_tokens": event.written or 0},
        "output_tokens": event.output or 0,
        "output_tokens_details": {"reasoning_tokens": event.reasoning or 0},
        "total_tokens": (event.input or 0) + (event.output or 0),
    }
    for key, value in extras.items():
        if key.endswith("_details") and key in usage:
            usage[key].update(lenient.as_object(value))
        elif value is not None:
            usage[key] = value
    return usage
