"""The version stands in src/penstock/_version.py. Files that must repeat it are listed here, and changed from here.

`python -m tools.release.versions` prints the version, `python -m tools.release.versions 0.2.0` writes a new one to all
files (`make version VERSION=0.2.0`).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "src/penstock/_version.py"
# PEP 440 and SemVer agree on these. The Marketplace takes three numbers only.
VERSION = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")
_NUMBER = r"([0-9]+\.[0-9]+\.[0-9]+)"
_MANIFEST = rf'^  "version": "{_NUMBER}"'
_LOCK = rf'\A\{{\n  "name": "[^"]+",\n  "version": "{_NUMBER}"'
_LOCK_ROOT = rf'^    "": \{{\n      "name": "[^"]+",\n      "version": "{_NUMBER}"'
# Each pattern is found exactly once; its group is the version.
PLACES: dict[str, tuple[str, ...]] = {
    SOURCE: (rf'^__version__ = "{_NUMBER}"$',),
    "vscode/package.json": (_MANIFEST,),
    "vscode/package-lock.json": (_LOCK, _LOCK_ROOT),
    "web/package.json": (_MANIFEST,),
    "web/package-lock.json": (_LOCK, _LOCK_ROOT),
    "deploy/helm/penstock/Chart.yaml": (rf"^version: {_NUMBER}$", rf'^appVersion: "{_NUMBER}"$'),
    "deploy/Dockerfile": (rf"^LABEL org\.opencontainers\.image\.version={_NUMBER}\b",),
}


def read_versions(root: Path = ROOT) -> dict[str, set[str]]:
    """Returns the versions that each file names."""
    found: dict[str, set[str]] = {}
    for name, patterns in PLACES.items():
        text = (root / name).read_text("utf-8")
        matches = [match[1] for pattern in patterns for match in re.finditer(pattern, text, re.MULTILINE)]
        if len(matches) != len(patterns):
            raise SystemExit(f"{name}: the version is expected {len(patterns)} times and found {len(matches)} times")
        found[name] = set(matches)
    return found


def read_version(root: Path = ROOT) -> str:
    """Returns the version of the package. Raises SystemExit if another file names another version."""
    found = read_versions(root)
    (version,) = found[SOURCE]
    others = sorted(name for name, names in found.items() if names != {version})
    if others:
        raise SystemExit(f"{SOURCE} says {version}, but not {', '.join(others)}: run make version VERSION={version}")
    return version


def write_version(version: str, root: Path = ROOT) -> None:
    """Writes a version to all files."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"{version} is not a version such as 0.2.0")
    for name, patterns in PLACES.items():
        text = (root / name).read_text("utf-8")
        for pattern in patterns:
            text = re.sub(pattern, lambda match: _replace(match, version), text, flags=re.MULTILINE)
        (root / name).write_text(text, "utf-8")


def _replace(match: re.Match[str], version: str) -> str:
    start = match.start(1) - match.start()
    return match[0][:start] + version + match[0][start + len(match[1]) :]


def main() -> None:
    """Prints the version, or writes a new one."""
    if len(sys.argv) > 1:
        write_version(sys.argv[1])
    print(read_version())


if __name__ == "__main__":
    main()
