"""Prompts near a model's limit: a warning in a header, never a refusal; and one policy for limits everywhere."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

from penstock.gateway import App, load_config
from penstock.providers import max_input_tokens, model, output_limit, providers
from penstock.testing import Reply
from tests.cli.command_runner import inside
from tests.gateway.test_learned_counts import TALKING, answered, facing
from tests.support.client_requests import get, post
from tests.support.each_case import each
from tests.support.estimates import learn
from tests.support.gateway import Running, gateway

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest

HEADER = "x-penstock-warning"
LINE = "The water stood at four metres and twelve centimetres at the third gate. "  # about 15 tokens
FACTS = {"context": 3000, "max_output": 1000}  # a prompt may have 2,000 tokens


def spoken(seen: ReceivedRequest) -> Reply:
    return Reply.of("openai-chat", answered(), stream=seen.json.get("stream") is True)


@each(
    "lines, facts, code",
    [
        (60, FACTS, ""),
        (128, FACTS, "near-limit"),
        (400, FACTS, "over-limit"),
        (4000, FACTS, "over-limit"),  # too large for the event loop
        (400, {}, ""),  # the window is not known
    ],
)
def test_a_warning_and_no_refusal(lines: int, facts: dict[str, Any], code: str) -> None:
    with facing(spoken, facts, features={"estimates": False}) as (running, up):
        for number, (protocol, stream) in enumerate(product(TALKING, (True, False)), 1):
            path, _, body = TALKING[protocol]("mine/tide", [("user", LINE * lines)], stream)
            if protocol == "anthropic":
                body["max_tokens"] = 1000  # what other protocols leave room for by default
            reply = post(running.url + path, json=body)
            assert (reply.status_code, len(up.requests)) == (200, number)
            told = reply.headers.get(HEADER, "")
            assert told.partition(";")[0] == code, (protocol, stream)
            if code:
                assert " of 2,000 tokens (" in told
                assert "estimated, " in told


@each("lines", [60, 400])
def test_a_stored_conversation_counts(lines: int) -> None:
    with facing(Reply.of("openai-chat", answered(used=(lines * 15, 60))), FACTS) as (running, _):
        first = post(f"{running.url}/v1/responses", json={"model": "mine/tide", "input": LINE * lines})
        again = {"model": "mine/tide", "input": "And now?", "previous_response_id": first.json()["id"]}
        reply = post(f"{running.url}/v1/responses", json=again)
        assert reply.status_code == 200, reply.text
        assert reply.headers.get(HEADER, "").partition(";")[0] == ("over-limit" if lines == 400 else "")


@each("asked, limit", [(None, 2000), (99, 2901), (1000, 2000), (5000, 2000), (1, 2999)])
def test_there_is_room_for_the_output_that_is_asked_for(asked: int | None, limit: int) -> None:
    with facing(spoken, FACTS) as (running, _):
        said = {"model": "mine/tide", "messages": [{"role": "user", "content": LINE * 400}], "max_tokens": asked}
        reply = post(f"{running.url}/v1/chat/completions", json=said)
        assert f" of {limit:,} tokens (" in reply.headers[HEADER]
        options = {"modelOptions": {"max_tokens": asked}} if asked else {}
        counted = {"model": "mine/tide", "messages": [{"role": 1, "content": [{"value": LINE}]}], **options}
        assert post(f"{running.url}/vscode/count", json=counted).json()["limit"] == limit


def test_replayed_models_have_one_limit_and_one_count() -> None:
    schema = {"type": "object", "properties": {"gate": {"type": "string"}}}
    with facing(Reply.of("openai-chat", answered()), FACTS) as (running, _):
        listed = get(f"{running.url}/vscode/models").json()["models"]
        row = next(row for row in listed if row["id"] == "replay/text")
        counts = set[int]()
        for protocol, tools in (
            ("anthropic", [{"name": "f", "description": "d", "input_schema": schema}]),
            ("gemini", [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": schema}]}]),
            ("responses", [{"type": "function", "name": "f", "description": "d", "parameters": schema}]),
            ("vscode", [{"name": "f", "description": "d", "inputSchema": schema}]),
        ):
            _, path, body = TALKING[protocol](
                "replay/text", [("user", LINE), ("assistant", "Yes."), ("user", LINE)], False
            )
            said = post(running.url + path, json={**body, "tools": tools}).json()
            counts.add(said.get("input_tokens") or said.get("totalTokens") or said["prompt"]["tokens"])
            if protocol == "vscode":
                assert (said["limit"], said["assumed"]) == (row["maxInputTokens"], row.get("assumed", False))
    assert len(counts) == 1


def test_a_refusal_of_the_provider_has_the_warning_too() -> None:
    with facing(Reply.error("openai-chat", 400, "too long", code="context_length_exceeded"), FACTS) as (running, _):
        path, _, body = TALKING["anthropic"]("mine/tide", [("user", LINE * 400)], True)
        reply = post(running.url + path, json=body)
        assert (reply.status_code, reply.headers["x-penstock-refused-by"]) == (400, "provider")
        assert reply.headers[HEADER].startswith("over-limit; ")


def test_what_is_known_of_a_prompt_warns_better() -> None:
    """The provider counts three times what is estimated: from the second turn on that is known."""
    talk = [("user", LINE * 60)]
    with facing(Reply.of("openai-chat", answered(used=(1900, 20))), FACTS) as (running, _):
        path, _, body = TALKING["vscode"]("mine/tide", talk, True)
        assert HEADER not in post(running.url + path, json=body).headers
        learn(running)
        assert "1,900 of 2,000 tokens (95%; actual)" in post(running.url + path, json=body).headers[HEADER]


@each(
    "facts, policy, limit, code",
    [
        (FACTS, "", 2000, "near-limit"),
        (FACTS, "context-window", 3000, None),
        (FACTS, "0.5", 1500, "over-limit"),
        ({}, "", None, None),
    ],
)
def test_an_editors_count_names_limit_and_warning(
    facts: dict[str, Any], policy: str, limit: int | None, code: str | None
) -> None:
    with facing(Reply.of("openai-chat", answered()), facts) as (running, up):
        _, path, body = TALKING["vscode"]("mine/tide", [("user", LINE * 128)], True)
        said = post(f"{running.url}{path}?max_input={policy}", json=body).json()
        assert said["prompt"].keys() == {"tokens", "method", "confidence", "low", "high"}
        assert (said["version"], said["limit"], said["assumed"]) == (1, limit, limit is None)
        assert (said["warning"] or "").partition(";")[0] == (code or "")
        assert up.requests == []
        (row,) = [row for row in get(f"{running.url}/vscode/models?max_input={policy}").json()["models"]
                  if row["id"] == "mine/tide"]  # fmt: skip
        assert (row["maxInputTokens"], row.get("assumed", False)) == (limit or 112_000, limit is None)


# ── one policy ────────────────────────────────────────────────────────────────────────────────────

OWN = {"tide": FACTS, "longest": {"context": 3000, "max_input": 900}, "prompt-only": {"max_input": 700}, "unknown": {}}


@each("policy", ["reserve-output", "context-window", 0.8])
def test_library_command_line_and_gateway_agree(policy: Any, tmp_path: Path) -> None:
    """The same numbers in the library, on the command line, and in the gateway's lists, however the policy is set."""
    file = tmp_path / "penstock.toml"
    file.write_text(configuration(policy))
    made = load_config(file, {"PENSTOCK_DATA": str(tmp_path)})
    engine = made.engine
    facts = {(name, one): model(engine.provider(name), one) for name, one in NAMES}
    library = {key: max_input_tokens(known, policy, engine.provider(key[0])) for key, known in facts.items()}
    assert [library["mine", one] for one in ("prompt-only", "unknown")] == [700, 0]

    words = ["models", *dict(NAMES), "--json", "--config", str(file)]
    printed = json.loads(inside(*words, **NO_KEYS, PENSTOCK_DATA=str(tmp_path)).stdout)
    rows = {(row["provider"], row["id"]): row.get("max_input_tokens", 0) for row in printed}
    assert {key: rows[key] for key in library} == library

    plain = tmp_path / "plain.toml"
    plain.write_text(configuration(None))
    for config, query in ((made, ""), (load_config(plain, {"PENSTOCK_DATA": str(tmp_path)}), f"?max_input={policy}")):
        with Running(App(config, env={})) as running:
            listed = get(f"{running.url}/vscode/models{query}").json()["models"]
            shown = {key: get(f"{running.url}/v1beta/models/{'/'.join(key)}").json() for key in NAMES if not query}
        found = {row["id"]: row for row in listed}
        for key, limit in library.items():
            row = found["/".join(key)]
            assert (row["maxInputTokens"], row.get("assumed", False)) == (limit or 112_000, limit == 0)
            if not query:
                assert shown[key].get("inputTokenLimit", 0) == limit
            if policy == "reserve-output" and facts[key].context:
                assert row["maxInputTokens"] + output_limit(facts[key], engine.provider(key[0])) <= facts[key].context


