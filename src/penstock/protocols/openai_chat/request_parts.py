"""Chat Completions content parts → canonical: texts, images, sounds and documents, in all the dialects' spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.media import of_url, sniff
from penstock.protocols.openai_chat.request_thoughts import NAME, read_thinking
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

SOUNDS = {"mp3": "audio/mpeg", "wav": "audio/wav"}
DOCUMENTS = {
    "pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
    "json": "application/json", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "mp3": "audio/mpeg", "wav": "audio/wav", "mp4": "video/mp4",
}  # fmt: skip
P = TypeVar("P", rq.Text, rq.File)
_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def read_content(content: Any) -> list[rq.AnyPart]:
    """A message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, "content")
    return reading.each(content, _part, "content")  # pyright: ignore[reportUnknownArgumentType]


def cached(source: Object) -> str | None:
    """How long the prompt up to here should be kept, if a hint says that it should."""
    for key in ("cache_control", "prompt_cache_breakpoint"):
        hint = source.get(key)
        if hint is not None:
            return reading.text(reading.as_object(hint, key), "ttl") or "5m"
    return None


def _part(part: Object) -> rq.AnyPart:
    kind = part.get("type")
    if kind == "text" and len(part) == 2:  # noqa: PLR2004 — the type and the words
        return rq.Text(reading.needed(part, "text"))
    return _PARTS.get(kind, _other)(part) if isinstance(kind, str) else _other(part)


def _about(made: P, part: Object, known: str, **marks: Any) -> P:
    """What else a part says of itself, and how."""
    hint = {key: part[key] for key in _HINTS if part.get(key) is not None}
    if hint:
        made.cache = cached(part) or ""
    also = unsaid(part, _HINTS | {known})
    beside = rest(part, _HINTS | {"type", known})
    inside = (made.extra or {}).get(NAME, {})
    made.extra = keep(NAME, {**inside, **({"beside": beside} if beside else {})}, hint=hint, also=also, **marks)
    return made


def _text(part: Object) -> rq.AnyPart:
    return _about(rq.Text(reading.needed(part, "text")), part, "text")


def _refusal(part: Object) -> rq.AnyPart:
    return _about(rq.Text(reading.needed(part, "refusal"), refusal=True), part, "refusal")


def _thinking(part: Object) -> rq.AnyPart:
    return read_thinking(part)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _addressed(source: Object, key: str, media: str) -> tuple[rq.File, str]:
    """A file by its address, and that address if it cannot be made again from what it holds."""
    given = reading.needed(source, key)
    kind, url, data = of_url(given, media)
    odd = bool(data) and not given.startswith(f"data:{kind};base64,")
    return rq.File(kind, url, data), given if odd or (given.startswith("data:") and not data) else ""


def _pictured(part: Object, key: str, media: str, kind: str) -> rq.AnyPart:
    """An address in an object, or bare."""
    bare = isinstance(part.get(key), str)
    if bare:
        made, odd = _addressed(part, key, media)
    else:
        made, odd = reading.inside(part, key, lambda inner: _addressed(inner, "url", media))
        known = {"url"}
        if key == "image_url" and isinstance(part[key].get("detail"), str):
            made.detail = part[key]["detail"]
            known = {"url", "detail"}
        made.extra = keep(NAME, rest(part[key], known))
    return _about(made, part, key, bare=bare, url=odd, kind=kind)


def _image(part: Object) -> rq.AnyPart:
    return _pictured(part, "image_url", "image/*", "")


def _video(part: Object) -> rq.AnyPart:
    return _pictured(part, "video_url", "video/mp4", "video_url")


def _audio_url(part: Object) -> rq.AnyPart:
    return _pictured(part, "audio_url", "audio/*", "audio_url")


def _document(part: Object) -> rq.AnyPart:
    made, odd = _addressed(part, "document_url", "application/pdf")
    made.name = reading.text(part, "document_name")
    return _about(made, rest(part, {"document_name"}), "document_url", url=odd, kind="document_url")


def _audio(part: Object) -> rq.AnyPart:
    given = part.get("input_audio")
    if isinstance(given, str):
        return _about(_raw(given, "audio/mpeg"), part, "input_audio", bare=True)
    made = reading.inside(part, "input_audio", _sound)
    return _about(made, part, "input_audio", kind="input_audio", format=part["input_audio"].get("format"))


def _sound(audio: Object) -> rq.File:
    form = reading.text(audio, "format") or "wav"
    extra = keep(NAME, rest(audio, {"format", "data"}))
    return rq.File(SOUNDS.get(form, f"audio/{form}"), data=reading.needed(audio, "data"), extra=extra)


def _raw(given: str, media: str) -> rq.File:
    """Base64 without a head, or an address."""
    if given.startswith(("http://", "https://")):
        return rq.File(media, given)
    return rq.File(sniff(given) or media, data=given)


def _file(part: Object) -> rq.AnyPart:
    made, odd = reading.inside(part, "file", _uploaded)
    bare = bool(made.data) and not part["file"]["file_data"].startswith("data:")
    return _about(made, part, "file", url=odd, kind="file", bare=bare)


def _uploaded(file: Object) -> tuple[rq.File, str]:
    name = reading.text(file, "filename")
    media = DOCUMENTS.get(name.rpartition(".")[2].lower(), "application/pdf")
    given, odd = reading.text(file, "file_data"), ""
    made = rq.File(media)
    if given.startswith("data:"):
        made, odd = _addressed(file, "file_data", media)
    elif given:
        made = _raw(given, media)
    made.name, made.id = name, reading.text(file, "file_id")
    if not given and not made.id:
        raise BadRequest("a string", None, "file_data")
    made.extra = keep(NAME, rest(file, {"file_data", "filename", "file_id"}))
    return made, odd


def _other(part: Object) -> rq.AnyPart:
    """A kind of part without a word: kept whole for this protocol."""
    return rq.Opaque(NAME, reading.text(part, "type"), part)


_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": _text, "refusal": _refusal, "image_url": _image, "input_audio": _audio, "file": _file,
    "video_url": _video, "audio_url": _audio_url, "document_url": _document, "thinking": _thinking,
}  # fmt: skip
