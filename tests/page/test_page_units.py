"""The page without a browser: its own tests, types and lint, what is built, and what its code never does."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.support.browser import PAGE
from tests.support.paths import PROJECT
from tests.surfaces.vscode.e2e import script

WEB = PROJECT / "web"
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


@pytest.mark.usefixtures("built")
def test_what_is_served_is_built_from_these_sources_and_small(tmp_path: Path) -> None:
    """Two builds are the same. One script, one worker and one style sheet, named by what they hold, nothing inline."""
    script("node_modules/vite/bin/vite.js", "build", "--outDir", tmp_path, "--emptyOutDir", cwd=WEB)
    files = _files(tmp_path)
    assert files == _files(PAGE), "make web builds it again"
    packed = {name for name in files if name.endswith((".br", ".gz"))}
    kinds = sorted(Path(name).suffix for name in files.keys() - packed if name.startswith("assets/"))
    assert kinds == [".css", ".js", ".js", ".js", ".svg"]  # the page, the worker of regular expressions, the editor
    sizes = {name: len(gzip.compress(files[name])) for name in files.keys() - packed}
    editor = sum(size for name, size in sizes.items() if name.startswith("assets/editor-"))
    assert 0 < editor < LARGEST_EDITOR
    assert sum(sizes.values()) - editor < LARGEST
    (script_name,) = (name for name in files if name.startswith("assets/index-") and name.endswith(".js"))
    assert not re.search(rb"""from\s*["'`]\./""", files[script_name]), "a saved page has one script"
    page = files["index.html"].decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=", page)
    for name, data in files.items():
        skipped = name == "licenses.md" or name in packed
        outside = None if skipped else ADDRESS.search(data.decode())  # licences name their authors
        assert not outside, f"{name}: {outside[0]}"


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_nothing_becomes_markup_or_code() -> None:
    for file in (WEB / "src").rglob("*.ts*"):
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
        assert not (found := NEVER.search(code)), f"{file.name}: {found[0]}"


def test_the_lock_has_no_addresses() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    pinned = re.findall(r'"[^"]+": "([^"]+)"', (WEB / "package.json").read_text().partition('"devDependencies"')[2])
    assert all(re.fullmatch(r"[\d.]+|\^24\.0\.0", version) for version in pinned), pinned
