"""`--json`: every command has it, prints the shape that docs/cli.md describes, and tells errors as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock.providers import providers
from tests.cli.command_runner import COMMANDS, complete, inside, serve
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS
from tests.support.each_case import each
from tests.support.journal_history import write_turns
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
BARE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")
REQUEST = b'{"model":"m","seed":3,"messages":[{"role":"user","content":"hi"}]}'


class Sample(NamedTuple):
    """One command line: `on` is where its JSON is, `lines` if it is one object a line.

    `by_name`: the keys of the object are names, and its values have the shape.
    """

    words: str
    given: bytes = b""
    on: str = "stdout"
    lines: bool = False
    code: int = 0
    by_name: bool = False


SAMPLES = {
    "demo": [Sample("demo --no-serve", lines=True)],
    "translate": [Sample("translate --to anthropic", CHAT_CALLS, on="stderr"), Sample("translate --to events --strict", ANTHROPIC[:300], on="stderr", code=3)],
    "convert": [Sample("convert --from openai-chat --to responses", REQUEST, on="stderr")],
    "inspect": [Sample("inspect", ANTHROPIC, lines=True)],
    "tokens": [Sample("tokens --model gpt-4o", REQUEST), Sample("tokens --model gpt-4o --fit 5", REQUEST)],
    "chat": [Sample("chat replay/text hi", lines=True)],
    "models": [
        Sample("models openai"), Sample("models"), Sample("models refresh --list"), Sample("models refresh --from facts.json", code=1),
        Sample("models refresh --from facts.json --yes"), Sample("models refresh --list"), Sample("models refresh --undo"),
    ],
    "providers": [Sample("providers"), Sample("providers openai")],
    "doctor": [Sample("doctor --offline"), Sample("doctor --error -", b'{"error":{"message":"no"}}')],
    "init": [Sample("init new/penstock.toml --model openai/gpt-5"), Sample("init --print other.toml")],
    "serve": [Sample("serve --check"), Sample("serve --check --config broken.toml", code=1)],
    "setup": [
        Sample("setup --list"),
        Sample("setup --provider openai --key-stdin --no-check --file", b"sk-made-up-0123456789"),
        Sample("setup --list"),
        Sample("setup --remove openai"),
        Sample("setup llm --print"),
        Sample("setup goose --yes"),
        Sample("setup goose --undo"),
    ],
    "keys": [
        Sample("keys list", by_name=True), Sample("keys add ci --requests 60"), Sample("keys list", by_name=True), Sample("keys rotate ci"),
        Sample("keys edit ci --day-cost 5 --expires 90d"), Sample("keys rotate ci --overlap 1h"), Sample("keys list", by_name=True),
        Sample("keys revoke ci"), Sample("keys reset --yes"),
    ],
    "teams": [
        Sample("teams list", by_name=True), Sample("teams add lab --month-cost 5"), Sample("teams edit lab --note x"),
        Sample("teams list", by_name=True), Sample("teams remove lab"),
    ],
    "trust": [Sample("trust --list"), Sample("trust broken.toml"), Sample("trust --list"), Sample("trust --remove broken.toml")],
    "usage": [Sample("usage"), Sample("usage --last 5", lines=True)],
    "record": [Sample("record new.tape", ANTHROPIC, on="stderr")],
    "replay": [Sample("replay --full-speed old.tape", on="stderr"), Sample("replay --about old.tape", lines=True)],
    "completion": [Sample("completion bash"), Sample("completion zsh"), Sample("completion fish")],
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder with a broken configuration, a recording and a journal. Gives the environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.toml").write_text('[aliases]\nfast = "opnai/gpt-5"\n[providers.lab]\nbase_url = "http://x"\n')
    facts = {"openai": {"models": {"new-1": {"name": "New", "limit": {"context": 9, "output": 9}}}}}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    env: dict[str, Any] = {
        **BARE,
        "PENSTOCK_DATA": str(tmp_path / "data"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": "",
    }
    assert inside("record", "old.tape", "-q", given=ANTHROPIC, **env).returncode == 0
    write_turns(tmp_path / "data" / "journal.sqlite", [{"model": "m", "provider": "p", "key": "ci"}])
    return env


def described_keys(command: str) -> list[set[str]]:
    """The shapes that the page names for a command: the keys that are always there."""
    section = PAGE.partition("## JSON\n")[2].partition("\n## ")[0]
    rows = re.findall(rf"^\| `{command}\b[^|]*\|([^|]*)\|", section, re.MULTILINE)
    shapes = [set(re.findall(r"`([a-z_0-9]+)`", row)) for row in rows]
    assert all(shapes), f"a row of {command} names no keys"
    return shapes


def test_every_command_has_the_option_and_a_sample() -> None:
    for command in COMMANDS:
        assert "--json" in (complete(command, "--") or ()), command
        assert SAMPLES[command], command
        assert described_keys(command), f"docs/cli.md says nothing of the JSON of {command}"
    assert set(SAMPLES) == set(COMMANDS)


@each("command", COMMANDS)
def test_the_shape_is_that_of_the_page(command: str, here: dict[str, Any]) -> None:
    shapes = described_keys(command)
    for sample in SAMPLES[command]:
        done = inside(*sample.words.split(), "--json", given=sample.given, **here)
        assert done.returncode == sample.code, (sample, done.stderr)
        output = done.stdout if sample.on == "stdout" else done.stderr
        values: list[Any] = [json.loads(line) for line in output.splitlines()] if sample.lines else [json.loads(output)]
        values = [row for value in values for row in value.values()] if sample.by_name else values
        rows: list[Any] = []
        for value in values:
            rows += value if isinstance(value, list) else [value]
        for row in rows:
            assert any(shape <= set(row) for shape in shapes), (sample, sorted(row), shapes)
        notes = [json.loads(line) for line in done.stderr.splitlines()] if sample.on == "stdout" else []
        assert all(set(note) == {"note"} for note in notes)


ERRORS = {
    "translate": ("translate --to nobody", 2, "UnknownProtocol", "unknown protocol 'nobody'"),
    "usage": ("translate", 2, "UsageError", "required: --to"),
    "choice": ("usage --by modle", 2, "UsageError", "did you mean model?"),
    "command": ("trnslate", 2, "UsageError", "did you mean translate?"),
    "file": ("inspect /no/such/file", 2, "FileNotFoundError", "No such file"),
    "model": ("chat opnai/gpt-5 hi", 2, "InputError", "did you mean openai/gpt-5?"),
    "key": ("chat openai/gpt-5 hi", 1, "AuthError", "OPENAI_API_KEY"),
    "provider": ("models opnai", 2, "InputError", "did you mean 'openai'?"),
    "config": ("doctor --config broken2.toml", 2, "InputError", "did you mean aliases?"),
}


@each("case", ERRORS)
def test_errors_are_json(case: str, here: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "broken2.toml").write_text("[aliasses]\nfast = 'x/y'\n")
    words, code, _, message = ERRORS[case]
    done = inside(*words.split(), "--json", **here)
    (line,) = done.stderr.splitlines()
    error = json.loads(line)["error"]
    assert (done.returncode, done.stdout, error["exit_code"]) == (code, b"", code)
    assert message in error["message"] + error.get("hint", "")
    assert error["type"].isidentifier()
    assert len(error["message"]) < 400  # not a list of all names


def test_a_server_says_where_it_is(here: dict[str, Any]) -> None:
    found = json.loads(serve("--json", "--port", "0", **here).stdout)
    assert found["url"].startswith("http://127.0.0.1:")
    assert "replay/agent" in found["models"]
    assert any(set(found) == shape for shape in described_keys("serve"))
