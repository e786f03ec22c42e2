"""Every row of Open Responses' compliance suite, and every gap that it leaves, has tests of ours; this is the list.

`python -m tests.gateway.test_open_responses_rows` prints it. The rows are read where they lie, if they do (`PENSTOCK_SPECS`).
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.gateway.openresponses import spec
from tests.gateway.test_responses import ROWS

HERE = Path(__file__).parent
HTTP, SOCKET, STORED = "test_responses.py", "test_websocket.py", "test_responses_stored.py"
SUITE = f"{HTTP}::test_a_row_of_the_suite_holds"
TESTS: dict[str, tuple[str, ...]] = {
    "basic-response": (SUITE,),
    "assistant-phase": (SUITE,),
    "response-output-phase-schema": ("test_open_responses_rows.py::test_the_phase_of_a_message_is_within_the_schema",),
    "streaming-response": (SUITE,),
    "system-prompt": (SUITE,),
    "tool-calling": (f"{HTTP}::test_tool_calling",),
    "tool-calling-streaming": (f"{HTTP}::test_tool_calling",),
    "image-input": (SUITE,),
    "multi-turn": (SUITE,),
    "compact-response": (f"{HTTP}::test_compaction",),
    "compact-missing-model": (f"{HTTP}::test_compaction_needs_a_model",),
    "websocket-response": (f"{SOCKET}::test_a_response",),
    "websocket-sequential-responses": (f"{SOCKET}::test_responses_one_after_the_other",),
    "websocket-continuation": (f"{SOCKET}::test_a_continuation",),
    "websocket-reconnect-store-false-recovery": (f"{SOCKET}::test_a_new_connection_knows_nothing_that_was_not_stored",),
    "websocket-previous-response-not-found": (f"{SOCKET}::test_a_response_that_never_was",),
    "websocket-failed-continuation-evicts-cache": (f"{SOCKET}::test_a_continuation_that_fails_is_forgotten",),
    "websocket-compact-new-chain": (f"{SOCKET}::test_a_compacted_conversation_begins_a_new_chain",),
}
GAPS: dict[str, tuple[str, ...]] = {
    "tool result round trip": (f"{HTTP}::test_a_tool_result_goes_back", f"{SOCKET}::test_a_warm_up_asks_nobody"),
    "reasoning events": (f"{HTTP}::test_reasoning_is_a_summary", "test_response_store.py::test_reasoning_that_must_come_back_does"),
    "streaming tool calls": (f"{HTTP}::test_tool_calling",),
    "error events over SSE": (f"{HTTP}::test_a_stream_that_breaks_fails_in_so_many_words",),
    "order and balance of added and done": (f"{HTTP}::test_tool_calling", SUITE),
    "sequence numbers": (SUITE, f"{HTTP}::test_a_stream_that_breaks_fails_in_so_many_words"),
    "incomplete": (f"{HTTP}::test_a_response_that_is_cut_short_is_incomplete",),
    "failed": (f"{HTTP}::test_a_stream_that_breaks_fails_in_so_many_words", f"{SOCKET}::test_a_stream_that_breaks_ends_with_one_message"),
    "[DONE]": (SUITE,),
    "previous_response_id over HTTP": (f"{STORED}::test_a_chain_is_sent_whole", f"{STORED}::test_what_is_not_stored_cannot_be_gone_on_from"),
    "what is not served": (f"{HTTP}::test_what_is_not_served_says_so", f"{SOCKET}::test_what_is_not_understood_is_said_and_the_connection_stays"),
}  # fmt: skip


@cache
def _functions(name: str) -> set[str]:
    tree = ast.parse((HERE / name).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.row("G1")
@pytest.mark.parametrize("row", [*TESTS, *GAPS])
def test_a_row_has_its_tests(row: str) -> None:
    for test in (TESTS | GAPS)[row]:
        name, _, function = test.partition("::")
        assert function in _functions(name), test
    if TESTS.get(row) == (SUITE,) and row != "streaming-response":
        assert row in ROWS


@pytest.mark.row("G1")
def test_no_row_of_the_suite_is_forgotten() -> None:
    page = spec().with_name("COMPLIANCE.md")
    if not page.is_file():
        pytest.skip("corpus absent: the list of the suite's rows is not there")
    named = {
        match[1] for line in page.read_text().splitlines() if (match := re.match(r"\| \(?([a-z][a-z-]+)\)? \|", line))
    }
    assert named - {"id"} == TESTS.keys()


@pytest.mark.slow
@pytest.mark.row("G1")
def test_the_phase_of_a_message_is_within_the_schema() -> None:
    """A message may say whether it is on the way or the answer; a stream that says so is handed on, and lawful."""
    import json

    from penstock.testing import Reply
    from tests.gateway.gateway_thread import answer, gateway
    from tests.gateway.openresponses import asking, events, lawful, resource

    def phased(seen: object) -> Reply:
        reply = answer(seen)  # type: ignore[arg-type]
        marked = [
            chunk.replace(b'"role":"assistant"', b'"role":"assistant","phase":"final_answer"') for chunk in reply.chunks
        ]
        return Reply(tuple(marked), reply.status, reply.headers)

    with gateway(phased) as (running, _), asking(running.url) as http:
        body = {"model": "responses/text", "input": "Hi."}
        whole = resource(json.loads(http.post("/responses", json=body).content))
        stream = lawful(events(http.post("/responses", json={**body, "stream": True}).text))
    assert [item["phase"] for response in (whole, stream) for item in response["output"]] == ["final_answer"] * 2


if __name__ == "__main__":
    for row, tests in (TESTS | GAPS).items():
        sys.stdout.write(f"{row:<45} {', '.join(tests)}\n")
