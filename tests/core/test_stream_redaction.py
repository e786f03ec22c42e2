"""Redaction of AWS event streams: messages stay readable, however a stream is cut into chunks."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._framing.aws_messages import PRELUDE, find_messages, split_headers, write_header, write_message
from penstock._redaction import MARK
from penstock._stream_redaction import redact_chunks, redact_stream
from penstock.errors import FramingError
from penstock.framing import PARSERS, WRITERS

KNOWN, TOKEN, PASSWORD = 'he said "no"', "sk-planted0123456789abcdef", "hunter2-planted"
PAYLOADS: list[Any] = [
    {"delta": {"text": "before"}},
    {"delta": {"text": f"{KNOWN} and {TOKEN}"}},
    {"delta": {"toolUse": {"input": json.dumps({"password": PASSWORD})}}},
    {"delta": {"text": "after"}},
]
FRAMES = [(b"contentBlockDelta", json.dumps(one).encode()) for one in PAYLOADS]


def write(frames: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(WRITERS["eventstream"]().feed(frames))


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    parser = PARSERS["eventstream"]()
    return [*parser.feed([data]), *parser.finish()]


def cut(data: bytes, places: list[int]) -> list[tuple[float, bytes]]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [(float(at), data[first:last]) for at, (first, last) in enumerate(pairwise(borders))]


STREAM = write(FRAMES)


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_messages_are_readable_and_end_when_they_did(places: list[int]) -> None:
    chunks = cut(STREAM, places)
    kept, hidden = redact_chunks(chunks, [KNOWN])
    assert hidden == 3
    assert [at for at, _ in kept] == [at for at, _ in chunks]
    whole = b"".join(chunk for _, chunk in kept)
    shown = [json.loads(payload) for _, payload in read(whole)]
    assert shown[1] == {"delta": {"text": f"{MARK} and {MARK}"}}
    assert json.loads(shown[2]["delta"]["toolUse"]["input"]) == {"password": MARK}
    assert (shown[0], shown[3]) == (PAYLOADS[0], PAYLOADS[3])
    assert _message_times(kept) == _message_times(chunks)
    assert redact_chunks(kept, [KNOWN]) == (kept, 0)


def _message_times(chunks: list[tuple[float, bytes]]) -> list[float]:
    """When each message was complete."""
    parser = PARSERS["eventstream"]()
    return [at for at, chunk in chunks for _ in parser.feed([chunk])]


def test_the_chunks_of_a_long_message_keep_their_sizes() -> None:
    chunks = cut(
        write([(b"a", json.dumps({"text": f"{'x' * 5000} {TOKEN} {'y' * 5000}"}).encode())]), [2000, 4500, 7000]
    )
    kept, _ = redact_chunks(chunks)
    changed = [len(new) - len(old) for (_, new), (_, old) in zip(kept, chunks, strict=True)]
    assert changed == [0, 0, len(MARK) - len(TOKEN), 0]
    assert json.loads(read(b"".join(chunk for _, chunk in kept))[0][1])["text"] == f"{'x' * 5000} {MARK} {'y' * 5000}"


def test_what_has_no_secret_is_not_touched() -> None:
    chunks = cut(write(FRAMES[:1]), [5, 20])
    assert redact_chunks(chunks, [KNOWN]) == (chunks, 0)
    data = write(FRAMES[:1])
    assert redact_stream(data, [KNOWN])[0] is data


def test_other_streams_are_redacted_too() -> None:
    assert redact_stream(f"data: {TOKEN}".encode()) == (f"data: {MARK}".encode(), 1)


def test_the_base64_of_a_model_of_another_maker() -> None:
    inner = {"delta": {"text": TOKEN, "partial_json": json.dumps({"password": PASSWORD})}}
    outer = {"bytes": b64encode(json.dumps(inner).encode()).decode(), "p": "abcd"}
    [(_, shown)] = read(redact_stream(write([(b"chunk", json.dumps(outer).encode())]))[0])
    found = json.loads(shown)["delta"]
    assert (found["text"], json.loads(found["partial_json"])) == (MARK, {"password": MARK})


def test_a_secret_over_the_parts_of_an_inner_stream() -> None:
    data = write([(b"PayloadPart", b'data: {"text":"' + TOKEN[:9].encode()), (b"PayloadPart", TOKEN[9:].encode() + b'"}\n\n')])  # fmt: skip
    assert [payload for _, payload in read(redact_stream(data)[0])] == [f'data: {{"text":"{MARK}'.encode(), b'"}\n\n']


def test_the_values_of_headers() -> None:
    headers = b"".join([
        write_header(b":message-type", b"error"), write_header(b":error-message", f"the key {TOKEN} is bad".encode()),
        b"\x04flag\x00", b"\x04time\x08" + bytes(8),
    ])  # fmt: skip
    cleaned, _ = redact_stream(write_message(headers, b"") + STREAM)
    assert read(cleaned)[0] == (b"error", json.dumps({"message": f"the key {MARK} is bad"}, separators=(",", ":")).encode())  # fmt: skip
    span = next(find_messages(cleaned))
    assert [kind for _, kind, _ in split_headers(cleaned[span.headers_start : span.payload_start])] == [7, 7, 0, 8]
    assert len(read(cleaned)) == 1 + len(FRAMES)


@pytest.mark.parametrize("headers", [b"\x04", b"\x90name", b"\x01a\x07\x00", b"\x01a\x63", b"\x01a\x07\x00\xffabc"])
def test_damaged_headers_stay_but_for_their_secrets(headers: bytes) -> None:
    cleaned, _ = redact_stream(write_message(headers + b" " + TOKEN.encode(), b"{}") + STREAM)
    assert TOKEN.encode() not in cleaned
    assert len(list(find_messages(cleaned))) == 1 + len(FRAMES)


def test_damaged_messages_stay_damaged_without_their_secrets() -> None:
    first = len(write(FRAMES[:1]))
    broken = bytearray(STREAM)
    broken[first + PRELUDE.size] ^= 1
    for data in (bytes(broken), STREAM[first + 1 :], STREAM[:first] + b"?" + STREAM[first:]):
        cleaned, _ = redact_stream(data, [KNOWN])
        assert TOKEN.encode() not in cleaned
        assert PASSWORD.encode() not in cleaned
        with pytest.raises(FramingError):
            _read_to_the_damage(cleaned)


def _read_to_the_damage(data: bytes) -> None:
    parser = PARSERS["eventstream"]()
    parser.feed([data])
    parser.feed([b""])  # messages before the damage are given first


@given(st.integers(0, len(STREAM)))
def test_a_stream_that_is_cut_anywhere(end: int) -> None:
    """Whole messages are read, and the rest counts as cut, not as damaged."""
    secret = "four"
    data = write([(b"a", json.dumps({"text": f"{TOKEN} {secret * 20} end"}).encode())] * 3)
    end = end % len(data)
    cleaned, _ = redact_stream(data[:end], [secret])
    assert len(read(cleaned)) == len(read(data[:end]))
