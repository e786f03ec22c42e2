"""The chunks of the AI SDK as sent by all versions, and the ways in which JSON spells the data of a file.

There is one Struct for each meaning; every version's spelling is a field. `CHUNK_TYPES` maps each `type` on the wire to
a Struct. Only fields that are read are declared. Metadata is `Any`: an odd value beside a text must not cost the text.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union, cast

import msgspec
from msgspec import UNSET, Struct

from penstock import _lenient_fields as lenient
from penstock import request as rq
from penstock._aisdk import TABLES
from penstock._media import decode_byte_list, encode_byte_list, sniff_media_type, split_file_url
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

Id: TypeAlias = str | int | None


class Chunk(Struct, tag_field="type", rename="camel"):
    """The base of all chunks: snake_case here, camelCase on the wire."""


class TextPiece(Chunk, gc=False):
    """A delta: `text` in a full stream, `delta` in a UI stream and in `doStream`, `textDelta` in version 4."""

    id: Id = None
    text: str | None = None
    delta: str | None = None
    text_delta: str | None = None
    provider_metadata: Any = None


class PartBoundary(Chunk):
    """The start or end of a part. Citations since version 7."""

    id: Id = None
    provider_metadata: Any = None
    citations: Any = None


class SignatureChunk(Chunk):
    """Version 4: ends a reasoning block."""

    signature: str = ""


class RedactedChunk(Chunk):
    """Version 4: a redacted reasoning block."""

    data: str = ""


# ── sources and files ─────────────────────────────────────────────────────────────────────────────


class SourceChunk(Chunk):
    """A source; version 4 nests it under `source`."""

    id: Id = None
    source_id: Id = None
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    source: Any = None
    provider_metadata: Any = None


class FileChunk(Chunk):
    """A file by its URL or its bytes (`read_file_chunk` finds them); some versions nest it under `file`."""

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


class DataChunk(Struct):
    """A `data-*` chunk. Its name is part of its type, so it is not in `CHUNK_TYPES`. The data stays as written."""

    type: str
    data: msgspec.Raw
    id: str | None = None
    transient: bool | None = None


# ── turns and steps ───────────────────────────────────────────────────────────────────────────────


class MetadataChunk(Chunk):
    """The application's metadata of a message."""

    message_metadata: Any = None


class StartChunk(MetadataChunk):
    """The start of a turn."""

    message_id: str | None = None


class StreamStartChunk(Chunk):
    """The first chunk of `doStream`."""

    warnings: Any = None


class ResponseChunk(Chunk):
    """The response's metadata in `doStream`."""

    id: str | None = None
    model_id: str | None = None
    timestamp: Any = None


class StepStartChunk(StreamStartChunk):
    """A model call inside the turn starts."""

    message_id: str | None = None


class FinishChunk(Chunk):
    """The end of a step or of the turn."""

    finish_reason: Any = None
    raw_finish_reason: str | None = None
    usage: Any = None
    total_usage: Any = None
    response: Any = None
    provider_metadata: Any = None
    message_metadata: Any = None


class ErrorChunk(Chunk):
    """`error` is any value in a full stream; a UI stream has text only."""

    error: Any = None
    error_text: str | None = None


class AbortChunk(Chunk):
    """The caller aborted."""

    reason: Any = None


class ProviderPartChunk(Chunk):
    """A provider-specific part, since version 7."""

    kind: str = ""
    provider_metadata: Any = None


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


class CallChunk(Chunk):
    """The fields of all chunks about a call. A full stream names a call by `id` while it streams."""

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
        """The call's id."""
        return self.tool_call_id or self.id or ""


class CallStartChunk(CallChunk):
    """A call starts."""

    input_encoding: str | None = None


class CallPiece(CallChunk):
    """An input delta: `delta` in a full stream, `inputTextDelta` in a UI stream, `argsTextDelta` in version 4."""

    delta: str | None = None
    input_text_delta: str | None = None
    args_text_delta: str | None = None


class CompleteCallChunk(CallChunk):
    """A complete call. `input` is a value, or its JSON text in `doStream`; `args` in version 4."""

    input: Any = UNSET
    args: Any = UNSET
    invalid: bool | None = None
    error: Any = None
    error_text: str | None = None


class CallResultChunk(CompleteCallChunk):
    """`output`, or `result` in `doStream` and in version 4; `error` or `errorText` if the tool failed."""

    output: Any = UNSET
    result: Any = UNSET
    is_error: bool | None = None
    preliminary: bool | None = None


class ApprovalChunk(CallChunk):
    """A request for approval, since version 6: with the complete call in a full stream, its id elsewhere."""

    approval_id: str = ""
    tool_call: Any = None
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None


def _define_chunk(shape: type[Chunk], tag: str) -> type[Chunk]:
    name, gc = tag.title().replace("-", ""), shape.__struct_config__.gc
    return cast("type[Chunk]", msgspec.defstruct(name, [], bases=(shape,), module=__name__, tag=tag, gc=gc))


CHUNK_TYPES: dict[str, type[Chunk]] = {
    tag: _define_chunk(globals()[shape], tag) for shape, tags in TABLES["chunks"].items() for tag in tags
}
Payload: Any = Union[tuple(CHUNK_TYPES.values())]  # noqa: UP007 — built from a table


# ── file data ─────────────────────────────────────────────────────────────────────────────────────

