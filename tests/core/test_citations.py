"""Citations as links: after the sentence or block they belong to, never inside a word, and the text itself unharmed."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock._grammar import Guard
from penstock._transforms.citation_links import CitationLinks, markdown_link
from tests.support.each_case import each

LINK = r"\[\w+\]\(https://\w+\.example\)"
A, B = "[A](https://a.example)", "[B](https://b.example)"


def source(index: int, name: str = "a", **fields: Any) -> ev.Source:
    return ev.Source(index, f"https://{name}.example", name.upper(), **fields)


def said(*events: Any, keep: bool = False) -> str:
    return text_of(shaped([ev.Start(), *events, ev.Finish("stop")], keep=keep))


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, ev.TextDelta))


def shaped(events: list[Any], *, keep: bool = False, one_by_one: bool = False) -> list[Any]:
    stage = CitationLinks(keep=keep)
    batches = [[event] for event in events] if one_by_one else [events]
    return [event for batch in batches for event in stage.feed(batch)] + stage.finish()


def text(*pieces: str, index: int = 0) -> list[Any]:
    return [ev.TextStart(index), *[ev.TextDelta(index, piece) for piece in pieces], ev.TextEnd(index)]


# ── where a link goes ─────────────────────────────────────────────────────────────────────────────────────────────────


def after(pieces: list[str], *more: str, span: tuple[int, int] = (0, 3)) -> str:
    """The text when a source of its first words comes after some pieces and before others."""
    deltas = [ev.TextDelta(0, piece) for piece in pieces]
    rest = [ev.TextDelta(0, piece) for piece in more]
    return said(ev.TextStart(0), *deltas, source(1, of=0, span=span), *rest, ev.TextEnd(0))


@each(
    "before, rest, whole",
    [
        ("The tide tur", ["ns at six. We sail."], f"The tide turns at six. {A} We sail."),
        ("The tide turns at six", [". We sail."], f"The tide turns at six. {A} We sail."),
        ("The tide turns at six.", [" We sail."], f"The tide turns at six. {A} We sail."),
        ("The tide turns at six. ", ["We sail."], f"The tide turns at six. {A} We sail."),
        ("The tide turns (at six.)", [" We sail."], f"The tide turns (at six.) {A} We sail."),
        ("The tide", [" turns", "\nWe sail."], f"The tide turns {A}\nWe sail."),
        ("The tide", [" turns"], f"The tide turns {A}"),
        ("Pi is 3.", ["14 or so. Yes."], f"Pi is 3.14 or so. {A} Yes."),
        ("潮は六時", ["に変わる。出航。"], f"潮は六時に変わる。 {A} 出航。"),
        ("Tide at six.\n\n", ["We sail."], f"Tide at six.\n\n{A}\n\nWe sail."),
    ],
)
def test_a_link_follows_its_sentence(before: str, rest: list[str], whole: str) -> None:
    assert after([before], *rest) == whole


@each(
    "before, rest, whole",
    [
        ("```py\nx = 1", [". y\n```\nRun it. Now."], f"```py\nx = 1. y\n```\nRun it. {A} Now."),
        ("Use `a", [". b` here. Yes."], f"Use `a. b` here. {A} Yes."),
        ("| a. b", [" |\n| c |\n\nThat is all. Yes."], f"| a. b |\n| c |\n\nThat is all. {A} Yes."),
        ("| a | b |", [], f"| a | b |\n\n{A}"),
        ("1", [". Cast off. Then"], f"1. Cast off. {A} Then"),
    ],
)
def test_nothing_is_put_into_code_tables_or_numbers(before: str, rest: list[str], whole: str) -> None:
    assert after([before], *rest, span=(0, 1)) == whole


def test_a_span_that_is_not_said_yet_is_waited_for() -> None:
    events = [ev.TextStart(0), source(1, of=0, span=(9, 15)), ev.TextDelta(0, "One two. Three. Four."), ev.TextEnd(0)]
    assert said(*events) == f"One two. Three. {A} Four."


def test_the_sentence_of_a_cited_part_may_end_in_the_next_part() -> None:
    cited = [ev.TextStart(1), source(2, of=1), ev.TextDelta(1, "boats may stay"), ev.TextEnd(1)]
    events = [*text("By the rules, "), *cited, *text(" three nights. No longer.", index=3)]
    assert said(*events) == f"By the rules, boats may stay three nights. {A} No longer."


def test_a_call_ends_the_block() -> None:
    cited = [ev.TextStart(0), source(1, of=0), ev.TextDelta(0, "boats may stay"), ev.TextEnd(0)]
    out = shaped([ev.Start(), *cited, ev.CallStart(2, "c", "f"), ev.CallEnd(2, "c", "f", "{}"), ev.Finish("calls")])
    assert [type(event).__name__ for event in out[:4]] == ["Start", "TextStart", "TextDelta", "TextDelta"]
    assert out[3] == ev.TextDelta(0, f" {A}")
    assert isinstance(out[4], ev.TextEnd)


def test_several_links_stand_together_and_the_same_one_once() -> None:
    marks = [source(1, "a", of=0, span=(0, 3)), source(2, "b", of=0, span=(0, 3)), source(3, "a", of=0, span=(0, 3))]
    events = [ev.TextStart(0), ev.TextDelta(0, "The tide"), *marks, ev.TextDelta(0, " turns. Yes."), ev.TextEnd(0)]
    assert said(*events) == f"The tide turns. {A} {B} Yes."


def test_sources_of_no_place_follow_as_a_paragraph() -> None:
    assert said(source(0), source(1, "b"), *text("Tide", " at six.", index=2)) == f"Tide at six.\n\n{A} {B}"


def test_sources_after_all_text_get_a_part_of_their_own() -> None:
    events = [ev.Start(), *text("Tide at six."), source(1, of=0), ev.Usage(1, 2), ev.Finish("stop")]
    out = shaped(events)
    assert out[-4:-1] == [ev.TextStart(2), ev.TextDelta(2, f"\n\n{A}"), ev.TextEnd(2)]


def test_an_address_that_the_text_gives_itself_is_not_repeated() -> None:
    assert after(["See ([A](https://a.example)) for", " more. Yes"]) == "See ([A](https://a.example)) for more. Yes"
    assert after(["See https://a.example/b for", " more. Yes"]) == f"See https://a.example/b for more. Yes {A}"


def test_sources_are_kept_when_asked() -> None:
    events = [ev.Start(), *text("Tide."), source(1, of=0), ev.Finish("stop")]
    assert source(1, of=0) in shaped(events, keep=True)
    assert not [event for event in shaped(events) if isinstance(event, ev.Source)]


def test_without_sources_the_very_list_passes() -> None:
    stage = CitationLinks()
    stage.feed([ev.Start(), ev.TextStart(0)])
    batch = [ev.TextDelta(0, "a"), ev.TextDelta(0, "b")]
    assert stage.feed(batch) is batch


# ── what a link looks like ────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "title, url, link",
    [
        ("Tides", "https://a.example/x", "[Tides](https://a.example/x)"),
        ("", "https://www.a.example/x", "[a.example](https://www.a.example/x)"),
        ("a [b]\n*c*", "https://a.example", r"[a \[b\] \*c\*](https://a.example)"),
        ("x", "https://a.example/a b(c)", "[x](https://a.example/a%20b%28c%29)"),
        ("run me", "command:workbench.action.quit", ""),
        ("run me", "javascript:alert(1)", ""),
        ("a file", "", ""),
    ],
)
def test_a_link(title: str, url: str, link: str) -> None:
    assert markdown_link(title, url) == link


def test_what_cannot_be_linked_is_reported() -> None:
    stage = CitationLinks()
    stage.feed([ev.Start(), ev.Source(0, title="a file")])
    assert [found.code for found in stage.diagnostics] == ["no-link"]


# ── for any text ──────────────────────────────────────────────────────────────────────────────────────────────────────

WORDS = st.lists(
    st.sampled_from(["tide", " ", ". ", "3.14", "\n", "\n\n", "```\n", "| a |\n", "`", "é", "。", "!", "-", "x"]),
    max_size=30,
)
MARKS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(0, 40)), max_size=5)


def stream(words: list[str], marks: list[tuple[int, bool, int]], cut: int) -> list[Any]:
    """A turn of two text parts, with sources strewn in."""
    events: list[Any] = [ev.Start(), ev.TextStart(0)]
    number, part = 1, 0
    for place, word in enumerate(words):
        for at, loose, end in marks:
            if at == place:
                span = (0, end) if end else None
                events.append(
                    source(number, "abcdef"[number % 6], of=None if loose else part, span=None if loose else span)
                )
                number += 1
        if place == cut:
            events += [ev.TextEnd(part), ev.TextStart(number)]
            part, number = number, number + 1
        events.append(ev.TextDelta(part, word))
    return [*events, ev.TextEnd(part), ev.Finish("stop")]


@given(WORDS, MARKS, st.integers(0, 30))
def test_the_text_is_unharmed_and_no_word_is_cut(words: list[str], marks: list[Any], cut: int) -> None:
    events = stream(words, marks, cut)
    out = shaped(events)
    guard = Guard(strict=True)
    guard.feed([event for event in shaped(events, keep=True) if event])
    guard.finish()
    assert out == shaped(events, one_by_one=True)
    whole = text_of(out)
    for link in re.finditer(LINK, whole):
        assert not (whole[: link.start()][-1:].isalnum())
        assert not (whole[link.end() :][:1].isalnum())
    assert re.sub(r"\s", "", re.sub(LINK, "", whole)) == re.sub(r"\s", "", "".join(words))
