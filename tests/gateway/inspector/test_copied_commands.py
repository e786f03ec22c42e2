"""Requests copied as commands and programs: each is run, and the body that arrives is the one that was copied."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import anthropic
import openai
import pytest

from penstock._inspector import program_text
from penstock._inspector.copied_commands import FORMS, CopiedRequest, write_command
from penstock._redaction import MARK
from tests.oracles.node.oracle import HERE, NODE
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected


KEY = "pk-penstock-copying-0123456789"
LIMIT = 120.0
NASTY = """it's "quoted" \\ $HOME `id` $(id) !! %s {x} \u2028 Zürich 漢字 🚰
line two\t# -- EOF ' '' \\' \\n"""
TOOL = {"type": "object", "properties": {"place": {"type": "string"}, "__proto__": {"type": "string"}}}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "model": "replay/text", "stream": True, "messages": [
                {"role": "system", "content": NASTY}, {"role": "user", "content": [{"type": "text", "text": NASTY}]}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}], "temperature": 0.1,
            "max_completion_tokens": 300, "made_up": {"kept": [1, 2.5, None, True]}, "seed": 7, "user": None,
            "stream_options": {"include_usage": True},
        },
    ),
    "chat-body": ("/v1/chat/completions", {"model": "replay/text", "messages": [{"role": "user", "content": NASTY}]}),
    "responses": (
        "/v1/responses",
        {"model": "replay/text", "stream": True, "input": [{"role": "user", "content": NASTY}], "store": False,
         "instructions": NASTY, "reasoning": {"effort": "low"}, "timeout": 3},
    ),
    "messages": (
        "/v1/messages",
        {"model": "replay/text", "stream": True, "max_tokens": 64_000, "system": [{"type": "text", "text": NASTY}],
         "messages": [{"role": "user", "content": NASTY}], "temperature": 1, "extra_body": {"x": 1}},
    ),
    "messages-body": (
        "/v1/messages",
        {"model": "replay/text", "max_tokens": 64_000, "messages": [{"role": "user", "content": NASTY}]},
    ),
    "gemini": (
        "/v1beta/models/replay/text:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": NASTY}]}], "generationConfig": {"temperature": 0.5}},
    ),
}  # fmt: skip
OWN_FORMS = {"openai": ("chat", "chat-body", "responses"), "anthropic": ("messages", "messages-body")}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(keys={"anna": {"hash": hash_key(KEY)}}) as running, watching(running.url, bearer(KEY)):
        yield running