_DATA_URL = re.compile(r"data:([^;,]*+)([^,]*?);base64,", re.IGNORECASE)
_BASE64_KEYS = ("base64", "base64Data", "data", "uint8Array", "uint8ArrayData")
_BYTE = 256
_TAGS = ("data", "url", "reference", "text")  # {"type": tag, tag: value}, since version 7
_TAGGED, _URL_HEAD = "tagged ", "head "


def _split_data_url(url: str) -> tuple[str, str]:
    """Returns media type and base64 of a data URL; empty strings for any other URL."""
    head = _DATA_URL.match(url)
    return (head[1] + head[2], url[head.end() :]) if head else ("", "")


def read_file_chunk(chunk: Object) -> tuple[str, str, str]:
    """Returns media type, URL and base64 of a file chunk; URL and base64 are empty if it has none."""
    fields = {**chunk, **lenient.get_object(chunk, "file")}
    data: Any = fields.get("data")
    if isinstance(data, dict):
        fields = {**fields, **lenient.as_object(data)}  # {type: "data", data} or {type: "url", url}, since version 7
    media, url = lenient.get_text(fields, "mediaType", "mimeType"), lenient.get_text(fields, "url")
    url_media, url_data = _split_data_url(url)
    if url_data:
        return (media or url_media, "", url_data)
    return (media, url, next((text for key in _BASE64_KEYS if (text := _to_base64(fields.get(key)))), ""))


def _to_base64(value: Any) -> str:
    """Returns the base64 of text that is base64 already, or of bytes in any JSON form."""
    if isinstance(value, str):
        return _split_data_url(value)[1] or value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        value = list(lenient.as_object(value).values())
    if not isinstance(value, list) or not value:
        return ""
    numbers = lenient.get_list({"": value}, "")
    is_bytes = all(isinstance(number, int) and 0 <= number < _BYTE for number in numbers)
    return base64.b64encode(bytes(numbers)).decode() if is_bytes else ""


class FileData(NamedTuple):
    """The data of a file in a request.

    `form` says how it was spelled; it is empty for plain base64 and plain URLs. Writers spell the current data in it.
    """

    media: str
    url: str = ""
    data: str = ""
    reference: Object | None = None  # ids in providers' file stores
    form: str = ""


def read_file_data(value: Any, label: str = "", default: str = "") -> FileData:
    """Reads data in any form. The media type is the label's, the URL's, the one the bytes show, or the default."""
    if isinstance(value, str):
        return _read_data_text(value, label, default)
    if isinstance(value, dict):
        return _read_data_object(cast("Object", value), label, default)
    return _read_bytes(value, label, default)


def _read_data_text(value: str, label: str, default: str) -> FileData:
    if ":" not in value[:64]:  # base64 has no colon, every URL has one
        return FileData(_media_type(label, "", value, default), data=value)
    url_media, url, data = split_file_url(value, "")
    media = _media_type(label, url_media, data, default)
    if url:
        return FileData(media, url)
    head = value.partition(",")[0]
    is_usual = head == f"data:{media};base64" or not head.endswith(";base64")
    return FileData(media, data=data, form="data-url" if is_usual else _URL_HEAD + head)


def _read_data_object(value: Object, label: str, default: str) -> FileData:
    tag = value.get("type")
    if tag == "text" and isinstance(value.get(tag), str):
        data = base64.b64encode(value[tag].encode("utf-8", "replace")).decode()
        return FileData(label or "text/plain", data=data, form="text")
    if tag in _TAGS and tag in value and len(value) == 2:  # noqa: PLR2004 — the tag and its value
        inner = read_file_data(value[tag], label, default)
        return inner._replace(form=_TAGGED + inner.form)
    if tag != "Buffer" and value and all(isinstance(name, str) for name in value.values()):
        return FileData(_media_type(label, "", "", default), reference=value)
    return _read_bytes(value, label, default)


def _media_type(label: str, url_media: str, data: str, default: str) -> str:
    """Returns the label; completes a label without a subtype (`image`, `image/*`) if the URL or the data shows it."""
    if "/" in label and "*" not in label:
        return label
    found = url_media or (sniff_media_type(data) if data else "")
    return found or (f"{label}/*" if label and "/" not in label else label or default)


def _read_bytes(value: Any, label: str, default: str) -> FileData:
    try:
        data, form = encode_byte_list(value)
    except ValueError:
        raise BadRequest("base64, a URL, bytes or a reference", value) from None
    return FileData(_media_type(label, "", data, default), data=data, form=form)


def write_file_data(file: rq.File, form: str = "", reference: Object | None = None) -> Any:
    """Writes a file's data in the form that it was read in, if that form still fits."""
    if form == "text" and file.data:
        return {"type": "text", "text": base64.b64decode(file.data).decode("utf-8", "replace")}
    stored = reference if not file.data and not file.url else None
    if form.startswith(_TAGGED):
        tag = "reference" if stored else "url" if file.url else "data"
        return {"type": tag, tag: write_file_data(file, form.removeprefix(_TAGGED), reference)}
    if stored:
        return stored
    if file.url or not file.data:
        return file.url
    if form.startswith(_URL_HEAD) or form == "data-url":
        head = form.removeprefix(_URL_HEAD) if form.startswith(_URL_HEAD) else f"data:{file.media};base64"
        return f"{head},{file.data}"
    return decode_byte_list(file.data, form)


def single_reference_id(reference: Object | None) -> str:
    """Returns the provider's id of a file if there is exactly one."""
    return str(next(iter(reference.values()))) if reference and len(reference) == 1 else ""
