"""Reads where the project is published: `[project.urls]` of pyproject.toml, the only place that names an address.

The table is absent until the project is published. Everything else follows from `Repository`: the manifest and README
of the extension, the labels of the image, the SBOM, the address of the documentation. `python -m tools.publication`
prints what follows from it, one `name=value` in each line, for scripts and workflows.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+/[A-Za-z0-9._/-]+(?<![/.])")
_GITHUB = "https://github.com/"


@dataclass(frozen=True)
class Publication:
    """The address of the repository and what follows from it. All are empty before publication."""

    repository: str = ""
    documentation: str = ""

    @property
    def owner(self) -> str:
        """The account or organisation that has the repository."""
        return self.repository.split("/")[3] if self.repository else ""

    @property
    def issues(self) -> str:
        """Where faults are reported."""
        return self.repository and f"{self.repository}/issues"


def read_publication(root: Path = ROOT) -> Publication:
    """Returns what pyproject.toml says. Raises SystemExit if that is not an address."""
    urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    for name, address in urls.items():
        if not _ADDRESS.fullmatch(address):
            raise SystemExit(
                f"pyproject.toml: {name} is {address}, not an address such as {_GITHUB}OWNER/NAME, without / at its end"
            )
    repository = urls.get("Repository", "")
    if urls and not repository:
        raise SystemExit("pyproject.toml: [project.urls] has no Repository")
    return Publication(repository, urls.get("Documentation", pages_address(repository)))


def pages_address(repository: str) -> str:
    """Returns the address of GitHub Pages for a repository at GitHub, else nothing."""
    if not repository.startswith(_GITHUB):
        return ""
    owner, _, name = repository.removeprefix(_GITHUB).partition("/")
    return f"https://{owner.lower()}.github.io/{name}"


def main() -> None:
    """Prints what follows from the address. `--expect ADDRESS` fails for another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expect", metavar="ADDRESS")
    expected = parser.parse_args().expect
    found = read_publication()
    if expected is not None and expected != found.repository:
        sys.exit(f"pyproject.toml: Repository of [project.urls] is {found.repository or 'not set'}, not {expected}")
    for name in ("repository", "documentation", "owner", "issues"):
        print(f"{name}={getattr(found, name)}")


if __name__ == "__main__":
    main()
