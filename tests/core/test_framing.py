"""Framing: every way bytes can be cut gives the same frames, and each fast path agrees with a slow, obvious one."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock._bridge import parser
from penstock._framing import detect
from penstock._framing.sse import KEEP_ALIVE
from penstock.errors import FrameTooLarge, FramingError, InputError, MissingExtra
from penstock.framing import (
    PARSERS,
    WRITERS,
    AutoParser,
    BedrockChunks,
    EventStreamParser,
    EventStreamWriter,
    Frame,
    JsonArrayParser,
    JsonArrayWriter,
    NdjsonParser,
    NdjsonWriter,
    Parser,
    SseParser,
    SseWriter,
    WebSocketParser,
    WebSocketWriter,
    Writer,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BOM = b"\xef\xbb\xbf"


def parse(parser: Parser, chunks: Iterable[bytes]) -> list[Frame]:
    """Feed one chunk at a time, then the end."""
    frames = [frame for chunk in chunks for frame in parser.feed([chunk])]
    return frames + parser.finish()


def parse_to_failure(parser: Parser, chunks: Iterable[bytes]) -> tuple[list[Frame], InputError]:
    """What is given before the error, which must come with the chunks or at the end."""
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames += parser.feed([chunk])
        frames += parser.finish()
    except InputError as error:
        return frames, error
    pytest.fail("no error")


def write(writer: Writer, *batches: Sequence[Frame]) -> bytes:
    chunks = [chunk for batch in batches for chunk in writer.feed(batch)]
    return b"".join(chunks + writer.finish())


def single(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def cuttings(body: bytes) -> Iterator[list[bytes]]:
    """The body whole, cut in two at every place, and byte by byte, with empty chunks thrown in."""
    yield [body]
    for at in range(1, len(body)):
        yield [body[:at], body[at:]]
    yield single(body)
    yield [b"", *(piece for byte in single(body) for piece in (byte, b""))]


def assert_frames(make: Callable[[], Parser], body: bytes, expected: list[Frame]) -> None:
    for chunks in cuttings(body):
        assert parse(make(), chunks) == expected, chunks
    parser = make()
    assert parser.feed(single(body)) + parser.finish() == expected  # all chunks in one batch


# ── server-sent events ────────────────────────────────────────────────────────────────────────────────────────────────


def reference(body: bytes) -> tuple[list[Frame], bytes, int | None]:
    """The WHATWG algorithm over a whole body, one line after another, with our two departures from it."""
    lines = body.removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    frames: list[Frame] = []
    name, data, last_id, retry = b"", b"", b"", None
    for line in [*lines, b""]:  # a frame without its blank line counts
        if not line:
            if data.strip(b"\n"):  # a frame without data, or with nothing but line ends, is none
                frames.append((name, data[:-1]))
            name, data = b"", b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value
        elif field == b"data":
            data += value + b"\n"
        elif field == b"id" and b"\0" not in value:
            last_id = value
        elif field == b"retry" and value.isdigit():
            retry = int(value)
    return frames, last_id, retry


SSE_CASES: dict[str, tuple[bytes, list[Frame]]] = {
    "data": (b"data: a\n\n", [(b"", b"a")]),
    "two": (b"data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
    "named": (b"event: n\ndata: a\n\n", [(b"n", b"a")]),
    "name after data": (b"data: a\nevent: n\n\n", [(b"n", b"a")]),
    "last name wins": (b"event: m\nevent: n\ndata: a\n\n", [(b"n", b"a")]),
    "name is reset": (b"event: n\ndata: a\n\ndata: b\n\n", [(b"n", b"a"), (b"", b"b")]),
    "name without data is reset": (b"event: n\n\ndata: b\n\n", [(b"", b"b")]),
    "empty name": (b"event:\ndata: a\n\nevent\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
    "no space": (b"event:n\ndata:a\n\n", [(b"n", b"a")]),
    "one space is taken": (b"data:  a\n\ndata:   \n\n", [(b"", b" a"), (b"", b"  ")]),
    "tab is kept": (b"data:\ta\n\n", [(b"", b"\ta")]),
    "colons in data": (b"data: a: b:c\n\ndata::\n\n", [(b"", b"a: b:c"), (b"", b":")]),
    "several lines": (b"data: a\ndata: b\ndata:\ndata: c\n\n", [(b"", b"a\nb\n\nc")]),
    "line without colon": (b"data: a\ndata\ndata: b\n\n", [(b"", b"a\n\nb")]),
    "empty data": (b"data:\n\ndata\n\ndata: \n\nevent: n\ndata:\n\n", []),
    "nothing but empty lines of data": (b"data\ndata\n\n", []),
    "comment": (b": c\n\ndata: a\n\n", [(b"", b"a")]),
    "comment alone": (b": c\n\n", []),
    "comment inside": (b"event: n\n: c\ndata: a\n:\n\n", [(b"n", b"a")]),
    "comment before, no blank line": (b":c\ndata: a\n\n", [(b"", b"a")]),
    "comments between": (b"data: a\n\n: c\n\n: d\n: e\n\nevent: n\ndata: b\n\n", [(b"", b"a"), (b"n", b"b")]),
    "many comments": (b":\n" * 300 + b"data: a\n\n" + b":\n\n" * 300 + b"data: b\n\n", [(b"", b"a"), (b"", b"b")]),
    "unknown field": (b"foo: x\nDATA: y\ndata : z\ndata: a\n\n", [(b"", b"a")]),
    "id alone": (b"id: 1\n\ndata: a\n\n", [(b"", b"a")]),
    "retry alone": (b"retry: 10\n\n", []),
    "blank lines": (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [(b"", b"a"), (b"", b"b")]),
    "crlf": (b"event: n\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [(b"n", b"a"), (b"", b"b")]),
    "cr": (b"event: n\rdata: a\r\rdata: b\r\r", [(b"n", b"a"), (b"", b"b")]),
    "mixed": (
        b"event: n\rdata: a\ndata: b\r\n\rdata: c\n\r\ndata: d\r\n\n",
        [(b"n", b"a\nb"), (b"", b"c"), (b"", b"d")],
    ),
    "cr inside data": (b"data: a\rdata: b\n\n", [(b"", b"a\nb")]),
    "first lf, then crlf": (b"data: a\n\ndata: b\r\n\r\ndata: c\n\n", [(b"", b"a"), (b"", b"b"), (b"", b"c")]),
    "mark": (BOM + b"data: a\n\n", [(b"", b"a")]),
    "mark, then a blank line": (BOM + b"\r\n\ndata: a\n\n", [(b"", b"a")]),
    "only one mark": (BOM + BOM + b"data: a\n\ndata: b\n\n", [(b"", b"b")]),
    "mark in the middle": (b"data: a\n\n" + BOM + b"data: b\n\n", [(b"", b"a")]),
    "half a mark": (BOM[:2] + b"data: a\n\ndata: b\n\n", [(b"", b"b")]),
    "end in the blank line": (b"data: a\n\nevent: n\ndata: b\n", [(b"", b"a"), (b"n", b"b")]),
    "end in a line": (b"data: a\n\nevent: n\ndata: b", [(b"", b"a"), (b"n", b"b")]),
    "end after cr": (b"data: a\r", [(b"", b"a")]),
    "end in a field": (b"data: a\n\nda", [(b"", b"a")]),
    "end in a mark": (BOM[:2], []),
    "nothing": (b"", []),
    "separators of other worlds": (
        "data: \x0b\x0c\x1c\x85\u2028\n\n".encode(),
        [(b"", "\x0b\x0c\x1c\x85\u2028".encode())],
    ),
    "nul": (b"data: \0\n\n", [(b"", b"\0")]),
    "not utf-8": (b"data: \xff\xc3\n\n", [(b"", b"\xff\xc3")]),
}


@each("case", list(SSE_CASES))
def test_sse(case: str) -> None:
    body, expected = SSE_CASES[case]
    assert reference(body)[0] == expected
    assert_frames(SseParser, body, expected)


FIELDS = [b"data: ", b"data:", b"data", b"event: ", b"event:", b"id: ", b"retry: ", b":"]
VALUES = [b" ", b"7", b"x", b"{}", b"\0", BOM, BOM[:1]]
ENDS = [b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n"]
FRAMES = [b"data: x\n\n", b"event: e\ndata: y\n\n", b": c\n\n"]
FRAGMENTS = st.sampled_from([*FIELDS, *VALUES, *ENDS, *FRAMES])


@given(st.lists(FRAGMENTS, max_size=24).map(b"".join), st.lists(st.integers(0, 200)))
@example(b"data: x\n\n: c\n\n", [])
@example(b"data: x\n\ndata: \n\n", [])
@example(b"event: n\n data: x\n\n", [])
def test_sse_agrees_with_the_reference(body: bytes, cuts: list[int]) -> None:
    frames, last_id, retry = reference(body)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    for chunks in ([body], single(body), [body[a:b] for a, b in itertools.pairwise(places)]):
        parser = SseParser()
        assert parse(parser, chunks) == frames
        assert (parser.last_event_id, parser.retry) == (last_id, retry)


@each(
    "body, last_id, retry",
    [
        (b"id: 1\nretry: 250\n\n", b"1", 250),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", b"", None),
        (b"id: a\0b\nretry: 1x\n\n", b"", None),
        (b"id: 1\ndata: a\nid: 2\n\n", b"2", None),
        (b"id: 1\ndata: a\n\nid: \0\ndata: b\n\n", b"1", None),
        (b": c\n\nid:1\nevent: n\ndata: a\n\n: d\n\ndata: b\n\n", b"1", None),
        (b"id: 7", b"7", None),
        (b"retry: %b\n\n" % (b"9" * 5000), b"", None),
        (b"retry: -1\n\nretry: 3\n\n", b"", 3),
    ],
)
def test_sse_id_and_retry(body: bytes, last_id: bytes, retry: int | None) -> None:
    for chunks in cuttings(body) if len(body) < 100 else [[body]]:
        parser = SseParser()
        parse(parser, chunks)
        assert (parser.last_event_id, parser.retry) == (last_id, retry)


@each("framing", ["sse", "ndjson", "jsonarray", "eventstream", "auto"])
def test_a_character_may_be_cut_anywhere(framing: str) -> None:
    data = [
        json.dumps({"text": text}, ensure_ascii=False).encode() for text in ("žluťoučký", "日本語", "👩‍👩‍👧 \u2028")
    ]
    frames = [(b"", one) for one in data]
    body = write(WRITERS["sse" if framing == "auto" else framing](), frames)
    assert_frames(PARSERS[framing], body, frames)


def test_a_comment_dispatches_nothing() -> None:
    processing = b": OPENROUTER PROCESSING\n\n"
    for text in (
        body := processing * 2 + b"data: {}\n\n" + processing + b"data: [DONE]\n\n",
        body.replace(b"\n", b"\r\n"),
    ):
        assert_frames(SseParser, text, [(b"", b"{}"), (b"", b"[DONE]")])
    assert_frames(SseParser, b"id: 1\ndata: a\n\n: ping\n\nid: 2\n\n\n", [(b"", b"a")])
    # Ours has no blank line at all: at one some clients dispatch an event without data.
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.endswith(b"\n")
    assert KEEP_ALIVE.count(b"\n") == 1
    body = KEEP_ALIVE + b"id: 1\nevent: n\ndata: a\n\n" + KEEP_ALIVE * 2 + b"data: b\n\n" + KEEP_ALIVE
    assert_frames(SseParser, body, [(b"n", b"a"), (b"", b"b")])


def test_our_keep_alive_is_safe_for_the_openai_sdk() -> None:
    decoder = pytest.importorskip("openai._streaming").SSEDecoder()
    body = b"id: 1\ndata: {}\n\n" + KEEP_ALIVE + b"data: [DONE]\n\n" + KEEP_ALIVE
    assert [event.data for event in decoder.iter_bytes(iter([body]))] == ["{}", "[DONE]"]


def test_a_frame_is_given_as_soon_as_it_is_whole_and_no_sooner() -> None:
    frame = b'event: response.completed\ndata: {"usage":{"input_tokens":3}}\n\n'
    for at in range(1, len(frame)):
        parser = SseParser()
        assert parser.feed([frame[:at]]) == []
        assert parser.feed([frame[at:] + frame]) == [(b"response.completed", b'{"usage":{"input_tokens":3}}')] * 2
        assert parser.finish() == []


@each("framing, opened", [("ndjson", b""), ("jsonarray", b"["), ("sse", b""), ("eventstream", b"")])
def test_no_framing_waits_for_the_end(framing: str, opened: bytes) -> None:
    frames = [(b"", b'{"n":%d}' % number) for number in range(3)]
    for make in (PARSERS[framing], AutoParser):
        parser, writer = make(), WRITERS[framing]()
        parser.feed([opened])
        for frame in frames:
            text = b"".join(writer.feed([frame])).removeprefix(opened)
            assert parser.feed([text]) == [frame]
        assert parser.feed(writer.finish()) + parser.finish() == []


def test_a_blank_line_made_by_cr_dispatches_at_once() -> None:
    parser = SseParser()
    assert parser.feed([b"data: a\r\n\r"]) == [(b"", b"a")]
    assert parser.feed([b"\n"]) == []
    assert parser.feed([b"data: b\r\r"]) == [(b"", b"b")]


@each(
    "frame, text",
    [
        ((b"", b"a"), b"data: a\n\n"),
        ((b"n", b"a"), b"event: n\ndata: a\n\n"),
        ((b"n", b"a\nb\r\nc\rd\n"), b"event: n\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
        ((b"a\r\nb\nc", b"x"), b"event: a b c\ndata: x\n\n"),
    ],
)
def test_sse_writer(frame: Frame, text: bytes) -> None:
    assert SseWriter().feed([frame]) == [text]
    assert write(SseWriter(), [(b"m", b"0"), frame], [], [frame]) == b"event: m\ndata: 0\n\n" + text + text


LINES = st.lists(
    st.binary(max_size=8).filter(lambda line: b"\r" not in line and b"\n" not in line), min_size=1, max_size=3
)


@given(
    st.lists(
        st.tuples(LINES.map(lambda lines: lines[0]), LINES.map(b"\n".join).filter(lambda data: data.strip(b"\n"))),
        max_size=5,
    )
)
def test_what_is_written_as_sse_is_read_back(frames: list[Frame]) -> None:
    # A name that begins with a space cannot be told from none: our reader takes one space, and our writer gives one.
    assert parse(SseParser(), [write(SseWriter(), frames)]) == frames


# ── newline-delimited JSON ────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "body, expected",
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
        (b'\n\n{"a":1}\n \r\n\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (BOM + b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}', [b'{"a":1}']),
        (b'{"a":1}\nnot json\n{"b":', [b'{"a":1}', b"not json", b'{"b":']),
        (b'1\n"x"\nnull\n', [b"1", b'"x"', b"null"]),
        # One document over several lines.
        (b'{\n  "error": {\n    "code": 429\n  }\n}\n', [b'{\n  "error": {\n    "code": 429\n  }\n}']),
        (b'\r\n{\r\n "a": [\r\n  {"b": 1}\r\n ]\r\n}', [b'{\r\n "a": [\r\n  {"b": 1}\r\n ]\r\n}']),
        (b'[\n{"a":1}\n,\n{"b":2}\n]\n', [b'[\n{"a":1}\n,\n{"b":2}\n]']),
        (BOM + b'{\n"a": 1\n}', [b'{\n"a": 1\n}']),
        # Not JSON at all, or only from some line on.
        (b"<html>\n<p>Bad gateway</p>\n</html>\n", [b"<html>\n<p>Bad gateway</p>\n</html>"]),
        (b'oken"}\n{"b":2}\nx\n', [b'oken"}', b'{"b":2}', b"x"]),
        (b'{"a":\n{"b":2}\n{"c":3}', [b'{"a":', b'{"b":2}', b'{"c":3}']),
        (b'{"a":', [b'{"a":']),
        (b"", []),
        (b" \n\r\n", []),
    ],
)
def test_ndjson(body: bytes, expected: list[bytes]) -> None:
    frames = [(b"", data) for data in expected]
    assert_frames(NdjsonParser, body, frames)
    if not body.lstrip(BOM).startswith(b"["):
        assert_frames(AutoParser, body, frames)


def test_ndjson_held_lines_have_the_limit_too() -> None:
    for body in (b"{\n" + b"1,\n" * 40, b"{\n" + b"1,\n" * 30 + b"x" * 20):
        for chunks in cuttings(body):
            with pytest.raises(FrameTooLarge):
                parse(NdjsonParser(limit=100), chunks)


def test_ndjson_held_json_too_deep_to_check_is_given_as_it_is() -> None:
    body = b"[" * 100_000
    assert parse(NdjsonParser(), [body, b"\n"]) == [(b"", body)]


def test_ndjson_writer() -> None:
    writer = NdjsonWriter()
    assert writer.feed([]) == []
    assert writer.feed([(b"n", b'{"a":1}'), (b"", b"2")]) == [b'{"a":1}\n2\n']
    assert writer.feed([(b"", b'{\n"a":\r\n1}'), (b"", b"2\r")]) == [b'{ "a": 1}\n2\n']
    assert writer.finish() == []


# ── JSON arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "body, expected",
    [
        (b'[{"a":1},{"b":2}]', [b'{"a":1}', b'{"b":2}']),
        (b' \r\n[ {"a":1}\r\n,\r\n {"b":2} \n] \n', [b'{"a":1}', b'{"b":2}']),
        (b'[{\n  "a": [1, {"b": []}]\n}\n,\r\n{"c": {}}\n]\n', [b'{\n  "a": [1, {"b": []}]\n}', b'{"c": {}}']),
        (rb'[{"a":"]}\"[{\\"},{"\\\"":"\\\\"}]', [rb'{"a":"]}\"[{\\"}', rb'{"\\\"":"\\\\"}']),
        (b'[1, "a,]", null ,[2,3],-4.5e6]', [b"1", b'"a,]"', b"null", b"[2,3]", b"-4.5e6"]),
        (b"[[],{},[[]]]", [b"[]", b"{}", b"[[]]"]),
        (b"[]", []),
        (b"[,,]", []),
        (b"", []),
        (BOM + b"[1]", [b"1"]),
        (b"[" + b'"x",' * 110 + b"{" + b'"k":"v",' * 60 + b"}]", [b'"x"'] * 110 + [b"{" + b'"k":"v",' * 60 + b"}"]),
        # Not an array, several, or one that is damaged.
        (b'{"error":{"code":400}}', [b'{"error":{"code":400}}']),
        (b'{"a":1}\n{"b":[2]}', [b'{"a":1}', b'{"b":[2]}']),
        (b"[1][2]", [b"1", b"2"]),
        (b'[{"a":1},{"b":"c', [b'{"a":1}', b'{"b":"c']),
        (b'[{"a":1},{"b":"c\\', [b'{"a":1}', b'{"b":"c\\']),
        (b'[{"a":1}', [b'{"a":1}']),
        (b"[1, 2", [b"1", b"2"]),
        (b'[{"a":1}}, {"b":2}]', [b'{"a":1}', b"}", b'{"b":2}']),
        (b"oops [1] oops", [b"oops", b"1", b"oops"]),
        (b"] [1]", [b"]", b"1"]),
    ],
)
def test_jsonarray(body: bytes, expected: list[bytes]) -> None:
    assert_frames(JsonArrayParser, body, [(b"", data) for data in expected])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['"', "\\", "[{,}]", '\\"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.sampled_from([None, 1]), st.booleans(), st.integers(1, 40))
def test_jsonarray_agrees_with_json(values: list[Any], indent: int | None, ascii_only: bool, size: int) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for step in (size, 1, len(body)):
        frames = parse(JsonArrayParser(), [body[at : at + step] for at in range(0, len(body), step)])
        assert [json.loads(data.decode("utf-8", "surrogatepass")) for _, data in frames] == values


@given(
    st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b",", b'"', b"\\", b" ", b"1"]), max_size=30).map(b"".join),
    st.integers(0, 30),
)
def test_jsonarray_of_garbage_does_not_depend_on_the_cut(body: bytes, cut: int) -> None:
    whole = parse(JsonArrayParser(), [body])
    assert parse(JsonArrayParser(), [body[:cut], body[cut:]]) == parse(JsonArrayParser(), single(body)) == whole


def test_jsonarray_writer() -> None:
    assert write(JsonArrayWriter(), [(b"n", b"1"), (b"", b"2")], [], [(b"", b'{"a":3}')]) == b'[1,\n2,\n{"a":3}]\n'
    assert write(JsonArrayWriter()) == b"[]\n"
    assert write(JsonArrayWriter(), []) == b"[]\n"


# ── AWS event stream ──────────────────────────────────────────────────────────────────────────────────────────────────


def aws(headers: dict[str, str], payload: bytes = b"") -> bytes:
    """A message assembled by hand, apart from our writer."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    text = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    text += struct.pack(">I", binascii.crc32(text)) + head + payload
    return text + struct.pack(">I", binascii.crc32(text))


