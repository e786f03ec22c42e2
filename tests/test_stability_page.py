"""docs/stability.md names every public module, and the docs describe every name of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock
from penstock._gateway.endpoints.unsupported import unsupported_features
from tests.test_surface import PUBLIC_MODULES

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "stability.md").read_text(encoding="utf-8")
PAGES = [path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")]


@pytest.mark.finding("LIB-10")
def test_the_page_lists_the_public_modules() -> None:
    listed = re.findall(r"^\| `penstock\.(\w+)` \|", PAGE, re.MULTILINE)
    assert listed == sorted(PUBLIC_MODULES)
    assert f"There are {len(PUBLIC_MODULES)}:" in PAGE


@pytest.mark.parametrize("name", penstock.__all__)
def test_a_name_of_the_package_is_described(name: str) -> None:
    described = re.compile(rf"`(?:penstock\.)?{re.escape(name)}[`(\[]")
    assert any(described.search(page) for page in PAGES), f"no page in docs/ describes penstock.{name}"


@pytest.mark.finding("LIB-10")
def test_the_page_lists_no_name_that_is_gone() -> None:
    table = PAGE.partition("**The package**")[2].partition("**Outside Python**")[0]
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
    assert sorted(listed) == sorted(penstock.__all__)


@pytest.mark.finding("LIB-10")
def test_the_page_says_what_may_change() -> None:
    assert "penstock follows [semantic versioning](https://semver.org/)" in PAGE
    assert "underscore" in PAGE


def test_the_page_lists_what_is_not_served() -> None:
    """Each row of the table of unsupported features has at least one of its routes on the page."""
    rows: dict[str, list[str]] = {}
    for (protocol, key), feature in unsupported_features().items():
        version = "v1beta" if protocol == "gemini" else "v1"
        rows.setdefault(f"{protocol}: {feature.what}", []).append(key if key.startswith(":") else f"/{version}/{key}")
    unlisted = [what for what, routes in rows.items() if not any(f"`{route}" in PAGE for route in routes)]
    assert unlisted == ["gemini: computeTokens", "gemini: the Live API"]  # too small; `BidiGenerateContent`


def test_the_index_links_the_page() -> None:
    assert "(stability.md)" in (DOCS / "README.md").read_text(encoding="utf-8")
