"""`SerializeParts`: texts that arrive interleaved are sent one after the other; nothing else is delayed."""

from __future__ import annotations

from typing import Any

from penstock import events as ev
from penstock._transforms.serialize import SerializeTexts
from tests.support.each_case import each

T, D, E = ev.TextStart, ev.TextDelta, ev.TextEnd
R, RD, RE = ev.ReasoningStart, ev.ReasoningDelta, ev.ReasoningEnd


def order(*events: Any, one_by_one: bool = False) -> list[Any]:
    stage = SerializeTexts()
    batches = [[event] for event in events] if one_by_one else [list(events)]
    return [event for batch in batches for event in stage.feed(batch)] + stage.finish()


CASES: list[tuple[list[Any], list[Any]]] = [
    ([T(0), D(0, "a"), T(1), D(1, "x"), D(0, "b"), E(0), D(1, "y"), E(1)],
     [T(0), D(0, "a"), D(0, "b"), E(0), T(1), D(1, "x"), D(1, "y"), E(1)]),
    ([T(0), T(1), D(1, "x"), E(1), T(2), D(2, "p"), D(0, "a"), E(0), D(2, "q"), E(2)],
     [T(0), D(0, "a"), E(0), T(1), D(1, "x"), E(1), T(2), D(2, "p"), D(2, "q"), E(2)]),
    ([R(0), RD(0, "a"), R(1), RD(1, "x"), RD(0, "b"), RE(0), RE(1)],
     [R(0), RD(0, "a"), RD(0, "b"), RE(0), R(1), RD(1, "x"), RE(1)]),
    # thought, text and calls do not wait for each other
    ([R(0), RD(0, "a"), T(1), D(1, "x"), ev.CallStart(2, "c", "f"), D(1, "y"), ev.CallEnd(2, "c", "f", "{}"), E(1), RE(0)],) * 2,
    # a refusal has the voice of text; a source passes
    ([T(0), ev.RefusalStart(1), ev.RefusalDelta(1, "no"), ev.Source(2, of=1), E(0), ev.RefusalEnd(1)],
     [T(0), ev.Source(2, of=1), E(0), ev.RefusalStart(1), ev.RefusalDelta(1, "no"), ev.RefusalEnd(1)]),
]  # fmt: skip


@each("events, expected", CASES)
def test_order(events: list[Any], expected: list[Any]) -> None:
    frame = (ev.Start(), ev.Finish("stop"))
    for one_by_one in (False, True):
        assert order(frame[0], *events, frame[1], one_by_one=one_by_one) == [frame[0], *expected, frame[1]]


def test_a_batch_of_deltas_passes_as_it_is() -> None:
    stage = SerializeTexts()
    stage.feed([ev.Start(), T(0)])
    batch = [D(0, "a"), D(0, "b")]
    assert stage.feed(batch) is batch


def test_another_turn_begins_anew() -> None:
    turn = [ev.Start(), T(0), D(0, "a"), E(0), ev.Finish("stop")]
    assert order(*turn, *turn) == [*turn, *turn]
