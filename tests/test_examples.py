"""Every example runs: in a process of its own, with warnings as errors, from a folder that is not the project's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_runner import environment

FOLDER = Path(__file__).resolve().parents[1] / "examples"
# The web examples are servers: tests/client/test_web_examples.py runs them.
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("web_"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout, "an example shows something"
    assert done.stderr == b""


def test_there_are_examples() -> None:
    assert EXAMPLES
