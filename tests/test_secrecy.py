"""What a secret is: found where it stands, behind escapes too, and as fast in a long text as in a short one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.secrecy import _MAKERS, _TOKENS, MARK, find, hide

LETTERS = st.sampled_from(
    [*_MAKERS, *'-_ ."\\nxA9', "AIza", "ya29.", "AKIA", "eyJ", "\\n", "\\u000a", "abcdef0123456789" * 2]
)


@given(st.lists(LETTERS, max_size=30).map("".join))
def test_the_quick_search_finds_what_the_slow_one_does(text: str) -> None:
    slow = {place for match in _TOKENS.finditer(text) for place in range(*match.span())}
    quick = {place for span in find(text) for place in range(*span)}
    assert slow <= quick
    assert all(_TOKENS.search(text[first:last]) for first, last in find(text))


@pytest.mark.parametrize("maker", _MAKERS)
@pytest.mark.parametrize("around", ["{}", "a {} b", '"{}"', "\\n{}", "\\t{}\\n", "\\u000a{}", "\\\\n{}", "({})"])
def test_a_key_is_found_wherever_it_stands(maker: str, around: str) -> None:
    key = f"{maker}-0123456789abcdef"
    text = around.format(key)
    ((first, last),) = find(text)
    assert text[first:last] == key
    assert hide(text) == around.format(MARK)


@given(st.text(), st.text(min_size=4))
def test_what_is_known_by_value_is_gone(text: str, secret: str) -> None:
    spans = find(f"{text}{secret}{text}", [secret])
    covered = {place for span in spans for place in range(*span)}
    assert set(range(len(text), len(text) + len(secret))) <= covered


def test_json_stays_json() -> None:
    said = json.dumps({"text": '\nsk-0123456789abcdef\n"Bearer abcdefgh"', "key": "rk_0123456789"})
    made, place = [], 0
    for first, last in find(said):
        made += [said[place:first], MARK]
        place = last
    assert json.loads("".join([*made, said[place:]])) == {"text": f'\n{MARK}\n"Bearer {MARK}"', "key": MARK}
