"""The scripted upstream writes what providers write: every protocol's decoder reads it back."""

from __future__ import annotations

import pytest

from penstock import fold_all
from penstock import request as rq
from penstock.testing import encode_events, iterate_splits, media_type, play, scripts, split_at, wire
from tests.support.each_case import each
from tests.support.run_streams import batches, decode, decode_body, run

# What a protocol has no word for, by what its decoder then finds.
SPOKEN = ("openai-chat", "anthropic", "responses", "gemini", "bedrock", "cohere", "ollama", "completions")
UNSAID: dict[str, set[str]] = {
    "anthropic": {"citations", "image"},
    "bedrock": {"citations"},
    "cohere": {"image"},
    "ollama": {"citations", "image", "length"},
    "completions": {"reasoning", "tools", "parallel-tools", "citations", "image", "length"},
    "gemini": {"length"},
    "responses": {"image"},
}


NAMES = sorted(set(scripts()) - {"after-tool"})


def _said(turn: rq.Turn) -> list[object]:
    return [
        (type(part).__name__, getattr(part, "name", ""), getattr(part, "text", "") or getattr(part, "json", ""))
        for part in turn.parts
    ]


@pytest.mark.usefixtures("strict")
@each("protocol", SPOKEN)
def test_every_script_in_every_protocol(protocol: str) -> None:
    for name in NAMES:
        turn, played = fold_all(decode(protocol, wire(name, protocol)))[0], fold_all(play(name))[0]
        assert (turn.fault is None) == (played.fault is None), name
        if name not in UNSAID.get(protocol, ()):
            assert _said(turn) == _said(played), name
        assert turn.fault or (turn.usage and turn.usage.output), name


@pytest.mark.usefixtures("strict")
@each("protocol", SPOKEN)
def test_every_script_as_one_body(protocol: str) -> None:
    for name in NAMES:
        turn = fold_all(decode_body(protocol, wire(name, protocol, stream=False)))[0]
        played = fold_all(play(name))[0]
        assert (turn.fault is None) == (played.fault is None), name
        if name not in UNSAID.get(protocol, ()) and played.fault is None and name != "length":
            assert _said(turn) == _said(played), name


@each("protocol", ["bedrock", "cohere", "ollama"])
def test_however_it_is_cut(protocol: str) -> None:
    data = wire("tools", protocol)
    whole = None
    for pieces in iterate_splits(data, 5):
        assert b"".join(pieces) == data
        got = run(protocol, batches(pieces)).events
        whole = whole or got
        assert fold_all(got) == fold_all(whole)


def test_cuts_are_where_they_should_be() -> None:
    assert split_at(b"abcd", 1, 3, 3, 9, -2) == [b"a", b"bc", b"d"]
    assert split_at(b"") == []
    assert [b"".join(pieces) for pieces in iterate_splits(b"abcdef", 3)] == [b"abcdef"] * 6


def test_content_types() -> None:
    assert media_type("bedrock") == "application/vnd.amazon.eventstream"
    assert media_type("ollama") == "application/x-ndjson"
    assert media_type("anthropic") == "text/event-stream"
    assert media_type("anthropic", stream=False) == "application/json"


def test_an_array_instead_of_events() -> None:
    """Gemini without `alt=sse`."""
    data = b"".join(encode_events("gemini", play("text"), framing="jsonarray"))
    assert data.startswith(b"[")
    assert fold_all(decode("gemini", data))[0].text == fold_all(play("text"))[0].text
