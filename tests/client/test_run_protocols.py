"""`client.run` on every provider's protocol, and its events in every client's protocol."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import bridge, fold_all
from penstock import events as ev
from penstock import request as rq
from penstock.client import Client, tool
from penstock.framing import WRITERS
from penstock.messages import read_request
from penstock.testing import Reply, answer
from tests.client.run_setup import (
    PROVIDERS,
    call,
    finish,
    model_of,
    play_agent,
    reply,
    result_text,
    sent_results,
    staged,
    text,
)
from tests.oracles.strict_upstream.test_gateway import PROVIDERS as STRICT
from tests.oracles.strict_upstream.test_official_clients import TURNED, WORDS
from tests.support.each_case import each
from tests.support.run_streams import body_of
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest, Upstream

TARGETS = ("uistream", "openai-chat", "responses", "anthropic", "gemini", "vscode", "aisdk", "completions", "events")


def run_command(command: str) -> str:
    """Runs a command in the shell."""
    return f"it printed {command}"


@each("name", PROVIDERS)
def test_the_packaged_agent_on_every_protocol(name: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(model_of(name), "run `cat nonce.txt`", tools=[run_command])
        assert run.output == "run_command gave:\n\nit printed cat nonce.txt"
        assert len(up.requests) == 2
        assert [result_text(one) for one in sent_results(up.requests[1], name)] == ["it printed cat nonce.txt"]
        again = await client.run(
            model_of(name), [*run.messages, {"role": "user", "content": "run `ls`"}], tools=[run_command]
        )
        assert again.output == "run_command gave:\n\nit printed ls"

    staged(scene, play_agent(name))


@each("name", PROVIDERS)
def test_parallel_calls_on_every_protocol(name: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        await finish(client.run(model_of(name), "?", tools=[run_command]))
        assert [result_text(one) for one in sent_results(up.requests[1], name)] == ["it printed a", "it printed b"]

    calls = (call("run_command", '{"command":"a"}', "call_1"), call("run_command", '{"command":"b"}', "call_2"))
    staged(scene, reply(name, *calls), reply(name, *text("done")))


# ── state that a vendor signs ─────────────────────────────────────────────────────────────────────


def bash(command: str) -> str:
    """Runs a command in the shell."""
    return WORDS.get(command) or command.partition("|")[0].removeprefix("echo ").strip()[::-1]


def strict_client(url: str, upstream: str, **more: Any) -> Client:
    base = f"{url}/v1beta" if upstream == "gemini" else f"{url}/v1"
    account = {"base_url": base, "key": "sk-strict", "models": [DEFAULT_MODELS[upstream]], **STRICT[upstream]}
    return Client({"providers": {"up": account}, "retries": 0}, env={}, **more)


@each("store", [None, False])
@each("scenario", TURNED)
@each("upstream", STRICT)
def test_no_signature_is_lost(upstream: str, scenario: str, store: Any) -> None:
    """The strict upstream refuses thinking without its signature, sealed reasoning that is missing, and the like."""

    async def scene(url: str) -> None:
        async with strict_client(url, upstream, store=store) as client:
            model = f"up/{DEFAULT_MODELS[upstream]}"
            run = await client.run(model, "Read the words.", tools=[bash], reasoning="high")
            assert TURNED[scenario] in run.output
            assert len(run.steps) == 3
            next_turn: list[Any] = [*run.messages, {"role": "user", "content": "Thanks. Once more, please."}]
            await finish(client.run(model, next_turn, tools=[bash], reasoning="high"))

    with serve(SCENARIOS[scenario]) as server:
        asyncio.run(scene(server.url))
    assert [f"{one.status} {one.message}" for one in server.log.refusals()] == []


# ── every client's protocol ───────────────────────────────────────────────────────────────────────


def decode(protocol: str, data: bytes) -> rq.Turn:
    """The turn that penstock's own decoder reads: one start, one end."""
    pipe = bridge(protocol, "events")
    lines = b"".join([*pipe.feed([data]), *pipe.finish()]).splitlines()
    found: list[Any] = [json.loads(line) for line in lines]
    assert [one["type"] for one in found].count("start") == 1
    assert found[-1]["type"] == "finish", found[-1]
    return fold_all([msgspec.convert(one, ev.AnyEvent) for one in found])[0]


