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
    """Frames in a row that only say more of one part. Their events are made when somebody wants them."""

    __slots__ = ("_unread", "_words", "index", "kind")

    def __init__(
        self,
        kind: Any,
        index: int,
        words: list[bytes] | None,
        unread: tuple[bytes, int, int, bytes, bytes] | None = None,
    ) -> None:
        self.kind, self.index = kind, index
        self._words = words
        self._unread = unread  # a chunk, where in it, and what stands before and behind the words of each frame

    @property
    def words(self) -> list[bytes]:
        """The texts, each as it stands between the quotes of JSON."""
        if self._words is None:
            self._words = _among(*self._unread) if self._unread is not None else []
        return self._words

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
        "_after", "_between", "_decoder", "_guard", "_head", "_ledger", "_like", "_parser", "_part", "_tail", "_unread",
    )  # fmt: skip

    def __init__(self, parser: Any, decoder: Decoder, guard: Guard, *, unread: bool) -> None:
        self._parser, self._decoder, self._guard = parser, decoder, guard
        self._unread = unread
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
        if self._unread and (found := self._skipped(chunk, start)) is not None:
            return found
        if start:
            chunk = chunk[start:]
        words = _as_they_stand(self._words(chunk.split(b"\n")[:-1:2], chunk))  # one byte is found faster than two
        if not words:
            return None
        size = sum(map(len, words)) + len(words) * len(self._between)
        return Run(self._part.delta, self._part.index, _spelt(words)), start + size

    def _skipped(self, chunk: bytes, start: int) -> tuple[Run, int] | None:
        """The same for those who hand the bytes on: up to the last frame of its kind nothing is looked at.

        Where more of a text follows, nothing before it was the end of the turn, or its bill.
        """
        border = chunk.rfind(self._between, start)
        if border < 0:
            return None
        last = border + len(self._between)
        end = chunk.find(self._tail, last)
        if end < 0 or chunk.find(b"\n", last, end) >= 0:  # the last one ends otherwise, or has not come whole
            end = border
        end += len(self._tail)
        return Run(self._part.delta, self._part.index, None, (chunk, start, end, self._head, self._after)), end

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


def express(parser: Any, decoder: Decoder, after: Any, *, unread: bool = False) -> Express | None:
    """The short way, where there is one: nothing but a guard behind the decoder, and a parser of lines before it.

    `unread`: nobody asks for the words.
    """
    return (
        Express(parser, decoder, after, unread=unread) if isinstance(after, Guard) and hasattr(parser, "idle") else None
    )


def _among(chunk: bytes, start: int, end: int, head: bytes, tail: bytes) -> list[bytes]:
    """What those frames say that have such a head and such a tail."""
    frames = chunk[start:end].split(_END)
    alike = [one for one in frames if one.startswith(head) and one.endswith(tail)]
    return _spelt(_as_they_stand([one[len(head) : -len(tail)] for one in alike]))


def _as_they_stand(words: list[bytes]) -> list[bytes]:
    """The texts, up to the first that is none: empty, or no inside of a JSON string."""
    joined = b"".join(words)
    if joined.isascii() and b"" not in words and plain(joined.decode()):
        return words  # mostly: one look at all of it is cheaper than one at each
    for number, one in enumerate(words):
        try:
            if not _string(b'"%b"' % one):
                return words[:number]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return words[:number]
    return words


def _spelt(words: list[bytes]) -> list[bytes]:
    """The same, each letter written in the shortest way."""
    if b"\\" not in b"".join(words):
        return words
    return [_encode(_string(b'"%b"' % one))[1:-1] if b"\\" in one else one for one in words]


def _text(words: bytes) -> str:
    return _string(b'"%b"' % words) if b"\\" in words else words.decode()