EVENT = aws({":event-type": "messageStart", ":message-type": "event"}, b'{"role":"assistant"}')


@each(
    "message, frame",
    [
        (EVENT, (b"messageStart", b'{"role":"assistant"}')),
        (
            aws({":exception-type": "throttlingException", ":message-type": "exception"}, b'{"message":"slow down"}'),
            (b"throttlingException", b'{"message":"slow down"}'),
        ),
        (
            aws({":message-type": "error", ":error-code": "InternalError", ":error-message": 'it "broke"'}),
            (b"InternalError", b'{"message":"it \\"broke\\""}'),
        ),
        (aws({":message-type": "error"}), (b"error", b'{"message":""}')),
        (aws({}, b"{}"), (b"", b"{}")),
    ],
)
def test_eventstream(message: bytes, frame: Frame) -> None:
    assert_frames(EventStreamParser, message + EVENT, [frame, (b"messageStart", b'{"role":"assistant"}')])
    assert_frames(AutoParser, message, [frame])


def test_eventstream_cut_off_is_nothing_more() -> None:
    for at in range(len(EVENT)):
        assert parse(EventStreamParser(), [EVENT + EVENT[:at]]) == [(b"messageStart", b'{"role":"assistant"}')]


def test_eventstream_damage_is_always_noticed() -> None:
    body = EVENT * 2
    for at in range(len(EVENT), len(body)):
        damaged = body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]
        for chunks in ([damaged], single(damaged)):
            parser = EventStreamParser()
            frames, error = parse_to_failure(parser, chunks)
            assert "AWS event stream" in str(error)
            assert frames == [(b"messageStart", b'{"role":"assistant"}')]
            with pytest.raises(FramingError):
                parser.finish()


