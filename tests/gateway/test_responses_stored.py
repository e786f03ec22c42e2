"""Responses that are stored: gone on from, shown, listed, deleted; each tenant's own; made in the background."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import openai
import pytest
from msgspec.structs import replace

from penstock import events as ev
from penstock.testing import Reply
from tests.gateway.test_metrics import figure
from tests.support import corpus
from tests.support.client_requests import get
from tests.support.each_case import each
from tests.support.gateway import answer, gateway, hash_key
from tests.support.log_lines import logged
from tests.support.openresponses import ask, asking, events, lawful, named, resource, until
from tests.support.response_faults import responses_that_cannot_be_put

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running

BEHIND = ("openai-chat", "anthropic", "responses", "gemini")


# ── going on ──────────────────────────────────────────────────────────────────────────────────────


@each("provider", BEHIND)
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


@each("provider", ["openai-chat", "anthropic"])
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


@each("provider", BEHIND)
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


@each("method, path", [("PUT", ""), ("GET", "/nothing"), ("POST", "/input_items")])
def test_other_addresses_are_not_served(http: httpx.Client, method: str, path: str) -> None:
    assert http.request(method, f"/responses/resp_x{path}").status_code in {404, 405}


# ── how they are kept ─────────────────────────────────────────────────────────────────────────────

THOUGHT: list[ev.AnyEvent] = [
    ev.Start(id="one"), ev.ReasoningStart(index=0), ev.ReasoningDelta(index=0, text="Look at the gauge."),
    ev.ReasoningEnd(index=0, extra={"anthropic": {"signature": "c2lnbmVk"}}),
    ev.CallStart(index=1, id="toolu_1", name="read_gauge"), ev.CallDelta(index=1, json='{"station":"upper"}'),
    ev.CallEnd(index=1, id="toolu_1", name="read_gauge", json='{"station":"upper"}'), ev.Finish("calls"),
]  # fmt: skip


@each("stream", [False, True])
def test_reasoning_that_must_come_back_does(stream: bool) -> None:
    """A signature has no place in Responses: it waits at the gateway for the request that goes on."""

    def thinking(seen: Any) -> Reply:
        return Reply.of("anthropic", THOUGHT, stream=seen.json.get("stream") is True)

    tool = {"type": "function", "name": "read_gauge", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "anthropic/text", "tools": [tool], "reasoning": {"effort": "high"}, "stream": stream}
    with gateway(thinking) as (running, up), asking(running.url) as http:
        reply = http.post("/responses", json={**body, "input": "How high?"})
        first = lawful(events(reply.text)) if stream else resource(reply.json())
        result = [{"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "3.2 m"}]
        http.post("/responses", json={**body, "input": result, "previous_response_id": first["id"]})
        said = up.requests[-1].json["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert said[1]["content"][0] == {"type": "thinking", "thinking": "Look at the gauge.", "signature": "c2lnbmVk"}
    assert said[2]["content"][0]["tool_use_id"] == "toolu_1"


@each("size", [50, 333, 100_000])
def test_a_response_is_kept_however_its_stream_is_cut(size: int) -> None:
    """Once, and also where its end is larger than what is sent at a time."""
    text = "response.completed" + "x" * 1000
    made = answer_in_pieces(text, size)
    with gateway(made) as (running, _), asking(running.url) as http:
        said = events(http.post("/responses", json={"model": "responses/m", "input": "Hi.", "stream": True}).text)
        last = said[-1]["response"]
        assert last["output"][0]["content"][0]["text"] == text
        assert http.get(f"/responses/{last['id']}").json()["output"] == last["output"]


def answer_in_pieces(text: str, size: int) -> Reply:
    said: list[ev.AnyEvent] = [
        ev.Start("resp_1", "m", 7), ev.TextStart(0), ev.TextDelta(0, text), ev.TextEnd(0), ev.Usage(1, 1), ev.Finish("stop"),
    ]  # fmt: skip
    made = Reply.of("responses", said)
    pieces = [made.data[at : at + size] for at in range(0, len(made.data), size)]
    return replace(made, chunks=tuple(pieces))


@each("stream", [True, False])
def test_an_answer_that_cannot_be_kept_is_given_all_the_same(stream: bool) -> None:
    with gateway(named) as (running, _), asking(running.url) as http:
        with logged(running) as lines, responses_that_cannot_be_put(running):
            reply = http.post("/responses", json={"model": "openai-chat/text", "input": "Hi.", "stream": stream})
        assert reply.status_code == 200
        assert "A penstock" in reply.text
        assert "was not kept" in lines.getvalue()


def test_stored_responses_are_bounded_in_size(tmp_path: Path) -> None:
    """The oldest go first, and what goes on from them cannot go on."""
    state = {"path": str(tmp_path / "state.sqlite"), "size": 400_000}
    with gateway(named, state=state) as (running, _), asking(running.url) as http:
        ids: list[str] = []
        for number in range(12):
            previous = {"previous_response_id": ids[-1]} if number in (1, 11) else {}
            ids.append(ask(http, f"{number} " + "x" * 20_000, **previous)["id"])
        until(lambda: http.get(f"/responses/{ids[0]}").status_code == 404)  # a thread writes and removes
        found = [http.get(f"/responses/{id}").status_code for id in ids]  # noqa: A001
        assert (found[0], found[-1]) == (404, 200)
        assert found == sorted(found, reverse=True)


def test_stored_responses_are_forgotten_with_age(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = {"path": str(path), "hours": 1.0}
    with gateway(named, state=state) as (running, _), asking(running.url) as http:
        first = ask(http)
        assert http.get(f"/responses/{first['id']}").status_code == 200
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("UPDATE responses SET used = used - 7200").rowcount > 0
    with gateway(named, state=state) as (running, _), asking(running.url) as http:
        assert http.get(f"/responses/{first['id']}").status_code == 404


def test_a_row_that_is_damaged_is_forgotten(tmp_path: Path) -> None:
    state = {"path": str(tmp_path / "state.sqlite")}
    with gateway(named, state=state) as (running, _), asking(running.url) as http:
        first = ask(http)
    with closing(sqlite3.connect(state["path"])) as file, file:
        assert file.execute("UPDATE responses SET value = ?", (b"{",)).rowcount > 0
    with gateway(named, state=state) as (running, _), asking(running.url) as http:
        assert http.get(f"/responses/{first['id']}").status_code == 404
        assert http.delete(f"/responses/{first['id']}").status_code == 404
        refused = http.post("/responses", json={
            "model": "openai-chat/text", "input": "?", "previous_response_id": first["id"],
        })  # fmt: skip
        assert refused.json()["error"]["code"] == "previous_response_not_found"


# ── in the background ─────────────────────────────────────────────────────────────────────────────


@each("provider", ["anthropic", "responses"])
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
        assert figure(get(f"{running.url}/metrics").content, "penstock_background") == 1
        reply = http.post("/responses", json={
            "model": "openai-chat/text", "input": "?", "previous_response_id": second["id"],
        })  # fmt: skip
        assert reply.json()["error"]["code"] == "previous_response_not_found"  # it is not over
        assert http.delete(f"/responses/{second['id']}").status_code == 200
        assert figure(get(f"{running.url}/metrics").content, "penstock_background") == 0


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


def _stored(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as rows:
        return bool(rows.execute("SELECT count(*) FROM responses").fetchone()[0])


def test_one_that_a_stop_broke_off_is_failed(tmp_path: Path) -> None:
    """Nothing is left hanging: the next gateway knows that it will never be done."""

    def stalled(seen: Any) -> Reply:
        return answer(seen).stall(after=900)

    file, killed = tmp_path / "state.sqlite", tmp_path / "killed"
    killed.mkdir()
    with gateway(stalled, state={"path": str(file)}) as (running, up), asking(running.url) as http:
        first = ask(http, "Hi.", background=True)
        until(lambda: up.requests)
        until(lambda: _stored(file))
        for part in tmp_path.glob("state.sqlite*"):  # as they are when a gateway is killed now
            shutil.copy(part, killed / part.name)
    with gateway(state={"path": str(file)}) as (running, _), asking(running.url) as http:
        stopped = http.get(f"/responses/{first['id']}").json()
        assert (stopped["status"], "shutting down" in stopped["error"]["message"]) == ("failed", True)
    with gateway(state={"path": str(killed / "state.sqlite")}) as (running, _), asking(running.url) as http:
        lost = resource(http.get(f"/responses/{first['id']}").json())
        assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")


# ── recorded requests ─────────────────────────────────────────────────────────────────────────────

WHERE = corpus.root().parent / "recorded-requests"


def recorded() -> list[Path]:
    return sorted(WHERE.glob("*/*/*_v1_responses*.json"))


def accepted(http: httpx.Client, record: dict[str, Any], provider: str, previous: str) -> dict[str, Any]:
    body = {**record["body"], "model": f"{provider}/{'tools' if record['body'].get('tools') else 'text'}"}
    if "previous_response_id" in body:
        body["previous_response_id"] = previous
    keep = {"host", "content-length", "connection", "accept-encoding"}
    headers = {name: value for name, value in record["headers"].items() if name.lower() not in keep}
    reply = http.post("/responses", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return lawful(events(reply.text)) if body.get("stream") else resource(reply.json())


@each("provider", ["openai-chat", "anthropic", "responses"])
def test_every_recorded_request_is_taken(http: httpx.Client, provider: str) -> None:
    """One goes on from the response before it, whose id is another here."""
    if not recorded():
        pytest.skip("corpus absent: no recorded requests")
    last = ""
    for path in recorded():
        response = accepted(http, json.loads(path.read_bytes()), provider, last)
        assert response["status"] == "completed", path
        last = response["id"]
