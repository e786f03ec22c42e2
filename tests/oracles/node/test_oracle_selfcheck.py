"""The oracles themselves, on tiny streams written by hand: a judge is checked before anyone is judged by it."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.oracles.node import oracle
from tests.oracles.node.oracle import UI_VERSIONS, VERSIONS, OracleError, Oracles, Provider, ReadJob, StreamJob, Version

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path


Json = dict[str, Any]


def sse(*payloads: Json, named: bool = False) -> str:
    """The payloads as server-sent events; `named` writes their type as the event's name too."""
    name = "event: {type}\n" if named else ""
    return "".join(f"{name.format_map(p) if named else ''}data: {json.dumps(p)}\n\n" for p in payloads)


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


# ── a server that plays a stream ──────────────────────────────────────────────────────────────────────────────────────
class Player(BaseHTTPRequestHandler):
    """Answers any request with the text filed under the first segment of its path; `/silent` says nothing for good."""

    streams: ClassVar[dict[str, str]] = {}
    ended: ClassVar[threading.Event] = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        name = self.path.split("/")[1]
        self.send_response(400 if name == "refused" else 200)
        self.send_header("content-type", "application/json" if name == "refused" else "text/event-stream")
        self.end_headers()
        self.wfile.write(self.streams.get(name, "").encode())
        if name == "silent":
            self.wfile.flush()
            self.ended.wait(60)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests' output is for the tests."""


@contextmanager
def playing(streams: dict[str, str]) -> Generator[str]:
    class Playing(Player):
        ended = threading.Event()

    Playing.streams = streams
    server = ThreadingHTTPServer(("127.0.0.1", 0), Playing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Playing.ended.set()
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


def delta(finish: str | None = None, **fields: Any) -> Json:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def call_delta(index: int = 0, **fields: Any) -> Json:
    return delta(tool_calls=[{"index": index, **fields}])


CHAT = (
    sse(
        delta(role="assistant", content="Hel"),
        delta(content="lo"),
        call_delta(id="call_1", type="function", function={"name": "weather", "arguments": ""}),
        call_delta(function={"arguments": '{"city":'}),
        call_delta(function={"arguments": '"Oslo"}'}),
        delta(finish="tool_calls"),
        delta() | {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}},
    )
    + "data: [DONE]\n\n"
)

MESSAGE: Json = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


ANTHROPIC = sse(
    {"type": "message_start", "message": MESSAGE | {"usage": {"input_tokens": 7, "output_tokens": 1}}},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "sig"},
    ),
    *block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": t} for t in ("Hel", "lo"))),
    *block(
        2,
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
        *({"type": "input_json_delta", "partial_json": j} for j in ('{"city":', '"Oslo"}')),
    ),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"input_tokens": 7, "output_tokens": 5}},
    {"type": "message_stop"},
    named=True,
)


def response(status: str, **fields: Any) -> Json:
    return {"id": "r1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": [], **fields}


OUTPUT: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather"}
ARGUMENTS = '{"city":"Oslo"}'
TEXT: Json = {"type": "output_text", "text": "Hello", "annotations": []}
USAGE: Json = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}
ITEMS: list[Json] = [
    OUTPUT | {"status": "completed", "content": [TEXT]},
    CALL | {"status": "completed", "arguments": ARGUMENTS},
]

AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
RESPONSE_EVENTS: list[Json] = [
    {"type": "response.created", "response": response("in_progress")},
    {"type": "response.output_item.added", "output_index": 0, "item": OUTPUT},
    {"type": "response.output_text.delta", "delta": "Hel", **AT},
    {"type": "response.output_text.delta", "delta": "lo", **AT},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEMS[0]},
    {"type": "response.output_item.added", "output_index": 1, "item": CALL | {"arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": ARGUMENTS},
    {"type": "response.output_item.done", "output_index": 1, "item": ITEMS[1]},
    {"type": "response.completed", "response": response("completed", output=ITEMS, usage=USAGE)},
]
RESPONSES = sse(*(e | {"sequence_number": number} for number, e in enumerate(RESPONSE_EVENTS)), named=True)


