"""Release notes, the message of a tag and the section of a version come from the changelog."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.release import changelog
from tools.release.versions import PLACES, ROOT, read_version, read_versions, write_version

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """# Changelog

All notable changes.

## [Unreleased]

### Added
- Streams resume ([resume](docs/resume.md)).
  On any replica.

### Fixed
- A fault.

## [0.1.0] - 2026-01-02

### Added
- Everything.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / changelog.FILE).write_text(TEXT)
    folder = tmp_path / changelog.FOLDER
    folder.mkdir()
    (folder / "README.md").write_text("# How\n")
    (folder / "b-second.fixed.md").write_text("Another fault.\n\nIn two paragraphs.\n")
    (folder / "a-key.security.md").write_text("Keys are redacted.\n")
    return tmp_path


def test_notes_of_a_released_version_are_its_section(tree: Path) -> None:
    assert changelog.release_notes("0.1.0", tree) == "### Added\n- Everything."


def test_notes_of_the_next_version_have_hand_written_entries_and_files(tree: Path) -> None:
    notes = changelog.release_notes("0.2.0", tree)
    assert notes == (
        "### Added\n- Streams resume ([resume](docs/resume.md)).\n  On any replica.\n\n"
        "### Security\n- Keys are redacted.\n\n"
        "### Fixed\n- A fault.\n- Another fault.\n\n  In two paragraphs."
    )


def test_collecting_moves_everything_and_loses_nothing(tree: Path) -> None:
    notes = changelog.release_notes("0.2.0", tree)
    assert "no section [0.2.0]" in changelog.release_problem("0.2.0", tree)
    changelog.collect("0.2.0", "2026-03-04", tree)
    text = (tree / changelog.FILE).read_text()
    assert text.startswith(TEXT[: TEXT.index("### Added")] + "## [0.2.0] - 2026-03-04\n\n### Added\n")
    assert text.endswith(TEXT[TEXT.index("\n## [0.1.0]") :])
    assert changelog.release_notes("0.2.0", tree) == notes
    assert [file.name for file in (tree / changelog.FOLDER).iterdir()] == ["README.md"]
    assert changelog.release_problem("0.2.0", tree) == ""
    with pytest.raises(SystemExit, match="nothing has changed"):
        changelog.collect("0.2.0", "2026-03-05", tree)


def test_a_change_after_collecting_is_added_to_the_same_version(tree: Path) -> None:
    changelog.collect("0.2.0", "2026-03-04", tree)
    (tree / changelog.FOLDER / "late.fixed.md").write_text("A late one.")
    assert "late.fixed.md" in changelog.release_problem("0.2.0", tree)
    changelog.collect("0.2.0", "2026-03-05", tree)
    text = (tree / changelog.FILE).read_text()
    assert text.count("## [0.2.0]") == 1
    assert "In two paragraphs.\n- A late one." in changelog.release_notes("0.2.0", tree)
    assert "## [0.1.0] - 2026-01-02" in text


def test_the_message_of_a_tag_is_plain_text(tree: Path) -> None:
    message = changelog.tag_message("0.2.0", tree)
    assert message.startswith("penstock 0.2.0\n\nAdded:\n- Streams resume (resume).\n")
    assert "#" not in message


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("words.md", "x", "the name is"),
        ("words.feature.md", "x", "the name is"),
        ("words.fixed.md", "\n", "is empty"),
        ("words.fixed.md", "- x", "without a list mark"),
    ],
)
def test_a_wrong_file_is_refused(tree: Path, name: str, text: str, problem: str) -> None:
    (tree / changelog.FOLDER / name).write_text(text)
    with pytest.raises(SystemExit, match=problem):
        changelog.release_notes("0.2.0", tree)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("README.md", 0), ("a-key.security.md", 0), ("words.md", 1)])
def test_files_are_checked_before_a_commit(tree: Path, name: str, code: int) -> None:
    file = tree / changelog.FOLDER / name
    file.touch()
    words = [sys.executable, "-m", "tools.release.changelog", "--check", str(file)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr


def test_the_changelog_of_this_tree_can_be_released(tmp_path: Path) -> None:
    (tmp_path / changelog.FILE).write_text((ROOT / changelog.FILE).read_text("utf-8"), "utf-8")
    folder = tmp_path / changelog.FOLDER
    folder.mkdir()
    for file in (ROOT / changelog.FOLDER).glob("*.md"):
        (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    version = read_version()
    notes = changelog.release_notes(version, tmp_path)
    assert len(notes) > 1000
    if changelog.release_problem(version, tmp_path):
        changelog.collect(version, "2026-01-01", tmp_path)
    assert changelog.release_problem(version, tmp_path) == ""


def test_every_file_names_the_same_version() -> None:
    version = read_version()
    assert read_versions() == {name: {version} for name in PLACES}
    assert f"\n## {version}\n" in (ROOT / "vscode/CHANGELOG.md").read_text("utf-8")


def test_a_version_is_written_to_all_files(tmp_path: Path) -> None:
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    write_version("9.8.7", tmp_path)
    assert read_version(tmp_path) == "9.8.7"
    for name, patterns in PLACES.items():
        before = (ROOT / name).read_text("utf-8").splitlines()
        after = (tmp_path / name).read_text("utf-8").splitlines()
        assert sum(one != two for one, two in zip(before, after, strict=True)) == len(patterns), name
    (tmp_path / "vscode/package.json").write_text('{\n  "version": "1.0.0"\n}\n')
    with pytest.raises(SystemExit, match=r"but not vscode/package\.json: run make version"):
        read_version(tmp_path)
    with pytest.raises(SystemExit, match="not a version"):
        write_version("next", tmp_path)
