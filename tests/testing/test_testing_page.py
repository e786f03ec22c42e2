"""The examples of docs/testing-your-app.md run as they stand, and their output is what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Cassette, Reply, UnrecordedRequest, scripted
from tests.cli.command_runner import PROJECT, environment
from tests.testing.plugin_runner import run_pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.row("Y5"), pytest.mark.slow]
PAGE = (PROJECT / "docs" / "testing-your-app.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TESTS = [block for block in BLOCKS if "\ndef test_" in block]
SCRIPTS = [block for block in BLOCKS if "\ndef test_" not in block]
QUIET = "[pytest]\naddopts = --strict-markers -p no:cacheprovider\nfilterwarnings =\n    error\n    ignore::DeprecationWarning\n"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with the recording that the page's example replays."""
    path = tmp_path / "recordings" / "tide.json"
    with scripted(Reply.text("High tide is at 06:12.", usage=(12, 6))) as up, Cassette(path, "once") as cassette:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "made-up"}}}
        with cassette.sync_client(config) as client:
            client.chat("openai/gpt-4o", "When is high tide?")
    return tmp_path


def test_there_are_examples() -> None:
    assert (len(TESTS), len(SCRIPTS)) == (3, 1)


def test_the_tests_of_the_page(recorded: Path) -> None:
    files = {f"test_{number}.py": block for number, block in enumerate(TESTS)}
    done = run_pytest(recorded, files={**files, "pytest.ini": QUIET})
    assert done.code == 0, done.text
    assert "5 passed" in done.text


@pytest.mark.parametrize("code", SCRIPTS)
def test_the_scripts_of_the_page(tmp_path: Path, code: str) -> None:
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "At six.\nAt six.\n", "")


def test_the_message_of_the_page(recorded: Path) -> None:
    shown = PAGE[PAGE.index("POST https://") :].partition("\n```")[0].splitlines()
    cassette = Cassette(recorded / "recordings" / "tide.json")
    with cassette, cassette.sync_client() as client, pytest.raises(UnrecordedRequest) as caught:
        client.chat("openai/gpt-4o", "When is low tide?")
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[3:6]) == (shown[0], shown[3:6])
    assert [line.split()[0] for line in lines[:6]] == [line.split()[0] for line in shown[:6]]


def test_every_reply_of_the_page_exists() -> None:
    names = set(re.findall(r"`Reply\.(\w+)\(", PAGE)) | set(re.findall(r"`\.(\w+)\(", PAGE))
    assert len(names) > 12
    assert [name for name in names if not hasattr(Reply, name)] == []
