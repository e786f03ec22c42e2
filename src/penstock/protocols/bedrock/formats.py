"""Bedrock's words for file formats ↔ media types."""

from __future__ import annotations

_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCUMENTS: dict[str, str] = {
    "pdf": "application/pdf", "csv": "text/csv", "doc": "application/msword",
    "docx": _OFFICE + "wordprocessingml.document", "xls": "application/vnd.ms-excel",
    "xlsx": _OFFICE + "spreadsheetml.sheet", "html": "text/html", "txt": "text/plain", "md": "text/markdown",
}  # fmt: skip
_ODD: dict[str, str] = {
    "video/mov": "video/quicktime", "video/mkv": "video/x-matroska", "video/flv": "video/x-flv",
    "video/wmv": "video/x-ms-wmv", "video/three_gp": "video/3gpp", "video/mpg": "video/mpeg", "audio/mp3": "audio/mpeg",
    "image/jpg": "image/jpeg",
}  # fmt: skip
_FORMS = {media: form for form, media in DOCUMENTS.items()}
_WORDS = {media: word.partition("/")[2] for word, media in _ODD.items() if word not in ("video/mpg", "image/jpg")}
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


def media_of(kind: str, form: str) -> str:
    """The media type of a format, in a block of a kind."""
    if kind == "document":
        return DOCUMENTS.get(form) or f"application/{form or 'octet-stream'}"
    word = f"{kind}/{form or '*'}"
    return _ODD.get(word, word)


def kind_of(media: str) -> tuple[str, str]:
    """The kind of block for a media type, and its format; neither if there is none."""
    kind, _, form = media.partition("/")
    if kind in ("image", "video", "audio"):
        return kind, _WORDS.get(media, form)
    if media in _FORMS:
        return "document", _FORMS[media]
    return ("document", "txt") if media.startswith(_TEXTS) else ("", "")
