"""The `aisdk` decoder against the AI SDK itself: what versions 4 to 7 make of a stream means what the stream means.

The streams are the hand-written cases, played by a small server to the real `streamText`, and the recorded runs of
`doStream` that lie beside the corpus.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from penstock import events as ev
from penstock import fold_all, unfold
from penstock import request as rq
from tests.oracles import expected
from tests.oracles.node.oracle import VERSIONS, Oracles, StreamJob, Version
from tests.support import corpus
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.support.parsed_parts import read_parts
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

Json = dict[str, Any]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def taken(source: str, parts: Iterable[Json]) -> rq.Turn:
    """One turn out of parsed parts."""
    return fold_all(read_parts(source, parts))[0]


def calls(turn: rq.Turn) -> list[tuple[str, str, Any]]:
    """By id: the SDK hands parallel calls out as they become whole, not as they began."""
    return sorted((call.id, call.name, json.loads(call.json)) for call in turn.calls)


def cut(turn: rq.Turn) -> list[tuple[str, str]]:
    return [(p.id, p.name) for p in turn.parts if isinstance(p, rq.Call) and p.cut and p.by == "client"]


def provider_run(turn: rq.Turn) -> list[tuple[str, str, Any]]:
    return [(p.id, p.name, json.loads(p.json)) for p in turn.parts if isinstance(p, rq.Call) and p.by == "provider"]


def state(turn: rq.Turn) -> list[Any]:
    """What Claude wants back with its reasoning."""
    return [(p.form, (p.extra or {}).get("anthropic")) for p in turn.parts if isinstance(p, rq.Reasoning)]


def counted(turn: rq.Turn) -> tuple[int | None, int | None, int]:
    """Since 6 the SDK says 0 where a provider said nothing of its cache."""
    usage = turn.usage or ev.Usage()
    return usage.input, usage.output, usage.cached or 0


def same_turn(found: rq.Turn, wanted: rq.Turn) -> None:
    assert found.text == wanted.text
    assert found.reasoning == wanted.reasoning
    assert calls(found) == calls(wanted)
    assert cut(found) == cut(wanted)
    assert found.finish is not None
    assert wanted.finish is not None
    assert found.finish.reason == wanted.finish.reason
    assert counted(found) == counted(wanted)


# ── the real `fullStream` ─────────────────────────────────────────────────────────────────────────


class Player(BaseHTTPRequestHandler):
    """Answers with the stream that the first segment of the path names."""

    streams: ClassVar[dict[str, bytes]] = {}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.streams[self.path.split("/")[1]])

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output is for the tests."""


