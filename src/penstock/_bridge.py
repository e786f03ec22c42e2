"""`bridge("anthropic", "vscode")` returns a pipe from one protocol's bytes to another's. `translate` runs one.

bytes → parser → frames → decoder → events → guard → shaping → encoder → frames → writer → bytes
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

from penstock import _option_checks as checks
from penstock import _protocols as protocols
from penstock._codec import ILL_SHAPED
from penstock._detect import DetectingDecoder
from penstock._diagnostics import Diagnostic
from penstock._framing import PARSERS, WRITERS, AutoParser, named_framing
from penstock._framing.base import LIMIT, Frame
from penstock._grammar import TERMINALS, Guard
from penstock._pipeline import Pipe, Stage
from penstock._transforms.serialize import SerializeParts
from penstock.errors import BadAnswer, InputError, UnknownProtocol
from penstock.events import Fault, Finish, Start

WholeBody: TypeAlias = bytes | bytearray | memoryview
DEFAULT_CLOCK: Callable[[], float] = time.time
_END: Any = object()  # stands for the chunk after the last one


class BridgeOptions(TypedDict, total=False):
    """The options of `bridge`.

    `framing` is found out by default. `limit`: the most bytes of a frame (64 MiB by default); a larger one raises
    `FrameTooLarge`. `shaping`: further event → event stages. `source_options` go to the decoder, `target_options` to
    the encoder.
    """

    framing: str
    limit: int
    shaping: tuple[Stage[Any, Any], ...]
    source_options: Mapping[str, Any] | None
    target_options: Mapping[str, Any] | None


class TranslateOptions(BridgeOptions, total=False):
    """The options of `translate`, which explains them."""

    errors: Literal["raise", "fault"]
    on_diagnostic: Callable[[Diagnostic], None] | None
    turns: int | None
    clock: Callable[[], float] | None


_BRIDGE_CHECKS: dict[str, checks.Option] = {
    "framing": checks.TEXT,
    "limit": checks.NUMBER,
    "shaping": checks.STAGES,
    **dict.fromkeys(("source_options", "target_options"), checks.MAPPING_OR_NONE),
}
_TRANSLATE_CHECKS: dict[str, checks.Option] = {
    **_BRIDGE_CHECKS,
    **dict.fromkeys(("clock", "on_diagnostic"), checks.FUNCTION_OR_NONE),
    "errors": checks.one_of(("raise", "fault")),
    "turns": checks.COUNT_OR_NONE,
}


def parser(name: str, limit: int = LIMIT, content_type: str = "") -> Stage[bytes, Any]:
    """Returns the parser of a framing. `auto` detects the framing by the first bytes, else by the content type.

    No frame may have more than `limit` bytes.
    """
    if name not in PARSERS:
        raise UnknownProtocol(name, PARSERS, "framing")
    if limit < 1:
        raise InputError(f"limit is the most bytes that a frame may have, at least 1, not {limit}")
    if name == "auto":
        return AutoParser(limit=limit, fallback=named_framing(content_type) or "ndjson")
    return PARSERS[name](limit=limit)


def check_bridge_options(function: str, options: BridgeOptions) -> None:
    """Raises an `InputError` for an option that is unknown or of the wrong kind."""
    checks.check_options(function, options, _BRIDGE_CHECKS)


def bridge(source: str, target: str, **options: Unpack[BridgeOptions]) -> Pipe[bytes, bytes]:
    r"""Returns a new pipe for one stream. The source `auto` is detected by the first frames.

    An option that is unknown, or has a value of the wrong kind, raises an `InputError` with the nearest name.

    Examples:
        >>> pipe = bridge("openai-chat", "events")
        >>> pipe.feed(b'data: {"id":"c1","model":"m","choices":[{"delta":{"content":"Hel')
        []
        >>> b"text-delta" in b"".join(pipe.feed(b'lo"}}]}\n\n'))
        True
        >>> b"truncated" in b"".join(pipe.finish())  # the stream ended before the answer did
        True
    """
    check_bridge_options("bridge", options)
    given = options.get("source_options") or {}
    decode: Stage[Any, Any] = DetectingDecoder(given) if source == "auto" else protocols.decoder(source, **given)
    parse = parser(options.get("framing", "auto"), options.get("limit", LIMIT))
    encode = encoding(target, options.get("target_options"))
    return Pipe(parse, decode, Guard(), *options.get("shaping", ()), *encode.stages)


def encoding(target: str, options: Mapping[str, Any] | None = None, *, frames: bool = False) -> Pipe:
    """Returns the second half of a bridge: events in, the target's bytes out (or its frames)."""
    row = protocols.protocol(target)
    order: tuple[Stage[Any, Any], ...] = (SerializeParts(),) if row.sequential else ()
    encode = protocols.encoder(target, **(options or {}))
    return Pipe(*order, encode) if frames else Pipe(*order, encode, WRITERS[row.writes]())


