"""Files: base64 in its variants to bytes, data URLs, and a name for what has only an address. Citations as data."""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any

from penstock.protocols.vscode.parts import DataPart
from penstock.shaping.citations import markdown_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock import events as ev

RAW = "application/octet-stream"
CITATION = "application/vnd.vscode.citation+json"
_URL_SAFE = str.maketrans("-_", "+/", " \r\n\t")
_QUARTET = 4
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
_NOT_IN_MIME = re.compile(r"[^A-Za-z0-9!#$&^_.+-]")


class Files:
    """The files that are open."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[ev.FileStart, list[str]]] = {}

    def open(self, event: ev.FileStart) -> None:
        self._open[event.index] = (event, [])

    def add(self, event: ev.FileDelta) -> None:
        if event.index in self._open:
            self._open[event.index][1].append(event.data)

    def close(self, index: int) -> tuple[DataPart | None, str]:
        """The file as a part, if its bytes are here, and a link to it, if it has an address on the web."""
        start, pieces = self._open.pop(index)
        said, inline = data_url(start.url) or ("", "")
        data = unbase64(pieces or [inline]) if pieces or inline else None
        part = None if data is None else DataPart(data, media_type(start.media or said, data))
        return part, file_link(start.media, start.url)


def unbase64(pieces: Sequence[str]) -> bytes | None:
    """The bytes of base64 that came in pieces, each padded on its own or cut anywhere; None if it is none."""
    clean = [piece.translate(_URL_SAFE) for piece in pieces]
    try:
        if any(piece.endswith("=") for piece in clean[:-1]):
            return b"".join(_decoded(piece) for piece in clean)
        return _decoded("".join(clean))
    except (binascii.Error, ValueError):
        return None


def _decoded(text: str) -> bytes:
    bare = text.rstrip("=")
    return binascii.a2b_base64(bare + "=" * (-len(bare) % _QUARTET), strict_mode=True)


def data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64) of a `data:` address with base64 in it."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return head[5:].split(";")[0] or RAW, data


def media_type(said: str, data: bytes) -> str:
    """The media type as said; where that names no format (`image/*`), the one an image's first bytes show."""
    if "*" not in said and "/" in said:
        return said
    found = next((name for magic, name in _MAGIC if data.startswith(magic)), "")
    return found or said or RAW


def file_link(media: str, url: str) -> str:
    """A link to a file by its address, named after its last step; nothing if it is no address on the web."""
    name = url.split("?", 1)[0].split("#", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    return markdown_link(name or media or "file", url)


def citation(event: ev.Source) -> dict[str, Any]:
    """A source as the JSON of a data part. Its span counts the model's own text, without links put into it."""
    said = {
        "type": "citation", "url": event.url, "title": event.title, "sourceId": event.id, "quote": event.quote,
        "span": event.span, "mediaType": event.media, "filename": event.filename,
    }  # fmt: skip
    return {key: value for key, value in said.items() if value}


def mime_word(name: str) -> str:
    """A name as part of a media type."""
    return _NOT_IN_MIME.sub("-", name)
