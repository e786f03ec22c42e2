"""What reads untrusted input takes time in proportion to its size: redaction, errors, framing, JSON, conversion, shaping."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import encoding, translate
from penstock._detect import guess
from penstock._fold import fold_all
from penstock._framing import detect
from penstock._http_errors import read_http_error
from penstock._lenient_json import complete_json, parse_lenient, replace_surrogates
from penstock._media import sniff_media_type, split_file_url
from penstock._messages.convert import convert
from penstock._redaction import find_secrets, redact, redact_bytes, redact_cut, redact_json
from penstock._stream_redaction import redact_stream
from penstock._transforms.citation_links import CitationLinks
from penstock._transforms.sentence_ends import SentenceFinder
from penstock._transforms.stop_sequences import StopAtSequences
from penstock._transforms.think_tags import ThinkTags
from penstock.framing import PARSERS, WRITERS
from tests.support.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.finding("SEC-3"), pytest.mark.slow]

TEXTS = [
    "http://", "://", "a.", "-eyJ", "eyJaaaaaaaa.", "sk-", "sk-abcdef ", "secret:", "secret ", "api_key = ", "bearer ",
    "Basic  ", "AIza", "@", "https://a@", "key=", '\\"', "\\n", "aaaa", "github_pat_", "ya29.", "AKIA", "[secret]",
]  # fmt: skip


@pytest.mark.parametrize("piece", TEXTS)
@pytest.mark.parametrize("lead", ["", "http://"])
def test_redaction(piece: str, lead: str) -> None:
    def make(size: int) -> Callable[[], Any]:
        text = lead + piece * (size // len(piece))
        return lambda: (redact(text, ["aaaaaaaa", piece * 30]), find_secrets(text, ["sk-sk-"]))

    assert_linear(make, f"hide of {piece!r}", 20_000)


NAMED = [
    'password="', 'password=\\"', "password='", 'password":"', "password\\u0022:\\u0022", "password=\\\\\\u0022", "PASSWORD=a",
    'password: a"', "password=a.", "token", '"API key": "', "://a:", "\\", "${", "-----BEGIN PRIVATE KEY-----", "\\u0026key=a",
]  # fmt: skip


@pytest.mark.parametrize("piece", NAMED)
def test_values_after_names(piece: str) -> None:
    """Alone, and in a value that has begun in each kind of quotes and never ends."""

    def make(size: int) -> Callable[[], Any]:
        texts = [lead + piece * (size // len(piece)) for lead in ("", 'password="', "password=\\u0022", "password='")]
        return lambda: [find_secrets(text) for text in texts]

    assert_linear(make, f"search after names in {piece!r}", 5_000)


def test_known_values_that_overlap_themselves() -> None:
    assert_linear(lambda size: lambda: redact("a" * size, ["a" * (size // 4)]), "hide of a long known value", 20_000)


@pytest.mark.parametrize("payload", [b'{"text":"sk-0123456789ab"}', b'{"bytes":"' * 20, b'{"bytes":"eyJhIjoiIn0="}'])
def test_messages_of_aws_with_secrets(payload: bytes) -> None:
    frames = WRITERS["eventstream"]().feed([(b"chunk", payload), (b"chunk", b'{"api_key": "hunter2hunter2"}')])

    def make(size: int) -> Callable[[], Any]:
        data = b"".join(frames) * (size // 100)
        return lambda: redact_stream(data, ["planted-value"])

    assert_linear(make, "messages of AWS", 20_000)


def test_a_cut_text_takes_bounded_time() -> None:
    long = "http://" + "a" * 3_000_000
    short = long[:20_000]
    assert min(_timed(lambda: redact_cut(long, 4_000)) for _ in range(5)) < 20 * max(
        min(_timed(lambda: redact_cut(short, 4_000)) for _ in range(5)), 1e-4
    )


def _timed(work: Callable[[], Any]) -> float:
    import time

    began = time.process_time()
    work()
    return time.process_time() - began


WALKED: dict[str, Callable[[int], Any]] = {
    "list": lambda size: ["sk-0123456789ab"] * (size // 10),
    "object": lambda size: {f"sk-{number:012}": "x" for number in range(size // 10)},
    "text": lambda size: "-eyJ" * (size // 4),
    "levels": lambda size: [[[{"a": [number]}]] for number in range(size // 10)],
}


@pytest.mark.parametrize("shape", WALKED)
def test_walks_over_json(shape: str) -> None:
    def make(size: int) -> Callable[[], Any]:
        value = WALKED[shape](size)
        data = json.dumps(value).encode()
        return lambda: (
            redact_json(value),
            replace_surrogates(value),
            parse_lenient(data),
            redact_bytes(data, ["planted-value"]),
        )

    assert_linear(make, f"JSON: {shape}", 10_000)


ERRORS: dict[str, Callable[[int], bytes]] = {
    "message": lambda size: json.dumps({"error": {"message": "http://" + "a" * size}}).encode(),
    "model": lambda size: json.dumps({"error": {"message": "model " * (size // 6)}}).encode(),
    "titles": lambda size: b"<title>" * (size // 7),
    "objects": lambda size: json.dumps({"errors": [{"code": "x"}] * (size // 14)}).encode(),
    "details": lambda size: json.dumps(
        {"error": {"details": [{"reason": "R", "retryDelay": "1s"}] * (size // 40)}}
    ).encode(),
    "quoted": lambda size: json.dumps({"error": {"metadata": {"raw": json.dumps({"error": "x" * size})}}}).encode(),
    "digits": lambda size: b'{"error":{"message":"retry in ' + b"9" * size + b' s"}}',
}


@pytest.mark.parametrize("shape", ERRORS)
def test_errors_of_providers(shape: str) -> None:
    def make(size: int) -> Callable[[], Any]:
        body = ERRORS[shape](size)
        return lambda: read_http_error(400, {"retry-after": "9" * 1000}, body, ["planted-value"])

    assert_linear(make, f"error: {shape}", 10_000)


FRAMED: dict[str, list[bytes]] = {
    "sse": [b"\n", b"\r", b"\r\n", b":\n", b"data:\n", b"data: x\n\n", b"event: a\n", b"data: x\r\n\r\n", b"x", b"data: {"],
    "ndjson": [b"\n", b"{}\n", b"{", b'"', b"\r\n", b" "],
    "jsonarray": [b"[", b"{", b'"', b"{},", b"\\", b'"\\', b" ", b"]", b'{"a":"', b","],
    "eventstream": [b"\x00", b"\x00\x00\x00\x10", b"\xff"],
    "websocket": [b"\x81\x01a", b"\x00", b"\x01\x00"],
    "auto": [b"\n", b" ", b"\r", b"data", b"{", b"[", b"x\n", b"data: x\n"],
}  # fmt: skip


@pytest.mark.parametrize(("framing", "piece"), [(name, piece) for name, row in FRAMED.items() for piece in row])
@pytest.mark.parametrize("cut", [0, 7, 4096])
def test_framing(framing: str, piece: bytes, cut: int) -> None:
    def make(size: int) -> Callable[[], Any]:
        data = piece * (size // len(piece))
        chunks = [data[place : place + cut] for place in range(0, len(data), cut)] if cut else [data]
        return lambda: _parsed(framing, chunks)

    assert_linear(make, f"{framing} of {piece!r} in chunks of {cut}", 4_000)


def _parsed(framing: str, chunks: list[bytes]) -> None:
    parser = PARSERS[framing]()
    try:
        for chunk in chunks:
            parser.feed([chunk])
        parser.finish()
    except Exception as error:  # noqa: BLE001 — what is refused is refused
        assert type(error).__module__.startswith("penstock"), error  # noqa: PT017


@pytest.mark.parametrize("piece", [b"\n", b"data: {}\n\n", b"{}\n", b"[", b" ", b'{"a":'])
def test_guesses(piece: bytes) -> None:
    def make(size: int) -> Callable[[], Any]:
        data = piece * (size // len(piece))
        return lambda: _guessed(data)

    assert_linear(make, f"guess of {piece!r}", 10_000)


def _guessed(data: bytes) -> None:
    try:
        detect(data)
        guess(data)
    except Exception as error:  # noqa: BLE001
        assert type(error).__module__.startswith("penstock"), error  # noqa: PT017


@pytest.mark.parametrize("text", ['"\\', "1", "-", " ", "\\ud800"])
def test_texts_that_may_be_json(text: str) -> None:
    assert_linear(lambda size: lambda: complete_json(text * (size // len(text))), f"usable of {text!r}", 10_000)


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


def _call(number: int) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": f"tool {number}", "arguments": "{}"}}


def _result(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": "done"}


TALKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "messages": lambda count: {"messages": [{"role": "user", "content": "hi"}] * count},
    "turns": lambda count: {"messages": [{"role": ("user", "assistant")[n % 2], "content": f"m{n}"} for n in range(count)]},
    "tools": lambda count: {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": f"tool.{n}", "parameters": {}}} for n in range(count)],
    },
    "tools with one long name": lambda count: {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "t" * 80 + str(n)}} for n in range(count)],
    },
    "calls in one turn": lambda count: {
        "messages": [
            {"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [_call(n) for n in range(count)]},
            *(_result(n) for n in reversed(range(count))),
        ]
    },
    "calls in many turns": lambda count: {
        "messages": [
            row for n in range(count) for row in ({"role": "assistant", "tool_calls": [_call(n)]}, _result(n))
        ]
    },
    "results without calls": lambda count: {"messages": [_result(n) for n in range(count)]},
    "calls without results": lambda count: {
        "messages": [{"role": "assistant", "tool_calls": [_call(n)]} for n in range(count)]
    },
    "the same id": lambda count: {
        "messages": [row for _ in range(count) for row in ({"role": "assistant", "tool_calls": [_call(1)]}, _result(1))]
    },
    "one id beside numbered ones": lambda count: {
        "messages": [
            {"role": "assistant", "tool_calls": [{**_call(1), "id": "a"} for _ in range(count)]},
            {"role": "assistant", "tool_calls": [{**_call(n), "id": f"a_{n}"} for n in range(2 * count)]},
        ]
    },
    "empty users among results": lambda count: {
        "messages": [row for n in range(count) for row in (_result(n), {"role": "user", "content": ""})]
    },
    "systems": lambda count: {"messages": [{"role": "system", "content": f"s{n}"} for n in range(count)]},
    "parts": lambda count: {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * count}]
    },
    "stops": lambda count: {"messages": [{"role": "user", "content": "x"}], "stop": [f"s{n}" for n in range(count)]},
}  # fmt: skip


@pytest.mark.parametrize("target", ["anthropic", "gemini", "responses", "bedrock"])
@pytest.mark.parametrize("shape", TALKS)
def test_conversations(shape: str, target: str) -> None:
    def make(count: int) -> Callable[[], Any]:
        body = {"model": "m", **TALKS[shape](count)}
        return lambda: convert(body, "openai-chat", target)

    assert_linear(make, f"convert {shape} to {target}", 100)


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


def _deltas(pieces: list[str]) -> list[Any]:
    return [ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, piece) for piece in pieces)]


def test_numbers_of_list_items() -> None:
    assert_linear(
        lambda size: lambda: SentenceFinder().read(" " * size + "1. " * (size // 3)), "a line of numbers", 2_000
    )


@pytest.mark.parametrize(
    "piece", ["a", "<", "<think>", "</think>", "<think", " ", ". ", ".", "|", "`", "\n", "[1]", "http://a "]
)
@pytest.mark.parametrize("whole", [True, False], ids=["one piece", "many pieces"])
def test_texts_that_pass(piece: str, whole: bool) -> None:
    def make(size: int) -> Callable[[], Any]:
        count = size // len(piece)
        pieces = [piece * count] if whole else [piece] * count
        return lambda: _passed(pieces)

    assert_linear(make, f"text of {piece!r}", 2_000)


def _passed(pieces: list[str]) -> None:
    tags, prose = ThinkTags(), SentenceFinder()
    for piece in pieces:
        tags.feed(piece)
        prose.read(piece)
        assert prose.rested in {"", " ", "\n\n"}
    StopAtSequences(["aaab", "</stop>", "..!"]).feed(_deltas(pieces))
    source = ev.Source(0, url="http://a", title="t") if hasattr(ev, "Source") else None
    CitationLinks().feed([*_deltas(pieces[:2]), *([source] if source is not None else []), *_deltas(pieces)[2:]])


def test_long_stop_sequences() -> None:
    def make(size: int) -> Callable[[], Any]:
        return lambda: StopAtSequences(["a" * (size // 4) + "b"]).feed(_deltas(["a" * size]))

    assert_linear(make, "a long stop sequence", 2_000)


def test_streams_of_many_small_frames() -> None:
    frame = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'

    def make(size: int) -> Callable[[], Any]:
        data = frame * (size // len(frame))
        chunks = [data[place : place + 50] for place in range(0, len(data), 50)]
        return lambda: list(translate(chunks, "openai-chat", "anthropic", errors="fault"))

    assert_linear(make, "a stream in small chunks", 20_000)


@pytest.mark.parametrize(
    "url", ["data:", "data:a;", "data:;base64,", "data:image/png;base64,A", "data:,%41", "data:,%"]
)
def test_media(url: str) -> None:
    def make(size: int) -> Callable[[], Any]:
        text = url + url[-2:] * (size // 2)
        return lambda: (split_file_url(text, "x/y"), sniff_media_type(text))

    assert_linear(make, f"media of {url!r}", 10_000)


@pytest.mark.parametrize("protocol", ["anthropic", "openai-chat", "gemini", "completions", "vscode"])
def test_whole_bodies_of_many_deltas(protocol: str) -> None:
    def make(size: int) -> Callable[[], Any]:
        pipe = encoding(protocol, frames=True)
        events = [*_deltas(["four"] * (size // 4)), ev.TextEnd(0), ev.Finish("stop")]
        frames = [*pipe.feed(events), *pipe.finish()]
        body = protocols.protocol(protocol).body
        assert body is not None
        return lambda: body(frames)

    assert_linear(make, f"a whole body of {protocol}", 20_000)


def test_folding() -> None:
    def make(size: int) -> Callable[[], Any]:
        rows = [ev.TextDelta(0, "x", {"content": []}), ev.Data("a", "1"), ev.Unknown("openai-chat", "{}")]
        events = [*_deltas([]), *rows * (size // 3), ev.TextEnd(0), ev.Finish("stop")]
        return lambda: fold_all(events)

    assert_linear(make, "folding", 2_000)


def test_writers_of_frames() -> None:
    def make(size: int) -> Callable[[], Any]:
        data = b"\r\n" * (size // 2)
        return lambda: WRITERS["sse"]().feed([(b"x", data)])

    assert_linear(make, "a frame of line breaks", 10_000)
