"""What decoders make of answers that say a thing twice, late, or in a field that others leave empty."""

from __future__ import annotations

import json
from typing import Any

import pytest

import penstock
from penstock import events as ev
from penstock import request as rq
from penstock._fold import fold_all
from tests.oracles import samples
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.small_streams import chat, delta

Payload = dict[str, Any]


def body_text(source: str, body: Payload) -> str:
    (turn,) = fold_all(running.decode_body(source, json.dumps(body).encode()))
    return turn.text


def sources(source: str, body: bytes) -> list[tuple[str, str]]:
    return [(event.url, event.title) for event in small.events(source, body) if isinstance(event, ev.Source)]


# ── two fields for one thing ──────────────────────────────────────────────────────────────────────────────────────────


def completion(**choice: Any) -> Payload:
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [{"index": 0, **choice}]}


def test_a_body_with_an_empty_delta_beside_its_message_has_the_text_of_the_message() -> None:
    message = {"role": "assistant", "content": "Rust is a language."}
    empty = {"role": "assistant", "content": ""}
    body = completion(message=message, delta=empty, finish_reason="stop")
    assert body_text("openai-chat", body) == "Rust is a language."


def test_a_message_that_repeats_the_answer_so_far_is_not_a_delta() -> None:
    pieces, so_far, rows = ["Rust ", "is a ", "language."], "", []
    for piece in pieces:
        so_far += piece
        row = delta({"content": piece})
        row["choices"][0]["message"] = {"role": "assistant", "content": so_far}
        rows.append(row)
    last = delta({"content": ""}, "stop")
    last["choices"][0]["message"] = {"role": "assistant", "content": so_far}
    assert small.turn("openai-chat", chat(*rows, last)).text == "Rust is a language."


def test_an_empty_object_does_not_hide_the_one_that_is_filled() -> None:
    usage = {"tokens": {}, "billed_units": {"input_tokens": 3, "output_tokens": 2}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
    body = {"id": "c", "message": message, "finish_reason": "COMPLETE", "usage": usage}
    (turn,) = fold_all(running.decode_body("cohere", json.dumps(body).encode()))
    assert turn.usage is not None
    assert (turn.usage.input, turn.usage.output) == (3, 2)
    chunk = {"web": {}, "retrievedContext": {"uri": "gs://b/f", "title": "F"}}
    ground = {"groundingMetadata": {"groundingChunks": [chunk]}}
    said = samples.candidate({"text": "Hi"}, finishReason="STOP", **ground)
    assert sources("gemini", small.gemini(said)) == [("gs://b/f", "F")]


def test_a_transcript_beside_content_is_the_same_text() -> None:
    audio = {"id": "a", "data": "AAAA", "transcript": "Hello."}
    message = {"role": "assistant", "content": "Hello.", "audio": audio}
    assert body_text("openai-chat", completion(message=message, finish_reason="stop")) == "Hello."
    spoken = {**message, "content": None}
    assert body_text("openai-chat", completion(message=spoken, finish_reason="stop")) == "Hello."


@pytest.mark.parametrize(
    ("pieces", "text"),
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
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": row}]} for row in rows]
    last = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    stream = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in [*chunks, last])
    (turn,) = fold_all(small.events("openai-chat", stream))
    assert turn.text == text


def test_arguments_that_are_null_are_none() -> None:
    call = small.fragment(0, "null", id="c1", type="function", name="now")
    said = small.events("openai-chat", chat(delta(call, "tool_calls")))
    assert small.called(said) == [("c1", "now", {})]
    item = {"type": "function_call", "id": "f", "call_id": "c1", "name": "now", "arguments": "null"}
    response = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [item]}
    assert small.called(running.decode_body("responses", json.dumps(response).encode())) == [("c1", "now", {})]


# ── Responses: what is repeated ───────────────────────────────────────────────────────────────────────────────────────


def text_item(name: str, *texts: str) -> Payload:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": name, "type": "message", "role": "assistant", "status": "completed", "content": content}


def responses(*rows: Payload, output: list[Payload]) -> bytes:
    base = {"id": "r", "object": "response", "created_at": 1, "model": "m"}
    return small.response(
        {"type": "response.created", "response": {**base, "status": "in_progress", "output": []}},
        *rows,
        {"type": "response.completed", "response": {**base, "status": "completed", "output": output}},
    )


def streamed(name: str, place: int, text: str, *, number: int = 0) -> list[Payload]:
    where = {"item_id": name, "output_index": number, "content_index": place}
    return [
        {"type": "response.output_text.delta", **where, "delta": text},
        {"type": "response.output_text.done", **where, "text": text},
    ]


