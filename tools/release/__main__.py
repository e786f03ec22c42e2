"""`make release`: builds every package of this version into dist/, with an SBOM and checksums.

The tree must be committed and the changelog must have a section of the version; `--allow-dirty` builds without.
`--steps` builds some of the packages only: `python` is the sdist and the wheel, which the extension needs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.release import steps
from tools.release.changelog import release_problem
from tools.release.checksums import write_checksums
from tools.release.source_tree import ROOT, commit_time, tag_problem, uncommitted_files
from tools.release.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS: dict[str, Callable[[steps.Release], None]] = {
    "page": steps.build_page,
    "python": steps.build_python,
    "extension": steps.build_extension,
    "platform": steps.build_platform,
    "image": steps.build_image_context,
    "sbom": steps.write_sbom,
}
_SHOWN = 10  # files that are named


def find_problems(version: str, root: Path = ROOT) -> list[str]:
    """Returns what stands in the way of a release."""
    changed = uncommitted_files(root)
    problems: list[str] = []
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        problems.append(f"these files are not committed: {', '.join(changed[:_SHOWN])}{more}")
    problems += filter(None, (release_problem(version, root), tag_problem(version, root)))
    return problems


def main() -> None:
    """Checks, builds, and says what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="the folder; it must be empty, unless it is dist"
    )
    parser.add_argument(
        "--allow-dirty", action="store_true", help="build what is not committed or not in the changelog"
    )
    parser.add_argument("--steps", default=",".join(STEPS), help="some of the steps, with commas between them")
    options = parser.parse_args()
    wanted = options.steps.split(",")
    if set(wanted) - set(STEPS):
        parser.error(f"there is no step {', '.join(set(wanted) - set(STEPS))}: {', '.join(STEPS)}")
    version = read_version()
    problems = find_problems(version)
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    if problems and not options.allow_dirty:
        sys.exit("release: nothing was built; --allow-dirty builds anyway, for a trial")
    out = options.out.resolve()
    steps.empty_folder(out, ours=out == ROOT / "dist")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time())
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    release = steps.Release(ROOT, out, version, epoch)
    build(release, [name for name in STEPS if name in wanted])


def build(release: steps.Release, names: list[str]) -> None:
    """Runs the steps in their order, with their progress."""
    print(f"penstock {release.version}, SOURCE_DATE_EPOCH={release.epoch}", flush=True)
    for number, name in enumerate(names, 1):
        doc = str(STEPS[name].__doc__).partition("\n")[0]
        print(f"[{number}/{len(names)}] {name}: {doc}", flush=True)
        began = time.monotonic()
        STEPS[name](release)
        print(f"      {time.monotonic() - began:.0f} s", flush=True)
    write_checksums(release.out)
    for file in sorted(release.out.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.name}")


if __name__ == "__main__":
    main()
