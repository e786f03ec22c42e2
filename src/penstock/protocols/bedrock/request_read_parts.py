"""Content blocks of a Converse request → canonical parts. `write_blocks.py` is the way back.

A cache point is a block of its own here and a property of the part before it in canonical form. Bytes are base64, as
in JSON; the forms in which SDKs hand them over are taken as well.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, cast

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.lenient_fields import get_text as pick_text
from penstock.markers import json_of
from penstock.protocols.bedrock.decode_blocks import NAME
from penstock.protocols.bedrock.wire import kind_of, media_of
from penstock.request_writer import split_extra
from penstock.strict_fields import build_extra, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.lenient_fields import Object

_CLIENT = frozenset({"", "tool_use"})  # the types of a call that is not Bedrock's own


def read_blocks(blocks: list[Any], key: str, role: str) -> list[rq.AnyPart]:
    """A list of blocks; cache points go to the part before them."""
    rows = strict.read_each(blocks, _assistant if role == "assistant" else _user, key)
    made: list[rq.AnyPart] = []
    for row in rows:
        if row[0].cache and type(row[0]) is rq.Opaque and made and not made[-1].cache:
            made[-1].cache = row[0].cache
            _spell(made[-1], row[0].data["cachePoint"])
            continue
        row[0].cache = ""
        for part in row[1:]:
            if type(part) is rq.Source:
                part.of = len(made)
        made += row
    return made


def _spell(part: rq.AnyPart, point: Object) -> None:
    """Keep what else a cache point says."""
    if unknown_fields(point, {"type"}) and not isinstance(part, rq.Opaque):
        own, marks = split_extra(part.extra, NAME)
        part.extra = {NAME: {**own, "_": {**marks, "point": point}}}


def cache_of(point: Any) -> str:
    """How long the prompt up to here is worth keeping."""
    return strict.get_text(strict.as_object(point, "cachePoint"), "ttl") or "5m"


def _block(block: Object, role: str) -> list[rq.AnyPart]:
    kind = next((key for key in block if key in _KINDS and block[key] is not None), "")
    if kind == "cachePoint":
        return [rq.Opaque(NAME, kind, block, cache=cache_of(block[kind]))]
    if kind == "text":
        return [rq.Text(strict.require_text(block, kind), extra=build_extra(NAME, unknown_fields(block, {"text"})))]
    if not kind:
        return [rq.Opaque(NAME, next(iter(block), ""), block)]
    return strict.read_object(block, kind, lambda said: _KINDS[kind](said, block, role))


def _user(block: Object) -> list[rq.AnyPart]:
    return _block(block, "user")


def _assistant(block: Object) -> list[rq.AnyPart]:
    return _block(block, "assistant")


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def _call(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    given = said.get("input")
    bare = given is None
    json = "{}" if bare else json_of(cast("Object", given)) if isinstance(given, dict) else as_json(given)
    by: Any = "client" if strict.get_text(said, "type") in _CLIENT else "provider"
    extra = build_extra(NAME, unknown_fields(said, {"toolUseId", "name", "input"}), bare=bare)
    return [
        rq.Call(
            strict.require_text(said, "toolUseId"),
            strict.require_text(said, "name"),
            json,
            by,
            extra=extra,
        )
    ]


def _result(said: Object, _block: Object, role: str) -> list[rq.AnyPart]:
    call, status = strict.require_text(said, "toolUseId"), strict.get_text(said, "status")
    if role == "assistant":
        own = {"type": "", "status": status, **unknown_fields(said, {"toolUseId", "content", "status"})}
        content: list[rq.ResultPart] = [rq.Json(as_json(said.get("content") or []))]
        return [rq.Result(call, "", content, status == "error", by="provider", extra={NAME: own})]
    content = [cast("rq.ResultPart", part) for row in strict.read_objects(said, "content", _content) for part in row]
    marks = {"status": status if status not in ("", "error") else "", "bare": said.get("content") is None}
    extra = build_extra(NAME, unknown_fields(said, {"toolUseId", "content", "status"}), **marks)
    return [rq.Result(call, "", content, status == "error", extra=extra)]


def _content(block: Object) -> list[rq.AnyPart | rq.Json]:
    if block.get("json") is not None:
        return [rq.Json(as_json(block["json"]), extra=build_extra(NAME, unknown_fields(block, {"json"})))]
    return [*_block(block, "tool")]


# ── text, reasoning, citations ────────────────────────────────────────────────────────────────────


def _reasoning(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    if said.get("redactedContent") is not None:
        hidden = {"redactedContent": bytes_of(said["redactedContent"], "redactedContent")}
        return [rq.Reasoning(form="redacted", extra={NAME: {**said, **hidden}})]
    inner = strict.get_object(said, "reasoningText")
    extra = build_extra(NAME, unknown_fields(inner, {"text"}), said=not inner.get("signature"))
    return [rq.Reasoning(strict.get_text(inner, "text"), extra=extra)]


def _guarded(said: Object, block: Object, _role: str) -> list[rq.AnyPart]:
    """What a guardrail shall look at. The words are words all the same."""
    inner = said.get("text")
    if not isinstance(inner, dict):
        return [rq.Opaque(NAME, "guardContent", block)]
    inner = cast("Object", inner)
    return [
        rq.Text(strict.require_text(inner, "text"), extra={NAME: {"guardContent": unknown_fields(inner, {"text"})}})
    ]


def _cited(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    """A text and what it cites, as the decoder tells it."""
    pieces = strict.read_objects(said, "content", lambda piece: strict.get_text(piece, "text"))
    marks = {"cited": True, "pieces": [len(piece) for piece in pieces] if len(pieces) != 1 else []}
    text = rq.Text("".join(pieces), extra=build_extra(NAME, unknown_fields(said, {"content", "citations"}), **marks))
    return [text, *strict.read_objects(said, "citations", _source)]


def _source(citation: Object) -> rq.Source:
    place, origin = strict.get_object(citation, "location"), strict.get_text(citation, "source")
    web = strict.get_object(place, "web")
    url = pick_text(web, "url") or (origin if "://" in origin else "")
    quote = "".join(strict.read_objects(citation, "sourceContent", lambda piece: strict.get_text(piece, "text")))
    title = strict.get_text(citation, "title") or pick_text(web, "domain")
    return rq.Source(url, title, 0, None, quote, extra={NAME: citation})


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _media(kind: str) -> Callable[[Object, Object, str], list[rq.AnyPart]]:
    def read(said: Object, block: Object, _role: str) -> list[rq.AnyPart]:
        form = strict.get_text(said, "format")
        source = strict.get_object(said, "source")
        link = source.get("s3Location")
        if source.get("bytes") is None and not isinstance(link, dict):
            return [rq.Opaque(NAME, kind, block)]
        media = media_of(kind, form)
        more = unknown_fields(said, {"format", "source", "name"})
        usual = kind_of(media) == (kind, form)
        marks: Object = {
            "form": None if usual else [kind, form],
            "source": unknown_fields(source, {"bytes", "s3Location"}),
        }
        if isinstance(link, dict):
            link = cast("Object", link)
            marks["link"] = unknown_fields(link, {"uri"})
            file = rq.File(media, strict.require_text(link, "uri"))
        else:
            file = rq.File(media, data=bytes_of(source["bytes"], "source.bytes"))
        file.name, file.extra = strict.get_text(said, "name"), build_extra(NAME, more, **marks)
        return [file]

    return read


def bytes_of(value: Any, key: str) -> str:
    """Base64 of bytes, however they were handed over: base64, bytes, or as Node prints a buffer."""
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


_KINDS: dict[str, Callable[[Object, Object, str], list[rq.AnyPart]]] = {
    "text": _call, "cachePoint": _call,  # read before it comes to that
    "toolUse": _call, "toolResult": _result, "reasoningContent": _reasoning, "guardContent": _guarded,
    "citationsContent": _cited, "image": _media("image"), "document": _media("document"), "video": _media("video"),
    "audio": _media("audio"),
}  # fmt: skip
