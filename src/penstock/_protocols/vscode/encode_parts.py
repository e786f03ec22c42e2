"""The contents of VS Code parts: arguments of calls, files, citations, the state of reasoning; the encoder's options.

VS Code keeps one thinking part per round, with the last metadata that it was given. Some of its code keeps only four
keys of that metadata: `COMPLETE`, `SIGNATURE`, `REDACTED` and `PACKED`. So the state of all reasoning parts is packed
into one string under one of these keys, and copied to the others for other readers. `unpack_reasoning` is the inverse.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from penstock._option_checks import TEXT_OR_NONE, Option, one_of, some_of
from penstock._protocols.vscode.wire import DataPart, encode_json
from penstock._transforms.citation_links import markdown_link
from penstock.events import Extra, ReasoningForm, ReasoningStart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock import events as ev
    from penstock import request as rq

Reasoning: TypeAlias = Literal["thinking", "text", "drop"]
Citations: TypeAlias = Literal["data", "link", "both"]
RESERVED = "__vscode"  # the host appends it, and more, to call ids
HOST = frozenset({"text", "thinking", "tool-call", "data"})
"""The part kinds of VS Code since 1.108, with the thinking parts that it has at run time."""
OPTIONS: dict[str, Option] = {
    "host": some_of(HOST),
    "reasoning": one_of((*get_args(Reasoning), None)),
    "citations": one_of(get_args(Citations)),
    "call_id_prefix": TEXT_OR_NONE,
}

# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def arguments_object(event: ev.CallEnd) -> tuple[str, str]:
    """Returns the arguments as a JSON object, because the host accepts nothing else; and the loss, if any."""
    if event.form == "text":
        return f'{{"input":{encode_json(event.json).decode()}}}', "free-text"
    text = event.json.strip()
    if text.startswith("{"):
        return text, ""
    return "{}" if text == "null" else f'{{"input":{text}}}', "no-object"


def call_line(id: str, name: str, arguments: str, extra: Any) -> bytes:
    """Returns the line of a call. The arguments stay as the model wrote them."""
    tail = b',"extra":%b}' % encode_json(extra) if extra else b"}"
    fields = (encode_json(id), encode_json(name), arguments.encode(), tail)
    return b'{"kind":"call","callId":%b,"name":%b,"input":%b%b' % fields


# ── files, citations, data ────────────────────────────────────────────────────────────────────────

_BINARY = "application/octet-stream"
CITATION = "application/vnd.vscode.citation+json"
DATA_PREFIX, DATA_SUFFIX = "application/vnd.vercel.", "+json"
_URL_SAFE = str.maketrans("-_", "+/", " \r\n\t")
_QUARTET = 4
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
_NOT_IN_MIME = re.compile(r"[^A-Za-z0-9!#$&^_.+-]")


def file_part(start: ev.FileStart, pieces: list[str]) -> tuple[DataPart | None, str]:
    """Returns a file as a part, if its bytes are known, and a link to it, if it has an address on the web."""
    url_media, url_data = _split_data_url(start.url)
    data = _decode_base64(pieces or [url_data]) if pieces or url_data else None
    part = None if data is None else DataPart(data, _media_type(start.media or url_media, data))
    name = start.url.split("?", 1)[0].split("#", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    return part, markdown_link(name or start.media or "file", start.url)


def _decode_base64(pieces: Sequence[str]) -> bytes | None:
    """Decodes base64 in pieces, each padded or cut anywhere; None if it is not base64."""
    clean = [piece.translate(_URL_SAFE) for piece in pieces]
    texts = clean if any(piece.endswith("=") for piece in clean[:-1]) else ["".join(clean)]
    bare = [text.rstrip("=") for text in texts]
    try:
        return b"".join(binascii.a2b_base64(text + "=" * (-len(text) % _QUARTET), strict_mode=True) for text in bare)
    except (binascii.Error, ValueError):
        return None


def _split_data_url(url: str) -> tuple[str, str]:
    """Returns media type and base64 of a data URL; empty strings for any other URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return "", ""
    return head[5:].split(";")[0] or _BINARY, data


