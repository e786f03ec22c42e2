"""Links of the pages lead somewhere. Their code is run by tests/surfaces/docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

ROOT = PROJECT
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(prose) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []
