"""All commands read the same configuration: the file that is named, that of PENSTOCK_CONFIG, the current folder's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.providers import providers
from penstock.testing import Reply, play, scripted
from tests.cli.command_runner import inside
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BARE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")
FILE = """\
[aliases]
fast = "lab/tide"
[providers.lab]
base_url = "URL/v1"
[providers.lab.models."tide"]
context = 1000
max_output = 100
"""


@each("way", ["option", "variable", "folder"])
def test_every_command_reads_the_file(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(Reply.body({"data": [{"id": "tide"}]})) as up:
        monkeypatch.chdir(tmp_path)
        path = tmp_path / ("penstock.toml" if way == "folder" else "other.toml")
        path.write_text(FILE.replace("URL", up.url))
        env: dict[str, Any] = {
            **BARE,
            "PENSTOCK_DATA": str(tmp_path / "data"),
            "PENSTOCK_CONFIG": str(path) if way == "variable" else "",
        }
        more = ["--config", str(path)] if way == "option" else []

        def run(*words: str, given: bytes = b"") -> str:
            done = inside(words[0], *more, *words[1:], given=given, **env)
            assert done.returncode == 0, done.stderr
            return done.stdout.decode()

        if way == "folder":
            refused = inside("doctor", **env)
            assert (refused.returncode, b"is not trusted" in refused.stderr) == (2, True)
            assert inside("trust", **env).returncode == 0
        assert "ok   lab" in run("doctor")
        assert [row["max_input_tokens"] for row in json.loads(run("models", "--json"))] == [900]
        assert "lab" in [row["name"] for row in json.loads(run("providers", "--ready", "--json"))]
        counted = json.loads(run("tokens", "--json", "--model", "fast", given=b"tide " * 2000))
        assert (counted["model"], counted["provider"], counted["warning"] is None) == ("tide", "lab", False)
        up.script(Reply.of("openai-chat", play("text")))
        assert run("chat", "fast", "hi")
        assert run("keys", "list")
        assert run("teams", "list")


@each("model, code, words", [("gpt-5", 1, b"OPENAI_API_KEY"), ("team", 2, b"no provider is configured")])
def test_chat_without_a_key_is_an_error(model: str, code: int, words: bytes) -> None:
    done = inside("chat", model, "hi", **BARE)
    assert (done.returncode, done.stdout) == (code, b"")
    assert words in done.stderr


CHECKED = """\
engine = "fast"
[aliases]
fast = "opnai/gpt-5"
"x-*" = "lab/*"
[fallbacks]
"lab/tide" = ["nosuch/model"]
[providers.lab]
base_url = "http://127.0.0.1:9/v1"
env = "NO_SUCH_VARIABLE"
[keys.ci]
env = "NO_SUCH_KEY"
models = ["opnai/*", "lab/*", "x-1*", "claude-*"]
"""
FOUND = {
    ":1: engine: expected native or sdk, found 'fast'",
    ":3: aliases.fast: 'opnai/gpt-5' means no model; did you mean openai/gpt-5?",
    ":6: fallbacks.lab/tide: 'nosuch/model' means no model",
    ":9: providers.lab.env: NO_SUCH_VARIABLE is not set",
    ":11: keys.ci.env: NO_SUCH_KEY is not set",
    ":12: keys.ci.models: 'opnai/*' matches no alias",
    ":12: keys.ci.models: 'claude-*' matches no alias",
}


def test_the_check_looks_at_keys_that_were_made(tmp_path: Path) -> None:
    env: dict[str, Any] = {**BARE, "PENSTOCK_DATA": str(tmp_path), "OPENAI_API_KEY": "made-up"}
    assert inside("keys", "add", "ci", "--model", "openai/*", "--model", "opnai/*", **env).returncode == 0
    assert inside("keys", "add", "all", **env).returncode == 0
    done = inside("serve", "--check", **env)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert line.endswith(
        "the key 'ci': 'opnai/*' matches no alias, and no model of a configured provider: it allows nothing"
    )


def test_the_check_finds_what_cannot_work(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(CHECKED)
    env: dict[str, Any] = {**BARE, "PENSTOCK_ENGINE_OPENAI": "true"}
    done = inside("serve", "--check", "--config", str(path), **env)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert [words for words in FOUND if not any(line.startswith(f"{path}{words}") for line in lines)] == []
    assert "environment: PENSTOCK_ENGINE_OPENAI: expected native or sdk, found 'true'; native is used" in lines
    assert len(lines) == len(FOUND) + 1
