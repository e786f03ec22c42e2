"""What all codecs share: a table of handlers by payload or event type, and what to do with an odd frame.

A decoder subclass names its protocol, its payload shape and its table; handlers write to `self.ledger`.
An encoder subclass names its table; handlers append to `self.out`. Neither knows framing or IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from weakref import ref

import msgspec

from penstock.diagnostics import Diagnostics
from penstock.events import Fault, TextDelta
from penstock.framing import Frame
from penstock.input_limits import MAX_JSON_DEPTH
from penstock.json_depth import SHALLOW, NestingError, is_closed, nests_deeper, too_deep
from penstock.jsontext import clean, fit, has_damaged_name, loose, loose_bounded
from penstock.parts import Ledger, Part
from penstock.pick import as_object, text
from penstock.vendor_errors import ErrorTable

if TYPE_CHECKING:
    from penstock.events import AnyEvent, Unknown

# A frame that only says more of one part: its name, what stands before the text and behind it, the part.
Like: TypeAlias = tuple[bytes, bytes, bytes, Part]
Losses: TypeAlias = Mapping[str, str]  # what a protocol cannot express → what happens instead
ILL_SHAPED = (
    TypeError, AttributeError, LookupError, ValueError, ArithmeticError, AssertionError, RuntimeError,
    msgspec.MsgspecError,
)  # fmt: skip
UNFINISHED = "the end of the stream could not be read"
TOO_DEEP = f"the provider sent JSON that nests deeper than {MAX_JSON_DEPTH} levels"
DAMAGED = "the provider sent JSON that is not valid UTF-8, with a bad byte in the name or the type of a field"
NO_MORE = (-1, b"", b"")  # of an open text: its part's number, its frames' name, its line with %b for the words
LESSONS = 16  # frames that are learnt from in vain
_encode = msgspec.json.Encoder().encode
STRICT = False  # tests over well-formed streams switch this on: there an ill-shaped payload is a bug of ours


class Protocol(msgspec.Struct, frozen=True):
    """A protocol's row: what it can do and how it is framed. Each protocol folder has one, named `PROTOCOL`."""

    name: str
    looks: Callable[[str, dict[str, Any]], bool]  # does a frame (its name, its JSON object) look like this protocol?
    decoder: Callable[..., Decoder] | None = None
    encoder: Callable[..., Encoder] | None = None
    reads: str = "sse"
    writes: str = "sse"
    sequential: bool = False  # the encoder needs one part open at a time
    versions: tuple[str, ...] = ()  # what may stand behind an @ in its name
    body: Callable[[Sequence[Frame]], bytes] | None = None  # an encoder's frames as one non-stream body
    end_marks: tuple[bytes, ...] = ()  # one of them is in the last frame of a stream; in a text, quotes are escaped
    end_frame: bytes = b""  # the last frame of a stream, where it is always the same
    requires_limit: bool = False  # a request without an output limit is refused
    errors: ErrorTable | None = None  # what its vendor sends for each kind of fault
    error_body: Callable[[Fault], dict[str, Any]] | None = None  # a fault as the body of an HTTP error


