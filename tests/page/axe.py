"""What axe finds in a page that would shut somebody out. Leans on the copy of axe-core among the page's own packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLACE = PROJECT / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Not "avoid-inline-spacing", which takes a quarter of the time: the page sets no spacing of letters inline.
_RUN = """async ([within, ...only]) => {
    const rules = only.length ? { runOnly: only } : { rules: { "avoid-inline-spacing": { enabled: false } } };
    const { violations } = await axe.run(within || document, { resultTypes: ["violations"], preload: false, ...rules });
    return violations.flatMap(({ id, impact, nodes }) =>
        nodes.map(({ target, html, failureSummary }) => [impact, `${id} ${target}: ${failureSummary}`, html]));
}"""


@cache
def _script() -> str:
    if not PLACE.exists():
        pytest.skip("axe-core is missing (make web installs the page's packages)")
    return PLACE.read_text()


def _violations(page: Page, within: str, *only: str) -> list[tuple[str, str, str]]:
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_script())
    found: list[tuple[str, str, str]] = page.evaluate(_RUN, [within, *only])
    return found


def serious(page: Page, within: str = "") -> list[str]:
    """Everything serious or worse, with where it is: on the whole page, or in a part of it, a selector."""
    return [text for impact, text, _ in _violations(page, within) if impact in {"serious", "critical"}]


def misplaced_headings(page: Page) -> list[str]:
    """Headings that skip a level."""
    return [html for _, _, html in _violations(page, "", "heading-order")]
