"""`penstock models` and `penstock providers`, as a user runs them; in this process but for one, which is quicker."""

from __future__ import annotations

import json
from typing import Any

from penstock.providers import Model, max_input_tokens, models, providers
from penstock.testing import Reply, scripted
from tests.cli.command_runner import inside as penstock
from tests.cli.command_runner import penstock as process
from tests.client.providers.accounts import KEY
from tests.support.each_case import each

NONE: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")


def _json(*words: str, **env: str) -> Any:
    done = penstock(*words, "--json", **{**NONE, **env})
    assert (done.returncode, done.stderr) == (0, b"")
    assert KEY.encode() not in done.stdout
    return json.loads(done.stdout)


def test_all_providers_and_whose_key_is_there() -> None:
    rows = {row["name"]: row for row in _json("providers", OPENAI_API_KEY=KEY)}
    assert list(rows) == list(providers())
    assert rows["openai"]["key"] == "OPENAI_API_KEY is set"
    assert {name for name, row in rows.items() if row["ready"]} == {"openai", "replay"}
    assert rows["cohere"]["endpoints"]["rerank"]["path"] == "/rerank"


def test_providers_for_people() -> None:
    done = penstock("providers", **NONE)
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["name", "speaks", "key", "has", "title"]
    assert len(lines) == len(providers()) + 1
    one = penstock("providers", "azure", **NONE).stdout.decode()
    assert "AZURE_RESOURCE_NAME" in one
    assert "POST /deployments/{deployment}/chat/completions" in one


@each("words", [["providers", "--json"], ["models", "anthropic"]])
def test_in_a_process_of_its_own_it_says_the_same(words: list[str]) -> None:
    done, here = process(*words, **NONE), penstock(*words, **NONE)
    assert (done.returncode, done.stdout, done.stderr) == (here.returncode, here.stdout, here.stderr)


def test_models_with_limits_prices_and_a_line() -> None:
    rows = _json("models", "anthropic", "--policy", "context-window")
    known = {row.id: row for row in models("anthropic") if row.chat}
    assert {row["id"] for row in rows} == set(known)
    for row in rows:
        model: Model = known[row["id"]]
        assert row["max_input_tokens"] == max_input_tokens(model, "context-window")
        assert row["max_output_tokens"] == model.max_output
        assert row["capabilities"] == sorted(model.capabilities)
        assert row["detail"]
        assert row["source"]


def test_with_no_key_the_packaged_models_are_listed() -> None:
    assert "agent" in [row["id"] for row in _json("models")]
    assert b"replay/agent" in penstock("models", **NONE).stdout


def test_models_of_whoever_has_a_key() -> None:
    assert {row["provider"] for row in _json("models", MISTRAL_API_KEY=KEY)} == {"mistral"}


def test_live_asks_the_provider(tmp_path: Any) -> None:
    listed = {"data": [{"id": "tide-1", "context_window": 4096}, {"id": "tide-embed"}]}
    with scripted(Reply.body(listed)) as up:
        config = tmp_path / "penstock.toml"
        config.write_text(f'[providers.mine]\nbase_url = "{up.url}/v1"\nkey = "{KEY}"\n')
        rows = _json("models", "mine", "--live", "--config", str(config))
        assert up.requests[0].target == "/v1/models"
    assert [(row["id"], row["context"], row["source"]["context"]) for row in rows] == [("tide-1", 4096, "the provider")]


@each(
    "words, said",
    [
        (["models", "opnai"], b"unknown provider 'opnai'"),
        (["models", "openai", "--policy", "half"], b"unknown policy 'half'"),
        (["providers", "opnai"], b"unknown provider 'opnai'"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: bytes) -> None:
    done = penstock(*words, **NONE)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