def added(item: Payload, number: int = 0) -> Payload:
    return {"type": "response.output_item.added", "output_index": number, "item": {**item, "content": []}}


def done(item: Payload, number: int = 0) -> Payload:
    return {"type": "response.output_item.done", "output_index": number, "item": item}


@pytest.mark.parametrize("place", [1, 2, 7])
def test_a_text_streamed_at_another_place_than_it_ends_at_is_written_once(place: int) -> None:
    item = text_item("msg_1", "Hello.")
    body = responses(added(item), *streamed("msg_1", place, "Hello."), done(item), output=[item])
    assert small.turn("responses", body).text == "Hello."


def test_several_texts_of_an_item_are_matched_in_order_even_if_they_are_equal() -> None:
    item = text_item("msg_1", "Yes.", "Yes.", "No.")
    rows = [row for place, text in ((1, "Yes."), (2, "Yes."), (3, "No.")) for row in streamed("msg_1", place, text)]
    assert small.turn("responses", responses(added(item), *rows, done(item), output=[item])).text == "Yes.Yes.No."


def test_what_only_the_finished_item_has_is_delivered() -> None:
    item = text_item("msg_1", "First.", "Second.")
    body = responses(added(item), *streamed("msg_1", 1, "Second."), done(item), output=[item])
    assert sorted(part.text for part in small.turn("responses", body).parts if hasattr(part, "text")) == [
        "First.",
        "Second.",
    ]


@pytest.mark.parametrize(
    ("deltas", "texts", "wanted"),
    [
        ([(0, "Hello.")], ["", "Hello."], ["Hello."]),
        ([(0, "First."), (1, "Third.")], ["First.", "Second.", "Third."], ["First.", "Third.", "Second."]),
        ([(1, "In"), (2, "Inside.")], ["Inside.", "In"], ["In", "Inside."]),
        ([(1, "In"), (2, "Out")], ["Inside.", "Outside."], ["Inside.", "Outside."]),
        ([(0, "First."), (1, "Wrong.")], ["First.", "Right."], ["First.", "Wrong."]),
    ],
    ids=["empty", "not-streamed", "begins-alike", "longer", "corrected"],
)
@pytest.mark.parametrize("is_done", [True, False])
def test_a_finished_item_takes_no_part_for_another(
    deltas: list[tuple[int, str]], texts: list[str], wanted: list[str], *, is_done: bool
) -> None:
    """Nothing is written twice and nothing is left out, where numbers of parts differ and some were never streamed."""
    item = text_item("msg_1", *texts)
    rows = [streamed("msg_1", place, text)[0] for place, text in deltas]
    body = responses(added(item), *rows, *([done(item)] if is_done else []), output=[item])
    assert [part.text for part in small.turn("responses", body).parts if isinstance(part, rq.Text)] == wanted


def test_equal_texts_and_calls_of_different_items_are_all_delivered() -> None:
    first, second = text_item("msg_1", "Again."), text_item("msg_2", "Again.")
    call: Payload = {"type": "function_call", "name": "now", "arguments": "{}", "status": "completed"}
    calls = [{**call, "id": f"fc_{n}", "call_id": f"call_{n}"} for n in (1, 2)]
    output = [first, second, *calls]
    rows = [done(item, number) for number, item in enumerate(output)]
    for body in (responses(*rows, output=output), responses(output=output)):
        turn = small.turn("responses", body)
        assert turn.text == "Again.Again."
        assert [(one.id, one.name) for one in turn.calls] == [("call_1", "now"), ("call_2", "now")]


def test_reasoning_streamed_at_another_place_is_written_once() -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 3}
    rows = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.reasoning_text.delta", **where, "delta": "Hm."},
        done(item),
    ]
    assert small.turn("responses", responses(*rows, output=[item])).reasoning == "Hm."


# ── reasoning whose first piece is empty ──────────────────────────────────────────────────────────────────────────────


def detail(**more: Any) -> Payload:
    return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **more}


def test_the_form_of_reasoning_is_decided_by_its_first_words() -> None:
    body = chat(
        delta({"content": "", "reasoning": None, "reasoning_details": [detail(text="", signature="")]}),
        delta({"reasoning": "Hm.", "reasoning_details": [detail(text="Hm.")]}),
        delta({"reasoning_details": [detail(signature="SIG")]}),
        delta({"content": "4"}, "stop"),
    )
    rows = small.translated("openai-chat", "anthropic", body)
    blocks = [row["content_block"]["type"] for row in small.of_type(rows, "content_block_start")]
    deltas = [row["delta"] for row in small.of_type(rows, "content_block_delta")]
    assert blocks == ["thinking", "text"]
    assert {"type": "thinking_delta", "thinking": "Hm."} in deltas
    assert {"type": "signature_delta", "signature": "SIG"} in deltas


