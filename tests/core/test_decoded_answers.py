"""What decoders make of answers that say a thing twice, late, or in pieces: tables of small streams.

One stream that is worth a sentence of its own is a golden case (`tests/streams`).
"""

from __future__ import annotations

import json
from typing import Any

from penstock import events as ev
from penstock import fold_all
from penstock import request as rq
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.each_case import each
from tests.support.small_streams import chat, delta

Payload = dict[str, Any]


@each(
    "pieces, text",
    [
        ((("Hello.", None), (None, "Hello.")), "Hello."),
        ((("Hel", None), ("lo.", None), (None, "He"), (None, "llo.")), "Hello."),
        ((("Hel", None), (None, "Hello"), ("lo.", None), (None, ".")), "Hello."),
        ((("Hello", "Hello"), (" you.", " you.")), "Hello you."),
        ((("Hello.", None), (None, "He"), (None, " said so.")), "Hello.He said so."),
        ((("Hello.", None), (None, "Hello. And more.")), "Hello. And more."),
    ],
)
def test_a_transcript_before_content_is_the_same_text(pieces: tuple[tuple[Any, Any], ...], text: str) -> None:
    rows = [
        {"content": content, "audio": {"id": "a", "transcript": said} if said else None} for said, content in pieces
    ]
    assert small.turn("openai-chat", chat(*map(delta, rows), delta({}, "stop"))).text == text


@each(
    "deltas, texts, wanted",
    [
        ([(0, "Hello.")], ["", "Hello."], ["Hello."]),
        ([(0, "First."), (1, "Third.")], ["First.", "Second.", "Third."], ["First.", "Third.", "Second."]),
        ([(1, "In"), (2, "Inside.")], ["Inside.", "In"], ["In", "Inside."]),
        ([(1, "In"), (2, "Out")], ["Inside.", "Outside."], ["Inside.", "Outside."]),
        ([(0, "First."), (1, "Wrong.")], ["First.", "Right."], ["First.", "Wrong."]),
    ],
)
def test_a_finished_item_takes_no_part_for_another(
    deltas: list[tuple[int, str]], texts: list[str], wanted: list[str]
) -> None:
    """Nothing is written twice and nothing is left out, where numbers of parts differ and some were never streamed."""
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    rows: list[Payload] = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
    ]
    for place, text in deltas:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": place}
        rows.append({"type": "response.output_text.delta", **where, "delta": text})
    last = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}}
    for end in ([{"type": "response.output_item.done", "output_index": 0, "item": item}], []):
        turn = small.turn("responses", small.response(*rows, *end, last))
        assert [part.text for part in turn.parts if isinstance(part, rq.Text)] == wanted


@each("body", ["<think>a < b</think>c", "<think>\na\n</think>\n\nc", "<thinking>a</thinking>c"])
def test_tags_of_reasoning_may_be_cut_anywhere(body: str) -> None:
    for size in range(1, len(body)):
        pieces = [delta({"content": body[at : at + size]}) for at in range(0, len(body), size)]
        (turn,) = fold_all(running.decode("openai-chat", chat(*pieces, delta({}, "stop"))))
        assert turn.text == "c"
        assert turn.reasoning.strip().startswith("a")
        assert "think" not in turn.reasoning


@each("text", ["<", "<think", "<thi", "a <think>b</think>", "<b>x</b>"])
def test_what_only_looks_like_a_tag_is_text(text: str) -> None:
    assert small.turn("openai-chat", chat(*[delta({"content": one}) for one in text], delta({}, "stop"))).text == text


@each("total, output", [(145, 128), (275, 258), (None, 258), (999, 258)])
def test_a_total_that_fits_says_where_reasoning_is_counted(total: int | None, output: int) -> None:
    counts = {"prompt_tokens": 17, "completion_tokens": 128, "completion_tokens_details": {"reasoning_tokens": 130}}
    usage = counts if total is None else {**counts, "total_tokens": total}
    counted = small.turn("openai-chat", chat(delta({"content": "x"}, "stop", usage=usage))).usage
    assert counted is not None
    assert (counted.input, counted.output, counted.reasoning) == (17, output, 130)


@each("code", ["content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"])
def test_a_policy_violation_is_a_filter_and_no_other_error(code: str) -> None:
    error = {"message": "Filtered", "type": None, "code": code, "status": 400}
    fault = running.decode_body("openai-chat", json.dumps({"error": error}).encode())[-1]
    assert isinstance(fault, ev.Fault)
    assert fault.kind == "filter"
