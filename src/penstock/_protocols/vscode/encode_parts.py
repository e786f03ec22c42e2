"""Which calls leave, once each, and with what input. Knows nothing of whose call it is: the events say that."""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from penstock._option_checks import TEXT_OR_NONE, Option, check_options, one_of, some_of
from penstock._protocols.vscode.wire import DataPart, encoded
from penstock._transforms.citations import markdown_link

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock import events as ev
    from penstock._diagnostics import Diagnostics


class Calls:
    """The calls of a stream that were delivered."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._seen: set[str] = set()
        self._newest = -1  # the highest part number of a call that became whole

    def begin(self) -> None:
        """Another turn: its parts are numbered anew."""
        self._newest = -1

    def first(self, event: ev.CallEnd) -> bool:
        """Whether the call was not delivered before."""
        if event.id in self._seen:
            self._diagnostics.add("call-twice", f"call {event.id!r} was delivered before and is left out")
            return False
        self._seen.add(event.id)
        return True

    def late(self, event: ev.CallEnd) -> bool:
        """Whether a call that opened after this one became whole before it."""
        self._newest = max(self._newest, event.index)
        return event.index < self._newest


def as_object(event: ev.CallEnd) -> tuple[str, str]:
    """The input as the JSON object that the host insists on, anything else wrapped in one; and what that loses."""
    if event.form == "text":
        return f'{{"input":{encoded(event.json).decode()}}}', "free-text"
    text = event.json.strip()
    if text.startswith("{"):
        return text, ""
    return "{}" if text == "null" else f'{{"input":{text}}}', "no-object"


def call_line(id: str, name: str, given: str, extra: Any) -> bytes:
    """A call as its line, with the input letter by letter as the model wrote it."""
    tail = b',"extra":%b}' % encoded(extra) if extra else b"}"
    return b'{"kind":"call","callId":%b,"name":%b,"input":%b%b' % (encoded(id), encoded(name), given.encode(), tail)


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
        "type": "citation",
        "url": event.url,
        "title": event.title,
        "sourceId": event.id,
        "quote": event.quote,
        "span": event.span,
        "mediaType": event.media,
        "filename": event.filename,
    }
    return {key: value for key, value in said.items() if value}


def mime_word(name: str) -> str:
    """A name as part of a media type."""
    return _NOT_IN_MIME.sub("-", name)


Reasoning: TypeAlias = Literal["thinking", "text", "drop"]
Citations: TypeAlias = Literal["data", "link", "both"]
CITATIONS: tuple[str, ...] = get_args(Citations)
RESERVED = "__vscode"  # the host appends it, and more, to call ids
HOST = frozenset({"text", "thinking", "tool-call", "data"})
"""The part kinds of VS Code since 1.108, with the thinking parts that it has at run time."""


OPTIONS: dict[str, Option] = {
    "host": some_of(HOST),
    "reasoning": one_of((*get_args(Reasoning), None)),
    "citations": one_of(CITATIONS),
    "call_id_prefix": TEXT_OR_NONE,
}


def check(owner: str, **given: object) -> None:
    """Refuse a value of the wrong kind."""
    check_options(owner, given, OPTIONS)


def reasoning_mode(wanted: Reasoning | None, host: Collection[str]) -> Reasoning:
    """Thinking parts where the host has them; nothing where it lacks them, for text must be asked for."""
    if wanted in ("text", "drop"):
        return wanted
    return "thinking" if "thinking" in host else "drop"
