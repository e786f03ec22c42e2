"""Broken streams: what is open at a fault stays open for the client, in every protocol, wherever the stream is cut.

What closes a part is written down here, per protocol and from the clients' own readers; no encoder is asked.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import events as ev
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.events import AnyEvent
    from penstock.framing import Frame

CUTS = 3  # of each stream, in a normal run
ENDS = (ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd, ev.CallEnd, ev.CallCut, ev.FileEnd)
STREAMS = [case for case in cases() if case.streamed]
UI_ENDS = {
    "text-end", "reasoning-end", "tool-input-end", "tool-input-available", "tool-input-error", "tool-call",
    "tool-error", "finish-step", "step-finish", "finish",
}  # fmt: skip
ERRORS: dict[str, Frame] = {
    "openai-chat": (b"", b'{"error":{"message":"it exploded","type":"server_error","code":500}}'),
    "completions": (b"", b'{"error":{"message":"it exploded","type":"server_error","code":500}}'),
    "anthropic": (b"error", b'{"type":"error","error":{"type":"api_error","message":"it exploded"}}'),
    "responses": (b"error", b'{"type":"error","code":"server_error","message":"it exploded"}'),
    "gemini": (b"", b'{"error":{"code":500,"message":"it exploded","status":"INTERNAL"}}'),
    "bedrock": (b"internalServerException", b'{"message":"it exploded"}'),
    "cohere": (b"", b'{"type":"message-end","delta":{"finish_reason":"ERROR","error":"it exploded"}}'),
    "ollama": (b"", b'{"error":"it exploded"}'),
    "uistream": (b"", b'{"type":"error","errorText":"it exploded"}'),
    "aisdk": (b"", b'{"type":"error","error":{"message":"it exploded"}}'),
    "vscode": (b"", b'{"kind":"error","fault":"server","message":"it exploded"}'),
}


def _parts(payload: Any) -> Iterator[dict[str, Any]]:
    for candidate in payload.get("candidates", ()):
        yield from candidate.get("content", {}).get("parts", ())


def _anthropic(payload: Any) -> bool:
    stopped = payload["type"] == "message_delta" and payload["delta"]["stop_reason"] is not None
    return stopped or payload["type"] in {"content_block_stop", "message_stop"}


def _responses(payload: Any) -> bool:
    return payload["type"].endswith(".done") or payload["type"] in {"response.completed", "response.incomplete"}


def _chat(payload: Any) -> bool:
    return any(choice["finish_reason"] for choice in payload.get("choices", ()))


def _gemini(payload: Any) -> bool:
    finished = any(candidate.get("finishReason") for candidate in payload.get("candidates", ()))
    return finished or any("functionCall" in part or "inlineData" in part for part in _parts(payload))


def _ui(payload: Any) -> bool:
    return payload["type"] in UI_ENDS


# Does a payload close a part, or the turn, as if it were complete?
CLOSES: dict[str, Callable[[Any], bool]] = {
    "anthropic": _anthropic, "responses": _responses, "openai-chat": _chat, "completions": _chat, "gemini": _gemini,
    "uistream": _ui, "aisdk": _ui, "aisdk@4": _ui, "vscode": lambda payload: payload["kind"] == "end",
    "events": lambda payload: payload["type"].endswith(("-end", "-cut")) and not payload.get("broken"),
}  # fmt: skip
# Is it the protocol's own form of an error?
FAILS: dict[str, Callable[[Any], bool]] = {
    "anthropic": lambda payload: payload["type"] == "error",
    "responses": lambda payload: payload["type"] == "response.failed",
    "openai-chat": lambda payload: "error" in payload, "completions": lambda payload: "error" in payload,
    "gemini": lambda payload: "error" in payload, "vscode": lambda payload: payload["kind"] == "error",
    "uistream": lambda payload: payload["type"] in {"error", "abort"},
    "aisdk": lambda payload: payload["type"] in {"error", "abort"},
    "aisdk@4": lambda payload: payload["type"] == "error", "events": lambda payload: payload["type"] == "fault",
}  # fmt: skip


class Cut:
    """A stream cut behind so many frames: its events up to there, and those that the end of input brings."""

    def __init__(self, case: Case, frames: Sequence[Frame]) -> None:
        run = running.Run(penstock.decoder(case.source, **case.options))
        run.feed(frames)
        self.before = list(run.events)
        self.failed = bool(self.before) and isinstance(self.before[-1], ev.Fault)
        self.pending = run.decoder.pending
        self.tail: list[AnyEvent] = run.finish().events[len(self.before) :]

    @property
    def open(self) -> set[int]:
        """The parts of the last turn that the provider had not ended."""
        found: set[int] = set()
        for event in self.before:
            if isinstance(event, ev.Start):
                found.clear()
            elif isinstance(event, ev.TextStart | ev.RefusalStart | ev.ReasoningStart | ev.CallStart | ev.FileStart):
                found.add(event.index)
            elif isinstance(event, ENDS):
                found.discard(event.index)
        return found

    @property
    def complete_calls(self) -> set[str]:
        """The calls that the provider had ended: an AI SDK stream holds them until it is known who runs them."""
        return {event.id for event in self.before if isinstance(event, ev.CallEnd)}

    def check(self) -> None:
        if not self.tail or not isinstance(self.tail[-1], ev.Fault):
            return
        ends = {event.index: event.broken for event in self.tail if isinstance(event, ENDS)}
        assert all(ends[index] for index in self.open)
        if not self.open.issuperset(ends):
            return  # the decoder had held a part back: what came before that is whole, and is closed
        for target, closes in CLOSES.items():
            written = list(self._written(target))
            closing = [payload for payload in written if closes(payload)]
            assert not [payload for payload in closing if payload.get("toolCallId") not in self.complete_calls], target
            assert FAILS[target](written[-1]), target

    def _written(self, target: str) -> Iterator[Any]:
        """What a client gets once the stream is cut. `[DONE]` may only follow the failed snapshot of Responses."""
        pipe = running.pipe_to(target)
        pipe.feed(self.before)
        for _, data in [*pipe.feed(self.tail), *pipe.finish()]:
            if data == b"[DONE]":
                assert target == "responses"
            else:
                yield json.loads(data)


def check_all(case: Case, most: int | None) -> None:
    places = list(range(1, len(case.frames)))
    if most is not None and len(places) > most:
        places = random.Random(case.id).sample(places, most)
    for place in places:
        Cut(case, case.frames[:place]).check()


@over(STREAMS)
def test_what_is_open_at_a_cut_stays_open(case: Case) -> None:
    check_all(case, CUTS)


@pytest.mark.nightly
@over(STREAMS)
def test_what_is_open_at_any_cut_stays_open(case: Case) -> None:
    check_all(case, None)


@over([case for case in STREAMS if case.protocol in ERRORS])
def test_an_error_in_band_is_told_at_once_and_closes_nothing(case: Case) -> None:
    """Where another frame may follow that says more, the reader of the connection is told not to wait for it."""
    place = random.Random(case.id).randint(1, len(case.frames))
    clean, cut = Cut(case, case.frames[:place]), Cut(case, [*case.frames[:place], ERRORS[case.protocol]])
    if not clean.open:
        return  # over, or between two parts: nothing can be broken off
    assert cut.failed or cut.pending == "error"
    whole = [*cut.before, *cut.tail]
    fault = whole[-1]
    assert isinstance(fault, ev.Fault)
    assert fault.message == "it exploded"
    ends = {event.index: event.broken for event in whole if isinstance(event, ENDS)}
    assert all(ends[index] for index in clean.open)
