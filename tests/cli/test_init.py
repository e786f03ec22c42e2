"""`penstock init`: a commented file by options or by questions, which the other commands read; never overwritten."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from penstock.providers import providers
from tests.cli.command_runner import environment, inside
from tests.cli.terminal_session import Terminal
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

BARE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(folder: Path, *words: str) -> Any:
    return inside("init", *words, **BARE, PENSTOCK_DATA=str(folder / "data"))


def test_by_options(here: Path) -> None:
    words = (
        "--model",
        "replay/text",
        "--model",
        "fast one=replay/tools",
        "--budget",
        "2.5",
        "--port",
        "4500",
        "--no-caching",
    )
    done = init(here, *words)
    assert done.returncode == 0, done.stderr
    text = (here / "penstock.toml").read_text()
    assert tomllib.loads(text) == {
        "aliases": {"default": "replay/text", "fast one": "replay/tools"},
        "serve": {"port": 4500},
        "features": {"prompt_caching": False, "context_management": True},
        "limits": {"day_cost": 2.5},
    }
    assert text.count("#") > 8
    env: dict[str, Any] = {**BARE, "PENSTOCK_DATA": str(here / "data")}
    assert inside("serve", "--check", **env).returncode == 0  # found in the folder, and it needs no trust
    assert inside("chat", "default", "hi", **env).returncode == 0


def test_the_defaults_are_valid_and_all_comments_are_settings(here: Path) -> None:
    assert init(here, "--yes").returncode == 0
    text = (here / "penstock.toml").read_text()
    assert set(tomllib.loads(text)) == {"aliases", "serve", "features"}
    switched_on = "\n".join(
        line.removeprefix("# ") if "=" in line or "[" in line else line for line in text.splitlines() if "…" not in line
    )
    path = here / "other.toml"
    path.write_text(switched_on)
    env: dict[str, Any] = {**BARE, "MY_KEY": "x", "ANTHROPIC_API_KEY": "x"}
    done = inside("serve", "--check", "--config", str(path), **env)
    assert done.returncode == 0, done.stderr.decode()


def test_it_never_overwrites(here: Path) -> None:
    path = here / "penstock.toml"
    path.write_text("# mine\n")
    for words in (["--yes"], ["--model", "replay/text"], [str(path), "--json"]):
        done = init(here, *words)
        assert done.returncode == 2
        assert b"there is such a file already" in done.stderr
    assert path.read_text() == "# mine\n"
    (here / "link.toml").symlink_to(here / "nowhere.toml")
    assert init(here, "link.toml", "--yes").returncode == 2
    assert not (here / "nowhere.toml").exists()
    assert init(here, "--print").stdout.startswith(b"# The configuration")


def test_a_model_that_cannot_be_asked_is_told(here: Path) -> None:
    done = init(here, "--model", "opnai/gpt-5")
    assert done.returncode == 0
    assert b"did you mean openai/gpt-5?" in done.stderr


@each(
    "words, complaint",
    [
        (["--model", "=x"], "expected MODEL or ALIAS=MODEL"),
        (["--model", "x="], "expected MODEL or ALIAS=MODEL"),
        (["--budget", "-1"], "expected dollars over 0"),
        ([], "there is no terminal to ask"),
    ],
)
def test_what_cannot_be_used(here: Path, words: list[str], complaint: str) -> None:
    done = init(here, *words)
    assert (done.returncode, complaint in done.stderr.decode()) == (2, True), done.stderr
    assert not (here / "penstock.toml").exists()


def test_json(here: Path) -> None:
    found = json.loads(init(here, "--json", "--model", "replay/text", "deep/er/penstock.toml").stdout)
    assert (found["file"], found["written"]) == ("deep/er/penstock.toml", True)
    assert (here / "deep" / "er" / "penstock.toml").is_file()
    assert json.loads(init(here, "--json", "--print").stdout)["written"] is False


def test_by_questions(here: Path) -> None:
    env = environment(**BARE, TERM="xterm", PENSTOCK_DATA=str(here / "data"))
    with Terminal([sys.executable, "-m", "penstock", "init"], {**env, "OPENAI_API_KEY": "made-up"}, here) as terminal:
        terminal.wait_for("keys are there for: openai")
        terminal.wait_for("Model for the alias default")
        terminal.type("opnai/gpt-5\r")
        terminal.wait_for("did you mean openai/gpt-5?")
        terminal.wait_for("Dollars a day")
        terminal.type("much\r")
        terminal.wait_for("expected a number, found 'much'")
        terminal.type("$3\r")
        terminal.wait_for("Prompt caching")
        terminal.type("n\r")
        assert terminal.wait() == 0
    found = tomllib.loads((here / "penstock.toml").read_text())
    assert found["aliases"] == {"default": "opnai/gpt-5"}
    assert found["limits"] == {"day_cost": 3}
    assert found["features"] == {"prompt_caching": False, "context_management": False}
