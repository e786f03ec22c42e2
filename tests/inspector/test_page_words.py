"""The words of the page are the usual ones: the texts in its code have none of the old names of things."""

from __future__ import annotations

import re

import pytest

from penstock._store.turn_states import SHOWN_STATES
from tests.inspector import test_page_units

SOURCES = test_page_units.WEB / "src"
COMMENT = re.compile(r"""(?<![:"'`])//[^\n]*|/\*.*?\*/""", re.DOTALL)
# A text in quotes, or between tags.
TEXT = re.compile(
    r"""
    "((?:[^"\\\n]|\\.)*)" | '((?:[^'\\\n]|\\.)*)' | `((?:[^`\\]|\\.)*)` | [>}]([^<>{};=()]+)(?=[<{])
    """,
    re.DOTALL | re.VERBOSE,
)
# What stood there for characters, what came of what, resume, a new conversation, no matching requests, time to first
# token and download. Names of classes (`compare-letter`) are no words of the page.
OLD = re.compile(
    r"(?<![\w-])[Ll]etters?(?![\w-])|\b[Cc]ame of\b|\b[Gg]ave\b|\b[Gg]o on\b|\b[Nn]ew talk\b|\b[Nn]o turns? (?:is|are) like\b"
    r"|^\s*(?:First|Share)\s*$"
)
USUAL = (
    " characters", "Time to first token", "Resume", "New conversation", "No matching requests", "Download", "failed",
)  # fmt: skip


def page_texts(code: str) -> list[str]:
    """The texts of a source file, without those of its comments."""
    return [next(filter(None, found.groups()), "") for found in TEXT.finditer(COMMENT.sub("", code))]


@pytest.mark.finding("INS-22")
def test_the_page_has_no_old_words() -> None:
    texts = {path.name: page_texts(path.read_text()) for path in SOURCES.rglob("*.ts*")}
    assert {name: found for name, all_ in texts.items() if (found := [text for text in all_ if OLD.search(text)])} == {}
    joined = "\n".join(text for all_ in texts.values() for text in all_)
    assert [word for word in USUAL if word not in joined] == []


@pytest.mark.finding("INS-22")
@pytest.mark.parametrize(
    "code",
    ['title="First"', "<th>Share</th>", "`${n} letters before`", "<b>Go on</b>", '["came of", 1]', "'New talk'",
     "<p>No turn is like that.</p>", "{count} letters</p>"],
)  # fmt: skip
def test_an_old_word_is_found(code: str) -> None:
    assert [text for text in page_texts(code) if OLD.search(text)]
    assert page_texts(f"// {code}") == []


def test_all_states_of_the_list_are_in_its_help_and_documentation() -> None:
    help_text = re.search(r'"state:length", "([^"]+)"', (SOURCES / "streams/QueryHelp.tsx").read_text(encoding="utf-8"))
    documentation = (test_page_units.WEB.parent / "docs/inspector.md").read_text(encoding="utf-8")
    listed = re.search(r"words that the list shows: ([^.]+)\.", documentation)
    assert help_text is not None
    assert listed is not None
    assert set(re.findall("[a-z]+", help_text[1].partition("also ")[2])) == SHOWN_STATES.keys() - {"length"}
    assert set(re.findall("`([a-z]+)`", listed[1])) == SHOWN_STATES.keys()
