"""Reads and writes the content blocks of Converse requests. `LOSSES` lists what the blocks cannot express.

A cache point is a block on the wire, and a property of the part before it in canonical form. Bytes are base64, as in
JSON; the forms in which SDKs pass them are accepted, too.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _request_writer as request_writer
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._lenient_json import as_json, decode_unless_too_deep, is_object
from penstock._markers import NativeSupport, input_json
from penstock._media import sniff_media_type
from penstock._protocols.bedrock.wire import CLIENT_TYPES, ENUMS, NAME
from penstock._strict_fields import build_extra, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")  # characters that a document name may not have, and separators

# ── file formats ──────────────────────────────────────────────────────────────────────────────────

_DOCUMENT_TYPES: dict[str, str] = ENUMS["documents"]  # format → media type
_MEDIA_TYPES: dict[str, str] = ENUMS["media"]  # kind and format → media type
_DOCUMENT_FORMATS = {media: file_format for file_format, media in _DOCUMENT_TYPES.items()}
_MEDIA_FORMATS = {
    media: name.partition("/")[2] for name, media in _MEDIA_TYPES.items() if name not in ("video/mpg", "image/jpg")
}
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


def get_media_type(kind: str, file_format: str) -> str:
    """Returns the media type of a format in a block of this kind."""
    if kind == "document":
        return _DOCUMENT_TYPES.get(file_format) or f"application/{file_format or 'octet-stream'}"
    name = f"{kind}/{file_format or '*'}"
    return _MEDIA_TYPES.get(name, name)


def get_block_format(media: str) -> tuple[str, str]:
    """Returns the kind of block and the format for a media type; empty strings if there is none."""
    kind, _, subtype = media.partition("/")
    if kind in ("image", "video", "audio"):
        return kind, _MEDIA_FORMATS.get(media, subtype)
    if media in _DOCUMENT_FORMATS:
        return "document", _DOCUMENT_FORMATS[media]
    return ("document", "txt") if media.startswith(_TEXT_TYPES) else ("", "")


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_blocks(blocks: list[Any], key: str, role: str) -> list[rq.AnyPart]:
    """Reads a list of blocks. A cache point goes to the part before it."""
    parts: list[rq.AnyPart] = []
    for row in strict.read_each(blocks, partial(_read_block, role=role), key):
        if row[0].cache and type(row[0]) is rq.Opaque and parts and not parts[-1].cache:
            parts[-1].cache = row[0].cache
            _keep_cache_point(parts[-1], row[0].data["cachePoint"])
            continue
        row[0].cache = ""
        for part in row[1:]:
            if type(part) is rq.Source:
                part.of = len(parts)
        parts += row
    return parts


def _keep_cache_point(part: rq.AnyPart, point: Object) -> None:
    """Keeps the other fields of a cache point."""
    if unknown_fields(point, {"type"}) and not isinstance(part, rq.Opaque):
        native, marks = request_writer.split_extra(part.extra, NAME)
        part.extra = {NAME: {**native, "_": {**marks, "point": point}}}


def read_cache_time(point: Any) -> str:
    """Returns how long to cache the prompt up to this point."""
    return strict.get_text(strict.as_object(point, "cachePoint"), "ttl") or "5m"


def _read_block(block: Object, role: str) -> list[rq.AnyPart]:
    kind = next((key for key in block if key in _BLOCK_KINDS and block[key] is not None), "")
    if kind == "cachePoint":
        return [rq.Opaque(NAME, kind, block, cache=read_cache_time(block[kind]))]
    if kind == "text":
        return [rq.Text(strict.require_text(block, kind), extra=build_extra(NAME, unknown_fields(block, {"text"})))]
    if not kind:
        return [rq.Opaque(NAME, next(iter(block), ""), block)]
    return strict.read_object(block, kind, lambda inner: _READERS[kind](inner, block, role))


def _read_call(payload: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    value = payload.get("input")
    bare = value is None
    json = "{}" if bare else input_json(cast("Object", value)) if isinstance(value, dict) else as_json(value)
    by: Any = "client" if strict.get_text(payload, "type") in CLIENT_TYPES else "provider"
    extra = build_extra(NAME, unknown_fields(payload, {"toolUseId", "name", "input"}), bare=bare)
    call_id, name = strict.require_text(payload, "toolUseId"), strict.require_text(payload, "name")
    return [rq.Call(call_id, name, json, by, extra=extra)]


def _read_result(payload: Object, _block: Object, role: str) -> list[rq.AnyPart]:
    call, status = strict.require_text(payload, "toolUseId"), strict.get_text(payload, "status")
    unknown = unknown_fields(payload, {"toolUseId", "content", "status"})
    if role == "assistant":
        native = {"type": "", "status": status, **unknown}
        content: list[rq.ResultPart] = [rq.Json(as_json(payload.get("content") or []))]
        return [rq.Result(call, "", content, status == "error", by="provider", extra={NAME: native})]
    rows = strict.read_objects(payload, "content", _read_result_block)
    content = [cast("rq.ResultPart", part) for row in rows for part in row]
    marks = {"status": status if status not in ("", "error") else "", "bare": payload.get("content") is None}
    return [rq.Result(call, "", content, status == "error", extra=build_extra(NAME, unknown, **marks))]


def _read_result_block(block: Object) -> list[rq.AnyPart | rq.Json]:
    if block.get("json") is not None:
        return [rq.Json(as_json(block["json"]), extra=build_extra(NAME, unknown_fields(block, {"json"})))]
    return [*_read_block(block, "tool")]


def _read_reasoning(payload: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    if payload.get("redactedContent") is not None:
        redacted = {"redactedContent": _read_base64(payload["redactedContent"], "redactedContent")}
        return [rq.Reasoning(form="redacted", extra={NAME: {**payload, **redacted}})]
    inner = strict.get_object(payload, "reasoningText")
    extra = build_extra(NAME, unknown_fields(inner, {"text"}), said=not inner.get("signature"))
    return [rq.Reasoning(strict.get_text(inner, "text"), extra=extra)]


def _read_guarded_text(payload: Object, block: Object, _role: str) -> list[rq.AnyPart]:
    """Reads text that a guardrail checks."""
    if not isinstance(payload.get("text"), dict):
        return [rq.Opaque(NAME, "guardContent", block)]
    inner = cast("Object", payload["text"])
    extra = {NAME: {"guardContent": unknown_fields(inner, {"text"})}}
    return [rq.Text(strict.require_text(inner, "text"), extra=extra)]


def _get_row_text(row: Object) -> str:
    return strict.get_text(row, "text")


def _read_cited_text(payload: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    """Reads a text and its citations."""
    texts = strict.read_objects(payload, "content", _get_row_text)
    marks = {"cited": True, "pieces": [len(text) for text in texts] if len(texts) != 1 else []}
    part = rq.Text("".join(texts), extra=build_extra(NAME, unknown_fields(payload, {"content", "citations"}), **marks))
    return [part, *strict.read_objects(payload, "citations", _read_citation)]


def _read_citation(citation: Object) -> rq.Source:
    location, source = strict.get_object(citation, "location"), strict.get_text(citation, "source")
    web = strict.get_object(location, "web")
    url = lenient.get_text(web, "url") or (source if "://" in source else "")
    quote = "".join(strict.read_objects(citation, "sourceContent", _get_row_text))
    title = strict.get_text(citation, "title") or lenient.get_text(web, "domain")
    return rq.Source(url, title, 0, None, quote, extra={NAME: citation})


def _read_file(payload: Object, block: Object, _role: str, *, kind: str) -> list[rq.AnyPart]:
    file_format = strict.get_text(payload, "format")
    source = strict.get_object(payload, "source")
    link = source.get("s3Location")
    if source.get("bytes") is None and not isinstance(link, dict):
        return [rq.Opaque(NAME, kind, block)]
    media = get_media_type(kind, file_format)
    usual = get_block_format(media) == (kind, file_format)
    marks: Object = {"form": None if usual else [kind, file_format]}
    marks["source"] = unknown_fields(source, {"bytes", "s3Location"})
    if isinstance(link, dict):
        link = cast("Object", link)
        marks["link"] = unknown_fields(link, {"uri"})
        file = rq.File(media, strict.require_text(link, "uri"))
    else:
        file = rq.File(media, data=_read_base64(source["bytes"], "source.bytes"))
    file.name = strict.get_text(payload, "name")
    file.extra = build_extra(NAME, unknown_fields(payload, {"format", "source", "name"}), **marks)
    return [file]


def _read_base64(value: Any, key: str) -> str:
    """Returns bytes as base64. They may be base64, bytes, or an object as Node prints a buffer."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(cast("Object", value).get("data"), list):
        try:
            value = bytes(cast("Object", value)["data"])
        except (TypeError, ValueError):
            raise BadRequest("bytes", [], key) from None
    if not isinstance(value, bytes | bytearray):
        raise BadRequest("base64", cast("object", value), key)
    return b2a_base64(value, newline=False).decode()


