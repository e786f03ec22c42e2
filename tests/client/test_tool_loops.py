"""The obvious tool loops keep reasoning state, without a store being passed: strict upstreams refuse lost signatures."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from penstock.client import Client, SyncClient
from penstock.request import Call, Message, Reasoning, Result, Source, Text, Turn
from penstock.testing import Reply, play, scripted
from tests.oracles.strict_upstream.valid_requests import SCHEMA
from tests.support.each_case import each
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client import Answer, ChatMessage

PROVIDERS: dict[str, dict[str, Any]] = {
    "chat": {"like": "openai", "fields": {"has": ["chat"]}},
    "responses": {"like": "openai", "fields": {"has": ["responses"]}},
    "messages": {"like": "anthropic"},
    "gemini": {"like": "gemini"},
}
WORDS = {"cat first.txt": "first-0123456789ab", "cat second.txt": "second-ba9876543210"}
TURNED = "0123456789ab-dnoces ba9876543210-tsrif"
CHAT_TOOL = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
RESPONSES_TOOL = {"type": "function", "name": "bash", "parameters": SCHEMA}
STATE = {"chat": "gpt", "responses": "encrypted_content", "messages": '"signature"', "gemini": "thoughtSignature"}
STEPS = 20  # messages, so that a model that never ends is noticed
Operation = Literal["chat", "chat_stream", "responses", "responses_stream"]


def run_command(call: Call) -> str:
    """A shell that knows two files and `rev`."""
    command = str(json.loads(call.json)["command"])
    return WORDS.get(command) or command.partition("|")[0].removeprefix("echo ").strip()[::-1]


def append_message(messages: list[ChatMessage], answer: Answer, _: Operation) -> None:
    messages.append(answer.message)


def append_answer(messages: list[ChatMessage], answer: Answer, _: Operation) -> None:
    messages.append(answer)


def append_body(messages: list[ChatMessage], answer: Answer, operation: Operation) -> None:
    if operation.startswith("chat"):
        messages.append(answer.to("openai-chat")["choices"][0]["message"])
    else:
        messages.extend(answer.to("responses")["output"])


APPEND: dict[str, Callable[[list[ChatMessage], Answer, Operation], None]] = {
    "answer.message": append_message,
    "answer": append_answer,
    "answer.to()": append_body,
}


def ask(client: SyncClient, operation: Operation, model: str, messages: list[ChatMessage]) -> Answer:
    match operation:
        case "chat":
            return client.chat(model, messages, tools=[CHAT_TOOL], reasoning="low")
        case "chat_stream":
            return client.chat_stream(model, messages, tools=[CHAT_TOOL], reasoning="low").turn()
        case "responses":
            return client.responses(model, messages, tools=[RESPONSES_TOOL], reasoning="low")
        case "responses_stream":
            return client.responses_stream(model, messages, tools=[RESPONSES_TOOL], reasoning="low").turn()


def result_of(call: Call, operation: Operation) -> ChatMessage:
    if operation.startswith("chat"):
        return {"role": "tool", "tool_call_id": call.id, "content": run_command(call)}
    return {"type": "function_call_output", "call_id": call.id, "output": run_command(call)}


@each("append", APPEND)
@each("operation", ["chat", "chat_stream", "responses", "responses_stream"])
@each("upstream", PROVIDERS)
def test_a_loop_keeps_the_state_of_every_protocol(upstream: str, operation: Operation, append: str) -> None:
    with serve(SCENARIOS["parallel-calls"]) as server:
        base_url = f"{server.url}/v1beta" if upstream == "gemini" else f"{server.url}/v1"
        account = {"base_url": base_url, "key": "sk-strict", **PROVIDERS[upstream]}
        model, messages = f"up/{DEFAULT_MODELS[upstream]}", list[Any]([{"role": "user", "content": "go"}])
        with SyncClient({"providers": {"up": account}, "retries": 0}, env={}) as client:
            answer = ask(client, operation, model, messages)
            while answer.calls and len(messages) < STEPS:
                APPEND[append](messages, answer, operation)
                messages += [result_of(call, operation) for call in answer.calls]
                answer = ask(client, operation, model, messages)
    assert [f"{one.status} {one.message}" for one in server.log.refusals()] == []
    assert TURNED in answer.text
    assert [one.outcome for one in server.log.exchanges] == ["answered"] * 3
    assert STATE[upstream] in json.dumps(server.log.exchanges[-1].body)


@each("kept", [True, False])
def test_the_default_store_keeps_what_plain_messages_cannot_carry(*, kept: bool) -> None:
    """Many programs keep only role, content and calls of a message."""
    with serve(SCENARIOS["one-call"]) as server:
        config = {"providers": {"up": {"base_url": f"{server.url}/v1", "key": "k", **PROVIDERS["messages"]}}}
        messages: list[Any] = [{"role": "user", "content": "go"}]
        with SyncClient(config, env={}, store=None if kept else False) as client:
            for _ in range(2):
                answer = ask(client, "chat", f"up/{DEFAULT_MODELS['messages']}", messages)
                message = answer.to("openai-chat")["choices"][0]["message"]
                messages.append({name: message.get(name) for name in ("role", "content", "tool_calls")})
                messages += [result_of(call, "chat") for call in answer.calls]
    assert (STATE["messages"] in json.dumps(server.log.exchanges[-1].body)) == kept


# ── a scripted Bedrock, which the strict upstream does not speak ──────────────────────────────────

REASONING = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2lnLTE="}}}
REDACTED = {"reasoningContent": {"redactedContent": "b3BhcXVl"}}
CALLING = {"toolUse": {"toolUseId": "call_7", "name": "bash", "input": {"command": "ls"}}}


@each("append", APPEND)
@each("block", [REASONING, REDACTED])
def test_a_loop_keeps_the_reasoning_of_bedrock(block: dict[str, Any], append: str) -> None:
    message = {"role": "assistant", "content": [block, CALLING]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    thought = Reply.body({"output": {"message": message}, "stopReason": "tool_use", "usage": usage})
    with scripted(thought, Reply.of("bedrock", play("text"), stream=False)) as up:
        config = {"providers": {"up": {"base_url": up.url, "key": "k", "like": "bedrock"}}}
        messages: list[Any] = [{"role": "user", "content": "go"}]
        with SyncClient(config, env={}) as client:
            answer = ask(client, "chat", "up/anthropic.claude-sonnet-4-5", messages)
            APPEND[append](messages, answer, "chat")
            messages.append({"role": "tool", "tool_call_id": answer.calls[0].id, "content": "ok"})
            assert ask(client, "chat", "up/anthropic.claude-sonnet-4-5", messages).text
    assert up.requests[1].json["messages"][1]["content"] == [block, CALLING]


# ── the message of an answer ──────────────────────────────────────────────────────────────────────


def test_a_message_has_the_first_choice_without_cut_calls() -> None:
    thought = Reasoning("hm", extra={"anthropic": {"signature": "s"}})
    source, call = Source("https://a.example", of=2), Call("c", "look", "{}")
    parts: list[Any] = [thought, Call("d", "look", '{"a', cut=True), Text("one"), Text("two", choice=1), source, call]
    message = Turn(parts=parts).message
    assert message == Message("assistant", [thought, Text("one"), Source("https://a.example", of=1), call])
    whole = Turn(parts=[thought, call])
    assert whole.message == Message("assistant", [thought, call])
    assert whole.message.parts is not whole.parts


def test_a_list_may_mix_all_forms_of_messages() -> None:
    call, result = Call("c1", "look", "{}"), Message("tool", [Result("c1", "look", [Text("2.31 m")])])
    messages: list[ChatMessage] = [
        {"role": "system", "content": "Be short."},
        Message("user", [Text("How high?")]),
        Turn(parts=[call]),
        result,
        {"role": "user", "content": "And now?"},
    ]
    with scripted(Reply.of("openai-chat", play("text"), stream=False)) as up:

        async def talk() -> None:
            async with Client({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}, env={}) as client:
                await client.chat("openai/gpt-4o", tuple(messages))
                await client.chat({"model": "openai/gpt-4o", "messages": messages})

        asyncio.run(talk())
    for seen in up.requests:
        assert [row["role"] for row in seen.json["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert seen.json["messages"][2]["tool_calls"][0]["id"] == "c1"
        assert seen.json["messages"][3]["content"] == "2.31 m"
