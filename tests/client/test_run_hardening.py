"""Tools, hooks and processes that misbehave: a run, a client and an error hold all the same."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import sys
import threading
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

import penstock
from penstock import errors
from penstock.events import Fault
from penstock.testing import Reply, Upstream
from tests.support.client_parts import ExchangeRedactor, OutputType, find_violations
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

MODEL = "openai/gpt-4o"
LIMIT = 20


P = ParamSpec("P")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an async test."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def stop_iteration() -> str:
    return next(iter([]))


def end_the_program() -> None:
    sys.exit(3)


async def end_the_program_async() -> None:
    sys.exit(3)


async def cancel_itself() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def half_a_pair() -> str:
    return "found: \ud800"


def raise_half_a_pair() -> str:
    raise ValueError("\ud800")


async def run_once(tool: Any, **settings: Any) -> penstock.Run[str]:
    async with Upstream(Reply.calls([(tool.__name__, {})]), "done") as up, up.client() as client:
        async with asyncio.timeout(LIMIT):
            return await client.run(MODEL, "q", tools=[tool], **settings)


@each("tool, text", [
        (stop_iteration, "StopIteration"), (end_the_program, "SystemExit"), (end_the_program_async, "SystemExit"),
        (cancel_itself, "cancelled"), (raise_half_a_pair, "ValueError"),
    ])  # fmt: skip
@in_a_loop
async def test_whatever_a_tool_raises_is_told_to_the_model(
    tool: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "penstock.run")  # half a pair cannot be written to a report
    run = await run_once(tool)
    (result,) = run.steps[0].results
    assert result.failed
    assert text in result.json
    assert run.output == "done"


@in_a_loop
async def test_half_a_surrogate_pair_is_replaced() -> None:
    run = await run_once(half_a_pair)
    (result,) = run.steps[0].results
    assert not result.failed
    assert "found: \ufffd" in result.json


@in_a_loop
async def test_tools_that_hang_keep_no_thread_from_others() -> None:
    """Threads are daemons of their own: neither other tools nor the end of the program wait for them."""
    release = threading.Event()

    def hang(number: int) -> int:
        release.wait(LIMIT)
        return number

    @penstock.tool(timeout=LIMIT)
    def quick() -> str:
        return "quick"

    calls = Reply.calls([("hang", {"number": number}) for number in range(40)])
    async with Upstream(calls, Reply.calls([("quick", {})]), "done") as up, up.client() as client:
        try:
            run = await client.run(MODEL, "q", tools=[hang, quick], tool_timeout=0.2, parallel=40)
            assert all(result.failed for result in run.steps[0].results)
            (second,) = run.steps[1].results
            assert not second.failed
            left = [thread for thread in threading.enumerate() if thread.name == "penstock-tool"]
            assert len(left) >= 40  # other tests may have left some
            assert all(thread.daemon for thread in left)
        finally:
            release.set()


@in_a_loop
async def test_a_tool_that_ignores_its_cancellation_is_left_behind() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    began = time.monotonic()
    run = await run_once(stubborn, tool_timeout=0.1)
    release.set()
    assert run.steps[0].results[0].failed
    assert time.monotonic() - began < LIMIT / 2


def test_a_hook_that_calls_its_own_sync_client_gets_an_error() -> None:
    raised: list[str] = []

    def ask_again(_: Any) -> None:
        try:
            client.list_models("replay")
        except RuntimeError as error:
            raised.append(str(error))

    with penstock.SyncClient(on_finish=ask_again) as client:
        client.chat("replay/text", "x")
    assert raised == ["a hook or an async tool called its own SyncClient; use penstock.Client there"]


def test_a_sync_client_refuses_to_work_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    with penstock.SyncClient() as client:
        client.chat("replay/text", "x")
        with monkeypatch.context() as patch:
            patch.setattr("os.getpid", lambda: -1)
            with pytest.raises(RuntimeError, match="create one in each process"):
                client.chat("replay/text", "x")


def make_errors() -> list[errors.PenstockError]:
    fault = Fault("rate-limit", "slow down")
    return [
        errors.RateLimited(fault, provider="openai", model="m", headers={"retry-after": "2"}),
        errors.InvalidOutput("wrong", "{}"),
        errors.UnknownParameter("chat", "temprature", "did you mean temperature?"),
        errors.BudgetExceeded(1.0, 2.0),
        errors.BadRequest("a text", 3, "messages").at(0),
        errors.TooDeep("a"),
        errors.UnknownProtocol("openai", ["openai-chat"]),
        errors.MissingExtra("mcp", "mcp"),
        errors.StreamFault(fault),
    ]


@each("error", make_errors(), name=lambda error: type(error).__name__)
def test_errors_can_be_pickled(error: errors.PenstockError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 — made here
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_every_kind_of_error_is_pickled_alike() -> None:
    assert {type(error).__reduce__ for error in make_errors()} == {errors.PenstockError.__reduce__}


@in_a_loop
async def test_a_run_that_was_cancelled_says_so() -> None:
    async with Upstream(Reply.text("never").stall(after=0)) as up, up.client() as client:
        run = client.run(MODEL, "q")
        task = asyncio.ensure_future(run)
        await asyncio.wait({task}, timeout=0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            _ = await task
        assert await run is run
        assert isinstance(run.end, Fault)
        assert run.end.kind == "cancelled"
        with pytest.raises(penstock.StreamFault):
            _ = run.output


@in_a_loop
async def test_a_request_that_was_refused_is_shown_as_failed() -> None:
    async with Upstream(Reply.error(status=400), Reply.error(status=400)) as up, up.client() as client:
        stream, run = client.chat_stream(MODEL, "q"), client.run(MODEL, "q")
        with pytest.raises(penstock.ProviderError):
            await stream.turn()
        with pytest.raises(penstock.ProviderError):
            _ = await run
        for shown in (stream, run):
            assert isinstance(shown.end, Fault)
            assert "not sent" not in repr(shown)
            assert "not started" not in repr(shown)
            assert shown.end.message in shown._repr_html_()


@each(
    "settings",
    [
        {"max_steps": "3"}, {"max_steps": 0}, {"parallel": True}, {"retries": -1}, {"tool_timeout": -1}, {"tools": print},
        {"stop_when": 3}, {"approve": True}, {"stream": True},
    ],
    name=str,
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with penstock.SyncClient() as client, pytest.raises(penstock.errors.InputError, match=next(iter(settings))):
        client.run("replay/text", "q", **settings)


@each(
    "schema, right, wrong",
    [
        ({"uniqueItems": True}, [1, True, "1"], [1, 1.0]),
        ({"const": 1}, 1.0, True),
        ({"enum": [1, "a"]}, "a", True),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], [1, 1]),
        ({"not": {"type": "integer"}}, "a", 1),
        ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, {"x1": 1}, {"x1": "a"}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}, {"y": 1}),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 5}}, "ab", "a"),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 5}}, 5, 4),
    ],
)
def test_keywords_of_json_schema(schema: dict[str, Any], right: Any, wrong: Any) -> None:
    assert find_violations(right, schema) == []
    assert find_violations(wrong, schema) != []


@each("schema", [{"type": "nonsense"}, {"$ref": "#/$defs/none"}, {"anyOf": [{"type": ["x"]}]}])
def test_a_schema_that_would_check_nothing_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(penstock.errors.InputError, match="schema"):
        OutputType(schema)


@each(
    "text, secret",
    [
        ("limit of org-AbCdEfGhIjKlMnOpQrStUvWx reached", "org-AbCdEfGhIjKlMnOpQrStUvWx"),
        ("limit of proj_ABCDEFGHIJKLMNOPQRST reached", "proj_ABCDEFGHIJKLMNOPQRST"),
        ("the hook is xoxb-1234567890-abcdefghij", "1234567890-abcdefghij"),
        ("-----BEGIN RSA PRIVATE KEY-----MIIEpAIBAAKCAQEA7b-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7b"),
        ("see https://a.example/blob?sv=1&sig=abcdefgh12345678", "abcdefgh12345678"),
        ("see https://a.example/file?token=abcdefgh12345678", "abcdefgh12345678"),
    ],
)
def test_secrets_in_texts_are_removed(text: str, secret: str) -> None:
    data, hidden = ExchangeRedactor().redact_response(json.dumps({"error": text}).encode())
    assert secret.encode() not in data
    assert hidden == 1


def test_passwords_are_removed_by_name() -> None:
    assert ExchangeRedactor().redact_request({"json": {"password": "hunter22"}}) != {"json": {"password": "hunter22"}}
