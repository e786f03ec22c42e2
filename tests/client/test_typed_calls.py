"""Type checkers see every parameter: pyright accepts typed uses in strict mode, and refuses each wrong one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PYRIGHT = shutil.which("pyright", path=Path(sys.executable).parent)
TYPED = Path(__file__).parent / "typed"
pytestmark = pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")


def check(name: str, folder: Path) -> list[dict[str, Any]]:
    """What pyright says about a file, outside the project: its configuration would change what is checked."""
    assert PYRIGHT is not None
    shutil.copy(TYPED / name, folder / "calls.py")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix}
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "calls.py"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return [row for row in found if row["severity"] == "error"]


def test_typed_uses_are_accepted(tmp_path: Path) -> None:
    found = check("accepted_calls.txt", tmp_path)
    assert [(row["range"]["start"]["line"] + 1, row["message"]) for row in found] == []


def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    lines = (TYPED / "refused_calls.txt").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(marked) > 20
    assert {row["range"]["start"]["line"] + 1 for row in check("refused_calls.txt", tmp_path)} == marked
