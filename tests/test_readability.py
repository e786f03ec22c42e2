"""The pages do not get harder to read. `python -m tools.readability` names the worst pages and sentences."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.readability import ROOT, PageReport, count_words, list_pages, read_page, split_sentences

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

# What the pages reach now. These bounds may only fall.
MEAN_WORDS = 14.8  # of a sentence, on all pages
LONG_SHARE = 0.047  # of sentences that are too long
AVOIDED_SHARE = 0.017  # of sentences with a construction to avoid
PAGE_MEAN = 25.0
LONGEST = 75  # words


@pytest.fixture(scope="module")
def reports() -> list[PageReport]:
    return [read_page(path) for path in list_pages()]


def test_sentences_are_short_on_the_whole(reports: list[PageReport]) -> None:
    sentences = sum(len(one.sentences) for one in reports)
    assert sum(one.words for one in reports) / sentences <= MEAN_WORDS
    assert sum(len(one.long) for one in reports) / sentences <= LONG_SHARE
    assert sum(len(one.avoided) for one in reports) / sentences <= AVOIDED_SHARE


def test_no_page_is_much_worse_than_the_others(reports: list[PageReport]) -> None:
    assert {one.name: one.mean for one in reports if one.mean > PAGE_MEAN and len(one.sentences) > 5} == {}
    assert [(one.name, text) for one in reports for text in one.long if count_words(text) > LONGEST] == []


def test_the_command_names_the_worst_pages() -> None:
    command = [sys.executable, "-m", "tools.readability"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "words per sentence" in done.stdout
    assert "the longest sentences" in done.stdout


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("# Title\n\nOne two. Three\nfour!\n", ["One two.", "Three four!"]),
        ("- one item\n- two items\n  go on\n", ["one item", "two items go on"]),
        ("| a b | c d |\n\n```sh\nx y\n```\n\n    code here\n", []),
        ("See [the page](a.md) and `a`, `b` or `c d`.", ["See the page and `x`."]),
        ("Some words, e.g. these ones.", ["Some words, e.g. these ones."]),
    ],
)
def test_sentences_are_found(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It has a lock of its own.", ["of its own"]),
        ("This is no loss.", ["is no"]),
        ("There is no loss, and it is no longer kept.", []),
        ("Whoever asks is told about it.", ["Whoever", "is told about"]),
    ],
)
def test_constructions_to_avoid_are_found(text: str, found: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert sorted(one for one, _, _ in read_page(page).avoided) == sorted(found)
