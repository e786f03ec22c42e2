"""Frames that are alike but for their text are read by their likeness: the events must be those of a full reading."""

from __future__ import annotations

from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from penstock import protocols
from penstock.bridge import parser
from penstock.codec import LESSONS, Decoder
from tests.cases import Case, cases
from tests.looping import over

CHAT = [case for case in cases() if case.streamed and case.protocol == "openai-chat"]
ODD = [
    '"', '\\"', "\\n", "\\u0041", "\n", "\x00", "\x7f", "\u00a0", "é", "😀", "\\ud83d\\ude00", '","role":"x', '"}', "<think>",
    "</think>", "", " ", "data", "content", "m", "a" * 5000,
]  # fmt: skip


def frame(text: str, **more: Any) -> bytes:
    """A chunk whose text is put in as it is, well formed or not."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **more}
    choice = b'{"index":0,"delta":{"content":"%b"},"finish_reason":null}' % text.encode()
    return msgspec.json.encode(head)[:-1] + b',"choices":[%b]}' % choice


def told(frames: list[bytes], monkeypatch: pytest.MonkeyPatch | None, *, size: int = 1000) -> list[Any]:
    """The events of frames, in batches; with a monkeypatch nothing is learnt."""
    if monkeypatch is not None:
        monkeypatch.setattr(Decoder, "learn", lambda *_: None)
    decoder = protocols.decoder("openai-chat")
    pairs = [(b"", data) for data in frames]
    events = [event for at in range(0, len(pairs), size) for event in decoder.feed(pairs[at : at + size])]
    return [*events, *decoder.finish(), *(row.code for row in decoder.diagnostics)]


LINES = st.one_of(
    st.text(max_size=6).map(lambda text: msgspec.json.encode(text)[1:-1].decode()),
    st.sampled_from(ODD),
    st.text(max_size=6).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text)),
)
CHUNKS = st.builds(
    lambda text, created, name: frame(text, created=created, **name),
    LINES, st.sampled_from([1, 1, 1, 2]), st.sampled_from([{}, {}, {}, {"obfuscation": "x"}, {"x": "content"}]),
)  # fmt: skip


@hypothesis.given(st.lists(CHUNKS, max_size=30), st.integers(1, 30))
@hypothesis.settings(deadline=None)
def test_the_events_are_those_of_a_full_reading(frames: list[bytes], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plain = told(frames, patch)
    assert told(frames, None, size=size) == plain


@over(CHAT)
def test_recorded_streams_are_read_the_same(case: Case) -> None:
    frames = [data for _, data in frames_of(case)]
    with pytest.MonkeyPatch.context() as patch:
        plain = told(frames, patch)
    assert told(frames, None) == plain == told(frames, None, size=1)


def frames_of(case: Case) -> list[Any]:
    """The frames of a golden stream."""
    cut: Any = parser("auto")
    return [*cut.feed([case.wire.read_bytes()]), *cut.finish()]


def test_text_that_breaks_bytes_is_no_text() -> None:
    good, bad = frame("one"), frame("two").replace(b"two", b"t\xffo")
    decoder = protocols.decoder("openai-chat")
    events = decoder.feed([(b"", frame("zero")), (b"", good), (b"", good), (b"", bad), (b"", good)])
    assert [event.text for event in events if hasattr(event, "text")] == ["zero", "one", "one", "t\ufffdo", "one"]


def test_half_a_letter_in_each_of_two_frames_is_no_letter() -> None:
    first, second = frame("x").replace(b'"x"', b'"\xc3"'), frame("x").replace(b'"x"', b'"\xa9"')
    decoder = protocols.decoder("openai-chat")
    events = decoder.feed([(b"", data) for data in (frame("zero"), frame("one"), frame("two"), first, second)])
    assert [event.text for event in events if hasattr(event, "text")] == ["zero", "one", "two", "\ufffd", "\ufffd"]


def test_frames_that_are_never_alike_are_soon_only_read() -> None:
    decoder = protocols.decoder("openai-chat")
    decoder.feed([(b"", frame("word", created=number)) for number in range(5 * LESSONS)])
    assert decoder.like is None
    decoder.feed([(b"", frame("word", created=7)), (b"", frame("more", created=7))])
    assert decoder._hits == 0


def test_most_of_a_stream_is_read_by_its_likeness() -> None:
    decoder = protocols.decoder("openai-chat")
    decoder.feed([(b"", frame(f" word{number}")) for number in range(100)])
    assert decoder._hits >= 95
