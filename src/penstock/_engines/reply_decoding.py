"""Decodes a provider's response: parser, decoder, guard and transforms turn each read into a batch of events."""

from __future__ import annotations

import asyncio
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import _delta_templates as delta_templates
from penstock import _lenient_fields as lenient
from penstock import _protocols as protocols
from penstock._bridge import parser
from penstock._delta_templates import RunReader
from penstock._grammar import Guard
from penstock._http_errors import read_http_error
from penstock._lenient_json import parse_lenient
from penstock._pipeline import Pipe, Stage
from penstock._text_runs import ExpandRuns
from penstock.errors import InputError, ProviderError, provider_error
from penstock.events import AnyEvent, Fault, Start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._codec import Decoder
    from penstock._diagnostics import Diagnostic
    from penstock._engines.engine_interface import ChunkEvents, ChunkHandler, UpstreamRequest
    from penstock._http.response import UpstreamResponse

EVENTS = "text/event-stream"
_STREAMS = (EVENTS, "application/vnd.amazon.eventstream", "application/x-ndjson")
# Seconds to wait for optional last frames: the usage and `[DONE]` after a finish reason, `response.failed` after an
# `error`. Then the connection is closed.
GRACE = {"finish": 2.0, "error": 0.1}
_COUNTED = frozenset({"n", "prompt", "generationConfig"})  # fields that set the number of choices
_FEW = 4  # frames of a long chunk that are decoded before text runs are looked for
_LONG = 4096  # bytes of a long chunk
# Tool calls without an id get one. It must differ between answers, also of other processes and after a restart:
# Claude Code drops a second call with an id that it knows.
_PROCESS = token_hex(4)
_answers = count()


class ReplyDecoder:
    """The decoder and the stages behind it, the same for all engines."""

    def __init__(self, job: UpstreamRequest) -> None:
        self.decoder = protocols.decoder(job.protocol)
        self.decoder.ledger.seed = f"{_PROCESS}{next(_answers):x}"
        guard = Guard()
        self.after: Stage[Any, Any] = Pipe(guard, ExpandRuns(), *job.transforms) if job.transforms else guard
        self._transforms = job.transforms
        self._several = asks_for_several_choices(job.body)
        self.pending = ""  # as `Decoder.pending` after the last read
        self.until = 0.0  # end of the grace period, by the loop's clock

    def watch_end(self) -> None:
        """Starts the grace period when only optional frames are missing. Called after every read."""
        pending = "" if self._several else self.decoder.pending
        if pending and pending != self.pending:
            self.until = asyncio.get_running_loop().time() + GRACE[pending]
        self.pending = pending

    @property
    def over(self) -> bool:
        """True if a transform ended the turn before the provider did."""
        return any(getattr(stage, "over", False) for stage in self._transforms)

    def events(self, decoded: list[Any]) -> list[AnyEvent]:
        return self.after.feed(decoded) if decoded else decoded

    def finish(self, decoded: list[Any] | None = None) -> list[AnyEvent]:
        tail = [*(decoded or ()), *self.decoder.finish()]
        return [*self.after.feed(tail), *self.after.finish()]

    def finish_body(self, decoded: list[Any]) -> list[AnyEvent]:
        """Returns the events of a body that is not streamed. It is complete even without a finish reason."""
        self.decoder.mark_complete()
        return self.finish(decoded)

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        """Returns the last events. The fault replaces the decoder's `truncated`, because it says why."""
        tail = self.decoder.finish()
        last = [fault if type(event) is Fault and event.kind == "truncated" else event for event in tail]
        if not last and not self.decoder.ledger.turns:
            last = [Start(), fault]
        return [*self.after.feed(last), *self.after.finish()]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return [*self.decoder.diagnostics, *getattr(self.after, "diagnostics", ())]