def sent(gateway: Inspected, name: str) -> tuple[str, str]:
    """Sends one of `BODIES`, written with odd spaces; returns the turn's id and the text of the body."""
    path, body = BODIES[name]
    text = json.dumps(body, indent=1, ensure_ascii=False).replace('"model": ', '"model"  :\n ', 1)
    answer = post(
        gateway.url + path, content=text.encode(), headers={**bearer(KEY), "content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    turn = answer.headers["x-request-id"]
    ended(gateway, turn)
    return turn, text


def copied(gateway: Inspected, turn: str, form: str) -> dict[str, Any]:
    found = get(f"{gateway.url}/inspector/turns/{turn}/copy", params={"as": form}, headers=bearer(KEY))
    assert found.status_code == 200, found.text
    return dict(found.json())


def arrived(gateway: Inspected, before: str) -> tuple[str, dict[str, Any]]:
    """Returns the text of the newest turn's body, and its row."""
    (row,) = get(f"{gateway.url}/inspector/turns?limit=1", headers=bearer(KEY)).json()["rows"]
    assert row["id"] != before
    return get(f"{gateway.url}/inspector/turns/{row['id']}", headers=bearer(KEY)).json()["request"], row


def run(*command: str, folder: Path, **env: str) -> str:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "PENSTOCK_KEY": KEY, **env}, capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_curl_sends_the_same_bytes(gateway: Inspected, tmp_path: Path, name: str, shell: str) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    turn, text = sent(gateway, name)
    command = copied(gateway, turn, "curl")
    assert command["notes"] == []
    assert KEY not in command["text"]
    said = run(shell, "-c", command["text"], folder=tmp_path)
    body, row = arrived(gateway, turn)
    assert body == text
    assert row["route"] == BODIES[name][0].partition("?")[0]
    assert row["state"] == "finish"
    assert "Penstock" in said or "penstock" in said


def test_a_body_longer_than_an_argument_is_piped(gateway: Inspected, tmp_path: Path) -> None:
    text = json.dumps({"model": "replay/text", "messages": [{"role": "user", "content": NASTY * 4000}]})
    answer = post(f"{gateway.url}/v1/chat/completions", content=text, headers=bearer(KEY))
    turn = answer.headers["x-request-id"]
    ended(gateway, turn)
    script = tmp_path / "long.sh"
    script.write_text(copied(gateway, turn, "curl")["text"])
    run("sh", str(script), folder=tmp_path)
    assert arrived(gateway, turn)[0] == text


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in OWN_FORMS.items() for name in names])
def test_the_vendors_sdks_send_the_same_body(gateway: Inspected, tmp_path: Path, form: str, name: str) -> None:
    turn, text = sent(gateway, name)
    program = copied(gateway, turn, form)
    assert (program["language"], program["notes"]) == ("python", [])
    file = tmp_path / "copied.py"
    file.write_text(program["text"])
    run(sys.executable, str(file), folder=tmp_path)
    body, row = arrived(gateway, turn)
    assert json.loads(body) == json.loads(text)
    assert row["state"] == "finish"


@pytest.mark.parametrize("name", ["chat", "chat-body", "responses", "messages"])
def test_penstocks_client_sends_what_the_body_means(gateway: Inspected, tmp_path: Path, name: str) -> None:
    turn, text = sent(gateway, name)
    file = tmp_path / "copied.py"
    file.write_text(copied(gateway, turn, "penstock")["text"])
    run(sys.executable, str(file), folder=tmp_path, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    body, row = arrived(gateway, turn)
    assert row["state"] == "finish"
    assert row["asked"] == "replay/text"
    wanted, got = json.loads(text), json.loads(body)
    for field in ("messages", "input", "tools", "temperature", "seed", "max_completion_tokens", "made_up"):
        if name != "messages" and field in wanted:
            assert got.get(field) == wanted[field], field
    assert NASTY in list(_texts(got))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _texts(inner)


@pytest.mark.parametrize("name", BODIES)
def test_the_ai_sdk_sends_the_same_body(gateway: Inspected, tmp_path: Path, name: str) -> None:
    if not NODE.exists():
        pytest.skip("tests/oracles/node/setup.sh installs what this needs")
    turn, text = sent(gateway, name)
    program = copied(gateway, turn, "aisdk")
    assert (program["language"], program["notes"]) == ("typescript", [])
    (tmp_path / "node_modules").symlink_to(HERE / "ai7" / "node_modules")
    file = tmp_path / "copied.mts"
    file.write_text(program["text"])
    said = run(str(NODE), str(file), folder=tmp_path)
    body, row = arrived(gateway, turn)
    assert json.loads(body) == json.loads(text)
    assert row["state"] == "finish"
    assert "enstock" in said


def test_another_sdk_gets_the_converted_request_and_its_losses(gateway: Inspected, tmp_path: Path) -> None:
    turn, _ = sent(gateway, "chat")
    program = copied(gateway, turn, "anthropic")
    assert program["notes"][0] == "the client sent openai-chat; this is the same request in anthropic"
    assert any("seed" in note for note in program["notes"])
    file = tmp_path / "copied.py"
    file.write_text(program["text"])
    run(sys.executable, str(file), folder=tmp_path)
    body, row = arrived(gateway, turn)
    assert (row["route"], row["state"]) == ("/v1/messages", "finish")
    assert json.loads(body)["system"] == NASTY


def test_parameters_are_those_of_the_installed_sdks() -> None:
    client, other = openai.OpenAI(api_key="x"), anthropic.Anthropic(api_key="x")
    methods: dict[str, Any] = {
        "openai-chat": client.chat.completions.create, "responses": client.responses.create,
        "completions": client.completions.create, "anthropic": other.messages.create,
    }  # fmt: skip
    for protocol, method in methods.items():
        assert set(program_text.PARAMETERS[protocol]) <= set(inspect.signature(method).parameters), protocol


# ── secrets and refusals ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
def test_no_form_holds_a_secret(form: str) -> None:
    planted = ["sk-planted0123456789abcdef", 'he said "no"\n', "the-callers-very-own", "sk-up-000000"]
    env = {"HUE_SECRET": planted[1]}
    with inspected(env=env, access={"keys": "forward"}) as running, watching(running.url):
        body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": f"a {planted}"}, *(
            {"role": "user", "content": f"it is {secret}!"} for secret in planted)]}  # fmt: skip
        headers = {"x-api-key": planted[2], "authorization": f"Bearer {planted[2]}"}
        turn = post(f"{running.url}/v1/chat/completions", json=body, headers=headers).headers["x-request-id"]
        ended(running, turn)
        found = get(f"{running.url}/inspector/turns/{turn}/copy", params={"as": form}).json()
        for secret in planted:
            assert secret not in found["text"]
            assert json.dumps(secret)[1:-1] not in found["text"]
            assert repr(secret)[1:-1] not in found["text"]
        assert found["text"].count(MARK) >= len(planted)
        assert f"{MARK} stands where a secret was removed" in found["notes"]


