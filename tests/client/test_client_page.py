"""Python on the page of the client runs as it stands, and is clean for pyright in strict mode."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_runner import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
PRINTED = {
    1: "penstock", 2: "penstock", 3: "", 5: "2.31 m at", 6: "[[0.1, 0.2]] Usage(input=3",
    4: "chat has no parameter 'temprature'; did you mean 'temperature'?; fields of a vendor go into extra_body",
}  # fmt: skip
PYRIGHT = shutil.which("pyright", path=Path(sys.executable).parent)
pytestmark = pytest.mark.row("Y1")


def test_each_block_has_an_expected_output() -> None:
    assert sorted(PRINTED) == list(range(1, len(BLOCKS) + 1))


@pytest.mark.slow
@pytest.mark.finding("LIB-2")
@pytest.mark.parametrize("number", range(1, len(BLOCKS) + 1))
def test_a_block_runs_without_a_key(number: int, tmp_path: Path) -> None:
    code, env = BLOCKS[number - 1], environment()
    keyless = {name: value for name, value in env.items() if not name.endswith(("_KEY", "_TOKEN", "_PROXY"))}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=keyless, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert PRINTED[number] in done.stdout


@pytest.mark.slow
@pytest.mark.finding("LIB-4")
@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_all_blocks_are_clean_in_strict_mode(tmp_path: Path) -> None:
    assert PYRIGHT is not None
    for number, code in enumerate(BLOCKS, 1):
        (tmp_path / f"block_{number}.py").write_text(code, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    assert [(Path(row["file"]).name, row["message"]) for row in found] == []
