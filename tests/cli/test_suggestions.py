"""`did you mean`: for commands, options, choices, providers, models and settings; in one short line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.providers import providers
from tests.cli.command_runner import inside
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

BARE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")
LONGEST = 300  # characters of a line

CASES = {  # the words, what is suggested
    "command": ("trnslate", "did you mean translate?"),
    "option": ("translate --to events --qiet", "did you mean --quiet?"),
    "option with a value": ("tokens --modle=x", "did you mean --model?"),
    "option of another command": ("models --serch x", "did you mean --search?"),
    "choice": ("usage --by modle", "did you mean model?"),
    "agent": ("setup cluade", "did you mean claude?"),
    "action": ("keys revok ci", "did you mean revoke?"),
    "shell": ("completion bsh", "did you mean bash?"),
    "protocol": ("translate --to antropic", "did you mean 'anthropic'?"),
    "framing": ("translate --to events --framing ndjsn", "did you mean 'ndjson'?"),
    "encoder's setting": ("translate --to openai-chat --option creatd=1", "did you mean created?"),
    "provider": ("models opnai", "did you mean 'openai'?"),
    "provider in capitals": ("providers OpenAI", "did you mean 'openai'?"),
    "provider of a key": ("setup --provider antropic --key-stdin", "did you mean 'anthropic'?"),
    "provider of a model": ("chat antropic/claude-sonnet-4-5 hi", "did you mean anthropic/claude-sonnet-4-5?"),
    "packaged model": ("chat replay/reasonin hi", "did you mean replay/reasoning?"),
    "alias": ("chat fsat hi --config own.toml", "did you mean fast?"),
    "setting": ("doctor --config wrong.toml", "did you mean aliases?"),
    "gateway key": ("keys revoke latop", "did you mean laptop?"),
    "stored key": ("setup --remove opnai", "did you mean openai?"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(
        '[aliases]\nfast = "lab/tide"\n[providers.lab]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    (tmp_path / "wrong.toml").write_text("[alises]\n")
    env: dict[str, Any] = {**BARE, "PENSTOCK_DATA": str(tmp_path)}
    assert inside("keys", "add", "laptop", **env).returncode == 0
    assert (
        inside(
            "setup", "--provider", "openai", "--key-stdin", "--no-check", "--file", given=b"sk-made-up-01", **env
        ).returncode
        == 0
    )
    return env


@each("case", CASES)
def test_the_closest_name_is_suggested(case: str, here: dict[str, Any]) -> None:
    words, suggestion = CASES[case]
    done = inside(*words.split(), given=b'data: {"type":"message_start","message":{}}\n\n', **here)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert suggestion in line
    assert len(line) < LONGEST


@each("words", ["xyzzy", "translate --xyzzy", "models xyzzy", "keys xyzzy"])
def test_nothing_is_suggested_for_what_is_like_nothing(words: str, here: dict[str, Any]) -> None:
    done = inside(*words.split(), **here)
    assert done.returncode == 2
    assert b"did you mean" not in done.stderr
    assert len(done.stderr) < LONGEST