_READERS: dict[str, Callable[[Object, Object, str], list[rq.AnyPart]]] = {
    "toolUse": _read_call,
    "toolResult": _read_result,
    "reasoningContent": _read_reasoning,
    "guardContent": _read_guarded_text,
    "citationsContent": _read_cited_text,
    **{kind: partial(_read_file, kind=kind) for kind in ("image", "document", "video", "audio")},
}
_BLOCK_KINDS = frozenset({"text", "cachePoint", *_READERS})


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


class Quirks(msgspec.Struct, frozen=True):
    """How the models behind this protocol differ."""

    # the additional field for reasoning settings; `auto`: the field of the model's family
    thinking: Literal["auto", "thinking", "reasoning_config", "reasoningConfig", "reasoning_effort", ""] = "auto"
    top_k: Literal["top_k", "inferenceConfig", ""] = "top_k"  # the additional field for top_k
    unsigned: Literal["drop", "text", "keep"] = "drop"  # how to write reasoning without a signature: Claude rejects it


class ConverseBlockWriter(request_writer.RequestDraft):
    """Writes parts as content blocks. State: how often each document name was used."""

    protocol = NAME
    losses = LOSSES
    holds = NativeSupport(NAME, refusals=False, assistant_files=False)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self._names: dict[str, int] = {}

    def write_blocks(self, parts: Sequence[rq.AnyPart]) -> list[Object]:
        """Returns the blocks of a message, with cache points after the parts that ask for them."""
        citations: dict[int, list[Object]] = {}
        for part in parts:
            if type(part) is rq.Source and part.of is not None and NAME in (part.extra or ()):
                citations.setdefault(part.of, []).append((part.extra or {})[NAME])
        blocks: list[Object] = []
        for position, part in enumerate(parts):
            if position in citations and type(part) is rq.Text:
                blocks.append(self._build_cited_text(part, citations[position]))
            elif type(part) is not rq.Source or part.of not in citations:
                blocks += self.part_writers[type(part)](self, part)
            if part.cache and blocks:
                blocks.append(
                    build_cache_point(part.cache, request_writer.split_extra(getattr(part, "extra", None), NAME)[1])
                )
        return blocks

    def _write_text(self, part: rq.Text) -> list[Object]:
        if not part.text:
            self.report_loss("empty")  # Bedrock rejects empty blocks
            return []
        if part.extra is None:
            return [{"text": part.text}]
        native, marks = self.split_extra(part.extra)
        if "guardContent" in native:
            return [{"guardContent": {"text": {"text": part.text, **native["guardContent"]}}}]
        return [self._build_cited_text(part, [])] if marks.get("cited") else [{"text": part.text, **native}]

    def _build_cited_text(self, part: rq.Text, citations: list[Object]) -> Object:
        native, marks = self.split_extra(part.extra)
        ends = list(accumulate(marks.get("pieces") or [len(part.text)]))
        texts = [part.text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if "".join(texts) != part.text:
            texts = [part.text]
        return {"citationsContent": {"content": [{"text": text} for text in texts], "citations": citations, **native}}

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
        native, marks = self.split_extra(part.extra)
        if "redactedContent" in native:
            return [{"reasoningContent": native}]
        if part.form == "summary":
            self.report_loss("form")
        if native.get("signature") or marks.get("said") or self.quirks.unsigned == "keep":
            return [{"reasoningContent": {"reasoningText": {"text": part.text, **native}}}]
        self.report_loss("unsigned")
        return [{"text": part.text}] if self.quirks.unsigned == "text" and part.text else []

    def _write_call(self, call: rq.Call) -> list[Object]:
        native, marks = self.split_extra(call.extra)
        payload = self.write_call_input(call)
        if payload is None:
            return []
        fields: Object = {"toolUseId": call.id, "name": call.name, **native}
        if payload or not marks.get("bare"):
            fields["input"] = payload
        return [{"toolUse": fields}]

    def _write_result(self, result: rq.Result) -> list[Object]:
        native, marks = self.split_extra(result.extra)
        fields: Object = {"toolUseId": result.call}
        if result.by == "provider":
            fields["content"] = decode_unless_too_deep(result.json)
            return [{"toolResult": {**fields, **{key: value for key, value in native.items() if value}}}]
        if result.content or not marks.get("bare"):
            fields["content"] = [block for part in result.content for block in self._write_result_part(part)]
        status = "error" if result.failed else marks.get("status")
        if status:
            fields["status"] = status
        return [{"toolResult": {**fields, **native}}]

    def _write_result_part(self, part: rq.ResultPart) -> list[Object]:
        if part.cache:
            self.report_loss("cache")
        if type(part) is rq.Text:
            native, _ = self.split_extra(part.extra)
            return [{"text": part.text, **native}]
        return self.part_writers[type(part)](self, part)

    def _write_json(self, part: rq.Json) -> list[Object]:
        native, _ = self.split_extra(part.extra)
        try:
            value = decode_unless_too_deep(part.json)
        except (msgspec.DecodeError, UnicodeEncodeError):
            value = None
        if is_object(value):
            return [{"json": value, **native}]
        self.report_loss("json-result")
        return [{"text": part.json}]

    def _write_file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        native, marks = self.split_extra(part.extra)
        kind, file_format = self._choose_format(part, marks) if part.data or part.url.startswith("s3://") else ("", "")
        if not kind:
            self.report_loss("file", part.media)
            return [{"text": request_writer.describe_file(part)}]
        fields: Object = {"format": file_format} if file_format else {}
        if kind == "document":
            fields["name"] = self._make_document_name(part.name, native=NAME in (part.extra or ()))
        elif part.name:
            self.report_loss("document-name")
        source: Object = (
            {"s3Location": {"uri": part.url, **marks.get("link", {})}} if part.url else {"bytes": part.data}
        )
        return [{kind: {**fields, "source": {**source, **marks.get("source", {})}, **native}}]

    def _choose_format(self, part: rq.File, marks: Object) -> tuple[str, str]:
        media = part.media
        if "form" in marks and get_media_type(*marks["form"]) == media:
            return marks["form"][0], marks["form"][1]
        if media.endswith("/*"):
            media = sniff_media_type(part.data) or media.replace("*", "png")
            self.report_loss("media", media)
        kind, file_format = get_block_format(media)
        if kind == "document" and get_media_type(kind, file_format) != media:
            self.report_loss("media", media)
        return kind, file_format

    def _make_document_name(self, name: str, *, native: bool) -> str:
        """Returns a name that is allowed and that no other document has."""
        if native and name:
            return name
        unique = " ".join(_NOT_IN_NAMES.sub(" ", name).split()) or "document"
        self._names[unique] = count = self._names.get(unique, 0) + 1
        unique = f"{unique} ({count})" if count > 1 else unique
        if unique != name:
            self.report_loss("document-name")
        return unique

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Opaque: request_writer.write_foreign_state(),
        **request_writer.OMITTED_PARTS,
    }


def build_cache_point(cache: str, marks: Object) -> Object:
    """Returns a cache point as it was spelled, or in the usual form."""
    if "point" in marks:
        return {"cachePoint": marks["point"]}
    return {"cachePoint": {"type": "default"} if cache == "5m" else {"type": "default", "ttl": cache}}
