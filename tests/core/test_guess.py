"""Guessing: which protocol a stream speaks, from its first frames; checked on every recorded stream there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import guess, translate
from penstock._detect import FRAMES, DetectingDecoder, guess_protocol
from penstock.errors import InputError, UnknownProtocol, Unrecognised
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS, sse
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running

if TYPE_CHECKING:
    from tests.support.corpus import Entry

EASY = {
    "events": b'{"type":"start","id":"a","model":"m"}\n{"type":"finish","reason":"stop"}\n',
    "anthropic": ANTHROPIC,
    "openai-chat": CHAT_CALLS,
}


def test_first_frames_tell() -> None:
    for name, data in EASY.items():
        assert guess(data) == name
        assert data[:1] == b"{" or guess(b"\xef\xbb\xbf: hello\n" + data) == name


def test_pings_and_comments_before_the_first_frame_are_passed_over() -> None:
    assert guess(b": wait\n\n" + sse({"type": "ping"}, "odd", 7, ["x"]) + ANTHROPIC) == "anthropic"


def test_odd_shapes_are_nobody_s() -> None:
    keys = ["type", "kind", "choices", "object", "event_type", "message", "output", "usage"]
    values: list[Any] = [None, 7, [], [7], [[]], {}, {"a": []}, "x"]
    rows = [{key: value} for key in keys for value in values]
    assert [row for row in rows if guess(sse(row) + ANTHROPIC) != "anthropic"] == []


def test_what_is_written_is_recognised() -> None:
    told = {
        (name, stream): guess(b"".join(translate(stream, "auto", name)))
        for name in running.targets()
        for stream in (ANTHROPIC, CHAT_CALLS)
    }
    assert {pair: found for pair, found in told.items() if found != pair[0]} == {}


def test_a_large_first_frame_is_read_whole() -> None:
    large = {"type": "message_start", "message": {"id": "m", "model": "m", "note": "x" * 300_000}}
    assert guess(sse(large)) == "anthropic"


def test_what_nobody_knows_lists_the_names() -> None:
    for data in (b"", b"\n\n", b"\x00\x93\xff" * 700, b"data: hello\n\n" * 500, b'{"a":1}\n' * 500):
        with pytest.raises(Unrecognised, match="known are: aisdk, anthropic, "):
            guess(data)


def test_a_named_framing_is_used() -> None:
    assert guess(CHAT_CALLS, "sse") == "openai-chat"
    with pytest.raises(UnknownProtocol, match="framing"):
        guess(CHAT_CALLS, "morse")


def test_frames_that_do_not_tell() -> None:
    assert guess_protocol([(b"", b"[DONE]"), (b"ping", b'{"type":"ping"}')]) is None


# ── the stage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_stage_holds_frames_until_it_knows() -> None:
    stage = DetectingDecoder()
    ping = (b"ping", b'{"type":"ping"}')
    start = (b"", b'{"type":"message_start","message":{"id":"m"}}')
    assert stage.feed([ping]) == []
    assert stage.protocol is None
    assert stage.diagnostics == []
    known = penstock.decoder("anthropic")
    assert stage.feed([start]) == known.feed([ping, start])
    assert stage.protocol == "anthropic"
    assert stage.feed([(b"", b"{")]) == []
    assert [row.code for row in stage.diagnostics] == ["malformed"]
    assert stage.finish() == known.finish()


def test_the_stage_gives_up() -> None:
    with pytest.raises(Unrecognised):
        DetectingDecoder().finish()
    stage = DetectingDecoder()
    assert stage.feed([(b"", b"{}")] * (FRAMES - 1)) == []
    with pytest.raises(Unrecognised):
        stage.feed([(b"", b"{}")])


def test_the_stage_hands_options_on() -> None:
    stage = DetectingDecoder({"nobody": 1})
    with pytest.raises(InputError, match="nobody"):
        stage.feed([(b"", b'{"type":"message_start","message":{"id":"m"}}')])


# ── the corpus ────────────────────────────────────────────────────────────────────────────────────────────────────────


def guessed(entry: Entry) -> str:
    try:
        return guess(entry.body)
    except Unrecognised:
        return "nothing"


def test_recorded_streams_and_responses_are_recognised() -> None:
    corpus.corpus_or_skip()
    for kind in ("stream", "response"):
        entries = corpus.entries(kind)
        named = {entry.name: guessed(entry) for entry in entries}
        wrong = [one.name for one in entries if named[one.name] != recorded.SOURCES[one.protocol]]
        assert len(wrong) <= 0.01 * len(entries), [f"{named[name]}: {name}" for name in wrong]
