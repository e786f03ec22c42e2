"""Searches and programs that a provider ran, once they are written as another's own tools.

How each is written is in the golden cases `tests/streams/events/search-*` and `program-*`.
"""

from __future__ import annotations

from penstock import _provider_tool_fields as provider_tools
from penstock.messages import convert
from tests.support import small_streams as small
from tests.support.stream_cases import cases


def test_a_foreign_search_in_the_history_is_never_sent_to_anthropic_as_its_own() -> None:
    """Its results have no ciphertext, which Anthropic insists on."""
    (search,) = (case.expected() for case in cases("events") if case.id == "events/search-responses")
    blocks = [one["content_block"] for one in small.of_type(small.sent("anthropic", search), "content_block_start")]
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


def test_answers_of_any_depth_and_shape_are_read() -> None:
    assert provider_tools.found_pages("[" * 5000 + "]" * 5000) == []
    assert provider_tools.search_queries("7") == []
    assert provider_tools.program_code("no JSON") == ""
    assert provider_tools.program_output('"as it is"') == "as it is"
