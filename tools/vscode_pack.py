"""Packs the extension: `python tools/vscode_pack.py [--out FILE]` builds the wheel, bundles the code, writes the .vsix.

The wheel and the lock of what it needs travel inside, so that nothing is ever taken from an index by name alone.
Leans on the npm packages of vscode/ (`make` installs them) and on hatchling.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "vscode"
BUNDLE = EXTENSION / "bundle"
LIMIT = 300  # seconds that a step may take
_PICTURE = re.compile(r"^!\[.*\]\(docs/.*\)\n+", re.MULTILINE)


def run(*command: str | Path, cwd: Path = EXTENSION) -> None:
    """Run a step; what it says is shown only if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False)  # noqa: S603 — our own
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def bundle() -> None:
    """The wheel of this tree, the inspector's page in it, and the lock of what it needs."""
    shutil.rmtree(BUNDLE, ignore_errors=True)
    BUNDLE.mkdir()
    run("bash", ROOT / "tools/web.sh", "build", cwd=ROOT)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", BUNDLE, cwd=ROOT)
    shutil.copy(ROOT / "requirements/serve.lock", BUNDLE)


def pack(out: Path) -> None:
    """Everything, into one file."""
    bundle()
    shutil.copy(ROOT / "LICENSE", EXTENSION / "LICENSE")
    run(tool("node"), "tools/build.mjs")
    # The pictures of the README stay in the repository: an installed extension cannot show them.
    plain = EXTENSION / "dist/README.md"
    plain.write_text(_PICTURE.sub("", (EXTENSION / "README.md").read_text("utf-8")), "utf-8")
    vsce = EXTENSION / "node_modules/@vscode/vsce/vsce"
    flags = ["--no-dependencies", "--allow-missing-repository", "--no-rewrite-relative-links", "--skip-license"]
    run(tool("node"), vsce, "package", *flags, "--readme-path", "dist/README.md", "--out", out)


def tool(name: str) -> str:
    """A program of the environment, or of the machine."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def main() -> None:
    """Parse, pack, say where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist/penstock.vsix")
    out: Path = parser.parse_args().out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    pack(out)
    print(f"{out}: {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
