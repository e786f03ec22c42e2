"""More of the same text: frames like those before them are read by their likeness alone.

Nine frames in ten of a stream are so, and the way through parser, decoder and guard would cost each of them more than
the rest of the gateway does. Leans on what the decoder has learnt (`Decoder.like`); all else takes the long way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.codec import plain
from penstock.grammar import Guard

if TYPE_CHECKING:
    from penstock.codec import Decoder, Like
    from penstock.events import AnyEvent

_DATA, _END = b"data: ", b"\n\n"
_string = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class Lane:
    """Frames that only say more of one part: what stands before their words and behind them, and their event."""

    __slots__ = ("head", "index", "kind", "tail")

    def __init__(self, head: bytes, tail: bytes, kind: Any, index: int) -> None:
        self.head, self.tail, self.kind, self.index = head, tail, kind, index


class Run:
    """Consecutive frames that only append to one part. Their events are made when somebody wants them.

    `words` are the texts as they stand between the quotes of JSON.
    """

    __slots__ = ("index", "kind", "words")

    def __init__(self, kind: Any, index: int, words: list[bytes]) -> None:
        self.kind, self.index, self.words = kind, index, words

    def events(self) -> list[AnyEvent]:
        """One for each frame."""
        kind, index = self.kind, self.index
        return [kind(index, _text(words)) for words in self.words]

    def joined(self) -> AnyEvent:
        """One for all of them."""
        made: AnyEvent = self.kind(self.index, _text(b"".join(self.words)))
        return made


def told(batch: list[Any]) -> list[AnyEvent]:
    """A batch with the events of its runs."""
    if Run not in map(type, batch):
        return batch
    return [event for one in batch for event in (one.events() if type(one) is Run else (one,))]


def shortened(batch: list[Any]) -> list[AnyEvent]:
    """A batch with one event for each of its runs."""
    if Run not in map(type, batch):
        return batch
    return [one.joined() if type(one) is Run else one for one in batch]


class Express:
    """The short way past the stages of one answer."""

    __slots__ = (
        "_after", "_between", "_decoder", "_guard", "_head", "_ledger", "_like", "_parser", "_part", "_tail",
    )  # fmt: skip

    def __init__(self, parser: Any, decoder: Decoder, guard: Guard) -> None:
        self._parser, self._decoder, self._guard = parser, decoder, guard
        self._ledger = decoder.ledger
        self._like: Like | None = None
        self._head = self._tail = self._after = self._between = b""
        self._part: Any = None

    def read(self, chunk: bytes) -> list[AnyEvent] | None:
        """The one event of a chunk that is one frame; None where it must go another way."""
        if not (self._ready() and chunk.startswith(self._head) and chunk.endswith(self._tail)):
            return None
        try:
            text = chunk[len(self._head) : -len(self._tail)].decode()
        except UnicodeDecodeError:
            return None
        if not (text and plain(text)):
            return None
        return [self._part.delta(self._part.index, text)]

    def run(self, chunk: bytes, start: int = 0) -> tuple[Run, int] | None:
        """The run that begins there in a chunk, and where it ends."""
        if not (self._ready() and chunk.startswith(self._head, start)):
            return None
        if start:
            chunk = chunk[start:]
        words = self._words(chunk.split(b"\n")[:-1:2], chunk)  # one byte is found faster than two
        texts = _texts(words)
        if not texts:
            return None
        size = sum(map(len, words[: len(texts)])) + len(texts) * len(self._between)
        return Run(self._part.delta, self._part.index, texts), start + size

    def _words(self, lines: list[bytes], chunk: bytes) -> list[bytes]:
        """What the frames that a chunk begins with say. `lines` is every other line of it."""
        head, tail = self._head, self._after
        start, behind, many = len(head), -len(tail), len(lines)
        while many and not (lines[many - 1].startswith(head) and lines[many - 1].endswith(tail)):
            many -= 1
        words = [line[start:behind] for line in lines[:many]]
        # Mostly all of them are alike: to write them anew and compare is quicker than to look at each.
        if chunk.startswith(head + self._between.join(words) + self._tail):
            return words
        words.clear()
        for frame in chunk.split(_END)[:-1]:
            if not (frame.startswith(head) and frame.endswith(tail)):
                break
            words.append(frame[start:behind])
        return words

    def lane(self) -> Lane:
        """How the frames look that `read` has just read one of. It holds until something else is read."""
        return Lane(self._head, self._tail, self._part.delta, self._part.index)

    def _ready(self) -> bool:
        """Whether there is a text of which more may come, and nothing waits that belongs before it."""
        like = self._decoder.like
        if like is not self._like:
            self._learnt(like)
        part = self._part
        return part is not None and part.open and self._parser.idle and self._guard.passing(part.delta, part.index)

    def _learnt(self, like: Like | None) -> None:
        self._like, self._part = like, None
        if like is not None and not like[0] and like[3].pieces is None and not self._ledger.mending:
            _, before, self._after, self._part = like
            self._head = _DATA + before
            self._tail = self._after + _END
            self._between = self._tail + self._head


def express(parser: Any, decoder: Decoder, after: Any) -> Express | None:
    """The short way, where there is one: nothing but a guard behind the decoder, and a parser of lines before it."""
    return Express(parser, decoder, after) if isinstance(after, Guard) and hasattr(parser, "idle") else None


def _texts(words: list[bytes]) -> list[bytes]:
    """The texts in their shortest spelling, up to the first that is none: empty, or no inside of a JSON string."""
    joined = b"".join(words)
    if joined.isascii() and b"" not in words and plain(joined.decode()):
        return words  # mostly: one look at all of it is cheaper than one at each
    made: list[bytes] = []
    for one in words:
        try:
            text = _string(b'"%b"' % one)
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        if not text:
            break
        made.append(_encode(text)[1:-1] if b"\\" in one else one)
    return made


def _text(words: bytes) -> str:
    return _string(b'"%b"' % words) if b"\\" in words else words.decode()
