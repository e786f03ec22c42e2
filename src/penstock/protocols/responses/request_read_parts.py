"""Responses content parts → canonical: what stands in messages and in the outputs of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import lenient_fields as lenient
from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.media import of_url, sniff
from penstock.protocols.responses.wire import ANSWERS, EARLY, FAILED, LATE, NAME, Tool, answered, as_text, given, runner
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import By, Extra, ReasoningForm
    from penstock.lenient_fields import Object

HINT = "prompt_cache_breakpoint"
CONTENT = "content:"  # begins the kind of opaque parts that are content and not items of their own
SOUNDS = {"mp3": "audio/mpeg", "wav": "audio/wav"}
DOCUMENTS = {
    "pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
    "json": "application/json", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "mp3": "audio/mpeg", "wav": "audio/wav", "mp4": "video/mp4",
}  # fmt: skip
_TIMES = {"30m": "5m", "12h": "1h"}  # how long a prompt is kept, here and elsewhere
_IMAGE = frozenset({"type", "image_url", "file_id", "detail"})
_FILE = frozenset({"type", "file_data", "file_url", "file_id", "filename"})


def read_content(content: Any, key: str) -> list[rq.AnyPart]:
    """Content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, key)
    return strict.read_each(content, read_part, key)  # pyright: ignore[reportUnknownArgumentType]


def read_part(part: Object) -> rq.AnyPart:
    """One content part; of a type without a word it is kept whole."""
    kind = part.get("type")
    if kind == "input_text" and len(part) == 2:  # noqa: PLR2004 — the type and the words
        return rq.Text(strict.require_text(part, "text"))
    return _PARTS.get(kind, _other)(part) if isinstance(kind, str) else _other(part)


def hinted(part: Object) -> str:
    """How long the prompt up to here should be kept, if a hint says that it should."""
    if part.get(HINT) is None:
        return ""
    said = strict.get_text(strict.get_object(part, HINT), "ttl")
    return _TIMES.get(said, said or "5m")


def _about(part: Object, known: frozenset[str], **marks: Any) -> Extra | None:
    return build_extra(NAME, unknown_fields(part, known), also=empty_fields(part, known), **marks)


def _text(part: Object) -> rq.Text:
    known = frozenset({"type", "text"})
    kind = part["type"] if part["type"] != "input_text" else ""
    return rq.Text(strict.require_text(part, "text"), cache=hinted(part), extra=_about(part, known, kind=kind))


def _refusal(part: Object) -> rq.Text:
    extra = _about(part, frozenset({"type", "refusal"}))
    return rq.Text(strict.require_text(part, "refusal"), refusal=True, extra=extra)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _image(part: Object) -> rq.File:
    given, wrapped = part.get("image_url"), isinstance(part.get("image_url"), dict)
    if wrapped:  # as Chat says it
        given = strict.read_object(part, "image_url", lambda inner: strict.require_text(inner, "url"))
    elif given is None:
        given = ""
    elif not isinstance(given, str):
        raise BadRequest("a string", given, "image_url")
    made, odd = addressed(given, "image/*")
    made.id, made.cache = strict.get_text(part, "file_id"), hinted(part)
    if not given and not made.id:
        raise BadRequest("a string", None, "image_url")
    kept: Any = {"image_url": part["image_url"]} if wrapped else None
    inner: Object = part["image_url"] if wrapped else {}
    detail = part.get("detail", inner.get("detail"))
    made.detail = detail if isinstance(detail, str) else ""
    known = _IMAGE if isinstance(part.get("detail"), str) else _IMAGE - {"detail"}
    made.extra = _about(part, known, url=odd, as_it_was=kept)
    return made


def addressed(given: str, media: str) -> tuple[rq.File, str]:
    """A file by its address, and that address if it cannot be made again from what it holds."""
    kind, url, data = of_url(given, media)
    odd = given.startswith("data:") and not (data and given.startswith(f"data:{kind};base64,"))
    return rq.File(kind, url, data), given if odd else ""


def _file(part: Object) -> rq.File:
    name, data, url = (strict.get_text(part, key) for key in ("filename", "file_data", "file_url"))
    media = media_of(name or url)
    bare = bool(data) and not data.startswith("data:")
    if bare:
        made, odd = rq.File(sniff(data) or media, data=data), ""
    else:
        made, odd = addressed(data, media)
    made.url, made.id, made.cache = url, strict.get_text(part, "file_id"), hinted(part)
    if not (data or url or made.id):
        raise BadRequest("a string", None, "file_data")
    unnamed = bool(data) and name == nameless(made.media)
    made.name = "" if unnamed else name
    made.extra = _about(part, _FILE, kind="input_file", url=odd, bare=bare, unnamed=unnamed)
    return made


def media_of(name: str) -> str:
    """The type of a document that a name or an address shows."""
    return DOCUMENTS.get(name.rpartition(".")[2].lower(), "application/pdf")


def nameless(media: str) -> str:
    """The name of a file that has none, because one is asked for."""
    return f"file.{media.rpartition('/')[2]}"


