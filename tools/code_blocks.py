"""Reads the code blocks of all pages; `python -m tools.code_blocks` names those that are not run.

A comment directly above a block says how it is run; readers do not see it:

    <!-- not run: REASON -->      it is not run here
    <!-- setup: CODE -->          code that runs before the block, in the block's language
    <!-- continues -->            Python: keeps the names of the block before
    <!-- prints -->               for `text`: what the block before prints; "…" stands for anything
    <!-- prints: WORDS -->        these words are printed
    <!-- fails -->                the commands end with an error, as the page says
    <!-- reader: NAME -->         TOML: who reads it, if that is not the gateway (provider, other)

A fence with a title (```python title="app.py") is a file: it is written to the folder in which the page's blocks run.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r'^( *)(```+) *([\w-]*)(?: +title="([^"]*)")?(?: .*)?$')
COMMENT = re.compile(r"<!-- *([a-z][a-z ]*[a-z])(?::\s*(.*?))? *-->", re.DOTALL)
MARKS = {"not run", "setup", "continues", "prints", "fails", "reader"}
# How a block of each language is checked. "shown" has no way to be wrong by itself.
CHECKS = {
    "python": "run", "sh": "run", "console": "run",
    "toml": "loaded", "json": "parsed", "yaml": "parsed", "jsonl": "parsed",
    "ts": "type-checked", "tsx": "type-checked", "jsx": "type-checked",
    "text": "shown", "markdown": "shown", "mermaid": "shown", "diff": "shown",
}  # fmt: skip


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block of a page, with the marks above it."""

    page: Path
    line: int
    language: str
    title: str
    text: str
    marks: dict[str, str]

    @property
    def place(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"

    @property
    def reason(self) -> str | None:
        """Why it is not run, if it is not."""
        return self.marks.get("not run")


def list_pages() -> list[Path]:
    """All pages of the project; those of decisions, too."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_marks(lines: list[str]) -> dict[str, str]:
    """The comments that end in the last of these lines, without a line of text in between."""
    first = len(lines)
    while first and lines[first - 1].rstrip().endswith("-->"):
        first -= 1
        while first and "<!--" not in lines[first]:
            first -= 1
    found = COMMENT.findall("\n".join(lines[first:]))
    return {name: textwrap.dedent(value).strip("\n") for name, value in found if name in MARKS}


def read_blocks(page: Path) -> list[CodeBlock]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").split("\n")
    blocks: list[CodeBlock] = []
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        indent, ticks, language, title = opened.groups()
        end = next((row for row in range(number + 1, len(lines)) if lines[row].strip() == ticks), len(lines))
        body = [line.removeprefix(indent) for line in lines[number + 1 : end]]
        text = "".join(f"{line}\n" for line in body)
        blocks.append(CodeBlock(page, number + 1, language, title or "", text, read_marks(lines[:number])))
        number = end + 1
    return blocks


def main() -> None:
    """Prints the blocks that are not run, and why."""
    blocks = [block for page in list_pages() for block in read_blocks(page)]
    waiting = [block for block in blocks if block.reason is not None]
    for block in waiting:
        print(f"{block.place}: {block.reason}")
    print(f"{len(waiting)} of {len(blocks)} blocks are not run")


if __name__ == "__main__":
    main()
