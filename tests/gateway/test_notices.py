"""Lines beside a reply: what is waited for, and that a conversation was made shorter. Other dialects get signs of life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.testing import Reply, play
from tests.core.test_vscode_schema import faults
from tests.support.client_requests import ASKING, ask, knock, post, read, told
from tests.support.each_case import each
from tests.support.gateway import gateway
from tests.support.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

ANSWER = Reply.of("openai-chat", play("text", id="one", model="m", created=7))
LIMITED = Reply.rate_limit("openai-chat", retry_after=12)
OVERLOADED = Reply.error("openai-chat", 529, "too many")


@pytest.fixture
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(ANSWER, serve={"pace": 0.0, "ping": 0.05}, retries=3) as found:
        yield found


def lines(url: str, *, model: str = "openai-chat/text") -> Iterator[dict[str, Any]]:
    path, body = ASKING["vscode"](model, True)
    with httpx.stream("POST", url + path, json=body, timeout=20, trust_env=False) as answer:
        yield {"status": answer.status_code}
        yield from (json.loads(line) for line in answer.iter_lines() if line)


def test_a_rate_limit_is_waited_out_and_told_while_it_lasts(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(LIMITED, OVERLOADED, ANSWER)
    patience = Patience(running)
    reply = lines(running.url)
    assert next(reply) == {"status": 200}, "the head is there before the provider's"
    wait = next(reply)
    assert wait["kind"] == "wait"
    assert 12 <= wait["seconds"] < 13
    assert wait["message"].endswith("'s rate limit")
    assert faults("line", wait) == []
    assert len(up.requests) == 1
    patience.go.set()
    rest = list(reply)
    assert rest[0]["kind"] == "start", "a wait of half a second is not worth a line"
    assert rest[-1] == {"kind": "end", "reason": "stop", "raw": "stop"}
    assert len(up.requests) == 3
    assert running.rows()[0].status == "finish"


def test_what_fails_after_a_wait_is_an_error_line(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(*[LIMITED] * 4)
    Patience(running).go.set()
    kinds = [line.get("kind") for line in lines(running.url)]
    assert kinds == [None, "wait", "wait", "wait", "start", "error"]
    row = running.rows()[0]
    assert (row.status, row.fault) == ("refused", "rate-limit")


def test_a_client_that_leaves_during_a_wait_ends_it_at_once(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(LIMITED)
    Patience(running)
    with knock(running.url, "vscode", "openai-chat/text", stream=True) as rude:
        while b'"wait"' not in rude.recv(4096):
            pass
    running.settle()
    assert len(up.requests) == 1
    row = running.rows()[0]
    assert (row.status, row.fault) == ("cancelled", "cancelled")


@each("client", [name for name in ASKING if name not in ("vscode", "ollama")])
def test_other_dialects_get_signs_of_life_and_the_answer(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    running.close_circuits()
    up.script(LIMITED, ANSWER)
    patience = Patience(running)
    path, body = ASKING[client]("openai-chat/text", True)
    with httpx.stream("POST", running.url + path, json=body, timeout=20, trust_env=False) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        assert first.strip().startswith(b":") or (client == "gemini" and not first.strip())
        patience.go.set()
        data = first + b"".join(pieces)
    assert b'"wait"' not in data
    text, _, end = told(read(client, data))
    assert text
    assert end == "stop"


def test_a_whole_answer_waits_in_silence(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(LIMITED, Reply.of("openai-chat", play("text", id="one", model="m", created=7), stream=False))
    Patience(running).go.set()
    answer = ask(running.url, "vscode", "openai-chat/text", stream=False)
    assert answer.json()["lines"][0]["kind"] == "start"


# ── a conversation made shorter ───────────────────────────────────────────────────────────────────


def long_talk(rounds: int = 12, size: int = 8000) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": 1, "content": [{"value": "Read all gauges."}]}]
    for number in range(rounds):
        call = {"callId": f"gw-c{number}", "name": "read_gauge", "input": {}}
        result = {"callId": f"gw-c{number}", "content": [{"value": "three feet " * (size // 11)}]}
        made += [{"role": 2, "content": [call]}, {"role": 1, "content": [result]}]
    return made


@each("stream", [True, False])
def test_a_conversation_that_was_made_shorter_is_told(stream: bool) -> None:
    answer = Reply.of("openai-chat", play("text", id="one", model="m", created=7), stream=stream)
    tool = {"name": "read_gauge", "description": "", "inputSchema": {"type": "object"}}
    body = {"version": 1, "model": "tiny/gpt-4", "stream": stream, "messages": long_talk(), "tools": [tool]}
    with gateway(answer, features={"context_management": True}) as (running, up):
        tiny = {"like": "openai", "base_url": f"{up.url}/openai-chat", "key": "sk-0", "fields": {"has": ["chat"]}}
        running.reload(providers={"tiny": tiny}, features={"context_management": True})
        answered = post(f"{running.url}/vscode/chat", json=body)
        sent = json.dumps(up.requests[0].json)
    made = [json.loads(line) for line in answered.text.splitlines()] if stream else answered.json()["lines"]
    told_first = made[0]
    assert told_first["kind"] == "compacted", made
    assert faults("line", told_first) == []
    assert told_first["before"] > 20_000 > told_first["after"] > 1000
    assert made[1]["kind"] == "start"
    assert len(sent) < 12 * 8000
