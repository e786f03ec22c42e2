"""The base classes of decoders and encoders: a table of handlers by type, and the handling of irregular frames.

Subclasses set a table. Handlers of a decoder write to `self.ledger`, those of an encoder append to `self.out`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar
from weakref import ref

import msgspec

from penstock import _delta_templates as delta_templates
from penstock import _lenient_json as jsontext
from penstock._delta_templates import Removers, TemplateReader
from penstock._diagnostics import Diagnostics, Losses
from penstock._framing.base import Frame
from penstock._input_limits import MAX_JSON_DEPTH, SHALLOW, NestingError, is_closed, nests_deeper, too_deep
from penstock._ledger import Ledger, LedgerPart
from penstock._lenient_fields import as_object, get_text
from penstock._request_profile import Profile
from penstock._text_runs import DELTAS, NO_TEMPLATE, FrameTemplate, TextRun
from penstock._vendor_errors import ErrorTable
from penstock.events import EVENTS, AnyEvent, CallDelta, Fault, Unknown

ILL_SHAPED = (
    TypeError, AttributeError, LookupError, ValueError, ArithmeticError, AssertionError, RuntimeError,
    msgspec.MsgspecError,
)  # fmt: skip
TOO_DEEP = f"the provider sent JSON that nests deeper than {MAX_JSON_DEPTH} levels"
DAMAGED = "the provider sent JSON that is not valid UTF-8, with a bad byte in the name or the type of a field"
STRICT = False  # tests with well-formed streams set it: an error in a handler is then a bug


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
    profile: Profile | None = None  # what its vendor demands of requests
    messages_field: str = "messages"  # the field of a request that holds the conversation
    snake_case: bool = False  # the names of its request fields are in snake_case
    carries_options: bool = False  # a request has a field for the options of all providers
    disables_thinking: bool = False  # every model accepts a request not to think
    stop_sequence_field: str = ""  # the field of an answer that names the stop sequence it ended with
    inline_files: bool = False  # its clients show data of files, not addresses
    errors: ErrorTable | None = None  # what its vendor sends for each kind of fault
    error_body: Callable[[Fault], dict[str, Any]] | None = None  # a fault as the body of an HTTP error
    priced_tokens: Callable[[dict[str, Any]], dict[str, int]] | None = None  # of a usage object: `costs.PricedTokens`


class Decoder:
    """Frames to events, for any bytes. The table maps a payload's type to the method that reads it."""

    protocol: ClassVar[str]
    shape: ClassVar[Any]  # the type of a payload: a Struct, or a union of tagged ones
    read: Any  # msgspec.json.Decoder(shape).decode
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    prune: ClassVar[bool] = True  # leave out ill-fitting fields rather than give the whole payload up
    mark: ClassVar[bytes] = b""  # a frame in every stream that is not a payload
    ignored: ClassVar[Removers] = ()  # fields that do not matter inside a turn: see `delta_templates`
    counted: ClassVar[Removers] = ()  # remove running counts, in which frames of a template may differ

    def __init__(self) -> None:
        self.diagnostics: Diagnostics = Diagnostics(f"{self.protocol} decoder")
        self.ledger: Ledger = Ledger(self.diagnostics)
        self.frame: Frame = (b"", b"")  # the frame that is being read
        keep = weak_method(self.keep_texts)
        self.templates: TemplateReader = TemplateReader(self.ledger, self.ignored, self.counted, keep)
        self.irregular: int = 0  # frames that are not strict JSON of the expected type; a passthrough checks them
        self.without_choices: int = 0  # payloads without choices; a passthrough may remove one that only reports usage
        self.malformed: int = 0  # irregular frames that cannot be read at all: they are skipped

    @property
    def pending(self) -> str:
        """`finish` or `error` once the end of the answer is known and only optional frames may follow."""
        return "finish" if self.ledger.finishing and not self.ledger.has_open_part else ""

    def __init_subclass__(cls, **options: Any) -> None:
        """Wraps `finish`: no decoder raises at the end of its input."""
        super().__init_subclass__(**options)
        if "finish" in cls.__dict__:
            setattr(cls, "finish", _never_raising(cls.finish))  # noqa: B010 — an assignment would be a type error

    def feed(self, frames: Sequence[Frame], /) -> list[AnyEvent]:
        templates = self.templates
        if len(frames) >= delta_templates.FEWEST_FRAMES or templates.wanted:
            self._read_by_template(frames)
        else:  # to parse a few frames is cheaper than to compare them
            templates.known = None
            for frame in frames:
                self._read_frame(frame)
        return self.ledger.drain()

    def _read_by_template(self, frames: Sequence[Frame]) -> None:
        """Reads frames. Frames that differ from the one before only in their text are not parsed."""
        out, templates = self.ledger.out, self.templates
        number, many = templates.read_frames(frames, 0) if templates.known is not None else 0, len(frames)
        while number < many:
            frame = frames[number]
            number += 1
            size, templates.known = len(out), None
            self._read_frame(frame)
            if len(out) == size + 1 and type(out[size]) in DELTAS and delta_templates.enabled:
                part = self._repeatable(out[size])
                if part is not None:
                    templates.learn(frame, out[size], part)
                    if templates.known is not None and number < many:
                        number = templates.read_frames(frames, number)

    def _read_frame(self, frame: Frame) -> None:
        if self.templates.held is not None:
            self._catch_up()
        data = frame[1]
        if data == self.mark:
            self._read_irregular(*frame)
            return
        try:
            if len(data) > SHALLOW and too_deep(data):
                self._too_deep()
                return
            payload = self.read(data)  # looked up each time: a handler may replace it by a faster one
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._read_irregular(frame[0], data)
            return
        self.frame = frame
        try:
            self.table[type(payload)](self, payload)
        except ILL_SHAPED as error:
            self._report_wrong_shape(error)

    def _catch_up(self) -> None:
        """Read the counts of the last frame that was read by its template."""
        if self.templates.held is None:
            return
        self.frame, self.templates.held = self.templates.held, None
        try:
            self.recount(self.read(self.frame[1]))
        except ILL_SHAPED as error:  # a DecodeError and a UnicodeDecodeError, too
            self._report_wrong_shape(error)

    def recount(self, payload: Any) -> None:
        """Reads everything in a payload but its text. For decoders with `counted` values."""

    def _repeatable(self, event: Any) -> LedgerPart | None:
        """Returns the part of a delta if further texts of it would be read in the same way."""
        part = self.ledger.last
        if part is None or part.index != event.index or not part.open or self.ledger.fix_surrogates:
            return None
        return part if getattr(event, "logprobs", None) is None and self.delivers_text_unchanged(part) else None

    def delivers_text_unchanged(self, part: LedgerPart) -> bool:
        """True if texts of this part are delivered unchanged, whatever they contain."""
        return True

    def keep_texts(self, part: LedgerPart, texts: list[str]) -> None:
        """Keeps texts that were read by a template, if the part keeps its texts."""
        if part.pieces is not None:
            part.pieces += texts

    def read_payload(self, payload: Any) -> list[AnyEvent]:
        """Reads a payload that is already parsed."""
        if nests_deeper(payload):
            self._too_deep()
        else:
            self._convert_payload("", payload, lambda: self._dumped(payload))
        return self.ledger.drain()

    def _dumped(self, payload: Any) -> bytes:
        """Returns the frame of a parsed payload. Everything else than JSON is written as its `repr`."""
        try:
            return msgspec.json.encode(payload, enc_hook=repr)
        except UnicodeEncodeError:
            self.ledger.fix_surrogates = True
            return msgspec.json.encode(jsontext.replace_surrogates(payload), enc_hook=repr)
        except ILL_SHAPED:
            return msgspec.json.encode(repr(payload))

    def body(self, data: bytes) -> list[AnyEvent]:
        """Reads the body of a non-stream answer as one turn."""
        events = self.feed_body(data)
        self.mark_complete()
        return [*events, *self.finish()]

    def feed_body(self, data: bytes) -> list[AnyEvent]:
        """Reads a body without ending the turn. Bad bytes in texts become U+FFFD; in field names they are a fault."""
        try:
            data.decode()
        except UnicodeDecodeError:
            self.diagnostics.add("invalid-utf-8", "the body is not valid UTF-8; bad bytes are replaced with U+FFFD")
            if jsontext.has_damaged_name(jsontext.parse_lenient(data)):
                self._break_off(DAMAGED)
            else:
                self._read_irregular(b"", data)
            return self.ledger.drain()
        return self.feed([(b"", data)])

    def mark_complete(self) -> None:
        """Ends what only a stream has to end explicitly: a body is always complete."""

    def shape_of(self, value: Any) -> Any:
        """Returns the type to convert a parsed payload to. Converting to one type is cheaper than to a union."""
        return self.shape

    def report_unknown(self) -> None:
        """Reports the current frame as an `Unknown` event: it is well formed, but has no canonical event."""
        name, data = self.frame
        self.ledger.unknown(self.protocol, data.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def finish(self) -> list[AnyEvent]:
        self._catch_up()
        self.ledger.eof()
        return self.ledger.drain()

    def read_special_frame(self, name: str, data: bytes) -> bool:
        """Reads a frame that is not a payload (`[DONE]`, `event: error`). True if it was understood."""
        return False

    def _read_irregular(self, name: bytes, data: bytes) -> None:
        try:
            self._parse_irregular(name, data)
        except NestingError:
            if is_closed(data):
                self._too_deep()
            else:
                self._skip_malformed(data)
        except ILL_SHAPED as error:
            self._report_wrong_shape(error)

    def _skip_malformed(self, data: bytes) -> None:
        self.malformed += 1
        shown = data[:80].decode("utf-8", "replace")
        self.diagnostics.add("malformed", f"a frame that is not JSON is skipped: {shown!r}")

    def _too_deep(self) -> None:
        self.diagnostics.add("too-deep", TOO_DEEP)
        self._break_off(TOO_DEEP)

    def _break_off(self, message: str) -> None:
        """Ends the turn with a fault: the answer cannot be read further and must not look complete."""
        self.ledger.fault("malformed", message)

    def _parse_irregular(self, name: bytes, data: bytes) -> None:
        label = name.decode("utf-8", "replace")
        if data != self.mark:
            self.irregular += 1
        if self.read_special_frame(label, data):
            return
        value = jsontext.parse_lenient_bounded(data)
        if value is None:
            self._skip_malformed(data)
            return
        self.ledger.fix_surrogates = True
        self._convert_payload(label, value, lambda: data)

    def _report_wrong_shape(self, error: Exception) -> None:
        """Reports a payload of an unexpected shape. Only this payload is lost, not the stream."""
        if STRICT:
            raise error
        self.diagnostics.add("wrong-shape", "a payload could not be read to its end: it has an unexpected shape")

    def _convert_payload(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        try:
            shape = self.shape_of(value)
            payload, dropped = (
                jsontext.convert_pruned(value, shape) if self.prune else (msgspec.convert(value, shape), [])
            )
        except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
            kind = get_text(as_object(value), "type")
            self.ledger.unknown(self.protocol, raw().decode("utf-8", "replace"), name or kind)
            return
        self.frame = (name.encode(), raw())
        for path in dropped:
            self.diagnostics.add("wrong-shape", f"{path} is not of the shape it should have and is left out")
        try:
            self.table[type(payload)](self, payload)
        except ILL_SHAPED as error:
            self._report_wrong_shape(error)


def _never_raising(finish: Callable[[Any], list[AnyEvent]]) -> Callable[[Any], list[AnyEvent]]:
    """Returns a `finish` that ends the turn with a fault if the decoder's `finish` raises."""

    @wraps(finish)
    def finished(decoder: Decoder) -> list[AnyEvent]:
        try:
            return finish(decoder)
        except ILL_SHAPED as error:
            decoder._report_wrong_shape(error)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            decoder.ledger.fault("malformed", "the end of the stream could not be read")
            return decoder.ledger.drain()

    return finished


def weak_method(method: Any) -> Any:
    """Returns a bound method with a weak reference to its owner, so that no reference cycle arises."""
    owner, call = ref(method.__self__), method.__func__

    def called(*args: Any) -> Any:
        return call(owner(), *args)

    return called


class Encoder:
    """Events to frames. The table has a row for every event type, so that no event is forgotten."""

    protocol: ClassVar[str]
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    losses: ClassVar[Losses]

    def __init__(self) -> None:
        self.diagnostics: Diagnostics = Diagnostics(f"{self.protocol} encoder")
        self.out: list[Any] = []  # frames, and runs of frames
        self.template: FrameTemplate = NO_TEMPLATE  # of the deltas of an open part

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        """Returns the frames of a batch. A run of deltas may become a `FrameRun`."""
        self.out = []
        for event in events:
            self.write(event)
        return self.out

    def write(self, event: Any) -> None:
        """Writes an event by the table, or a further delta of the open part by its template."""
        kind: Any = type(event)  # pyright: ignore[reportUnknownVariableType]
        template = self.template
        try:
            if kind is template.kind and event.index == template.index and getattr(event, "logprobs", None) is None:
                self.out.append(template.frame(event.json if kind is CallDelta else event.text))
            elif kind is TextRun:
                self._write_text_run(event, template)
            else:
                self.table[kind](self, event)
        except ILL_SHAPED as error:
            self._report_wrong_shape(event, error)

    def _write_text_run(self, run: TextRun, template: FrameTemplate) -> None:
        if run.kind is template.kind and run.index == template.index:
            self.out += template.run(run)
            return
        for event in run.to_deltas():
            self.write(event)

    def finish(self) -> list[Frame]:
        return []

    def _report_wrong_shape(self, event: AnyEvent, error: Exception) -> None:
        """Reports an event whose `extra` or data has an unexpected shape. Only this event is lost, not the stream."""
        if STRICT:
            raise error
        kind = type(event).__name__
        self.diagnostics.add("wrong-shape", f"a {kind} could not be written: it has an unexpected shape")

    def report_loss(self, what: str) -> None:
        """Reports a loss. It must be a row of the protocol's LOSSES."""
        self.diagnostics.add(f"loss-{what}", f"{self.protocol}: {self.losses[what]}")


class MethodTableEncoder(Encoder):
    """An encoder whose table is built from its methods: `_write_<tag>` writes the event with that tag."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = {event: f"_write_{event.__struct_config__.tag}".replace("-", "_") for event in EVENTS}
        cls.table = {event: getattr(cls, name) for event, name in names.items() if hasattr(cls, name)}


def lost(what: str) -> Callable[[Encoder, Any], None]:
    """Returns the table row of an event that a protocol cannot express."""

    def row(encoder: Encoder, _: Any) -> None:
        encoder.report_loss(what)

    return row


def nothing(_: Encoder, __: Any) -> None:
    """The row of events that need no output: their content is written elsewhere, or its loss is reported already."""


def verbatim(encoder: Encoder, event: Unknown) -> None:
    """The row of `Unknown`: writes the payload unchanged if it is of the same protocol."""
    if event.protocol == encoder.protocol:
        encoder.out.append((event.name.encode(), event.data.encode()))
    else:
        encoder.report_loss("unknown")
