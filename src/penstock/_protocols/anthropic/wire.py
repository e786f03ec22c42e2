"""Wire format of Anthropic Messages: payloads of a stream, the non-stream body, errors and usage.

Only fields that the decoder reads are declared. Blocks and usage also stay plain objects, because they are echoed
unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, field

from penstock import _lenient_fields as lenient
from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock._diagnostics import Diagnostics, read_tables
from penstock._lenient_json import decode_trusted, decode_unless_too_deep
from penstock._markers import PROVIDER_CALL_PREFIX
from penstock._vendor_errors import provider_error_object, read_errors, vendor_error, vendor_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.base import Frame

NAME = "anthropic"
ENUMS = read_tables(__name__.rpartition(".")[0], "enums.toml")


class InputCounts(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class MessageUsage(InputCounts, gc=False):
    """Token counts. `input_tokens` leaves out cached tokens."""

    output_tokens_details: OutputTokenDetails | None = None
    iterations: list[UsageIteration] | None = None


class UsageIteration(InputCounts, gc=False):
    """Token counts of one model run inside the request. The counts of the message hold only runs of type `message`."""

    type: str = ""
    model: str | None = None


class OutputTokenDetails(Struct, gc=False):
    thinking_tokens: int | None = None


class StopFields(Struct):
    """Why the message stopped: in `message_delta`, or in a complete message."""

    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class CompleteMessage(StopFields, tag_field="type", tag="message"):
    """A message: inside `message_start` (usually empty), or the body of a non-stream answer."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    context_management: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class MessageStart(Struct, tag_field="type", tag="message_start"):
    message: CompleteMessage = field(default_factory=CompleteMessage)


class ContentBlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int = 0
    content_block: dict[str, Any] = {}


