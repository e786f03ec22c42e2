"""Which framing is it? `detect` tells from the first bytes, `AutoParser` waits for them and then parses.

Leans on the parsers it chooses from. Does not look at HTTP headers: whoever has them may name the framing instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.framing.eventstream import PRELUDE, EventStreamParser, prelude_length
from penstock.framing.frame import BOM, LIMIT, Frame, Parser
from penstock.framing.jsonarray import JsonArrayParser
from penstock.framing.ndjson import NdjsonParser
from penstock.framing.sse import SseParser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENOUGH = 512
"""How many bytes are waited for at most."""

DETECTED: Mapping[str, type[Parser]] = {
    "eventstream": EventStreamParser,
    "jsonarray": JsonArrayParser,
    "ndjson": NdjsonParser,
    "sse": SseParser,
}
"""The framings that can be told from their first bytes, and their parsers."""

_BLANK = b" \t\r\n" + BOM
_PRELUDE_START = (b"\x00", b"\x01")  # of a message that is no longer than AWS allows
_EVENTS = (b"data:", b"event:")  # nine streams in ten
_FIRST_LINE = re.compile(rb"(?:data|event|id|retry|):|data[\r\n]")
_LATER_LINE = re.compile(rb"[\r\n](?:data|event):")  # after a line we do not know, as in a stream joined midway


def detect(prefix: bytes) -> str | None:
    """Name the framing of a stream that begins so: `sse`, `ndjson`, `jsonarray` or `eventstream`; None asks for more.

    A body that is none of these is called `ndjson`, whose parser gives such a body as one frame.
    """
    head = prefix[:ENOUGH]  # never more, so that the cutting does not change the answer
    if head.startswith(_PRELUDE_START):
        if len(head) < PRELUDE.size:
            return None
        if prelude_length(head[: PRELUDE.size]) is not None:
            return "eventstream"
    text = head.lstrip(_BLANK)
    if text.startswith(b"{"):
        return "ndjson"
    if text.startswith(b"["):
        return "jsonarray"
    if _FIRST_LINE.match(text) or _LATER_LINE.search(text):
        return "sse"
    return "ndjson" if len(head) == ENOUGH else None


class AutoParser:
    """Chunks to frames of whatever framing the first bytes show; `framing` names it once that is known."""

    __slots__ = ("_head", "_limit", "_parser", "framing")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._head = b""
        self._parser: Parser | None = None
        self.framing: str | None = None

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._parser is not None:
            return self._parser.feed(chunks)
        self._head = b"".join((self._head, *chunks))
        name = "sse" if self._head.startswith(_EVENTS) else detect(self._head)
        return self._begin(name).feed([self._head]) if name else []

    @property
    def settled(self) -> Parser | None:
        """The parser that does the work, once it is known: whoever feeds often may feed that one."""
        return self._parser

    def finish(self) -> list[Frame]:
        if self._parser is not None:
            return self._parser.finish()
        parser = self._begin("ndjson")
        return parser.feed([self._head]) + parser.finish()

    def _begin(self, name: str) -> Parser:
        self.framing = name
        self._parser = DETECTED[name](limit=self._limit)
        return self._parser