def _audio(part: Object) -> rq.File:
    made = strict.read_object(part, "input_audio", _sound)
    more = (made.extra or {}).get(NAME, {})
    made.extra = _about(part, frozenset({"type", "input_audio"}), kind="input_audio", audio=more)
    return made


def _sound(audio: Object) -> rq.File:
    form = strict.get_text(audio, "format") or "wav"
    extra = build_extra(NAME, unknown_fields(audio, {"data"}))
    return rq.File(SOUNDS.get(form, f"audio/{form}"), data=strict.require_text(audio, "data"), extra=extra)


def _other(part: Object) -> rq.Opaque:
    return rq.Opaque(NAME, CONTENT + strict.get_text(part, "type"), part)


_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "input_text": _text, "output_text": _text, "text": _text, "refusal": _refusal, "input_image": _image,
    "input_file": _file, "input_audio": _audio,
}  # fmt: skip


MADE = "msg_ps"  # begins the ids that were made up for messages without one
NEXT = "_psn"  # stands in a made-up id, behind its kind, where another message of the assistant begins
MESSAGE = frozenset({"type", "role", "content", "id", "status"})
_SAID = MESSAGE - {"content"}
_UNCITED: Extra = {NAME: {"_": {"also": {"annotations": []}}}}
_REASONING = frozenset({"type", "id", "summary", "content", "status"})
_TEXT = frozenset({"type", "text", "annotations"})
_WORDS = frozenset({"type", "text"})
_FORMS: tuple[tuple[str, ReasoningForm, str], ...] = (
    ("summary", "summary", "summary_text"), ("content", "full", "reasoning_text"),
)  # fmt: skip


def read_said(item: Object) -> list[rq.AnyPart]:
    """The parts of a message of the assistant's."""
    content, id = item.get("content"), strict.get_text(item, "id")  # noqa: A001 — as the part calls it
    marks: Object = {"head": _head(item, id)}
    if isinstance(content, str):
        parts: list[rq.AnyPart] = [rq.Text(content)]
        if not content:
            marks["blank"] = True
    else:
        parts = _listed(item)
    if not parts or type(parts[0]) is rq.Opaque:
        parts.insert(0, rq.Text())
        marks["blank"] = True
    for part in parts:
        if type(part) is rq.Text or type(part) is rq.File:
            part.item = "" if "id" in marks.get("head", ()) else id
            _mark(part, marks if type(part) is rq.Text else {**marks, "said": True})
            marks = {"more": True}
    return parts


def _head(item: Object, id: str) -> Object:
    """What an item says of itself, and how."""
    head: Object = {"shape": "string" if isinstance(item.get("content"), str) else "list"}
    if "type" not in item:
        head["bare"] = True
    if id.startswith(MADE):
        head["id"] = id
    if item.get("status"):
        head["status"] = item["status"]
    if not item.keys() <= MESSAGE:
        head["fields"] = unknown_fields(item, MESSAGE)
    if also := empty_fields(item, _SAID):
        head["also"] = also
    return head


def _listed(item: Object) -> list[rq.AnyPart]:
    parts: list[rq.AnyPart] = []
    for row in strict.read_objects(item, "content", _part):
        for part in row:
            if type(part) is rq.Source:
                part.of = max(place for place, one in enumerate(parts) if type(one) is rq.Text)
            parts.append(part)
    return parts


def _mark(part: rq.Text | rq.File, marks: Object) -> None:
    own = (part.extra or {}).get(NAME, {})
    part.extra = {NAME: {**own, "_": {**own.get("_", {}), **marks}}}


def _part(part: Object) -> list[rq.AnyPart]:
    """Content, and the citations in it."""
    kind = part.get("type")
    if kind not in ("output_text", "input_text", "text"):
        return [read_part(part)]
    if kind == "output_text" and len(part) == 3 and part.get("annotations") == []:  # noqa: PLR2004 — as most are
        return [rq.Text(strict.require_text(part, "text"), extra=_UNCITED)]
    extra = build_extra(
        NAME, unknown_fields(part, _TEXT), also=empty_fields(part, _TEXT), kind=kind if kind != "output_text" else ""
    )
    return [
        rq.Text(strict.require_text(part, "text"), extra=extra),
        *strict.read_objects(part, "annotations", _cited),
    ]


def _cited(annotation: Object) -> rq.Source:
    first, last = (
        lenient.get_integer(annotation, "start_index"),
        lenient.get_integer(annotation, "end_index"),
    )
    span = (first, last) if first is not None and last is not None and last > first >= 0 else None
    filename = lenient.get_text(annotation, "filename")
    return rq.Source(
        lenient.get_text(annotation, "url"), lenient.get_text(annotation, "title") or filename, None, span,
        id=lenient.get_text(annotation, "file_id"), filename=filename, extra={NAME: {"annotation": annotation}},
    )  # fmt: skip


