"""Responses that are made in the background: asked for again, followed, left and met again, called off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._store.key_value import StoredTurn
from penstock.testing import Reply
from tests.support.gateway import answer, gateway
from tests.support.openresponses import FAST, ask, asking, events, named, resource, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with gateway(named, serve=FAST) as (running, _), asking(running.url) as client:
        yield client


@pytest.mark.parametrize("provider", ["anthropic", "responses"])
def test_a_response_is_made_while_nobody_waits(http: httpx.Client, provider: str) -> None:
    first = ask(http, "Hi.", f"{provider}/text", background=True)
    assert (resource(first)["status"], first["background"]) == ("queued", True)
    done = until(lambda: _when_over(http, first["id"]))
    assert resource(done)["status"] == "completed"
    assert done["id"] == first["id"]
    assert done["output"][0]["content"][0]["text"].startswith("A penstock")
    then = ask(http, "And?", f"{provider}/text", previous_response_id=first["id"])
    assert then["status"] == "completed"
    assert http.post(f"/responses/{first['id']}/cancel").json() == done


def _when_over(http: httpx.Client, id: str) -> Any:
    response = http.get(f"/responses/{id}").json()
    return response if response["status"] not in {"queued", "in_progress"} else None


def test_a_stream_in_the_background_can_be_left_and_met_again() -> None:
    def slow(seen: Any) -> Reply:
        return answer(seen).slow(0.02)

    body = {"model": "anthropic/text", "input": "Hi.", "background": True, "stream": True}
    with gateway(slow) as (running, _), asking(running.url) as http:
        with http.stream("POST", "/responses", json=body) as reply:
            text = next(reply.iter_text())
        id = text.split('"id":"', 1)[1].split('"', 1)[0]  # noqa: A001
        assert http.get(f"/responses/{id}").json()["status"] == "in_progress"
        rest = events(http.get(f"/responses/{id}?stream=true&starting_after=1").text)
        assert [event["sequence_number"] for event in rest] == list(range(2, 2 + len(rest)))
        assert rest[-1]["response"] == http.get(f"/responses/{id}").json()


def test_a_response_in_the_background_is_called_off() -> None:
    def stalled(seen: Any) -> Reply:
        return answer(seen).stall(after=900)

    with gateway(stalled) as (running, up), asking(running.url) as http:
        first = ask(http, "Hi.", background=True)
        until(lambda: up.requests)
        response = resource(http.post(f"/responses/{first['id']}/cancel").json())
        assert response["status"] == "cancelled"
        until(up.requests[0].disconnected.is_set)
        assert http.get(f"/responses/{first['id']}").json()["status"] == "cancelled"
        assert until(running.rows)[0].status == "cancelled"
        second = ask(http, "Hi.", background=True)
        assert len(running.app.services.background) == 1
        reply = http.post("/responses", json={
            "model": "openai-chat/text", "input": "?", "previous_response_id": second["id"],
        })  # fmt: skip
        assert reply.json()["error"]["code"] == "previous_response_not_found"  # it is not over
        assert http.delete(f"/responses/{second['id']}").status_code == 200
        assert len(running.app.services.background) == 0


def test_one_that_fails_says_so_when_it_is_asked_for() -> None:
    with gateway(Reply.error("openai-chat", 400, "no such thing")) as (running, _), asking(running.url) as http:
        first = ask(http, "Hi.", background=True)
        response = resource(until(lambda: _when_over(http, first["id"])))
        assert response["status"] == "failed"
        assert "no such thing" in response["error"]["message"]


def test_what_a_response_in_the_background_needs(http: httpx.Client) -> None:
    body = {"model": "openai-chat/text", "input": "Hi.", "background": True}
    assert http.post("/responses", json={**body, "store": False}).json()["error"]["param"] == "background"
    assert http.post("/responses", json={**body, "model": "nobody"}).status_code == 404
    assert http.post("/responses", json={**body, "input": 7}).status_code == 400
    waited = ask(http)
    refused = http.post(f"/responses/{waited['id']}/cancel")
    assert (refused.status_code, "background" in refused.json()["error"]["message"]) == (400, True)


def test_one_that_a_stop_broke_off_is_failed(tmp_path: Path) -> None:
    """Nothing is left hanging: the next gateway knows that it will never be done."""

    def stalled(seen: Any) -> Reply:
        return answer(seen).stall(after=900)

    state = {"path": str(tmp_path / "state.sqlite")}
    with gateway(stalled, state=state) as (running, up), asking(running.url) as http:
        first = ask(http, "Hi.", background=True)
        until(lambda: up.requests)
    with gateway(state=state) as (running, _), asking(running.url) as http:
        stopped = http.get(f"/responses/{first['id']}").json()
        assert (stopped["status"], "shutting down" in stopped["error"]["message"]) == ("failed", True)
        running.app.services.response_store.put("anonymous", StoredTurn([], {**first, "id": "resp_lost"}))
        lost = resource(http.get("/responses/resp_lost").json())
        assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")
