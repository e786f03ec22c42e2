"""Wire format of OpenAI Responses and Open Responses: event structs, built-in tools, fields of the response object.

`wire.toml` lists the event types of each struct, and the built-in tools. Structs declare only fields that the decoder
reads. Items stay plain objects: there are thirty kinds, and most of them are echoed unchanged. Older and newer
spellings of an event share one struct; `STRUCTS` has a tagged subclass for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union

import msgspec
from msgspec import Struct, field

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._diagnostics import read_tables
from penstock._http_errors import retry_after, retry_after_message
from penstock._lenient_json import as_json
from penstock._vendor_errors import classify_fault
from penstock.events import By

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._diagnostics import Diagnostics
    from penstock.events import Extra, FaultKind, Reason

NAME = "responses"
Item: TypeAlias = dict[str, Any]


def wrap_extra(**fields: Any) -> Extra | None:
    """Returns extra data of this protocol without empty fields; None if nothing is left."""
    filled = {key: value for key, value in fields.items() if value not in (None, "")}
    return {NAME: filled} if filled else None


# ── events ────────────────────────────────────────────────────────────────────────────────────────


class ResponseObject(Struct):
    """The response: a snapshot in lifecycle events, or the body of a non-stream answer."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    completed_at: int | float | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class LifecycleEvent(Struct):
    response: ResponseObject = field(default_factory=ResponseObject)
    copilot_usage: dict[str, Any] | None = None


class ItemEvent(Struct):
    output_index: int | None = None
    item: dict[str, Any] | None = None


class ItemLocation(Struct, gc=False):
    """The item and part that an event belongs to. Any field may be missing, and ids may change between events."""

    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None


class ContentPartEvent(ItemLocation, gc=False):
    part: dict[str, Any] | None = None


class TextDeltaEvent(ItemLocation, gc=False):
    delta: str = ""
    logprobs: list[Any] | None = None


class DeltaEvent(ItemLocation, gc=False):
    delta: str | dict[str, Any] | None = None  # an object in early drafts of the reasoning events

    def get_text(self) -> str:
        return self.delta if isinstance(self.delta, str) else lenient.get_text(self.delta or {}, "text", "delta")


class DoneEvent(ItemLocation, gc=False):
    """The complete value of something that was streamed. Each event type has its own field for it."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Any] | None = None
    name: str | None = None  # of the tool
    call_id: str | None = None
    input: str | None = None
    code: str | None = None
    diff: str | None = None
    command: str | None = None
    output: list[Any] | None = None


class AnnotationEvent(ItemLocation, gc=False):
    annotation: dict[str, Any] | None = None


class PartialImageEvent(ItemLocation, gc=False):
    partial_image_b64: str | None = None
    partial_image_index: int | None = None


class ErrorEvent(Struct):
    """An error: flat as OpenAI documents it, nested as OpenAI sends it, or the body of a failed request."""

    code: str | int | None = None
    message: str | None = None
    param: str | None = None
    status: int | None = None
    error: dict[str, Any] | str | None = None
    headers: dict[str, Any] | None = None


class IgnoredEvent(Struct, gc=False):
    """Keep-alives and progress. The decoder ignores them: the finished item repeats what they say."""


class ResponseUsage(Struct, gc=False):
    """Token counts. `input_tokens` counts the complete prompt."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None


class TokenDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


_TABLES = read_tables("penstock._protocols.responses", "wire.toml")


def _define_structs() -> Iterator[tuple[str, type[Struct]]]:
    """Yields a tagged struct for each event type."""
    for base, event_types in _TABLES["events"].items():
        for tag in event_types.split():
            name = "".join(word.capitalize() for word in tag.replace("_", ".").split("."))
            yield tag, msgspec.defstruct(name, [], bases=(globals()[base],), tag_field="type", tag=tag, module=__name__)


STRUCTS: dict[str, type[Struct]] = dict(_define_structs())
Payload: Any = Union[tuple(STRUCTS.values())]  # noqa: UP007 — built from a table
STREAMED: dict[type, tuple[str, str]] = {  # events with a text or an input → type of the item, kind of part
    struct: tuple(row) for tag, struct in STRUCTS.items() if (row := _TABLES["streamed"].get(tag.rpartition(".")[0]))
}


