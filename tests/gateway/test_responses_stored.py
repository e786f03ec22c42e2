"""Responses that are stored: gone on from, shown, listed, deleted; each tenant's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import ask, asking, events, lawful, named, resource

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running

BEHIND = ("openai-chat", "anthropic", "responses", "gemini")


# ── going on ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("provider", BEHIND)
def test_a_chain_is_sent_whole(http: httpx.Client, made: tuple[Running, Upstream], provider: str) -> None:
    """Whoever is asked gets all that was said, and the response says what it goes on from."""
    model = f"{provider}/text"
    first = ask(http, "My name is Alice.", model)
    then = ask(http, "And?", model, previous_response_id=first["id"])
    stream = events(http.post("/responses", json={
        "model": model, "input": "So?", "previous_response_id": then["id"], "stream": True, "instructions": "Be short.",
    }).text)  # fmt: skip
    assert (then["previous_response_id"], then["store"]) == (first["id"], True)
    assert lawful(stream)["previous_response_id"] == then["id"]
    sent = str(made[1].requests[-1].json)
    places = [sent.index(word) for word in ("My name is Alice.", "A penstock is the pipe", "And?", "So?")]
    assert places == sorted(places)
    assert sent.count("A penstock is the pipe") == 2
    assert "previous_response_id" not in sent


def test_instructions_are_not_carried_on(http: httpx.Client, made: tuple[Running, Upstream]) -> None:
    first = ask(http, "Hi.", instructions="Be long.")
    ask(http, "And?", previous_response_id=first["id"])
    assert "Be long." not in str(made[1].requests[-1].json)


def test_what_is_not_stored_cannot_be_gone_on_from(http: httpx.Client) -> None:
    first = ask(http, store=False)
    assert first["store"] is False
    for id in (first["id"], "resp_that_never_was"):  # noqa: A001
        reply = http.post("/responses", json={"model": "openai-chat/text", "input": "?", "previous_response_id": id})
        assert reply.status_code == 400
        assert reply.json()["error"]["code"] == "previous_response_not_found"
        assert http.get(f"/responses/{id}").status_code == 404


def test_a_provider_is_asked_for_what_it_stored_before_there_was_a_gateway() -> None:
    """Where it speaks the protocol, and nobody else's responses are there to be found."""
    body = {"model": "responses/text", "input": "?", "previous_response_id": "resp_theirs"}
    with gateway(named) as (running, up), asking(running.url) as http:
        first = http.post("/responses", json=body).json()
        assert up.requests[-1].json["previous_response_id"] == "resp_theirs"
        assert http.get(f"/responses/{first['id']}").json() == first
        ask(http, "And?", "responses/text", previous_response_id=first["id"])
        assert up.requests[-1].json["previous_response_id"] == first["id"]  # of which only a part is known here
        assert http.post("/responses", json={**body, "model": "anthropic/text"}).status_code == 400
    with gateway(keys={"ann": {"hash": hash_key("secret-of-ann")}}) as (running, up), asking(running.url) as http:
        refused = http.post("/responses", json=body, headers={"authorization": "Bearer secret-of-ann"})
        assert refused.json()["error"]["code"] == "previous_response_not_found"
        assert not up.requests


