"""Expands the navigation of mkdocs.yml: folders become their pages, and every page gets a place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[^)\s]*)?\)")


def pages_of_folder(folder: str, pages: Collection[str], read_text: Callable[[str], str]) -> list[str]:
    """The pages directly in a folder: README.md, those it links in that order, the rest by name."""
    inside = sorted(page for page in pages if page.startswith(folder) and "/" not in page[len(folder) :])
    index = f"{folder}README.md"
    if index not in inside:
        return inside
    linked = [f"{folder}{name}" for name in _LINK.findall(read_text(index))]
    first = dict.fromkeys([index, *(page for page in linked if page in inside)])
    return [*first, *(page for page in inside if page not in first)]


def expand_nav(nav: list[Any], pages: Collection[str], read_text: Callable[[str], str]) -> list[Any]:
    """The navigation with folders expanded. `name.md?` is left out if there is no such page."""
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            [(title, inner)] = entry.items()
            below = expand_nav(inner if isinstance(inner, list) else [inner], pages, read_text)
            found += [{title: below}] if below else []
        elif entry.endswith("/"):
            found += pages_of_folder(entry, pages, read_text)
        elif not entry.endswith("?"):
            found.append(entry)
        elif entry[:-1] in pages:
            found.append(entry[:-1])
    return found


def pages_in_nav(nav: list[Any]) -> Iterator[str]:
    """Every page that a navigation names."""
    for entry in nav:
        if isinstance(entry, dict):
            for inner in entry.values():
                yield from pages_in_nav(inner)
        else:
            yield entry


def complete_nav(nav: list[Any], pages: Collection[str], read_text: Callable[[str], str]) -> list[Any]:
    """The expanded navigation; pages that it does not name are appended to its last section."""
    expanded = expand_nav(nav, pages, read_text)
    [(_, last)] = expanded[-1].items()
    named = set(pages_in_nav(expanded))
    last += sorted(page for page in pages if page not in named)
    return expanded
