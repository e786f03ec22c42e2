"""The newest turns are kept in memory whether or not somebody watches; what was forgotten says why."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock._inspector import capture_ring
from penstock.testing import Reply
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND, OWNER = "pk-penstock-first", "pk-penstock-second", "pk-penstock-owner"


def trace_of(gateway: Inspected, name: str, key: str = "") -> Any:
    response = get(f"{gateway.url}/inspector/turns/{name}", headers=bearer(key) if key else {})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_turn_can_be_opened_though_nobody_watched() -> None:
    with inspected() as gateway:
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert trace["frames"]
        assert trace["outputs"]
        assert json.loads(trace["request"])["model"] == "openai-chat/text"
        assert "lost" not in trace
        (row,) = get(f"{gateway.url}/inspector/turns").json()["rows"]
        assert row["held"] is True


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"model": "openai-chat/text", "messages": 7}', 400),
        (b'{"model": "nobody/has-it", "messages": [{"role": "user", "content": "hi"}]}', 404),
        (b'{"model": "openai-chat/text", "messages": [{"role": "user", "content": "hi"}]}', 401),
    ],
    ids=["not-json", "invalid", "unknown-model", "provider"],
)
def test_a_turn_that_was_refused_is_kept_with_its_request(body: bytes, status: int) -> None:
    refused = Reply.body({"error": {"message": "no such key", "type": "auth"}}, status=401)
    with inspected(refused) as gateway:
        reply = post(f"{gateway.url}/v1/chat/completions", content=body)
        assert reply.status_code == status
        (row,) = get(f"{gateway.url}/inspector/turns").json()["rows"]
        assert (row["state"], row["held"]) == ("refused", True)
        trace = trace_of(gateway, row["id"])
        assert trace["request"] == body.decode()
        answered = "the provider openai-chat answered 401: there are no frames"
        assert trace["lost"] == (answered if status == 401 else "the gateway refused it: no provider was asked")
        (output,) = trace["outputs"]
        assert json.loads(output["data"])["error"]["message"] == reply.json()["error"]["message"]


def test_a_body_that_is_too_large_is_kept_as_a_refusal() -> None:
    with inspected(serve={"pace": 0.0, "body": 1_000}) as gateway:
        assert post(f"{gateway.url}/v1/chat/completions", content=b"x" * 2_000).status_code == 413
        (row,) = get(f"{gateway.url}/inspector/turns").json()["rows"]
        assert row["http"] == 413
        assert trace_of(gateway, row["id"])["row"]["state"] == "refused"


def test_a_recorded_turn_that_was_refused_opens_with_its_facts(tmp_path: Path, keeps_nothing: None) -> None:
    assert keeps_nothing is None
    refused = Reply.body({"error": {"message": "no such key", "type": "auth"}}, status=401)
    with inspected(refused, record={"path": str(tmp_path)}) as gateway:
        name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        gateway.app.services.recorder.close()
        trace = trace_of(gateway, name)
        assert (trace["row"]["state"], trace["row"]["http"], trace["frames"]) == ("refused", 401, [])
        assert trace["lost"] == "nothing of an answer was recorded: there are no frames"
        (listed,) = get(f"{gateway.url}/inspector/recordings").json()["recordings"]
        assert get(f"{gateway.url}/inspector/recordings/{listed['name']}").status_code == 200


@pytest.mark.parametrize("protocol", ["anthropic", "openai-chat", "responses", "vscode"])
@pytest.mark.parametrize("model", ["anthropic/tools", "openai-chat/text", "replay/text"])
def test_a_recording_shows_what_the_client_got(tmp_path: Path, keeps_nothing: None, protocol: str, model: str) -> None:
    """Byte for byte: as in memory, which passes the provider's frames through where the turn did."""
    assert keeps_nothing is None
    with inspected(record={"path": str(tmp_path)}) as gateway, watching(gateway.url):
        name = ask(gateway.url, protocol, model).headers["x-request-id"]
        ended(gateway, name)
        live = trace_of(gateway, name)
        gateway.inspector.watch.clear()
        gateway.app.services.recorder.close()
        recorded = trace_of(gateway, name)
        assert recorded["consumer"] == protocol
        shown, wanted = (  # the Responses API says when a response was completed: that is the time of the trace
            [re.sub(r'"completed_at":\d+', "", row["data"]) for row in trace["outputs"]] for trace in (recorded, live)
        )
        assert shown == wanted


