"""The chunks of the AI SDK as sent, but for those about tools: text, reasoning, sources, files, the frame around them.

One shape per meaning, with every spelling as a field of its own; a chunk's type says what it means. Only what is read
is declared. Metadata is `Any` on purpose: text must not be lost because something beside it is odd.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct

from penstock import lenient_fields as lenient
from penstock.errors import BadRequest
from penstock.media import decode_byte_list, encode_byte_list, parse_data_url, sniff_media_type

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.lenient_fields import Object

Id: TypeAlias = str | int | None


class Chunk(Struct, tag_field="type", rename="camel"):
    """The root of all chunks: snake_case here, camelCase on the wire."""


# ── text and reasoning ────────────────────────────────────────────────────────────────────────────


class Say(Chunk, gc=False):
    """A piece: `text` in a full stream, `delta` in a UI stream and in `doStream`, `textDelta` in version 4."""

    id: Id = None
    text: str | None = None
    delta: str | None = None
    text_delta: str | None = None
    provider_metadata: Any = None


class TextDelta(Say, tag="text-delta", gc=False):
    """All versions."""


class Text(Say, tag="text", gc=False):
    """An alpha of version 5."""


class ReasoningDelta(Say, tag="reasoning-delta", gc=False):
    """Since 5."""


class Reasoning(Say, tag="reasoning", gc=False):
    """Version 4."""


class Border(Chunk):
    """Where a part begins or ends."""

    id: Id = None
    provider_metadata: Any = None
    citations: Any = None


class TextStart(Border, tag="text-start"):
    """Since 5."""


class TextEnd(Border, tag="text-end"):
    """Since 5; with citations since 7."""


class ReasoningStart(Border, tag="reasoning-start"):
    """Since 5."""


class ReasoningEnd(Border, tag="reasoning-end"):
    """Since 5."""


class ReasoningPartFinish(Border, tag="reasoning-part-finish"):
    """An alpha of version 5."""


class ReasoningSignature(Chunk, tag="reasoning-signature"):
    """Version 4: ends a block of reasoning."""

    signature: str = ""


class RedactedReasoning(Chunk, tag="redacted-reasoning"):
    """Version 4."""

    data: str = ""


# ── sources and files ─────────────────────────────────────────────────────────────────────────────


class SourceChunk(Chunk):
    """A source in itself, or in version 4 under `source`."""

    id: Id = None
    source_id: Id = None
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    source: Any = None
    provider_metadata: Any = None


class Source(SourceChunk, tag="source"):
    """In full streams."""


class SourceUrl(SourceChunk, tag="source-url"):
    """In UI streams."""


class SourceDocument(SourceChunk, tag="source-document"):
    """In UI streams."""


class FileChunk(Chunk):
    """A file by its address, its bytes (which `penstock.aisdk.wire` finds), or all of it under `file`."""

    file: Any = None
    url: str | None = None
    media_type: str | None = None
    mime_type: str | None = None
    base64: Any = None
    base64_data: Any = None
    data: Any = None
    uint8_array: Any = None
    uint8_array_data: Any = None
    provider_metadata: Any = None


class File(FileChunk, tag="file"):
    """All versions."""


class ReasoningFile(FileChunk, tag="reasoning-file"):
    """Since 7."""


# ── the frame ─────────────────────────────────────────────────────────────────────────────────────


class Start(Chunk, tag="start"):
    """A turn begins."""

    message_id: str | None = None
    message_metadata: Any = None


class StreamStart(Chunk, tag="stream-start"):
    """The first part of `doStream`."""

    warnings: Any = None


class ResponseMetadata(Chunk, tag="response-metadata"):
    """Only in `doStream`."""

    id: str | None = None
    model_id: str | None = None
    timestamp: Any = None


class StepBegin(Chunk):
    """A model call inside the turn begins."""

    message_id: str | None = None
    warnings: Any = None


class StartStep(StepBegin, tag="start-step"):
    """Since 5."""


class StepStart(StepBegin, tag="step-start"):
    """Version 4, whose streams have no `start`."""


class Ending(Chunk):
    """What the end of a step and the end of all may say."""

    finish_reason: Any = None
    raw_finish_reason: str | None = None
    usage: Any = None
    total_usage: Any = None
    response: Any = None
    provider_metadata: Any = None
    message_metadata: Any = None


class FinishStep(Ending, tag="finish-step"):
    """Since 5."""


class StepFinish(Ending, tag="step-finish"):
    """Version 4."""


class Finish(Ending, tag="finish"):
    """The end of all."""


class MessageMetadata(Chunk, tag="message-metadata"):
    """An application's own words about the message; UI streams."""

    message_metadata: Any = None


class Error(Chunk, tag="error"):
    """`error` is anything in a full stream; a UI stream has text only."""

    error: Any = None
    error_text: str | None = None