def test_details_without_words_are_redacted_and_stand_where_they_came() -> None:
    sealed = {"type": "reasoning.encrypted", "data": "CIPHER", "index": 0}
    said = small.events("openai-chat", chat(delta({"reasoning_details": [sealed]}), delta({"content": "4"}, "stop")))
    starts = [event for event in said if isinstance(event, ev.ReasoningStart | ev.TextStart)]
    assert [type(event) for event in starts] == [ev.ReasoningStart, ev.TextStart]
    assert getattr(starts[0], "form", "") == "redacted"
    (alone,) = fold_all(small.events("openai-chat", chat(delta({"reasoning_details": [sealed]}), delta({}, "stop"))))
    assert [part.form for part in alone.parts if hasattr(part, "form")] == ["redacted"]


def test_details_that_say_nothing_are_no_reasoning() -> None:
    body = chat(delta({"content": "4", "reasoning_details": [detail(text="", signature="")]}), delta({}, "stop"))
    assert not any(isinstance(event, ev.ReasoningStart) for event in small.events("openai-chat", body))


# ── citations ─────────────────────────────────────────────────────────────────────────────────────────────────────────

NOTE: Payload = {
    "type": "url_citation",
    "url_citation": {"url": "http://p.test", "title": "P", "start_index": 0, "end_index": 2},
}
CITATION = {"type": "web_search_result_location", "url": "http://p.test", "title": "P", "cited_text": "so"}


def test_a_chat_annotation_that_comes_again_is_one_source() -> None:
    twice = chat(delta({"content": "Hi", "annotations": [NOTE]}), delta({"annotations": [NOTE]}, "stop"))
    assert sources("openai-chat", twice) == [("http://p.test", "P")]
    linked = chat(delta({"content": "Hi", "annotations": [NOTE]}, citations=["http://p.test"]), delta({}, "stop"))
    assert sources("openai-chat", linked) == [("http://p.test", "P")]


def test_one_page_cited_at_two_places_is_two_sources() -> None:
    other = {"type": "url_citation", "url_citation": {**NOTE["url_citation"], "start_index": 3, "end_index": 5}}
    body = chat(delta({"content": "Hi there", "annotations": [NOTE, other]}), delta({}, "stop"))
    assert sources("openai-chat", body) == [("http://p.test", "P")] * 2


def test_citations_of_other_protocols_that_come_again_are_one_source() -> None:
    cited = {"type": "citations_delta", "citation": CITATION}
    words = {"type": "text_delta", "text": "so"}
    message = small.message(small.block(0, {"type": "text", "text": ""}, words, cited, cited))
    assert sources("anthropic", message) == [("http://p.test", "P")]
    item = text_item("msg_1", "Hi")
    note = {"type": "url_citation", "url": "http://p.test", "title": "P", "start_index": 0, "end_index": 2}
    item["content"][0]["annotations"] = [note, note]
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 1}
    event = {"type": "response.output_text.annotation.added", **where, "annotation_index": 0, "annotation": note}
    rows = [added(item), *streamed("msg_1", 1, "Hi"), event, done(item)]
    assert sources("responses", responses(*rows, output=[item])) == [("http://p.test", "P")]


# ── counts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("total", "output"),
    [(145, 128), (275, 258), (None, 258), (999, 258)],
    ids=["reasoning inside", "reasoning beside", "no total", "a total that fits neither"],
)
def test_a_total_that_fits_says_where_reasoning_is_counted(total: int | None, output: int) -> None:
    counts = {"prompt_tokens": 17, "completion_tokens": 128, "completion_tokens_details": {"reasoning_tokens": 130}}
    usage = counts if total is None else {**counts, "total_tokens": total}
    counted = small.turn("openai-chat", chat(delta({"content": "x"}, "stop", usage=usage))).usage
    assert counted is not None
    assert (counted.input, counted.output, counted.reasoning) == (17, output, 130)


def test_what_a_gemini_chunk_leaves_out_is_zero_if_its_total_says_so() -> None:
    first = {"promptTokenCount": 9, "candidatesTokenCount": 21, "thoughtsTokenCount": 35, "totalTokenCount": 65}
    last = {"promptTokenCount": 87, "thoughtsTokenCount": 78, "totalTokenCount": 165}
    said = [
        {**samples.candidate({"text": "Hi"}), "usageMetadata": first},
        {**samples.candidate({"text": "!"}, finishReason="STOP"), "usageMetadata": last},
    ]
    usage = small.turn("gemini", small.gemini(*said)).usage
    assert usage is not None
    assert (usage.input, usage.output) == (87, 78)


