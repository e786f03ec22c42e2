"""URLs that a text contains: the fast search agrees with a plain search of the whole text."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock._transforms.sentence_ends import LONGEST, AddressIndex
from tests.support.each_case import each

PIECES = [
    "https://a.b/c", "http://a.b", "https://", ".", ")", "(", " ", "\n", "/", "x", "é", "?q=http://c.d", ",",
    "HTTPS://E.f",
]  # fmt: skip
URLS = ["https://a.b/c", "http://a.b", "https://a.b", "http://c.d", "https://a.b/c.", "https://a.b/c)", "HTTPS://E.f"]


def mentioned(text: str, url: str) -> bool:
    """Whether the address stands there and what follows would not continue it."""
    return re.search(re.escape(url) + r"(?![\w/%#?&=~-])", text) is not None


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_as_a_plain_search(pieces: list[str]) -> None:
    words = "".join(pieces).split()
    assume(all(len(re.findall("https?://", word, re.IGNORECASE)) <= 5 for word in words))  # no more are looked at
    known = AddressIndex()
    for place, piece in enumerate(pieces, 1):
        known.add(piece)
        text = "".join(pieces[:place])
        for url in URLS:
            assert known.has(url) == mentioned(text, url), (text, url)


def test_an_address_that_ends_with_a_bracket() -> None:
    known = AddressIndex()
    known.add("see https://en.wikipedia.org/wiki/A_(b)")
    assert known.has("https://en.wikipedia.org/wiki/A_(b)")
    assert not known.has("https://en.wikipedia.org/wiki/A")


@each("before", range(0, 3 * LONGEST, 149))
def test_a_word_without_end(before: int) -> None:
    known = AddressIndex()
    known.add("(" * before + "https://a.b/c" + "(" * (3 * LONGEST))
    assert known.has("https://a.b/c")
    assert not known.has("https://a.b/")
