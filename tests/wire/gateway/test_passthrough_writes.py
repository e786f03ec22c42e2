"""A passthrough forwards the bytes it gets, however they are split, without usage that the client did not ask for."""

from __future__ import annotations

import pytest

from penstock import events as ev
from penstock._bridge import parser
from penstock._gateway.client_stream import Passthrough
from penstock._gateway.endpoints import TurnRequest
from penstock._protocols import decoder
from penstock.request import Request
from penstock.testing import iterate_splits

HEAD = '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","own":{"x":1},'
FRAMES = (
    ": a comment\n\n"
    f'data: {HEAD}"choices":[],"prompt_filter_results":[]}}\n\n'
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{"role":"assistant","content":"Hä"}},"finish_reason":null}}]}}\n\n'
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{"content":"\\"choices\\":[]"}},"finish_reason":"stop"}}]}}\n\n'
)
USAGE = f'data: {HEAD}"choices": [],"usage":{{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}}}\n\n'
DONE = "data: [DONE]\n\n"


def teed(pieces: list[bytes], *, usage: bool) -> bytes:
    tee = Passthrough(TurnRequest(Request("m"), "openai-chat", include_usage=usage, options={"include_usage": usage}))
    return b"".join([tee.feed((piece, [])) for piece in pieces] + [tee.finish()])


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_bytes_pass_untouched_however_they_are_cut(end: str) -> None:
    data = (FRAMES + USAGE + DONE).replace("\n", end).encode()
    short = (FRAMES + DONE).replace("\n", end).encode()
    for pieces in iterate_splits(data, 30):
        assert teed(pieces, usage=True) == data
        assert teed(pieces, usage=False) == short


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic", "responses", "gemini"])
def test_a_fault_behind_half_a_frame_is_a_frame_of_its_own(protocol: str) -> None:
    tee = Passthrough(TurnRequest(Request("m"), protocol, options={"id": "one"}))
    half = b'data: {"sequence_number":41,"type":"odd"}\n\ndata: {"half'
    out = tee.feed((half, [ev.Start("one", "m", 7)]))
    out += tee.feed((b"", [ev.Fault("network", "it broke")])) + tee.finish()
    assert b"half" not in out
    frames = parser("sse").feed([out])
    made = decoder(protocol)
    last = [*made.feed(frames), *made.finish()][-1]
    assert isinstance(last, ev.Fault)
    assert last.message == ("Connection error: it broke" if protocol == "anthropic" else "it broke")
    if protocol == "responses":
        assert b'"sequence_number":42' in out