def test_a_result_of_no_call_is_refused(http: httpx.Client) -> None:
    first = ask(http)
    lost = [{"type": "function_call_output", "call_id": "call_x", "output": "1"}]
    body = {"model": "openai-chat/text", "input": lost, "previous_response_id": first["id"]}
    reply = http.post("/responses", json=body)
    assert (reply.status_code, "call_x" in reply.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_items_that_are_only_named_are_found(http: httpx.Client, made: tuple[Running, Upstream], provider: str) -> None:
    """As the AI SDK sends its history where responses are stored."""
    model = f"{provider}/tools"
    tool = {"type": "function", "name": "read_gauge", "parameters": {"type": "object", "properties": {}}}
    first = ask(http, "How high?", model, tools=[tool])
    names = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    call = first["output"][-1]["call_id"]
    result = {"type": "function_call_output", "call_id": call, "output": "3.2"}
    given = [{"role": "user", "content": "How high?"}, *names, result]
    ask(http, given, model, tools=[tool])
    sent = made[1].requests[-1].json
    assert "upper gate" in str(sent)
    assert call in str(sent)
    again = ask(http, [*names, result], model, tools=[tool], previous_response_id=first["id"])
    assert made[1].requests[-1].json["messages"] == sent["messages"]
    assert again["status"] == "completed"


def test_a_name_of_nothing_is_let_through(http: httpx.Client) -> None:
    given = [{"role": "user", "content": "Hi."}, {"type": "item_reference", "id": "msg_of_somebody"}]
    assert ask(http, given)["status"] == "completed"


# ── what there is ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("provider", BEHIND)
def test_a_response_is_shown_again(http: httpx.Client, provider: str) -> None:
    """By the official SDK too; whole, and as the stream that it was."""
    first = ask(http, "Hi.", f"{provider}/reasoning", metadata={"a": "b"})
    assert http.get(f"/responses/{first['id']}").json() == first
    stream = lawful(events(http.get(f"/responses/{first['id']}?stream=true").text))
    assert stream["output"] == first["output"]
    assert stream["id"] == first["id"]
    with openai.OpenAI(base_url=str(http.base_url), api_key="any") as client:
        assert client.responses.retrieve(first["id"]).output_text == first["output"][-1]["content"][0]["text"]
        with client.responses.retrieve(first["id"], stream=True, starting_after=3) as rest:
            assert next(iter(rest)).sequence_number == 4


def test_a_streamed_response_is_stored_before_its_end_is_seen(http: httpx.Client) -> None:
    body = {"model": "anthropic/tools", "input": "Hi.", "stream": True}
    with http.stream("POST", "/responses", json=body) as reply:
        text = ""
        for piece in reply.iter_text():
            text += piece
            if "response.completed" in text:
                break
    id = text.split('"id":"', 1)[1].split('"', 1)[0]  # noqa: A001
    assert resource(http.get(f"/responses/{id}").json())["status"] == "completed"


def test_input_items_are_listed(http: httpx.Client) -> None:
    """All that a response is an answer to, page by page, the latest first."""
    first = ask(http, [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}])
    then = ask(http, "Three.", previous_response_id=first["id"])
    with openai.OpenAI(base_url=str(http.base_url), api_key="any") as client:
        page = client.responses.input_items.list(then["id"], limit=3)
        found: list[Any] = list(page)
    said = [item.content[0].text for item in found]
    assert [said[0], said[2], said[3]] == ["Three.", "Two.", "One."]
    assert said[1].startswith("A penstock")
    assert page.has_more
    order = http.get(f"/responses/{then['id']}/input_items?order=asc").json()
    assert [item["id"] for item in order["data"]] == [item.id for item in reversed(found)]
    assert (order["first_id"], order["has_more"]) == (found[-1].id, False)
    wrong = http.get(f"/responses/{then['id']}/input_items?after=nothing")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "after")
    assert http.get(f"/responses/{then['id']}/input_items?limit=many").status_code == 400
    assert http.get("/responses/resp_x/input_items").status_code == 404


def test_a_response_that_is_deleted_is_gone(http: httpx.Client) -> None:
    first = ask(http)
    then = ask(http, "And?", previous_response_id=first["id"])
    assert http.delete(f"/responses/{first['id']}").json() == {
        "id": first["id"], "object": "response", "deleted": True
    }  # fmt: skip
    assert http.get(f"/responses/{first['id']}").status_code == 404
    assert http.delete(f"/responses/{first['id']}").status_code == 404
    assert http.get(f"/responses/{then['id']}").status_code == 200
    reply = http.post(
        "/responses", json={"model": "openai-chat/text", "input": "?", "previous_response_id": then["id"]}
    )
    assert reply.json()["error"]["code"] == "previous_response_not_found"


def test_what_is_somebody_elses_is_not_there(tmp_path: Path) -> None:
    """Across a restart too."""
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "ben")}
    ann, ben = ({"authorization": f"Bearer secret-of-{name}"} for name in keys)
    state = {"path": str(tmp_path / "state.sqlite")}
    with gateway(keys=keys, state=state) as (running, _), asking(running.url) as http:
        http.headers.update(ann)
        first = ask(http, "My name is Ann.")
    with gateway(keys=keys, state=state) as (running, up), asking(running.url) as http:
        assert http.get(f"/responses/{first['id']}").status_code == 401
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            assert http.request(method, f"/responses/{first['id']}{path}", headers=ben).status_code == 404
        names = [{"role": "user", "content": "Hi."}, {"type": "item_reference", "id": first["output"][0]["id"]}]
        http.headers.update(ben)
        ask(http, names)
        assert "A penstock" not in str(up.requests[-1].json)
        http.headers.update(ann)
        ask(http, "And?", previous_response_id=first["id"])
        assert "My name is Ann." in str(up.requests[-1].json)


@pytest.mark.parametrize(("method", "path"), [("PUT", ""), ("GET", "/nothing"), ("POST", "/input_items")])
def test_other_addresses_are_not_served(http: httpx.Client, method: str, path: str) -> None:
    assert http.request(method, f"/responses/resp_x{path}").status_code in {404, 405}