def read_thoughts(item: Object) -> list[rq.AnyPart]:
    """The parts of a summary, then those of the full text; the last has what only the provider can read."""
    id = strict.get_text(item, "id")  # noqa: A001 — as the part calls it
    odd: Object = {}
    parts: list[rq.Reasoning] = []
    for key, form, kind in _FORMS:
        rows = strict.read_objects(item, key, strict.as_object)
        parts += [rq.Reasoning(_words(row, key, place), form, item=id) for place, row in enumerate(rows)]
        if any(row.keys() != _WORDS or row["type"] != kind for row in rows):
            odd[key] = rows
    if not parts:
        parts.append(rq.Reasoning("", "redacted", item=id))
    head: Object = {"status": item.get("status"), "also": empty_fields(item, _REASONING), "odd": odd}
    head = {key: value for key, value in head.items() if value}
    if "summary" not in item:
        head["bare"] = True
    for place, part in enumerate(parts):
        marks = {"more": True} if place else {"head": head}
        part.extra = {NAME: {**(unknown_fields(item, _REASONING) if part is parts[-1] else {}), "_": marks}}
    return [*parts]


def _words(row: Object, key: str, place: int) -> str:
    try:
        return strict.get_text(row, "text")
    except BadRequest as error:
        raise error.at(place).at(key) from None


_MCP = Tool("", input=("arguments",), answer=("output",))


def read_call(item: Object) -> rq.Call:
    """A call alone. The client runs it, unless the item says that the provider does."""
    tool = LATE[item["type"]]
    return rq.Call(
        _called(item), strict.get_text(item, "name") or tool.name, given(item, tool), runner(item, tool),
        item=strict.get_text(item, "id"), extra={NAME: {"item": item}},
    )  # fmt: skip


def _called(item: Object) -> str:
    return strict.get_text(item, "call_id") or strict.get_text(item, "id")


def read_run(item: Object) -> list[rq.AnyPart]:
    """A call that the provider ran, with its answer; a picture that it drew is a file as well."""
    kind: str = item["type"]
    tool = EARLY.get(kind, _MCP)
    id = strict.get_text(item, "id")  # noqa: A001 — as the part calls it
    name = strict.get_text(item, "name") or tool.name
    about: dict[str, Any] = {NAME: {"id": id, "type": kind}}
    json = as_text(item.get("arguments")) if tool is _MCP else given(item, tool)
    parts: list[rq.AnyPart] = [rq.Call(id, name, json, "provider", item=id, extra=about)]
    picture = lenient.get_text(item, "result") if kind == "image_generation_call" else ""
    if picture:
        media = f"image/{lenient.get_text(item, 'output_format') or 'png'}"
        parts.append(rq.File(media, data=picture, item=id, extra=about))
    answer: list[rq.ResultPart] = [rq.Json(as_json(item.get("error") or answered(item, tool)))]
    parts.append(rq.Result(id, name, answer, failed(item), by="provider", extra={NAME: {"item": item}}))
    return parts


def failed(item: Object) -> bool:
    """Whether an item says that its tool did not do what it should."""
    return bool(item.get("error")) or item.get("status") in FAILED


def read_answer(item: Object, by: By) -> rq.Result:
    """What a built-in gave, run by whoever ran its call."""
    tool = ANSWERS[item["type"]]
    bad = failed(item)
    own: Object = {"item": item, "_": {"failed": True}} if bad else {"item": item}
    content: list[rq.ResultPart] = read_output(item)
    if by == "provider":
        content = [rq.Json(as_json(answered(item, tool)))]
    return rq.Result(_called(item), tool.name, content, bad, by=by, extra={NAME: own})


def read_output(item: Object) -> list[rq.ResultPart]:
    """What a built-in that the client ran gave: words, a screenshot, or JSON."""
    output = answered(item, ANSWERS[item["type"]])
    if isinstance(output, str):
        return [rq.Text(output)] if output else []
    shot = lenient.as_object(output)
    if shot.get("type") == "computer_screenshot":
        made, odd = addressed(strict.get_text(shot, "image_url"), "image/*")
        made.id = strict.get_text(shot, "file_id")
        made.extra = {NAME: {"_": {"url": odd}}} if odd else None
        return [made]
    return [] if output is None else [rq.Json(as_json(output))]


def read_question(item: Object) -> list[rq.AnyPart]:
    """The provider asks whether it may run a tool of an MCP server."""
    id = strict.require_text(item, "id")  # noqa: A001 — as the part calls it
    about: dict[str, Any] = {NAME: {"id": id, "type": item["type"]}}
    call = rq.Call(id, strict.get_text(item, "name"), as_text(item.get("arguments")), "provider", item=id, extra=about)
    return [call, rq.Ask(id, id, extra={NAME: {"item": item}})]


def read_permission(item: Object) -> rq.Ask:
    """The user's answer to that."""
    asked = strict.require_text(item, "approval_request_id")
    approved = strict.get_flag(item, "approve")
    if approved is None:
        raise BadRequest("true or false", None, "approve")
    return rq.Ask(asked, asked, approved, extra={NAME: {"item": item}})