def write_body(body: Callable[[Sequence[Frame]], bytes], frames: Sequence[Frame]) -> bytes:
    """Calls a protocol's `body`. Frames that it cannot join raise `BadAnswer`, which callers report as a fault."""
    try:
        return body(frames)
    except ILL_SHAPED as error:
        message = "the answer cannot be written as one body: data in it has an unexpected shape"
        raise BadAnswer(Fault("malformed", message)) from error


# ── translate ─────────────────────────────────────────────────────────────────────────────────────


@overload
def translate(
    chunks: WholeBody | Iterable[bytes], source: str = ..., target: str = ..., **options: Unpack[TranslateOptions]
) -> Generator[bytes, None, None]: ...


@overload
def translate(
    chunks: AsyncIterable[bytes], source: str = ..., target: str = ..., **options: Unpack[TranslateOptions]
) -> AsyncGenerator[bytes, None]: ...


def translate(
    chunks: WholeBody | Iterable[bytes] | AsyncIterable[bytes],
    source: str = "auto",
    target: str = "events",
    **options: Unpack[TranslateOptions],
) -> Generator[bytes, None, None] | AsyncGenerator[bytes, None]:
    r"""Translates a stream: a generator of bytes, async if `chunks` is; at most one chunk out for each chunk in.

    `source="auto"` detects the protocol. `options` are those of `bridge` and the following ones. `on_diagnostic` gets
    every diagnostic once the stream is over.

    Reading stops, and `chunks` is closed, at the first frame that is a fault, and when `turns` turns have ended. What
    follows in the same chunk is left out, so that the result does not depend on how the bytes are cut. Without `turns`
    reading continues to the end of `chunks`: a stream may hold several turns.

    Some targets need the time of an answer (`created`). If the source has none, it is what `clock` returns, by default
    `time.time`. A `created` among the `target_options` comes first.

    If `chunks` raises, or its bytes cannot be read, a fault ends the output in the target's format; then the error is
    raised. With `errors="fault"` it is not raised, and the fault is written even if there was no output before.

    Examples:
        >>> answer = [b'data: {"id":"c1","model":"m","choices":[{"delta":{"content":"Hel', b'lo"}}]}\n\n']
        >>> answer += [b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n']
        >>> print(b"".join(translate(answer, "openai-chat", "events")).decode(), end="")
        {"type":"start","id":"c1","model":"m"}
        {"type":"text-start","index":0}
        {"type":"text-delta","index":0,"text":"Hello"}
        {"type":"text-end","index":0}
        {"type":"finish","reason":"stop","raw":"stop"}
    """
    checks.check_options("translate", options, _TRANSLATE_CHECKS)
    run = _Translation(source, target, options)
    if isinstance(chunks, AsyncIterable):
        return _translate_async(chunks, run)
    return _translate((bytes(chunks),) if isinstance(chunks, WholeBody) else chunks, run)


def _translate(chunks: Iterable[bytes], run: _Translation) -> Generator[bytes, None, None]:
    feed = iter(chunks)
    try:
        while run.going:
            try:
                out = run.feed(next(feed, _END))
            except Exception as error:  # noqa: BLE001  whatever a source raises is what ended it
                out = run.end_with_fault(error)
            if out:
                yield out
        run.raise_error()
    finally:
        run.report()
        if isinstance(feed, Generator):
            feed.close()


async def _translate_async(chunks: AsyncIterable[bytes], run: _Translation) -> AsyncGenerator[bytes, None]:
    feed = aiter(chunks)
    try:
        while run.going:
            try:
                out = run.feed(await anext(feed, _END))
            except Exception as error:  # noqa: BLE001  as above
                out = run.end_with_fault(error)
            if out:
                yield out
        run.raise_error()
    finally:
        run.report()
        if isinstance(feed, AsyncGenerator):
            await feed.aclose()