def candidate(*parts: Json, **fields: Any) -> Json:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, **fields}]}


PIXEL = base64.b64encode(b"\x89PNG").decode()
GOOGLE = sse(
    candidate({"text": "Hel"}),
    candidate({"text": "lo"}),
    candidate({"inlineData": {"mimeType": "image/png", "data": PIXEL}}),
    candidate({"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}, finishReason="STOP")
    | {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}},
)

BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
STREAMS = {
    "chat": CHAT,
    "anthropic": ANTHROPIC,
    "responses": RESPONSES,
    "google": GOOGLE,
    "busy": sse({"type": "message_start", "message": MESSAGE | {"usage": USAGE}}, BUSY, named=True),
    "refused": json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "no such model"}}),
    "search": sse(
        {"type": "message_start", "message": MESSAGE | {"usage": {"input_tokens": 7, "output_tokens": 1}}},
        *block(
            0,
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query":"Oslo"}'},
        ),
        *block(1, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        named=True,
    ),
}
WEATHER = {"weather": {"schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with playing(STREAMS) as address:
        yield address


def of(parts: Sequence[Json], *types: str) -> list[Json]:
    return [part for part in parts if part["type"] in types]


def check_turn(ai: Version, parts: list[Json]) -> None:
    """The turn that every playable stream above tells: Hello, then one call of the weather tool."""
    texts = [part["textDelta" if ai == 4 else "text"] for part in of(parts, "text-delta")]
    assert texts == ["Hel", "lo"]
    (call,) = of(parts, "tool-call")
    assert call["toolName"] == "weather"
    assert call["args" if ai == 4 else "input"] == {"city": "Oslo"}
    pieces = of(parts, "tool-call-delta", "tool-input-delta")
    assert "".join(p["argsTextDelta" if ai == 4 else "delta"] for p in pieces) == ARGUMENTS
    (finish,) = of(parts, "finish")
    assert finish["finishReason"] == "tool-calls"
    usage = finish["usage" if ai == 4 else "totalUsage"]
    names = ("promptTokens", "completionTokens") if ai == 4 else ("inputTokens", "outputTokens")
    assert [usage[name] for name in names] == [7, 5]
    assert not of(parts, "error", "raw", "tool-error")


@pytest.mark.parametrize("ai", VERSIONS)
@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai-chat", "chat/v1"),
        ("openai-compatible", "chat/v1"),
        ("openai-responses", "responses/v1"),
        ("anthropic", "anthropic/v1"),
    ],
)
def test_fullstream(oracles: Oracles, server: str, ai: Version, provider: Provider, path: str) -> None:
    job = StreamJob(provider=provider, base_url=f"{server}/{path}", tools=WEATHER)
    once, again = oracles.fullstream(ai, [job, job])
    assert once.error is None
    check_turn(ai, once.parts)
    assert [part["type"] for part in again.parts] == [part["type"] for part in once.parts]


@pytest.mark.parametrize(("provider", "path"), [("open-responses", "responses/v1"), ("mistral", "chat/v1")])
def test_fullstream_of_the_packages_that_only_7_has(
    oracles: Oracles, server: str, provider: Provider, path: str
) -> None:
    (seen,) = oracles.fullstream(7, [StreamJob(provider=provider, base_url=f"{server}/{path}", tools=WEATHER)])
    assert of(seen.parts, "text-delta")
    assert not of(seen.parts, "error")


@pytest.mark.parametrize("ai", VERSIONS)
def test_fullstream_of_google_with_a_file(oracles: Oracles, server: str, ai: Version) -> None:
    (seen,) = oracles.fullstream(ai, [StreamJob(provider="google", base_url=f"{server}/google/v1beta", tools=WEATHER)])
    check_turn(ai, seen.parts)
    (part,) = of(seen.parts, "file")
    file = part if ai == 4 else part["file"]
    assert file["base64"] == file["uint8Array"] == PIXEL
    assert file["mimeType" if ai == 4 else "mediaType"] == "image/png"


