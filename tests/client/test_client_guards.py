"""Guards of the client: hooks change nothing, a stream has one reader at a time, refusals are seen in one place."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

import penstock
from penstock import events as ev
from penstock import request as rq
from penstock.errors import InputError, InvalidOutput
from penstock.testing import Reply, Upstream
from tests.client.run_setup import call, finish, model_of, reply, result_text, sent_results, staged, text
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.client import BatchProgress, CallReport, Client, PendingToolCall, Run, RunStep

MODEL = model_of("chat")
CALL = Reply.calls([("look", {"place": "Rome"})])


# ── hooks ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_cannot_change_what_is_sent_or_returned() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

    def spoil_request(request: rq.Request) -> None:
        request.model = "chat/other"
        request.settings.temperature = 2.0
        request.tools[0].schema = {"type": "object", "x": 1}
        cast("rq.Text", request.messages[0].parts[0]).text = "spoilt"
        request.messages.clear()

    def spoil_event(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Start) and event.extra:
            event.extra.clear()

    def spoil_report(report: CallReport) -> None:
        assert report.answer is not None
        assert report.request.messages
        report.answer.parts.clear()
        report.request.messages.clear()
        assert report.record is not None
        report.record.decisions.clear()

    async def scene(up: Upstream, client: Client) -> None:
        answer = await client.chat(MODEL, "q", tools=[tool], temperature=0.5)
        assert answer.text == "done"
        assert answer.record is not None
        assert answer.record.decisions
        sent = up.requests[0].json
        assert (sent["model"], sent["temperature"], sent["messages"][0]["content"]) == ("gpt-4.1", 0.5, "q")
        assert sent["tools"][0]["function"]["parameters"] == {"type": "object"}

    hooks = {"on_request": spoil_request, "on_event": spoil_event, "on_finish": spoil_report}
    staged(scene, reply("chat", *text("done")), **hooks)


def test_the_callbacks_of_a_run_cannot_change_it() -> None:
    got: list[str] = []

    def spoil_arguments(call: PendingToolCall) -> bool:
        call.arguments["place"] = "spoilt"
        return True

    def is_dangerous(arguments: Any) -> bool:
        arguments["place"] = "spoilt"
        return True

    def spoil_steps(steps: list[RunStep]) -> bool:
        steps[0].results.clear()
        steps.clear()
        return False

    @penstock.tool(needs_approval=is_dangerous)
    def look(place: str) -> str:
        got.append(place)
        return place

    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "q", tools=[look], approve=spoil_arguments, stop_when=spoil_steps)
        assert got == ["Rome"]
        assert len(run.steps) == 2
        assert len(run.steps[0].results) == 1

    staged(scene, CALL, reply("chat", *text("done")))


def test_progress_is_a_copy() -> None:
    def spoil(progress: BatchProgress) -> None:
        progress.done = 100

    with penstock.SyncClient() as client:
        assert len(client.map(["a", "b"], model="replay/text", progress=spoil)) == 2


# ── readers ───────────────────────────────────────────────────────────────────────────────────────


async def read_all(source: Any) -> list[Any]:
    return [event async for event in source]


def test_a_second_reader_of_a_stream_gets_an_error_and_the_first_one_everything() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        for first, second in [("turn", "turn"), ("turn", "read"), ("read", "turn"), ("read", "read")]:
            stream = client.chat_stream(MODEL, "q")
            found: Any
            error: Any
            ways: dict[str, Any] = {"turn": stream.turn, "read": partial(read_all, stream)}
            found, error = await asyncio.gather(ways[first](), ways[second](), return_exceptions=True)
            assert isinstance(error, InputError), (first, second)
            assert "somebody else is reading" in str(error)
            assert not isinstance(found, BaseException), (first, second)
            assert (await stream.turn()).text == "done"
        assert len(up.requests) == 4

    staged(scene, reply("chat", *text("done")))


def test_a_second_reader_of_a_run_gets_an_error_and_the_first_one_everything() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        for first, second in [(finish, finish), (finish, read_all), (read_all, finish), (read_all, read_all)]:
            run = client.run(MODEL, "q")
            found: Any
            error: Any
            found, error = await asyncio.gather(first(run), second(run), return_exceptions=True)
            assert isinstance(error, InputError)
            assert not isinstance(found, BaseException)
            assert run.output == "done"
        assert len(up.requests) == 4

    staged(scene, reply("chat", *text("done")))


@each("kind", ["stream", "run"])
def test_readers_in_turns_do_not_share_the_events(kind: str) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        source: Any = client.chat_stream(MODEL, "q") if kind == "stream" else client.run(MODEL, "q")
        first, second = source.batches(), source.batches()
        events = await anext(first)
        with pytest.raises(InputError, match="somebody else is reading"):
            await anext(second)
        await second.aclose()
        events += [event async for batch in first for event in batch]
        assert isinstance(events[-1], ev.Finish)

    staged(scene, reply("chat", *text("done")))


def test_a_tool_that_awaits_its_own_run_gets_an_error() -> None:
    runs: list[Run[str]] = []

    async def look(place: str) -> str:
        await finish(runs[0])
        return place

    async def scene(_: Upstream, client: Client) -> None:
        runs.append(client.run(MODEL, "q", tools=[look]))
        run = await runs[0]
        assert "somebody else is reading" in run.steps[0].results[0].json
        assert run.output == "done"

    staged(scene, CALL, reply("chat", *text("done")))


def test_a_batch_is_read_once() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        batch = client.map(["a"], model=MODEL)
        found, error = await asyncio.gather(batch.results(), batch.results(), return_exceptions=True)
        assert isinstance(found, list)
        assert isinstance(error, InputError)

    staged(scene, reply("chat", *text("done")))


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────


@each(
    "provider, part, reason",
    [
        ("chat", rq.Text("I cannot help.", refusal=True), "stop"),
        ("anthropic", rq.Text("I cannot help."), "refusal"),
        ("anthropic", rq.Reasoning("Hm."), "refusal"),
    ],
)
def test_a_refusal_is_seen_in_one_place(provider: str, part: rq.AnyPart, reason: ev.Reason) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        answer = await client.chat(model_of(provider), "q")
        assert answer.refused
        with pytest.raises(InvalidOutput, match="the model declined"):
            await finish(client.run(model_of(provider), "q", output=int))

    staged(scene, reply(provider, part, reason=reason))


def test_an_answer_is_not_refused() -> None:
    assert not rq.Turn(parts=[rq.Text("Yes.")], finish=ev.Finish("stop")).refused
    assert not rq.Turn(finish=ev.Finish("filter")).refused


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────

FAILED = "<ps:tool-failed/>\nit is raining"


@each("content", [FAILED, [{"type": "text", "text": FAILED}]])
def test_a_tools_words_are_not_taken_for_a_failure(content: Any) -> None:
    function = {"name": "look", "arguments": "{}"}
    called = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}

    async def scene(up: Upstream, client: Client) -> None:
        result = {"role": "tool", "tool_call_id": "call_1", "content": content}
        await client.chat(model_of("anthropic"), [{"role": "user", "content": "q"}, called, result])
        (sent,) = sent_results(up.requests[0], "anthropic")
        assert not sent.failed
        assert result_text(sent) == FAILED

    staged(scene, reply("anthropic", *text("done")))


@each("provider", ["chat", "responses", "anthropic", "gemini", "cohere", "ollama"])
def test_what_a_tool_of_a_run_says_is_not_taken_for_a_failure(provider: str) -> None:
    def look() -> str:
        return FAILED

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(model_of(provider), "q", tools=[look])
        (result,) = run.steps[0].results
        (sent,) = sent_results(up.requests[1], provider)
        for one in (result, sent):
            assert not one.failed
            assert result_text(one) == FAILED

    staged(scene, reply(provider, call("look")), reply(provider, *text("done")))


# ── pipes ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_pipe_takes_bytes() -> None:
    pipe = penstock.bridge("openai-chat", "anthropic")
    with pytest.raises(InputError, match=r"expected bytes, found str; call \.encode\(\)"):
        pipe.feed(cast("Any", "data: {}"))
    data = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    outputs = [
        penstock.bridge("openai-chat", "anthropic").feed(cast("Any", one))
        for one in (data, bytearray(data), memoryview(data), [data])
    ]
    assert all(output == outputs[0] != [] for output in outputs)
