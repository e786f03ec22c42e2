"""Server-sent events: `SseParser` reads them by the WHATWG rules, `SseWriter` writes them.

One call of `split` or of a regular expression reads the common forms; a line parser reads all others. The data is
not interpreted, and nothing reconnects.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from penstock._framing.base import BOM, LIMIT, BaseParser, Frame, FrameRun, StatelessWriter
from penstock._lazy_patterns import lazy_pattern
from penstock.errors import FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_ALIVE = b": keep-alive\n"
"""A comment to send between frames while the stream is idle.

It ends with one newline, not two: at a blank line some clients (openai-go always, openai-python once it has seen an
`id`) dispatch an event with empty data and then fail to parse it.
"""

BLANK_LINES = b"\n\n"
"""The same for clients that cannot read comments. Google's SDKs parse them as JSON, or drop the next event."""

ERROR = b"error"
"""The name of a frame that `GoogleSseWriter` writes as an error."""

# Frames of `event` and `data`, or of `data` alone. When a frame has another shape, the last alternative takes it and
# all the rest: the list then ends with empty groups, which is easy to check, since a real frame's data is not empty.
# Only single characters are repeated possessively, because Python before 3.11.5 has faults in possessive groups.
_find_common = re.compile(rb"(?:event: ?+(.*+)\n)?data: ?+(.++)\n\n++|(?s:.++)").findall

# The same with an `id` in either of the places where servers put it, and comments around the frame. The counts bound
# the memory that a repeated group takes.
_COMMENTS = rb"(?::.*+\n\n?+){0,99}"
_ID = rb"(?:id: ?+(.++)\n)?"
_FULLER = lazy_pattern(
    _COMMENTS + _ID + rb"(?:event: ?+(.*+)\n)?data: ?+(.++)\n" + _ID + rb"\n++" + _COMMENTS + rb"|(?s:.++)"
)

_EVENT, _DATA = b"event: ", b"data: "
_AFTER = len(_DATA)
_NAME = slice(len(_EVENT), -len(_DATA) - 1)  # of what stands before the data, if that is an `event` line and `data: `
_HEADED, _BARE = b"event: %b\ndata: %b\n\n", b"data: %b\n\n"
_LF, _CR, _NUL = b"\n\r\0"  # as numbers: `_CR in text` is several times as fast as `b"\r" in text`
_BLANK_LINES = lazy_pattern(rb"\n\n+")
_LINE_END = lazy_pattern(rb"\r\n|\n|\r")
_ERROR = lazy_pattern(rb'\{\s*"error"\s*:')
_BARE_ERROR = lazy_pattern(rb"^\{.*\n\n", re.MULTILINE)
_LONGEST_RETRY = 15  # digits; longer numbers are not plausible delays, and int() refuses thousands of digits


