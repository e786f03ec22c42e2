"""The input of a Chat call in pieces: whole exactly when it is JSON, and each piece is read once."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock._lenient_json import is_json
from penstock._protocols.openai_chat.decode_calls import MAX_SCALAR, CallInput
from tests.support.each_case import each

PIECES = ["{", "}", "[", "]", '"', "\\", '\\"', "a", '"a"', ":", ",", " ", "1", "{}", '{"a":"}"}', "\x0b", "\u00a0", "true"]  # fmt: skip


def is_complete_input(pieces: list[str], *, look_often: bool) -> bool:
    made = CallInput()
    for piece in pieces:
        made.fragments.append(piece)
        if look_often:
            made.is_complete()
    return made.is_complete()


@given(st.lists(st.sampled_from(PIECES), max_size=10), st.booleans())
def test_as_json(pieces: list[str], look_often: bool) -> None:
    assert is_complete_input(pieces, look_often=look_often) == is_json("".join(pieces))


@given(st.recursive(st.text() | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
       st.lists(st.integers(0, 200)), st.booleans())  # fmt: skip
def test_any_value_in_any_pieces(value: object, cuts: list[int], look_often: bool) -> None:
    text = json.dumps(value)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[first:last] for first, last in pairwise(places)]
    if text[0] in '{["' or (len(text) <= MAX_SCALAR >= len(pieces)):
        assert is_complete_input(pieces, look_often=look_often)


@each("size", [10, 80, 5000])
def test_input_that_is_json_in_a_string(size: int) -> None:
    """Some models write the arguments as JSON twice."""
    text = json.dumps(json.dumps({"path": "x" * size}))
    assert is_complete_input([text], look_often=False)
    assert is_complete_input(list(text), look_often=True)