def test_headers_that_change_the_meaning_are_copied_and_keys_are_not(gateway: Inspected) -> None:
    path, body = BODIES["messages-body"]
    headers = {**bearer(KEY), "anthropic-beta": "context-1m", "x-penstock-losses": "it's", "x-other": "left out"}
    answer = post(gateway.url + path, json=body, headers={**headers, "x-penstock-key": KEY})
    turn = answer.headers["x-request-id"]
    ended(gateway, turn)
    text = copied(gateway, turn, "curl")["text"]
    assert "-H 'anthropic-beta: context-1m'" in text
    assert "x-penstock-losses" in text
    assert not [word for word in ("x-other", "x-penstock-key", KEY) if word in text]
    assert "'anthropic-beta': 'context-1m'" in copied(gateway, turn, "anthropic")["text"]


def test_headers_that_change_the_meaning_are_told_and_secrets_are_not(gateway: Inspected) -> None:
    path, body = BODIES["messages-body"]
    secret = "sk-planted0123456789abcdef"
    headers = {
        "anthropic-beta": "context-1m",
        "x-penstock-strict": "true",
        "x-penstock-made-up": secret,
        "x-other": "no",
    }
    answer = post(gateway.url + path, json=body, headers={**bearer(KEY), **headers, "x-penstock-key": KEY})
    turn = answer.headers["x-request-id"]
    ended(gateway, turn)
    said = get(f"{gateway.url}/inspector/turns/{turn}/headers", headers=bearer(KEY))
    assert [word for word in (KEY, secret) if word in said.text] == []
    found = said.json()
    assert found["removed"] == ["x-penstock-made-up"]
    known = {"anthropic-beta": "context-1m", "x-penstock-strict": "true"}
    assert {name: found["headers"].get(name) for name in known} == known
    assert set(found["headers"]) - set(known) <= {"anthropic-version"}


