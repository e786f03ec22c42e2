"""The Python of docs/run.md runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_runner import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "run.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.row("Y2")
@pytest.mark.finding("LIB-14")
@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{number}" for number in range(1, len(BLOCKS) + 1)])
def test_a_block_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    assert done.stdout or "McpServer" in code


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 5
