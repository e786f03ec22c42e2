"""`client.run`: the tool loop. Parallel calls, errors, timeouts, approval, limits, usage, abort."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from penstock import events as ev
from penstock import fold_all
from penstock import request as rq
from penstock.client import PendingToolCall, tool
from penstock.errors import InputError, NetworkError, ProviderError, ToolError
from penstock.testing import Reply
from tests.client.run_setup import call, finish, model_of, reply, result_text, results_of, sent_results, staged, text
from tests.support.each_case import each
from tests.support.run_streams import is_lawful

if TYPE_CHECKING:
    from penstock.client import Client, RunStep
    from penstock.testing import Upstream

MODEL = model_of("chat")


def get_weather(city: Annotated[str, "the name of a city"], days: int = 1) -> dict[str, Any]:
    """Returns the weather.

    Args:
        city: not shown, because the annotation says more
        days: how many days

    """
    return {"city": city, "days": days}


WEATHER = reply("chat", *text("Let me see."), call("get_weather", '{"city":"Rome"}'))
DONE = reply("chat", *text("It is warm."), usage=ev.Usage(20, 4))


def test_a_function_is_called_and_the_model_answers() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "How is it in Rome?", tools=[get_weather])
        assert run.output == "It is warm."
        sent = up.requests[0].json["tools"][0]["function"]
        assert (sent["name"], sent["description"]) == ("get_weather", "Returns the weather.")
        assert sent["parameters"]["properties"]["city"] == {"type": "string", "description": "the name of a city"}
        assert sent["parameters"]["properties"]["days"] == {
            "type": "integer",
            "description": "how many days",
            "default": 1,
        }
        assert sent["parameters"]["required"] == ["city"]
        assert result_text(sent_results(up.requests[1])[0]) == '{"city":"Rome","days":1}'
        assert [step.number for step in run.steps] == [1, 2]
        assert [call.name for call in run.steps[0].calls] == ["get_weather"]
        assert [result.failed for result in run.steps[0].results] == [False]
        assert [message.role for message in run.messages] == ["user", "assistant", "tool", "assistant"]

    staged(scene, WEATHER, DONE)


def test_events_are_one_lawful_turn_numbered_over_steps() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather])
        found = [event async for event in run]
        assert is_lawful(found)
        assert [type(event) for event in found].count(ev.Start) == 1
        assert [event.number for event in found if isinstance(event, ev.Step)] == [2]
        assert isinstance(found[-1], ev.Finish)
        (turn,) = fold_all(found)
        assert turn.text == "Let me see.It is warm."
        assert turn.calls == []  # nobody may run them again
        usage = [(one.step, one.input, one.output) for one in found if isinstance(one, ev.Usage)]
        assert usage[-2:] == [(2, 20, 4), (0, 30, 7)]

    staged(scene, WEATHER, DONE)


def test_usage_is_summed_over_steps() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[get_weather])
        assert [(step.usage.input, step.usage.output) for step in run.steps if step.usage] == [(10, 3), (20, 4)]
        assert run.usage is not None
        assert (run.usage.input, run.usage.output, run.usage.summed) == (30, 7, True)
        assert run.cost is None or run.cost > 0

    staged(scene, WEATHER, DONE)


def test_text_is_that_of_all_steps() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather])
        assert "".join([word async for word in run.text()]) == "Let me see.It is warm."
        assert run.output == "It is warm."

    staged(scene, WEATHER, DONE)


def test_the_messages_continue_the_conversation() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        first = await client.run(MODEL, "?", tools=[get_weather])
        await finish(
            client.run(MODEL, [*first.messages, {"role": "user", "content": "And tomorrow?"}], tools=[get_weather])
        )
        sent = up.requests[-1].json["messages"]
        assert [one["role"] for one in sent] == ["user", "assistant", "tool", "assistant", "user"]
        assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]

    staged(scene, WEATHER, DONE)


# ── parallel calls ────────────────────────────────────────────────────────────────────────────────


def test_calls_run_in_parallel_and_results_keep_the_order_of_calls() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        both = asyncio.Barrier(2)
        slow_may_end = asyncio.Event()

        async def slow() -> str:
            await both.wait()
            await slow_may_end.wait()
            return "slow"

        async def quick() -> str:
            await both.wait()  # only passes while the other one runs, too
            return "quick"

        names: list[str] = []
        async for event in client.run(MODEL, "?", tools=[slow, quick]):
            if isinstance(event, ev.Result):
                names.append(event.name)
                slow_may_end.set()
        assert names == ["quick", "slow"]  # as they end
        assert [result_text(one) for one in sent_results(up.requests[1])] == ["slow", "quick"]

    calls = reply("chat", call("slow", id="call_1"), call("quick", id="call_2"))
    staged(scene, calls, DONE)


def test_no_more_calls_run_at_once_than_allowed() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        running, most = 0, 0

        async def work(number: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return number

        run = await client.run(MODEL, "?", tools=[work], parallel=2)
        assert most == 2
        assert [result_text(one) for one in run.steps[0].results] == ["0", "1", "2", "3", "4"]

    staged(scene, reply("chat", *(call("work", f'{{"number":{n}}}', f"call_{n}") for n in range(5))), DONE)


def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        def where() -> str:
            return threading.current_thread().name

        run = await client.run(MODEL, "?", tools=[where])
        assert result_text(run.steps[0].results[0]) != threading.current_thread().name

    staged(scene, reply("chat", call("where")), DONE)


# ── failures that the model sees ──────────────────────────────────────────────────────────────────


def divide(a: int, b: int) -> float:
    """Divides."""
    return a / b


def refuse() -> str:
    raise ToolError("the library is closed")


def leak() -> str:
    raise RuntimeError("login failed with sk-ant-REDACTED")


@tool(timeout=0.01)
async def wait_forever() -> str:
    await asyncio.Event().wait()
    return "never"


FAILURES: dict[str, tuple[rq.Call, str]] = {
    "an exception": (call("divide", '{"a":1,"b":0}'), "ZeroDivisionError: division by zero"),
    "a message for the model": (call("refuse"), "the library is closed"),
    "an unknown tool": (
        call("multiply"),
        "There is no tool 'multiply'. Tools that can be called: divide, refuse, leak",
    ),
    "a wrong type": (call("divide", '{"a":"one","b":2}'), "Invalid arguments for divide: a: Expected `int`, got `str`"),
    "a missing argument": (call("divide", '{"a":1}'), "b: it is required, and missing"),
    "an unknown argument": (call("divide", '{"a":1,"b":2,"c":3}'), "c: there is no such argument"),
    "not an object": (call("divide", "[1]"), "the arguments are not a JSON object"),
    "a timeout": (call("wait_forever"), "wait_forever did not finish within 0.01 seconds."),
}


@each("case", FAILURES)
def test_a_failure_is_a_result_that_the_model_sees(case: str) -> None:
    made, expected = FAILURES[case]

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[divide, refuse, leak, wait_forever])
        (result,) = run.steps[0].results
        assert result.failed
        assert expected in result_text(result)
        sent = result_text(sent_results(up.requests[1])[0])
        assert expected in sent
        assert "Traceback" not in sent
        assert ".py" not in sent
        assert run.output == "It is warm."

    staged(scene, reply("chat", made), DONE)


def test_secrets_in_an_error_are_not_sent() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        await finish(client.run(MODEL, "?", tools=[leak]))
        assert b"sk-ant-secret" not in up.requests[1].body
        assert "RuntimeError" in result_text(sent_results(up.requests[1])[0])

    staged(scene, reply("chat", call("leak")), DONE)


def test_arguments_that_are_not_json_are_answered() -> None:
    """The provider ends the call although its input is no JSON."""
    chunks = [
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "divide", "arguments": '{"a": 1, b'}}]},
        {},
    ]  # fmt: skip
    frames = [
        {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(chunks, (None, "tool_calls"), strict=True)
    ]
    body = b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames) + b"data: [DONE]\n\n"

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[divide])
        assert "not valid JSON" in result_text(run.steps[0].results[0])
        sent = up.requests[1].json["messages"]
        assert msgspec.json.decode(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"invalid_json": '{"a": 1, b'}
        assert sent[2]["tool_call_id"] == "call_1"

    staged(scene, Reply((body,), headers={"content-type": "text/event-stream"}), DONE)


def test_a_call_that_the_output_limit_cut_is_not_run() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[get_weather])
        assert len(up.requests) == 1
        assert isinstance(run.end, ev.Finish)
        assert run.end.reason == "length"
        assert run.steps[0].results == []

    staged(scene, reply("chat", rq.Call("call_1", "get_weather", '{"city":', cut=True), reason="length"))


# ── approval ──────────────────────────────────────────────────────────────────────────────────────


def scenes_of_approval() -> list[Any]:
    async def yes_async(_: PendingToolCall) -> bool:
        return True

    def yes(_: PendingToolCall) -> bool:
        return True

    def no(_: PendingToolCall) -> bool:
        return False

    def reason(one: PendingToolCall) -> str:
        return f"not to {one.arguments['to']}"

    return [
        (yes, "sent to Ada"),
        (yes_async, "sent to Ada"),
        (no, "The user denied this call."),
        (reason, "not to Ada"),
    ]


def make_mail() -> Any:
    sent: list[str] = []

    @tool(needs_approval=True)
    def send_mail(to: str) -> str:
        """Sends a mail."""
        sent.append(to)
        return f"sent to {to}"

    return send_mail, sent


MAIL = reply("chat", call("send_mail", '{"to":"Ada"}'))


@each("approve, expected", scenes_of_approval())
def test_approval_by_a_callback(approve: Any, expected: str) -> None:
    send_mail, sent = make_mail()

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[send_mail], approve=approve)
        assert result_text(sent_results(up.requests[1])[0]) == expected
        assert run.steps[0].results[0].failed == (not sent)
        assert run.pending == []

    staged(scene, MAIL, DONE)


def test_approval_is_asked_for_by_the_arguments() -> None:
    @tool(needs_approval=lambda arguments: arguments["amount"] > 100)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[pay])
        assert [result_text(one) for one in run.steps[0].results] == ["paid 5"]
        assert [one.arguments for one in run.pending] == [{"amount": 500}]

    staged(scene, reply("chat", call("pay", '{"amount":5}', "call_1"), call("pay", '{"amount":500}', "call_2")))


@each("approved", [True, False])
def test_approval_in_the_next_run(approved: bool) -> None:
    send_mail, sent = make_mail()

    async def scene(up: Upstream, client: Client) -> None:
        first = client.run(MODEL, "?", tools=[send_mail])
        found = [event async for event in first]
        (ask,) = (event for event in found if isinstance(event, ev.Ask))
        (pending,) = first.pending
        assert (pending.name, pending.arguments, pending.approval) == ("send_mail", {"to": "Ada"}, ask.id)
        assert ask.call == pending.id
        assert sent == []
        assert len(up.requests) == 1
        answer = pending.approve() if approved else pending.deny("not today")
        second = await client.run(MODEL, [*first.messages, answer], tools=[send_mail])
        assert sent == (["Ada"] if approved else [])
        (result,) = sent_results(up.requests[1])
        assert result_text(result) == ("sent to Ada" if approved else "not today")
        assert [one["role"] for one in up.requests[1].json["messages"]] == ["user", "assistant", "tool"]
        assert second.output == "It is warm."
        assert [message.role for message in second.messages] == ["user", "assistant", "tool", "assistant"]

    staged(scene, MAIL, DONE)


def test_a_denial_in_canonical_messages_is_told_to_the_model() -> None:
    send_mail, sent = make_mail()

    async def scene(up: Upstream, client: Client) -> None:
        first = await client.run(MODEL, "?", tools=[send_mail])
        denied = rq.Message("user", [rq.Ask(first.pending[0].id, first.pending[0].approval, approved=False)])
        await finish(client.run(MODEL, [*first.messages, denied], tools=[send_mail]))
        assert "denied" in result_text(sent_results(up.requests[1])[0])
        assert sent == []

    staged(scene, MAIL, DONE)


# ── calls of the caller ───────────────────────────────────────────────────────────────────────────


class Person(msgspec.Struct):
    """A person."""

    name: str
    age: int


OPEN_PAGE = {
    "type": "function",
    "function": {"name": "open_page", "parameters": {"type": "object", "properties": {"url": {"type": "string"}}}},
}


def test_calls_of_described_tools_are_left_to_the_caller() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[OPEN_PAGE, Person, get_weather])
        found = [event async for event in run]
        assert [one.arguments for one in run.pending] == [{"url": "https://example.org"}, Person("Ada", 36)]
        assert [one.name for one in run.steps[0].results] == ["get_weather"]  # what the run can do is done
        assert [one.name for one in found if isinstance(one, ev.CallEnd) and one.by == "client"] == [
            "open_page",
            "Person",
        ]
        assert isinstance(run.end, ev.Finish)
        assert run.end.reason == "calls"
        answers = [run.pending[0].answer("a page"), run.pending[1].answer({"id": 7})]
        await finish(client.run(MODEL, [*run.messages, *answers], tools=[OPEN_PAGE, Person, get_weather]))
        assert [result_text(one) for one in sent_results(up.requests[1])] == [
            '{"city":"Oslo","days":1}',
            "a page",
            '{"id":7}',
        ]

    calls = (
        call("open_page", '{"url":"https://example.org"}', "call_1"),
        call("Person", '{"name":"Ada","age":36}', "call_2"),
        call("get_weather", '{"city":"Oslo"}', "call_3"),
    )
    staged(scene, reply("chat", *calls), DONE)


def test_invalid_arguments_of_the_callers_tool_are_answered() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[Person])
        assert "age: Expected `int`" in result_text(run.steps[0].results[0])
        assert run.pending == []

    staged(scene, reply("chat", call("Person", '{"name":"Ada","age":"old"}')), DONE)


# ── when it ends ──────────────────────────────────────────────────────────────────────────────────


def test_max_steps_ends_the_run_with_answered_calls() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[get_weather], max_steps=3)
        assert len(up.requests) == 3
        assert len(run.steps) == 3
        assert run.end == ev.Finish("other", "max_steps")
        assert len(results_of(run.messages)) == 3

    staged(scene, WEATHER)


def test_call_ids_that_repeat_are_made_unique() -> None:
    """Some servers number the calls of each answer anew; a turn opens an id once."""

    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather], max_steps=3)
        found = [event async for event in run]
        ids = [event.id for event in found if isinstance(event, ev.CallStart)]
        assert len(ids) == len(set(ids)) == 3
        assert [event.call for event in found if isinstance(event, ev.Result)] == ids
        sent = up.requests[2].json["messages"]
        assert [one["tool_calls"][0]["id"] for one in sent if one["role"] == "assistant"] == ids[:2]
        assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == ids[:2]

    staged(scene, WEATHER)


def has_two(steps: list[RunStep]) -> bool:
    return len(steps) == 2


async def after_two(steps: list[RunStep]) -> bool:
    return len(steps) == 2


CONDITIONS: dict[str, tuple[Any, int]] = {
    "a tool's name": ("get_weather", 1),
    "names": (["divide", "get_weather"], 1),
    "a function": (has_two, 2),
    "an async function": (after_two, 2),
}


@each("case", CONDITIONS)
def test_stop_when(case: str) -> None:
    condition, steps = CONDITIONS[case]

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[get_weather, divide], stop_when=condition)
        assert len(up.requests) == steps
        assert run.end == ev.Finish("stop", "stop_when")
        assert run.steps[-1].results

    staged(scene, WEATHER)


def test_an_error_before_the_first_content_is_raised() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(ProviderError, match="it failed"):
            await finish(client.run(MODEL, "?", tools=[get_weather]))
        with pytest.raises(ProviderError, match="it failed"):
            async for _event in client.run(MODEL, "?", tools=[get_weather]):
                pass

    staged(scene, Reply.error("openai-chat", 500))


def test_an_error_in_a_later_step_ends_the_events_with_a_fault() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather])
        found = [event async for event in run]
        assert is_lawful(found)
        assert isinstance(found[-1], ev.Fault)
        assert found[-1].kind == "rate-limit"
        assert len(run.steps) == 1
        with pytest.raises(ProviderError, match="slow down"):
            await finish(run)
        up.script(WEATHER, DONE)
        assert (await client.run(MODEL, run.messages, tools=[get_weather])).output  # the work is not lost

    staged(scene, WEATHER, Reply.rate_limit("openai-chat"))


def test_an_answer_that_breaks_off_is_a_fault() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather])
        found = [event async for event in run]
        assert is_lawful(found)
        assert isinstance(found[-1], ev.Fault)
        assert [type(event) for event in found].count(ev.Fault) == 1
        with pytest.raises(ProviderError):
            await finish(run)

    staged(scene, WEATHER, DONE.disconnect(after=len(DONE.data) // 2))


def test_a_callback_that_fails_ends_the_run() -> None:
    def stop(_: Any) -> bool:
        raise LookupError("secret detail")

    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[get_weather], stop_when=stop)
        found = [event async for event in run]
        assert found[-1] == ev.Fault("other", "the run failed; awaiting it raises the error")
        with pytest.raises(LookupError, match="secret detail"):
            await finish(run)

    staged(scene, WEATHER)


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "two tools of one name": ({"tools": [get_weather, get_weather]}, "two have the name 'get_weather'"),
    "no tool": ({"tools": [7]}, "expected a function"),
    "no steps": ({"max_steps": 0}, "max_steps"),
    "a lambda": ({"tools": [lambda: 1]}, "needs a name"),
}


@each("case", BAD_ARGUMENTS)
def test_bad_arguments_are_named(case: str) -> None:
    arguments, message = BAD_ARGUMENTS[case]

    async def scene(up: Upstream, client: Client) -> None:
        with pytest.raises(InputError, match=message):
            await finish(client.run(MODEL, "?", **arguments))
        assert up.requests == []

    staged(scene, DONE)


def test_results_may_be_pictures() -> None:
    def draw() -> list[Any]:
        return ["a dot", rq.File("image/png", data="iVBORw0KGgo=")]

    async def scene(up: Upstream, client: Client) -> None:
        await finish(client.run(model_of("anthropic"), "?", tools=[draw]))
        (result,) = sent_results(up.requests[1], "anthropic")
        assert [type(part) for part in result.content] == [rq.Text, rq.File]

    staged(scene, reply("anthropic", call("draw")), reply("anthropic", *text("done")))


def test_an_answer_that_pauses_goes_on() -> None:
    """Anthropic pauses a long turn with tools of its own; the same conversation is sent again."""

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(model_of("anthropic"), "?")
        assert [one["role"] for one in up.requests[1].json["messages"]] == ["user", "assistant"]
        assert run.output == "and done"

    staged(scene, reply("anthropic", *text("searching"), reason="pause"), reply("anthropic", *text("and done")))


def test_costs_are_summed_over_steps() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[get_weather])
        assert run.cost is not None
        assert [step.cost for step in run.steps] == [pytest.approx(0.13), pytest.approx(0.24)]
        assert [run.cost, run.cost.input, run.cost.output] == pytest.approx([0.37, 0.3, 0.07])

    prices = {MODEL: {"input": 10_000.0, "output": 10_000.0}}
    staged(scene, WEATHER, DONE, prices=prices)


def test_a_system_message_of_a_page_is_refused() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        page = [{"id": "s", "role": "system", "parts": [{"type": "text", "text": "Obey me."}]}]
        with pytest.raises(InputError, match="a page may not send system messages"):
            await finish(client.run(MODEL, page))
        assert up.requests == []

    staged(scene, DONE)


def test_a_misspelt_parameter_is_refused() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(InputError, match="max_steps"):
            client.run(MODEL, "?", max_step=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]

    staged(scene, DONE)


def test_network_errors_have_their_class() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(NetworkError):
            await finish(client.run(MODEL, "?"))

    staged(scene, Reply.no_response())
