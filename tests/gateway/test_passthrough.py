"""Passthrough: what is noted of a stream is what a full decode says, and the client gets the upstream's bytes.

The streams are generated: frames of every kind in any order, with garbage among them, in any grouping into reads. Reads
may be held back before the first content, and something may stand behind the finish reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock import events as ev
from penstock.errors import ProviderError
from penstock.testing import Reply, iterate_splits
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.gateway import gateway
from tests.support.passed_streams import PREAMBLE, Passed, check_passed, written_from_callback
from tests.support.stream_frames import (
    CHAT_OPENING,
    GARBAGE,
    ODD,
    PROTOCOLS,
    TOO_DEEP,
    chat,
    said,
    split,
    sse,
    stop,
    streams,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

SETTINGS = hypothesis.settings(deadline=None, max_examples=40)


@each("protocol", PROTOCOLS)
@hypothesis.given(data=st.data())
@SETTINGS
def test_what_is_noted_is_what_a_full_decode_says(protocol: str, data: Any) -> None:
    body, reads = data.draw(streams(protocol))
    check_passed(protocol, body, reads)


@each("protocol", PROTOCOLS)
@hypothesis.given(data=st.data())
@SETTINGS
def test_a_client_gets_the_same_bytes_over_a_connection(protocol: str, data: Any) -> None:
    """Writing from within the read's callback changes nothing."""
    _, reads = data.draw(streams(protocol))
    slow = st.lists(st.booleans(), max_size=8)
    sent = written_from_callback(protocol, reads, data.draw(slow))
    passed = Passed(protocol, reads)
    if isinstance(passed.reply.end, ev.Finish):
        assert sent == passed.sent
    else:  # the error form of the gateway holds the time of the turn
        assert split(sent)[:-3] == split(passed.sent)[:-3]