@each("provider", ["chat", "anthropic", "gemini"])
@each("target", TARGETS)
def test_one_stream_over_all_steps_in_every_protocol(target: str, provider: str) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(model_of(provider), "run `ls`", tools=[run_command])
        data = b"".join([chunk async for chunk in run.to(target)])
        turn = decode(target, data)
        assert turn.text.endswith("run_command gave:\n\nit printed ls")
        assert turn.text.startswith("I will look. ")
        assert turn.calls == []  # nothing is left for the client to run
        assert turn.finish is not None
        assert turn.finish.reason == "stop"
        if target != "completions":
            assert turn.usage is not None
            assert turn.usage.input == 20
        shown = [part.json for part in turn.parts if isinstance(part, rq.Result)]
        assert shown == (['"it printed ls"'] if target in ("uistream", "aisdk", "events") else [])

    staged(scene, play_agent(provider))


SDKS: dict[str, Any] = {
    "openai-chat": ("openai_chat_sdk", "outcomes"),
    "responses": ("openai_responses", "sdk_outcomes"),
    "anthropic": ("anthropic_sdk", "outcomes"),
    "gemini": ("google_sdk", "outcomes"),
}


@each("target", SDKS)
def test_the_vendors_sdk_reads_a_run_as_one_answer(target: str) -> None:
    module, function = SDKS[target]
    read = getattr(import_module(f"tests.oracles.{module}"), function)

    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(model_of("anthropic"), "run `ls`", tools=[run_command])
        (outcome,) = read(b"".join([chunk async for chunk in run.to(target)]))
        assert (outcome.failed, outcome.error, outcome.calls) == (None, None, [])
        assert outcome.text == "I will look. run_command gave:\n\nit printed ls"
        assert outcome.input == 20

    staged(scene, play_agent("anthropic"))


def chunks_of(data: bytes) -> list[dict[str, Any]]:
    rows = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data: ")]
    return [json.loads(row) for row in rows if row != b"[DONE]"]


def test_a_page_sees_the_steps_and_the_results() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(model_of("chat"), "run `ls`", tools=[run_command])
        chunks = chunks_of(b"".join([chunk async for chunk in run.to("uistream")]))
        kinds = [one["type"] for one in chunks if not one["type"].endswith("-delta")]
        assert (
            kinds
            == (
                "start start-step text-start text-end tool-input-start tool-input-available tool-output-available finish-step "
                "start-step text-start text-end finish-step finish"
            ).split()
        )
        assert not any(one.get("providerExecuted") for one in chunks)
        assert chunks[-1]["messageMetadata"]["usage"]["inputTokens"] == 20

    staged(scene, play_agent("chat"))


def test_a_page_sees_the_input_before_the_result() -> None:
    """A page shows a call while its tool runs."""

    async def scene(_: Upstream, client: Client) -> None:
        may_end = asyncio.Event()

        async def slow(command: str) -> str:
            """Runs a command."""
            await may_end.wait()
            return command

        kinds: list[str] = []
        async for data in client.run(model_of("chat"), "run `ls`", tools=[slow]).to("uistream"):
            kinds += [one["type"] for one in chunks_of(data)]
            if "tool-input-available" in kinds:
                may_end.set()
        assert "tool-output-available" in kinds

    staged(scene, play_agent("chat"))


@tool(needs_approval=True)
def erase(command: str) -> str:
    """Erases."""
    return f"erased {command}"


@each("approved", [True, False])
def test_approval_by_the_parts_of_the_ui_stream(approved: bool) -> None:
    """The page gets a request, sends its answer with its messages, and the same message goes on."""

    async def scene(up: Upstream, client: Client) -> None:
        question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "run `ls`"}]}
        run = client.run(model_of("chat"), [question], tools=[erase])
        chunks = chunks_of(b"".join([chunk async for chunk in run.to("uistream")]))
        (asked,) = (one for one in chunks if one["type"] == "tool-approval-request")
        assert chunks[-1]["type"] == "finish"
        given = next(one for one in chunks if one["type"] == "tool-input-available")
        approval = {"id": asked["approvalId"], "approved": approved}
        part = {
            "type": "tool-erase",
            "toolCallId": asked["toolCallId"],
            "state": "approval-responded",
            "input": given["input"],
        }
        parts = [{"type": "step-start"}, {"type": "text", "text": "I will look. "}, {**part, "approval": approval}]
        message = {"id": chunks[0]["messageId"], "role": "assistant", "parts": parts}
        again = client.run(model_of("chat"), [question, message], tools=[erase])
        chunks = chunks_of(b"".join([chunk async for chunk in again.to("uistream")]))
        if approved:
            assert [one["type"] for one in chunks][:3] == ["start", "tool-output-available", "start-step"]
            assert chunks[0]["messageId"] == message["id"]
            assert chunks[1]["toolCallId"] == asked["toolCallId"]
            assert chunks[1]["output"] == "erased ls"
        (result,) = sent_results(up.requests[-1])
        assert result_text(result) == "erased ls" if approved else result.failed
        sent = [one["role"] for one in up.requests[-1].json["messages"]]
        assert sent == ["user", "assistant", "tool"]

    staged(scene, play_agent("chat"))