@pytest.mark.parametrize("ai", VERSIONS)
def test_fullstream_of_reasoning(oracles: Oracles, server: str, ai: Version) -> None:
    (seen,) = oracles.fullstream(ai, [StreamJob(provider="anthropic", base_url=f"{server}/anthropic/v1")])
    deltas = of(seen.parts, "reasoning", "reasoning-delta")
    assert "".join(part["textDelta" if ai == 4 else "text"] for part in deltas) == "hm"
    # A call of a tool the request does not name is an error to the SDK: 4 says so instead of the call, the rest beside it.
    assert len(of(seen.parts, "tool-call")) == (0 if ai == 4 else 1)
    assert len(of(seen.parts, "error" if ai == 4 else "tool-error")) == 1


@pytest.mark.parametrize("ai", VERSIONS)
def test_fullstream_of_faults(oracles: Oracles, server: str, ai: Version) -> None:
    jobs = [StreamJob(provider="anthropic", base_url=f"{server}/{name}/v1") for name in ("refused", "busy")]
    refused, busy = oracles.fullstream(ai, jobs)
    assert refused.error is None
    assert busy.error is None
    (error,) = of(refused.parts, "error")
    assert error["error"]["name"] == "AI_APICallError"
    assert error["error"]["message"] == "no such model"
    assert error["error"]["statusCode"] == 400
    (error,) = of(busy.parts, "error")
    assert "busy" in json.dumps(error)


@pytest.mark.parametrize("ai", UI_VERSIONS)
def test_fullstream_of_a_tool_that_the_provider_runs(oracles: Oracles, server: str, ai: Version) -> None:
    tools = {"web_search": {"provider": "webSearch_20250305"}}
    (seen,) = oracles.fullstream(ai, [StreamJob(provider="anthropic", base_url=f"{server}/search/v1", tools=tools)])
    (call,) = of(seen.parts, "tool-call")
    (result,) = of(seen.parts, "tool-result")
    assert call["providerExecuted"] is result["providerExecuted"] is True
    assert call["input"] == {"query": "Oslo"}
    assert result["output"] == []


# ── reading UI streams ────────────────────────────────────────────────────────────────────────────────────────────────
TOOL = {"toolCallId": "call_1", "toolName": "weather"}
UI: list[Json] = [
    {"type": "start", "messageId": "msg_1", "messageMetadata": {"model": "m"}},
    {"type": "start-step"},
    {"type": "reasoning-start", "id": "0"},
    {"type": "reasoning-delta", "id": "0", "delta": "hm"},
    {"type": "reasoning-end", "id": "0", "providerMetadata": {"anthropic": {"signature": "sig"}}},
    {"type": "text-start", "id": "1"},
    {"type": "text-delta", "id": "1", "delta": "Hel"},
    {"type": "text-delta", "id": "1", "delta": "lo"},
    {"type": "text-end", "id": "1"},
    {"type": "tool-input-start", **TOOL},
    {"type": "tool-input-delta", "toolCallId": "call_1", "inputTextDelta": '{"city":'},
    {"type": "tool-input-delta", "toolCallId": "call_1", "inputTextDelta": '"Oslo"}'},
    {"type": "tool-input-available", **TOOL, "input": {"city": "Oslo"}},
    {"type": "data-note", "id": "n", "data": {"kept": True}},
    {"type": "data-note", "data": {"kept": False}, "transient": True},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "tool-calls"},
]
DONE = "data: [DONE]\n\n"


