"""What git knows of the tree that is released: its files, whether all is committed, and the time of the last commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_git(*words: str, root: Path = ROOT) -> str:
    """Returns what git prints. Raises SystemExit with its error."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603, S607
    except FileNotFoundError:
        raise SystemExit("git is missing: a release is made from a commit") from None
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def list_files(root: Path = ROOT) -> list[str]:
    """Returns the files of the repository that exist, changes and new files included."""
    names = run_git("ls-files", "-z", "--cached", "--others", "--exclude-standard", root=root).split("\0")
    return sorted({name for name in names if name and (root / name).is_file()})


def uncommitted_files(root: Path = ROOT) -> list[str]:
    """Returns the files that differ from the last commit, and new ones that git does not ignore."""
    rows = run_git("status", "--porcelain", "-z", "--no-renames", root=root).split("\0")
    return [row[3:] for row in rows if row]


def commit_time(root: Path = ROOT) -> int:
    """Returns the time of the last commit, in seconds since 1970: SOURCE_DATE_EPOCH of all packages."""
    return int(run_git("log", "-1", "--format=%ct", root=root))


def tag_problem(version: str, root: Path = ROOT) -> str:
    """Returns what is wrong with the tags of this commit, if anything is. A commit without a tag may be built."""
    tags = [tag for tag in run_git("tag", "--points-at", "HEAD", root=root).split() if tag.startswith("v")]
    return (
        "" if not tags or f"v{version}" in tags else f"the commit has the tag {tags[0]}, but the version is {version}"
    )