@contextmanager
def playing(streams: dict[str, bytes]) -> Generator[str]:
    class Playing(Player):
        pass

    Playing.streams = streams
    server = ThreadingHTTPServer(("127.0.0.1", 0), Playing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


CLAUDE = ("text", "thinking-and-call", "parallel-calls", "redacted-thinking", "cut-by-length", "interleaved-blocks")
CHAT = (
    "text", "call", "parallel-interleaved", "reasoning-content", "finish-twice", "nulls", "cut-by-length",
    "usage-cached", "whole-call-in-finish", "stop-with-calls", "empty-tool-calls",
)  # fmt: skip
FAULTS = ("overloaded", "error-without-name")
WEB_SEARCH = {"web_search": {"provider": "webSearch_20250305"}}


def chosen() -> dict[str, Case]:
    """The well-formed streams, which every version understands, and those that break off."""
    known = {case.id: case for name in ("anthropic", "openai-chat") for case in cases(name)}
    claude = [f"anthropic/{name}" for name in (*CLAUDE, *FAULTS, "provider-run-search")]
    return {name.replace("/", "."): known[name] for name in [*claude, *(f"openai-chat/{name}" for name in CHAT)]}


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with playing({name: case.body for name, case in chosen().items()}) as address:
        yield address


def asked(oracles: Oracles, server: str, ai: Version, name: str, **tools: Json) -> rq.Turn:
    """What a version makes of a case, read by our decoder of that version and by the one for all."""
    provider = "anthropic" if name.startswith("anthropic") else "openai-compatible"
    job = StreamJob(provider=provider, base_url=f"{server}/{name}/v1", tools=tools)  # type: ignore[arg-type]
    (seen,) = oracles.fullstream(ai, [job])
    assert seen.error is None
    turn = taken(f"aisdk@{ai}", seen.parts)
    assert taken("aisdk", seen.parts) == turn
    return turn


def own_tools(turn: rq.Turn) -> dict[str, Json]:
    names = [part.name for part in turn.parts if isinstance(part, rq.Call) and part.by == "client"]
    return {name: {"schema": {"type": "object"}} for name in names}


@each("name", [*(f"anthropic.{name}" for name in CLAUDE), *(f"openai-chat.{name}" for name in CHAT)])
@each("ai", VERSIONS)
def test_a_full_stream_means_what_its_source_means(oracles: Oracles, server: str, ai: Version, name: str) -> None:
    (native,) = fold_all(chosen()[name].decoded())
    turn = asked(oracles, server, ai, name, **own_tools(native))
    same_turn(turn, native)
    if name.startswith("anthropic"):
        assert state(turn) == state(native)


@each("ai", VERSIONS)
def test_a_signature_comes_through(oracles: Oracles, server: str, ai: Version) -> None:
    (native,) = fold_all(chosen()["anthropic.thinking-and-call"].decoded())
    turn = asked(oracles, server, ai, "anthropic.thinking-and-call", **own_tools(native))
    assert [fields for _, fields in state(turn) if fields and fields.get("signature")]
    assert b"signature_delta" in b"".join(name + data for name, data in running.encode("anthropic", list(unfold(turn))))


@each("name", FAULTS)
@each("ai", VERSIONS)
def test_an_error_is_one_fault(oracles: Oracles, server: str, ai: Version, name: str) -> None:
    (native,) = fold_all(chosen()[f"anthropic.{name}"].decoded())
    turn = asked(oracles, server, ai, f"anthropic.{name}")
    assert turn.finish is None
    assert turn.fault is not None
    assert native.fault is not None
    assert (turn.fault.kind, turn.fault.message) == (native.fault.kind, native.fault.message)
    assert turn.text == native.text


@each("ai", [5, 6, 7])
def test_a_tool_that_the_provider_ran_is_the_provider_s(oracles: Oracles, server: str, ai: Version) -> None:
    (native,) = fold_all(chosen()["anthropic.provider-run-search"].decoded())
    turn = asked(oracles, server, ai, "anthropic.provider-run-search", **WEB_SEARCH)
    same_turn(turn, native)
    assert provider_run(turn) == provider_run(native)
    assert turn.calls == []
    results = [(p.call, p.failed) for p in turn.parts if isinstance(p, rq.Result)]
    assert results == [(p.call, p.failed) for p in native.parts if isinstance(p, rq.Result)]
    # The SDK also lists what a search found as sources, which natively is the result.
    assert {source.url for source in native.sources} <= {source.url for source in turn.sources}


# ── recorded runs of `doStream` ───────────────────────────────────────────────────────────────────

NATIVE = {"anthropic-messages": "anthropic", "openai-chat": "openai-chat"}


def runs(*protocols: str) -> Iterator[tuple[corpus.Entry, expected.Case, list[Json]]]:
    """The recorded runs: a stream, what is asserted of it, and the parts that it became."""
    corpus.corpus_or_skip()
    for entry in corpus.streams():
        if entry.expected and (not protocols or entry.protocol in protocols):
            parts = [case["parts"] for case in entry.expected["cases"]]
            yield from zip([entry] * len(parts), expected.cases(entry.expected), parts, strict=True)


def check_all(check: Callable[[corpus.Entry, expected.Case, list[Json]], None], *protocols: str) -> int:
    """Check each run, and report all that fail. Returns how many there are."""
    failures, count = list[str](), 0
    for entry, case, parts in runs(*protocols):
        count += 1
        try:
            check(entry, case, parts)
        except AssertionError as error:
            failures.append(f"{entry.name}: {error}")
    assert failures == []
    return count


def test_recorded_parts_are_read_as_another_reader_does() -> None:
    assert check_all(as_another_reader) > 50


def as_another_reader(_: corpus.Entry, case: expected.Case, parts: list[Json]) -> None:
    turn, outcome = taken("aisdk", _one_turn(parts)), case.outcomes[0]
    assert turn.text == outcome.text
    assert turn.reasoning == outcome.reasoning
    whole = [call for call in outcome.calls if not isinstance(call[2], str)]
    assert calls(turn) == sorted(whole)
    links = [(source.url or None, source.title or None) for source in turn.sources]
    assert list(dict.fromkeys(links)) == outcome.sources
    if turn.fault is None and case.unified:
        assert turn.finish is not None
        assert turn.finish.raw in (outcome.finish, case.unified[0])
        assert turn.usage is None or (turn.usage.input, turn.usage.output) == (outcome.input, outcome.output)
    assert turn.unknown == []


def _one_turn(parts: list[Json]) -> list[Json]:
    """Up to the first finish: what follows is another run, or a complaint about the fixture."""
    kinds = [part["type"] for part in parts]
    return parts[: kinds.index("finish") + 1] if "finish" in kinds else parts


OTHERWISE = {
    "anthropic-compaction": "the SDK shows a compaction as text",
}


def test_recorded_parts_mean_what_the_stream_means() -> None:
    assert check_all(as_the_stream, *NATIVE) > 20


def as_the_stream(entry: corpus.Entry, case: expected.Case, parts: list[Json]) -> None:
    if not case.belongs(entry.payloads()) or case.reshaped or not case.whole:
        return  # a run over another body, or one that shows a call as text
    native, turn = fold_all(running.decode(NATIVE[entry.protocol], entry.body))[0], taken("aisdk", _one_turn(parts))
    if any(word in entry.name for word in OTHERWISE):
        assert native.text in turn.text
    else:
        assert turn.text == native.text
    assert turn.reasoning == native.reasoning
    assert calls(turn) == calls(native)
    assert turn.finish is not None
    assert native.finish is not None
    assert turn.finish.reason == native.finish.reason
