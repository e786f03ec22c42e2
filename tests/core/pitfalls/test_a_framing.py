"""Section A: framing and transport."""

from __future__ import annotations

import json

import pytest

from penstock import events as ev
from penstock._framing.sse import KEEP_ALIVE
from penstock.errors import FrameTooLarge
from penstock.framing import PARSERS, SseParser
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support import turn_facets as facets
from tests.support.case_loop import over
from tests.support.small_streams import DONE, chat, delta
from tests.support.stream_cases import Case, cases

SSE = [case for case in small.finished() if case.framing == "sse"]
BROKEN = b'data: {"type": "half\n\n'


@pytest.mark.parametrize("words", ["日本語", "🌅🏴‍☠️", "é", "\u2028"])
def test_characters_may_be_cut_anywhere(words: str) -> None:
    raw = json.dumps(delta({"content": words}, "stop"), ensure_ascii=False)
    assert small.turn("openai-chat", f"data: {raw}\n\n".encode() + DONE).text == words


def test_only_invalid_bytes_are_replaced() -> None:
    body = chat(delta({"content": "a~b é"}, "stop")).replace(b"~", b"\xff")
    assert small.turn("openai-chat", body).text == "a\ufffdb é"


@pytest.mark.parametrize("comment", [b": OPENROUTER PROCESSING\n\n", b":\n", b": {\n", b":data: {}\n\n"])
def test_comments_are_ignored(comment: bytes) -> None:
    frames = chat(delta({"content": "Hi."}), delta({}, "stop")).split(b"\n\n")
    body = comment + (b"\n\n" + comment).join(frames)
    assert small.turn("openai-chat", body).text == "Hi."


@pytest.mark.parametrize(
    "alive", [KEEP_ALIVE, b": ping\n\n", b"id: 1\n\n: ping\n\n", b"data:\n\n", b"event: x\ndata:\n\n"]
)
def test_a_sign_of_life_dispatches_nothing(alive: bytes) -> None:
    parser = SseParser()
    assert parser.feed([b"id: 7\ndata: {}\n\n", alive, alive]) + parser.finish() == [(b"", b"{}")]


def test_our_own_sign_of_life_ends_no_frame() -> None:
    """At a blank line some clients dispatch an event without data."""
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.count(b"\n") == 1


@pytest.mark.parametrize("ping", [b'{"type": "ping"}', b'""', b"", b"{}", b"ping"])
def test_a_ping_says_nothing(ping: bytes) -> None:
    head, rest = small.message(small.block(0, {"type": "text", "text": "Hi."})).split(b"\n\n", 1)
    body = head + b"\n\nevent: ping\ndata: " + ping + b"\n\n" + rest
    assert small.turn("anthropic", body).text == "Hi."


def test_every_frame_for_anthropic_names_its_type() -> None:
    for case in small.finished():
        for name, data in running.encode("anthropic", case.expected()):
            assert case.protocol == "anthropic" or json.loads(data)["type"] == name.decode()


@pytest.mark.parametrize("mark", [DONE, b"data:[DONE]\n\n", b"data:  [DONE] \n\n", b"event: done\ndata: [DONE]\n\n"])
@over(SSE)
def test_an_end_mark_after_the_end_is_tolerated_everywhere(case: Case, mark: bytes) -> None:
    body = case.body + (b"" if case.body.endswith(b"\n\n") else b"\n\n") + mark
    assert running.decode(case.source, body, "sse", case.options) == case.expected()


@over([case for case in cases() if case.streamed])
def test_chat_ends_with_one_end_mark_after_a_finish_and_none_after_a_fault(case: Case) -> None:
    said = case.expected()
    data = [frame[1] for frame in running.encode("openai-chat", said)]
    assert data.count(b"[DONE]") == sum(isinstance(event, ev.Finish) for event in said)
    assert (data[-1] == b"[DONE]") == isinstance(said[-1], ev.Finish)


@pytest.mark.parametrize("word", ["content_filter", "stop", "length"])
def test_a_finish_reason_and_the_end_of_the_bytes_is_a_clean_end(word: str) -> None:
    finish = small.turn("openai-chat", chat(delta({"content": "Hi."}), delta({}, word), end=b"")).finish
    assert finish is not None
    assert finish.raw == word


@pytest.mark.parametrize("size", [70_000, 1_200_000])
def test_a_long_line_is_no_trouble(size: int) -> None:
    body = chat(delta({"content": "x" * size}, "stop"))
    pieces = [body[at : at + 4096] for at in range(0, len(body), 4096)]
    said = running.run("openai-chat", running.batches(pieces)).events
    assert sum(len(event.text) for event in said if isinstance(event, ev.TextDelta)) == size


@pytest.mark.parametrize("framing", ["sse", "ndjson", "jsonarray"])
def test_past_the_limit_there_is_a_clear_error(framing: str) -> None:
    with pytest.raises(FrameTooLarge, match="limit"):
        PARSERS[framing](limit=1000).feed([{"jsonarray": b"[{"}.get(framing, b"data: {") + b'"a":"' + b"x" * 2000])


def test_the_last_event_may_be_cut_anywhere() -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
    final = {"id": "r", "status": "completed", "output": [], "usage": usage}
    body = small.response({"type": "response.created", "response": {"id": "r"}},
                          {"type": "response.completed", "response": final})  # fmt: skip
    found = small.turn("responses", body).usage
    assert found is not None
    assert (found.input, found.output) == (5, 9)


@over(SSE)
def test_an_event_that_nobody_knows_is_kept_or_skipped_and_never_fatal(case: Case) -> None:
    news = b'event: weather.report\ndata: {"type":"weather.report","wind":"SW 5"}\n\n'
    for place in _between(case.body):
        said = running.decode(case.source, case.body[:place] + news + case.body[place:], "sse", case.options)
        assert facets.changed(case.expected(), said) <= {"unknown"}


@over(SSE)
def test_a_broken_frame_costs_itself_alone(case: Case) -> None:
    for place in _between(case.body):
        body = case.body[:place] + BROKEN + case.body[place:]
        run = running.run(case.source, running.batches([body], "sse"), case.options)
        assert run.events == case.expected()
        assert "malformed" in run.codes


def _between(body: bytes) -> list[int]:
    """The places between frames, the first and the last one left out."""
    blank = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    places = [at + len(blank) for at in range(len(body)) if body.startswith(blank, at)]
    return places[:-1]


@over(small.finished())
def test_events_come_while_the_bytes_do(case: Case) -> None:
    """Half of the frames are enough for the events of half of the frames."""
    frames = [frame for batch in running.batches([case.body], case.framing) for frame in batch]
    found = [len(batch) for batch in running.batches(running.singles(case.body), case.framing)]
    assert sum(found) == len(frames)
    assert max(found) == 1 or case.framing == "jsonarray"
