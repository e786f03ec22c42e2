"""Responses content parts → canonical: what stands in messages and in the outputs of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.media import of_url, sniff
from penstock.protocols.responses.speech import NAME
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra
    from penstock.pick import Object

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
    return reading.each(content, read_part, key)  # pyright: ignore[reportUnknownArgumentType]


def read_part(part: Object) -> rq.AnyPart:
    """One content part; of a type without a word it is kept whole."""
    kind = part.get("type")
    if kind == "input_text" and len(part) == 2:  # noqa: PLR2004 — the type and the words
        return rq.Text(reading.needed(part, "text"))
    return _PARTS.get(kind, _other)(part) if isinstance(kind, str) else _other(part)


def hinted(part: Object) -> str:
    """How long the prompt up to here should be kept, if a hint says that it should."""
    if part.get(HINT) is None:
        return ""
    said = reading.text(reading.table(part, HINT), "ttl")
    return _TIMES.get(said, said or "5m")


def _about(part: Object, known: frozenset[str], **marks: Any) -> Extra | None:
    return keep(NAME, rest(part, known), also=unsaid(part, known), **marks)


def _text(part: Object) -> rq.Text:
    known = frozenset({"type", "text"})
    kind = part["type"] if part["type"] != "input_text" else ""
    return rq.Text(reading.needed(part, "text"), cache=hinted(part), extra=_about(part, known, kind=kind))


def _refusal(part: Object) -> rq.Text:
    extra = _about(part, frozenset({"type", "refusal"}))
    return rq.Text(reading.needed(part, "refusal"), refusal=True, extra=extra)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _image(part: Object) -> rq.File:
    given, wrapped = part.get("image_url"), isinstance(part.get("image_url"), dict)
    if wrapped:  # as Chat says it
        given = reading.inside(part, "image_url", lambda inner: reading.needed(inner, "url"))
    elif given is None:
        given = ""
    elif not isinstance(given, str):
        raise BadRequest("a string", given, "image_url")
    made, odd = addressed(given, "image/*")
    made.id, made.cache = reading.text(part, "file_id"), hinted(part)
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
    name, data, url = (reading.text(part, key) for key in ("filename", "file_data", "file_url"))
    media = media_of(name or url)
    bare = bool(data) and not data.startswith("data:")
    if bare:
        made, odd = rq.File(sniff(data) or media, data=data), ""
    else:
        made, odd = addressed(data, media)
    made.url, made.id, made.cache = url, reading.text(part, "file_id"), hinted(part)
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
    made = reading.inside(part, "input_audio", _sound)
    more = (made.extra or {}).get(NAME, {})
    made.extra = _about(part, frozenset({"type", "input_audio"}), kind="input_audio", audio=more)
    return made


def _sound(audio: Object) -> rq.File:
    form = reading.text(audio, "format") or "wav"
    extra = keep(NAME, rest(audio, {"data"}))
    return rq.File(SOUNDS.get(form, f"audio/{form}"), data=reading.needed(audio, "data"), extra=extra)


def _other(part: Object) -> rq.Opaque:
    return rq.Opaque(NAME, CONTENT + reading.text(part, "type"), part)


_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "input_text": _text, "output_text": _text, "text": _text, "refusal": _refusal, "input_image": _image,
    "input_file": _file, "input_audio": _audio,
}  # fmt: skip