class NativeSource:
    """The source of the native engine."""

    raw = True

    def __init__(self, incoming: UpstreamResponse, job: UpstreamRequest) -> None:
        self.status: int = incoming.status
        self.headers: Mapping[str, str] = incoming.headers
        self._incoming = incoming
        kind = incoming.headers.get("content-type", "")
        self._is_body = not job.stream and not kind.startswith(_STREAMS)
        self._decoding = ReplyDecoder(job)
        self.decoder: Decoder = self._decoding.decoder
        self.framing: str = "body" if self._is_body else job.endpoint.framing
        self._parser = parser(job.endpoint.framing, content_type=kind)
        self._runs: RunReader | None = None
        self._done = False
        self._framing_error: InputError | None = None
        self.end_frame_missing: bool = False

    async def read(self) -> ChunkEvents | None:
        if self._framing_error is not None:
            raise self._malformed(self._framing_error)
        if self._done:
            return None
        if self._is_body:
            return await self._read_body()
        chunk = await self._incoming.read() if not self._decoding.pending else await self._read_pending()
        if chunk is None:
            self._done = True
            return b"", self._decoding.finish()
        if chunk:
            events = self._events(chunk)
            if self._framing_error is None or events:
                return chunk, events
            raise self._malformed(self._framing_error)
        try:
            self._done = True
            return b"", self._decoding.finish(self.decoder.feed(self._parser.finish()))
        except InputError as error:
            raise self._malformed(error) from error

    async def _read_pending(self) -> bytes | None:
        """Reads until the grace period ends; then closes the connection and returns None."""
        try:
            async with asyncio.timeout_at(self._decoding.until):
                return await self._incoming.read()
        except TimeoutError:
            self._incoming.close()
            self.end_frame_missing = True
            self.decoder.diagnostics.add(
                "no-end", "the answer said how it ends, but the provider neither sent its end mark nor closed"
            )
            return None

    def _events(self, chunk: bytes) -> list[Any]:
        """Decodes a chunk. Of a long one, a few frames are decoded before text runs are looked for."""
        events: list[Any] = []
        decoder, few, at = self.decoder, _FEW, 0
        templates = decoder.templates
        many = len(chunk) > delta_templates.FEWEST_BYTES
        try:
            while at < len(chunk):
                templates.wanted = many or not templates.padded
                found = self._runs.read(chunk, at) if self._runs is not None and templates.wanted else None
                if found is not None:
                    events.append(found[0])
                    at, few = found[1], _FEW
                    continue
                end = _end_of_frames(chunk, at, few, self._frame_end(chunk))
                few *= 2  # a stream without text runs is decoded in few parts
                events += decoder.feed(self._parser.feed([chunk[at:end]]))
                at = end
                if self._runs is None:
                    self._runs = self._run_reader()
        except InputError as error:  # the framing is broken: raised after the events so far
            self._framing_error = error
        events = self._decoding.events(events)
        self._decoding.watch_end()
        return events

    def _frame_end(self, chunk: bytes) -> bytes:
        """Returns the bytes that end a frame of this chunk."""
        if self.framing == "ndjson":
            return b"\n"
        return b"\r\n\r\n" if chunk.endswith(b"\r\n") else b"\n\n"

    def _run_reader(self) -> RunReader | None:
        """Returns the reader of text runs, if frames are lines."""
        parser: Any = getattr(self._parser, "detected_parser", None) or self._parser
        if not delta_templates.enabled or not hasattr(parser, "idle"):
            return None
        return RunReader(parser, self.decoder.templates)

    async def pour(self, step: ChunkHandler) -> None:
        """Calls `step` with each read as it arrives, until it returns False; then use `read` again."""
        if self._done or self._is_body or self._decoding.pending:
            return

        def take(chunk: bytes) -> bool:
            return step(chunk, self._events(chunk)) and self._framing_error is None and not self._decoding.pending

        await self._incoming.stream_to(take)

    def _malformed(self, error: InputError) -> ProviderError:
        self._framing_error, self._done = None, True
        self._incoming.close()
        return provider_error(Fault("malformed", str(error)))

    async def _read_body(self) -> ChunkEvents:
        data = await self._incoming.read_all()
        self._done = True
        events = self._decoding.finish_body(self.decoder.feed_body(data))
        last = events[-1] if events else None
        if isinstance(last, Fault) and last.kind == "truncated" and parse_lenient(data) is None:
            fault = replace(read_http_error(None, self.headers, data), kind="malformed", extra=None)
            events[-1] = replace(fault, message=f"the answer is no JSON: {fault.message[:200]}")
        return data, events

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        self._done = True
        return self._decoding.end_with(fault)

    def complete(self) -> None:
        self._done = True
        if self._decoding.over and not self._is_body:
            self._incoming.close()
        else:
            self._incoming.drain()

    async def aclose(self) -> None:
        self._done = True
        self._incoming.close()

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._decoding.diagnostics

    @property
    def malformed(self) -> int:
        return self.decoder.malformed


def asks_for_several_choices(body: dict[str, Any]) -> bool:
    """True if a request asks for several choices: the end of one is not the end of the response."""
    if _COUNTED.isdisjoint(body):
        return False
    config, prompt = lenient.get_object(body, "generationConfig"), body.get("prompt")
    counts = (body.get("n"), config.get("candidateCount"), len(prompt) if isinstance(prompt, list) else 1)  # pyright: ignore[reportUnknownArgumentType]
    return any(isinstance(count, int) and count > 1 for count in counts)


def _end_of_frames(chunk: bytes, start: int, few: int, frame_end: bytes) -> int:
    """Returns where the next few frames of a long chunk end; for a short one, its end."""
    size = len(chunk)
    if size - start <= _LONG:
        return size
    for _ in range(few):
        at = chunk.find(frame_end, start)
        if at < 0:
            return size
        start = at + len(frame_end)
    return start
