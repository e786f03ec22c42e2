"""Links of the pages lead somewhere. Their code is run by tests/surfaces/docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@each("page", PAGES, str)
def test_links_lead_somewhere(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(prose) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []
