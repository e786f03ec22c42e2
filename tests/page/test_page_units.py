"""The page without a browser: its own tests, types and lint, what is built, and what its code never does."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.support.paths import PROJECT
from tests.surfaces.vscode.e2e import script

WEB = PROJECT / "web"
STATIC = WEB.parent / "src/penstock/_inspector/static"
LARGEST = 180_000  # bytes of the page, compressed
LARGEST_EDITOR = 140_000  # bytes of the JSON editor, which is loaded when it is first needed, compressed
# What would let a model's words become markup or code, or ask somebody outside.
NEVER = re.compile(
    r"innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
    r"|\beval\(|new Function|setAttribute\(.on|srcdoc|EventSource|WebSocket\(|importScripts"
)
# Names of formats, which nobody asks; and marked says where to report an error in it.
ADDRESS = re.compile(r"https?://(?!www\.w3\.org/|github\.com/markedjs/marked\.)[\w.-]+")


@pytest.fixture(autouse=True)
def _packages() -> None:
    if not (WEB / "node_modules/vite").is_dir():
        pytest.skip("the npm packages of web/ are missing (make web installs them)")


def test_its_own_tests_pass() -> None:
    script("--test", "--test-isolation=none", "--test-timeout=60000", "test/**/*.test.ts", cwd=WEB, limit=300.0)


def test_types_and_lint() -> None:
    script("node_modules/typescript/bin/tsc", "-p", ".", cwd=WEB)
    script("node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings", ".", cwd=WEB)


def test_two_builds_are_the_same_and_small(tmp_path: Path) -> None:
    """One script, one worker and one style sheet, named by what they hold, with nothing inline."""
    for name in ("one", "two"):
        script("node_modules/vite/bin/vite.js", "build", "--outDir", tmp_path / name, "--emptyOutDir", cwd=WEB)
    one, two = (_files(tmp_path / name) for name in ("one", "two"))
    assert one == two
    packed = {name for name in one if name.endswith((".br", ".gz"))}
    kinds = sorted(Path(name).suffix for name in one.keys() - packed if name.startswith("assets/"))
    assert kinds == [".css", ".js", ".js", ".js", ".svg"]  # the page, the worker of regular expressions, the editor
    sizes = {name: len(gzip.compress(one[name])) for name in one.keys() - packed}
    editor = sum(size for name, size in sizes.items() if name.startswith("assets/editor-"))
    assert 0 < editor < LARGEST_EDITOR
    assert sum(sizes.values()) - editor < LARGEST
    (script_name,) = (name for name in one if name.startswith("assets/index-") and name.endswith(".js"))
    assert not re.search(rb"""from\s*["'`]\./""", one[script_name]), "a saved page has one script"
    page = one["index.html"].decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=", page)


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.usefixtures("built")
def test_the_documentation_has_the_size_of_the_page() -> None:
    text = " ".join((WEB.parent / "docs/inspector.md").read_text(encoding="utf-8").split())
    figures = re.search(
        r"are (\d+) kB with brotli, (\d+) kB with gzip, (\d+) kB without.*?\(another (\d+), (\d+) and (\d+) kB", text
    )
    assert figures is not None
    page = [path for path in STATIC.glob("assets/*") if path.name.startswith(("index-", "style-"))]
    editor = list(STATIC.glob("assets/editor-*"))
    sizes = [_total_kilobytes(paths, end) for paths in (page, editor) for end in (".br", ".gz", "")]
    assert [int(one) for one in figures.groups()] == pytest.approx(sizes, rel=0.03)


def _total_kilobytes(paths: list[Path], end: str) -> float:
    """The size of files that are compressed in one way; not compressed, if `end` is empty."""
    wanted = [path for path in paths if path.suffix == end or (not end and path.suffix not in {".br", ".gz"})]
    return sum(path.stat().st_size for path in wanted) / 1000


def test_nothing_becomes_markup_or_code() -> None:
    for file in (WEB / "src").rglob("*.ts*"):
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
        assert not (found := NEVER.search(code)), f"{file.name}: {found[0]}"


@pytest.mark.usefixtures("built")
def test_the_page_names_nobody_outside() -> None:
    for name, data in _files(STATIC).items():
        skipped = name == "licenses.md" or name.endswith((".br", ".gz"))
        outside = None if skipped else ADDRESS.search(data.decode())  # licences name their authors
        assert not outside, f"{name}: {outside[0]}"


def test_the_lock_has_no_addresses() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    pinned = re.findall(r'"[^"]+": "([^"]+)"', (WEB / "package.json").read_text().partition('"devDependencies"')[2])
    assert all(re.fullmatch(r"[\d.]+|\^24\.0\.0", version) for version in pinned), pinned
