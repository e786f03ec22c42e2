"""Anthropic content blocks → canonical parts. Which blocks have a meaning depends on who says them."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.markers import json_of
from penstock.markers.marks import RAN
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.lenient_fields import Object

NAME = "anthropic"
P = TypeVar("P", rq.Text, rq.Call, rq.Result, rq.File)
_HINT = frozenset({"cache_control"})


def read_content(content: Any, key: str, role: str) -> list[rq.AnyPart]:
    """Content: a string, or a list of blocks."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of blocks", content, key)
    return strict.read_each(content, _READERS[role], key)  # pyright: ignore[reportUnknownArgumentType]


def cached(source: Object) -> tuple[str, Object | None]:
    """How long the prompt up to here should be kept; and the hint itself, where it cannot be made from that."""
    hint = source.get("cache_control")
    if hint is None:
        return "", None
    hint = strict.as_object(hint, "cache_control")
    time = strict.get_text(hint, "ttl")
    usual = hint == {"type": "ephemeral"} or (time not in ("", "5m") and hint == {"type": "ephemeral", "ttl": time})
    return time or "5m", None if usual else hint


def _about(made: P, block: Object, known: frozenset[str], **marks: Any) -> P:
    """What else a block says of itself, and how."""
    hint = None
    if block.get("cache_control") is not None:
        made.cache, hint = cached(block)
    strange = unknown_fields(block, known | _HINT)
    also = empty_fields(block, _HINT) | marks.pop("also", {})
    if strange or also or hint or marks:
        made.extra = build_extra(NAME, strange, also=also, hint=hint, **marks)
    return made


_TEXT = frozenset({"type", "text"})


def _text(block: Object) -> rq.AnyPart:
    words = strict.require_text(block, "text")
    if len(block) == 2 and words:  # noqa: PLR2004 — the type and the words
        return rq.Text(words)
    return _about(rq.Text(words), block, _TEXT, **({} if words else {"empty": True}))


def _thinking(block: Object) -> rq.AnyPart:
    own = {
        "signature": strict.get_text(block, "signature"),
        **unknown_fields(block, {"type", "thinking", "signature"}),
    }
    return rq.Reasoning(strict.get_text(block, "thinking"), extra={NAME: own})


def _redacted(block: Object) -> rq.AnyPart:
    own = {"redacted": strict.require_text(block, "data"), **unknown_fields(block, {"type", "data"})}
    return rq.Reasoning(form="redacted", extra={NAME: own})


_CALL = frozenset({"type", "id", "name", "input"})


def _call(block: Object) -> rq.AnyPart:
    given = block.get("input")
    if not isinstance(given, dict):
        raise BadRequest("an object", given, "input")
    made = rq.Call(strict.require_text(block, "id"), strict.require_text(block, "name"), json_of(given))
    return made if len(block) == len(_CALL) else _about(made, block, _CALL)


def _upstream_call(block: Object) -> rq.AnyPart:
    call, json = strict.require_text(block, "id"), as_json(block.get("input", {}))
    if call.startswith(RAN):  # another provider ran it: `encode_runs` wrote the block
        return rq.Call(call[len(RAN) :], strict.get_text(block, "name"), json, "provider")
    own = unknown_fields(block, {"id", "name", "input", "cache_control"})
    made = rq.Call(call, strict.get_text(block, "name"), json, "provider", extra={NAME: own})
    made.cache = _kept_hint(block, own)
    return made


def _kept_hint(block: Object, own: Object) -> str:
    """A cache point whose spelling stays with a block that is kept nearly whole."""
    time, hint = cached(block)
    if hint:
        own["_"] = {"hint": hint}
    return time


_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})


def _result(block: Object) -> rq.AnyPart:
    content = block.get("content")
    call, failed = strict.require_text(block, "tool_use_id"), block.get("is_error")
    if type(content) is str and content and len(block) == 3:  # noqa: PLR2004 — type, id and words
        return rq.Result(call, "", [rq.Text(content)])
    inside = [] if content is None else read_content(content, "content", "result")
    parts: list[rq.ResultPart] = [part for part in inside if isinstance(part, rq.ResultPart)]
    made = rq.Result(call, "", parts, strict.get_flag(block, "is_error") or False)
    listed = isinstance(content, list) and bool(parts)
    marks = {"listed": listed, "said": failed is False, "also": empty_fields(block, frozenset({"content", "is_error"}))}
    return _about(made, block, _RESULT, **{key: value for key, value in marks.items() if value})


