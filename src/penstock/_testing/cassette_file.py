"""Cassette files: HTTP exchanges as indented JSON that people can read, compare and edit.

A body is written as `json` (if it is compact JSON, and for all requests that are JSON), as `text` (a list with an item
for each frame or line, to be joined) or as `base64` (a list with an item for each binary frame). The response of a
file is the recorded one, byte for byte, except for secrets.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._framing.aws_messages import split_messages
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FORM = "penstock-cassette"
VERSION = 1


class BodyFields(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A body: at most one of the fields is set."""

    json: Any = msgspec.UNSET
    text: list[str] | msgspec.UnsetType = msgspec.UNSET
    base64: list[str] | msgspec.UnsetType = msgspec.UNSET

    def pieces(self) -> list[bytes]:
        """Returns the body in pieces: a frame, a line or all of it each."""
        if self.json is not msgspec.UNSET:
            return [msgspec.json.encode(self.json)]
        if isinstance(self.text, list):
            return [piece.encode() for piece in self.text]
        return [b64decode(piece, validate=True) for piece in self.base64] if isinstance(self.base64, list) else []


class RecordedRequest(BodyFields, kw_only=True):
    """A request, without secrets."""

    method: str
    url: str
    headers: dict[str, str] = {}


class RecordedResponse(BodyFields, kw_only=True):
    """A response, without secrets.

    `complete` is false if the connection ended before the body did. `times`: seconds since the request and bytes, for
    each chunk that was received. `hidden`: secrets that were removed.
    """

    status: int
    headers: dict[str, str] = {}
    complete: bool = True
    hidden: int = 0
    times: list[tuple[float, int]] = []

    def chunks(self) -> list[tuple[float, bytes]]:
        """Returns the body in chunks, each with the seconds to wait before it."""
        pieces = self.pieces()
        data = b"".join(pieces)
        if sum(size for _, size in self.times) != len(data):
            return [(0.0, piece) for piece in pieces]
        chunks: list[tuple[float, bytes]] = []
        start, before = 0, 0.0
        for at, size in self.times:
            chunks.append((max(at - before, 0.0), data[start : start + size]))
            start, before = start + size, at
        return chunks


class RecordedExchange(msgspec.Struct, forbid_unknown_fields=True):
    """A request and its response."""

    request: RecordedRequest
    response: RecordedResponse


class CassetteContent(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All of a file."""

    form: str = FORM
    version: int = VERSION
    exchanges: list[RecordedExchange]


def request_fields(data: bytes) -> dict[str, Any]:
    """Returns the field of a request's body: a JSON value however it was written, else its text or bytes."""
    if not data:
        return {}
    try:
        return {"json": msgspec.json.decode(data)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return response_fields(data)


def response_fields(data: bytes) -> dict[str, Any]:
    """Returns the field of a response's body. What is read from it is the same bytes."""
    if not data:
        return {}
    try:
        value = msgspec.json.decode(data)
        if isinstance(value, dict | list) and msgspec.json.encode(value) == data:
            return {"json": value}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return {"text": _split_text(data.decode())}
    except UnicodeDecodeError:
        return {"base64": [b64encode(piece).decode() for piece in split_messages(data)]}


def _split_text(text: str) -> list[str]:
    """Divides a text after each SSE frame, or after each line if it has no frames."""
    end = "\n\n" if "\n\n" in text else "\n"
    *pieces, last = text.split(end)
    return [*(piece + end for piece in pieces), *([last] if last else ())]


def write_cassette(path: Path, exchanges: list[RecordedExchange]) -> None:
    """Writes a file. It appears when it is complete."""
    rows = [{"request": _to_row(one.request), "response": _to_row(one.response)} for one in exchanges]
    text = json.dumps({"form": FORM, "version": VERSION, "exchanges": rows}, ensure_ascii=False, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    fresh.write_text(f"{text}\n", encoding="utf-8", newline="\n")
    fresh.replace(path)


def _to_row(message: RecordedRequest | RecordedResponse) -> dict[str, Any]:
    """Returns the fields of a message, the body last."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    return {name: fields[name] for name in sorted(fields, key=lambda name: name in BodyFields.__struct_fields__)}


def read_cassette(path: Path) -> list[RecordedExchange]:
    """Reads a file. An `InputError` names the field that is wrong."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=CassetteContent)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a cassette of penstock: {error}") from None
    if content.form != FORM or content.version > VERSION:
        raise InputError(f"{path}: expected {FORM} of version {VERSION}, found {content.form} {content.version}")
    for number, one in enumerate(content.exchanges, 1):
        try:
            one.response.pieces()
        except ValueError as error:
            raise InputError(f"{path}: exchange {number}: the body is not base64: {error}") from None
    return content.exchanges
