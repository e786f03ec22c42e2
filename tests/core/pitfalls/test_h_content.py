"""Section H: content filters, refusals, citations, files."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.small_streams import chat, delta

REFUSES = chat(delta({"content": "First you"}), delta({"refusal": "No, I will not."}), delta({}, "stop"))


def test_a_late_annotation_of_the_filter_is_kept_and_changes_nothing_else() -> None:
    late: dict[str, Any] = {"id": "", "object": "", "created": 0, "model": "", "choices": [
        {"index": 0, "finish_reason": None, "content_filter_results": {"hate": {"filtered": False}},
         "content_filter_offsets": {"check_offset": 0}}]}  # fmt: skip
    first = {**late, "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    found = small.turn("openai-chat", chat(first, delta({"content": "Hi."}), late, delta({}, "stop")))
    assert (found.id, found.model, found.text) == ("c1", "m", "Hi.")
    assert found.finish is not None
    assert set((found.finish.extra or {})["openai-chat"]) == {"content_filter_results", "prompt_filter_results"}


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"])
def test_a_policy_violation_is_a_filter_and_no_other_error(code: str) -> None:
    body = b'{"error":{"message":"Filtered","type":null,"code":"%b","status":400}}' % code.encode()
    fault = running.decode_body("openai-chat", body)[-1]
    assert isinstance(fault, ev.Fault)
    assert fault.kind == "filter"


@pytest.mark.parametrize("target", [name for name in running.targets() if running.row(name).decoder])
def test_a_refusal_arrives_everywhere(target: str) -> None:
    said = small.events("openai-chat", chat(delta({"refusal": "No."}), delta({}, "stop")))
    assert [type(event) for event in said[1:-1]] == [ev.RefusalStart, ev.RefusalDelta, ev.RefusalEnd]
    again = running.run(target, [running.encode(target, said)]).events
    words = [event.text for event in again if isinstance(event, ev.RefusalDelta | ev.TextDelta)]
    assert "".join(words).endswith("No.")


def test_a_refusal_after_text_is_not_a_complete_answer() -> None:
    found = small.turn("openai-chat", REFUSES)
    assert (found.text, found.refusal) == ("First you", "No, I will not.")
    said = small.events("openai-chat", REFUSES)
    (last,) = small.of_type(small.sent("anthropic", said), "message_delta")
    assert last["delta"]["stop_reason"] == "refusal"
    assert any("refusal" in choice["delta"] for p in small.sent("openai-chat", said) for choice in p["choices"])
    assert small.of_type(small.sent("responses", said), "response.refusal.delta")


def test_content_as_a_list_is_text_and_reasoning() -> None:
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Y"}]
    body = chat(delta({"content": thought}), delta({"content": [{"type": "text", "text": "es"}]}),
                delta({"content": "."}), delta({"content": []}, "stop"))  # fmt: skip
    found = small.turn("openai-chat", body)
    assert (found.reasoning, found.text) == ("Hm.", "Yes.")