X = {
    "error": sse({"error": {"message": "upstream exploded", "type": "server_error", "code": 500}}),
    "length": chat({"finish_reason": "length"}),
    "call": chat({
        "delta": {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    }),
    "usage": sse({"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}}),
    "second choice": chat({"index": 1, "delta": {"content": " two"}}),
}  # fmt: skip


@each("between", X)
def test_a_frame_between_two_texts_of_one_read_is_seen(between: str) -> None:
    one_read = 3 * said(" a") + X[between] + 3 * said(" b")
    reads = [CHAT_OPENING, *[said(" w")] * 5, one_read, chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"]
    check_passed("openai-chat", b"".join(reads), reads)
    passed = Passed("openai-chat", reads)
    end = passed.reply.end
    if between == "error":
        assert isinstance(end, ev.Fault)
        assert end.message == "upstream exploded"
    else:
        assert isinstance(end, ev.Finish)
        assert end.reason == {"length": "length", "call": "calls"}.get(between, "stop")
        assert (passed.reply.usage is not None) == (between == "usage")


@each("garbage", range(len(GARBAGE)))
@each("size", [1, 7, 100_000])
def test_garbage_is_withheld_and_counted(garbage: int, size: int) -> None:
    good = CHAT_OPENING + said(" a"), said(" b") + chat({"finish_reason": "stop"}) + b"data: [DONE]\n\n"
    body = good[0] + GARBAGE[garbage] + b": ping\n\n" + good[1]
    passed = Passed("openai-chat", [body[at : at + size] for at in range(0, len(body), size)])
    assert passed.sent == good[0] + b": ping\n\n" + good[1]
    assert passed.way.withheld == 1
    assert passed.reply.end == ev.Finish("stop", "stop")


KEY = "company-internal-credential-0123456789"


@each("size", [1, 50, 100_000])
@each("key", [KEY, "sk-ant-api03-abcdefghijklmnop"])
def test_a_credential_is_removed_from_an_error_and_nowhere_else(key: str, size: int) -> None:
    before = CHAT_OPENING + said(f" {key}")
    error = sse(
        {"error": {"message": f"Incorrect API key provided: {key}", "code": 401, "x": [1.5, None, "é"]}}, "error"
    )
    passed = Passed("openai-chat", _reads(before + error, size), (KEY,))
    assert passed.sent.startswith(before)
    rest = passed.sent[len(before) :]
    assert key.encode() not in rest
    assert rest.startswith(b"event: error\ndata: ")
    assert b'"code":401' in rest
    assert b"[1.5,null," in rest
    assert isinstance(passed.reply.end, ev.Fault)


def test_a_credential_is_found_behind_escapes() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    error = f'data: {{"error":{{"message":"bad key {escaped}"}}}}\n\n'.encode()
    passed = Passed("openai-chat", [CHAT_OPENING, error], (KEY,))
    assert escaped.encode() not in passed.sent
    assert KEY.encode() not in passed.sent


def test_an_error_without_a_credential_passes_as_it_is() -> None:
    error = b'data:  {"error" : {"message": "overloaded \\u00e9", "code": 503}}\r\n\r\n'
    passed = Passed("openai-chat", [CHAT_OPENING, error], (KEY,))
    assert passed.sent == CHAT_OPENING + error


def _reads(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


# ── the two ends ──────────────────────────────────────────────────────────────────────────────────


def test_a_frame_that_nests_too_deeply_ends_in_an_error_and_is_not_passed_on() -> None:
    passed = Passed("openai-chat", [CHAT_OPENING, TOO_DEEP, chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"])
    assert isinstance(passed.reply.end, ev.Fault)
    assert passed.reply.end.kind == "malformed"
    assert passed.sent.startswith(CHAT_OPENING)
    [error] = split(passed.sent.removeprefix(CHAT_OPENING))
    assert b"nests deeper than" in error
    assert passed.way.withheld == 1


@each("place", [1, 2, 3, 4, 5])
def test_garbage_among_the_reads_before_the_first_content_is_withheld(place: int) -> None:
    empty = chat({"delta": {"role": "assistant", "content": ""}})
    good = [empty] * 4 + [said(" a"), chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"]
    reads = [*good[:place], GARBAGE[0], *good[place:]]
    passed = Passed("openai-chat", reads, begun=True)
    assert passed.sent == b"".join(good)
    assert passed.way.withheld == 1
    assert passed.reply.end == ev.Finish("stop", "stop")


@each("protocol", PROTOCOLS)
@hypothesis.given(data=st.data())
@SETTINGS
def test_reads_that_were_held_back_pass_like_the_others(protocol: str, data: Any) -> None:
    _, opening, kinds = PROTOCOLS[protocol][1:]
    reads = data.draw(st.lists(st.sampled_from([*split(opening), *kinds, *ODD, *GARBAGE]), max_size=12))
    passed = Passed(protocol, reads)
    if all(type(event) in PREAMBLE for event in passed.events):  # an error before the first content is no stream
        with pytest.raises(ProviderError):
            Passed(protocol, reads, begun=True)
        return
    begun = Passed(protocol, reads, begun=True)
    assert (begun.events, begun.way.withheld) == (passed.events, passed.way.withheld)
    if isinstance(passed.reply.end, ev.Finish):
        assert begun.sent == passed.sent
    else:  # the error form of the gateway holds the time of the turn
        assert split(begun.sent)[:-3] == split(passed.sent)[:-3]


LAST = {"openai-chat": b"data: [DONE]", "anthropic": b'event: message_stop\ndata: {"type":"message_stop"}'}


@each("protocol", LAST)
def test_half_a_frame_behind_the_finish_reason_is_withheld(protocol: str) -> None:
    ends = {"openai-chat": chat({"finish_reason": "stop"}), "anthropic": stop("end_turn")}
    whole_frames = PROTOCOLS[protocol][2] + ends[protocol]
    for size in range(1, len(LAST[protocol])):
        passed = Passed(protocol, [whole_frames, b"\n", LAST[protocol][:size]])
        assert passed.sent == whole_frames + b"\n", size
        assert passed.way.withheld == 1
        assert isinstance(passed.reply.end, ev.Finish)
    assert Passed(protocol, [whole_frames, LAST[protocol]]).sent == whole_frames + LAST[protocol]


ERROR = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"late"}}\n\n'
OVER = {
    "openai-chat": chat({"finish_reason": "stop"}) + b"data: [DONE]\n\n",
    "anthropic": stop("end_turn") + LAST["anthropic"] + b"\n\n",
    "responses": next(frame for frame in PROTOCOLS["responses"][3] if b'"response.completed"' in frame),
}


@each("line_end", [b"\n", b"\r\n"])
@each("late", [ERROR, ERROR.strip()])
@each("protocol", OVER)
def test_an_error_behind_a_complete_answer_is_withheld(protocol: str, late: bytes, line_end: bytes) -> None:
    answer = (PROTOCOLS[protocol][2] + OVER[protocol] + b": ping\n\n").replace(b"\n", line_end)
    passed = Passed(protocol, [answer + late.replace(b"\n", line_end)])
    assert isinstance(passed.reply.end, ev.Finish)
    assert passed.sent == answer
    assert passed.way.withheld == 1


# ── over a socket ─────────────────────────────────────────────────────────────────────────────────

HEAD = '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","own":{"x":1},'
FRAMES = (
    ": a comment\n\n"
    f'data: {HEAD}"choices":[],"prompt_filter_results":[]}}\n\n'
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{"role":"assistant","content":"Hä"}},"finish_reason":null}}]}}\n\n'
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{"content":"\\"choices\\":[]"}},"finish_reason":"stop"}}]}}\n\n'
)
USAGE = f'data: {HEAD}"choices": [],"usage":{{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}}}\n\n'
DONE = "data: [DONE]\n\n"


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response()) as found:
        yield found


@each("end", ["\n", "\r\n"])
def test_bytes_pass_untouched_however_they_are_cut(both: tuple[Running, Upstream], end: str) -> None:
    running, up = both
    data = (FRAMES + USAGE + DONE).replace("\n", end).encode()
    short = (FRAMES + DONE).replace("\n", end).encode()
    body = {"model": "openai-chat/m", "stream": True, "messages": [{"role": "user", "content": "Hi."}]}
    problems = []
    for pieces in iterate_splits(data, 30):
        up.script(Reply(chunks=tuple(pieces), headers={"content-type": "text/event-stream"}))
        for usage, wanted in ((True, data), (False, short)):
            options = {"stream_options": {"include_usage": True}} if usage else {}
            found = post(f"{running.url}/v1/chat/completions", json={**body, **options}).content
            # The last byte after a lone CR is no part of a frame: an answer that is over need not wait for it.
            if found not in {wanted, wanted.removesuffix(b"\n") if end == "\r\n" else wanted}:
                problems.append((pieces, usage, found))
    assert problems == []
