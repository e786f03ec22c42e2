"""`python -m tools.standalone`: builds the self-contained gateway for this machine into build/standalone.

`--archive FOLDER` packs it as a download, `--glibc 2.28` fails if it needs a newer C library, `--wheel FILE` takes a
wheel that is built already. Nothing is done twice: a tree that has not changed is not built again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.standalone.build import build, folder_size, pack_archive
from tools.standalone.glibc import needed_glibc, version_of
from tools.standalone.targets import this_target


def main() -> None:
    """Parse, build, check, pack, say what was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel of penstock; without it, it is built from this tree")
    parser.add_argument("--archive", type=Path, metavar="FOLDER", help="pack the download into this folder")
    parser.add_argument("--glibc", metavar="VERSION", help="fail if a newer glibc is needed")
    options = parser.parse_args()
    folder = build(options.wheel and options.wheel.resolve())
    print(f"{folder}: {folder_size(folder) / 1e6:.0f} MB for {this_target()}")
    if this_target().startswith("linux"):
        needed, file = needed_glibc(folder)
        print(f"needs glibc {'.'.join(map(str, needed))} because of {file}")
        if options.glibc and needed > version_of(options.glibc):
            sys.exit(f"a newer glibc than {options.glibc} is needed")
    if options.archive:
        archive = pack_archive(folder, options.archive, this_target())
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
