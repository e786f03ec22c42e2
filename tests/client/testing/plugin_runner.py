"""Runs pytest with the plugin, as a user does: in a separate process, in a folder with the user's files."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cli.command_runner import environment
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

# What a user who has many plugins and strict settings would have.
CONFIG = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
"""


class PytestRun(NamedTuple):
    """The exit code and the output of a run."""

    code: int
    text: str


def run_pytest(folder: Path, *words: str, files: dict[str, str], **variables: str) -> PytestRun:
    """Writes the files and runs pytest on them. The plugin is loaded by its entry point, as after an installation."""
    _write(folder, files)
    env = environment(**variables)
    env["PYTHONPATH"] = f"{_installed(folder)}{os.pathsep}{env['PYTHONPATH']}"
    env.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-rA", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return PytestRun(done.returncode, done.stdout + done.stderr)


def run_inside(folder: Path, *words: str, files: dict[str, str], **variables: str) -> PytestRun:
    """The same in this process, which loads the modules of penstock and pytest once."""
    _write(folder, files)
    kept = dict(os.environ), list(sys.path), list(sys.meta_path), set(sys.modules)
    printed = StringIO()
    os.environ.clear()
    os.environ.update(environment(**variables))
    os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        with chdir(folder), redirect_stdout(printed), redirect_stderr(printed):
            code = pytest.main(["-rA", "-p", "no:faulthandler", "-p", "no:xdist", "--rootdir", str(folder), *words])
    finally:
        os.environ.clear()
        os.environ.update(kept[0])
        sys.path[:], sys.meta_path[:] = kept[1:3]
        for name in [name for name in sys.modules if name not in kept[3]]:
            if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
                del sys.modules[name]
    return PytestRun(int(code), printed.getvalue())


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"pytest.ini": CONFIG, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


def _installed(folder: Path) -> Path:
    """A folder with the metadata of an installed package that has the entry points of pyproject.toml."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    path = folder / ".installed" / "penstock-0.dist-info"
    path.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["pytest11"].items())
    (path / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 0\n", encoding="utf-8")
    (path / "entry_points.txt").write_text(f"[pytest11]\n{rows}", encoding="utf-8")
    return path.parent
