"""The streams that `penstock demo` shows: packaged bytes, what they mean, and what clients of other protocols get.

Everything here is computed by the functions that users call, from the bytes of the replay provider. Nothing is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock._bridge import parser, translate
from penstock._fold import fold
from penstock._grammar import Guard
from penstock._pipeline import Pipe
from penstock._protocols import decoder
from penstock._replay import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENTS = ("openai-chat", "responses", "anthropic", "gemini", "uistream", "vscode")
CHUNK_BYTES = 37  # odd on purpose: chunks end inside of words, of JSON and of UTF-8
_KEPT_WORDS = 14  # of the answer that breaks off


class ClientOutput(msgspec.Struct, frozen=True):
    """What a client of a protocol gets of a stream: how many frames, and the last one that has content."""

    protocol: str
    frames: int
    last: str


class DemoStream(msgspec.Struct, frozen=True, kw_only=True):
    """A packaged stream as it comes from a provider, its events, and the output for clients."""

    protocol: str
    bytes: int
    chunks: int
    events: list[ev.AnyEvent]
    clients: list[ClientOutput] = []

    @property
    def text(self) -> str:
        """Returns the text of the answer."""
        return "".join(event.text for event in self.events if isinstance(event, ev.TextDelta))

    @property
    def fault(self) -> ev.Fault | None:
        """Returns the fault that the stream ended with, if it did."""
        return next((event for event in self.events if isinstance(event, ev.Fault)), None)

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Returns name and input of the calls that are whole: those that may be run."""
        return [(call.name, call.json) for call in fold(self.events).calls if not call.cut]


class ToolCallDemo(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that arrives in pieces, and the same call cut off in the middle of its input."""

    whole: DemoStream
    cut: DemoStream
    repeats: int
    """How often the provider sends the complete input."""
    runs: int
    runs_of_cut: int


def complete_stream() -> DemoStream:
    """Returns an answer of Anthropic with thinking and text, and what every client gets of it."""
    return _read_stream(wire("reasoning", "anthropic"), "anthropic", CLIENTS)


def broken_stream() -> DemoStream:
    """Returns an answer in Chat Completions whose connection ends in the middle of a frame."""
    data = wire("text", "openai-chat")
    frames = data.split(b"\n\n")[: _KEPT_WORDS + 1]
    return _read_stream(b"\n\n".join(frames)[:-40], "openai-chat", CLIENTS)


def tool_call() -> ToolCallDemo:
    """Returns a tool call of the Responses protocol, which sends the input in pieces and then three times whole."""
    data = wire("tools", "responses")
    whole = _read_stream(data, "responses")
    cut = _read_stream(data[: data.index(rb"\"unit\"")], "responses")
    gauge = _Gauge()
    runs, runs_of_cut = gauge.run_calls(whole.calls), gauge.run_calls(cut.calls)
    repeats = sum(rb"upper gate" in frame and rb"unit" in frame for frame in data.split(b"\n\n"))
    return ToolCallDemo(whole=whole, cut=cut, repeats=repeats, runs=runs, runs_of_cut=runs_of_cut)


class _Gauge:
    """The tool of the demo. It counts how often it is called."""

    def __init__(self) -> None:
        self._runs = 0

    def read_gauge(self, station: str, unit: str) -> str:
        self._runs += 1
        return f"{station}: 3.2 {unit}"

    def run_calls(self, calls: Iterable[tuple[str, str]]) -> int:
        """Runs the calls. Returns how many times the tool ran."""
        before = self._runs
        for _, json in calls:
            self.read_gauge(**msgspec.json.decode(json))
        return self._runs - before


def _read_stream(data: bytes, protocol: str, clients: Iterable[str] = ()) -> DemoStream:
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    pipe: Pipe[bytes, Any] = Pipe(parser("auto"), decoder(protocol), Guard())
    events = [*pipe.feed(chunks), *pipe.finish()]
    outputs = [_write_for_client(chunks, protocol, client) for client in clients if client != protocol]
    return DemoStream(protocol=protocol, bytes=len(data), chunks=len(chunks), events=events, clients=outputs)


def _write_for_client(chunks: list[bytes], protocol: str, client: str) -> ClientOutput:
    output = b"".join(translate(chunks, protocol, client, clock=lambda: 0.0))
    reader = parser("auto")
    frames = [data for _, data in [*reader.feed([output]), *reader.finish()]]
    last = next(data for data in reversed(frames) if data != b"[DONE]")
    return ClientOutput(client, len(frames), last.decode())
