"""`python -m tools.readability`: how easy the pages are to read. Prints the worst pages and the worst sentences.

    python -m tools.readability                      # README.md, CONTRIBUTING.md, SECURITY.md and docs/
    python -m tools.readability docs/gateway.md      # one page: every long sentence, every construction to avoid

Counted are words per sentence, sentences with more than `LONG` words, and constructions that readers have to guess
(`AVOID`). Code, tables, headings and the targets of links are left out; a name in backquotes is one word. A list item
begins a new sentence. tests/test_readability.py holds the pages to what they reach now.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG = 30  # words of a sentence that should be two
SHOWN = 15
# What to avoid → what to write instead.
AVOID = {
    r"who(?:m)?ever": "the client, the caller, anyone who",
    r"of (?:its|their|our|your|his) own": "its own …, a separate …",
    r"(?<!there )(?:is|are|was|were) no(?= (?!longer\b|more\b|one\b|such\b))": "is not a …",
    r"(?:nobody|somebody) (?:said|says|told|tells|asked|asks)": "… was not given",
    r"(?:is|are|was|were) told(?: of| where| about)?": "is sent, is reported",
    r"no word (?:for|of|with)": "no field for, cannot express",
    r"(?:came|come|comes) of": "results from",
    r"must be said|sign of life|lights what|opens nothing any more": "plain words",
    r"(?:the one|those) (?:who|that) (?:ask|asks|answer|answers)": "the client, the provider",
    r"(?:let alone|hence|thereby|therein|thereof|whereby|whence|lest|save for)": "a plainer word",
    r"not (?:so much|until) \w+ (?:does|do|is|are|has|have)": "subject first",
}
_AVOIDED = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): better for pattern, better in AVOID.items()}
_CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NAMES = re.compile(r"`[^`\n]+`(?:(?:,| and| or|, and|, or) `[^`\n]+`)*")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^ *(?:[-*+]|[0-9]{1,3}\.) ")
_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[)\"'*_]* +")
_WORD = re.compile(r"[\w`][\w'`%.,/-]*")


@dataclass
class PageReport:
    """The figures of a page."""

    name: str
    sentences: list[str] = field(default_factory=list)
    avoided: list[tuple[str, str, str]] = field(default_factory=list)  # found, what to write instead, the sentence

    @property
    def words(self) -> int:
        return sum(map(count_words, self.sentences))

    @property
    def mean(self) -> float:
        return self.words / max(1, len(self.sentences))

    @property
    def long(self) -> list[str]:
        return sorted((one for one in self.sentences if count_words(one) > LONG), key=count_words, reverse=True)


def count_words(sentence: str) -> int:
    """The number of words; a name in backquotes is one."""
    return len(_WORD.findall(sentence))


def split_sentences(text: str) -> list[str]:
    """The sentences of a page."""
    blocks: list[str] = [""]
    for line in _CODE.sub("\n", _COMMENT.sub("", text)).splitlines():
        stripped = line.strip()
        skipped = stripped.startswith(("|", "#", "<", ":::", "---")) or (line.startswith("    ") and not blocks[-1])
        if not stripped or skipped:
            blocks.append("")
        elif _ITEM.match(line):
            blocks.append(_ITEM.sub("", line).strip())
        else:
            blocks[-1] = f"{blocks[-1]} {stripped}".strip()
    plain = (_NAMES.sub("`x`", _LINK.sub(r"\1", block)) for block in blocks)
    return [one for block in plain for one in _END.split(block) if count_words(one) > 1]


def read_page(path: Path) -> PageReport:
    """The report of a page."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    report = PageReport(name, split_sentences(path.read_text(encoding="utf-8")))
    for sentence in report.sentences:
        for pattern, better in _AVOIDED.items():
            report.avoided += [(found[0], better, sentence) for found in pattern.finditer(sentence)]
    return report


def list_pages() -> list[Path]:
    """All pages but the changelog, whose entries are as they were released."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def print_summary(reports: list[PageReport]) -> None:
    """Prints the totals, the worst pages and the worst sentences."""
    words, sentences = sum(one.words for one in reports), sum(len(one.sentences) for one in reports)
    long = sorted(
        ((count_words(text), one.name, text) for one in reports for text in one.long), key=lambda row: -row[0]
    )
    avoided = sum(len(one.avoided) for one in reports)
    print(f"{len(reports)} pages, {sentences} sentences, {words / sentences:.1f} words per sentence")
    print(f"{len(long)} sentences with more than {LONG} words, {avoided} constructions to avoid\n")
    print(f"{'page':<52} {'words':>6} {'mean':>5} {'long':>5} {'avoid':>5}")
    worst = sorted(reports, key=lambda one: len(one.long) + len(one.avoided), reverse=True)
    for one in worst[:SHOWN]:
        print(f"{one.name:<52} {one.words:>6} {one.mean:>5.1f} {len(one.long):>5} {len(one.avoided):>5}")
    print("\nthe longest sentences")
    for count, name, text in long[:SHOWN]:
        print(f"{count:>4}  {name}: {text}")


def print_page(report: PageReport) -> None:
    """Prints every long sentence and every construction to avoid of a page."""
    print(f"{report.name}: {len(report.sentences)} sentences, {report.mean:.1f} words per sentence")
    for text in report.long:
        print(f"{count_words(text):>4}  {text}")
    for found, better, sentence in report.avoided:
        print(f"      {found} → {better}: {sentence}")


def main() -> None:
    """Prints a report of all pages, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    if options.pages:
        for path in options.pages:
            print_page(read_page(path.resolve()))
    else:
        print_summary([read_page(path) for path in list_pages()])


if __name__ == "__main__":
    main()