class Decoder:
    """Frames to events, for any bytes. The table maps a payload's type to the method that reads it."""

    protocol: ClassVar[str]
    shape: ClassVar[Any]  # the type of a payload: a Struct, or a union of tagged ones
    read: Any  # msgspec.json.Decoder(shape).decode
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    prune: ClassVar[bool] = True  # leave out ill-fitting fields rather than give the whole payload up
    mark: ClassVar[bytes] = b""  # a frame that is no payload, where every stream has one

    def __init__(self) -> None:
        self.diagnostics = Diagnostics(f"{self.protocol} decoder")
        self.ledger = Ledger(self.diagnostics)
        self.frame: Frame = (b"", b"")  # the frame being read, for what must be kept as it was
        self.like: Like | None = None  # what the frame before this one was, if that only said more text
        self._lessons = self._hits = 0
        self.irregular = 0  # frames that the strict reader refused; a passthrough looks at their bytes
        self.malformed = 0  # those of them that nobody can read: they are skipped

    @property
    def pending(self) -> str:
        """`finish` or `error` once the answer has said how it ends and only optional frames may follow."""
        ledger = self.ledger
        return "finish" if ledger.finishing and not ledger.has_open_part else ""

    def __init_subclass__(cls, **options: Any) -> None:
        """No decoder raises at the end of its input, whatever state the frames before have left it in."""
        super().__init_subclass__(**options)
        if "finish" in cls.__dict__:
            setattr(cls, "finish", _never_raising(cls.finish))  # noqa: B010 — an assignment would be a type error

    def feed(self, frames: Sequence[Frame], /) -> list[AnyEvent]:
        table, mark = self.table, self.mark
        like = self.like
        alike = self._alike(frames, 0, like) if like is not None else 0
        for number, frame in enumerate(frames):
            if number < alike:
                continue
            if frame[1] == mark:
                self._odd(*frame)
                continue
            data = frame[1]
            try:
                if len(data) > SHALLOW and too_deep(data):
                    self._too_deep()
                    continue
                payload = self.read(data)  # looked up each time: a handler may know of a quicker one from here on
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._odd(frame[0], data)
                continue
            self.frame, self.like = frame, None
            try:
                table[type(payload)](self, payload)
            except ILL_SHAPED as error:
                self._ill(error)
            like = self.like
            if like is not None:
                alike = self._alike(frames, number + 1, like)
        return self.ledger.drain()

    def learn(self, part: Part, text: str) -> None:
        """The frame being read says `text` for `part` and nothing else: one that differs in its text alone is known.

        Only a text that stands in the frame as it is, and once, shows its place. Where frames differ in more (some
        carry a number, or padding) no place is ever found again, and the search is given up.
        """
        self._lessons += 1
        if self._lessons > self._hits + LESSONS:
            return
        name, data = self.frame
        said = b'"%b"' % text.encode("utf-8", "replace")
        at = data.find(said) + 1
        if at and data.find(said, at) < 0 and b"\\" not in data:
            self.like = (name, data[:at], data[at + len(said) - 2 :], part)

    def _alike(self, frames: Sequence[Frame], number: int, like: Like) -> int:
        """Tell the texts of the frames from that one on that are like the one learnt from; the number of the next."""
        name, before, after, part = like
        if not part.open or self.ledger.mending:
            return number
        start, behind = len(before), len(after)
        said: list[bytes] = []
        for label, data in frames[number:] if number else frames:
            if label != name or not (data.startswith(before) and data.endswith(after)):
                break
            said.append(data[start : len(data) - behind])
        texts = as_they_stand(said)
        self.ledger.out.extend(map(part.delta, repeat(part.index), texts))
        if part.pieces is not None:
            part.pieces += texts
        self._hits += len(texts)
        return number + len(texts)

    def take(self, payload: Any) -> list[AnyEvent]:
        """Read one payload that is parsed already: the plain object its JSON would give."""
        if nests_deeper(payload):
            self._too_deep()
        else:
            self._fit("", payload, lambda: self._dumped(payload))
        return self.ledger.drain()

    def _dumped(self, payload: Any) -> bytes:
        """A parsed payload as its frame would have been. What JSON cannot hold is shown, or mended from here on."""
        try:
            return msgspec.json.encode(payload, enc_hook=repr)
        except UnicodeEncodeError:
            self.ledger.mending = True
            return msgspec.json.encode(clean(payload), enc_hook=repr)
        except ILL_SHAPED:
            return msgspec.json.encode(repr(payload))

    def body(self, data: bytes) -> list[AnyEvent]:
        """Read the whole body of a non-stream answer as one turn."""
        events = self.feed_body(data)
        self.settle()
        return [*events, *self.finish()]

    def feed_body(self, data: bytes) -> list[AnyEvent]:
        """Read a whole body, but not its end.

        Bytes that are not UTF-8 are replaced with U+FFFD in texts: some servers cut a character in two. In the name of
        a field they are a fault: the strict reader would skip the field, and an answer without it would look complete.
        """
        try:
            data.decode()
        except UnicodeDecodeError:
            self.diagnostics.add("invalid-utf-8", "the body is not valid UTF-8; bad bytes are replaced with U+FFFD")
            if has_damaged_name(loose(data)):
                self._break_off(DAMAGED)
            else:
                self._odd(b"", data)
            return self.ledger.drain()
        return self.feed([(b"", data)])

    def settle(self) -> None:
        """What was read is a whole body: it is complete, even where a stream would have had to say so."""

    def shape_of(self, value: Any) -> Any:
        """The shape a parsed payload is fitted to. A union of many types is dear to convert to, one type is cheap."""
        return self.shape

    def keep(self) -> None:
        """Let the frame being read out as it is: well formed, but without a canonical word."""
        name, data = self.frame
        self.ledger.unknown(self.protocol, data.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def finish(self) -> list[AnyEvent]:
        self.ledger.eof()
        return self.ledger.drain()

    def named(self, name: str, data: bytes) -> bool:
        """Read a frame that is not a payload (`[DONE]`, `event: error`). True if it was understood."""
        return False

    def _odd(self, name: bytes, data: bytes) -> None:
        try:
            self._read_odd(name, data)
        except NestingError:
            if is_closed(data):
                self._too_deep()
            else:
                self._skip_malformed(data)
        except ILL_SHAPED as error:
            self._ill(error)

    def _skip_malformed(self, data: bytes) -> None:
        self.malformed += 1
        shown = data[:80].decode("utf-8", "replace")
        self.diagnostics.add("malformed", f"a frame that is not JSON is skipped: {shown!r}")

    def _too_deep(self) -> None:
        self.diagnostics.add("too-deep", TOO_DEEP)
        self._break_off(TOO_DEEP)

    def _break_off(self, message: str) -> None:
        """End the turn with a fault: what came cannot be read, and must not look complete."""
        self.ledger.fault("malformed", message)

    def _read_odd(self, name: bytes, data: bytes) -> None:
        label = name.decode("utf-8", "replace")
        if data != self.mark:
            self.irregular += 1
        if self.named(label, data):
            return
        value = loose_bounded(data)
        if value is None:
            self._skip_malformed(data)
            return
        self.ledger.mending = True
        self._fit(label, value, lambda: data)

    def _ill(self, error: Exception) -> None:
        """A payload whose insides are of no shape anyone foresaw costs itself, not the stream."""
        if STRICT:
            raise error
        self.diagnostics.add(
            "wrong-shape", "a payload could not be read to its end: part of it has an unexpected shape"
        )

    def _fit(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        try:
            shape = self.shape_of(value)
            payload, dropped = fit(value, shape) if self.prune else (msgspec.convert(value, shape), [])
        except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
            kind = text(as_object(value), "type")
            self.ledger.unknown(self.protocol, raw().decode("utf-8", "replace"), name or kind)
            return
        self.frame = (name.encode(), raw())
        for path in dropped:
            self.diagnostics.add("wrong-shape", f"{path} is not of the shape it should have and is left out")
        try:
            self.table[type(payload)](self, payload)
        except ILL_SHAPED as error:
            self._ill(error)


def _never_raising(finish: Callable[[Any], list[AnyEvent]]) -> Callable[[Any], list[AnyEvent]]:
    """A decoder's `finish` that ends the turn with a fault where the decoder's own fails."""

    @wraps(finish)
    def finished(decoder: Decoder) -> list[AnyEvent]:
        try:
            return finish(decoder)
        except ILL_SHAPED as error:
            decoder._ill(error)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            decoder.ledger.fault("malformed", UNFINISHED)
            return decoder.ledger.drain()

    return finished


def weakly(method: Any) -> Any:
    """A method for those whom its owner holds: what holds each other would only be freed by the collector."""
    owner, call = ref(method.__self__), method.__func__

    def called(*args: Any) -> Any:
        return call(owner(), *args)

    return called


def as_they_stand(said: list[bytes]) -> list[str]:
    """What stands between the quotes of JSON strings, as text, up to the first that says something else there."""
    try:
        texts = [words.decode() for words in said]
    except UnicodeDecodeError:
        texts = []
    if texts and all(texts) and plain("".join(texts)):
        return texts  # mostly: one look at all of it is cheaper than one at each
    made: list[str] = []
    for words in said:
        text = words.decode("utf-8", "replace")
        if not text or "\ufffd" in text or not plain(text):
            break
        made.append(text)
    return made


def plain(text: str) -> bool:
    """Whether a text stands in JSON as it is. Some that do are not told so, and read in the other way."""
    return '"' not in text and "\\" not in text and text.isprintable()


class Encoder:
    """Events to frames. Every event type has its row in the table: nothing is left out by forgetting it."""

    protocol: ClassVar[str]
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    losses: ClassVar[Losses]

    def __init__(self) -> None:
        self.diagnostics = Diagnostics(f"{self.protocol} encoder")
        self.out: list[Frame] = []
        self.more = NO_MORE

    def feed(self, events: Sequence[AnyEvent], /) -> list[Frame]:
        """The table's work; more of the text that is open, as most events are, is written here without a call."""
        out = self.out = []
        table = self.table
        part, name, line = self.more
        for event in events:
            try:
                if type(event) is TextDelta and event.index == part and event.logprobs is None:
                    out.append((name, line % _encode(event.text)))
                else:
                    table[type(event)](self, event)
                    part, name, line = self.more
            except ILL_SHAPED as error:
                self._ill(event, error)
        return out

    def word(self, event: TextDelta) -> Frame | None:
        """The one frame of one more word of the text that is open; None where it takes more than that."""
        part, name, line = self.more
        return (name, line % _encode(event.text)) if event.index == part and event.logprobs is None else None

    def finish(self) -> list[Frame]:
        return []

    def _ill(self, event: AnyEvent, error: Exception) -> None:
        """An event whose `extra` or data is of no shape its protocol gives it costs itself, not the stream."""
        if STRICT:
            raise error
        self.diagnostics.add(
            "wrong-shape", f"a {type(event).__name__} could not be written: it has an unexpected shape"
        )

    def lose(self, what: str) -> None:
        """Report a row of this protocol's LOSSES: a loss that is not written down cannot be reported."""
        self.diagnostics.add(f"loss-{what}", f"{self.protocol}: {self.losses[what]}")


# ── rows that most tables of encoders have ────────────────────────────────────────────────────────────────────────────


def lost(what: str) -> Callable[[Encoder, Any], None]:
    """The row of an event that a protocol has no word for."""

    def row(encoder: Encoder, _: Any) -> None:
        encoder.lose(what)

    return row


def nothing(_: Encoder, __: Any) -> None:
    """The row of framing, of fragments that leave whole at their end, and of the rest of what was said to be lost."""


def verbatim(encoder: Encoder, event: Unknown) -> None:
    """The row of payloads without a canonical word: their own protocol gets them back as they were."""
    if event.protocol == encoder.protocol:
        encoder.out.append((event.name.encode(), event.data.encode()))
    else:
        encoder.lose("unknown")
