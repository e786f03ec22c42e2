"""Guessing: which protocol a stream speaks, from its first frames; checked on every recorded stream there is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock import _protocols as protocols
from penstock import guess, translate
from penstock._detect import FRAMES, DetectingDecoder, guess_protocol
from penstock.errors import InputError, UnknownProtocol, Unrecognised
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS, sse
from tests.support import corpus
from tests.support import recorded_streams as recorded

if TYPE_CHECKING:
    from tests.support.corpus import Entry

EASY = {
    "events": b'{"type":"start","id":"a","model":"m"}\n{"type":"finish","reason":"stop"}\n',
    "anthropic": ANTHROPIC,
    "openai-chat": CHAT_CALLS,
}


@pytest.mark.parametrize("name", EASY)
def test_first_frames_tell(name: str) -> None:
    assert guess(EASY[name]) == name
    assert guess(b"\xef\xbb\xbf: hello\n" + EASY[name]) == name if EASY[name][:1] != b"{" else True


def test_pings_and_comments_before_the_first_frame_are_passed_over() -> None:
    assert guess(b": wait\n\n" + sse({"type": "ping"}, "odd", 7, ["x"]) + ANTHROPIC) == "anthropic"


@pytest.mark.parametrize("key", ["type", "kind", "choices", "object", "event_type", "message", "output", "usage"])
@pytest.mark.parametrize("value", [None, 7, [], [7], [[]], {}, {"a": []}, "x"])
def test_odd_shapes_are_nobody_s(key: str, value: Any) -> None:
    assert guess(sse({key: value}) + ANTHROPIC) == "anthropic"


@pytest.mark.parametrize("target", [name for name in protocols.MODULES if protocols.protocol(name).encoder])
@pytest.mark.parametrize("stream", [ANTHROPIC, CHAT_CALLS], ids=["text", "calls"])
def test_what_is_written_is_recognised(target: str, stream: bytes) -> None:
    assert guess(b"".join(translate(stream, "auto", target))) == target


def test_a_large_first_frame_is_read_whole() -> None:
    large = {"type": "message_start", "message": {"id": "m", "model": "m", "note": "x" * 300_000}}
    assert guess(sse(large)) == "anthropic"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00\x93\xff" * 700, b"data: hello\n\n" * 500, b'{"a":1}\n' * 500])
def test_what_nobody_knows_lists_the_names(data: bytes) -> None:
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
    known = protocols.decoder("anthropic")
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


@pytest.mark.parametrize("kind", ["stream", "response"])
def test_recorded_streams_are_recognised(kind: str) -> None:
    corpus.corpus_or_skip()
    right: Counter[str] = Counter()
    wrong: list[str] = []
    for entry in corpus.entries(kind):
        name = guessed(entry)
        if name == recorded.SOURCES[entry.protocol]:
            right[entry.protocol] += 1
        else:
            wrong.append(f"{name}, not {recorded.SOURCES[entry.protocol]}: {entry.name}")
    share = right.total() / (right.total() + len(wrong))
    print("\n".join([f"{share:.2%} right", *wrong]))  # noqa: T201  the list is what one wants when it fails
    assert share >= 0.99