def test_another_keys_turn_is_not_copied(gateway: Inspected) -> None:
    turn, _ = sent(gateway, "chat-body")
    for headers, status in (({}, 401), (bearer("pk-penstock-wrong"), 401)):
        assert get(f"{gateway.url}/inspector/turns/{turn}/copy", headers=headers).status_code == status
    other = "pk-penstock-other-0123456789"
    keys = {name: {"hash": hash_key(key)} for name, key in (("anna", KEY), ("ben", other))}
    with inspected(keys=keys) as running, watching(running.url, bearer(KEY)):
        turn, _ = sent(running, "chat-body")
        answer = get(f"{running.url}/inspector/turns/{turn}/copy", headers=bearer(other))
        assert answer.status_code == 404
        assert "quoted" not in answer.text


def test_what_was_not_kept_and_unknown_forms_are_refused(gateway: Inspected) -> None:
    turn, _ = sent(gateway, "chat-body")
    place = f"{gateway.url}/inspector/turns/{turn}/copy"
    unknown = get(place, params={"as": "perl"}, headers=bearer(KEY))
    assert (unknown.status_code, "curl, penstock, openai" in unknown.text) == (400, True)
    for base in ("javascript:alert(1)", "http://x/' && id '", "http://x y"):
        assert get(place, params={"base": base}, headers=bearer(KEY)).status_code == 400
    assert (
        "curl https://gate.test/v1/chat" in get(place, params={"base": "https://gate.test"}, headers=bearer(KEY)).text
    )
    gateway.inspector.watch.captures[turn].request_cut = True
    assert get(place, headers=bearer(KEY)).json()["error"]["code"] == "request_not_kept"


@pytest.mark.parametrize("form", FORMS)
def test_a_websocket_message_is_copied_as_a_request(form: str) -> None:
    body = {"type": "response.create", "model": "m", "input": "Hi", "previous_response_id": "resp_1", "stream_id": "s"}
    copied = write_command(form, CopiedRequest("responses", "/v1/responses", json.dumps(body), "http://x", "m"))
    assert "stream_id" not in copied.text
    assert "response.create" not in copied.text
    assert any("came over a WebSocket" in note for note in copied.notes)
    assert any("must name a stored one" in note for note in copied.notes)
    assert ("-N " if form == "curl" else "stream") in copied.text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("more", "note"),
    [
        ('"input":"\\ud83d hi"', "same one over HTTP"),
        ('"input":"hi","store":true,"store":false', "a name twice"),
        ('"input":"hi","x":1e400', "too large"),
    ],
)
def test_an_odd_websocket_message_is_copied(form: str, more: str, note: str) -> None:
    body = f'{{"type":"response.create","model":"m",{more}}}'
    copied = write_command(form, CopiedRequest("responses", "/v1/responses", body, "http://x", "m"))
    assert "hi" in copied.text
    assert any(note in one for one in copied.notes), copied.notes


@pytest.mark.parametrize(("form", "body"), [("openai", {}), ("anthropic", {"max_tokens": 9})])
def test_a_model_that_the_gateway_took_is_named(form: str, body: dict[str, Any]) -> None:
    protocol, path = {"openai": ("openai-chat", "/v1/chat/completions"), "anthropic": ("anthropic", "/v1/messages")}[
        form
    ]
    body = {**body, "messages": [{"role": "user", "content": "Hi"}]}
    copied = write_command(form, CopiedRequest(protocol, path, json.dumps(body), "http://x", "replay/text"))
    assert "model='replay/text'" in copied.text
    assert "the client named no model; the gateway took replay/text" in copied.notes


def test_what_a_form_cannot_express_is_said() -> None:
    base = CopiedRequest("openai-chat", "/v1/chat/completions", "{}", "http://x")
    for body, form, word in (
        ('{"model":"m","messages":[],"seed":1,"seed":2}', "openai", "a name twice"),
        ('{"model":"m","messages":[],"seed":9007199254740993}', "aisdk", "whole numbers"),
        ('{"model":"m","messages":[{"content":"\ufffd"}]}', "curl", "not UTF-8"),
    ):
        base.body = body
        assert any(word in note for note in write_command(form, base).notes), word
