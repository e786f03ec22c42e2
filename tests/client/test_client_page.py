"""Python on the page of the client is clean for pyright in strict mode. tests/docs runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.code_blocks import read_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BLOCKS = [block.text for block in read_blocks(PAGE) if block.language == "python"]
PYRIGHT = shutil.which("pyright", path=Path(sys.executable).parent)
pytestmark = pytest.mark.row("Y1")


@pytest.mark.slow
@pytest.mark.finding("LIB-4")
@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_all_blocks_are_clean_in_strict_mode(tmp_path: Path) -> None:
    assert PYRIGHT is not None
    assert len(BLOCKS) > 5
    for number, code in enumerate(BLOCKS, 1):
        (tmp_path / f"block_{number}.py").write_text(code, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    assert [(Path(row["file"]).name, row["message"]) for row in found] == []