class SseParser(BaseParser):
    r"""Chunks to frames: `(event name or b"", data)`. A frame without its blank line still counts at the end.

    A frame whose data is empty carries no payload and is left out. `last_event_id` and `retry` keep what was sent.

    Examples:
        >>> parser = SseParser()
        >>> parser.feed([b"event: ping\nda", b"ta: {}\n\n"])
        [(b'ping', b'{}')]
    """

    __slots__ = ("_after_cr", "_begun", "_tail", "last_event_id", "line_end", "retry")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__(limit=limit)
        self._tail = bytearray()  # the beginning of an incomplete frame; never starts with a line end
        self._begun = False  # whether the position of a byte order mark has passed
        self._after_cr = False  # whether the last byte was a CR, so that an LF now is not another line end
        self.line_end: bytes = b"\n"  # as the server writes it
        self.last_event_id: bytes = b""
        self.retry: int | None = None

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        text = b"".join(chunks)
        if self._after_cr or not self._begun or _CR in text:
            text = self._normalize_line_ends(text)
        tail = self._tail
        if not tail:
            text = text.lstrip(b"\n")
        end = text.rfind(b"\n\n") + 2
        if end == 1 and not (tail.endswith(b"\n") and text.startswith(b"\n")):
            # No blank line, nor half of one here and half in the tail. Only what is new is ever searched.
            tail += text
            frames = []
        else:
            whole = text[:end]
            if tail:
                tail += whole
                whole = bytes(tail)
                tail.clear()
            if end < len(text):
                tail += text[end:]
            frames = self._parse(whole) if len(whole) <= self._limit else self._parse_bounded(whole)
        return frames if len(tail) <= self._limit else self._fail_too_large(frames)

    @property
    def idle(self) -> bool:
        """True if no input is buffered, so that the next byte begins a frame."""
        return not self._tail and self._begun and not self._after_cr and self._late is None

    def around(self, name: bytes) -> tuple[bytes, bytes]:
        """Returns the bytes that servers usually write before and after the data of a frame with this name."""
        return (b"event: %b%bdata: " % (name, self.line_end) if name else _DATA), 2 * self.line_end

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        rest = bytes(self._tail)
        self._tail.clear()
        return self._parse(rest + b"\n\n")

    def _normalize_line_ends(self, text: bytes) -> bytes:
        """Returns the text without a byte order mark at the start of the stream, and with LF for every line end."""
        if not self._begun:
            text = bytes(self._tail) + text
            self._tail.clear()
            if len(text) < len(BOM) and BOM.startswith(text):
                self._tail += text
                return b""
            self._begun = True
            text = text.removeprefix(BOM)
        if self._after_cr and text:
            text = text.removeprefix(b"\n")
            self._after_cr = False
        if _CR in text:
            self._after_cr = text[-1] == _CR
            self.line_end = b"\r\n"  # a server that writes anything else with a CR is read in the normal way
            text = b"\n".join(text.split(b"\r\n"))  # faster than replace()
            if _CR in text:
                text = text.replace(b"\r", b"\n")
        return text

    def _fail_too_large(self, frames: list[Frame]) -> list[Frame]:
        return frames if self._late else self._fail(frames, FrameTooLarge(len(self._tail), self._limit))

    def _parse_bounded(self, whole: bytes) -> list[Frame]:
        """Parses more bytes than one frame may have; they may be many frames."""
        start = 0
        for blank in _BLANK_LINES.finditer(whole):
            size = blank.start() + 1 - start  # with the end of its last line, as it would be in the tail
            if size > self._limit:
                return self._fail(self._parse(whole[:start]), FrameTooLarge(size, self._limit))
            start = blank.end()
        return self._parse(whole)

    def _parse(self, text: bytes) -> list[Frame]:
        """Parse bytes that end with a blank line, if there are any."""
        at = text.find(_DATA) + _AFTER
        head = text[:at]
        if head == _DATA or (head.startswith(_EVENT) and head.find(b"\n") == at - _AFTER - 1):
            name = head[_NAME]
            rest = text[at:-2]
            if rest and _LF not in rest:
                return [(name, rest)]
            # Usually all frames have one name and one line of data: split at the start of the first, they have no
            # line end.
            datas = rest.rsplit(b"\n\n" + head)  # faster than split(), and the same: separators never overlap
            if b"" not in datas and _LF not in b"".join(datas):
                return [(name, data) for data in datas]
        frames: list[Frame] = _find_common(text)
        return frames if not frames or frames[-1][1] else self._parse_fuller(text)

    def _parse_fuller(self, text: bytes) -> list[Frame]:
        found: list[tuple[bytes, bytes, bytes, bytes]] = _FULLER.findall(text)
        if not found[-1][2] or _NUL in text:
            return self._parse_lines(text)
        for before, _, _, after in reversed(found):
            if before or after:
                self.last_event_id = after or before
                break
        return [(name, data) for _, name, data, _ in found]

    def _parse_lines(self, text: bytes) -> list[Frame]:
        frames: list[Frame] = []
        lines: list[bytes] = []
        for line in text.split(b"\n"):
            if line:
                lines.append(line)
            elif lines:
                frames += self._read_frame(lines)
                lines = []
        return frames

    def _read_frame(self, lines: list[bytes]) -> list[Frame]:
        name = b""
        data: list[bytes] = []
        for line in lines:
            field, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
            elif field:  # else a comment
                self._read_field(field, value)
        return [(name, b"\n".join(data))] if any(data) else _read_bare_error(lines)

    def _read_field(self, field: bytes, value: bytes) -> None:
        if field == b"id" and b"\0" not in value:
            self.last_event_id = value
        elif field == b"retry" and value.isdigit() and len(value) <= _LONGEST_RETRY:
            self.retry = int(value)