def draw(command: str) -> list[Any]:
    """Draws a picture."""
    return [f"a picture of {command}", rq.File("image/png", data="iVBORw0KGgo=")]


def test_a_picture_comes_back_from_a_page_as_a_picture() -> None:
    """As JSON, its base64 would be text for the model."""

    async def scene(up: Upstream, client: Client) -> None:
        question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "run `ls`"}]}
        run = client.run(model_of("anthropic"), [question], tools=[draw])
        data = b"".join([chunk async for chunk in run.to("uistream")])
        body = json.loads(body_of("uistream", data))
        follow = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks."}]}
        await finish(client.run(model_of("anthropic"), [question, body, follow]))
        (result,) = sent_results(up.requests[-1], "anthropic")
        assert [type(part) for part in result.content] == [rq.Text, rq.File]

    staged(scene, play_agent("anthropic"))


def test_messages_of_a_page_go_on_after_a_run() -> None:
    """What `useChat` sends back after a run with tools is a conversation that a provider takes."""

    async def scene(up: Upstream, client: Client) -> None:
        question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "run `ls`"}]}
        run = client.run(model_of("chat"), [question], tools=[run_command])
        data = b"".join([chunk async for chunk in run.to("uistream")])
        body = json.loads(body_of("uistream", data))
        follow = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "run `pwd`"}]}
        last = await client.run(model_of("chat"), [question, body, follow], tools=[run_command])
        sent = read_request(up.requests[-2].json, "openai-chat").messages
        assert [one.role for one in sent] == ["user", "assistant", "tool", "assistant", "user"]
        assert last.output == "run_command gave:\n\nit printed pwd"

    staged(scene, play_agent("chat"))


# ── state of protocols that the strict upstream does not speak ────────────────────────────────────


def bedrock_thinking() -> Reply:
    """Claude on Bedrock: a signed thought, then a call."""
    blocks: list[tuple[str, dict[str, Any]]] = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hmm."}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "sig-bedrock"}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "call_1", "name": "run_command"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"command":"ls"}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "tool_use"}),
    ]  # fmt: skip
    frames = [(name.encode(), msgspec.json.encode(body)) for name, body in blocks]
    data = b"".join(WRITERS["eventstream"]().feed(frames))
    return Reply((data,), headers={"content-type": "application/vnd.amazon.eventstream"})


def chat_thinking(**state: Any) -> Reply:
    """A compatible server: reasoning in fields of its own, then a call."""
    function = {"name": "run_command", "arguments": '{"command":"ls"}'}
    called = {"index": 0, "id": "call_1", "type": "function", "function": function}
    deltas: list[tuple[dict[str, Any], str | None]]
    deltas = [({"role": "assistant", **state}, None), ({"tool_calls": [called]}, None), ({}, "tool_calls")]
    chunks = [
        {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in deltas
    ]
    data = b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"
    return Reply((data,), headers={"content-type": "text/event-stream"})


SEALED = {"type": "reasoning.encrypted", "data": "sealed-1", "id": "rs_1", "format": "openai-responses-v1", "index": 0}
# provider → its first answer, and what must come back with the call
STATES: dict[str, tuple[str, Reply, str]] = {
    "bedrock": (model_of("bedrock"), bedrock_thinking(), "sig-bedrock"),
    "deepseek": ("deepseek/deepseek-reasoner", chat_thinking(reasoning_content="Hmm, again."), "Hmm, again."),
    "openrouter": ("openrouter/openai/gpt-5", chat_thinking(reasoning_details=[SEALED]), "sealed-1"),
}


@each("name", STATES)
def test_other_state_comes_back_with_the_call(name: str) -> None:
    model, first, state = STATES[name]
    protocol = "bedrock" if name == "bedrock" else "openai-chat"

    def second(received: ReceivedRequest) -> Reply:
        if state not in received.body.decode():
            return Reply.error(protocol, 400, "the state of the thought is missing")
        return Reply.of(protocol, answer(rq.Request("replay/text")))

    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(model, "run `ls`", tools=[run_command])
        assert len(run.steps) == 2
        assert run.steps[0].answer.parts

    staged(scene, first, second)
