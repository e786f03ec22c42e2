"""Packaged answers follow the request: format, length, stop sequences, choices, logprobs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import fold_all
from penstock import request as rq
from penstock.events import TextDelta
from penstock.testing import answer, scripts
from tests.support.each_case import each
from tests.support.run_streams import is_lawful

SCHEMA = {
    "type": "object",
    "properties": {"note": {"enum": ["<|end|>"]}, "n": {"type": "integer"}},
    "required": ["note", "n"],
}


def asked(model: str, **settings: Any) -> rq.Request:
    said = [rq.Message("user", [rq.Text("one alpha beta gamma")])]
    return rq.Request(f"replay/{model}", said, settings=rq.Settings(**settings))


def turn(model: str, **settings: Any) -> rq.Turn:
    return fold_all(answer(asked(model, **settings)))[0]


@given(st.sampled_from(sorted(set(scripts()) - {"after-tool"})), st.integers(1, 60), st.booleans(), st.integers(1, 3))
def test_any_wish_makes_a_lawful_answer_within_its_limit(model: str, most: int, logprobs: bool, choices: int) -> None:
    request = asked(model, max_output=most, logprobs=logprobs, choices=choices)
    events = answer(request)
    assert is_lawful(events)
    made = fold_all(events)[0]
    assert made.usage is None or (made.usage.output or 0) <= most * choices
    if made.finish is not None:
        assert len(made.finish.others) in {0, choices - 1}


def test_what_is_too_long_ends_with_the_limit() -> None:
    made = turn("text", max_output=3)
    assert made.text == "A penstock is"
    assert made.finish is not None
    assert made.finish.reason == "length"
    cut = turn("tools", max_output=8)
    assert [call.cut for call in cut.parts if isinstance(call, rq.Call)] == [True]
    assert cut.calls == []


def test_nothing_is_said_from_a_stop_on() -> None:
    made = turn("text", stop=["turbine", "water"])
    assert made.text == "A penstock is the pipe that feeds "
    assert made.finish is not None
    assert made.finish.extra == {"anthropic": {"stop_sequence": "water"}}


@each("model", ["text", "agent", "reasoning"])
def test_json_is_said_where_it_is_asked_for(model: str) -> None:
    assert json.loads(turn(model, format=rq.Format("json")).text) == {"answer": "penstock"}
    made = json.loads(turn(model, format=rq.Format("schema", "s", SCHEMA)).text)
    assert made == {"note": "<|end|>", "n": 1}


def test_every_word_is_certain() -> None:
    words = [event for event in answer(asked("text", logprobs=True)) if isinstance(event, TextDelta)]
    assert [word.logprobs["content"][0]["token"] for word in words] == [word.text for word in words]
    assert {word.logprobs["content"][0]["logprob"] for word in words} == {0.0}


def test_an_agent_without_tools_says_what_it_heard_and_thinks_if_told_to() -> None:
    made = turn("agent", effort="low")
    assert made.text.endswith("user: one alpha beta gamma")
    assert [type(part) for part in made.parts] == [rq.Reasoning, rq.Text]
    assert [type(part) for part in turn("agent", effort="none").parts] == [rq.Text]
