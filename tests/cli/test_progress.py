"""Progress of large inputs: on standard error, only in a terminal, with and without rich."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_runner import environment, penstock
from tests.cli.sample_streams import chunk, sse
from tests.cli.terminal_session import Terminal
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_RICH = (
    "import sys; sys.modules['rich.console'] = None; import runpy; runpy.run_module('penstock', run_name='__main__')"
)
LARGE = 5_000_000  # bytes from which on progress is shown


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of a little over 5 MB in few frames."""
    path = tmp_path_factory.mktemp("large") / "large.sse"
    texts = (chunk({"content": "tide " * 20_000}) for _ in range(LARGE // 100_000 + 2))
    path.write_bytes(sse(chunk({"role": "assistant"}), *texts, chunk({}, "stop"), done=True))
    assert LARGE < path.stat().st_size < 1.2 * LARGE
    return path


@each("command", ["translate", "inspect"])
def test_a_terminal_without_rich_gets_lines(command: str, large: Path, tmp_path: Path) -> None:
    more = ["--to", "events", "-o", str(tmp_path / "out")] if command == "translate" else []
    with Terminal(
        [sys.executable, "-c", WITHOUT_RICH, command, *more, str(large)], environment(TERM="xterm")
    ) as terminal:
        for tenth in ("10%", "50%", "100%"):
            terminal.wait_for(f"penstock: {tenth} of 5.")
        assert terminal.wait() == 0


def test_a_terminal_with_rich_gets_a_bar(large: Path, tmp_path: Path) -> None:
    words = ["translate", "--to", "events", "-o", str(tmp_path / "out"), str(large)]
    with Terminal([sys.executable, "-m", "penstock", *words], environment(TERM="xterm")) as terminal:
        terminal.wait_for("━")
        terminal.wait_for("MB")
        assert terminal.wait() == 0


def test_where_no_progress_is_shown(large: Path, tmp_path: Path) -> None:
    done = penstock("translate", "--to", "events", "-o", str(tmp_path / "out"), str(large))
    assert (done.returncode, done.stderr) == (0, b"")  # no terminal
    small = tmp_path / "small.sse"
    small.write_bytes(sse(chunk({"content": "x"}), chunk({}, "stop"), done=True))
    words = ["translate", "--to", "events", "-o", str(tmp_path / "out"), str(small)]
    with Terminal([sys.executable, "-c", WITHOUT_RICH, *words], environment(TERM="xterm")) as terminal:
        assert terminal.wait() == 0
        assert b"read" not in terminal.screen  # a small file
    with Terminal(
        [sys.executable, "-c", WITHOUT_RICH, "translate", "--to", "events", str(large)], environment(TERM="xterm")
    ) as terminal:
        assert terminal.wait() == 0
        assert b"MB read" not in terminal.screen  # the output goes to the same terminal