class BlockDelta(Struct, gc=False):
    """All kinds of block deltas in one struct. `type` tells which field is used."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    encrypted_content: str | None = None


class ContentBlockDelta(Struct, tag_field="type", tag="content_block_delta", gc=False):
    index: int = 0
    delta: BlockDelta = field(default_factory=BlockDelta)


class ContentBlockStop(Struct, tag_field="type", tag="content_block_stop", gc=False):
    index: int = 0


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    delta: StopFields = field(default_factory=StopFields)
    usage: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    pass


class PingPayload(Struct, tag_field="type", tag="ping"):
    pass


class ErrorDetail(Struct):
    type: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class ErrorPayload(Struct, tag_field="type", tag="error"):
    """An error in a stream, or the body of a failed request."""

    error: ErrorDetail = field(default_factory=ErrorDetail)
    request_id: str | None = None


_StreamPayload: TypeAlias = MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta
Payload: TypeAlias = _StreamPayload | MessageStop | PingPayload | ErrorPayload | CompleteMessage


_REQUIRED_FIELDS: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}

# ── the non-stream body ───────────────────────────────────────────────────────────────────────────


def build_body(frames: Sequence[Frame]) -> bytes:
    """Joins the frames of an encoded stream into one message, so that stream and body cannot differ."""
    message: dict[str, Any] = {}
    blocks: list[JoinedBlock] = []
    for _, data in frames:
        payload = lenient.as_object(decode_trusted(data))  # a payload of an unknown type may have any shape
        kind = payload.get("type")
        if kind == "error":
            return data
        if kind == "message_start":
            message.update(lenient.get_object(payload, "message"))
        elif kind == "content_block_start":
            blocks.append(JoinedBlock(lenient.get_object(payload, "content_block")))
        elif kind == "content_block_delta" and blocks:
            blocks[-1].append_delta(lenient.get_object(payload, "delta"))
        elif kind == "message_delta":
            message.update(lenient.get_object(payload, "delta"))
            message["usage"] = lenient.get_object(payload, "usage")
    message = message | {name: value for name, value in _REQUIRED_FIELDS.items() if name not in message}
    cut = message["stop_reason"] == "max_tokens"
    content = [block.build_block(cut=cut and block is blocks[-1]) for block in blocks]
    message["content"] = [block for block in content if block is not None]
    return msgspec.json.encode(message)


class JoinedBlock:
    """A content block and its string deltas, which are joined once at the end."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._block = start
        self._deltas: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def append_delta(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key != "type" and isinstance(value, str):
                self._deltas.setdefault(key, []).append(value)
            elif key != "type":
                self._block[key] = value

    def build_block(self, *, cut: bool) -> dict[str, Any] | None:
        """Returns the block; None for a call that was cut off, because a client must not run it."""
        block = self._block
        json = "".join(self._deltas.pop("partial_json", ()))
        for key, texts in self._deltas.items():
            block[key] = lenient.get_text(block, key) + "".join(texts)
        if self._citations:
            block["citations"] = [*lenient.get_list(block, "citations"), *self._citations]
        if not json:
            return None if cut and block.get("type") == "tool_use" else block
        try:
            block["input"] = decode_unless_too_deep(json)
        except msgspec.DecodeError:
            return None
        return block


# ── errors ────────────────────────────────────────────────────────────────────────────────────────

ERRORS = read_errors(__name__)


def build_error_body(fault: ev.Fault) -> dict[str, Any]:
    """Returns the body of an HTTP error, which is also the payload of an error in a stream."""
    row = vendor_error(ERRORS, fault)
    error = provider_error_object(fault, NAME) or {"type": row.type, "message": vendor_message(fault, row)}
    payload: dict[str, Any] = {"type": "error", "error": error}
    if fault.request_id:
        payload["request_id"] = fault.request_id
    return payload


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────


def read_usage(raw: dict[str, Any], diagnostics: Diagnostics) -> ev.Usage | None:
    """Returns canonical usage; None if the object has another shape.

    The message's counts leave out the tokens of compactions, which are billed like the others: "sum across all entries
    in the `usage.iterations` array" (https://platform.claude.com/docs/en/build-with-claude/compaction). An advisor is
    another model with other prices, so its tokens are not added; the complete object is in `extra`.
    """
    known = _convert_usage(raw) or _convert_usage({key: value for key, value in raw.items() if key != "iterations"})
    if known is None:
        diagnostics.add("wrong-shape", "usage has an unexpected shape and is left out")
        return None
    runs = known.iterations or ()
    counted: list[InputCounts] = [known, *(run for run in runs if run.type == "compaction")]
    for model in {run.model for run in runs if run.type == "advisor_message"}:
        diagnostics.add("usage-advisor", f"the tokens of the advisor {model!r} are not part of this model's usage")
    read, written = _sum_counts(counted, "cache_read_input_tokens"), _sum_counts(counted, "cache_creation_input_tokens")
    uncached = _sum_counts(counted, "input_tokens")
    prompt = None if uncached is read is written is None else (uncached or 0) + (read or 0) + (written or 0)
    details = known.output_tokens_details or OutputTokenDetails()
    output = _sum_counts(counted, "output_tokens")
    return ev.Usage(prompt, output, read, written, details.thinking_tokens, extra={NAME: raw})


def _convert_usage(raw: dict[str, Any]) -> MessageUsage | None:
    try:
        return msgspec.convert(raw, MessageUsage, strict=False)
    except msgspec.ValidationError:
        return None


def _sum_counts(counted: list[InputCounts], name: str) -> int | None:
    counts = [count for row in counted if (count := getattr(row, name)) is not None]
    return sum(counts) if counts else None


def build_result_block(event: ev.Result, name: str) -> dict[str, Any]:
    """Returns the result block of another provider's search or program."""
    block = {"type": f"{name}_tool_result", "tool_use_id": PROVIDER_CALL_PREFIX + event.call}
    if name == "code_execution":
        text = provider_tools.program_output(event.json)
        streams = {"stdout": "", "stderr": text} if event.failed else {"stdout": text, "stderr": ""}
        result: dict[str, Any] = {"type": "code_execution_result", **streams}
        return {**block, "content": {**result, "return_code": int(event.failed), "content": []}}
    if event.failed:
        return {**block, "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    hidden = {"encrypted_content": "", "page_age": None}
    rows = [(url, title or url) for url, title in provider_tools.found_pages(event.json)]
    return {**block, "content": [{"type": "web_search_result", "url": u, "title": t, **hidden} for u, t in rows]}