# ── whose turns ───────────────────────────────────────────────────────────────────────────────────


def keyed(**more: Any) -> dict[str, Any]:
    keys = {"first": {"env": "FIRST"}, "second": {"env": "SECOND", "inspect_keep": True}}
    return {"env": {"FIRST": FIRST, "SECOND": SECOND}, "keys": keys, **more}


def test_with_team_keys_only_turns_of_keys_that_opted_in_are_kept() -> None:
    with inspected(**keyed()) as gateway:
        names = {
            key: ask(gateway.url, "openai-chat", "openai-chat/text", headers=bearer(key)).headers["x-request-id"]
            for key in (FIRST, SECOND)
        }
        ended(gateway, names[SECOND])
        assert trace_of(gateway, names[SECOND], SECOND)["frames"]
        lost = trace_of(gateway, names[FIRST], FIRST)["lost"]
        assert "turns of the key 'first' are not kept" in lost
        assert "penstock keys edit first --inspect-keep on" in lost
        index = gateway.inspector.watch.text_index
        assert index.find_turns("weather", "first") == set()


def test_the_key_that_a_gateway_was_started_with_is_no_team_key() -> None:
    with inspected(env={"PENSTOCK_GATEWAY_KEY": OWNER}) as gateway:
        name = ask(gateway.url, "openai-chat", "openai-chat/text", headers=bearer(OWNER)).headers["x-request-id"]
        ended(gateway, name)
        assert trace_of(gateway, name, OWNER)["frames"]


def test_a_gateway_that_others_can_reach_keeps_nothing_without_keys() -> None:

    access = {"trusted_proxies": ()}
    with inspected(serve={"host": "0.0.0.0", "pace": 0.0}, access=access) as gateway:  # noqa: S104 — not bound
        name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        assert "other machines can reach" in trace_of(gateway, name)["lost"]


def test_requests_of_unknown_callers_are_not_kept() -> None:
    """They would push out those of others."""
    with inspected(**keyed()) as gateway:
        assert post(f"{gateway.url}/v1/chat/completions", content=b"{}").status_code == 401
        assert not gateway.inspector.watch.captures


# ── what was forgotten ────────────────────────────────────────────────────────────────────────────


def test_what_was_forgotten_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TURNS", 2)
    with inspected() as gateway:
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(3)]
        ended(gateway, names[2])
        assert "newer turns took its place in memory (32 MB)" in trace_of(gateway, names[0])["lost"]
        gateway.inspector.watch.clear()
        assert "it was deleted on the inspector's page" in trace_of(gateway, names[2])["lost"]
        gateway.inspector.watch.policy.started += 3600
        gateway.inspector.watch.policy.forgotten.clear()
        assert "the gateway was restarted since" in trace_of(gateway, names[0])["lost"]


def test_the_list_hears_of_turns_that_can_no_longer_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TURNS", 2)
    with inspected() as gateway:
        first = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        with watching(gateway.url) as reader:
            assert reader.rows[first]["held"] is True
            second = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
            reader.until(lambda: reader.rows.get(second, {}).get("state") == "finish")
            for _ in range(2):
                ask(gateway.url, "anthropic", "replay/text")
            removed = reader.until(
                lambda: len(found := [name for one in reader.named("removed") for name in one["ids"]]) == 2 and found
            )
            assert sorted(removed) == sorted([first, second])
