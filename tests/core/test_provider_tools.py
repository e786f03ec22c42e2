"""Searches and programs that a provider ran, written as the target's own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock.messages import convert
from tests.support import small_streams as small

RAN: dict[str, Any] = {"by": "provider"}


def run(name: str, given: Any, answer: Any, *, failed: bool = False) -> list[ev.AnyEvent]:
    said = json.dumps(given)
    return [
        ev.Start("turn_1", "m"), ev.CallStart(0, "run_1", name, **RAN), ev.CallDelta(0, said),
        ev.CallEnd(0, "run_1", name, said, **RAN), ev.Result(1, "run_1", name, json.dumps(answer), failed),
        ev.TextStart(2), ev.TextDelta(2, "So."), ev.TextEnd(2), ev.Finish("stop"),
    ]  # fmt: skip


SEARCHES = {
    "anthropic": ("web_search", {"query": "tides"}, [{"type": "web_search_result", "url": "http://a", "title": "A"}]),
    "gemini": ("google_search", {"queries": ["tides"]}, [{"web": {"uri": "http://a", "title": "A"}}]),
    "responses": (
        "web_search", {"action": {"type": "search", "query": "tides"}}, {"sources": [{"type": "url", "url": "http://a"}]}
    ),
}  # fmt: skip
PROGRAMS = {
    "anthropic": ("code_execution", {"code": "1+1"}, {"type": "code_execution_result", "stdout": "2", "stderr": ""}),
    "gemini": ("code_execution", {"language": "PYTHON", "code": "1+1"}, {"outcome": "OUTCOME_OK", "output": "2"}),
    "responses": ("code_interpreter", {"code": "1+1", "container_id": "c"}, [{"type": "logs", "logs": "2"}]),
}


@pytest.mark.parametrize("provider", SEARCHES)
def test_a_search_is_an_item_of_responses(provider: str) -> None:
    payloads = small.sent("responses", run(*SEARCHES[provider]))
    kinds = [payload["type"] for payload in payloads[2:7]]
    assert kinds == [
        "response.output_item.added", "response.web_search_call.in_progress", "response.web_search_call.searching",
        "response.web_search_call.completed", "response.output_item.done",
    ]  # fmt: skip
    item = payloads[-1]["response"]["output"][0]
    assert (item["type"], item["status"]) == ("web_search_call", "completed")
    assert item["action"] == {
        "type": "search", "query": "tides", "queries": ["tides"], "sources": [{"type": "url", "url": "http://a"}]
    }  # fmt: skip


@pytest.mark.parametrize("provider", PROGRAMS)
def test_a_program_is_an_item_of_responses(provider: str) -> None:
    item = small.sent("responses", run(*PROGRAMS[provider]))[-1]["response"]["output"][0]
    assert (item["type"], item["code"]) == ("code_interpreter_call", "1+1")
    assert item["outputs"] == [{"type": "logs", "logs": "2"}]


def test_a_page_that_was_read_is_an_item_of_responses() -> None:
    item = small.sent("responses", run("web_fetch", {"url": "http://a"}, {}))[-1]["response"]["output"][0]
    assert item["action"] == {"type": "open_page", "url": "http://a"}


def test_a_search_that_failed_says_so() -> None:
    payloads = small.sent("responses", run("web_search", {"query": "x"}, {"error_code": "unavailable"}, failed=True))
    assert small.of_type(payloads, "response.web_search_call.completed") == []
    assert payloads[-1]["response"]["output"][0]["status"] == "failed"


def test_a_search_whose_answer_never_comes_is_done_at_the_end() -> None:
    events = [event for event in run("web_search", {"query": "x"}, []) if not isinstance(event, ev.Result)]
    renumbered = [*events[:4], ev.Finish("pause")]
    payloads = small.sent("responses", renumbered)
    assert [item["status"] for item in payloads[-1]["response"]["output"]] == ["completed"]


@pytest.mark.parametrize("provider", ["gemini", "responses"])
def test_a_search_is_a_server_tool_of_messages(provider: str) -> None:
    payloads = small.sent("anthropic", run(*SEARCHES[provider]))
    blocks = [payload["content_block"] for payload in small.of_type(payloads, "content_block_start")]
    assert [block["type"] for block in blocks] == ["server_tool_use", "web_search_tool_result", "text"]
    assert (blocks[0]["name"], blocks[0]["id"]) == ("web_search", blocks[1]["tool_use_id"])
    assert [page["url"] for page in blocks[1]["content"]] == ["http://a"]
    [asked] = [payload["delta"]["partial_json"] for payload in payloads if "partial_json" in payload.get("delta", {})]
    assert json.loads(asked) == {"query": "tides"}


@pytest.mark.parametrize("failed", [False, True])
def test_a_program_is_a_server_tool_of_messages(failed: bool) -> None:
    payloads = small.sent("anthropic", run(*PROGRAMS["responses"], failed=failed))
    [_, result, _] = [payload["content_block"] for payload in small.of_type(payloads, "content_block_start")]
    assert result["content"] == {
        "type": "code_execution_result", "stdout": "" if failed else "2", "stderr": "2" if failed else "",
        "return_code": int(failed), "content": [],
    }  # fmt: skip


def test_no_message_ends_with_a_foreign_search() -> None:
    """Gemini tells of its searches after the text; Claude Code takes the last block for the answer."""
    start, *search, _, _, _, finish = run(*SEARCHES["gemini"])
    assert isinstance(search[-1], ev.Result)
    late = [start, ev.TextStart(0), ev.TextDelta(0, "So."), ev.TextEnd(0), *(replace(one, index=1) for one in search)]
    payloads = small.sent("anthropic", [*late[:-1], replace(search[-1], index=2), finish])
    blocks = [payload["content_block"]["type"] for payload in small.of_type(payloads, "content_block_start")]
    assert blocks == ["text"]


def test_a_foreign_search_in_the_history_is_never_sent_to_anthropic_as_its_own() -> None:
    """Its results have no ciphertext, which Anthropic insists on."""
    payloads = small.sent("anthropic", run(*SEARCHES["responses"]))
    blocks = [payload["content_block"] for payload in small.of_type(payloads, "content_block_start")]
    body = {"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "When?"}, {"role": "assistant", "content": blocks},
        {"role": "user", "content": "Thanks."},
    ]}  # fmt: skip
    made = convert(body, "anthropic", "anthropic")
    kinds: list[str] = [
        block["type"] for message in made.body["messages"] for block in message["content"] if isinstance(block, dict)
    ]
    assert kinds == ["tool_use", "tool_result", "text"]
    assert "carried-provider-call" in [row.code for row in made.diagnostics]


@pytest.mark.parametrize("provider", ["anthropic", "responses"])
def test_a_search_leaves_its_queries_with_gemini(provider: str) -> None:
    last = small.sent("gemini", run(*SEARCHES[provider]))[-1]
    assert last["candidates"][0]["groundingMetadata"]["webSearchQueries"] == ["tides"]


@pytest.mark.parametrize("failed", [False, True])
def test_a_program_has_parts_of_gemini(failed: bool) -> None:
    payloads = small.sent("gemini", run(*PROGRAMS["responses"], failed=failed))
    parts = [part for one in payloads for part in one["candidates"][0]["content"]["parts"]]
    assert parts[0] == {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    outcome = "OUTCOME_FAILED" if failed else "OUTCOME_OK"
    assert parts[1] == {"codeExecutionResult": {"outcome": outcome, "output": "2"}}


def test_answers_of_any_depth_and_shape_are_read() -> None:
    assert provider_tools.found_pages("[" * 5000 + "]" * 5000) == []
    assert provider_tools.search_queries("7") == []
    assert provider_tools.program_code("no JSON") == ""
    assert provider_tools.program_output('"as it is"') == "as it is"
