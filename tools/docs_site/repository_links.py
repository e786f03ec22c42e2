"""Links of a page, from paths in the repository to paths on the site.

Some files outside docs/ are pages of the site, too (`PAGES`). A link to any other file outside docs/ leads to the
repository if its address is known. If it is not, only the text of the link stays.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# file in the repository → page of the site
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
    "benchmarks/results.md": "benchmark-results.md",
}
_HOME = {"README.md": "README.md", "docs": "README.md"}
_CODE = r"^ *```.*?^ *```|`[^`\n]*`"
_LINK = r"!?\[(?P<text>(?:[^\[\]`]|`[^`\n]*`)*)\]\((?P<target>[^)\s]+)\)"
_FOUND = re.compile(rf"(?P<code>{_CODE})|(?P<link>{_LINK})", re.DOTALL | re.MULTILINE)


def path_in_repository(page: str) -> str:
    """Where the source of a page is, relative to the repository."""
    sources = {site: file for file, site in PAGES.items()}
    return sources.get(page, f"docs/{page}")


def _path_on_site(file: str) -> str | None:
    if file in PAGES or file in _HOME:
        return PAGES.get(file) or _HOME[file]
    if not file.startswith("docs/"):
        return None
    on_site = file.removeprefix("docs/")
    return on_site if posixpath.splitext(on_site)[1] else f"{on_site}/README.md"


def adapt_links(text: str, page: str, address_of: Callable[[str], str]) -> str:
    """The text of a page with links that work on the site. `address_of`: the address of a file, or an empty text."""
    folder = posixpath.dirname(path_in_repository(page))

    def adapt(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        target, _, anchor = found["target"].partition("#")
        if not target or ":" in target:
            return found[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        on_site = _path_on_site(file)
        if on_site is None:
            address = address_of(file)
            return f"[{found['text']}]({address})" if address else found["text"]
        relative = posixpath.relpath(on_site, posixpath.dirname(page) or ".")
        return found[0].replace(f"({found['target']})", f"({relative}{'#' if anchor else ''}{anchor})")

    return _FOUND.sub(adapt, text)
