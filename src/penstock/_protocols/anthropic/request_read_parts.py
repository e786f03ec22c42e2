"""Reads Anthropic content blocks as canonical parts. The role decides which blocks have a meaning."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._jsontext import as_json
from penstock._markers import input_json
from penstock._markers.marks import PROVIDER_CALL_PREFIX
from penstock._protocols.anthropic.wire import NAME
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

P = TypeVar("P", rq.Text, rq.Call, rq.Result, rq.File)
_TEXT_FIELDS = frozenset({"type", "text"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
_RESULT_FIELDS = frozenset({"type", "tool_use_id", "content", "is_error"})
_FILE_FIELDS = frozenset({"type", "source", "title"})
_COMMON_MEDIA = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})


def read_content(content: Any, key: str, role: str) -> list[rq.AnyPart]:
    """Reads content: a string or a list of blocks."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of blocks", content, key)
    return strict.read_each(content, _READERS[role], key)  # pyright: ignore[reportUnknownArgumentType]


def read_cache_control(source: Object) -> tuple[str, Object | None]:
    """Returns how long to cache the prompt up to here, and the hint if it cannot be rebuilt from that."""
    hint = source.get("cache_control")
    if hint is None:
        return "", None
    hint = strict.as_object(hint, "cache_control")
    time = strict.get_text(hint, "ttl")
    usual = hint == {"type": "ephemeral"} or (time not in ("", "5m") and hint == {"type": "ephemeral", "ttl": time})
    return time or "5m", None if usual else hint


def _add_extra(part: P, block: Object, known: frozenset[str], **marks: Any) -> P:
    """Adds the block's other fields, its cache hint and its spelling to a part."""
    hint = None
    if block.get("cache_control") is not None:
        part.cache, hint = read_cache_control(block)
    unknown = unknown_fields(block, known | {"cache_control"})
    also = empty_fields(block, {"cache_control"}) | marks.pop("also", {})
    if unknown or also or hint or marks:
        part.extra = build_extra(NAME, unknown, also=also, hint=hint, **marks)
    return part


def _read_text(block: Object) -> rq.AnyPart:
    text = strict.require_text(block, "text")
    if len(block) == len(_TEXT_FIELDS) and text:
        return rq.Text(text)
    return _add_extra(rq.Text(text), block, _TEXT_FIELDS, **({} if text else {"empty": True}))


def _read_thinking(block: Object) -> rq.AnyPart:
    unknown = unknown_fields(block, {"type", "thinking", "signature"})
    own = {"signature": strict.get_text(block, "signature"), **unknown}
    return rq.Reasoning(strict.get_text(block, "thinking"), extra={NAME: own})


def _read_redacted_thinking(block: Object) -> rq.AnyPart:
    own = {"redacted": strict.require_text(block, "data"), **unknown_fields(block, {"type", "data"})}
    return rq.Reasoning(form="redacted", extra={NAME: own})


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def _read_call(block: Object) -> rq.AnyPart:
    given = block.get("input")
    if not isinstance(given, dict):
        raise BadRequest("an object", given, "input")
    call = rq.Call(strict.require_text(block, "id"), strict.require_text(block, "name"), input_json(given))
    return call if len(block) == len(_CALL_FIELDS) else _add_extra(call, block, _CALL_FIELDS)


def _read_provider_call(block: Object) -> rq.AnyPart:
    call, json = strict.require_text(block, "id"), as_json(block.get("input", {}))
    if call.startswith(PROVIDER_CALL_PREFIX):  # another provider ran it: the encoder wrote the block
        return rq.Call(call[len(PROVIDER_CALL_PREFIX) :], strict.get_text(block, "name"), json, "provider")
    own = unknown_fields(block, {"id", "name", "input", "cache_control"})
    part = rq.Call(call, strict.get_text(block, "name"), json, "provider", extra={NAME: own})
    part.cache = _read_kept_hint(block, own)
    return part


def _read_kept_hint(block: Object, own: Object) -> str:
    """Returns the cache time of a block that is kept nearly unchanged, and stores the hint's spelling."""
    time, hint = read_cache_control(block)
    if hint:
        own["_"] = {"hint": hint}
    return time


