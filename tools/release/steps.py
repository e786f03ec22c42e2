"""The steps of a release: each makes some files in the folder of the release, by the tools that make them otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.publication import read_publication
from tools.release.source_tree import list_files
from tools.reproducible_archives import write_tar
from tools.standalone.targets import this_target

LIMIT = 1800  # seconds that a step may take; npm and PyInstaller are slow on a small machine
# What deploy/Dockerfile copies, and the file itself.
IMAGE_FILES = (
    "deploy/Dockerfile", "deploy/penstock.toml", "pyproject.toml", "requirements/image.lock",
    "README.md", "LICENSE", "CHANGELOG.md", "src/", "web/",
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """What the steps share. `wheel` is there once the step `python` has run."""

    root: Path
    out: Path
    version: str
    epoch: int

    @property
    def wheel(self) -> Path:
        return self.out / f"penstock-{self.version}-py3-none-any.whl"

    @property
    def sdist(self) -> Path:
        return self.out / f"penstock-{self.version}.tar.gz"

    def run(self, *command: str | Path) -> None:
        """Runs a program in the tree. What it prints is shown only if it fails."""
        words = [str(word) for word in command]
        # The programs of this environment come first: its Node builds the page and the extension.
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        env = os.environ | {"SOURCE_DATE_EPOCH": str(self.epoch), "PATH": path, "PYTHONPATH": str(self.root)}
        done = subprocess.run(  # noqa: S603 — our own
            words, cwd=self.root, env=env, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def build_page(release: Release) -> None:
    """The inspector's page, from its sources, whatever was built before."""
    (release.root / "src/penstock/_inspector/static/index.html").unlink(missing_ok=True)
    release.run("bash", "tools/web.sh", "build")


def build_python(release: Release) -> None:
    """The sdist and the wheel, and the check that an index makes of their metadata."""
    release.run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", release.out)
    release.run(sys.executable, "-m", "twine", "check", "--strict", release.sdist, release.wheel)


def build_extension(release: Release) -> None:
    """The package of the extension for all platforms."""
    out = release.out / f"penstock-{release.version}.vsix"
    release.run(sys.executable, "tools/vscode_pack.py", "--wheel", release.wheel, "--out", out)


def build_platform(release: Release) -> None:
    """The self-contained gateway of this platform as a download, and the extension with it."""
    target = this_target()
    release.run("bash", "tools/setup.sh", "freeze")
    release.run(sys.executable, "-m", "tools.standalone", "--wheel", release.wheel, "--archive", release.out)
    (archive,) = release.out.glob(f"penstock-gateway-{target}.*")
    out = release.out / f"penstock-{target}-{release.version}.vsix"
    words: list[str | Path] = ["--wheel", release.wheel, "--gateway", archive, "--target", target, "--out", out]
    release.run(sys.executable, "tools/vscode_pack.py", *words)


def build_image_context(release: Release) -> None:
    """The context of the container image: `docker build -f deploy/Dockerfile - < FILE`."""
    names = [name for name in list_files(release.root) if name.startswith(IMAGE_FILES)]
    write_tar(release.out / f"penstock-{release.version}-image-context.tar.gz", release.root, names)


def write_sbom(release: Release) -> None:
    """The list of what is in the packages."""
    from tools.release.sbom import make_sbom  # noqa: PLC0415 — other steps do without its packages

    text = make_sbom(release.root, release.version, release.epoch, read_publication(release.root))
    (release.out / f"penstock-{release.version}.cdx.json").write_text(text, "utf-8", newline="\n")


def empty_folder(out: Path, *, ours: bool) -> None:
    """Makes an empty folder for the packages. Somebody else's files are not deleted."""
    if out.is_dir() and any(out.iterdir()):
        if not ours:
            raise SystemExit(f"{out} is not empty")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
