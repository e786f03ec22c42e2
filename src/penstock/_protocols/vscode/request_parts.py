"""What messages and tool results hold besides text: data parts and prompt-tsx trees. Both ways.

Data is an image or any other file, a citation of ours, or plain text and JSON, which models are given as such.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._jsontext import as_json, is_json
from penstock._media import decode_byte_list, encode_byte_list, parse_data_url, sniff_media_type
from penstock._protocols.vscode.encode_parts import CITATION
from penstock._protocols.vscode.request_settings import NAME
from penstock._request_writer import drop_empty, split_extra
from penstock._strict_fields import build_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

KINDS = frozenset({"text", "thinking", "call", "result", "data"})
CACHE = "cache_control"
JSON = "application/json"
_DATA = frozenset({"kind", "mimeType", "data", "url", "id", "name", "$mid"})


def kind_of(part: Object) -> str:
    """What a part is, by its `kind` or its shape; a `tree` is a value of no shape we know, `unknown` nothing at all."""
    kind = part.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    if "callId" in part:
        return "result" if "content" in part else "call"
    if "mimeType" in part:
        return "data"
    if "value" not in part:
        return "unknown"
    value = part["value"]
    if isinstance(value, list) or part.keys() & {"id", "metadata"}:
        return "thinking"
    return "text" if isinstance(value, str) else "tree"


def ours(mime: str) -> bool:
    """An application's data, as our own encoder writes it."""
    return mime.startswith("application/vnd.vercel.")


def read_bytes(part: Object) -> tuple[str, str]:
    """The base64 of a data part, and how its bytes were written if they were not."""
    value = part.get("data")
    if isinstance(value, str):
        return value, ""
    try:
        return encode_byte_list(value)
    except ValueError:
        raise BadRequest("base64 or bytes", value, "data") from None


def text_in(data: str) -> str | None:
    """The text that base64 holds, if it holds text."""
    try:
        return binascii.a2b_base64(data, strict_mode=True).decode()
    except ValueError:
        return None


def base64_of(text: str) -> str:
    """The base64 of a text."""
    return binascii.b2a_base64(text.encode("utf-8", "replace"), newline=False).decode()


def read_data(part: Object, *, inside: bool = False) -> Any:
    """A data part that is content. `inside` a tool result, JSON stays JSON."""
    mime = strict.require_text(part, "mimeType")
    if "url" in part or "id" in part:
        data, form = "", ""
    else:
        data, form = read_bytes(part)
    text = text_in(data) if _legible(mime) else None
    rest, mid = strict.unknown_fields(part, _DATA), part.get("$mid")
    if text is None or "name" in part or base64_of(text) != data:  # a name makes a document of it
        made: Any = rq.File(
            mime, strict.get_text(part, "url"), data, name=strict.get_text(part, "name"), id=strict.get_text(part, "id")
        )
        made.extra = build_extra(NAME, rest, form=form, mid=mid)
    elif mime == CITATION and is_json(text):
        made = _source(text, form, rest, mid)
    elif inside and is_json(text) and not mime.startswith("text/"):
        made = rq.Json(text, extra=build_extra(NAME, rest, form=form, mid=mid, mime="" if mime == JSON else mime))
    else:
        made = rq.Text(text, extra=build_extra(NAME, rest, form=form, mid=mid, mime=mime))
    return made


def _legible(mime: str) -> bool:
    """Whether a model can be given it as text."""
    bare = mime.partition(";")[0]
    return bare.startswith("text/") or bare == JSON or bare.endswith("+json")


def write_data(part: Any, marks: Object) -> Object:
    """A file, a value or a text as a data part."""
    if type(part) is rq.File:
        mime, data = part.media, part.data
        place = {**drop_empty(url=part.url, id=part.id), **({"name": part.name} if part.name or _legible(mime) else {})}
    else:
        text = part.json if type(part) is rq.Json else part.text
        mime, data, place = marks.get("mime") or JSON, base64_of(text), {}
    there = {} if place.keys() & {"url", "id"} and not data else {"data": decode_byte_list(data, marks.get("form", ""))}
    return {"kind": "data", "mimeType": mime, **there, **place}


# ── citations ─────────────────────────────────────────────────────────────────────────────────────


def _source(text: str, form: str, rest: Object, mid: Any) -> rq.Source:
    given = lenient.as_object(msgspec.json.decode(text))
    span = lenient.get_list(given, "span")
    whole = [type(place) for place in span] == [int, int]
    made = rq.Source(
        lenient.get_text(given, "url"),
        lenient.get_text(given, "title"),
        span=(span[0], span[1]) if whole else None,
        quote=lenient.get_text(given, "quote"),
        id=lenient.get_text(given, "sourceId"),
        media=lenient.get_text(given, "mediaType"),
        filename=lenient.get_text(given, "filename"),
    )
    made.extra = build_extra(NAME, rest, form=form, mid=mid, raw="" if citation(made) == text else text)
    return made


def citation(source: rq.Source) -> str:
    """A source as the JSON that our encoder writes."""
    given = drop_empty(
        type="citation",
        url=source.url,
        title=source.title,
        sourceId=source.id,
        quote=source.quote,
        span=source.span,
        mediaType=source.media,
        filename=source.filename,
    )
    return as_json(given)


def write_source(source: rq.Source) -> Object:
    """A source as a data part."""
    own, marks = split_extra(source.extra, NAME)
    data = decode_byte_list(base64_of(marks.get("raw") or citation(source)), marks.get("form", ""))
    mid = {"$mid": marks["mid"]} if "mid" in marks else {}
    return {**own, **mid, "kind": "data", "mimeType": CITATION, "data": data}


# ── values of no shape ────────────────────────────────────────────────────────────────────────────


def read_tree(part: Object, value: Any, *, inside: bool = False) -> list[Any]:
    """A prompt-tsx tree as what it says; any other value as JSON, which a message can only hold as text."""
    if is_tree(value):
        made: list[Any] = [*parts_of(value)]
    else:
        text = as_json(value)
        made = [rq.Json(text) if inside else rq.Text(text)]
    made[0].extra = {NAME: {"_": {"raw": [part], "run": len(made)}}}
    return made


PIECE, TEXT = 1, 2
PICTURE = 3  # the kind of piece that is an image
DEPTH = 200  # deeper trees are cut: nobody's tool answers with one


def is_tree(value: Any) -> bool:
    """Whether a value is such a tree."""
    return lenient.get_object(lenient.as_object(value), "node").get("type") in (PIECE, TEXT)


def parts_of(value: Any) -> list[rq.Text | rq.File]:
    """What a tree says."""
    made: list[rq.Text | rq.File] = []
    _walk(lenient.get_object(lenient.as_object(value), "node"), made, 0)
    return made or [rq.Text("")]


def _walk(node: Object, made: list[rq.Text | rq.File], depth: int) -> None:
    if node.get("type") == TEXT:
        _say(node, made)
    elif node.get("ctor") == PICTURE:
        source = lenient.get_text(lenient.get_object(node, "props"), "src")
        _, url, data = parse_data_url(source, "") if ":" in source[:64] else ("", "", source)
        if source:
            made.append(rq.File(sniff_media_type(data) or "image/*", url, data))
    elif depth < DEPTH:
        for child in lenient.get_objects(node, "children"):
            _walk(child, made, depth + 1)


def _say(node: Object, made: list[rq.Text | rq.File]) -> None:
    text, last = lenient.get_text(node, "text"), made[-1] if made else None
    if type(last) is rq.Text:
        last.text += "\n" + text if node.get("lineBreakBefore") else text
    else:
        made.append(rq.Text(text))