@pytest.mark.parametrize("ai", UI_VERSIONS)
def test_readui(oracles: Oracles, ai: Version) -> None:
    chat, iterated, undone = oracles.readui(
        ai, [ReadJob(sse=sse(*UI) + DONE), ReadJob(sse=sse(*UI) + DONE, reader="iterate"), ReadJob(sse=sse(*UI))]
    )
    assert chat.error is None
    assert chat.message is not None
    assert chat.message["id"] == "msg_1"
    assert chat.message["role"] == "assistant"
    assert chat.message["metadata"] == {"model": "m"}
    step, reasoning, text, call, data = chat.message["parts"]
    assert step == {"type": "step-start"}
    assert (reasoning["type"], reasoning["text"], reasoning["state"]) == ("reasoning", "hm", "done")
    assert reasoning["providerMetadata"] == {"anthropic": {"signature": "sig"}}
    assert (text["type"], text["text"], text["state"]) == ("text", "Hello", "done")
    assert (call["type"], call["toolCallId"], call["state"]) == ("tool-weather", "call_1", "input-available")
    assert call["input"] == {"city": "Oslo"}
    assert data == {"type": "data-note", "id": "n", "data": {"kept": True}}
    assert [part["data"]["kept"] for part in chat.data] == [True, False]
    assert chat.finish_reason == "tool-calls"
    assert iterated.message == chat.message
    assert iterated.error is None
    assert undone == chat


ERROR = {"type": "error", "errorText": "busy"}
TEXT_PART: list[Json] = [{"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "Hel"}]


@pytest.mark.parametrize("reader", ["chat", "iterate"])
@pytest.mark.parametrize("ai", UI_VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name", "frames"),
    [
        ("invalid", "AI_TypeValidationError", sse(*TEXT_PART, {"type": "made-up"})),
        ("invalid", "AI_TypeValidationError", sse(*TEXT_PART, {"type": "text-delta", "id": "1"})),
        ("invalid", "AI_JSONParseError", sse(*TEXT_PART) + "data: {\n\n"),
        ("chunk", "Error", sse(*TEXT_PART, ERROR)),
        ("reader", None, sse(*TEXT_PART, {"type": "text-delta", "id": "2", "delta": "lost"})),
    ],
)
def test_readui_of_errors(oracles: Oracles, ai: Version, reader: Any, kind: str, name: str | None, frames: str) -> None:
    (read,) = oracles.readui(ai, [ReadJob(sse=frames, reader=reader)])
    assert read.error is not None
    assert read.error["kind"] == kind
    assert name in (None, read.error["name"])
    assert kind != "chunk" or read.error["message"] == "busy"
    assert read.message is not None
    assert read.message["parts"][0]["text"] == "Hel"


# ── the wrapper ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_stuck_job_is_named_and_the_next_one_runs() -> None:
    with playing({"chat": CHAT, "silent": ""}) as address, Oracles() as oracles:
        good, stuck = (
            [StreamJob(provider="openai-chat", base_url=f"{address}/{name}/v1", tools=WEATHER)]
            for name in ("chat", "silent")
        )
        oracles.fullstream(6, good)
        oracles.timeout = 1
        with pytest.raises(OracleError, match=r"fullstream\.mjs --ai 6: job 2 did not end within 1 s"):
            oracles.fullstream(6, stuck)
        oracles.timeout = 60
        (seen,) = oracles.fullstream(6, good)
        check_turn(6, seen.parts)


def test_a_crash_brings_its_last_words(oracles: Oracles) -> None:
    with pytest.raises(OracleError, match=r"ended the process(?s:.*)--ai must be one of 5, 6, 7"):
        oracles.readui(4, [ReadJob(sse="")])


def test_a_provider_nobody_knows_is_an_error_not_a_crash(oracles: Oracles) -> None:
    (lines,) = oracles.run("fullstream", 6, [{"provider": "nobody", "baseURL": "http://127.0.0.1:9"}])
    assert lines == [{"error": {"name": "TypeError", "message": lines[0]["error"]["message"]}}]


def test_without_setup_the_error_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oracle, "HERE", tmp_path)
    with Oracles() as oracles, pytest.raises(OracleError, match=r"run tests/oracles/node/setup\.sh"):
        oracles.readui(6, [ReadJob(sse="")])
