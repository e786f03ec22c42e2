"""Content blocks of a Converse request → canonical parts. `write_blocks.py` is the way back.

A cache point is a block of its own here and a property of the part before it in canonical form. Bytes are base64, as
in JSON; the forms in which SDKs hand them over are taken as well.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.markers import json_of
from penstock.pick import text as pick_text
from penstock.protocols.bedrock.decode_blocks import NAME
from penstock.protocols.bedrock.wire import kind_of, media_of
from penstock.reading import keep, rest
from penstock.writing import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

_CLIENT = frozenset({"", "tool_use"})  # the types of a call that is not Bedrock's own


def read_blocks(blocks: list[Any], key: str, role: str) -> list[rq.AnyPart]:
    """A list of blocks; cache points go to the part before them."""
    rows = reading.each(blocks, _assistant if role == "assistant" else _user, key)
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
    if rest(point, {"type"}) and not isinstance(part, rq.Opaque):
        own, marks = split(part.extra, NAME)
        part.extra = {NAME: {**own, "_": {**marks, "point": point}}}


def cache_of(point: Any) -> str:
    """How long the prompt up to here is worth keeping."""
    return reading.text(reading.as_object(point, "cachePoint"), "ttl") or "5m"


def _block(block: Object, role: str) -> list[rq.AnyPart]:
    kind = next((key for key in block if key in _KINDS and block[key] is not None), "")
    if kind == "cachePoint":
        return [rq.Opaque(NAME, kind, block, cache=cache_of(block[kind]))]
    if kind == "text":
        return [rq.Text(reading.needed(block, kind), extra=keep(NAME, rest(block, {"text"})))]
    if not kind:
        return [rq.Opaque(NAME, next(iter(block), ""), block)]
    return reading.inside(block, kind, lambda said: _KINDS[kind](said, block, role))


def _user(block: Object) -> list[rq.AnyPart]:
    return _block(block, "user")


def _assistant(block: Object) -> list[rq.AnyPart]:
    return _block(block, "assistant")


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def _call(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    given = said.get("input")
    bare = given is None
    json = "{}" if bare else json_of(cast("Object", given)) if isinstance(given, dict) else as_json(given)
    by: Any = "client" if reading.text(said, "type") in _CLIENT else "provider"
    extra = keep(NAME, rest(said, {"toolUseId", "name", "input"}), bare=bare)
    return [rq.Call(reading.needed(said, "toolUseId"), reading.needed(said, "name"), json, by, extra=extra)]


def _result(said: Object, _block: Object, role: str) -> list[rq.AnyPart]:
    call, status = reading.needed(said, "toolUseId"), reading.text(said, "status")
    if role == "assistant":
        own = {"type": "", "status": status, **rest(said, {"toolUseId", "content", "status"})}
        content: list[rq.ResultPart] = [rq.Json(as_json(said.get("content") or []))]
        return [rq.Result(call, "", content, status == "error", by="provider", extra={NAME: own})]
    content = [cast("rq.ResultPart", part) for row in reading.rows(said, "content", _content) for part in row]
    marks = {"status": status if status not in ("", "error") else "", "bare": said.get("content") is None}
    extra = keep(NAME, rest(said, {"toolUseId", "content", "status"}), **marks)
    return [rq.Result(call, "", content, status == "error", extra=extra)]


def _content(block: Object) -> list[rq.AnyPart | rq.Json]:
    if block.get("json") is not None:
        return [rq.Json(as_json(block["json"]), extra=keep(NAME, rest(block, {"json"})))]
    return [*_block(block, "tool")]


# ── text, reasoning, citations ────────────────────────────────────────────────────────────────────


def _reasoning(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    if said.get("redactedContent") is not None:
        hidden = {"redactedContent": bytes_of(said["redactedContent"], "redactedContent")}
        return [rq.Reasoning(form="redacted", extra={NAME: {**said, **hidden}})]
    inner = reading.table(said, "reasoningText")
    extra = keep(NAME, rest(inner, {"text"}), said=not inner.get("signature"))
    return [rq.Reasoning(reading.text(inner, "text"), extra=extra)]


def _guarded(said: Object, block: Object, _role: str) -> list[rq.AnyPart]:
    """What a guardrail shall look at. The words are words all the same."""
    inner = said.get("text")
    if not isinstance(inner, dict):
        return [rq.Opaque(NAME, "guardContent", block)]
    inner = cast("Object", inner)
    return [rq.Text(reading.needed(inner, "text"), extra={NAME: {"guardContent": rest(inner, {"text"})}})]


def _cited(said: Object, _block: Object, _role: str) -> list[rq.AnyPart]:
    """A text and what it cites, as the decoder tells it."""
    pieces = reading.rows(said, "content", lambda piece: reading.text(piece, "text"))
    marks = {"cited": True, "pieces": [len(piece) for piece in pieces] if len(pieces) != 1 else []}
    text = rq.Text("".join(pieces), extra=keep(NAME, rest(said, {"content", "citations"}), **marks))
    return [text, *reading.rows(said, "citations", _source)]


def _source(citation: Object) -> rq.Source:
    place, origin = reading.table(citation, "location"), reading.text(citation, "source")
    web = reading.table(place, "web")
    url = pick_text(web, "url") or (origin if "://" in origin else "")
    quote = "".join(reading.rows(citation, "sourceContent", lambda piece: reading.text(piece, "text")))
    title = reading.text(citation, "title") or pick_text(web, "domain")
    return rq.Source(url, title, 0, None, quote, extra={NAME: citation})


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _media(kind: str) -> Callable[[Object, Object, str], list[rq.AnyPart]]:
    def read(said: Object, block: Object, _role: str) -> list[rq.AnyPart]:
        form = reading.text(said, "format")
        source = reading.table(said, "source")
        link = source.get("s3Location")
        if source.get("bytes") is None and not isinstance(link, dict):
            return [rq.Opaque(NAME, kind, block)]
        media = media_of(kind, form)
        more = rest(said, {"format", "source", "name"})
        usual = kind_of(media) == (kind, form)
        marks: Object = {"form": None if usual else [kind, form], "source": rest(source, {"bytes", "s3Location"})}
        if isinstance(link, dict):
            link = cast("Object", link)
            marks["link"] = rest(link, {"uri"})
            file = rq.File(media, reading.needed(link, "uri"))
        else:
            file = rq.File(media, data=bytes_of(source["bytes"], "source.bytes"))
        file.name, file.extra = reading.text(said, "name"), keep(NAME, more, **marks)
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
