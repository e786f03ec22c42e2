"""`penstock completion`: what is offered, and that bash, zsh and fish complete it, in the shells themselves."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.providers import providers
from tests.cli.command_runner import COMMANDS, complete, environment, inside
from tests.cli.terminal_session import TAB, Terminal
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

BARE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")


def test_commands() -> None:
    assert complete("") == list(COMMANDS)
    assert complete("tr") == ["translate", "trust"]
    assert complete("--v") == ["--version"]
    assert complete("nothing", "x") == []


@each("command", COMMANDS)
def test_every_option_of_every_command(command: str) -> None:
    shown = inside(command, "--help", COLUMNS="500").stdout.decode().partition("examples:")[0]
    assert set(complete(command, "--") or ()) == set(
        re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.partition("options:")[2])
    )


@each(
    "words, expected",
    [
        (("translate", "--from", "anth"), ["anthropic"]),
        (("translate", "--to", "bed"), []),  # it cannot be written
        (("translate", "--from", "bed"), ["bedrock"]),
        (("translate", "--to=openai"), ["--to=openai-chat"]),
        (("translate", "--framing", "nd"), ["ndjson"]),
        (("translate", "--to", "anthropic", ""), None),
        (("translate", "-o", ""), None),
        (("translate", "--quiet", "--str"), ["--strict"]),
        (("translate", "file.sse", ""), []),
        (("models", "anthr"), ["anthropic"]),
        (("models", "anthropic", "opena"), ["openai", "openai-compatible"]),
        (("models", "--policy", "c"), ["context-window"]),
        (("chat", "replay/te"), ["replay/text"]),
        (("chat", "replay/text", "--file", ""), None),
        (("setup", "cl"), ["claude", "cline"]),
        (("keys", "ro"), ["rotate"]),
        (("usage", "--plot", "c"), ["cost"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_values(words: tuple[str, ...], expected: list[str] | None) -> None:
    found = complete(*words)
    assert sorted(found or []) == sorted(expected or [])
    assert (found is None) == (expected is None)


def test_names_of_your_own(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(
        '[aliases]\nfast = "lab/tide"\n"x-*" = "lab/*"\n[providers.lab]\nbase_url = "http://x"\nmodels = ["tide"]\n'
    )
    env: dict[str, Any] = {**BARE, "PENSTOCK_DATA": str(tmp_path), "PENSTOCK_CONFIG": str(path)}
    assert inside("keys", "add", "laptop", **env).returncode == 0
    assert complete("chat", "fa", **env) == ["fast"]
    assert complete("chat", "la", **env) == ["lab/"]
    assert complete("chat", "lab/", **env) == ["lab/tide"]
    assert complete("models", "la", **env) == ["lab"]
    assert complete("keys", "revoke", "", **env) == ["laptop"]
    path.write_text("broken [")
    assert complete("chat", "fa", **env) == []  # a broken file is no reason to break the shell


def test_json() -> None:
    assert json.loads(inside("completion", "--json", "--words", "tr").stdout) == {
        "files": False,
        "words": [
            {"word": "translate", "about": "turn one protocol's stream into another's"},
            {"word": "trust", "about": "let a penstock.toml of this folder decide where keys and data go"},
        ],
    }
    assert inside("completion").returncode == 2


# ── in the shells ─────────────────────────────────────────────────────────────────────────────────────────────────────


def shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} on this machine")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the program in `bin`, the scripts, and a file to complete."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "penstock"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    program.chmod(0o755)
    for name in ("bash", "zsh", "fish"):
        (tmp_path / f"script.{name}").write_bytes(inside("completion", name).stdout)
    (tmp_path / "wave one.sse").write_text("data: {}\n\n")
    return tmp_path


def shell_environment(folder: Path) -> dict[str, str]:
    made = environment(HOME=str(folder), TERM="xterm", PENSTOCK_DATA=str(folder / "data"))
    return {
        **made,
        "PATH": f"{folder / 'bin'}:{made['PATH']}",
        "PYTHONPATH": str(PROJECT / "src"),
        "PYTHONWARNINGS": "",
    }


LINES = {  # a line up to the cursor → what it may become
    "penstock tra": ["translate"],
    "penstock translate --to openai-c": ["openai-chat"],
    "penstock translate --stri": ["--strict"],
    "penstock chat replay/par": ["replay/parallel-tools"],
    "penstock models mis": ["mistral"],
}


@pytest.mark.parametrize("line", LINES)
def test_fish(folder: Path, line: str) -> None:
    words = [shell("fish"), "--no-config", "-c", f"source script.fish; complete -C '{line}'"]
    done = subprocess.run(
        words, cwd=folder, env=shell_environment(folder), capture_output=True, timeout=60, check=False
    )
    assert [row.split("\t")[0] for row in done.stdout.decode().splitlines()] == LINES[line], done.stderr


def test_fish_completes_files(folder: Path) -> None:
    words = [shell("fish"), "--no-config", "-c", "source script.fish; complete -C 'penstock inspect wav'"]
    done = subprocess.run(
        words, cwd=folder, env=shell_environment(folder), capture_output=True, timeout=60, check=False
    )
    assert b"wave one.sse" in done.stdout


STARTS = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}
SET_UP = {
    "bash": "bind 'set enable-bracketed-paste off'; PS1='READY'; source script.bash; complete -p penstock",
    "zsh": "PS1=READY; autoload -Uz compinit; compinit -u -d .dump; source script.zsh; print -- -F $_comps[penstock]",
}


@pytest.mark.parametrize("name", STARTS)
def test_the_tab_key(folder: Path, name: str) -> None:
    with Terminal([shell(name), *STARTS[name]], shell_environment(folder), folder) as terminal:
        terminal.type(f"{SET_UP[name]}\r")
        terminal.wait_for("-F _penstock")
        for line, (expected,) in LINES.items():
            typed = line.rpartition(" ")[2]
            terminal.type(b"\x15echo : ")  # clear the line; the echo proves what the line has become
            terminal.type(b"\x15" + line.encode() + TAB)
            terminal.wait_for(line[: -len(typed)] + expected)
        terminal.type(b"\x15penstock inspect wav" + TAB)
        terminal.wait_for("penstock inspect wave\\ one.sse")
        terminal.type(b"\x15penstock chat repla" + TAB)
        terminal.wait_for("penstock chat replay/")
        terminal.type(b"citat" + TAB)  # no space was put after the slash
        terminal.wait_for("citations")
        terminal.type(b"\x15exit\r")
        assert terminal.wait() == 0
