"""The public types are complete: pyright knows the type of every public name, and the package tells type checkers so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support.paths import PROJECT

PYRIGHT = shutil.which("pyright", path=Path(sys.executable).parent)


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_every_public_name_has_a_known_type(tmp_path: Path) -> None:
    """Attributes need an annotation too: type checkers infer different types without one."""
    assert PYRIGHT is not None
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [PYRIGHT, "--verifytypes", "penstock", "--ignoreexternal"]
    env = {**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix}
    # Outside the project: its configuration would change what is checked.
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    report = done.stdout[done.stdout.find("Symbols used in public interface") :]
    assert "Type completeness score: 100%" in report, report


def test_the_package_contains_py_typed() -> None:
    assert files("penstock").joinpath("py.typed").is_file()


def test_the_wheel_contains_py_typed() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    builder = wheel.WheelBuilder(str(PROJECT))
    packaged = {file.distribution_path for file in builder.recurse_included_files()}
    assert str(Path("penstock", "py.typed")) in packaged
