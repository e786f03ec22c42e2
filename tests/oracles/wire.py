"""Just enough framing to take a recorded body apart, written apart from penstock's so that the two can disagree.
Whole bodies only: there is no state here and no cutting.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Frame(NamedTuple):
    """One server-sent event: its name, if any, and its data."""

    event: str | None
    data: str

    def encode(self) -> bytes:
        lines = [f"event: {self.event}"] if self.event else []
        lines += [f"data: {line}" for line in self.data.split("\n")]
        return ("\n".join(lines) + "\n\n").encode()


def sse(body: bytes) -> list[Frame]:
    frames: list[Frame] = []
    event: str | None = None
    data: list[str] = []
    for line in [*re.split("\r\n|\r|\n", body.decode("utf-8-sig", errors="replace")), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                frames.append(Frame(event, "\n".join(data)))
            event, data = None, []
        elif field == "data":
            data.append(value)
        elif field == "event":
            event = value
    return frames


def split(body: bytes, opens: str, closes: frozenset[str]) -> list[bytes]:
    """One body per message: a new one begins where `opens` comes after something in `closes`.
    A body that holds one message is given back as it is, byte for byte.
    """
    parts: list[list[Frame]] = [[]]
    closed = False
    for frame in sse(body):
        kind = kind_of(frame)
        if closed and kind == opens:
            parts.append([])
            closed = False
        closed = closed or kind in closes
        parts[-1].append(frame)
    return [body] if len(parts) == 1 else [b"".join(frame.encode() for frame in part) for part in parts]


def kind_of(frame: Frame) -> str | None:
    payload = parsed(frame.data)
    return payload.get("type") if isinstance(payload, dict) else None


def parsed(text: str) -> Any:
    """The JSON of a frame, or None where it is none (`[DONE]`, or an error written in the middle of things)."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def rewrap(payloads: list[Any], *, named: bool = False) -> bytes:
    """Payloads as server-sent events, for the bodies that came in other frames; `named` adds the type as event name."""
    return b"".join(Frame(p["type"] if named else None, json.dumps(p)).encode() for p in payloads)


def payloads(path: Path, wire: str) -> Iterator[Any]:
    """Every JSON payload of a recorded stream, in order. Frames that hold no JSON are left out."""
    for payload in READERS[wire](path):
        if payload is not None:
            yield payload


def _sse(path: Path) -> Iterator[Any]:
    return (parsed(frame.data) for frame in sse(path.read_bytes()))


def _ndjson(path: Path) -> Iterator[Any]:
    return (parsed(line) for line in path.read_text().splitlines() if line.strip())


def _array(path: Path) -> Iterator[Any]:
    return iter(json.loads(path.read_bytes()))


def _eventstream(path: Path) -> Iterator[Any]:
    """AWS frames, as `{event type: body}`, or as the body itself where a model's own events travel inside `chunk`."""
    beside = path.with_suffix(".events.jsonl")
    frames = map(json.loads, beside.read_text().splitlines()) if beside.exists() else _unpacked(path.read_bytes())
    for frame in frames:
        event, data = frame["event"], frame["data"]
        yield data if event in {None, "chunk"} else {event: data}


def _unpacked(body: bytes) -> Iterator[dict[str, Any]]:
    from botocore.eventstream import EventStreamBuffer

    buffer = EventStreamBuffer()
    buffer.add_data(body)
    for message in buffer:
        data = json.loads(message.payload)
        yield {
            "event": message.headers[":event-type"],
            "data": json.loads(base64.b64decode(data["bytes"])) if "bytes" in data else data,
        }


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "sse": _sse,
    "ndjson": _ndjson,
    "json-array": _array,
    "eventstream": _eventstream,
    "eventstream-invoke": _eventstream,
}
