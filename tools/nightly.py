"""What takes too long for `make test`: `make nightly` runs it, in slices that a later run does not repeat.

The slices are the normal suite by folder, each file with tests marked `nightly`, the soak, fuzzing and the coding
agents. Results are kept under .nightly/ by the content of the tree: a run that was broken off goes on where it stopped,
and a changed tree starts anew. What a slice prints is in a file beside its result.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".nightly"
LAYERS = ("core", "client", "cli", "gateway", "wire", "oracles", "page", "surfaces")
OTHERS = {
    "soak": "-m benchmarks.soak --minutes 10 --streams 300",
    "fuzz": "-m fuzz --minutes 20",
    "agents": "-m tools.agents",
}


class Slice(NamedTuple):
    """A part of the work: its name, and the words after `python`."""

    name: str
    words: tuple[str, ...]


def list_slices() -> list[Slice]:
    """Returns all slices of this tree."""
    pytest = ("-m", "pytest", "-q")
    normal = [
        Slice(f"tests/{layer}", (*pytest, "-n", "auto", "--dist", "worksteal", "-m", "not nightly", f"tests/{layer}"))
        for layer in LAYERS
    ]
    files = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "node_modules" not in path.parts and _has_nightly_tests(path)
    ]
    marked = [Slice(f"nightly {file}", (*pytest, "-n", "auto", "-m", "nightly", file)) for file in files]
    return [*normal, *marked, *(Slice(name, tuple(shlex.split(words))) for name, words in OTHERS.items())]


def _has_nightly_tests(path: Path) -> bool:
    """Returns whether a file uses the mark, itself or by a helper that names it."""
    return re.search(r"mark\.nightly|sample_pairs\(|\bSHARES\b|one_of=", path.read_text(encoding="utf-8")) is not None


def hash_tree() -> str:
    """Returns a name for the content of all files that git knows or would take, changes included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")  # noqa: S603
    made = hashlib.sha256()
    for name in sorted(filter(None, listed)):
        file = ROOT / name
        made.update(f"{name}\0".encode() + (file.read_bytes() if file.is_file() else b""))
    return made.hexdigest()[:16]


def run_slice(one: Slice, folder: Path) -> bool:
    """Runs a slice, unless it has passed before; returns whether it passed."""
    base = folder / re.sub(r"[^\w.-]+", "-", one.name)
    passed, log = base.with_suffix(".passed"), base.with_suffix(".log")
    if passed.exists():
        print(f"  passed before ({passed.read_text()})", flush=True)
        return True
    since = time.monotonic()
    with log.open("w") as out:
        done = subprocess.run([sys.executable, *one.words], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)  # noqa: S603
    seconds = f"{time.monotonic() - since:.0f} s"
    none_chosen = done.returncode == 5 and one.name.startswith("nightly ")  # noqa: PLR2004 — pytest found no such test
    if done.returncode and not none_chosen:
        print(f"  FAILED in {seconds}, see {log.relative_to(ROOT)}", flush=True)
        return False
    passed.write_text(seconds)
    print(f"  passed in {seconds}", flush=True)
    return True


def main() -> int:
    """Parses the options, runs, and tells."""
    parser = argparse.ArgumentParser(prog="make nightly ARGS=…", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="slices whose name contains one of these")
    parser.add_argument("--restart", action="store_true", help="run what has passed, too")
    parser.add_argument("--list", action="store_true", help="name the slices")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the running slice ends, too
    slices = [one for one in list_slices() if not options.only or any(text in one.name for text in options.only)]
    if not slices:
        parser.error("no slice has such a name; see --list")
    if options.list:
        print("\n".join(one.name for one in slices))
        return 0
    folder = STATE / hash_tree()
    if options.restart:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    try:
        for number, one in enumerate(slices, 1):
            print(f"slice {number} of {len(slices)}: {one.name} …", flush=True)
            if not run_slice(one, folder):
                failed.append(one.name)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the slices that have not passed")
        return 130
    for other in STATE.iterdir():  # results of other trees
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    print("\n  ".join([f"{len(failed)} of {len(slices)} slices failed", *failed] if failed else ["all slices passed"]))
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
