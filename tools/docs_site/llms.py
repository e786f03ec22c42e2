"""Writes llms.txt (the list of pages, see https://llmstxt.org) and llms-full.txt (their text)."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| \[[^\]]*\]\(([^)]*)\) \| ([^|\n]*) \|", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[.!?:])\s")
_BLOCKS = frozenset({"p", "pre", "li", "h1", "h2", "h3", "h4", "h5", "div", "table", "tr"})
_IGNORED = frozenset({"script", "style"})


class SitePage(NamedTuple):
    """A page as llms.txt lists it. `section` is the part of the navigation that it is in."""

    section: str
    title: str
    source: str
    address: str
    markdown: str


class _TextOfHtml(HTMLParser):
    """Collects the text of a page, one line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._ignored = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._ignored or (tag == "a" and ("class", "headerlink") in attrs) or tag in _IGNORED:
            self._ignored += 1
        elif tag in _BLOCKS:
            self.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._ignored = max(0, self._ignored - 1)

    def handle_data(self, data: str) -> None:
        if not self._ignored:
            self.text.append(data)


def text_of_html(html: str) -> str:
    """The text of generated pages, such as the API reference, without empty lines."""
    parser = _TextOfHtml()
    parser.feed(html)
    lines = (line.rstrip() for line in "".join(parser.text).splitlines())
    return "\n".join(line for line in lines if line)


def first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph, without links; empty if a page has no prose."""
    for block in _CODE.sub("", markdown).split("\n\n"):
        text = block.strip()
        if text and text[0] not in "#|!<:->{":
            plain = _LINK.sub(r"\1", " ".join(text.split()))
            return _SENTENCE.split(plain)[0].rstrip(":")
    return ""


def descriptions(home: str) -> dict[str, str]:
    """What each page is about, by the tables of the home page."""
    return {page: _LINK.sub(r"\1", about) for page, about in _ROW.findall(home)}


def page_list(name: str, description: str, pages: Sequence[SitePage]) -> str:
    """The text of llms.txt. The first page is the home page, which describes the others."""
    known = descriptions(pages[0].markdown)
    lines = [f"# {name}", "", f"> {description}"]
    section = ""
    for page in pages:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        about = known.get(page.source) or first_sentence(page.markdown)
        lines.append(f"- [{page.title}]({page.address}){f': {about}' if about else ''}")
    return "\n".join(lines) + "\n"


def page_texts(pages: Iterable[SitePage]) -> str:
    """The text of llms-full.txt: every page in the order of the navigation, under its address."""
    return "\n\n".join(f"<!-- {page.address} -->\n\n{page.markdown.strip()}" for page in pages) + "\n"
