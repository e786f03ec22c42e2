"""The programs of docs/operations.md run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_runner import environment

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
SAID = ["$0.0", "text", "False True $0.000000", "['"]


@pytest.mark.row("Y3")
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAMS[number]],
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert SAID[number] in done.stdout.decode()


def test_every_program_is_checked() -> None:
    assert len(PROGRAMS) == len(SAID)
