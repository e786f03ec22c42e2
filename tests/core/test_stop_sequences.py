"""Stop sequences for providers without them: the same cut however the text is split, and nothing after it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock._grammar import Guard
from penstock._transforms.stop_sequences import StopAtSequences

TEXT = st.text("abn\n", max_size=24)
SEQUENCES = st.lists(st.text("abn\n", min_size=1, max_size=4), min_size=1, max_size=4)


def answer(*pieces: str, after: tuple[Any, ...] = ()) -> list[Any]:
    said = [ev.TextDelta(0, piece) for piece in pieces if piece]
    return [
        ev.Start("t"),
        ev.TextStart(0),
        *said,
        ev.TextEnd(0),
        *after,
        ev.Usage(9, 7),
        ev.Finish("stop", "completed"),
    ]


def shaped(stage: StopAtSequences, events: list[Any], *, batches: bool) -> list[Any]:
    made = [stage.feed([event]) for event in events] if batches else [stage.feed(events)]
    return Guard(strict=True).feed([event for batch in made for event in batch] + stage.finish())


def letters(text: str, sequences: list[str]) -> tuple[str, bool]:
    """What a model would say that is looked at letter by letter."""
    for end in range(1, len(text) + 1):
        met = [one for one in sequences if text[:end].endswith(one)]
        if met:
            return text[: end - max(map(len, met))], True
    return text, False


@given(TEXT, SEQUENCES, st.data(), st.booleans())
def test_the_cut_is_where_letters_one_by_one_would_have_it(
    text: str, sequences: list[str], data: st.DataObject, batches: bool
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    stage = StopAtSequences(sequences)
    events = shaped(stage, answer(*pieces), batches=batches)
    said = "".join(event.text for event in events if isinstance(event, ev.TextDelta))
    assert (said, stage.over) == letters(text, sequences)
    assert all(event.text for event in events if isinstance(event, ev.TextDelta))
    end = events[-1]
    assert isinstance(end, ev.Finish)
    assert end.raw == ("stop_sequence" if stage.over else "completed")


def test_nothing_is_held_back_that_cannot_become_a_sequence() -> None:
    stage = StopAtSequences(["</answer>"])
    stage.feed(answer()[:2])
    assert stage.feed([ev.TextDelta(0, "a < b </ans")]) == [ev.TextDelta(0, "a < b ")]
    assert stage.feed([ev.TextDelta(0, "X")]) == [ev.TextDelta(0, "</ans"), ev.TextDelta(0, "X")]


def test_the_end_says_which_sequence_and_about_how_many_tokens() -> None:
    stage = StopAtSequences(["END"], lambda: 40, {"anthropic": "stop_sequence"})
    made = [event for one in answer("twelve chars", "EN", "D and more") for event in stage.feed([one])]
    assert made[-3:] == [
        ev.TextEnd(0), ev.Usage(40, 3, exact=False),
        ev.Finish("stop", "stop_sequence", (), {"anthropic": {"stop_sequence": "END"}}),
    ]  # fmt: skip
    assert stage.feed([ev.TextDelta(0, "never")]) == []


def test_tokens_that_are_known_are_told() -> None:
    """An answer that came whole has its figures behind the text."""
    assert StopAtSequences(["END"]).feed(answer("so END far"))[-2] == ev.Usage(9, 7)
    stage = StopAtSequences(["END"])
    stage.feed([ev.Start("t"), ev.Usage(11, cached=5), ev.TextStart(0)])
    assert stage.feed([ev.TextDelta(0, "END")])[-2] == ev.Usage(11, 0, 5, exact=False)


def test_calls_before_it_are_still_to_be_run_and_open_ones_are_cut() -> None:
    call = [ev.CallStart(1, "c", "f"), ev.CallEnd(1, "c", "f", "{}")]
    begun = [ev.Start("t"), ev.TextStart(0), *call, ev.CallStart(2, "d", "g"), ev.TextDelta(0, "END")]
    made = Guard(strict=True).feed(StopAtSequences(["END"]).feed(begun))
    assert [type(event) for event in made[-4:]] == [ev.TextEnd, ev.CallCut, ev.Usage, ev.Finish]
    assert made[-1].reason == "calls"


def test_thoughts_refusals_and_other_choices_are_not_looked_at() -> None:
    events = [
        ev.Start("t"), ev.ReasoningStart(0), ev.ReasoningDelta(0, "END"), ev.ReasoningEnd(0),
        ev.TextStart(1, choice=1), ev.TextDelta(1, "END"), ev.TextEnd(1), ev.Finish("stop"),
    ]  # fmt: skip
    assert StopAtSequences(["END"]).feed(events) == events


def test_log_probabilities_stay_with_their_words() -> None:
    stage = StopAtSequences(["END"])
    stage.feed(answer()[:2])
    whole = ev.TextDelta(0, "word", [{"token": "word"}])
    assert stage.feed([whole]) == [whole]
    assert stage.feed([ev.TextDelta(0, " E", [{"token": " E"}])]) == [ev.TextDelta(0, " ")]
    assert stage.feed([ev.TextDelta(0, "x")]) == [ev.TextDelta(0, "E", [{"token": " E"}]), ev.TextDelta(0, "x")]