NAMES = [
    *(("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("gemini", "gemini-2.5-flash")),
    *(("mine", name) for name in ("tide", "longest", "prompt-only", "unknown")),
]
NO_KEYS: dict[str, Any] = dict.fromkeys((name for row in providers().values() for name in row.env), "")


def configuration(policy: Any) -> str:
    named = [f'[providers.{name}]\nkey = "k"\nmodels = ["{one}"]\n' for name, one in NAMES if name != "mine"]
    own = [
        f'[providers.mine.models."{name}"]\n' + "".join(f"{key} = {value}\n" for key, value in facts.items())
        for name, facts in OWN.items()
    ]
    mine = '[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\n'
    features = f"[features]\nmax_input = {json.dumps(policy)}\n" if policy is not None else ""
    return "".join(['[journal]\npath = "off"\n', features, *named, mine, *own])


# ── packaged streams ──────────────────────────────────────────────────────────────────────────────

TOOL = {"name": "read_gauge", "description": "Reads a gauge.", "input_schema": {"type": "object", "properties": {}}}


def test_count_and_usage_of_a_packaged_answer_agree() -> None:
    with gateway() as (running, _):
        for script, tools in product(("text", "agent", "reasoning"), ([], [TOOL])):
            body = {"model": f"replay/{script}", "max_tokens": 999, "system": "Be brief.", "tools": tools,
                    "messages": [{"role": "user", "content": "What does the gauge say?"}]}  # fmt: skip
            counted = post(f"{running.url}/v1/messages/count_tokens", json=body)
            used = post(f"{running.url}/v1/messages", json=body).json()["usage"]["input_tokens"]
            assert counted.json()["input_tokens"] == used > 0, (script, tools)
            assert counted.headers["x-penstock-tokens-method"] == "actual"
