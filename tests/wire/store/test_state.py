"""What a gateway remembers of turns: stored responses and the state of reasoning, in memory, a file, PostgreSQL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from penstock.testing import Reply
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer
from tests.support.gateway import hash_key
from tests.support.openresponses import named
from tests.support.stores import Place, until
from tests.support.thinking_turn import CALLING, THOUGHT, USER

if TYPE_CHECKING:
    from tests.support.inspector import Inspected

KEYS = {name: {"hash": hash_key(name), "tenant": name} for name in ("one", "two")}
CALL = {"id": "toolu_1", "type": "function", "function": {"name": "read_gauge", "arguments": "{}"}}
AGAIN = [
    USER, {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "toolu_1", "content": "3.2"},
]  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": "read_gauge", "parameters": {"type": "object"}}}]


def respond(running: Inspected, text: str = "Hi.", key: str = "one", **more: Any) -> str:
    """Stores a response. Returns its id."""
    body = {"model": "openai-chat/text", "input": text, **more}
    reply = post(f"{running.url}/v1/responses", json=body, headers=bearer(key))
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


def status(running: Inspected, name: str, key: str = "one") -> int:
    return get(f"{running.url}/v1/responses/{name}", headers=bearer(key)).status_code


def delete(running: Inspected, name: str, key: str = "one") -> int:
    with httpx.Client(verify=False, trust_env=False, timeout=30) as http:  # noqa: S501 — loopback, no TLS
        return http.delete(f"{running.url}/v1/responses/{name}", headers=bearer(key)).status_code


def test_responses_are_there_at_once_for_their_tenant_and_gone_when_they_are_deleted(place: Place) -> None:
    with place.open(named, keys=KEYS) as running:
        first = respond(running)
        second = respond(running, "And?", previous_response_id=first)
        assert [status(running, name) for name in (first, second)] == [200, 200]
        assert [status(running, first, "two"), delete(running, first, "two")] == [404, 404]
        items = get(f"{running.url}/v1/responses/{second}/input_items", headers=bearer("one"))
        assert "And?" in items.text
        assert delete(running, first) == 200
        assert [status(running, first), status(running, second)] == [404, 200]
        assert delete(running, first) == 404


def test_a_restart_loses_nothing_and_gateways_share(lasting: Place) -> None:
    with lasting.open(named, keys=KEYS) as running:
        kept, gone = respond(running, "\0 \u2028 é"), respond(running)
        assert delete(running, gone) == 200
    with lasting.open(named, keys=KEYS) as one, lasting.open(named, keys=KEYS) as other:
        assert [status(one, kept), status(one, gone), status(one, kept, "two")] == [200, 404, 404]
        new = respond(one)
        until(lambda: status(other, new) == 200)
        assert respond(other, "Go on.", previous_response_id=kept)
        assert delete(other, new) == 200
        until(lambda: status(one, new) == 404)


def test_signed_reasoning_is_given_back_also_after_a_restart(place: Place) -> None:
    thinking = Reply.of("anthropic", CALLING, stream=False)

    def ask(running: Inspected, messages: list[Any]) -> Any:
        body = {"model": "anthropic/claude", "messages": messages, "tools": TOOLS, "max_tokens": 4096}
        reply = post(f"{running.url}/v1/chat/completions", json=body, headers=bearer("one"))
        assert reply.status_code == 200, reply.text
        return running.up.requests[-1].json["messages"]

    with place.open(thinking, keys=KEYS) as running:
        ask(running, [USER])
        assert THOUGHT in ask(running, AGAIN)[1]["content"]
    if place.lasts:
        with place.open(thinking, keys=KEYS) as running:
            assert THOUGHT in ask(running, AGAIN)[1]["content"]


def test_the_oldest_make_room_and_a_tenant_has_an_eighth(place: Place) -> None:
    with place.open(named, keys=KEYS, state={"size": 400_000}) as running:
        other = respond(running, "x" * 5_000, "two")
        names = [respond(running, f"{number} " + "x" * 5_000) for number in range(16)]

        scans: list[list[int]] = [[]]

        def is_bounded() -> bool:
            """Twice the same: rows may go while they are asked for."""
            scans.append([status(running, name) for name in names])
            return scans[-1] == scans[-2] and scans[-1][0] == 404

        until(is_bounded)
        found = scans[-1]
        assert found == sorted(found, reverse=True), "those that are left are the newest"
        assert 1 <= found.count(200) <= 10, "of 5,000 bytes each, in 50,000"
        assert status(running, other, "two") == 200


def test_rows_grow_old_unless_they_are_used(lasting: Place) -> None:
    hour = {"hours": 1}
    with lasting.open(named, keys=KEYS, state=hour) as running:
        old, used = respond(running), respond(running)
    past = time.time() - 3000
    lasting.run("UPDATE responses SET used = ?", [past], "state")
    with lasting.open(named, keys=KEYS, state=hour) as running:
        assert status(running, used) == 200
    lasting.run("UPDATE responses SET used = used - 1200", (), "state")
    with lasting.open(named, keys=KEYS, state=hour) as running:
        assert [status(running, used), status(running, old)] == [200, 404]


def test_what_is_not_written_yet_is_read_and_deleted_too(lasting: Place) -> None:
    """Each is asked for at once, and half of them are deleted before anything is written."""
    with lasting.open(named, keys=KEYS) as running:
        names = [respond(running) for _ in range(20)]
        for name in names[::2]:
            assert delete(running, name) == 200
        assert [status(running, name) for name in names] == [404, 200] * (10)
    with lasting.open(named, keys=KEYS) as running:
        assert [status(running, name) for name in names] == [404, 200] * (10)
