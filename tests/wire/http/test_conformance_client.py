"""Our parser of responses against h11: accept or reject, status, headers and body, however the bytes are split.

Where the two differ, `STRICTER` and `LENIENT` say why.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.http_internals import (
    REJECTED,
    Message,
    all_splits,
    feed,
    read_responses,
    read_with_h11,
    split_at,
)

# docs/limits.md
LINES, MAX_HEAD, READ_AHEAD = 1000, 2**18, 2**18
OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"content-length: 5\r\n\r\nhello"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
HELLO = b"5\r\nhello\r\n0\r\n\r\n"
EMPTY = b"content-length: 0\r\n\r\n"

# Both parsers read these in the same way.
SAME = {
    "sized": SIZED,
    "sized, empty": OK + EMPTY,
    "sized, cut": SIZED[:-2],
    "sized, space around the length": OK + b"content-length:  5 \t\r\n\r\nhello",
    "chunked": CHUNKED + HELLO,
    "chunked, extensions": CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0;x\r\n\r\n',
    "chunked, trailers": CHUNKED + b"5\r\nhello\r\n0\r\nx-t: 1\r\nx-u: 2\r\n\r\n",
    "chunked, trailer of a header's name": CHUNKED + b"5\r\nhello\r\n0\r\ncontent-type: x\r\n\r\n",
    "chunked, capital hex": CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n",
    "chunked, leading zeros": CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n",
    "chunked, no size": CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    "chunked, size of letters": CHUNKED + b"xyz\r\nhello\r\n0\r\n\r\n",
    "chunked, negative size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunked, size with 0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunked, size beyond 64 bits": CHUNKED + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "chunked, size of terabytes": CHUNKED + b"ffffffffffff\r\nhello",
    "chunked, longer than its size": CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
    "chunked, shorter than its size": CHUNKED + b"8\r\nhello\r\n0\r\n\r\n",
    "chunked, no last chunk": CHUNKED + b"5\r\nhello\r\n",
    "chunked, no end of trailers": CHUNKED + b"5\r\nhello\r\n0\r\n",
    "chunked, bare LF": CHUNKED + b"5\nhello\n0\n\n",
    "chunked, bare LF after data": CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    "chunked, bad trailer": CHUNKED + b"5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
    "100 before": b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED,
    "103 twice before": b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" * 2 + SIZED,
    "100 alone": b"HTTP/1.1 100 Continue\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nabc",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "204 with a length": b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n",
    "204 with a body": b"HTTP/1.1 204 No Content\r\n\r\nhello",
    "304": b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n",
    "304 with a length": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
    "ended by close": OK + b"\r\nuntil the end",
    "ended by close, header": OK + b"connection: close\r\n\r\nabc",
    "ended by close, empty": OK + b"\r\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nabc",
    "HTTP/1.0, sized": b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc",
    "HTTP/1.0, chunked": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO,
    "lengths that differ": OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
    "list of lengths that differ": OK + b"content-length: 5, 6\r\n\r\nhello!",
    "length, negative": OK + b"content-length: -1\r\n\r\n",
    "length, plus": OK + b"content-length: +5\r\n\r\nhello",
    "length, hex": OK + b"content-length: 0x5\r\n\r\nhello",
    "length, empty": OK + b"content-length:\r\n\r\nhello",
    "length beyond 64 bits": OK + b"content-length: 99999999999999999999999\r\n\r\nhello",
    "coding gzip": OK + b"transfer-encoding: gzip\r\n\r\nhello",
    "coding gzip, chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n" + HELLO,
    "coding chunked twice": OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO,
    "coding identity": OK + b"transfer-encoding: identity\r\n\r\nhello",
    "coding unknown": OK + b"transfer-encoding: xchunked\r\n\r\n" + HELLO,
    "bare CR": OK + b"x: a\rb\r\n" + EMPTY,
    "space before the first header": OK + b" x: a\r\n" + EMPTY,
    "NUL in a value": OK + b"x: a\0b\r\n" + EMPTY,
    "obs-text in a value": OK + b"x: a\xe9b\r\n" + EMPTY,
    "no colon": OK + b"xyz\r\n" + EMPTY,
    "space before the colon": OK + b"x : 1\r\n" + EMPTY,
    "empty name": OK + b": 1\r\n" + EMPTY,
    "bad name": OK + b"x(y: 1\r\n" + EMPTY,
    "empty value": OK + b"x:\r\n" + EMPTY,
    "space around a value": OK + b"x: \t a b \t\r\n" + EMPTY,
    "repeated header": OK + b"x: 1\r\nx: 2\r\n" + EMPTY,
    "empty reason": b"HTTP/1.1 200 \r\n" + EMPTY,
    "no reason": b"HTTP/1.1 200\r\n" + EMPTY,
    "obs-text in the reason": b"HTTP/1.1 200 O\xe9K\r\n" + EMPTY,
    "status of two digits": b"HTTP/1.1 20 OK\r\n" + EMPTY,
    "status of four digits": b"HTTP/1.1 2000 OK\r\n" + EMPTY,
    "status 099": b"HTTP/1.1 099 OK\r\n" + EMPTY,
    "status 600": b"HTTP/1.1 600 OK\r\n" + EMPTY,
    "status 999": b"HTTP/1.1 999 OK\r\n" + EMPTY,
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n" + EMPTY,
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\n\r\n",
    "small letters": b"http/1.1 200 OK\r\n" + EMPTY,
    "two spaces": b"HTTP/1.1  200 OK\r\n" + EMPTY,
    "another protocol": b"SSH-2.0-x\r\n\r\n",
    "nothing": b"",
    "half a head": OK + b"content-le",
    "pipelined": SIZED + b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\nevil",
    "pipelined, chunked": CHUNKED + HELLO + SIZED,
    "junk behind": SIZED + b"junk",
}
# We reject these; h11 accepts them. httptools is strict where two parsers in a row could disagree (request smuggling).
STRICTER = {
    "space behind a chunk size": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "equal lengths": OK + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "list of equal lengths": OK + b"content-length: 5, 5\r\n\r\nhello",
    "length and chunked": OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO,
    "chunked and length": OK + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n" + HELLO,
    "length as a trailer": CHUNKED + b"5\r\nhello\r\n0\r\ncontent-length: 9\r\n\r\n",
    "bare LF everywhere": b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    "bare LF behind a header": OK + b"x: 1\ncontent-length: 5\r\n\r\nhello",
    "bare LF ends the head": OK + b"content-length: 5\r\n\nhello",
    "obs-fold, space": OK + b"x: a\r\n b\r\ncontent-length: 5\r\n\r\nhello",
    "obs-fold, tab": OK + b"x: a\r\n\tb\r\ncontent-length: 5\r\n\r\nhello",
    "control character in a value": OK + b"x: a\x01b\r\n" + EMPTY,
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\n" + EMPTY,
}
# h11 rejects these; we accept them. Neither changes where a message ends, and the reason is not used.
LENIENT = {
    "empty line before the status": b"\r\n" + OK + EMPTY,
    "NUL in the reason": b"HTTP/1.1 200 O\0K\r\n" + EMPTY,
}


def read_both(data: bytes) -> tuple[set[Message], set[Message]]:
    splits = all_splits(data)
    return read_responses(splits), {read_with_h11(pieces) for pieces in splits}


def test_both_parsers_agree_at_every_split() -> None:
    read = {name: read_both(data) for name, data in SAME.items()}
    assert {name: both for name, both in read.items() if both[0] != both[1] or len(both[0]) != 1} == {}


def test_where_the_parsers_differ() -> None:
    for name, data in STRICTER.items():
        ours, theirs = read_both(data)
        assert (ours, [message.accepted for message in theirs]) == ({REJECTED}, [True]), name
    for name, data in LENIENT.items():
        ours, theirs = read_both(data)
        assert ([(message.accepted, message.status) for message in ours], theirs) == ([(True, 200)], {REJECTED}), name


def test_a_coding_in_capitals_is_chunked() -> None:
    """h11 writes the coding in small letters; we keep the header as it is."""
    ours, theirs = read_both(OK + b"Transfer-Encoding: Chunked\r\n\r\n" + HELLO)
    assert {message._replace(headers=()) for message in ours} == {message._replace(headers=()) for message in theirs}


# ── limits ────────────────────────────────────────────────────────────────────────────────────────

LIMITS = {
    "head": (OK + b"x: %b\r\n" % (b"a" * (MAX_HEAD - 20)) + EMPTY, OK + b"x: %b\r\n" % (b"a" * MAX_HEAD) + EMPTY),
    "header lines": (OK + b"x: 1\r\n" * (LINES - 1) + EMPTY, OK + b"x: 1\r\n" * LINES + EMPTY),
    "trailer lines": (
        CHUNKED + b"0\r\n" + b"x: 1\r\n" * LINES + b"\r\n",
        CHUNKED + b"0\r\n" + b"x: 1\r\n" * (LINES + 1) + b"\r\n",
    ),
}


def test_limits_of_a_head() -> None:
    for name, (within, beyond) in LIMITS.items():
        (message,) = read_responses([[within]])
        assert (message.accepted, message.status) == (True, 200), name
        assert read_responses([[beyond]]) == {REJECTED}, name


WITHOUT_END = {
    "header": (OK + b"x: ", b"a" * 4096),
    "reason": (OK[:-2], b"a" * 4096),
    "informational": (b"HTTP/1.1 103 Early Hints\r\n", b"x: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n" * 100),
    "chunk extension": (CHUNKED + b"5;", b"a" * 4096),
    "trailer": (CHUNKED + b"5\r\nhello\r\n0\r\nx: ", b"a" * 4096),
}


def test_bytes_without_body_are_bounded() -> None:
    sizes = {name: feed(start, piece) for name, (start, piece) in WITHOUT_END.items()}
    assert {name: size for name, size in sizes.items() if size >= 2**20} == {}


def test_a_body_that_nobody_reads_pauses_the_transport() -> None:
    assert feed(CHUNKED, b"400\r\n%b\r\n" % (b"a" * 0x400)) < 2 * READ_AHEAD


def test_a_trailer_is_read_while_a_large_body_waits() -> None:
    """The limit of a head does not count the bytes of a body that waits to be read."""
    body = b"a" * (READ_AHEAD + 10)
    data = CHUNKED + b"%x\r\n%b\r\n0\r\nx: 1\r\n\r\n" % (len(body), body)
    (message,) = read_responses([split_at(data, [len(data) - 12])])
    assert message == Message(True, 200, ((b"transfer-encoding", b"chunked"),), body)


# ── generated responses ───────────────────────────────────────────────────────────────────────────

NAMES = st.text("abcdefgh-", min_size=1, max_size=8).map(lambda name: b"x-" + name.encode())
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20).map(str.encode)
BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=5)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """A valid response: any headers, sized, chunked or ended by close, perhaps after a 1xx, perhaps with another behind."""
    chunks = draw(BODIES)
    fields = b"".join(b"%b: %b\r\n" % field for field in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4)))
    head = b"HTTP/1.1 %d Reason\r\n%b" % (draw(st.sampled_from([200, 201, 400, 429, 500, 529])), fields)
    kind = draw(st.sampled_from(["sized", "chunked", "close"]))
    if kind == "sized":
        data = head + b"content-length: %d\r\n\r\n%b" % (len(b"".join(chunks)), b"".join(chunks))
    elif kind == "chunked":
        extension = draw(st.sampled_from([b"", b";x", b";x=1"]))
        trailer = draw(st.sampled_from([b"", b"x-end: 1\r\n"]))
        frames = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
        data = head + b"transfer-encoding: chunked\r\n\r\n" + frames + b"0\r\n" + trailer + b"\r\n"
    else:
        return head + b"\r\n" + b"".join(chunks)
    early = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return early + data + draw(st.sampled_from([b"", SIZED]))


@settings(deadline=None, max_examples=150)
@given(data=responses(), seeds=st.lists(st.integers(0, 2**16), max_size=6))
def test_generated_responses_are_read_alike(data: bytes, seeds: list[int]) -> None:
    pieces = split_at(data, {seed % (len(data) + 1) for seed in seeds})
    (ours,) = read_responses([[data], pieces])
    assert ours.accepted
    assert ours == read_with_h11(pieces)


@settings(deadline=None, max_examples=300)
@given(data=responses(), position=st.integers(0, 2**16), byte=st.binary(max_size=2), cut=st.integers(0, 2**16))
def test_a_changed_response_is_never_read_as_another(data: bytes, position: int, byte: bytes, cut: int) -> None:
    """One byte is replaced, removed or added. If both parsers accept the result, they read the same body."""
    at = position % (len(data) + 1)
    changed = data[:at] + byte + data[at + 1 :]
    results: Any = read_responses([[changed], split_at(changed, [cut % (len(changed) + 1)])])
    assert len(results) == 1, "the result does not depend on the split"
    (ours,) = results
    theirs = read_with_h11([changed])
    if ours.accepted and theirs.accepted:
        assert (ours.status, ours.body) == (theirs.status, theirs.body)
