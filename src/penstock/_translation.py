"""`penstock.translate`: bytes of one protocol in, bytes of another out, for plain and async iterables alike.

`bridge` does the work. This module has the loop, sync and async, and handles a source that breaks. It is not called
`translate`, so that `penstock.translate` is always the function.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

from penstock import _protocols as protocols
from penstock._bridge import OPTIONS as BRIDGE_OPTIONS
from penstock._bridge import bridge
from penstock._diagnostics import Diagnostic
from penstock._option_checks import COUNT_OR_NONE, FUNCTION_OR_NONE, Option, check_options, keywords_of, one_of
from penstock._pipeline import Pipe, Stage
from penstock.errors import InputError
from penstock.events import Fault, Finish, Start

Whole: TypeAlias = bytes | bytearray | memoryview
Errors: TypeAlias = Literal["raise", "fault"]
Report: TypeAlias = Callable[[Diagnostic], None]
Clock: TypeAlias = Callable[[], float]
OPTIONS: dict[str, Option] = {
    **BRIDGE_OPTIONS,
    "clock": FUNCTION_OR_NONE,
    "errors": one_of(("raise", "fault")),
    "on_diagnostic": FUNCTION_OR_NONE,
    "turns": COUNT_OR_NONE,
}
DEFAULT_CLOCK: Clock = time.time
_END: Any = object()  # in place of a chunk, where there are no more
_TERMINALS = frozenset({Fault, Finish})


@overload
def translate(
    chunks: Whole | Iterable[bytes],
    source: str = ...,
    target: str = ...,
    *,
    errors: Errors = ...,
    on_diagnostic: Report | None = ...,
    turns: int | None = ...,
    clock: Clock | None = ...,
    **options: Any,
) -> Generator[bytes, None, None]: ...


@overload
def translate(
    chunks: AsyncIterable[bytes],
    source: str = ...,
    target: str = ...,
    *,
    errors: Errors = ...,
    on_diagnostic: Report | None = ...,
    turns: int | None = ...,
    clock: Clock | None = ...,
    **options: Any,
) -> AsyncGenerator[bytes, None]: ...


def translate(
    chunks: Whole | Iterable[bytes] | AsyncIterable[bytes],
    source: str = "auto",
    target: str = "events",
    *,
    errors: Errors = "raise",
    on_diagnostic: Report | None = None,
    turns: int | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> Generator[bytes, None, None] | AsyncGenerator[bytes, None]:
    """Translate a stream: a generator of bytes, async if `chunks` is; at most one chunk out for each chunk in.

    `source="auto"` finds the protocol out. `options` are those of `bridge`: `framing`, `limit`, `shaping`,
    `source_options`, `target_options`. `on_diagnostic` is given every finding once the stream is over.

    Reading stops, and `chunks` is closed, at the first frame that is a fault, and when `turns` turns have ended; what
    follows in the same chunk is left out, so that the result does not depend on how the bytes are cut. Without `turns`
    it goes on to the end of `chunks`: a stream may hold several turns.

    Where the target wants to know when an answer was made (`created`) and the source does not say so, it is now: what
    `clock` says, by default `time.time`. A `created` among the `target_options` comes first.

    When `chunks` raises, or its bytes cannot be read on, what was begun is ended by a fault in the target's own way,
    then the error is raised. With `errors="fault"` it is not raised: the fault is written, whether or not anything was.
    """
    given = {"errors": errors, "on_diagnostic": on_diagnostic, "turns": turns, "clock": clock, **options}
    check_options("translate", given, OPTIONS)
    options["target_options"] = _with_time(target, options.get("target_options") or {}, clock or DEFAULT_CLOCK)
    run = _Translation(source, target, options, errors, on_diagnostic, turns)
    if isinstance(chunks, AsyncIterable):
        return _translate_async(chunks, run)
    if isinstance(chunks, Whole):
        chunks = (bytes(chunks),)
    return _translate(chunks, run)


def _with_time(target: str, options: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """The options of the encoder with the time, where it has a field for it."""
    encoder = protocols.protocol(target).encoder
    if "created" in options or encoder is None or "created" not in keywords_of(encoder):
        return options
    return {**options, "created": int(clock())}


def _translate(chunks: Iterable[bytes], run: _Translation) -> Generator[bytes, None, None]:
    feed = iter(chunks)
    try:
        while run.going:
            try:
                out = run.take(next(feed, _END))
            except Exception as error:  # noqa: BLE001  whatever a source raises is what ended it
                out = run.broken(error)
            if out:
                yield out
        run.leave()
    finally:
        run.report()
        if isinstance(feed, Generator):
            feed.close()


async def _translate_async(chunks: AsyncIterable[bytes], run: _Translation) -> AsyncGenerator[bytes, None]:
    feed = aiter(chunks)
    try:
        while run.going:
            try:
                out = run.take(await anext(feed, _END))
            except Exception as error:  # noqa: BLE001  as above
                out = run.broken(error)
            if out:
                yield out
        run.leave()
    finally:
        run.report()
        if isinstance(feed, AsyncGenerator):
            await feed.aclose()


class _Translation:
    """One translation: its pipe, whether it continues, and the error that ended it."""

    def __init__(
        self,
        source: str,
        target: str,
        options: dict[str, Any],
        errors: Errors,
        on_diagnostic: Report | None,
        turns: int | None,
    ) -> None:
        self._limit = _TurnLimit(turns)
        shaping: tuple[Stage[Any, Any], ...] = (self._limit, *options.pop("shaping", ()))
        self._pipe = bridge(source, target, shaping=shaping, **options)
        self._errors = errors
        self._on_diagnostic = on_diagnostic
        self._error: Exception | None = None
        self._begun = False
        self._ours = False  # whether the pipe is at work, so that what it raises is not blamed on the source
        self.going = True

    def take(self, chunk: bytes) -> bytes:
        self._ours = True
        self.going = chunk is not _END
        out = b"".join(self._pipe.feed([chunk]) if self.going else self._pipe.finish())
        if self.going and self._is_over():
            self.going = False
            out += b"".join(Pipe(*self._pipe.stages[1:]).finish())  # not the parser: what it holds belongs to no turn
        self._begun = self._begun or bool(out)
        self._ours = False
        return out

    def _is_over(self) -> bool:
        """Also at an error that the decoder holds back: what may follow it adds details, and may never come."""
        return self._limit.over or getattr(self._pipe.stages[1], "pending", "") == "error"

    def broken(self, error: Exception) -> bytes:
        """Returns the bytes that end the output after an error."""
        self.going, self._error = False, error
        if not self._begun and self._errors == "raise":
            return b""
        _, decode, *rest = self._pipe.stages  # the parser may be what broke
        after = Pipe(*rest)
        return b"".join([*after.feed(_ending(decode, _fault(error, ours=self._ours))), *after.finish()])

    def leave(self) -> None:
        """Raises the error that ended the stream, with `errors="raise"`."""
        if self._error is not None and self._errors == "raise":
            raise self._error

    def report(self) -> None:
        if self._on_diagnostic is None:
            return
        for row in self._pipe.diagnostics:
            self._on_diagnostic(row)
        if self._error is not None and self._errors == "fault":
            self._on_diagnostic(Diagnostic("source-broke", f"{type(self._error).__name__}: {self._error}", "source"))


class _TurnLimit:
    """Event → event: lets everything pass up to the first fault, or the end of the last turn that is wanted."""

    def __init__(self, turns: int | None) -> None:
        self.over = turns is not None and turns <= 0
        self._left = turns

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if self.over:
            return []
        if _TERMINALS.isdisjoint(map(type, events)):
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


def _ending(decode: Stage[Any, Any], fault: Fault) -> list[Any]:
    """The decoder's last events; where it can only say that the stream was cut short, the fault says why."""
    try:
        events = decode.finish()
    except InputError:  # the protocol was never found out
        return [Start(), fault]
    return [fault if type(event) is Fault and event.kind == "truncated" else event for event in events]


def _fault(error: Exception, *, ours: bool) -> Fault:
    """Our own errors tell all; of foreign ones only the kind goes to the consumer: their text may hold addresses."""
    if isinstance(error, InputError):
        return Fault("malformed", str(error))
    name = type(error).__name__
    if ours:
        return Fault("other", f"internal error, please report it ({name})")
    if "timeout" in name.lower():
        return Fault("timeout", "the source did not answer in time")
    return Fault("network", "the connection to the source broke off")
