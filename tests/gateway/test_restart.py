"""What must outlive the process: the thinking that a provider wants back, for the key that was given it, and no other."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from penstock import events as ev
from penstock.gateway import App
from penstock.testing import Reply, scripted
from tests.support.gateway import Running, config, hash_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THOUGHT, SIGNATURE = "The gauge must be read.", "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="
CALLING: list[ev.AnyEvent] = [
    ev.Start(id="msg_1", model="claude"),
    ev.ReasoningStart(0), ev.ReasoningDelta(0, THOUGHT), ev.ReasoningEnd(0, extra={"anthropic": {"signature": SIGNATURE}}),
    ev.CallStart(1, id="toolu_1", name="read_gauge"), ev.CallDelta(1, '{"station":"upper"}'),
    ev.CallEnd(1, id="toolu_1", name="read_gauge", json='{"station":"upper"}'),
    ev.Usage(input=10, output=5), ev.Finish("calls"),
]  # fmt: skip
DONE: list[ev.AnyEvent] = [
    ev.Start(id="msg_2", model="claude"), ev.TextStart(0), ev.TextDelta(0, "3.2 m"), ev.TextEnd(0),
    ev.Usage(input=10, output=5), ev.Finish("stop"),
]  # fmt: skip
TOOL = {"type": "function", "function": {"name": "read_gauge", "parameters": {"type": "object", "properties": {}}}}


KEYS = {name: {"hash": hash_key(f"planted-key-{name}")} for name in "ab"}


@contextmanager
def started(upstream: str, data: Path) -> Iterator[str]:
    """The address of a gateway that keeps its state in a folder."""
    made = config(upstream, data=data, keys=KEYS, state={}, journal={})
    with Running(App(made, env={})) as running:
        yield running.url


def ask(base: str, key: str, messages: list[Any]) -> Any:
    body = {"model": "anthropic/text", "messages": messages, "tools": [TOOL], "stream": False}
    headers = {"authorization": f"Bearer planted-key-{key}"}
    reply = httpx.post(f"{base}/v1/chat/completions", json=body, headers=headers, timeout=30)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]


def test_signed_thinking_comes_back_after_a_restart(tmp_path: Path) -> None:
    user = {"role": "user", "content": "How high is the water?"}
    replies = [Reply.of("anthropic", events, stream=False) for events in (CALLING, DONE, DONE)]
    with scripted(*replies) as upstream:
        with started(upstream.url, tmp_path) as first:
            said = ask(first, "a", [user])
        [call] = said["tool_calls"]
        # As a client of Chat Completions keeps it: there is no word for a signature.
        kept = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": call["id"], "content": "3.2"}
        with started(upstream.url, tmp_path) as second:
            assert ask(second, "a", [user, kept, result])["content"] == "3.2 m"
            ask(second, "b", [user, kept, result])
    mine, other = (
        [block for message in seen.json["messages"] for block in message["content"] if isinstance(block, dict)]
        for seen in upstream.requests[1:]
    )
    assert {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE} in mine
    assert not [block for block in other if block.get("type") == "thinking"]


def reply_of(base: str, messages: list[Any]) -> list[Any]:
    body = {"version": 1, "model": "anthropic/text", "messages": messages}
    reply = httpx.post(f"{base}/vscode/chat", json=body, headers={"authorization": "Bearer planted-key-a"}, timeout=30)
    assert reply.status_code == 200, reply.text
    return [json.loads(line) for line in reply.text.splitlines()]


def test_a_stateful_marker_leads_to_the_thinking_after_a_restart(tmp_path: Path) -> None:
    """As VS Code keeps a reply when the user speaks again: words that it may have changed, and the marker."""
    text: list[ev.AnyEvent] = [ev.TextStart(1), ev.TextDelta(1, "3.2 m"), ev.TextEnd(1)]
    thinking = [*CALLING[:4], *text, *CALLING[-2:-1], ev.Finish("stop")]
    replies = [Reply.of("anthropic", events) for events in (thinking, DONE, DONE)]
    user = {"role": 1, "content": [{"value": "How high is the water?"}]}
    with scripted(*replies) as upstream:
        with started(upstream.url, tmp_path) as first:
            [start, *_] = reply_of(first, [user])
        marker = base64.b64encode(f"anthropic/text\\{start['id']}".encode()).decode()
        words: Any = {"value": "It is *3.2 m*."}
        said: Any = {"role": 2, "content": [words, {"mimeType": "stateful_marker", "data": marker}]}
        with started(upstream.url, tmp_path) as second:
            reply_of(second, [user, said, user])
            reply_of(second, [user, {**said, "content": [words]}, user])
    with_marker, without = (seen.json["messages"][1]["content"] for seen in upstream.requests[1:])
    assert with_marker[0] == {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}
    assert "3.2 m" in str(with_marker[1])
    assert "signature" not in str(without)