ITERATIONS = [
    {"type": "compaction", "input_tokens": 100, "cache_read_input_tokens": 83455, "output_tokens": 154},
    {"type": "message", "input_tokens": 224, "output_tokens": 22},
]


def test_the_tokens_of_a_compaction_are_counted() -> None:
    usage = {"input_tokens": 224, "output_tokens": 22, "iterations": ITERATIONS}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": usage}
    said = running.decode_body("anthropic", json.dumps({**body, "content": [{"type": "text", "text": "Hi"}]}).encode())
    counted = [event for event in said if isinstance(event, ev.Usage)][-1]
    assert (counted.input, counted.output, counted.cached) == (224 + 100 + 83455, 22 + 154, 83455)
    again = running.decode("anthropic", running.write("anthropic", said))
    assert [event for event in again if isinstance(event, ev.Usage)][-1] == counted  # nothing is added twice


def test_the_tokens_of_an_advisor_are_not_those_of_the_model() -> None:
    advisor = {"type": "advisor_message", "model": "claude-opus-5", "input_tokens": 900, "output_tokens": 90}
    usage = {"input_tokens": 224, "output_tokens": 22, "iterations": [ITERATIONS[1], advisor]}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    body = small.response(
        {"type": "message_start", "message": start},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )
    run = running.run("anthropic", running.batches([body]))
    counted = [event for event in run.events if isinstance(event, ev.Usage)][-1]
    assert (counted.input, counted.output) == (224, 22)
    assert "usage-advisor" in run.codes


# ── words that nobody knows ───────────────────────────────────────────────────────────────────────────────────────────

START = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
UNKNOWN = {
    "openai-chat": chat(delta({"content": "x"}, "fake_word")),
    "anthropic": small.message(finish="fake_word"),
    "gemini": small.gemini(samples.candidate({"text": "x"}, finishReason="fake_word")),
    "cohere": samples.events(
        {"type": "message-start", "id": "c"}, {"type": "message-end", "delta": {"finish_reason": "fake_word"}}
    ),
}


@pytest.mark.parametrize("source", UNKNOWN)
def test_an_unknown_finish_word_is_a_stop_that_keeps_the_word_and_is_reported(source: str) -> None:
    run = running.run(source, running.batches([UNKNOWN[source]]))
    finish = run.events[-1]
    assert isinstance(finish, ev.Finish)
    assert (finish.reason, finish.raw) == ("stop", "fake_word")
    assert "unknown-reason" in run.codes


def test_numbers_of_gemini_enums_are_written_as_words() -> None:
    ratings = [{"category": 9, "probability": 1}, {"category": 7, "probability": 4, "severity": 2}]
    said = samples.candidate({"text": "Hi"}, finishReason=1, safetyRatings=ratings)
    feedback = {"promptFeedback": {"blockReason": 2, "safetyRatings": ratings[:1]}}
    rows = small.translated("gemini", "gemini", small.gemini({**said, **feedback}))
    (last,) = rows[-1]["candidates"]
    assert last["finishReason"] == "STOP"
    assert last["safetyRatings"] == [
        {"category": "HARM_CATEGORY_SEXUALLY_EXPLICIT", "probability": "NEGLIGIBLE"},
        {"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "severity": "HARM_SEVERITY_LOW"},
    ]


def test_the_plan_before_a_cohere_call_is_reasoning() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [call]}
    body = {"id": "c", "message": message, "finish_reason": "TOOL_CALL"}
    (turn,) = fold_all(running.decode_body("cohere", json.dumps(body).encode()))
    assert (turn.reasoning, turn.text, [one.name for one in turn.calls]) == ("I will look.", "", ["look"])


def test_reasoning_among_the_content_is_read_in_both_dialects() -> None:
    mistral = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    databricks = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm.", "signature": "S"}]}
    for thought in (mistral, databricks):
        content = [thought, {"type": "text", "text": "4"}]
        body = completion(message={"role": "assistant", "content": content}, finish_reason="stop")
        (turn,) = fold_all(running.decode_body("openai-chat", json.dumps(body).encode()))
        assert (turn.reasoning, turn.text) == ("Hm.", "4")


def test_a_signature_that_comes_after_its_call_has_ended_is_told_of() -> None:
    late = {"tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "SIG"}}}]}
    calls = [delta(small.fragment(n, "{}", id=f"call_{n}", type="function", name="now")) for n in (0, 1)]
    found: list[Any] = []
    body = chat(*calls, delta(late), delta({}, "tool_calls"))
    list(penstock.translate([body], "openai-chat", "events", on_diagnostic=found.append))
    assert [one.code for one in found] == ["after-close"]
