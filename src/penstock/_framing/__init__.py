"""Framing: bytes off the network to frames and back. One module for each framing, each a pair of stages.

Imports only `penstock.errors`. Knows neither protocols nor events: a frame's data is opaque here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock._framing.eventstream import (
    PRELUDE,
    EventStreamParser,
    EventStreamWriter,
    SageMakerParser,
    SageMakerWriter,
    prelude_length,
)
from penstock._framing.frame import BOM, LIMIT, Frame, Parser, WebSocketParser, WebSocketWriter, Writer
from penstock._framing.json_frames import JsonArrayParser, JsonArrayWriter, NdjsonParser, NdjsonWriter
from penstock._framing.sse import GoogleSseWriter, SseParser, SseWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENOUGH = 512
"""How many bytes are waited for at most, not counting the blanks that a stream begins with."""

BLANKS = 64 * 1024
"""How many blank bytes a stream may begin with before its framing is guessed without further bytes."""

DETECTED: Mapping[str, type[Parser]] = {
    "eventstream": EventStreamParser,
    "jsonarray": JsonArrayParser,
    "ndjson": NdjsonParser,
    "sse": SseParser,
}
"""The framings that can be told from their first bytes, and their parsers."""

_TYPES = {
    "application/jsonl": "ndjson", "application/vnd.amazon.eventstream": "eventstream",
    "application/x-ndjson": "ndjson", "text/event-stream": "sse",
}  # fmt: skip
_BLANK = b" \t\r\n" + BOM
_PRELUDE_START = (b"\x00", b"\x01")  # of a message that is no longer than AWS allows
_EVENTS = (b"data:", b"event:")  # nine streams in ten
_FIRST_LINE = re.compile(rb"(?:data|event|id|retry|):|data[\r\n]")
_LATER_LINE = re.compile(rb"[\r\n](?:data|event):")  # after a line we do not know, as in a stream joined midway


@lru_cache(100)
def named_framing(content_type: str) -> str | None:
    """The framing that a content type names; None for those that may be several."""
    return _TYPES.get(content_type.partition(";")[0].strip().lower())


def detect(prefix: bytes, fallback: str = "ndjson") -> str | None:
    """Name the framing of a stream that begins so: `sse`, `ndjson`, `jsonarray` or `eventstream`; None asks for more.

    A body that is none of these is the fallback's; the parser of `ndjson` gives such a body as one frame.
    """
    if prefix.startswith(_PRELUDE_START):
        if len(prefix) < PRELUDE.size:
            return None
        if prelude_length(prefix[: PRELUDE.size]) is not None:
            return "eventstream"
    text = prefix.lstrip(_BLANK)
    return fallback if len(prefix) - len(text) > BLANKS else _told_by(text[:ENOUGH], fallback)


def _told_by(text: bytes, fallback: str) -> str | None:
    """The framing that a first text shows: never more than ENOUGH, so that the cutting does not change the answer."""
    if text.startswith(b"{"):
        return "ndjson"
    if text.startswith(b"["):
        return "jsonarray"
    if _FIRST_LINE.match(text) or _LATER_LINE.search(text):
        return "sse"
    return fallback if len(text) == ENOUGH else None


class AutoParser:
    """Chunks to frames of whatever framing the first bytes show; `framing` names it once that is known.

    `fallback` is the framing of a stream whose first bytes show none, as its content type may name it.
    """

    __slots__ = ("_fallback", "_head", "_limit", "detected_parser", "framing")

    def __init__(self, *, limit: int = LIMIT, fallback: str = "ndjson") -> None:
        self._limit = limit
        self._fallback = fallback
        self._head = b""
        self.detected_parser: Parser | None = None  # callers that feed often may feed it directly
        self.framing: str | None = None

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self.detected_parser is not None:
            return self.detected_parser.feed(chunks)
        # Line ends at the start mean nothing in any framing; they are not kept, or many small chunks of them would cost
        # time that grows with the square of their number.
        self._head = b"".join((self._head, *chunks)).lstrip(b"\r\n")
        name = "sse" if self._head.startswith(_EVENTS) else detect(self._head, self._fallback)
        return self._begin(name).feed([self._head]) if name else []

    def finish(self) -> list[Frame]:
        if self.detected_parser is not None:
            return self.detected_parser.finish()
        parser = self._begin("ndjson")
        return parser.feed([self._head]) + parser.finish()

    def _begin(self, name: str) -> Parser:
        self.framing = name
        self.detected_parser = DETECTED[name](limit=self._limit)
        return self.detected_parser


PARSERS: Mapping[str, type[Parser]] = {
    **DETECTED,
    "auto": AutoParser,
    "eventstream+sse": SageMakerParser,
    "sse+json": SseParser,
    "websocket": WebSocketParser,
}
WRITERS: Mapping[str, type[Writer]] = {
    "eventstream": EventStreamWriter,
    "eventstream+sse": SageMakerWriter,
    "jsonarray": JsonArrayWriter,
    "ndjson": NdjsonWriter,
    "sse": SseWriter,
    "sse+json": GoogleSseWriter,
    "websocket": WebSocketWriter,
}