class _Translation:
    """One translation: its pipe, whether it continues, and the error that ended it."""

    def __init__(self, source: str, target: str, options: TranslateOptions) -> None:
        self._limit = _TurnLimit(options.pop("turns", None))
        self._raises = options.pop("errors", "raise") == "raise"
        self._on_diagnostic = options.pop("on_diagnostic", None)
        given = options.get("target_options") or {}
        clock = options.pop("clock", None) or DEFAULT_CLOCK
        encoder = protocols.protocol(target).encoder
        if "created" not in given and encoder is not None and "created" in checks.keywords_of(encoder):
            options["target_options"] = {**given, "created": int(clock())}
        options["shaping"] = (self._limit, *options.get("shaping", ()))
        self._pipe = bridge(source, target, **cast("BridgeOptions", options))
        self._error: Exception | None = None
        self._has_output = False
        self._in_pipe = False  # the pipe is at work: what it raises is not an error of the source
        self.going = True

    def feed(self, chunk: bytes) -> bytes:
        self._in_pipe = True
        self.going = chunk is not _END
        out = b"".join(self._pipe.feed([chunk]) if self.going else self._pipe.finish())
        if self.going and self._is_over():
            self.going = False
            out += b"".join(Pipe(*self._pipe.stages[1:]).finish())  # not the parser: what it holds belongs to no turn
        self._has_output = self._has_output or bool(out)
        self._in_pipe = False
        return out

    def _is_over(self) -> bool:
        """True also if the decoder holds an error back: what follows only adds details, and may never come."""
        return self._limit.over or getattr(self._pipe.stages[1], "pending", "") == "error"

    def end_with_fault(self, error: Exception) -> bytes:
        """Returns the bytes that end the output after an error."""
        self.going, self._error = False, error
        if not self._has_output and self._raises:
            return b""
        _, decode, *rest = self._pipe.stages  # the parser may be what broke
        after = Pipe(*rest)
        return b"".join(
            [*after.feed(_finish_decoder(decode, _source_fault(error, in_pipe=self._in_pipe))), *after.finish()]
        )

    def raise_error(self) -> None:
        """Raises the error that ended the stream, with `errors="raise"`."""
        if self._error is not None and self._raises:
            raise self._error

    def report(self) -> None:
        if self._on_diagnostic is None:
            return
        for row in self._pipe.diagnostics:
            self._on_diagnostic(row)
        if self._error is not None and not self._raises:
            self._on_diagnostic(Diagnostic("source-broke", f"{type(self._error).__name__}: {self._error}", "source"))


class _TurnLimit:
    """Event → event: passes everything up to the first fault, or to the end of the last turn that is wanted."""

    def __init__(self, turns: int | None) -> None:
        self.over = turns is not None and turns <= 0
        self._left = turns

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if self.over:
            return []
        if TERMINALS.isdisjoint(map(type, events)):
            return list(events)
        for place, event in enumerate(events):
            if type(event) is Fault or (type(event) is Finish and self._is_last()):
                self.over = True
                return list(events[: place + 1])
        return list(events)

    def _is_last(self) -> bool:
        if self._left is not None:
            self._left -= 1
        return self._left == 0

    def finish(self) -> list[Any]:
        return []


def _finish_decoder(decode: Stage[Any, Any], fault: Fault) -> list[Any]:
    try:
        return explain_truncation(decode.finish(), fault)
    except InputError:  # the protocol was not detected
        return [Start(), fault]


def explain_truncation(events: list[Any], fault: Fault) -> list[Any]:
    """Returns the last events of a decoder, with the fault that is known in place of `truncated`."""
    return [fault if type(event) is Fault and event.kind == "truncated" else event for event in events]


def _source_fault(error: Exception, *, in_pipe: bool) -> Fault:
    """Returns the fault of an error. Only messages of penstock are shown: those of others may hold addresses."""
    if isinstance(error, InputError):
        return Fault("malformed", str(error))
    name = type(error).__name__
    if in_pipe:
        return Fault("other", f"internal error, please report it ({name})")
    if "timeout" in name.lower():
        return Fault("timeout", "the source did not answer in time")
    return Fault("network", "the connection to the source broke off")