def _read_result(block: Object) -> rq.AnyPart:
    content = block.get("content")
    call, failed = strict.require_text(block, "tool_use_id"), block.get("is_error")
    if type(content) is str and content and len(block) == 3:  # noqa: PLR2004 — type, id and text
        return rq.Result(call, "", [rq.Text(content)])
    inside = [] if content is None else read_content(content, "content", "result")
    parts: list[rq.ResultPart] = [part for part in inside if isinstance(part, rq.ResultPart)]
    result = rq.Result(call, "", parts, strict.get_flag(block, "is_error") or False)
    listed = isinstance(content, list) and bool(parts)
    marks = {"listed": listed, "said": failed is False, "also": empty_fields(block, {"content", "is_error"})}
    return _add_extra(result, block, _RESULT_FIELDS, **{key: value for key, value in marks.items() if value})


def _read_provider_result(block: Object) -> rq.AnyPart:
    content: list[rq.ResultPart] = [rq.Json(as_json(block.get("content")))]
    own = unknown_fields(block, {"content", "cache_control"})
    call, failed = strict.get_text(block, "tool_use_id"), strict.get_flag(block, "is_error") or False
    if call.startswith(PROVIDER_CALL_PREFIX):
        return rq.Result(call[len(PROVIDER_CALL_PREFIX) :], "", content, failed, by="provider")
    part = rq.Result(call, "", content, failed, by="provider", extra={NAME: own})
    part.cache = _read_kept_hint(block, own)
    return part


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _read_image(block: Object) -> rq.AnyPart:
    return _read_file(block, "image/*")


def _read_document(block: Object) -> rq.AnyPart:
    return _read_file(block, "application/pdf")


def _read_file(block: Object, media: str) -> rq.AnyPart:
    """Reads a file by base64, plain text, URL, or the id of an upload. Other sources are kept unchanged."""
    source = strict.read_object(block, "source", dict)
    read = _SOURCE_READERS.get(source.get("type", "")) if isinstance(source.get("type"), str) else None
    if read is None:
        return _keep_block(block)
    file = strict.read_object(block, "source", lambda given: read(given, media))
    file.name = strict.get_text(block, "title")
    odd = file.id or (source["type"] == "base64" and file.media not in _COMMON_MEDIA)
    marks: Object = {"own": source["type"]} if odd else {}
    if media == "image/*" and not file.media.startswith("image/"):
        marks["kind"] = "image"
    if unknown := unknown_fields(source, {"type", "media_type", "data", "url", "file_id"}):
        marks["source"] = unknown
    if "title" in block and not file.name:
        marks["also"] = {"title": block["title"]}
    return _add_extra(file, block, _FILE_FIELDS, **marks)


def _read_base64(source: Object, media: str) -> rq.File:
    return rq.File(strict.get_text(source, "media_type") or media, data=strict.require_text(source, "data"))


def _read_plain_text(source: Object, _: str) -> rq.File:
    data = binascii.b2a_base64(strict.require_text(source, "data").encode("utf-8", "surrogatepass"), newline=False)
    return rq.File(strict.get_text(source, "media_type") or "text/plain", data=data.decode())


def _read_url(source: Object, media: str) -> rq.File:
    return rq.File(media, strict.require_text(source, "url"))


def _read_file_id(source: Object, media: str) -> rq.File:
    return rq.File(media, id=strict.require_text(source, "file_id"))


_SOURCE_READERS: dict[str, Callable[[Object, str], rq.File]] = {
    "base64": _read_base64,
    "text": _read_plain_text,
    "url": _read_url,
    "file": _read_file_id,
}


def _keep_block(block: Object) -> rq.Opaque:
    """Keeps a block of an unknown type unchanged for this protocol."""
    return rq.Opaque(NAME, strict.get_text(block, "type"), block, cache=read_cache_control(block)[0])


# ── readers by role ───────────────────────────────────────────────────────────────────────────────

_CONTENT: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
}
_ASSISTANT_CONTENT = _CONTENT | {
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted_thinking,
    "tool_use": _read_call,
    "server_tool_use": _read_provider_call,
    "mcp_tool_use": _read_provider_call,
}


def _build_reader(
    table: Mapping[str, Callable[[Object], rq.AnyPart]], *, assistant: bool = False
) -> Callable[[Object], rq.AnyPart]:
    def read(block: Object) -> rq.AnyPart:
        kind = block.get("type")
        if not isinstance(kind, str):
            raise BadRequest("a string", kind, "type")
        if kind in table:
            return table[kind](block)
        return _read_provider_result(block) if assistant and kind.endswith("_tool_result") else _keep_block(block)

    return read


_READERS = {
    "system": _build_reader({"text": _read_text}),
    "user": _build_reader(_CONTENT | {"tool_result": _read_result}),
    "assistant": _build_reader(_ASSISTANT_CONTENT, assistant=True),
    "result": _build_reader(_CONTENT),
}
