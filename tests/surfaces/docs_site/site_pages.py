"""Reads the pages of a built site: links, anchors, what the browser would load."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

# The attributes whose address a browser asks for by itself.
LOADED = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "link": "href", "object": "data", "script": "src",
    "source": "src", "video": "src",
}  # fmt: skip
NOT_LOADED = {"canonical", "next", "prev"}  # kinds of <link> that only state something


class SiteHtml(HTMLParser):
    """The ids, the links and the loaded addresses of a page, and the text of its paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = {"", "__top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.paragraphs: list[str] = []
        self._inside = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") not in NOT_LOADED:
            self.loaded.append(given[LOADED[tag]])
        if tag == "p":
            self.paragraphs.append("")
            self._inside += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._inside -= 1

    def handle_data(self, data: str) -> None:
        if self._inside > 0:
            self.paragraphs[-1] += data


def read_pages(site: Path) -> dict[Path, SiteHtml]:
    """Every page of the site, by its path."""
    return {path: SiteHtml(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def is_external(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def broken_links(site: Path, pages: dict[Path, SiteHtml]) -> list[str]:
    """The links and loaded files inside the site that lead nowhere, each with its page."""
    found: list[str] = []
    for path, page in pages.items():
        for address in {*page.links, *page.loaded}:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            base = site if path.name == "404.html" else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            inside = pages.get(target)
            known = inside is None or unquote(parts.fragment) in inside.ids
            if not target.is_file() or not known or not target.is_relative_to(site):
                found.append(f"{path.relative_to(site)}: {address}")
    return sorted(found)
