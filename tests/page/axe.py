"""What axe finds in a page that would shut somebody out. Leans on the copy of axe-core among the page's own packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLACE = PROJECT / "web" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return grave.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`));
}"""


_HEADINGS = """async () => {
    const { violations } = await axe.run(document, { runOnly: ["heading-order"] });
    return violations.flatMap(({ nodes }) => nodes.map(({ html }) => html));
}"""


@cache
def _script() -> str:
    if not PLACE.exists():
        pytest.skip("axe-core is missing (make web installs the page's packages)")
    return PLACE.read_text()


def serious(page: Page) -> list[str]:
    """Everything serious or worse, with where it is."""
    page.evaluate(_script())
    found: list[str] = page.evaluate(_RUN)
    return found


def misplaced_headings(page: Page) -> list[str]:
    """Headings that skip a level."""
    page.evaluate(_script())
    found: list[str] = page.evaluate(_HEADINGS)
    return found