def test_eventstream_with_impossible_lengths_or_headers_is_damaged() -> None:
    start = struct.pack(">II", 15, 0)
    short = start + struct.pack(">I", binascii.crc32(start))
    for body in (short, aws({}, b"").replace(b"\0", b"\1")):
        with pytest.raises(FramingError):
            parse(EventStreamParser(), [body])
    head = b"\x02:a\x63"  # a header of a type that does not exist
    text = struct.pack(">II", len(head) + 16, len(head))
    text += struct.pack(">I", binascii.crc32(text)) + head
    with pytest.raises(FramingError):
        parse(EventStreamParser(), [text + struct.pack(">I", binascii.crc32(text))])


def test_eventstream_without_botocore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.eventstream", None)
    with pytest.raises(MissingExtra, match=r"penstock\[aws\]"):
        EventStreamParser()
    with pytest.raises(MissingExtra):
        AutoParser().feed([EVENT])
    assert EventStreamWriter().feed([(b"chunk", b"{}")])  # writing needs nothing


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-zA-Z]{0,20}(Exception)?", fullmatch=True).map(str.encode), st.binary(max_size=40))
    )
)
def test_what_is_written_as_eventstream_is_read_back(frames: list[Frame]) -> None:
    assert parse(EventStreamParser(), [write(EventStreamWriter(), frames)]) == frames


