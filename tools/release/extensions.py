"""Packs the extension for every platform whose gateway is in dist/, and for all others: `make vsix-all`.

A release gathers the wheel and the archives of all platforms in dist/ first. The packages get the wheel that is there,
so that every package has the same one. SHA256SUMS is written anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tools.release.checksums import write_checksums
from tools.release.source_tree import ROOT, commit_time
from tools.release.versions import read_version
from tools.standalone.build import NAME
from tools.standalone.targets import TARGETS
from tools.vscode_pack import prepare, write_package

if TYPE_CHECKING:
    from pathlib import Path


def find_archives(folder: Path) -> dict[str, Path]:
    """Returns the archives of gateways by platform. Raises SystemExit for one that nobody knows."""
    found = {file.name.removeprefix(f"{NAME}-").partition(".")[0]: file for file in sorted(folder.glob(f"{NAME}-*"))}
    strange = sorted(set(found) - set(TARGETS))
    if strange:
        raise SystemExit(f"there is no platform {', '.join(strange)}: {', '.join(TARGETS)}")
    return found


def main(folder: Path = ROOT / "dist") -> None:
    """Packs all of them."""
    version = read_version()
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(commit_time()))
    wheel = folder / f"penstock-{version}-py3-none-any.whl"
    if not wheel.is_file():
        raise SystemExit(f"{wheel} is missing: run make release")
    prepare(wheel)
    write_package(folder / f"penstock-{version}.vsix")
    for target, archive in find_archives(folder).items():
        print(f"{target}: {archive.name}", flush=True)
        write_package(folder / f"penstock-{target}-{version}.vsix", target, archive)
    print(write_checksums(folder).read_text("utf-8"), end="")


if __name__ == "__main__":
    main()
