"""Every golden stream traced to every consumer: what leaves is what a bridge lets out, and each step has its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import bridge
from penstock._pipeline import Pipe
from penstock._stream_trace import BodyParser, Tracer, tracer
from penstock.errors import FrameTooLarge
from penstock.framing import WRITERS
from tests.support import run_streams as running
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._stream_trace import TraceStep
    from tests.support.stream_cases import Case

STREAMED = [case for case in cases() if case.streamed]
WHOLE = [case for case in cases() if not case.streamed]
TARGETS = list(running.targets())
ORDER = {"frame": (None,), "event": ("frame", None), "output": ("event", "frame", None)}  # a kind → what may cause it


def traced(case: Case, target: str, chunks: Iterable[bytes] = ()) -> Tracer:
    framing = case.framing if case.streamed else BodyParser.framing
    made = tracer(case.source, target, framing=framing, source_options=case.options)
    for place, chunk in enumerate(chunks or [case.body]):
        made.feed(chunk, float(place))
    made.finish()
    return made


def items(made: Tracer, kind: str) -> list[Any]:
    return [step.item for step in made.steps if step.kind == kind]


def written(target: str, frames: list[Any]) -> bytes:
    writer = WRITERS[protocols.protocol(target).writes]()
    return b"".join([*writer.feed(frames), *writer.finish()])


@pytest.mark.parametrize("target", TARGETS)
def test_a_trace_says_what_a_bridge_does_and_why(target: str) -> None:
    for case in STREAMED:
        made = traced(case, target)
        pipe = bridge(case.source, target, framing=case.framing, source_options=case.options)
        assert written(target, items(made, "output")) == b"".join([*pipe.feed([case.body]), *pipe.finish()]), case.id
        assert sorted(map(str, [row.row for row in made.findings])) == sorted(map(str, pipe.diagnostics)), case.id
        assert items(made, "event") == case.expected(), case.id
        for number, step in enumerate(made.steps):
            assert _kind(made, step.cause) in ORDER[step.kind], case.id
            assert step.cause is None or step.cause < number
            assert _kind(made, step.of) in {"event", None}


def _kind(made: Tracer, number: int | None) -> str | None:
    return None if number is None else made.steps[number].kind


def test_the_events_of_a_frame_are_those_that_it_means() -> None:
    """Against the decoder itself, fed one frame at a time."""
    for case in STREAMED:
        made = traced(case, "events")
        decode = protocols.decoder(case.source, **case.options)
        for number, step in enumerate(made.steps):
            if step.kind == "frame":
                wanted = decode.feed([step.item])
                found = [one.item for one in made.steps if one.kind == "event" and one.cause == number]
                assert found == wanted, case.id


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.id)
def test_an_answer_in_one_piece_is_one_frame(case: Case) -> None:
    made = traced(case, "events", running.crumbs(case.body, 7))
    assert items(made, "frame") == [(b"", case.body)]
    assert items(made, "event") == case.expected()


@given(st.data())
def test_however_it_is_cut_the_trace_is_the_same(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in STREAMED if len(case.body) < 3000]))
    at = data.draw(st.integers(0, len(case.body)))
    whole, halves = traced(case, "openai-chat"), traced(case, "openai-chat", [case.body[:at], case.body[at:]])
    assert [_bare(step) for step in whole.steps] == [_bare(step) for step in halves.steps]
    assert {step.at for step in halves.steps} <= {None, 0.0, 1.0}


def _bare(step: TraceStep) -> tuple[Any, ...]:
    return step.kind, step.cause, step.of, step.item


# ── what is held back ─────────────────────────────────────────────────────────────────────────────


def test_what_was_held_back_says_which_event_it_is_of() -> None:
    """Two texts at once, for a consumer that knows one at a time: the second leaves when the first is over."""
    events: list[ev.AnyEvent] = [
        ev.Start(), ev.TextStart(0), ev.TextStart(1, choice=0), ev.TextDelta(1, "later"), ev.TextDelta(0, "now"),
        ev.TextEnd(0), ev.TextEnd(1), ev.Finish("stop"),
    ]  # fmt: skip
    made = tracer("events", "anthropic")
    made.feed(running.write("events", events))
    made.finish()
    (step,) = [step for step in made.steps if step.kind == "output" and b"later" in step.item[1]]
    assert step.of is not None
    assert step.cause is not None
    assert made.steps[step.of].item == ev.TextDelta(1, "later")
    assert made.steps[step.cause].item == ev.TextEnd(0)


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_end_is_told_as_it_was_where_that_is_known() -> None:
    made = tracer("openai-chat", "events")
    made.feed(b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
    made.finish(ev.Fault("network", "the line broke"))
    assert made.events[-1] == ev.Fault("network", "the line broke")
    assert made.steps[-1].cause is not None  # the output of the fault; the fault itself comes of the end
    assert made.steps[made.steps[-1].cause].cause is None


def test_an_end_that_came_is_no_other() -> None:
    case = next(case for case in STREAMED if isinstance(case.expected()[-1], ev.Finish))
    made = tracer(case.source, "events", source_options=case.options)
    made.feed(case.body)
    made.finish(ev.Fault("network", "the line broke"))
    assert made.events == case.expected()


def test_a_frame_that_is_too_large_ends_it() -> None:
    made = tracer("openai-chat", "vscode", limit=200)
    made.feed(b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
    with pytest.raises(FrameTooLarge):
        made.feed(b"data: " + b"x" * 500)
    made.finish(ev.Fault("malformed", "too large"), broken=True)
    assert made.events[-1] == ev.Fault("malformed", "too large")


# ── frames that go through as they are ────────────────────────────────────────────────────────────


class Loud:
    """Every second frame, in capitals."""

    def __init__(self) -> None:
        self.count = 0

    def frame(self, frame: Any, events: Any, /) -> list[Any]:
        self.count += 1
        return [(b"", frame[1].upper())] if self.count % 2 else []

    def fail(self, fault: ev.Fault, /) -> list[Any]:
        return [(b"", fault.kind.encode())]


def test_what_goes_through_stands_in_place_of_an_encoder() -> None:
    model = tracer("openai-chat", "events")
    stages = model.pipe.stages
    made = Tracer(Pipe(stages[0], protocols.decoder("openai-chat"), *stages[2:3]), Pipe(), Loud())
    for word in ("a", "b", "c"):
        made.feed(b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % word.encode())
    made.finish(ev.Fault("network", "gone"))
    outputs = [step for step in made.steps if step.kind == "output"]
    assert [b'"CONTENT":"A"' in outputs[0].item[1], b'"CONTENT":"C"' in outputs[1].item[1]] == [True, True]
    assert outputs[2].item == (b"", b"network")
    assert [made.steps[step.cause].kind for step in outputs[:2] if step.cause is not None] == ["frame", "frame"]
    assert outputs[0].of is not None
    assert type(made.steps[outputs[0].of].item) is ev.Start
