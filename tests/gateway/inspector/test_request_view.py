"""`GET turns/ID/request`: both halves of a request, tries, losses and their places, the request before, who failed."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.gateway import App
from tests.support.event_feed import bearer
from tests.support.gateway import hash_key, read_config
from tests.support.inspector import OwnInspector, run_inspector
from tests.support.inspector_calls import ask_inspector, delete, found, send, trace_of, until, view
from tests.support.kept_on_disk import on_disk
from tests.support.request_turns import COLD, PLANTED, THINKING, UPSTREAM_KEY, ask_messages, failing_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with failing_gateway() as running:
        yield running


def request_of(gateway: Inspected, name: str, **more: Any) -> dict[str, Any]:
    return dict(view(gateway, f"turns/{name}/request", **more))


def attempts_of(gateway: Inspected, model: str, **fields: Any) -> list[dict[str, Any]]:
    shown = request_of(gateway, ask_messages(gateway, model, **fields))
    return [one["attempt"] for one in shown["attempts"]]


def what(attempt: dict[str, Any], part: str) -> list[str]:
    return [one["what"] for one in attempt.get(part, [])]


# ── tries ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_response_is_shown_with_its_body(gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/broken")
    (attempt,) = (one["attempt"] for one in request_of(gateway, name)["attempts"])
    names = [attempt[part] for part in ("provider", "model", "engine", "protocol")]
    assert names == ["openai-chat", "broken", "native", "openai-chat"]
    assert (attempt["method"], attempt["url"]) == ("POST", f"{gateway.up.url}/openai-chat/chat/completions")
    assert json.loads(attempt["body"])["messages"] == [{"role": "user", "content": "How high?"}]
    assert (attempt["status"], attempt["error"]) == (500, "server")
    assert json.loads(attempt["error_body"]) == COLD
    assert attempt["response_headers"]["x-boiler"] == "7"
    assert (what(attempt, "reasons"), what(attempt, "decisions")) == (["route"], ["give-up", "give-up"])
    row = trace_of(gateway, name)["row"]
    assert (row["state"], row["provider"], row["model"]) == ("refused", "openai-chat", "broken")
    assert [line.partition(":")[0] for line in row["decisions"]] == ["route", "give-up", "give-up"]


def test_the_body_is_what_the_upstream_received(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "openai-chat/text", system="Be brief.")
    received = gateway.up.requests[-1]
    assert attempt["body"].encode() == received.body
    assert {name for name in attempt["headers"] if name != "content-length"} <= {
        name.lower() for name in received.headers
    }
    assert (attempt["status"], attempt.get("error_body", ""), attempt.get("error", "")) == (200, "", "")
    assert what(attempt, "decisions") == ["open"]


def test_timing_of_a_new_and_of_a_reused_connection() -> None:
    with failing_gateway() as gateway:
        (first,), (second,) = (attempts_of(gateway, "openai-chat/text") for _ in range(2))
    new, reused = first["timing"], second["timing"]
    assert {"dns", "connect"} <= new.keys()
    assert not {"tls", "reused"} & new.keys()  # it is HTTP
    assert reused["reused"] is True
    assert not {"dns", "connect"} & reused.keys()
    assert (new["first_byte"] > 0, reused["first_byte"] > 0) == (True, True)


def test_a_timeout_has_no_status_and_an_end(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "openai-chat/stuck")
    assert [attempt.get(part, "") for part in ("status", "error", "error_body")] == ["", "timeout", ""]
    assert "timeouts.first_byte" in attempt["message"]
    assert ("end" in attempt["timing"], "first_byte" in attempt["timing"]) == (True, False)


def test_a_server_that_cannot_be_reached() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen
        with failing_gateway(at=f"http://127.0.0.1:{unused.getsockname()[1]}") as gateway:
            (attempt,) = attempts_of(gateway, "openai-chat/text")
    assert (attempt.get("status", 0), attempt["error"], attempt["sent"]) == (0, "network", True)
    assert "connect" not in attempt["timing"]


def test_a_fallback_has_each_attempt_with_its_decisions(gateway: Inspected) -> None:
    first, second = attempts_of(gateway, "either")
    tries = [(one["provider"], one["status"]) for one in (first, second)]
    assert tries == [("openai-chat", 500), ("anthropic", 200)]
    assert what(first, "decisions") == ["give-up", "fallback"]
    assert "text at anthropic is next" in first["decisions"][-1]["why"]
    assert (what(second, "reasons"), what(second, "decisions")) == (["route"], ["open"])
    assert second["timing"]["start"] >= first["timing"]["end"]
    assert "messages" in json.loads(second["body"])
    assert json.loads(first["error_body"]) == COLD


def test_a_retry_is_an_attempt_whose_body_is_not_repeated() -> None:
    with failing_gateway(retries=1) as gateway:
        shown = request_of(gateway, ask_messages(gateway, "openai-chat/broken"))
    first, second = shown["attempts"]
    assert first["same_body"] is None
    assert first["attempt"]["body"]
    assert (second["same_body"], second["attempt"].get("body", "")) == (0, "")
    assert what(first["attempt"], "decisions") == ["retry"]
    assert what(second["attempt"], "decisions") == ["give-up", "give-up"]


def test_an_error_inside_a_stream_before_content(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "anthropic/faulty", stream=True)
    assert (attempt["status"], attempt["error"]) == (200, "overloaded")
    assert '"too hot"' in attempt["error_body"]


def test_an_engine_without_http_sends_nothing(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "replay/text")
    assert (attempt["engine"], attempt["sent"]) == ("replay", False)
    assert [attempt.get(part) or "" for part in ("url", "headers", "body")] == ["", "", ""]


def test_a_turn_refused_before_any_attempt_has_its_request(gateway: Inspected) -> None:
    for body, title, why in (
        (b"{", "no model", "the body is not a JSON object"),
        (b'{"model": "openai-chat/text", "messages": 5}', "no model", None),
        (b'{"model":"nobody/none","messages":[]}', "nobody/none", None),
    ):
        name = send(gateway, "/v1/messages", body)
        shown = request_of(gateway, name)
        assert (shown["client"]["body"], shown["attempts"], shown["losses"]) == (body.decode(), [], [])
        assert shown["client"]["headers"]["user-agent"]
        assert why is None or (shown["canonical"], shown["canonical_error"]) == (None, why)
        trace = trace_of(gateway, name)
        assert (trace["row"]["state"], trace["fault_by"]) == ("refused", "gateway")
        assert trace["lost"] == "the gateway refused it: no provider was asked"
        assert trace["title"] == f"{title} · anthropic"
    empty = send(gateway, "/v1/messages", b"")
    assert trace_of(gateway, empty)["request_lost"] == "no body of the request was read, or it was empty"
    assert trace_of(gateway, empty)["title"] == "no model · anthropic"


def test_headers_that_are_no_text_are_shown_as_they_can_be(gateway: Inspected) -> None:
    name = send(gateway, "/v1/messages", b"{}", **{"x-odd": "half a \xff"})
    assert request_of(gateway, name)["client"]["headers"]["x-odd"].startswith("half a ")


# ── both halves ───────────────────────────────────────────────────────────────────────────────────


def test_both_halves_of_a_translated_request_and_its_losses(gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING)
    shown = request_of(gateway, name)
    client, canonical = shown["client"], shown["canonical"]
    assert (client["method"], client["path"], client["protocol"]) == ("POST", "/v1/messages", "anthropic")
    assert json.loads(client["body"])["system"] == "Be brief."
    assert canonical["settings"]["top_k"] == 5
    assert [message["role"] for message in canonical["messages"]] == ["system", "user"]
    (attempt,) = shown["attempts"]
    assert json.loads(attempt["attempt"]["body"])["messages"][0] == {"role": "system", "content": "Be brief."}
    assert shown["canonical_error"] == ""
    by_code = {loss["code"]: loss for loss in shown["losses"]}
    top_k, budget = by_code["loss-setting"], by_code["loss-budget"]
    assert (top_k["kind"], top_k["client"], top_k["upstream"]) == ("lost", ["/top_k"], [])
    assert (budget["client"], budget["upstream"]) == (["/thinking/budget_tokens"], ["/reasoning_effort"])
    short = view(gateway, f"turns/{name}/request?bodies=none")
    assert (short["losses"], short["client"], len(short["attempts"])) == (shown["losses"], None, 1)


TEXT = {"type": "text", "text": "Hi"}
CACHED = {**TEXT, "cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "x"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
STRICT = {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"seed": {"type": "string"}}}}
BODIES: dict[str, dict[str, Any]] = {
    "messages": {
        "max_tokens": 99, "messages": [
            {"role": "user", "content": [*[CACHED] * 6, TEXT]}, {"role": "assistant", "content": [THOUGHT, TEXT]},
            {"role": "user", "content": "Hi"}],
        "metadata": {"user_id": "u"}, "top_k": 3, "stop_sequences": ["a"] * 20,
    },
    "chat/completions": {
        "messages": [{"role": "user", "content": [TEXT, PICTURE]}], "seed": 3, "metadata": {"seed": "1"}, "user": "u",
        "frequency_penalty": 1, "parallel_tool_calls": True, "tools": [{"type": "function", "function": STRICT}],
    },
    "responses": {
        "input": [
            {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "abc"},
            {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_file", "file_id": "f1"}]},
            {"type": "function_call_output", "call_id": "zz", "output": "x"}],
        "reasoning": {"summary": "auto"}, "store": False,
    },
}  # fmt: skip
FIVE = " ".join(f"/messages/0/content/{place}/cache_control" for place in range(5))  # so many of a loss are named
LAST_FOUR = " ".join(f"/messages/0/content/{place}/cache_control" for place in range(2, 6))  # Anthropic takes four
# path and model → each loss with its places in the client's body, and in the upstream's
LOSSES: dict[tuple[str, str], set[str]] = {
    ("messages", "openai-chat/text"): {
        f"lost loss-cache: {FIVE}", "lost loss-reasoning-state: /messages/1/content/0", "lost loss-setting: /top_k",
    },
    ("messages", "gemini/text"): {
        f"lost loss-cache: {FIVE}", "lost loss-reasoning-state: /messages/1/content/0",
        "lost loss-setting: /metadata/user_id",
    },
    ("messages", "responses/text"): {
        f"lost loss-cache: {FIVE}", "lost loss-reasoning: /messages/1/content/0", "lost loss-setting: /top_k",
        "carried carried-stop: /stop_sequences",
    },
    ("messages", "anthropic/text"): {f"repaired cache-points: {FIVE} > {LAST_FOUR}"},
    ("chat/completions", "openai-chat/text"): set(),
    ("chat/completions", "gemini/text"): {
        "lost loss-detail: /messages/0/content/1/image_url/detail", "lost loss-strict: /tools/0/function/strict",
        "lost loss-setting: /parallel_tool_calls", "lost loss-setting: /user", "lost loss-setting: /metadata",
    },
    ("chat/completions", "anthropic/text"): {
        "lost loss-detail: /messages/0/content/1/image_url/detail", "lost loss-setting: /seed",
        "lost loss-setting: /frequency_penalty", "lost loss-max-output:  > /max_tokens",
        "lost loss-setting: /metadata > /metadata",
    },
    ("responses", "openai-chat/text"): {
        "repaired orphan-result: /input/2", "lost loss-reasoning-only: /input/0",
        "lost loss-file-id: /input/1/content/1 > /messages/0/content/1", "lost loss-setting: /reasoning/summary",
    },
    ("responses", "gemini/text"): {
        "repaired orphan-result: /input/2", "lost loss-reasoning-only: /input/0", "lost loss-file: /input/1/content/1",
        "lost loss-setting: /store",
    },
}  # fmt: skip


def test_losses_have_their_places_in_both_bodies(gateway: Inspected) -> None:
    told: dict[tuple[str, str], set[str]] = {}
    for path, model in LOSSES:
        body = json.dumps({"model": model, **BODIES[path]}).encode()
        losses = request_of(gateway, send(gateway, f"/v1/{path}", body))["losses"]
        placed = [loss for loss in losses if loss["client"] or loss["upstream"]]
        told[path, model] = {
            f"{loss['kind']} {loss['code']}: {' '.join(loss['client'])} > {' '.join(loss['upstream'])}"
            for loss in placed
        }
    wanted = {case: {one if " > " in one else f"{one} > " for one in losses} for case, losses in LOSSES.items()}
    assert told == wanted


def test_the_previous_request_of_the_conversation_is_compared(gateway: Inspected) -> None:
    messages = [{"role": "user", "content": "How high is the canal?"}]
    first = ask_messages(gateway, "openai-chat/text", messages=messages)
    more = [*messages, {"role": "assistant", "content": "2.71 m"}, {"role": "user", "content": "And now?"}]
    second = ask_messages(gateway, "openai-chat/text", messages=more, temperature=0.5)
    assert request_of(gateway, first)["previous"] is None
    assert request_of(gateway, second)["previous"] == {
        "id": first, "messages": 1, "dropped": 0, "changed": ["settings"], "parts_at": None,
    }  # fmt: skip


def test_where_a_changed_message_differs_is_told(gateway: Inspected) -> None:
    question = [{"role": "user", "content": "How high is the lock?"}]
    said = [*question, {"role": "assistant", "content": "2.71 m, as at noon and in the morning of that day"}, *question]
    first, second = (
        ask_messages(gateway, "openai-chat/text", system=f"It is {clock}. Be brief.", messages=said)
        for clock in ("12:01", "12:02")
    )
    previous = request_of(gateway, second)["previous"]
    assert (previous["id"], previous["messages"]) == (first, 0)
    assert previous["parts_at"] == {
        "message": 0, "character": 10, "before": "It is 12:01. Be brief.", "now": "It is 12:02. Be brief.",
    }  # fmt: skip


def test_the_window_of_a_known_model(gateway: Inspected) -> None:
    assert request_of(gateway, ask_messages(gateway, "anthropic/claude-sonnet-4-5"))["window"] == 200_000
    assert request_of(gateway, ask_messages(gateway, "openai-chat/text"))["window"] is None


# ── who failed, and what is read back from disk ───────────────────────────────────────────────────

ENDINGS = [
    ("openai-chat/broken", "provider", "the provider openai-chat answered 500: there are no frames"),
    ("openai-chat/locked", "provider", "the provider openai-chat answered 401: there are no frames"),
    ("openai-chat/stuck", "provider", "the provider openai-chat did not answer in time: there are no frames"),
    ("anthropic/faulty", "provider", "the provider anthropic answered with an error: there are no frames"),
    ("nobody", "provider", "the provider anthropic answered 401: there are no frames"),
    ("nobody/none", "gateway", "the gateway refused it: no provider was asked"),
]


def test_a_failed_turn_names_the_true_party_also_after_a_restart(tmp_path: Path) -> None:
    wanted = [(party, why) for _, party, why in ENDINGS]
    with failing_gateway(**on_disk(tmp_path)) as gateway:
        names = [ask_messages(gateway, model, stream=model == "anthropic/faulty") for model, _, _ in ENDINGS]
        assert [(trace["fault_by"], trace["lost"]) for trace in (trace_of(gateway, name) for name in names)] == wanted
        answered = trace_of(gateway, ask_messages(gateway, "openai-chat/text"))
        assert not {"fault_by", "lost", "request_lost"} & answered.keys()
        before = [request_of(gateway, name) for name in names]
    with failing_gateway(**on_disk(tmp_path)) as again:
        assert [(trace["fault_by"], trace["lost"]) for trace in (trace_of(again, name) for name in names)] == wanted
        assert [request_of(again, name) for name in names] == before


def test_what_never_arrived_was_not_sent_or_got_no_answer_has_its_party() -> None:
    def ending(gateway: Inspected, name: str) -> tuple[str, str]:
        trace = trace_of(gateway, name)
        return trace["fault_by"], trace["lost"].removesuffix(": there are no frames")

    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen
        with failing_gateway(at=f"http://127.0.0.1:{unused.getsockname()[1]}") as gateway:
            away = "the provider openai-chat could not be reached, or broke off before it answered"
            assert ending(gateway, ask_messages(gateway, "openai-chat/text")) == ("provider", away)
    with failing_gateway(providers={"groq": {"models": ["x"]}}) as gateway:  # it has no key
        unsent = "the gateway could not send it to the provider groq"
        assert ending(gateway, ask_messages(gateway, "groq/x")) == ("unsent", unsent)
        body = {"model": "openai-chat/stuck", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{gateway.url}/v1/messages", json=body, timeout=0.3, trust_env=False)
        (row,) = until(lambda: view(gateway, "turns", q="state:cancelled")["rows"])
        left = "the client left before the provider openai-chat answered"
        assert ending(gateway, row["id"]) == ("gateway", left)


def test_a_request_is_shown_when_its_provider_is_gone(tmp_path: Path) -> None:
    with failing_gateway(**on_disk(tmp_path)) as gateway:
        name = ask_messages(gateway, "openai-chat/text", **THINKING)
    others = read_config(**on_disk(tmp_path), providers={"anthropic": {"base_url": "http://127.0.0.1:9"}})
    with run_inspector(OwnInspector(App(others, env={}))) as again:
        shown = request_of(again, name)
        assert (shown["attempts"][0]["attempt"]["provider"], shown["window"]) == ("openai-chat", None)
        assert len(view(again, "sessions")["sessions"]) == 1


# ── whose, and what is not there ──────────────────────────────────────────────────────────────────


def test_no_secret_leaves(gateway: Inspected) -> None:
    headers = {"x-api-key": PLANTED, "cookie": f"session={PLANTED}", "x-note": f"see {PLANTED}"}
    messages = [{"role": "user", "content": f"My key is {PLANTED}, and yours {UPSTREAM_KEY}"}]
    for model in ("openai-chat/locked", "either", "nobody", "gemini/text"):
        name = ask_messages(gateway, model, headers=headers, messages=messages, metadata={"user_id": PLANTED})
        shown = ask_inspector(gateway, f"turns/{name}/request")
        assert "My key is [secret]" in shown.text
        assert shown.json()["client"]["headers"]["cookie"] == "[secret]"
        assert [secret for secret in (PLANTED, UPSTREAM_KEY) if secret in shown.text] == []


def test_another_keys_request_is_not_shown() -> None:
    secrets = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "anna", "bert")}
    keys = {
        name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own", "inspect_keep": True}
        for name, key in secrets.items()
    }
    with failing_gateway(keys=keys) as gateway:
        name = ask_messages(gateway, "openai-chat/broken", bearer(secrets["anna"]))
        path = f"turns/{name}/request"
        status = {who: ask_inspector(gateway, path, key).status_code for who, key in secrets.items()}
    assert status == {"owner": 200, "anna": 200, "bert": 404}


def test_a_turn_that_is_not_there_or_was_deleted_says_so_in_each_view(gateway: Inspected) -> None:
    missing = ask_inspector(gateway, f"turns/{'0' * 32}/request")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"].startswith("there is no turn '0000")
    name = ask_messages(gateway, "openai-chat/text")
    assert name in found(gateway, "")  # the journal has it
    assert delete(gateway, f"turns/{name}").status_code == 200
    shown, trace = request_of(gateway, name), trace_of(gateway, name)
    why = "it was deleted on the inspector's page: there is only its row in the journal"
    counted, copied = view(gateway, f"turns/{name}/breakdown"), ask_inspector(gateway, f"turns/{name}/copy?as=curl")
    told = (shown["kept"], shown["canonical_error"], trace["request_lost"], counted["lost"])
    assert told == (False, why, why, why)
    assert (copied.status_code, copied.json()["error"]) == (404, {"message": why, "code": "request_not_kept"})
