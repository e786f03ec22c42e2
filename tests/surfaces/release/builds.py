"""Copies of this tree to build packages in, and what is in a package."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

from tests.support.paths import PROJECT
from tools.release.source_tree import list_files

if TYPE_CHECKING:
    from pathlib import Path

ROOT = PROJECT
STATIC = "src/penstock/_inspector/static"
EPOCH = 1_750_000_000


def need_page() -> None:
    """Fails where the inspector's page is not built: a wheel without it is not the one that is released."""
    assert (ROOT / STATIC / "index.html").is_file(), "the inspector's page is not built: run make web"


def copy_tree(folder: Path, *, page: bool) -> Path:
    """Copies the files of the repository, changes included, newest first, so that dates and order differ."""
    for name in reversed(list_files(ROOT)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
        (folder / name).chmod((ROOT / name).stat().st_mode)
    if page:
        shutil.copytree(ROOT / STATIC, folder / STATIC)
    return folder


def commit_tree(folder: Path) -> None:
    """Makes a repository of a copy, with one commit."""
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "--no-verify", "-m", "A copy"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def names_in(file: Path) -> set[str]:
    """The names of the files in a package."""
    if file.suffix == ".gz":
        with tarfile.open(file) as tar:
            return {name.partition("/")[2] for name in tar.getnames()}
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist())
