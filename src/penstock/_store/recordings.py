"""Recordings: files with one request and the bytes of its response, with the time of each chunk.

The first line is a JSON object (`RecordingHeader`). Every further line is a chunk: `[seconds, "text"]`, or
`[seconds, null, "base64"]` for bytes that are not UTF-8. The joined chunks are the response, byte for byte.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORM = "penstock-recording"
VERSION = 1
SUFFIX = ".tape"


class RecordingHeader(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="form", tag=FORM):
    """The request and the head of the response. `cut`: the response was longer than the recording."""

    version: int = VERSION
    id: str = ""  # of the turn, as the journal has it
    time: float = 0.0  # since the epoch
    protocol: str = ""  # of the answer
    framing: str = ""
    provider: str = ""
    model: str = ""
    url: str = ""
    method: str = "POST"
    request_headers: dict[str, str] = {}
    request: Any = None  # the body: a JSON value, or a text
    status: int = 200
    headers: dict[str, str] = {}
    client: dict[str, Any] = {}  # the form of the client's response, a `ClientForm`; empty if it is not known
    passthrough: bool = False  # the client got the provider's bytes
    hidden: int = 0  # secrets that were removed
    cut: bool = False
    note: str = ""


class Recording(msgspec.Struct):
    """A recording in memory."""

    header: RecordingHeader
    chunks: list[tuple[float, bytes]]

    @property
    def data(self) -> bytes:
        """The body of the response."""
        return b"".join(chunk for _, chunk in self.chunks)


def write_recording(path: Path, header: RecordingHeader, chunks: Iterable[tuple[float, bytes]]) -> None:
    """Writes a recording to a file, which appears when it is complete.

    Another process may write to the same path, so the name of the temporary file holds the process id.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    fresh.unlink(missing_ok=True)
    fresh.touch(0o600)
    try:
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(header) + b"\n")
            file.writelines(map(_encode_chunk, chunks))
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)  # a full disk must not keep the beginning of it
        raise


def _encode_chunk(chunk: tuple[float, bytes]) -> bytes:
    seconds, data = round(chunk[0], 6), chunk[1]
    try:
        return msgspec.json.encode([seconds, data.decode()]) + b"\n"
    except UnicodeDecodeError:
        return msgspec.json.encode([seconds, None, b64encode(data).decode()]) + b"\n"


def read_recording(path: Path) -> Recording:
    """Reads a recording from its file. An `InputError` names the line that is wrong."""
    with path.open("rb") as file:
        return _read_lines(file, path)


def parse_recording(data: bytes, name: str) -> Recording:
    """Reads a recording from its bytes; errors call it `name`."""
    return _read_lines(filter(bytes.strip, data.split(b"\n")), name)


def is_recording(beginning: bytes) -> bool:
    """True if a file that begins so is a recording."""
    return beginning.lstrip().startswith(b'{"form":"penstock-recording"')


def _read_lines(lines: Iterable[bytes], path: Path | str) -> Recording:
    first, *rest = list(lines) or [b""]
    try:
        header = msgspec.json.decode(first, type=RecordingHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}:1: not a recording of penstock: {error}") from None
    if header.version > VERSION:
        raise InputError(f"{path}:1: a recording of version {header.version}, and {VERSION} is the newest known here")
    chunks: list[tuple[float, bytes]] = []
    for number, line in enumerate(rest, 2):
        try:
            seconds, text, *data = msgspec.json.decode(line, type=list[Any])
            chunks.append((float(seconds), b64decode(data[0], validate=True) if text is None else text.encode()))
        except (msgspec.MsgspecError, ValueError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not a chunk of a recording: {error}") from None
    return Recording(header, chunks)
