"""The address of the project stands in pyproject.toml alone; before publication nothing links to it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools.publication import Publication, pages_address, read_publication

ROOT = Path(__file__).resolve().parents[2]
# Addresses that would be the project's own: a repository, a package, an image, a page or a badge of that name.
OWN = re.compile(
    r"(?:github|gitlab)\.com[/:](?!OWNER/)[\w.-]{1,40}/penstock(?![\w-])"
    r"|[\w-]{1,40}\.(?:github|gitlab)\.io/penstock(?![\w-])"
    r"|penstock\.(?:dev|io|app|readthedocs\.io|github\.io)\b"
    r"|(?:ghcr|quay|docker)\.io/[\w./-]{1,60}penstock"
    r"|pypi\.org/(?:p|project)/penstock\b"
    r"|marketplace\.visualstudio\.com/items\?itemName=penstock"
    r"|(?:shields|badgen)\.\w{2,4}/",
    re.IGNORECASE,
)
SAMPLES = (
    "https://github.com/someone/penstock", "git@github.com:someone/penstock.git", "https://someone.github.io/penstock/",
    "ghcr.io/someone/penstock:0.1", "https://pypi.org/project/penstock/", "https://img.shields.io/pypi/v/penstock",
    "https://marketplace.visualstudio.com/items?itemName=penstock.penstock",
)  # fmt: skip


def tracked_texts() -> list[tuple[str, str]]:
    """The files of the repository that are text, this one left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    found: list[tuple[str, str]] = []
    for name in filter(None, listed):
        file = ROOT / name
        if name.startswith("tests/release/") or not file.is_file() or file.stat().st_size > 2_000_000:
            continue
        data = file.read_bytes()
        if b"\0" not in data[:8000]:
            found.append((name, data.decode("utf-8", "replace")))
    return found


@pytest.mark.slow
def test_no_file_names_an_address_of_the_project() -> None:
    """pyproject.toml may, once the project is published."""
    assert all(OWN.search(sample) for sample in SAMPLES)
    found = {name: match[0] for name, text in tracked_texts() if (match := OWN.search(text))}
    found.pop("pyproject.toml", None)
    assert found == {}


def test_everything_follows_from_the_repository(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://github.com/Someone/penstock"\n')
    found = read_publication(tmp_path)
    assert (found.owner, found.issues) == ("Someone", "https://github.com/Someone/penstock/issues")
    assert found.documentation == "https://someone.github.io/penstock"


def test_before_publication_everything_is_empty(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert read_publication(tmp_path) == Publication("", "")
    assert (Publication().owner, Publication().issues, pages_address("https://example.com/a/b")) == ("", "", "")


@pytest.mark.parametrize(
    "wrong",
    ["http://example.com/a/b", "example.com/a", "https://example.com", "https://e.com/a/", "https://e.com/OWN ER/a"],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{wrong}"\n')
    with pytest.raises(SystemExit, match="not an address"):
        read_publication(tmp_path)


def test_urls_without_a_repository_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nHomepage = "https://example.com/a"\n')
    with pytest.raises(SystemExit, match="no Repository"):
        read_publication(tmp_path)
