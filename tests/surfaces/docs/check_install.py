"""Stands for `pip` on the pages: checks that what they install exists, and installs nothing."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NAME = re.compile(r"([A-Za-z0-9._-]+)(?:\[([a-z,_-]*)\])?$")


def find_problems(words: list[str]) -> list[str]:
    """What is wrong with the requirements of a `pip install`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    problems: list[str] = []
    for word in words:
        found = NAME.match(word)
        if found is None:
            problems.append(f"{word}: not a name of a package")
        elif found[1] == project["name"]:
            extras = [extra for extra in (found[2] or "").split(",") if extra]
            problems += [f"{word}: no extra {name}" for name in extras if name not in project["optional-dependencies"]]
        elif not re.search(rf"^{re.escape(found[1])}==", locked, re.MULTILINE | re.IGNORECASE):
            problems.append(f"{word}: not one of the packages that the tests use")
    return problems


def main() -> int:
    if sys.argv[1] != "install":
        sys.stderr.write(f"pip {sys.argv[1]} is not checked\n")
        return 1
    problems = find_problems([word for word in sys.argv[2:] if not word.startswith("-")])
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
