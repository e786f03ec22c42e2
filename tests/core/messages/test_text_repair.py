"""Text is made sendable, and inputs of calls become objects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from tests.support.each_case import each
from tests.support.request_passes import Diagnostics, mend_inputs, mend_texts
from tests.support.talks import REQUESTS, ask, assistant, call, codes, result, steady, tool, user

HALF = "half \ud83d of it"
ANY = st.text(st.characters(codec=None), max_size=8)


@each(
    "request_",
    [
        ask(user(HALF)), ask(assistant(rq.Reasoning(HALF))), ask(assistant(call("a", json=f'{{"x":"{HALF}"}}'))),
        ask(assistant(call("a", HALF))), ask(assistant(call(HALF))), ask(tool(result("a", HALF))),
        ask(tool(rq.Result(HALF))), ask(tool(rq.Result("a", content=[rq.Json(f'"{HALF}"')]))),
        ask(user(rq.Text("x", extra={"anthropic": {"y": HALF}}))), ask(user("x"), tools=[rq.Tool("t", HALF)]),
        ask(user("x"), tools=[rq.Tool("t", schema={"enum": [HALF]})]),
    ],
)  # fmt: skip
def test_half_a_character_is_replaced(request_: rq.Request) -> None:
    with pytest.raises(UnicodeEncodeError):
        msgspec.json.encode(request_)
    notes = Diagnostics()
    made = mend_texts(request_, notes)
    assert b"half \xef\xbf\xbd of it" in msgspec.json.encode(made)
    assert codes(notes) == ["surrogates"]


def test_two_halves_become_one() -> None:
    assert mend_texts(ask(user("\ud83d\ude00")), Diagnostics()) == ask(user("\U0001f600"))


@given(st.lists(ANY, max_size=4), ANY)
def test_whatever_it_says_it_can_be_written(words: list[str], name: str) -> None:
    request = ask(
        user(*words),
        assistant(call(name, name, json.dumps(words))),
        tool(result(name, name)),
        tools=[rq.Tool(name, name)],
    )
    msgspec.json.encode(mend_texts(request, Diagnostics()))


@given(REQUESTS)
def test_sound_text_is_the_same_object(request_: rq.Request) -> None:
    assert mend_texts(request_, Diagnostics()) is request_


@each(
    "given_, made",
    [
        ('{"a":1}', '{"a":1}'), ("", ""), ("{}", "{}"), ("[1]", '{"input":[1]}'), ('"x"', '{"input":"x"}'),
        ('{"a":', '{"input":"{\\"a\\":"}'), ('{"a":"\n"}', '{"a":"\\n"}'), ('{"a":"\\ud83d"}', '{"a":"�"}'),
    ],
)  # fmt: skip
def test_inputs_become_objects(given_: str, made: str) -> None:
    notes = Diagnostics()
    only: Any = mend_inputs(ask(assistant(call("a", json=given_))), notes).messages[0].parts[0]
    assert only.json == made
    assert codes(notes) == ([] if given_ == made else ["call-input"])


@given(REQUESTS)
def test_inputs_are_steady(request_: rq.Request) -> None:
    made = steady(request_, mend_inputs)
    for message in made.messages:
        for part in message.parts:
            if isinstance(part, rq.Call) and part.form == "json":
                assert isinstance(json.loads(part.json or "{}"), dict)
