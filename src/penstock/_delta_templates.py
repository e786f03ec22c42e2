"""The fast path for reading text, shared by all protocols: frames that differ from the frame before only in their text.

Two consecutive frames with one delta each that differ only in its string are a template. A frame that fits it is
decoded without parsing JSON; any other frame takes the normal path. Several such frames are passed on as one `TextRun`.

`enabled = False` turns the fast path off; the output is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock._ledger_base import LedgerPart
from penstock._text_runs import TextRun
from penstock.events import CallDelta

if TYPE_CHECKING:
    from penstock._framing.base import Frame
    from penstock._ledger import Ledger

FEWEST_FRAMES, FEWEST_BYTES = 8, 2**14  # smaller reads are parsed, not compared with a template
SHORTEST, LONGEST = 4096, 2**22  # bytes that are compared at once
ATTEMPTS = 16  # failed attempts after which no further template is tried
_decode_string = msgspec.json.Decoder(str).decode
_decode_strings = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.Encoder().encode
Remover: TypeAlias = Callable[[bytes], bytes]  # removes a field in which frames may differ
Removers: TypeAlias = tuple[Remover, ...]
enabled = True


class DeltaTemplate(msgspec.Struct, eq=False):
    """The bytes before and after the text of a frame, and the part of the text.

    `ignored` are the fields that the frames differ in. `counts`: among them are some of which the last one stands.
    """

    name: bytes
    before: bytes
    after: bytes
    part: LedgerPart
    ignored: Removers
    counts: bool

    def fits(self, frame: Frame, text: str) -> bool:
        """True if a frame fits the template and has this text."""
        data = without(frame[1], self.ignored)
        if frame[0] != self.name or not (data.startswith(self.before) and data.endswith(self.after)):
            return False
        words, texts = read_valid_strings([data[len(self.before) : len(data) - len(self.after)]])
        return bool(words) and text == (texts[0] if texts else words[0].decode())


class TemplateReader:
    """What a decoder has learnt of its stream. `known` is the template, once a second frame has confirmed it. Any frame
    that is read in the normal way may change what the next ones mean, so that it must be confirmed again.

    `ignored` remove fields that say nothing inside a turn (a number, padding): frames may differ in them. `counted`
    remove values of which the last one stands: of frames that differ in them the last is `held`, until the decoder
    reads it for its counts.
    """

    __slots__ = tuple("_counted _former _keep _last _variants attempts held hits known ledger padded wanted".split())

    def __init__(
        self, ledger: Ledger, ignored: Removers, counted: Removers, keep: Callable[[LedgerPart, list[str]], None]
    ) -> None:
        self.ledger: Ledger = ledger
        self._counted, self._keep = counted, keep
        self._variants = _variants(ignored, counted)
        self._last: tuple[Frame, str, LedgerPart] | None = None
        self.known: DeltaTemplate | None = None
        self._former: DeltaTemplate | None = None  # the previous template: one frame confirms it again
        self.held: Frame | None = None
        self.attempts: int = 0
        self.hits: int = 0
        self.padded: bool = False  # frames differ in ignored fields, which makes comparing expensive
        self.wanted: bool = False  # many frames are available, although the decoder gets few at a time

    def learn(self, frame: Frame, event: Any, part: LedgerPart) -> None:
        """Learns from a frame that was parsed and has one delta and nothing else."""
        text: str = event.json if type(event) is CallDelta else event.text
        if self._former is not None and self._former.part is part and self._former.fits(frame, text):
            self.known = self._former
            return
        self.attempts += 1
        if self.attempts > self.hits + ATTEMPTS:
            return
        last, self._last = self._last, (frame, text, part)
        if last is None or last[2] is not part or last[0][0] != frame[0]:
            return
        for ignored in self._variants:
            around = _around(without(last[0][1], ignored), last[1])
            if around is not None and around == _around(without(frame[1], ignored), text):
                self.padded = bool(ignored)
                self._variants = (ignored, *(one for one in self._variants if one is not ignored))  # next time first
                counts = not set(self._counted).isdisjoint(ignored)
                self.known = self._former = DeltaTemplate(frame[0], *around, part, ignored, counts)
                return

    @property
    def ready(self) -> DeltaTemplate | None:
        """The template, while its part is open and texts have no lone surrogates."""
        known = self.known
        return known if known is not None and known.part.open and not self.ledger.fix_surrogates else None

    def read_frames(self, frames: Sequence[Frame], number: int) -> int:
        """Writes the deltas of the frames from `number` on that fit the template. Returns the next number."""
        template = self.ready
        if template is None:
            return number
        name, before, after, ignored = template.name, template.before, template.after, template.ignored
        start, end, part = len(before), -len(after), template.part
        is_call = part.is_call
        texts: list[str] = []
        for at in range(number, len(frames)):  # not a slice: its copy would be quadratic in a read of many short runs
            label, data = frames[at]
            line = without(data, ignored) if ignored else data
            if label != name or not (line.startswith(before) and line.endswith(after)):
                break
            try:
                text = _decode_string(b'"%b"' % line[start:end])
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            if not text or (is_call and text.lstrip()[:1] == "{"):
                break  # of a call's input: it might begin another input
            texts.append(text)
        if texts:
            delta, index = part.delta, part.index
            self.ledger.out += [delta(index, text) for text in texts]
            if part.pieces is not None:
                self._keep(part, texts)
            self.hits += len(texts)
            number += len(texts)
            if template.counts:
                self.held = frames[number - 1]
        return number

    def take(self, part: LedgerPart, words: list[bytes], texts: list[str] | None) -> list[str]:
        """Returns the texts of a run. For a call, only up to a text that might begin another input."""
        if texts is None:
            texts = [word.decode() for word in words]
        if part.is_call:
            many = next((at for at, text in enumerate(texts) if text.lstrip()[:1] == "{"), len(texts))
            del texts[many:]
        if texts and part.pieces is not None:
            self._keep(part, texts)
        self.hits += len(texts)
        return texts

    def take_run(self, part: LedgerPart, words: list[bytes], texts: list[str] | None) -> int:
        """Counts and keeps the texts of a run, and returns how many of them fit."""
        if part.pieces is not None:
            return len(self.take(part, words, texts))
        self.hits += len(words)
        return len(words)


@cache
def _variants(ignored: Removers, counted: Removers) -> tuple[Removers, ...]:
    """Returns the removers to try when frames are compared, the fewest first."""
    every = (*ignored, *counted)
    one_by_one = ((one,) for one in every)
    if len(every) < 2:  # noqa: PLR2004 — there is no third way
        return ((), *one_by_one)
    return ((), every, *one_by_one) if counted else ((), *one_by_one, every)  # counts usually change together


def without(data: bytes, ignored: Removers) -> bytes:
    """Returns the data without the ignored fields."""
    for remove in ignored:
        data = remove(data)
    return data


def number_remover(name: bytes) -> Remover:
    """Returns a remover for a number field. Its quoted name with a colon cannot occur inside a JSON string."""
    mark = b'%b":' % name

    def remove(data: bytes) -> bytes:
        first, *others = data.rsplit(mark)
        return first + b"".join([other.lstrip(b" 0123456789") for other in others]) if others else data

    return remove


def string_remover(name: bytes) -> Remover:
    """Returns a remover for a string field. One with an escaped quote is not removed: its frame fits no template."""
    marks = b'"%b":"' % name, b'"%b": "' % name

    def remove(data: bytes) -> bytes:
        for mark in marks:
            first, *others = data.rsplit(mark)
            if others:
                return first + b"".join([other[other.find(b'"') + 1 :] for other in others])
        return data

    return remove


def _around(data: bytes, text: str) -> tuple[bytes, bytes] | None:
    """Returns the bytes before and after a text in a frame.

    None if the text occurs twice, or another string has escapes: its position would be ambiguous.
    """
    word = _encode(text)
    if b"\\u" in data and not text.isascii():
        word = json.dumps(text).encode()  # some servers escape everything but ASCII
    at = data.find(word)
    if at < 0 or data.find(word, at + 1) >= 0 or data.count(b"\\") != word.count(b"\\"):
        return None
    return data[: at + 1], data[at + len(word) - 1 :]


class RunReader:
    """Finds runs in the bytes of a stream: applies the known template, with the framing around it."""

    __slots__ = ("_between", "_end", "_head", "_parser", "_reach", "_tail", "_template", "_templates")

    def __init__(self, parser: Any, templates: TemplateReader) -> None:
        self._parser, self._templates = parser, templates
        self._template: DeltaTemplate | None = None
        self._head = self._tail = self._between = self._end = b""
        self._reach = 16 * SHORTEST  # bytes that are compared at once

    def read(self, chunk: bytes, start: int = 0) -> tuple[Any, int] | None:
        """Returns the run or delta that begins at `start`, and its end; None if there is none."""
        template = self._templates.known
        if template is None or not template.part.open or self._templates.ledger.fix_surrogates or not self._parser.idle:
            return None
        if template is not self._template:
            self._learn(template)
        if len(chunk) - start > SHORTEST and not self._begins(chunk, start):
            return None
        given = chunk[start : start + self._reach] if start or len(chunk) > self._reach else chunk
        data = without(given, template.ignored) if template.ignored else given
        if not data.startswith(self._head):
            return None
        found = self._words(data)
        part = template.part
        words, texts = read_valid_strings(found) if found else (found, None)
        many = self._templates.take_run(part, words, texts) if words else 0
        if not many:
            self._reach = SHORTEST
            return None
        size = sum(map(len, found[:many])) + many * len(self._between)
        # If the run ended before the bytes, the next read is short: bytes after a run would be compared twice.
        cut_off = self._head.startswith(data[size : size + len(self._head)])
        self._reach = min(self._reach * 4, LONGEST) if many == len(found) and cut_off else SHORTEST
        if data is not given:
            size = len(given) - len(given.split(self._end, many)[many])
        if template.counts:
            self._templates.held = template.name, _last_data(given[:size])
        if many == 1:
            return part.delta(part.index, texts[0] if texts else words[0].decode()), start + size
        if many < len(words):
            words, texts = words[:many], texts and texts[:many]
        return TextRun(part.delta, part.index, words, texts), start + size

    def _begins(self, chunk: bytes, start: int) -> bool:
        """True if a frame of the template begins at `start`. Only that frame is read."""
        ignored = self._templates.known.ignored if self._templates.known is not None else ()
        if not ignored:
            return chunk.startswith(self._head, start)
        end = chunk.find(self._end, start)
        return without(chunk[start : end if end >= 0 else start + SHORTEST], ignored).startswith(self._head)

    def _learn(self, template: DeltaTemplate) -> None:
        head, end = self._parser.around(template.name)
        self._end = end
        self._template = template
        self._reach = SHORTEST if template.ignored else 16 * SHORTEST  # removing fields costs more than comparing
        self._head, self._tail = head + template.before, template.after + end
        self._between = self._tail + self._head

    def _words(self, data: bytes) -> list[bytes]:
        """Returns the texts of the frames at the beginning of the data, as JSON has them.

        No JSON string contains a tail, because a tail begins with a quote and has a line end. That is its only line
        end, so that tails never overlap and `rsplit` gives the same as `split`, in two thirds of its time.
        """
        head, tail = self._head, self._tail
        pieces = data.rsplit(tail)
        pieces.pop()
        first = len(head)
        words = [piece[first:] for piece in pieces]
        if not data.startswith(head + self._between.join(words) + tail):  # faster than checking each piece
            count = next((at for at, piece in enumerate(pieces) if not piece.startswith(head)), len(pieces))
            del words[count:]
        return words


def _last_data(frames: bytes) -> bytes:
    """Returns the data of the last frame. Each frame has one line of data."""
    return frames.rstrip(b"\r\n").rpartition(b"\n")[2].removeprefix(b"data: ")


def is_plain(text: str) -> bool:
    """True if a text needs no escapes in JSON. False for some that need none; they take the normal path."""
    return bool(text) and '"' not in text and "\\" not in text and text.isprintable()


def read_valid_strings(words: list[bytes]) -> tuple[list[bytes], list[str] | None]:
    """Returns the JSON strings (without quotes) before the first that is invalid or empty, and their decoded texts.

    The texts are None if no string has escapes.
    """
    joined = b"".join(words)
    if joined.isascii() and b"" not in words and is_plain(joined.decode()):
        return words, None  # the usual case: no text has escapes, and one check of the joined texts is cheap
    if b"\\u" not in joined and b"\\/" not in joined:
        # A JSON string has no raw line end, so a broken string changes the number of strings.
        try:
            texts = _decode_strings(b'["%b"]' % b'",\n"'.join(words))
        except (msgspec.DecodeError, UnicodeDecodeError):
            texts = []
        if len(texts) == len(words) and "" not in texts:
            return words, texts
    return _read_strings_one_by_one(words)


def _read_strings_one_by_one(words: list[bytes]) -> tuple[list[bytes], list[str]]:
    """Does the same text by text."""
    made: list[bytes] = []
    texts: list[str] = []
    for word in words:
        try:
            text = _decode_string(b'"%b"' % word)
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        if not text:
            break
        made.append(_encode(text)[1:-1] if b"\\" in word else word)
        texts.append(text)
    return made, texts