class Abort(Chunk, tag="abort"):
    """The caller stopped it."""

    reason: Any = None


class Custom(Chunk, tag="custom"):
    """A provider's own part, since 7."""

    kind: str = ""
    provider_metadata: Any = None


class SteeringMessage(Chunk, tag="steering-message"):
    """A user's word in the midst of a run, since 7."""


class Raw(Chunk, tag="raw"):
    """A provider's own chunk, for whoever asked to see it."""


class Ping(Chunk, tag="ping"):
    """A sign of life."""


class ResetStep(Chunk, tag="reset-step"):
    """What the step said so far is taken back, since 7."""


class Data(Struct):
    """`data-*`: its name is part of its type, so it cannot be one of the tagged chunks. The data stays as written."""

    type: str
    data: msgspec.Raw
    id: str | None = None
    transient: bool | None = None


class CallChunk(Chunk):
    """What every chunk about a call may say."""

    tool_call_id: str | None = None
    id: str | None = None
    tool_name: str | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    provider_metadata: Any = None
    tool_metadata: Any = None

    @property
    def call(self) -> str:
        """The call's own id."""
        return self.tool_call_id or self.id or ""


class OpenCall(CallChunk):
    """A call begins."""

    input_encoding: str | None = None


class ToolInputStart(OpenCall, tag="tool-input-start"):
    """Since 5."""


class ToolCallStreamingStart(OpenCall, tag="tool-call-streaming-start"):
    """Version 4."""


class CallPiece(CallChunk):
    """A fragment of its input: `delta` in a full stream, `inputTextDelta` in a UI stream, `argsTextDelta` in 4."""

    delta: str | None = None
    input_text_delta: str | None = None
    args_text_delta: str | None = None


class ToolInputDelta(CallPiece, tag="tool-input-delta"):
    """Since 5."""


class ToolCallDelta(CallPiece, tag="tool-call-delta"):
    """Version 4."""


class ToolInputEnd(CallChunk, tag="tool-input-end"):
    """No more fragments; the whole call follows."""


class WholeCall(CallChunk):
    """`input` (a value, or in `doStream` its JSON text); `args` in version 4."""

    input: Any = UNSET
    args: Any = UNSET
    invalid: bool | None = None
    error: Any = None
    error_text: str | None = None


class ToolCall(WholeCall, tag="tool-call"):
    """In full streams."""


class ToolInputAvailable(WholeCall, tag="tool-input-available"):
    """In UI streams."""


class ToolInputError(WholeCall, tag="tool-input-error"):
    """In UI streams: a call that cannot be run."""


class Answer(WholeCall):
    """`output`, or `result` in `doStream` and in version 4; `error` or `errorText` where it failed."""

    output: Any = UNSET
    result: Any = UNSET
    is_error: bool | None = None
    preliminary: bool | None = None


class ToolResult(Answer, tag="tool-result"):
    """In full streams."""


class ToolError(Answer, tag="tool-error"):
    """In full streams since 5."""


class ToolOutputAvailable(Answer, tag="tool-output-available"):
    """In UI streams."""


class ToolOutputError(Answer, tag="tool-output-error"):
    """In UI streams."""


class ToolOutputDenied(Answer, tag="tool-output-denied"):
    """Since 6: someone said no."""


class ToolApprovalRequest(CallChunk, tag="tool-approval-request"):
    """Since 6: with the whole call in a full stream, its id elsewhere."""

    approval_id: str = ""
    tool_call: Any = None
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None


class ToolApprovalResponse(Chunk, tag="tool-approval-response"):
    """Since 7: what was said to a request."""


Payload: TypeAlias = (
    TextDelta | Text | ReasoningDelta | Reasoning | TextStart | TextEnd
    | ReasoningStart | ReasoningEnd | ReasoningPartFinish | ReasoningSignature
    | RedactedReasoning | Source | SourceUrl | SourceDocument | File | ReasoningFile
    | Start | StreamStart | ResponseMetadata | StartStep | StepStart | FinishStep
    | StepFinish | Finish | MessageMetadata | Error | Abort | Custom
    | SteeringMessage | Raw | Ping | ResetStep
    | ToolInputStart | ToolCallStreamingStart | ToolInputDelta | ToolCallDelta | ToolInputEnd | ToolCall
    | ToolInputAvailable | ToolInputError | ToolResult | ToolError | ToolOutputAvailable | ToolOutputError
    | ToolOutputDenied | ToolApprovalRequest | ToolApprovalResponse
)  # fmt: skip


_DATA_URL = re.compile(r"data:([^;,]*+)([^,]*?);base64,", re.IGNORECASE)
_BYTE = 256


def split_data_url(url: str) -> tuple[str, str]:
    """Media type and base64 of a data URL; nothing of any other address."""
    head = _DATA_URL.match(url)
    return (head[1] + head[2], url[head.end() :]) if head else ("", "")