def index_by_struct(handlers: Mapping[Any, str]) -> dict[type, Any]:
    """Returns the handler of every struct. `handlers` has event types, or base structs for all their other types.

    Raises KeyError if an event type has no handler.
    """
    by_name = {name: handler for handler, names in handlers.items() for name in names.split()}
    return {struct: by_name.get(tag) or by_name[struct.__bases__[0].__name__] for tag, struct in STRUCTS.items()}


def add_type(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the payload with the type that it lacks."""
    if name in STRUCTS:
        return {**payload, "type": name}
    if payload.get("object") == "response":
        return {"type": "response", "response": payload}
    if payload.get("error") and "choices" not in payload:
        return {**payload, "type": "error"}
    if name == "error" or ("detail" in payload and "type" not in payload):
        return {"type": "error", "message": lenient.get_text(payload, "message", "detail")}
    return payload


# ── built-in tools ────────────────────────────────────────────────────────────────────────────────


class BuiltinTool(Struct, frozen=True):
    """A built-in tool: its name, who runs it, and the item fields that hold input and output."""

    name: str = ""
    by: By = "provider"
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()  # a single field stands for its bare value


CALLS_WITH_OUTPUT, CALLS, OUTPUTS = (
    msgspec.convert(_TABLES[table], dict[str, BuiltinTool]) for table in ("calls_with_output", "calls", "outputs")
)
FAILED_STATUSES = ("failed", "incomplete")


def has_failed(item: Item) -> bool:
    """Returns True if the item reports an error or was not completed."""
    return bool(item.get("error")) or item.get("status") in FAILED_STATUSES


def to_text(value: Any) -> str:
    """Returns a string unchanged, None as the empty string, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else as_json(value)


def get_runner(item: Item, tool: BuiltinTool) -> By:
    """Returns who runs a call. The provider runs calls in its container and those with `execution: server`."""
    contained = lenient.get_text(lenient.get_object(item, "environment"), "type").startswith("container")
    return "provider" if contained or lenient.get_text(item, "execution") == "server" else tool.by


def read_tool_input(item: Item, tool: BuiltinTool) -> str:
    """Returns a built-in tool's input as JSON."""
    if tool.input == ("arguments",):
        return to_text(item.get("arguments") or {})
    action = {key: value for key, value in lenient.get_object(item, "action").items() if key != "sources"}
    fields = {**item, "action": action}
    return as_json({key: fields[key] for key in tool.input if item.get(key) not in (None, [])})


def read_tool_output(item: Item, tool: BuiltinTool) -> Any:
    """Returns a built-in tool's output."""
    if len(tool.output) == 1:
        return item.get(tool.output[0])
    fields = {**item, "sources": lenient.get_object(item, "action").get("sources")}
    return {key: fields[key] for key in tool.output if fields.get(key) is not None}


# ── errors, finish reasons, usage ─────────────────────────────────────────────────────────────────

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


def read_fault(event: ErrorEvent | None, response: ResponseObject | None) -> dict[str, Any]:
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


def _flatten_error(event: ErrorEvent | None, message: str | None) -> dict[str, Any]:
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
    fault_kind = classify_fault((code, kind), message, status)
    if fault_kind != "other":
        return fault_kind
    return "invalid" if code.startswith("invalid") or "image" in code else "server" if code else "other"


def read_finish_reason(response: ResponseObject, diagnostics: Diagnostics) -> tuple[Reason | None, str]:
    """Returns the canonical finish reason and the provider's value. The reason is None if the response failed."""
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
        usage = msgspec.convert(raw, ResponseUsage, strict=False)
    except msgspec.ValidationError:
        return None
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    read = usage.input_tokens_details or TokenDetails()
    reasoning = (usage.output_tokens_details or TokenDetails()).reasoning_tokens
    cached, written = read.cached_tokens, read.cache_write_tokens
    return ev.Usage(usage.input_tokens, usage.output_tokens, cached, written, reasoning, extra={NAME: raw})


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
