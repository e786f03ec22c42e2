"""Reads the content blocks of Converse requests. `request_write_parts.py` is the opposite direction.

A cache point is a block on the wire, and a property of the part before it in canonical form. Bytes are base64, as in
JSON; the forms in which SDKs pass them are accepted, too.
"""

from __future__ import annotations

from binascii import b2a_base64
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._jsontext import as_json
from penstock._markers import input_json
from penstock._protocols.bedrock.wire import NAME, get_block_format, get_media_type
from penstock._request_writer import split_extra
from penstock._strict_fields import build_extra, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._lenient_fields import Object

_CLIENT_TYPES = frozenset({"", "tool_use"})  # types of calls that the client runs


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
        own, marks = split_extra(part.extra, NAME)
        part.extra = {NAME: {**own, "_": {**marks, "point": point}}}


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


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def _read_call(given: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    value = given.get("input")
    bare = value is None
    json = "{}" if bare else input_json(cast("Object", value)) if isinstance(value, dict) else as_json(value)
    by: Any = "client" if strict.get_text(given, "type") in _CLIENT_TYPES else "provider"
    extra = build_extra(NAME, unknown_fields(given, {"toolUseId", "name", "input"}), bare=bare)
    call_id, name = strict.require_text(given, "toolUseId"), strict.require_text(given, "name")
    return [rq.Call(call_id, name, json, by, extra=extra)]


def _read_result(given: Object, _block: Object, role: str) -> list[rq.AnyPart]:
    call, status = strict.require_text(given, "toolUseId"), strict.get_text(given, "status")
    unknown = unknown_fields(given, {"toolUseId", "content", "status"})
    if role == "assistant":
        own = {"type": "", "status": status, **unknown}
        content: list[rq.ResultPart] = [rq.Json(as_json(given.get("content") or []))]
        return [rq.Result(call, "", content, status == "error", by="provider", extra={NAME: own})]
    rows = strict.read_objects(given, "content", _read_result_block)
    content = [cast("rq.ResultPart", part) for row in rows for part in row]
    marks = {"status": status if status not in ("", "error") else "", "bare": given.get("content") is None}
    return [rq.Result(call, "", content, status == "error", extra=build_extra(NAME, unknown, **marks))]


def _read_result_block(block: Object) -> list[rq.AnyPart | rq.Json]:
    if block.get("json") is not None:
        return [rq.Json(as_json(block["json"]), extra=build_extra(NAME, unknown_fields(block, {"json"})))]
    return [*_read_block(block, "tool")]


# ── reasoning, guarded text, citations ────────────────────────────────────────────────────────────


def _read_reasoning(given: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    if given.get("redactedContent") is not None:
        redacted = {"redactedContent": _read_base64(given["redactedContent"], "redactedContent")}
        return [rq.Reasoning(form="redacted", extra={NAME: {**given, **redacted}})]
    inner = strict.get_object(given, "reasoningText")
    extra = build_extra(NAME, unknown_fields(inner, {"text"}), said=not inner.get("signature"))
    return [rq.Reasoning(strict.get_text(inner, "text"), extra=extra)]


def _read_guarded_text(given: Object, block: Object, _role: str) -> list[rq.AnyPart]:
    """Reads text that a guardrail checks."""
    if not isinstance(given.get("text"), dict):
        return [rq.Opaque(NAME, "guardContent", block)]
    inner = cast("Object", given["text"])
    extra = {NAME: {"guardContent": unknown_fields(inner, {"text"})}}
    return [rq.Text(strict.require_text(inner, "text"), extra=extra)]


def _get_row_text(row: Object) -> str:
    return strict.get_text(row, "text")


def _read_cited_text(given: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    """Reads a text and its citations."""
    texts = strict.read_objects(given, "content", _get_row_text)
    marks = {"cited": True, "pieces": [len(text) for text in texts] if len(texts) != 1 else []}
    part = rq.Text("".join(texts), extra=build_extra(NAME, unknown_fields(given, {"content", "citations"}), **marks))
    return [part, *strict.read_objects(given, "citations", _read_citation)]


def _read_citation(citation: Object) -> rq.Source:
    location, source = strict.get_object(citation, "location"), strict.get_text(citation, "source")
    web = strict.get_object(location, "web")
    url = lenient.get_text(web, "url") or (source if "://" in source else "")
    quote = "".join(strict.read_objects(citation, "sourceContent", _get_row_text))
    title = strict.get_text(citation, "title") or lenient.get_text(web, "domain")
    return rq.Source(url, title, 0, None, quote, extra={NAME: citation})


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _read_file(given: Object, block: Object, _role: str, *, kind: str) -> list[rq.AnyPart]:
    file_format = strict.get_text(given, "format")
    source = strict.get_object(given, "source")
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
    file.name = strict.get_text(given, "name")
    file.extra = build_extra(NAME, unknown_fields(given, {"format", "source", "name"}), **marks)
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