def _media_type(label: str, data: bytes) -> str:
    """Returns the label. If it names no format (`image/*`), returns the one that the first bytes of an image show."""
    if "*" not in label and "/" in label:
        return label
    return next((f"image/{name}" for sign, name in _SIGNATURES.items() if data.startswith(sign)), label or _BINARY)


def citation_fields(source: ev.Source | rq.Source) -> dict[str, Any]:
    """Returns a source as the JSON of a data part. Its span counts the model's text without inserted links."""
    fields = {
        "type": "citation",
        "url": source.url,
        "title": source.title,
        "sourceId": source.id,
        "quote": source.quote,
        "span": source.span,
        "mediaType": source.media,
        "filename": source.filename,
    }
    return {key: value for key, value in fields.items() if value}


def data_mime_type(name: str) -> str:
    """Returns the media type of an application's data."""
    return f"{DATA_PREFIX}{_NOT_IN_MIME.sub('-', name.removeprefix('data-'))}{DATA_SUFFIX}"


# ── the state of reasoning ────────────────────────────────────────────────────────────────────────

COMPLETE, SIGNATURE, REDACTED, PACKED = "_completeThinking", "signature", "redactedData", "encrypted_content"
_PACKED_PREFIX = "penstock:1:"
_COPIED_FIELDS = {"signature": SIGNATURE, "redacted": REDACTED}


class ReasoningState(msgspec.Struct, omit_defaults=True):
    """One reasoning part of a round. Packed without its text: `size` code points of the complete text are its text."""

    text: str = ""
    id: str = ""
    form: ReasoningForm = "full"
    extra: Extra | None = None
    size: int = 0


class ReasoningRound(msgspec.Struct):
    """The reasoning of one turn so far. `has_state`: some part has state that must be sent back."""

    states: dict[int, ReasoningState] = {}
    texts: dict[int, list[str]] = {}
    has_state: bool = False

    def open(self, event: ReasoningStart) -> None:
        self.states[event.index] = ReasoningState("", event.item, event.form, event.extra)
        self.has_state = self.has_state or bool(event.extra)
        self.texts[event.index] = []

    def append_text(self, index: int, text: str) -> None:
        self.texts[index].append(text)

    def has_text(self, index: int) -> bool:
        return bool(self.texts.get(index) or self.states[index].text)

    def close(self, index: int, extra: Extra | None) -> None:
        state = self.states[index]
        state.text, state.extra = "".join(self.texts.pop(index)), extra or state.extra
        self.has_state = self.has_state or bool(extra)

    def metadata(self) -> dict[str, Any]:
        return pack_reasoning([state for index, state in self.states.items() if index not in self.texts])


def pack_reasoning(states: list[ReasoningState]) -> dict[str, Any]:
    """Returns the metadata of a round's last thinking part."""
    metadata: dict[str, Any] = {COMPLETE: "".join(state.text for state in states)}
    for state in states:
        for fields in (state.extra or {}).values():
            metadata |= {to: fields[key] for key, to in _COPIED_FIELDS.items() if isinstance(fields.get(key), str)}
    rows = [ReasoningState("", state.id, state.form, state.extra, len(state.text)) for state in states]
    metadata[PACKED] = _PACKED_PREFIX + encode_json(rows).decode()
    return metadata


def is_packed(metadata: dict[str, Any]) -> bool:
    """True if `pack_reasoning` wrote the metadata, even if it was changed since."""
    packed = metadata.get(PACKED)
    return isinstance(packed, str) and packed.startswith(_PACKED_PREFIX)


def unpack_reasoning(metadata: dict[str, Any] | None) -> list[ReasoningState]:
    """Returns the parts of a round from its metadata; nothing if another program wrote or changed it."""
    text = (metadata or {}).get(COMPLETE)
    if metadata is None or not is_packed(metadata) or not isinstance(text, str):
        return []
    try:
        states = msgspec.json.decode(metadata[PACKED][len(_PACKED_PREFIX) :], type=list[ReasoningState])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    at = 0
    for state in states:
        state.text = text[at : at + state.size]
        at += state.size
        state.size = 0
    return states if at == len(text) else []