def read_file_chunk(said: dict[str, Any]) -> tuple[str, str, str]:
    """Media type, address and base64 of a file chunk given as a plain object; the latter two empty if it has none."""
    held = {**said, **lenient.get_object(said, "file")}
    data: Any = held.get("data")
    if isinstance(data, dict):
        held = {**held, **lenient.as_object(data)}  # {type: "data", data} or {type: "url", url}, since 7
    media, url = lenient.get_text(held, "mediaType", "mimeType"), lenient.get_text(held, "url")
    inline, found = split_data_url(url)
    if found:
        return (media or inline, "", found)
    keys = ("base64", "base64Data", "data", "uint8Array", "uint8ArrayData")
    return (media, url, next((text for key in keys if (text := _base64(held.get(key)))), ""))


def _base64(value: Any) -> str:
    """Base64 of text that is base64 already, or of bytes in any JSON form."""
    if isinstance(value, str):
        return split_data_url(value)[1] or value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        value = list(lenient.as_object(value).values())
    if not isinstance(value, list) or not value:
        return ""
    numbers = lenient.get_list({"": value}, "")
    whole = all(isinstance(number, int) and 0 <= number < _BYTE for number in numbers)
    return base64.b64encode(bytes(numbers)).decode() if whole else ""


TAGS = ("data", "url", "reference", "text")  # {"type": tag, tag: value}, since version 7
TAGGED, HEAD = "tagged ", "head "
EXPECTED = "base64, an address, bytes or a reference"


class Held(NamedTuple):
    """What a file's data says. `form` is empty for plain base64 and for plain addresses."""

    media: str
    url: str = ""
    data: str = ""
    reference: Object | None = None
    form: str = ""


def read_data(value: Any, said: str = "", default: str = "") -> Held:
    """Data in any form. Its type: as `said`, as its address has it, as its bytes show it, or the default."""
    if isinstance(value, str):
        return _of_text(value, said, default)
    if isinstance(value, dict):
        return _of_object(cast("Object", value), said, default)
    return _bytes(value, said, default)


def _of_text(value: str, said: str, default: str) -> Held:
    if ":" not in value[:64]:  # base64 has no colon, and no address is without
        return Held(_media(said, "", value, default), data=value)
    inside, url, data = parse_data_url(value, "")
    media = _media(said, inside, data, default)
    if url:
        return Held(media, url)
    head = value.partition(",")[0]
    plain = head == f"data:{media};base64" or not head.endswith(";base64")
    return Held(media, data=data, form="data-url" if plain else HEAD + head)


def _of_object(value: Object, said: str, default: str) -> Held:
    tag = value.get("type")
    if tag == "text" and isinstance(value.get(tag), str):
        data = base64.b64encode(value[tag].encode("utf-8", "replace")).decode()
        return Held(said or "text/plain", data=data, form="text")
    if tag in TAGS and tag in value and len(value) == 2:  # noqa: PLR2004 — the tag and what it announces
        inner = read_data(value[tag], said, default)
        return inner._replace(form=TAGGED + inner.form)
    if tag != "Buffer" and value and all(isinstance(name, str) for name in value.values()):
        return Held(_media(said, "", "", default), reference=value)
    return _bytes(value, said, default)


def _media(said: str, inside: str, data: str, default: str) -> str:
    """A type without its second half (`image`, `image/*`) is completed if it can be."""
    if "/" in said and "*" not in said:
        return said
    found = inside or (sniff_media_type(data) if data else "")
    return found or (f"{said}/*" if said and "/" not in said else said or default)


def _bytes(value: Any, said: str, default: str) -> Held:
    try:
        data, form = encode_byte_list(value)
    except ValueError:
        raise BadRequest(EXPECTED, value) from None
    return Held(_media(said, "", data, default), data=data, form=form)


def write_data(file: rq.File, form: str = "", reference: Object | None = None) -> Any:
    """A file's data; in another form than it was said in if that no longer fits."""
    if form == "text" and file.data:
        return {"type": "text", "text": base64.b64decode(file.data).decode("utf-8", "replace")}
    stored = reference if not file.data and not file.url else None
    if form.startswith(TAGGED):
        tag = "reference" if stored else "url" if file.url else "data"
        return {"type": tag, tag: write_data(file, form.removeprefix(TAGGED), reference)}
    if stored:
        return stored
    if file.url or not file.data:
        return file.url
    return _spelled(file, form)


def _spelled(file: rq.File, form: str) -> Any:
    if form.startswith(HEAD) or form == "data-url":
        return f"{form.removeprefix(HEAD) if form.startswith(HEAD) else f'data:{file.media};base64'},{file.data}"
    return decode_byte_list(file.data, form)


def first_id(reference: Object | None) -> str:
    """The provider's own id of a file, if there is just one."""
    return str(next(iter(reference.values()))) if reference and len(reference) == 1 else ""
