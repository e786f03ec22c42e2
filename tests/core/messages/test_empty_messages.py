"""Messages without content: no target gets one, and none parts a call from its result."""

from __future__ import annotations

import json
from typing import Any

from penstock.messages import convert, profile_of
from tests.core.messages.test_convert import TARGETS, codes
from tests.support.each_case import each
from tests.support.request_protocols import quirks

CALLED: dict[str, Any] = {"functionCall": {"id": "c1", "name": "f", "args": {}}}
AUTOMATIC: list[Any] = [  # what google-genai sends when it calls functions by itself, streamed
    {"role": "user", "parts": [{"text": "x"}]},
    {"role": "model", "parts": [CALLED]},
    {"role": "model", "parts": [{"text": ""}]},
    {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"result": "1"}}}]},
]
LISTS = ("messages", "input", "contents", "message")


@each("target", [name for name in TARGETS if name != "completions"])
def test_an_empty_message_between_a_call_and_its_result_is_left_out(target: str) -> None:
    made = convert({"model": "m", "contents": AUTOMATIC}, "gemini", target, profile=profile_of(target))
    listed = next(made.body[key] for key in LISTS if key in made.body)
    assert len(listed) == (2 if target == "uistream" else 3)  # a result stands in the message of its call
    assert "f" in json.dumps(listed[1])
    assert codes(made) == ["empty"]


@each("target", [name for name in TARGETS if name != "completions"])
def test_a_cancelled_turn_of_the_host_is_left_out(target: str) -> None:
    said = [
        {"role": 1, "content": [{"value": "q"}]},
        {"role": 2, "content": []},
        {"role": 1, "content": [{"value": "z"}]},
    ]
    made = convert({"model": "m", "messages": said}, "vscode", target)
    listed = next(made.body[key] for key in LISTS if key in made.body)
    roles = {one["role"] for one in listed}
    assert roles == {"user"}
    assert "empty" in codes(made)


def test_an_empty_answer_at_the_end_is_left_out_and_a_users_is_not() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}
    profile = profile_of("openai-chat")
    assert convert(body, "openai-chat", "openai-chat", profile=profile).body["messages"] == body["messages"][:1]
    body["messages"] = [{"role": "user", "content": ""}]
    assert convert(body, "openai-chat", "openai-chat", profile=profile).body["messages"] == body["messages"]


def test_a_message_that_only_thought_is_left_out_where_thoughts_have_no_place() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}
    user = {"role": "user", "content": "a"}
    body = {"model": "m", "max_tokens": 5, "messages": [user, thought, user]}
    made = convert(body, "anthropic", "openai-chat", quirks=quirks("openai-chat", reasoning=""))
    assert made.body["messages"] == [user, user]
    assert "loss-reasoning-only" in [row.code for row in made.diagnostics]
