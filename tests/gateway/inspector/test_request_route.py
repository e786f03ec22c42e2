"""`GET turns/ID/request`: both halves of a request, its losses and their places, the previous request; no secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from msgspec.structs import replace

from penstock._diagnostics import Diagnostic
from penstock._inspector.loss_places import MAX_PLACES, find_places
from penstock.gateway import App
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import config, hash_key
from tests.support.inspector import OwnInspector, run_inspector
from tests.support.request_turns import (
    COLD,
    PLANTED,
    THINKING,
    UPSTREAM_KEY,
    ask_messages,
    failing_gateway,
    watched_gateway,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with watched_gateway() as running:
        yield running


def view(gateway: Inspected, name: str, **more: Any) -> dict[str, Any]:
    response = get(f"{gateway.url}/inspector/turns/{name}/request", **more)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_both_halves_of_a_translated_request(gateway: Inspected) -> None:
    found = view(gateway, ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING))
    client, canonical = found["client"], found["canonical"]
    assert (client["method"], client["path"], client["protocol"]) == ("POST", "/v1/messages", "anthropic")
    assert json.loads(client["body"])["system"] == "Be brief."
    assert canonical["settings"]["top_k"] == 5
    assert [message["role"] for message in canonical["messages"]] == ["system", "user"]
    (attempt,) = found["attempts"]
    assert json.loads(attempt["attempt"]["body"])["messages"][0] == {"role": "system", "content": "Be brief."}
    assert found["canonical_error"] == ""


def test_losses_have_their_places(gateway: Inspected) -> None:
    found = view(gateway, ask_messages(gateway, "openai-chat/text", **THINKING))
    by_code = {loss["code"]: loss for loss in found["losses"]}
    top_k, budget = by_code["loss-setting"], by_code["loss-budget"]
    assert (top_k["kind"], top_k["client"], top_k["upstream"]) == ("lost", ["/top_k"], [])
    assert (budget["client"], budget["upstream"]) == (["/thinking/budget_tokens"], ["/reasoning_effort"])


def test_a_failed_turn_has_the_providers_error(gateway: Inspected) -> None:
    name = ask_messages(gateway, "either")
    found = view(gateway, name)
    first, second = (one["attempt"] for one in found["attempts"])
    assert json.loads(first["error_body"]) == COLD
    assert [one["what"] for one in first["decisions"]] == ["give-up", "fallback"]
    assert second["status"] == 200


def test_a_repeated_body_is_not_repeated() -> None:
    with watched_gateway(retries=1) as gateway:
        found = view(gateway, ask_messages(gateway, "openai-chat/broken"))
    first, second = found["attempts"]
    assert first["same_body"] is None
    assert first["attempt"]["body"]
    assert (second["same_body"], second["attempt"].get("body", "")) == (0, "")


def test_a_body_that_is_not_json_says_so(gateway: Inspected) -> None:
    response = post(f"{gateway.url}/v1/messages", content=b"{")
    ended(gateway, str(response.headers["x-request-id"]))
    found = view(gateway, str(response.headers["x-request-id"]))
    assert (found["canonical"], found["canonical_error"]) == (None, "the body is not a JSON object")
    assert (found["client"]["body"], found["attempts"], found["losses"]) == ("{", [], [])


def test_the_previous_request_of_the_conversation_is_compared(gateway: Inspected) -> None:
    messages = [{"role": "user", "content": "How high is the canal?"}]
    first = ask_messages(gateway, "openai-chat/text", messages=messages)
    more = [*messages, {"role": "assistant", "content": "2.71 m"}, {"role": "user", "content": "And now?"}]
    second = ask_messages(gateway, "openai-chat/text", messages=more, temperature=0.5)
    assert view(gateway, first)["previous"] is None
    found = view(gateway, second)["previous"]
    assert found == {"id": first, "messages": 1, "dropped": 0, "changed": ["settings"], "parts_at": None}


def test_where_a_changed_message_differs_is_told(gateway: Inspected) -> None:
    later = [{"role": "assistant", "content": "2.71 m, as at noon and in the morning of that day"}]
    question = [{"role": "user", "content": "How high is the lock?"}]
    first = ask_messages(
        gateway, "openai-chat/text", system="It is 12:01. Be brief.", messages=[*question, *later, *question]
    )
    second = ask_messages(
        gateway, "openai-chat/text", system="It is 12:02. Be brief.", messages=[*question, *later, *question]
    )
    found = view(gateway, second)["previous"]
    assert (found["id"], found["messages"]) == (first, 0)
    assert found["parts_at"] == {
        "message": 0, "character": 10, "before": "It is 12:01. Be brief.", "now": "It is 12:02. Be brief.",
    }  # fmt: skip


def test_the_window_of_a_known_model(gateway: Inspected) -> None:
    assert view(gateway, ask_messages(gateway, "anthropic/claude-sonnet-4-5"))["window"] == 200_000
    assert view(gateway, ask_messages(gateway, "openai-chat/text"))["window"] is None


def keep_in(folder: Path) -> dict[str, Any]:
    """Options of a gateway that keeps its turns in a folder."""
    journal = {"path": str(folder / "journal.sqlite")}
    return {"inspector": {"keep": True}, "data": folder, "journal": journal}


def test_a_request_that_is_read_back_from_disk_is_the_same(tmp_path: Path) -> None:
    more = keep_in(tmp_path)
    with watched_gateway(**more) as gateway:
        name = ask_messages(gateway, "either", **THINKING)
        before = view(gateway, name)
    with failing_gateway(**more) as again:
        after = view(again, name)
    assert [one["attempt"]["provider"] for one in after["attempts"]] == ["openai-chat", "anthropic"]
    assert after == before


def test_a_request_is_shown_when_its_provider_is_gone(tmp_path: Path) -> None:
    more = keep_in(tmp_path)
    with watched_gateway(**more) as gateway:
        name = ask_messages(gateway, "openai-chat/text", **THINKING)
    made = config("http://127.0.0.1:9", **more)
    others = {name: account for name, account in made.engine.providers.items() if name != "openai-chat"}
    without = replace(made, engine=replace(made.engine, providers=others, aliases={}))
    with run_inspector(OwnInspector(App(without, env={}))) as again:
        found = view(again, name)
        sessions = get(f"{again.url}/inspector/sessions").json()["sessions"]
    assert (found["attempts"][0]["attempt"]["provider"], found["window"], len(sessions)) == ("openai-chat", None, 1)


def test_no_secret_leaves(gateway: Inspected) -> None:
    headers = {"x-api-key": PLANTED, "cookie": f"session={PLANTED}", "x-note": f"see {PLANTED}"}
    messages = [{"role": "user", "content": f"My key is {PLANTED}, and yours {UPSTREAM_KEY}"}]
    for model in ("openai-chat/locked", "nobody", "gemini/text"):
        name = ask_messages(gateway, model, headers=headers, messages=messages, metadata={"user_id": PLANTED})
        response = get(f"{gateway.url}/inspector/turns/{name}/request")
        assert "My key is [secret]" in response.text
        assert response.json()["client"]["headers"]["cookie"] == "[secret]"
        for secret in (PLANTED, UPSTREAM_KEY):
            assert secret not in response.text


def test_another_keys_request_is_not_shown() -> None:
    secrets = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "anna", "bert")}
    keys = {
        name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own"} for name, key in secrets.items()
    }
    headers = {name: bearer(key) for name, key in secrets.items()}
    with failing_gateway(keys=keys) as gateway, watching(gateway.url, headers["owner"]) as reader:
        reader.until(lambda: reader.named("turns"))
        name = ask_messages(gateway, "openai-chat/broken", headers["anna"])
        path = f"{gateway.url}/inspector/turns/{name}/request"
        status = {who: get(path, headers=headers[who]).status_code for who in secrets}
    assert status == {"owner": 200, "anna": 200, "bert": 404}


def test_a_turn_that_does_not_exist_says_so() -> None:
    with failing_gateway() as gateway:
        found = get(f"{gateway.url}/inspector/turns/{'0' * 32}/request")
        assert found.status_code == 404
        assert found.json()["error"]["message"].startswith("there is no turn '0000")


def test_a_turn_that_was_deleted_says_so_in_each_view_of_its_request() -> None:
    with failing_gateway() as gateway:
        name = ask_messages(gateway, "openai-chat/text")
        place = f"{gateway.url}/inspector/turns/{name}"
        assert httpx.delete(place, timeout=20, trust_env=False).status_code == 200
        gateway.inspector.services.journal.flush()
        found, trace, copied = view(gateway, name), get(place).json(), get(f"{place}/copy?as=curl")
        counted = get(f"{place}/breakdown").json()
    why = "it was deleted on the inspector's page: there is only its row in the journal"
    assert (found["kept"], found["canonical_error"], trace["request_lost"], counted["lost"]) == (False, why, why, why)
    assert (copied.status_code, copied.json()["error"]) == (404, {"message": why, "code": "request_not_kept"})


def test_a_request_without_a_body_says_so(gateway: Inspected) -> None:
    name = str(post(f"{gateway.url}/v1/messages", content=b"").headers["x-request-id"])
    ended(gateway, name)
    trace = get(f"{gateway.url}/inspector/turns/{name}").json()
    assert trace["request_lost"] == "no body of the request was read, or it was empty"


PLACES: list[tuple[Diagnostic, Any, list[str]]] = [
    (Diagnostic("loss-cache", ""), {"messages": [{"content": [{"cache_control": {}}]}]}, ["/messages/0/content/0/cache_control"]),
    (Diagnostic("loss-setting", "", name="seed"), {"seed": 1, "tools": [{"input_schema": {"seed": {}}}]}, ["/seed"]),
    (Diagnostic("loss-reasoning", ""), {"messages": [{"content": [{"type": "thinking"}]}]}, ["/messages/0/content/0"]),
    (Diagnostic("loss-setting", "", name="top_k"), {"generationConfig": {"topK": 3}}, ["/generationConfig/topK"]),
    (Diagnostic("loss-options", "", name="a/b~c"), {"a/b~c": 1}, ["/a~1b~0c"]),
    (Diagnostic("merged", ""), {"messages": []}, []),
    (Diagnostic("loss-reasoning", ""), {"input": [{"type": "reasoning"}, {"type": "message"}]}, ["/input/0"]),
    (Diagnostic("loss-encrypted-content", ""), {"input": [{"role": "user"}, {"type": "reasoning"}]}, ["/input/1"]),
    (Diagnostic("loss-file", ""), {"input": [{"content": [{"type": "input_file"}]}]}, ["/input/0/content/0"]),
    (Diagnostic("orphan-result", ""), {"input": [{"type": "function_call_output"}]}, ["/input/0"]),
    (Diagnostic("loss-detail", ""), {"messages": [{"content": [{"type": "tool_use", "input": {"detail": 1}}]}]}, []),
    (Diagnostic("loss-seed", ""), {"metadata": {"seed": "1"}, "seed": 3}, ["/seed"]),
    (Diagnostic("loss-setting", "", name="user"), {"metadata": {"user_id": "u"}}, ["/metadata/user_id"]),
    (Diagnostic("loss-metadata", ""), {"metadata": {"a": "1"}}, ["/metadata"]),
    (Diagnostic("loss-setting", "", name="thoughts"), {"input": [{"type": "reasoning", "summary": []}] * 6, "reasoning": {"summary": "auto"}}, ["/reasoning/summary"]),
    (Diagnostic("loss-cache", ""), {"input": [{"content": [{"cache_control": {}}]}]}, ["/input/0/content/0/cache_control"]),
    (Diagnostic("loss-setting", "", name="seed"), None, []),
    (Diagnostic("loss-cache", ""), [{"cache_control": 1}] * 50, [f"/{number}/cache_control" for number in range(MAX_PLACES)]),
]  # fmt: skip


@pytest.mark.parametrize(("row", "body", "places"), PLACES)
def test_places_of_a_loss(row: Diagnostic, body: Any, places: list[str]) -> None:
    assert find_places(row, body) == places
