"""Section D: reasoning, and state that a provider wants back."""

from __future__ import annotations

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.small_streams import chat, delta
from tests.support.stream_cases import cases

SIGNED = [
    small.block(0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm."},
                {"type": "signature_delta", "signature": "c2ln"}, {"type": "signature_delta", "signature": "bmVk"}),
    small.block(1, {"type": "text", "text": "Yes."}),
]  # fmt: skip


def test_a_signature_is_kept_end_to_end() -> None:
    said = small.events("anthropic", small.message(*SIGNED))
    (end,) = [event for event in said if isinstance(event, ev.ReasoningEnd)]
    assert end.extra == {"anthropic": {"signature": "c2lnbmVk"}}
    (sent,) = [p["delta"] for p in small.sent("anthropic", said) if p.get("delta", {}).get("type") == "signature_delta"]
    assert sent["signature"] == "c2lnbmVk"


def test_unsigned_thinking_opens_with_an_empty_signature_and_gets_no_delta() -> None:
    body = chat(delta({"reasoning_content": "Hm."}), delta({"content": "Yes."}, "stop"))
    payloads = small.translated("openai-chat", "anthropic", body)
    (start, _) = [p["content_block"] for p in payloads if p["type"] == "content_block_start"]
    assert start == {"type": "thinking", "thinking": "", "signature": ""}
    assert "signature_delta" not in str(payloads)


@pytest.mark.parametrize("target", running.targets())
def test_encrypted_reasoning_of_another_protocol_is_left_out_and_nothing_malformed_comes_of_it(target: str) -> None:
    item = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "ZW5jcnlwdGVk"}
    body = small.response(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}},
    )
    said = small.events("responses", body)
    frames = running.encode(target, said)
    told = b"".join(data for _, data in frames)
    # AI SDK providers and the host carry it as metadata, Chat in `reasoning_details`; no other target has a field for it
    carrying = {"responses", "events", "aisdk", "uistream", "vscode", "openai-chat"}
    assert (b"ZW5jcnlwdGVk" in told) == (target in carrying)
    if running.row(target).decoder:
        assert isinstance(running.run(target, [frames]).events[-1], ev.Finish)


@pytest.mark.parametrize("body", ["<think>a < b</think>c", "<think>\na\n</think>\n\nc", "<thinking>a</thinking>c"])
def test_tags_may_be_cut_anywhere(body: str) -> None:
    for size in range(1, len(body)):
        pieces = [delta({"content": body[at : at + size]}) for at in range(0, len(body), size)]
        run = running.decode("openai-chat", chat(*pieces, delta({}, "stop")))
        told = "".join(event.text for event in run if isinstance(event, ev.ReasoningDelta))
        text = "".join(event.text for event in run if isinstance(event, ev.TextDelta))
        assert text == "c"
        assert told.strip().startswith("a")
        assert "think" not in told


@pytest.mark.parametrize("text", ["<", "<think", "<thi", "a <think>b</think>", "<b>x</b>"])
def test_what_only_looks_like_a_tag_is_text(text: str) -> None:
    assert small.turn("openai-chat", chat(*[delta({"content": one}) for one in text], delta({}, "stop"))).text == text


@pytest.mark.parametrize("target", running.targets())
def test_no_event_falls_through(target: str) -> None:
    """Each is written, or reported: an encoder without a row for it would raise."""
    for case in cases():
        assert running.encode(target, case.expected()), case.id


def test_a_summary_may_speak_before_it_is_announced_and_overlap_another() -> None:
    item = {"id": "rs", "type": "reasoning", "summary": []}
    told = "response.reasoning_summary_text.delta"
    body = small.response(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": told, "item_id": "rs", "output_index": 0, "summary_index": 0, "delta": "One"},
        {"type": told, "item_id": "rs", "output_index": 0, "summary_index": 1, "delta": "Two"},
        {"type": told, "item_id": "rs", "output_index": 0, "summary_index": 0, "delta": "!"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    )
    said = small.turn("responses", body)
    assert sorted(part.text for part in said.parts) == ["One!", "Two"]  # type: ignore[union-attr]


def test_thinking_blocks_come_back_as_they_were() -> None:
    redacted = small.block(0, {"type": "redacted_thinking", "data": "ZW5j"})
    moved = [[{**payload, "index": payload["index"] + 1} for payload in one] for one in SIGNED]
    said = small.events("anthropic", small.message(redacted, *moved))
    blocks = [p["content_block"] for p in small.sent("anthropic", said) if p["type"] == "content_block_start"]
    assert [block["type"] for block in blocks] == ["redacted_thinking", "thinking", "text"]
    assert blocks[0]["data"] == "ZW5j"


def test_the_last_word_on_encrypted_content_counts() -> None:
    def item(data: str) -> dict[str, object]:
        return {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": data}

    body = small.response(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item("first")},
        {"type": "response.output_item.done", "output_index": 0, "item": item("second")},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item("second")]}},
    )
    told = str(small.turn("responses", body).parts)
    assert "second" in told
    assert "first" not in told
