"""Passthrough at the two ends of a stream: reads that were held back before its first content, and what stands behind
its finish reason.
"""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock import events as ev
from penstock._engines.reply import PREAMBLE
from penstock.errors import ProviderError
from tests.gateway.test_passthrough import SETTINGS, Passed
from tests.support.stream_frames import CHAT_OPENING, GARBAGE, ODD, PROTOCOLS, TOO_DEEP, chat, said, split, stop


def test_a_frame_that_nests_too_deeply_ends_in_an_error_and_is_not_passed_on() -> None:
    passed = Passed("openai-chat", [CHAT_OPENING, TOO_DEEP, chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"])
    assert isinstance(passed.reply.end, ev.Fault)
    assert passed.reply.end.kind == "malformed"
    assert passed.sent.startswith(CHAT_OPENING)
    [error] = split(passed.sent.removeprefix(CHAT_OPENING))
    assert b"nests deeper than" in error
    assert passed.way.withheld == 1


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_garbage_among_the_reads_before_the_first_content_is_withheld(place: int) -> None:
    empty = chat({"delta": {"role": "assistant", "content": ""}})
    good = [empty] * 4 + [said(" a"), chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"]
    reads = [*good[:place], GARBAGE[0], *good[place:]]
    passed = Passed("openai-chat", reads, begun=True)
    assert passed.sent == b"".join(good)
    assert passed.way.withheld == 1
    assert passed.reply.end == ev.Finish("stop", "stop")


@pytest.mark.parametrize("protocol", PROTOCOLS)
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


@pytest.mark.parametrize("protocol", LAST)
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


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("late", [ERROR, ERROR.strip()], ids=["whole", "without its blank line"])
@pytest.mark.parametrize("protocol", OVER)
def test_an_error_behind_a_complete_answer_is_withheld(protocol: str, late: bytes, line_end: bytes) -> None:
    answer = (PROTOCOLS[protocol][2] + OVER[protocol] + b": ping\n\n").replace(b"\n", line_end)
    passed = Passed(protocol, [answer + late.replace(b"\n", line_end)])
    assert isinstance(passed.reply.end, ev.Finish)
    assert passed.sent == answer
    assert passed.way.withheld == 1
