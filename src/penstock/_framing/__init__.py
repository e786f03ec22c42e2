"""Framing: bytes from the network to frames and back, and the detection of the framing by the first bytes.

Each framing has a parser and a writer, which are stages. They know neither protocols nor events.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from penstock._framing.aws_eventstream import EventStreamParser, EventStreamWriter, SageMakerParser, SageMakerWriter
from penstock._framing.aws_messages import PRELUDE, prelude_length
from penstock._framing.base import BOM, LIMIT, Frame, Parser, WebSocketParser, WebSocketWriter, Writer
from penstock._framing.json_frames import JsonArrayParser, JsonArrayWriter, NdjsonParser, NdjsonWriter
from penstock._framing.sse import GoogleSseWriter, SseParser, SseWriter
from penstock._lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENOUGH = 512
"""The most bytes that detection waits for, without the blanks at the start of a stream."""

BLANKS = 64 * 1024
"""The most blank bytes at the start of a stream before the fallback is used."""

DETECTED: Mapping[str, type[Parser]] = {
    "eventstream": EventStreamParser,
    "jsonarray": JsonArrayParser,
    "ndjson": NdjsonParser,
    "sse": SseParser,
}
"""The framings that can be detected by their first bytes, and their parsers."""

_TYPES = {
    "application/jsonl": "ndjson", "application/vnd.amazon.eventstream": "eventstream",
    "application/x-ndjson": "ndjson", "text/event-stream": "sse",
}  # fmt: skip
_BLANK = b" \t\r\n" + BOM
_PRELUDE_START = (b"\x00", b"\x01")  # the length of an AWS message begins so
_EVENTS = (b"data:", b"event:")  # the usual start of a stream
_FIRST_LINE = lazy_pattern(rb"(?:data|event|id|retry|):|data[\r\n]")
_LATER_LINE = lazy_pattern(rb"[\r\n](?:data|event):")  # after an unknown line, as in a stream that was joined late


@lru_cache(100)
def named_framing(content_type: str) -> str | None:
    """Returns the framing of a content type; None if the type is ambiguous."""
    return _TYPES.get(content_type.partition(";")[0].strip().lower())


def detect(prefix: bytes, fallback: str = "ndjson") -> str | None:
    """Returns the framing of a stream that begins with these bytes, or None if more bytes are needed.

    A body of no known framing gets the fallback; the parser of `ndjson` returns such a body as one frame.
    """
    if prefix.startswith(_PRELUDE_START):
        if len(prefix) < PRELUDE.size:
            return None
        if prelude_length(prefix[: PRELUDE.size]) is not None:
            return "eventstream"
    text = prefix.lstrip(_BLANK)
    return fallback if len(prefix) - len(text) > BLANKS else _detect_text(text[:ENOUGH], fallback)


def _detect_text(text: bytes, fallback: str) -> str | None:
    """Returns the framing by at most ENOUGH characters, so that the cutting of chunks does not change the result."""
    if text.startswith(b"{"):
        return "ndjson"
    if text.startswith(b"["):
        return "jsonarray"
    if _FIRST_LINE.match(text) or _LATER_LINE.search(text):
        return "sse"
    return fallback if len(text) == ENOUGH else None


class AutoParser:
    r"""Chunks to frames. Detects the framing by the first bytes; `framing` is its name, once it is known.

    `fallback` is the framing of a stream that cannot be detected, for example by its content type.

    Examples:
        >>> parser = AutoParser()
        >>> parser.feed([b"data: {}\n\n"])
        [(b'', b'{}')]
        >>> parser.framing
        'sse'
    """

    __slots__ = ("_blanks", "_fallback", "_head", "_limit", "detected_parser", "framing")

    def __init__(self, *, limit: int = LIMIT, fallback: str = "ndjson") -> None:
        self._limit = limit
        self._fallback = fallback
        self._blanks = bytearray()
        self._head = b""
        self.detected_parser: Parser | None = None  # callers that feed often may feed it directly
        self.framing: str | None = None

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self.detected_parser is not None:
            return self.detected_parser.feed(chunks)
        # Blanks at the start are kept apart and read once: searching them again at each chunk takes quadratic time.
        head = b"".join((self._head, *chunks))
        if not self._blanks:
            head = head.lstrip(b"\r\n")  # line ends at the start have no meaning in any framing
        self._head = head.lstrip(_BLANK)
        self._blanks += head[: len(head) - len(self._head)]
        name = self._detect()
        return self._start_parser(name).feed([bytes(self._blanks) + self._head]) if name else []

    def finish(self) -> list[Frame]:
        if self.detected_parser is not None:
            return self.detected_parser.finish()
        parser = self._start_parser("ndjson")
        return parser.feed([bytes(self._blanks) + self._head]) + parser.finish()

    def _detect(self) -> str | None:
        if not self._blanks:
            return "sse" if self._head.startswith(_EVENTS) else detect(self._head, self._fallback)
        return self._fallback if len(self._blanks) > BLANKS else _detect_text(self._head[:ENOUGH], self._fallback)

    def _start_parser(self, name: str) -> Parser:
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
