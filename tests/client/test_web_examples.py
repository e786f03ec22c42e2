"""The web examples as real servers, with the class behind `useChat` of AI SDK 5, 6 and 7 as their client."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.messages import read_request
from penstock.request import Message, Result, Text
from penstock.testing import Reply, Upstream, answer, play, scripted
from tests.cli.command_runner import environment
from tests.client.example_server import KEY
from tests.oracles.node.oracle import UI_VERSIONS, Oracles, Version
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.testing import ReceivedRequest

ROOT = PROJECT
EXAMPLES = ("web_starlette", "web_fastapi", "web_django")
SLOW = Reply.of("openai-chat", play("text")).slow(0.05)
each_version = each("ai", UI_VERSIONS)


def reply(seen: ReceivedRequest) -> Reply:
    """An agent that calls the tool and tells its result; some words of the user's make it fail."""
    request = read_request(seen.json, "openai-chat")
    said = " ".join(part.text for part in last_user(request.messages).parts if isinstance(part, Text))
    if "slow" in said:
        return SLOW
    if "refuse" in said:
        return Reply.error("openai-chat", 429, "too many requests")
    if "break" in said:
        return Reply.of("openai-chat", play("error"))
    if "fail later" in said and any(isinstance(part, Result) for one in request.messages for part in one.parts):
        return Reply.error("openai-chat", 401, f"wrong key {KEY}")
    request.model = "replay/agent"
    return Reply.of("openai-chat", answer(request))


def last_user(messages: list[Message]) -> Message:
    return next(message for message in reversed(messages) if message.role == "user")


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with scripted(reply) as up:
        yield up


def started(name: str, upstream: Upstream, *modes: str) -> Iterator[str]:
    pytest.importorskip(name.removeprefix("web_"))
    command = [sys.executable, "-W", "error", "-m", "tests.client.example_server", name, upstream.url, *modes]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), process.communicate(timeout=10)
        yield url
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert errors == ""


@pytest.fixture(scope="module", params=EXAMPLES)
def server(request: Any, upstream: Upstream) -> Iterator[str]:
    """An example as it is."""
    yield from started(request.param, upstream)


@pytest.fixture(scope="module", params=EXAMPLES)
def asking_server(request: Any, upstream: Upstream) -> Iterator[str]:
    """An example whose tool waits for approval."""
    yield from started(request.param, upstream, "approval")


def chat(oracles: Oracles, ai: Version, url: str, *prompts: str, **more: Any) -> dict[str, Any]:
    ((seen,),) = oracles.run("chats", ai, [{"url": url, "prompts": list(prompts), **more}])
    return seen


def parts(message: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    return [part for part in message["parts"] if part["type"].startswith(kinds)]


def text(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in parts(message, "text"))


def wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


@each_version
def test_a_tool_runs_on_the_server_over_two_steps(
    oracles: Oracles, server: str, upstream: Upstream, ai: Version
) -> None:
    before = len(upstream.requests)
    seen = chat(oracles, ai, server, "How deep is it?", "And now?")
    assert "error" not in seen, seen["error"]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "user", "assistant"]
    for message in (seen["messages"][1], seen["messages"][3]):
        (tool,) = parts(message, "tool-", "dynamic-tool")
        assert tool["state"] == "output-available"
        assert tool["output"].endswith(": 3.2 m")
        assert not tool.get("providerExecuted")
        assert len(parts(message, "step-start")) == 2
        assert "3.2 m" in text(message)
        assert message["metadata"]["usage"]["outputTokens"] > 0
    assert [finish["isError"] for finish in seen["finishes"]] == [False, False]
    assert len(seen["requests"]) == 2, "the page asks once for each message"
    assert len(upstream.requests) == before + 4, "the server asks for each step"
    last = upstream.requests[-1].json["messages"]  # the whole conversation, with the calls and results of both turns
    assert [message["role"] for message in last] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]


@each("approve", [True, False])
@each("ai", [6, 7])
def test_a_tool_waits_for_approval(oracles: Oracles, asking_server: str, ai: Version, approve: bool) -> None:
    seen = chat(oracles, ai, asking_server, "How deep is it?", approve=approve)
    assert "error" not in seen, seen["error"]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"], "no message is shown twice"
    message = seen["messages"][1]
    (tool,) = parts(message, "tool-", "dynamic-tool")
    assert tool["approval"]["approved"] is approve
    assert tool["state"] == ("output-available" if approve else "output-denied"), tool
    assert ("3.2 m" in text(message)) is approve
    assert len(seen["requests"]) == 2


@each_version
def test_without_an_answer_nothing_runs(oracles: Oracles, asking_server: str, upstream: Upstream, ai: Version) -> None:
    before = len(upstream.requests)
    seen = chat(oracles, ai, asking_server, "How deep is it?")
    (tool,) = parts(seen["messages"][1], "tool-", "dynamic-tool")
    assert "output" not in tool
    assert len(upstream.requests) == before + 1


@each_version
def test_stop_closes_the_upstream(oracles: Oracles, server: str, upstream: Upstream, ai: Version) -> None:
    before = len(upstream.requests)
    seen = chat(oracles, ai, server, "slow, please", stopAt=10)
    assert seen["finishes"][0]["isAbort"] is True
    assert len(text(seen["messages"][1])) >= 10
    request = upstream.requests[before]
    wait_until(request.disconnected.is_set)
    assert request.sent < len(SLOW.data)


@each_version
def test_an_error_before_the_first_byte_reaches_the_page(oracles: Oracles, server: str, ai: Version) -> None:
    seen = chat(oracles, ai, server, "refuse this")
    assert "too many requests" in str(seen["error"])
    assert seen["status"] == "error"
    assert seen["finishes"][0]["isError"] is True


@each_version
def test_an_error_in_the_middle_reaches_the_page(oracles: Oracles, server: str, ai: Version) -> None:
    seen = chat(oracles, ai, server, "break off")
    assert "overloaded" in seen["error"]["message"]
    assert text(seen["messages"][1]).startswith("The turbine")


@each_version
def test_an_error_of_a_later_step_reaches_the_page(oracles: Oracles, server: str, ai: Version) -> None:
    seen = chat(oracles, ai, server, "fail later")
    assert "wrong key" in seen["error"]["message"]
    assert KEY not in str(seen)
    (tool,) = parts(seen["messages"][1], "tool-", "dynamic-tool")
    assert tool["state"] == "output-available"