def test_bedrock_chunks() -> None:
    inner = b'{"type":"message_stop"}'
    wrapped = b'{"bytes":"%b","p":"abc"}' % base64.b64encode(inner)
    others = [
        (b"modelTimeoutException", wrapped),
        (b"chunk", b'{"bytes":1}'),
        (b"chunk", b"{"),
        (b"chunk", b'{"bytes":"x"}'),
    ]
    stage = BedrockChunks()
    assert stage.feed([(b"chunk", wrapped), *others]) == [(b"", inner), *others]
    assert stage.finish() == []
    body = write(EventStreamWriter(), [(b"chunk", wrapped), *others])
    for make in (EventStreamParser, PARSERS["eventstream"], AutoParser):  # the parsers take them out themselves
        assert_frames(make, body, [(b"", inner), *others])


# ── websocket messages ────────────────────────────────────────────────────────────────────────────────────────────────


def test_websocket_messages_are_frames() -> None:
    assert WebSocketParser().feed([b"{}", b"", b"[1]\n"]) == [(b"", b"{}"), (b"", b"[1]\n")]
    assert WebSocketWriter().feed([(b"n", b"{}"), (b"", b"1")]) == [b"{}", b"1"]
    assert WebSocketWriter().finish() == []
    assert WebSocketParser().finish() == []
    parser = WebSocketParser(limit=3)
    assert parser.feed([b"abc", b"abcd"]) == [(b"", b"abc")]
    for call in (parser.finish, lambda: parser.feed([b"a"])):
        with pytest.raises(FrameTooLarge):
            call()


