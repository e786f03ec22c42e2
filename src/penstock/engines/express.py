"""More of the same text: a chunk that is one frame like those before it is read by its likeness alone.

Nine reads in ten of a live stream are so, and the way through parser, decoder and guard would cost each of them more
than the rest of the gateway does. Leans on what the decoder has learnt (`Decoder.like`); all else takes the long way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.grammar import Guard

if TYPE_CHECKING:
    from penstock.codec import Decoder, Like
    from penstock.events import AnyEvent

_DATA, _END = b"data: ", b"\n\n"


class Express:
    """The short way past the stages of one answer. `lead` is the parser, where it can tell that it holds nothing."""

    __slots__ = ("_decoder", "_guard", "_head", "_ledger", "_like", "_parser", "_part", "_tail")

    def __init__(self, parser: Any, decoder: Decoder, guard: Guard) -> None:
        self._parser, self._decoder, self._guard = parser, decoder, guard
        self._ledger = decoder.ledger
        self._like: Like | None = None
        self._head = self._tail = b""
        self._part: Any = None

    def read(self, chunk: bytes) -> list[AnyEvent] | None:
        """The one event of a chunk; None where it must go the long way."""
        like = self._decoder.like
        if like is not self._like:
            self._learnt(like)
        part = self._part
        if part is None or not (chunk.startswith(self._head) and chunk.endswith(self._tail)):
            return None
        if not (part.open and self._parser.idle and self._guard.passing(part.delta, part.index)):
            return None
        try:
            text = chunk[len(self._head) : -len(self._tail)].decode()
        except UnicodeDecodeError:
            return None
        if '"' in text or "\\" in text or not text.isprintable() or not text:
            return None
        return [part.delta(part.index, text)]

    def _learnt(self, like: Like | None) -> None:
        self._like, self._part = like, None
        if like is not None and not like[0] and like[3].pieces is None and not self._ledger.mending:
            self._head, self._tail, self._part = _DATA + like[1], like[2] + _END, like[3]


def express(parser: Any, decoder: Decoder, after: Any) -> Express | None:
    """The short way, where there is one: nothing but a guard behind the decoder, and a parser of lines before it."""
    return Express(parser, decoder, after) if type(after) is Guard and hasattr(parser, "idle") else None
