"""The built site: links and anchors lead somewhere, nothing is loaded from elsewhere, search works without a network."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.core.public.test_surface import PUBLIC_MODULES
from tests.support.browser import LIMIT, chromium
from tests.support.paths import PROJECT
from tests.surfaces.docs_site.site_pages import SiteHtml, broken_links, is_external, read_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

ROOT = PROJECT
PYTHON = ROOT / "build/docs-env/bin/python"
CSS_ADDRESS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^)'\"\s]+)")
JS_ADDRESS = re.compile(r"https?://[\w.-]+")
# griffe finds the module of the same name instead; docs/api/testing.md describes the function by hand.
HIDDEN_NAMES = {"penstock.testing.scripts"}
# Hosts that the theme's script names but does not ask here: a licence, and the stars of a repository (source.html).
# The browser's own requests are checked below.
NAMED_HOSTS = {"https://clipboardjs.com", "https://api.github.com"}


def build_site(target: Path) -> None:
    command: list[str | Path] = [PYTHON, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", target]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all processes of a test run."""
    if not PYTHON.exists():
        pytest.skip("the packages of the site are not installed: make docs")
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent if parallel else tmp_path_factory.mktemp("site")
    target = folder / "docs-site"
    with (folder / "docs-site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "llms.txt").exists():  # the last file that is written
            build_site(target)
    return target.resolve()


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, SiteHtml]:
    return read_pages(site)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, SiteHtml]) -> None:
    assert broken_links(site, pages) == []
    assert len(pages) > 100
    assert sum(len(page.links) for page in pages.values()) > 10_000


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, SiteHtml]) -> None:
    assert {address for page in pages.values() for address in page.loaded if is_external(address)} == set()
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert [address for style in styles for address in CSS_ADDRESS.findall(style)] == []
    scripts = [path.read_text(encoding="utf-8") for path in (site / "assets/javascripts").glob("*.js")]
    assert {address for script in scripts for address in JS_ADDRESS.findall(script)} <= NAMED_HOSTS
    assert styles
    assert scripts


def test_lists_and_tables_are_not_left_as_text(site: Path, pages: dict[Path, SiteHtml]) -> None:
    left = re.compile(r"\n *(?:[-*]|[0-9]+\.) |\|-+\||^:::|```")
    assert [
        (str(path.relative_to(site)), text)
        for path, page in pages.items()
        for text in page.paragraphs
        if left.search(text)
    ] == []


@pytest.mark.parametrize("module", sorted(PUBLIC_MODULES))
def test_the_reference_has_every_public_name(module: str, site: Path, pages: dict[Path, SiteHtml]) -> None:
    names = {f"penstock.{module}.{name}" for name in getattr(import_module(f"penstock.{module}"), "__all__", [])}
    page = pages[site / "api" / f"{module}.html"]
    assert names - page.ids - HIDDEN_NAMES == set()


def test_llms_txt_lists_every_page(site: Path, pages: dict[Path, SiteHtml]) -> None:
    listed = set(re.findall(r"\]\(([\w./-]+\.html)\)", (site / "llms.txt").read_text(encoding="utf-8")))
    assert listed == {str(path.relative_to(site)) for path in pages} - {"404.html"}
    texts = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert [path for path in listed if f"<!-- {path} -->" not in texts] == []
    assert "Create one for a program: it keeps connections" in texts  # the docstring of Client


def test_search_works_from_files_without_a_network(site: Path, browser: Browser) -> None:
    context = browser.new_context()
    context.set_default_timeout(LIMIT)
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    page = context.new_page()
    page.goto((site / "client.html").as_uri())
    search = page.locator("input.md-search__input")
    search.click()
    search.press_sequentially("circuit breaker")
    first = page.locator(".md-search-result__link").first
    first.wait_for()
    address = first.get_attribute("href") or ""
    context.close()
    assert address.startswith("file://")
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


@pytest.mark.parametrize(
    ("html", "broken"),
    [
        ('<a href="b.html#there">', []),
        ('<a href="b.html#gone">', ["a.html: b.html#gone"]),
        ('<a href="c.html">', ["a.html: c.html"]),
        ('<img src="c.png">', ["a.html: c.png"]),
        ('<a href="../outside.html">', ["a.html: ../outside.html"]),
        ('<a href="#here"><p id="here">', []),
        ('<a href="#elsewhere">', ["a.html: #elsewhere"]),
        ('<a href="https://example.com/gone">', []),
    ],
)
def test_the_check_finds_broken_links(html: str, broken: list[str], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "outside.html").write_text("", encoding="utf-8")
    (site / "a.html").write_text(html, encoding="utf-8")
    (site / "b.html").write_text('<p id="there">', encoding="utf-8")
    assert broken_links(site, read_pages(site)) == broken