def _read_bare_error(lines: list[bytes]) -> list[Frame]:
    """An error without `data`, where WHATWG readers see a success: a field `error`, or a bare error object.

    Both end failed streams: the field at servers of open models, the object at Vertex.
    """
    for line in lines:
        if line.startswith(b"error: {"):
            return [(b"error", line[len(b"error: ") :])]
    body = b"\n".join(lines)
    return [(b"", body)] if _ERROR.match(body) else []


class SseWriter(StatelessWriter):
    r"""Frames to chunks. A frame without a name gets no `event` line; each line of the data gets a `data` line.

    Examples:
        >>> SseWriter().feed([(b"ping", b"{}")])
        [b'event: ping\ndata: {}\n\n']
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Any], /) -> list[bytes]:
        if not frames:
            return []
        if FrameRun in map(type, frames):
            return [b"".join([self._write_run(one) if type(one) is FrameRun else _write_frame(*one) for one in frames])]
        name, data = frames[0]
        if len(frames) == 1:
            return [_write_frame(name, data)]
        datas = [data for other, data in frames if other == name]
        alike = len(datas) == len(frames)
        # One search for line ends in all frames is faster than one in each.
        words = b"".join([name, *datas] if alike else chain.from_iterable(frames))
        if _LF in words or _CR in words:
            return [b"".join([_write_lines(*frame) for frame in frames])]
        if alike:
            # Usually all frames have the same name, and one join writes them.
            head = b"event: %b\ndata: " % name if name else _DATA
            return [b"%b%b\n\n" % (head, (b"\n\n" + head).join(datas))]
        return [b"".join([_HEADED % frame if frame[0] else _BARE % frame[1] for frame in frames])]

    @staticmethod
    def _write_run(run: FrameRun) -> bytes:
        if _LF in (around := run.name + run.before + run.after) or _CR in around:
            return b"".join([_write_lines(*frame) for frame in run.frames()])
        head = b'event: %b\ndata: %b"' % (run.name, run.before) if run.name else b'data: %b"' % run.before
        tail = b'"%b\n\n' % run.after
        return b"%b%b%b" % (head, (tail + head).join(run.words), tail)


class GoogleSseWriter(SseWriter):
    """Server-sent events as Google sends them: an error stands outside them, as a bare JSON object.

    Google's servers end a failed stream with such an object (https://github.com/vercel/ai/issues/5217). js-genai 1.30,
    which Gemini CLI uses, raises an error only if one read of the network is such an object and nothing else
    (https://github.com/googleapis/js-genai/blob/v1.30.0/src/_api_client.ts, processStreamResponse). The AI SDK reads
    events only. So a frame named `error` is written twice: bare, in a chunk of its own, then as an event.
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Any], /) -> list[bytes]:
        named = enumerate(frames)
        place = next((place for place, one in named if type(one) is tuple and one[0] == ERROR), None)
        if place is None:
            return super().feed(frames)
        data = frames[place][1]
        bare = b" ".join(data.splitlines()) + b"\n\n"
        return [*super().feed(frames[:place]), bare, *super().feed([(b"", data)]), *self.feed(frames[place + 1 :])]


def split_bare_error(data: bytes) -> list[bytes]:
    """The chunks that `GoogleSseWriter` made of the data: what stands before a bare error, the error, and the rest.

    Every line of an event begins with the name of a field, so a line that begins with a brace is a bare object.
    """
    found = _BARE_ERROR.search(data)
    if found is None:
        return [data]
    pieces = data[: found.start()], found.group(), data[found.end() :]
    return [piece for piece in pieces if piece]


def _write_frame(name: bytes, data: bytes) -> bytes:
    if _LF in (words := name + data) or _CR in words:
        return _write_lines(name, data)
    return _HEADED % (name, data) if name else _BARE % data


def _write_lines(name: bytes, data: bytes) -> bytes:
    """One frame whose name or data may hold line ends; those in the name, which has one line, become spaces."""
    event = b"event: %b\n" % b" ".join(name.splitlines()) if name else b""
    return b"%b%b\n" % (event, b"".join([b"data: %b\n" % line for line in _LINE_END.split(data)]))