# ── size: linear, and limited ─────────────────────────────────────────────────────────────────────────────────────────

MEGABYTE = 1 << 20


def large_frames(size: int) -> dict[str, bytes]:
    return {
        "sse": b"data: " + b"x" * size + b"\n\n",
        "sse in short lines": b"data:x\n" * (size // 7) + b"\n",
        "sse in comments": b":\n" * (size // 2) + b"data: x\n\n",
        "sse crlf": b"data: " + b"x" * size + b"\r\n\r\n",
        "ndjson": b'"' + b"x" * size + b'"\n',
        "ndjson held": b'{"a":[\n' + b"1,\n" * (size // 3) + b"1]}\n",
        "jsonarray": b'["' + b"x" * size + b'"]',
        "jsonarray of escapes": b'["' + b"\\\\\\n" * (size // 4) + b'"]',
        "jsonarray of strings": b"[[" + b'"x",' * (size // 4) + b"0]]",
        "jsonarray of brackets": b"[" * (size // 2) + b"]" * (size // 2),
        "jsonarray of spaces": b"[" + b" " * size + b"1]",
        "eventstream": write(EventStreamWriter(), [(b"chunk", b"x" * size)]),
    }


@pytest.mark.parametrize("size", [MEGABYTE // 16, pytest.param(MEGABYTE, marks=pytest.mark.nightly)])
def test_a_large_frame_in_the_smallest_chunks(size: int) -> None:
    """Hopeless to wait for at night if anything were quadratic: up to half of 10¹² steps."""
    for case, body in large_frames(size).items():
        framing = case.split(maxsplit=1)[0]
        whole = parse(PARSERS[framing](), [body])
        assert len(whole) == 1, case
        assert parse(PARSERS[framing](), single(body)) == whole, case


# (framing, a frame of exactly the size, what is around it)
SIZED: dict[str, Callable[[int], bytes]] = {
    "sse": lambda size: b"data: " + b"x" * (size - 7) + b"\n\n",
    "sse crlf": lambda size: b"data: " + b"x" * (size - 7) + b"\r\n\r\n",
    "sse after a newline": lambda size: b"\n" + b"data: " + b"x" * (size - 7) + b"\n\n",
    "sse lines": lambda size: b"data:\n" * ((size - 8) // 6) + b"data: " + b"x" * ((size - 8) % 6) + b"y\n\n",
    "ndjson": lambda size: b'"' + b"x" * (size - 2) + b'"\n',
    "jsonarray": lambda size: b'["' + b"x" * (size - 2) + b'"]',
    "eventstream": lambda size: aws({}, b"x" * (size - 16)),
}


@each("case", SIZED)
def test_the_limit_is_exact_however_the_bytes_are_cut(case: str) -> None:
    make, limit = PARSERS[case.split(maxsplit=1)[0]], 100
    fits, over = SIZED[case](limit), SIZED[case](limit + 1)
    for chunks in cuttings(fits):
        assert len(parse(make(limit=limit), chunks)) == 1
    for chunks in cuttings(over):
        parser = make(limit=limit)
        with pytest.raises(FrameTooLarge, match="over the limit of 100") as caught:
            parse(parser, chunks)
        assert isinstance(caught.value, InputError)
        assert caught.value.limit == limit < caught.value.size
        with pytest.raises(FrameTooLarge):
            parser.finish()


@each("case", [case for case in SIZED if case != "jsonarray"])
def test_frames_before_one_that_is_too_large_are_still_given(case: str) -> None:
    make, limit = PARSERS[case.split(maxsplit=1)[0]], 100
    body = SIZED[case](99) * 3 + SIZED[case](101) + SIZED[case](99)
    for chunks in cuttings(body):
        frames, error = parse_to_failure(make(limit=limit), chunks)
        assert isinstance(error, FrameTooLarge)
        assert len(frames) == 3


def test_many_frames_may_be_larger_than_the_limit_together() -> None:
    frame = b"data: " + b"x" * 80 + b"\n\n"
    for eol in (b"\n", b"\r\n", b"\r"):
        assert len(parse(SseParser(limit=100), [frame.replace(b"\n", eol) * 50])) == 50
    assert len(parse(JsonArrayParser(limit=10), [b"[" + b'{"a":1},' * 50 + b"]"])) == 50
    assert len(parse(NdjsonParser(limit=10), [b'{"a":1}\n' * 50])) == 50
    assert len(parse(AutoParser(limit=100), [frame * 50])) == 50


def test_the_default_limit_lets_a_large_image_through() -> None:
    frame = b"data: " + b"x" * (20 * MEGABYTE) + b"\n\n"
    assert len(parse(SseParser(), [frame])[0][1]) == 20 * MEGABYTE


# ── which framing ─────────────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "prefix, framing",
    [
        (b"", None),
        (b" \r\n\t", None),
        (b"dat", None),
        (b"data", None),
        (b"data:", "sse"),
        (b"data\n", "sse"),
        (b"event:x", "sse"),
        (b"id: 1", "sse"),
        (b"retry:", "sse"),
        (b":", "sse"),
        (b"\n\n: hello", "sse"),
        (BOM, None),
        (BOM + b"data:", "sse"),
        (b"foo: bar\r\ndata: {}", "sse"),
        (b'oken"}}\n\ndata: {', "sse"),
        (b"{", "ndjson"),
        (b" \n{", "ndjson"),
        (BOM + b'{"data:', "ndjson"),
        (b"[", "jsonarray"),
        (b"\r\n [{", "jsonarray"),
        (EVENT[:1], None),
        (EVENT[:11], None),
        (EVENT[:12], "eventstream"),
        (EVENT[:11] + b"\0", None),
        (b"<html>", None),
        (b"<html>" + b"x" * 506, "ndjson"),
        (b" " * 512, None),
        (b" " * 65537, "ndjson"),
        (b"\n" * 600 + b"data: {}", "sse"),
        (b"\xef\xbb\xbf" + b"\r\n" * 600 + b": hello", "sse"),
        (b"x" * 511 + b"\ndata:", "ndjson"),
    ],
)
def test_detect(prefix: bytes, framing: str | None) -> None:
    assert detect(prefix) == framing
    if framing is not None:  # more bytes never change the answer
        assert detect(prefix + b'\ndata: {"a":1}\n\n[') == framing


@each("body", [*(body for body, _ in SSE_CASES.values()), b"hello", b"\0\0", b"x" * 600 + b"\ndata: a\n\n"])
def test_auto_does_not_depend_on_the_cut(body: bytes) -> None:
    whole = AutoParser()
    frames = parse(whole, [body])
    for chunks in ([body[:1], body[1:]], [body[:7], body[7:]], single(body)):
        parser = AutoParser()
        assert parse(parser, chunks) == frames
        assert parser.framing == whole.framing


def test_a_content_type_tells_where_the_content_does_not() -> None:
    data = b"x-unknown: 1\n" * 60 + b"data: {}\n\n"
    for kind, found in (("text/event-stream; charset=utf-8", "sse"), ("", "ndjson"), ("application/json", "ndjson")):
        stage = parser("auto", content_type=kind)
        stage.feed([data])
        assert getattr(stage, "framing", "") == found


def test_the_tables_name_every_framing() -> None:
    assert set(PARSERS) == {*WRITERS, "auto"}
    for name, make in WRITERS.items():
        frames = [(b"", b'{"n":1}'), (b"", b'{"n":2}')]
        chunks = make().feed(frames)
        assert len(chunks) == (2 if name == "websocket" else 1)  # one write for a batch, where messages may be merged
        assert make().feed([]) == []
        assert parse(PARSERS[name](), chunks) == frames
