"""No statement of SQLite runs on the event loop: what a request needs of a file is read in a thread, and awaited."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from penstock.testing import Reply
from tests.support.gateway import answer, gateway
from tests.support.inspector import inspected
from tests.support.openresponses import ask, asking, named, socket, until
from tests.support.statement_threads import StatementThreads
from tests.support.thinking_turn import CALLING, THOUGHT, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from tests.support.gateway import Running


def tables(folder: Path) -> dict[str, Any]:
    return {name: {"path": str(folder / f"{name}.sqlite")} for name in ("journal", "state")}


@contextmanager
def probed(tmp_path: Path, *replies: Any) -> Iterator[tuple[Running, Any, StatementThreads]]:
    """A gateway that keeps everything in files. At the end no statement has run in the thread of its loop."""
    with gateway(*replies, **tables(tmp_path)) as (running, up):
        probe = StatementThreads(running)
        yield running, up, probe
        assert probe.on_loop == 0, probe.seen
    assert probe.on_loop == 0, "while it closed"


def test_messages_with_history(tmp_path: Path) -> None:
    with probed(tmp_path) as (running, _, probe):
        said = [USER, {"role": "assistant", "content": "3.2 m"}, USER]
        for model in ("openai-chat/text", "anthropic/text"):
            body = {"model": model, "max_tokens": 99, "messages": said}
            assert httpx.post(f"{running.url}/v1/messages", json=body, timeout=30).status_code == 200
            assert probe.reads() == 1


def test_a_request_that_nobody_has_answered_yet_costs_no_thread(tmp_path: Path) -> None:
    with probed(tmp_path) as (running, _, probe):
        body = {"model": "anthropic/text", "messages": [USER]}
        assert httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=30).status_code == 200
        asked = {"model": "anthropic/text", "input": "Hi.", "store": False}
        assert httpx.post(f"{running.url}/v1/responses", json=asked, timeout=30).status_code == 200
        assert probe.reads() == 0
        assert not probe.has_readers()


def test_state_is_read_from_the_file_and_given_back(tmp_path: Path) -> None:
    calling = Reply.of("anthropic", CALLING, stream=False)
    with probed(tmp_path, calling, answer) as (running, up, probe):
        body: dict[str, Any] = {"model": "anthropic/text", "messages": [USER], "tools": [
            {"type": "function", "function": {"name": "read_gauge", "parameters": {"type": "object"}}}
        ]}  # fmt: skip
        first = httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=30).json()
        [call] = first["choices"][0]["message"]["tool_calls"]
        probe.flush()
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "3.2"},
        ]
        assert httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=30).status_code == 200
        assert probe.reads() == 1
        assert THOUGHT in up.requests[-1].json["messages"][1]["content"]


def test_stored_responses(tmp_path: Path) -> None:
    with probed(tmp_path, named) as (running, _, probe), asking(running.url) as http:
        first = ask(http, "Hi.", "anthropic/text")
        probe.flush()
        steps: dict[str, Callable[[], Any]] = {
            "previous": lambda: ask(http, "And?", "anthropic/text", previous_response_id=first["id"])["status"],
            "items": lambda: ask(
                http, [{"type": "item_reference", "id": first["output"][0]["id"]}, USER], "anthropic/text"
            )["status"],
            "get": lambda: http.get(f"/responses/{first['id']}").json()["status"],
            "stream": lambda: http.get(f"/responses/{first['id']}?stream=true").status_code,
            "input": lambda: http.get(f"/responses/{first['id']}/input_items").json()["object"],
            "cancel": lambda: http.post(f"/responses/{first['id']}/cancel").status_code,
            "count": lambda: (
                http.post(
                    "/responses/input_tokens",
                    json={"model": "anthropic/text", "input": "And?", "previous_response_id": first["id"]},
                ).status_code
            ),
            "compact": lambda: (
                http.post(
                    "/responses/compact",
                    json={"model": "anthropic/text", "input": "And?", "previous_response_id": first["id"]},
                ).status_code
            ),
            "delete": lambda: http.delete(f"/responses/{first['id']}").json()["deleted"],
            "gone": lambda: http.get(f"/responses/{first['id']}").status_code,
        }
        found = {name: (step(), probe.reads() > 0) for name, step in steps.items()}
        assert found == {
            "previous": ("completed", True), "items": ("completed", True), "get": ("completed", True),
            "stream": (200, True), "input": ("list", True), "cancel": (400, True), "count": (200, True),
            "compact": (200, True), "delete": (True, True), "gone": (404, found["gone"][1]),
        }  # fmt: skip


def test_responses_in_the_background_and_over_a_websocket(tmp_path: Path) -> None:
    with probed(tmp_path, named) as (running, _, probe), asking(running.url) as http:
        begun = ask(http, "Hi.", "anthropic/text", background=True)

        def over() -> Any:
            response = http.get(f"/responses/{begun['id']}").json()
            return response["status"] == "completed"

        assert until(over)
        probe.flush()
        probe.reads()
        with socket(running.url) as ws:
            then = ws.get_response(model="anthropic/text", input="And?", previous_response_id=begun["id"])
            assert then["status"] == "completed"
        assert probe.reads() > 0


def test_usage_and_the_inspector(tmp_path: Path) -> None:
    with inspected(**tables(tmp_path)) as running:
        probe = StatementThreads(running)
        body = {"model": "anthropic/text", "messages": [USER]}
        assert httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=30).status_code == 200
        probe.flush()
        assert httpx.get(f"{running.url}/vscode/usage", timeout=30).json()["today"]["requests"] == 1
        for path in ("/metrics", "/inspector/turns", "/inspector/usage", "/inspector/tokens"):
            assert httpx.get(f"{running.url}{path}", timeout=30).status_code == 200
        [row] = httpx.get(f"{running.url}/inspector/turns", timeout=30).json()["rows"]
        assert httpx.get(f"{running.url}/inspector/turns/{row['id']}", timeout=30).status_code == 200
        assert sum(probe.seen.values()) >= 5
        assert probe.on_loop == 0, probe.seen


def test_a_state_that_cannot_be_read_stops_no_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with probed(tmp_path) as (running, _, probe), asking(running.url) as http:
        probe.drop_table("reasoning")
        said = [USER, {"role": "assistant", "content": "3.2 m"}, USER]
        body = {"model": "openai-chat/text", "max_tokens": 99, "messages": said}
        assert httpx.post(f"{running.url}/v1/messages", json=body, timeout=30).status_code == 200
        assert "the state of earlier turns cannot be read" in caplog.text
        probe.drop_table("responses")
        reply = http.post(
            "/responses", json={"model": "anthropic/text", "input": "x", "previous_response_id": "resp_1"}
        )
        assert reply.status_code == 503
        assert "stored responses cannot be read" in reply.json()["error"]["message"]