def _upstream_result(block: Object) -> rq.AnyPart:
    content: list[rq.ResultPart] = [rq.Json(as_json(block.get("content")))]
    own = unknown_fields(block, {"content", "cache_control"})
    call, failed = strict.get_text(block, "tool_use_id"), strict.get_flag(block, "is_error") or False
    if call.startswith(RAN):
        return rq.Result(call[len(RAN) :], "", content, failed, by="provider")
    made = rq.Result(call, "", content, failed, by="provider", extra={NAME: own})
    made.cache = _kept_hint(block, own)
    return made


# ── files ─────────────────────────────────────────────────────────────────────────────────────────

_FILE = frozenset({"type", "source", "title"})
_USUAL = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})


def _image(block: Object) -> rq.AnyPart:
    return _filed(block, "image/*")


def _document(block: Object) -> rq.AnyPart:
    return _filed(block, "application/pdf")


def _filed(block: Object, media: str) -> rq.AnyPart:
    """By base64, by plain text, by address, or by the id of an uploaded file; anything else is kept whole."""
    source = strict.read_object(block, "source", dict)
    read = _SOURCES.get(source.get("type", "")) if isinstance(source.get("type"), str) else None
    if read is None:
        return _other(block)
    made = strict.read_object(block, "source", lambda one: read(one, media))
    made.name = strict.get_text(block, "title")
    odd = made.id or (source["type"] == "base64" and made.media not in _USUAL)
    marks: Object = {"own": source["type"]} if odd else {}
    if media == "image/*" and not made.media.startswith("image/"):
        marks["kind"] = "image"
    if strange := unknown_fields(source, {"type", "media_type", "data", "url", "file_id"}):
        marks["source"] = strange
    if "title" in block and not made.name:
        marks["also"] = {"title": block["title"]}
    return _about(made, block, _FILE, **marks)


def _by_data(source: Object, media: str) -> rq.File:
    return rq.File(strict.get_text(source, "media_type") or media, data=strict.require_text(source, "data"))


def _by_text(source: Object, _: str) -> rq.File:
    data = binascii.b2a_base64(strict.require_text(source, "data").encode("utf-8", "surrogatepass"), newline=False)
    return rq.File(strict.get_text(source, "media_type") or "text/plain", data=data.decode())


def _by_url(source: Object, media: str) -> rq.File:
    return rq.File(media, strict.require_text(source, "url"))


def _by_id(source: Object, media: str) -> rq.File:
    return rq.File(media, id=strict.require_text(source, "file_id"))


_SOURCES: dict[str, Callable[[Object, str], rq.File]] = {
    "base64": _by_data, "text": _by_text, "url": _by_url, "file": _by_id,
}  # fmt: skip


def _other(block: Object) -> rq.Opaque:
    """A block without a word, kept whole for this protocol."""
    return rq.Opaque(NAME, strict.get_text(block, "type"), block, cache=cached(block)[0])


# ── who may say what ──────────────────────────────────────────────────────────────────────────────

Reader = "Callable[[Object], rq.AnyPart]"
_SAID: dict[str, Callable[[Object], rq.AnyPart]] = {"text": _text, "image": _image, "document": _document}
_USER = _SAID | {"tool_result": _result}
_MODEL = _SAID | {
    "thinking": _thinking, "redacted_thinking": _redacted, "tool_use": _call, "server_tool_use": _upstream_call,
    "mcp_tool_use": _upstream_call,
}  # fmt: skip


def _reader(
    table: Mapping[str, Callable[[Object], rq.AnyPart]], *, model: bool = False
) -> Callable[[Object], rq.AnyPart]:
    def read(block: Object) -> rq.AnyPart:
        kind = block.get("type")
        found = table.get(kind) if isinstance(kind, str) else None
        if found is not None:
            return found(block)
        if not isinstance(kind, str):
            raise BadRequest("a string", kind, "type")
        return _upstream_result(block) if model and kind.endswith("_tool_result") else _other(block)

    return read


_READERS = {
    "system": _reader({"text": _text}), "user": _reader(_USER), "assistant": _reader(_MODEL, model=True),
    "result": _reader(_SAID),
}  # fmt: skip
