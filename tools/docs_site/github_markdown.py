"""Adapts Markdown as GitHub reads it to Python-Markdown, which MkDocs uses.

GitHub starts a list or a table right after a line of text; Python-Markdown wants an empty line between them. GitHub
nests by the width of the list marker; Python-Markdown nests by four spaces.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" *(```+|~~~+)")
_ITEM = re.compile(r" *(?:[-*+]|[0-9]{1,9}[.)]) +")
_TAB = 4


class _Adapter:
    """Reads lines in order. `contents`: the column where the content of each open list item begins."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.contents: list[int] = []
        self.fence = ""
        self.before = "blank"  # the kind of the line before: blank, text, table or code

    def add_line(self, line: str) -> None:
        if self.fence:
            self._write(line)
            if line.strip().startswith(self.fence) and not line.strip().strip(self.fence[0]):
                self.fence = ""
        elif not line.strip():
            self.written.append("")
            self.before = "blank"
        elif fence := _FENCE.match(line):
            self._close_items(line)
            self.fence = fence[1]
            self._write(line)
            self.before = "code"
        elif not self.contents and _indent(line) >= _TAB and self.before in {"blank", "code"}:
            self.written.append(line)
            self.before = "code"
        elif item := _ITEM.match(line):
            self._add_item(line, len(item[0]))
        else:
            self._close_items(line)
            kind = "table" if line.lstrip().startswith("|") else "text"
            if kind == "table" and self.before == "text":
                self.written.append("")
            self._write(line)
            self.before = kind

    def _add_item(self, line: str, content: int) -> None:
        if self.before == "text" and not self.contents:
            self.written.append("")
        while self.contents and _indent(line) < self.contents[-1]:
            self.contents.pop()
        self._write(line)
        self.contents.append(content)
        self.before = "text"

    def _close_items(self, line: str) -> None:
        """A line that is indented less than an item's content ends the item, unless it continues its paragraph."""
        if self.before != "text" or line.startswith("#"):
            while self.contents and _indent(line) < self.contents[-1]:
                self.contents.pop()

    def _write(self, line: str) -> None:
        column = next((one for one in reversed(self.contents) if one <= _indent(line)), None)
        if line.strip() and column is not None:
            depth = self.contents.index(column) + 1
            line = " " * (depth * _TAB) + line[column:]
        self.written.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def adapt_markdown(text: str) -> str:
    """The same page for Python-Markdown."""
    adapter = _Adapter()
    for line in text.split("\n"):
        adapter.add_line(line)
    return "\n".join(adapter.written)
