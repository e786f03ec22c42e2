"""`penstock demo`: what it shows is true, it needs no key and no network, and Ctrl-C ends it cleanly."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_runner import environment, inside
from tests.cli.terminal_session import Terminal

if TYPE_CHECKING:
    from pathlib import Path


COMMAND = [sys.executable, "-m", "penstock", "demo"]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with a data folder, a configuration and keys that the demo must not touch."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "broken.toml").write_text("[no-such-table]\n")
    return environment(
        PENSTOCK_DATA=str(tmp_path / "data"),
        PENSTOCK_CONFIG=str(tmp_path / "broken.toml"),
        OPENAI_API_KEY="sk-must-not-be-used",
        HTTP_PROXY="http://127.0.0.1:9",
        TMPDIR=str(tmp_path / "tmp"),
        TERM="xterm",
    )


def test_it_shows_every_part_and_ends() -> None:
    done = inside("demo", "--no-serve")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert re.findall(r"^\d [A-Z].*$", text, re.MULTILINE) == [
        "1 A stream as it arrives",
        "2 A stream that breaks off",
        "3 A tool call, exactly once",
        "4 The inspector",
    ]
    assert "the tool ran once" in text
    assert "the tool ran 0 times" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 96


def test_json_has_the_facts() -> None:
    """What each client gets of a stream that breaks off ends with a fault. The tool runs once, and not if it is cut."""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in inside("demo", "--no-serve", "--json").stdout.splitlines()
    ]
    assert [row["scene"] for row in rows] == ["stream", "broken", "tool-call"]
    whole, broken, call = rows
    assert whole["fault"] is None
    assert [client for client in whole["clients"] if '"error":{' in client["last"]] == []
    assert broken["fault"]["kind"] == "truncated"
    targets = ["responses", "anthropic", "gemini", "uistream", "vscode"]
    assert [client["protocol"] for client in broken["clients"]] == targets
    for client in broken["clients"]:
        last = json.loads(client["last"])
        assert "error" in last or last.get("type") in {"error", "response.failed"} or last.get("kind") == "error"
    assert (call["repeats"], call["runs"], call["runs_of_cut"]) == (3, 1, 0)


def test_colour_is_used_in_a_terminal_only(env: dict[str, str]) -> None:
    with Terminal([*COMMAND, "--no-serve", "--fast"], env) as terminal:
        assert terminal.wait() == 0
    assert b"\x1b[1m1 A stream as it arrives\x1b[0m" in terminal.screen
    with Terminal([*COMMAND, "--no-serve", "--fast"], {**env, "NO_COLOR": "1"}) as terminal:
        assert terminal.wait() == 0
    assert b"\x1b" not in terminal.screen
    assert b"1 A stream as it arrives" in terminal.screen


def test_the_inspector_has_the_requests_and_ctrl_c_ends_it(env: dict[str, str], tmp_path: Path) -> None:
    with Terminal([*COMMAND, "--fast"], env, tmp_path) as terminal:
        shown = terminal.wait_for("Ctrl-C ends the gateway")
        link = re.search(r"(http://127\.0\.0\.1:\d+)/#session=(\S+)", shown)
        assert link is not None
        headers = {"x-penstock-session-token": link[2]}
        asked = urllib.request.Request(f"{link[1]}/inspector/turns", headers=headers)  # noqa: S310
        with DIRECT.open(asked, timeout=20) as reply:
            turns = json.load(reply)
        models = {f"{row['provider']}/{row['model']}" for row in turns["rows"]}
        assert models == {"replay/reasoning", "replay/error", "replay/parallel-tools"}
        with DIRECT.open(f"{link[1]}/v1/models", timeout=20) as reply:
            names = [row["id"] for row in json.load(reply)["data"]]
        assert all(name.startswith("replay/") for name in names), "a key of the user is used"
        assert list((tmp_path / "tmp").iterdir())
        terminal.interrupt()
        assert terminal.wait() == 0
    assert b"its data folder is removed" in terminal.screen
    assert b"Traceback" not in terminal.screen
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "data").exists()


def test_sigterm_removes_the_folder_too(env: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert rows[3]["inspector"].startswith(rows[3]["url"])
    assert min(rows[3]["answer_bytes"]) > 1000
    assert (process.returncode, errors) == (0, b"")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_port_that_is_taken_is_one_line(env: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = inside("demo", "--port", port, **env)
    assert done.returncode == 2
    assert b"is taken; choose another with --port" in done.stderr
    assert done.stderr.count(b"\n") == 1
