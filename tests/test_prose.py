"""Docs and messages are in plain words and short sentences, so that everybody can read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for folder in (".", "protocols", "tutorials") for page in sorted((ROOT / "docs" / folder).glob("*.md"))),
]
MESSAGES = [path for end in ("py", "toml") for path in sorted((ROOT / "src/penstock/_cli").rglob(f"*.{end}"))]
DECISIONS = sorted((ROOT / "docs/decisions").glob("2*.md"))
MAX_WORDS = 60  # of a sentence; a list of names counts as one word
# Words and turns of phrase that readers had to guess.
RIDDLES = re.compile(
    r"\b(?:who(?:m)?ever|came of|come of it|lights what|told of|nobody said|must be said|opens nothing any more|"
    r"in silence it|sign of life|is told where|is of its own)\b",
    re.IGNORECASE,
)
CODE = re.compile(r"```.*?```", re.DOTALL)
NAMES = re.compile(r"`[^`]*`(?:,? (?:and |or )?`[^`]*`)*")
LINK = re.compile(r"\]\([^)]*\)")
ITEM = re.compile(r"^\s*(?:[-*]|[0-9]+\.) ")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code, tables, headings and the targets of links."""
    paragraph = ""
    for line in [*CODE.sub("\n", text).splitlines(), ""]:
        if not paragraph and line.startswith("    "):  # code, too
            continue
        ends = not line.strip() or line.lstrip().startswith(("|", "#", "!", "<")) or ITEM.match(line)
        if ends:
            yield from re.split(r"(?<=[.!?:;]) ", NAMES.sub("x", LINK.sub("]", paragraph)))
            paragraph = ""
        if not ends or ITEM.match(line):
            paragraph += f" {ITEM.sub('', line).strip()}"


@pytest.mark.finding("LIB-15")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_short_sentences_and_no_riddles(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [one for one in sentences(text) if len(one.split()) > MAX_WORDS] == []
    assert RIDDLES.findall(CODE.sub("", text)) == []


@pytest.mark.finding("LIB-15")
def test_messages_of_the_command_line_have_no_riddles() -> None:
    assert len(MESSAGES) > 10
    found = {path.name: RIDDLES.findall(path.read_text(encoding="utf-8")) for path in MESSAGES}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.finding("LIB-15")
@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_the_title_of_a_decision_says_what_was_decided(page: Path) -> None:
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    assert 3 <= len(title.split()) <= 14
    assert not RIDDLES.search(title)
