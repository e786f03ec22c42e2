"""The stream adapter's face: options, streams of every form, many at once, and what produces nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock.errors import InputError, UnknownProtocol
from penstock.vscode import TextPart, ToolCallPart, VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import FINISH, Log, event_parts, outcome, parts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


# ── S1: the face ──────────────────────────────────────────────────────────────────────────────────────────────────────


class TestFace:
    def test_options_as_a_mapping_and_as_keywords(self) -> None:
        chunk = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {}}
        for adapter in (
            VSCodeStreamAdapter({"call_id_prefix": "x-"}),
            VSCodeStreamAdapter(call_id_prefix="x-"),
            VSCodeStreamAdapter({"call_id_prefix": "y-"}, call_id_prefix="x-"),
        ):
            parts: list[Any] = []
            asyncio.run(adapter.process_stream([chunk, FINISH], parts.append))
            assert parts == [ToolCallPart("x-c1", "tide", {})]

    @each("options", [{"reasoning": "loud"}, {"citations": "none"}, {"errors": "ignore"}, {"source": "morse"}])
    def test_wrong_options_are_refused_at_once(self, options: Any) -> None:
        with pytest.raises(InputError):
            VSCodeStreamAdapter(**options)
        with pytest.raises(UnknownProtocol):
            VSCodeStreamAdapter(source="aisdk@99")

    def test_process_stream_reports_and_gives_usage(self) -> None:
        class Progress:
            def __init__(self) -> None:
                self.parts: list[Any] = []

            def report(self, part: Any) -> None:
                self.parts.append(part)

        progress, adapter = Progress(), VSCodeStreamAdapter()
        usage = asyncio.run(adapter.process_stream([{"type": "text-delta", "text": "Ahoy"}, FINISH], progress))
        assert progress.parts == [TextPart("Ahoy")]
        assert (usage.input, usage.output) == (30, 4)
        assert adapter.usage == usage

    def test_report_may_be_async(self) -> None:
        parts: list[Any] = []

        async def report(part: Any) -> None:
            await asyncio.sleep(0)
            parts.append(part)

        asyncio.run(VSCodeStreamAdapter().process_stream([{"type": "text-delta", "text": "Ahoy"}, FINISH], report))
        assert parts == [TextPart("Ahoy")]

    def test_adapt_stream_gives_the_same_parts(self) -> None:
        async def collect() -> list[Any]:
            return [
                part
                async for part in VSCodeStreamAdapter().adapt_stream([{"type": "text-delta", "text": "Ahoy"}, FINISH])
            ]

        assert asyncio.run(collect()) == [TextPart("Ahoy")]

    def test_an_async_stream_is_closed_when_its_reader_stops(self) -> None:
        closed: list[bool] = []

        async def upstream() -> AsyncIterator[Any]:
            try:
                while True:
                    yield {"type": "text-delta", "text": "Ahoy"}
            finally:
                closed.append(True)

        async def read_one() -> None:
            parts = VSCodeStreamAdapter().adapt_stream(upstream())
            assert await anext(parts) == TextPart("Ahoy")
            await parts.aclose()  # type: ignore[attr-defined]

        asyncio.run(read_one())
        assert closed == [True]

    def test_one_adapter_serves_many_streams_at_once(self) -> None:
        adapter = VSCodeStreamAdapter()

        async def upstream(name: str) -> AsyncIterator[Any]:
            for number in range(20):
                await asyncio.sleep(0)
                yield {
                    "type": "tool-input-delta",
                    "toolCallId": name,
                    "toolName": "f",
                    "inputTextDelta": "[" * (number == 0),
                }
                yield {"type": "text-delta", "text": f"{name}{number} "}
            yield {**FINISH, "totalUsage": {"inputTokens": len(name), "outputTokens": 1}}

        async def one(name: str) -> tuple[str, int | None]:
            parts: list[Any] = []
            usage = await adapter.process_stream(upstream(name), parts.append)
            return "".join(part.value for part in parts), usage.input

        async def all_of_them() -> list[tuple[str, int | None]]:
            return await asyncio.gather(*(one("x" * number) for number in range(1, 6)))

        for number, (text, used) in enumerate(asyncio.run(all_of_them()), 1):
            assert text == "".join(f"{'x' * number}{place} " for place in range(20))
            assert used == number

    @each(
        "chunk",
        [{"type": "text-delta", "text": 7}, {"type": "tool-call"}, {"type": "file"}, {"type": "source"}, None, 7, []],
    )
    def test_a_known_type_of_a_wrong_shape_goes_to_on_unknown(self, chunk: Any) -> None:
        unknown: list[Any] = []
        assert parts_of(chunk, {"type": "text-delta", "text": "Ahoy"}, on_unknown=unknown.append) == [TextPart("Ahoy")]
        assert unknown == [chunk]

    def test_a_field_of_a_wrong_shape_in_another_protocol_too(self) -> None:
        unknown: list[Any] = []
        good = b'data: {"choices":[{"delta":{"content":"Ahoy"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        bad = {"choices": [{"delta": {"content": 7}}]}
        parts, _ = outcome(
            [b"data: " + msgspec.json.encode(bad) + b"\n\n", good], source="openai-chat", on_unknown=unknown.append
        )
        assert parts == [TextPart("Ahoy")]
        assert unknown == [bad]

    def test_any_colour_and_any_form_of_the_stream(self) -> None:
        @dataclass
        class Chunk:
            type: str
            text: str

        class Model:
            def model_dump(self, **_: Any) -> dict[str, Any]:
                return {"type": "text-delta", "text": "Ahoy"}

        plain = {"type": "text-delta", "text": "Ahoy"}
        line = msgspec.json.encode(plain)

        async def later() -> AsyncIterator[Any]:
            yield plain
            yield FINISH

        end = msgspec.json.encode(FINISH)
        forms: list[Any] = [
            [plain, FINISH], iter([plain, FINISH]), later(), [SimpleNamespace(**plain), FINISH], [Chunk(**plain), FINISH],
            [Model(), FINISH], [line[:9], line[9:] + b"\n" + end], line + b"\n" + end, [line.decode(), end.decode()],
            [b"data: " + line + b"\n\ndata: ", end + b"\n\n"], ["data: " + line.decode(), "", "data: " + end.decode(), ""],
        ]  # fmt: skip
        for form in forms:
            assert outcome(form)[0] == [TextPart("Ahoy")]

    def test_other_sources_and_canonical_events(self) -> None:
        wire = (
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":9}}}\n\n'
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Ahoy"}}\n\n'
            b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n'
            b'data: {"type":"message_stop"}\n\n'
        )
        parts, end = outcome([wire[:50], wire[50:]], source="anthropic")
        assert parts == [TextPart("Ahoy")]
        assert (end.usage.input, end.usage.output) == (9, 2)
        assert event_parts(ev.TextStart(0), ev.TextDelta(0, "Ahoy"), ev.TextEnd(0)) == [TextPart("Ahoy")]

    def test_an_empty_turn_has_a_reason_in_words(self) -> None:
        parts, end = outcome([ev.Start(), ev.Finish("length")], source="events")
        assert parts == []
        assert end.why.startswith("The model reached its output limit before it had written an answer: ask for less")
        assert outcome([ev.Start(), ev.TextStart(0), ev.TextDelta(0, "x"), ev.TextEnd(0), ev.Finish("length")], source="events")[
            1
        ].why == ""  # fmt: skip


# ── S4, S7: what produces nothing ─────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_chunk_is_told_and_never_output() -> None:
    log, unknown = Log(), list[Any]()
    odd = [{"type": "tide-table", "at": number} for number in range(50)]
    assert parts_of(*odd, on_unknown=unknown.append, logger=log) == []
    assert unknown == odd
    told = [line for level, line in log.lines if level == "debug" and "'tide-table'" in line]
    assert len(told) == 50
    assert parts_of(*odd) == []


def test_an_unknown_frame_of_bytes_is_given_as_a_plain_object() -> None:
    unknown: list[Any] = []
    lines = [b'data: {"type":"tide-table","at":6}\n\n', b"data: not json\n\n", b'data: {"type":"message_stop"}\n\n']
    outcome(lines, source="anthropic", on_unknown=unknown.append)
    assert unknown == [{"type": "tide-table", "at": 6}, "not json"]


@each(
    "chunk",
    [
        {"type": "start"}, {"type": "start", "messageId": "m1"}, {"type": "start-step", "request": {}, "warnings": []},
        {"type": "step-start", "messageId": "m1"}, {"type": "finish-step", "usage": {}}, {"type": "step-finish"},
        {"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}, {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-end", "id": "r"}, {"type": "reasoning-part-finish"}, {"type": "tool-input-end", "id": "c"},
        {"type": "raw", "rawValue": {"any": "thing"}}, {"type": "message-metadata", "messageMetadata": {"a": 1}},
        {"type": "response-metadata", "id": "x", "modelId": "m"}, {"type": "stream-start", "warnings": []},
    ],
)  # fmt: skip
def test_framing_produces_no_content(chunk: Any) -> None:
    unknown: list[Any] = []
    assert parts_of(chunk, on_unknown=unknown.append) == []
    assert unknown == []


def test_an_abort_produces_no_content() -> None:
    parts, end = outcome([{"type": "text-delta", "text": "Well"}, {"type": "abort", "reason": "stopped by hand"}])
    assert parts == [TextPart("Well")]
    assert end.fault is not None
    assert (end.fault.kind, end.why) == ("cancelled", "stopped by hand")


# ── R3, R4, R6, L5, M1 ────────────────────────────────────────────────────────────────────────────────────────────────


def test_ids_go_out_named_and_come_back_restored() -> None:
    adapter = VSCodeStreamAdapter()
    assert adapter.restore("gw-call_1") == "call_1"
    assert adapter.restore("gw-call_1__vscode-17") == "call_1"
    call = {"type": "tool-call", "toolCallId": "a__vscode", "toolName": "tide", "input": {}}
    (part,) = parts_of(call)
    assert "__vscode" not in part.call_id
    assert adapter.restore(part.call_id) == "a__vscode"
    assert parts_of(call, call_id_prefix=None) == [ToolCallPart("a__vscod-e", "tide", {})]
    assert VSCodeStreamAdapter(call_id_prefix="").restore("gw-call_1") == "gw-call_1"


def test_a_refusal_is_text_that_says_so() -> None:
    events = [ev.RefusalStart(0), ev.RefusalDelta(0, "I will not."), ev.RefusalEnd(0)]
    assert event_parts(*events) == [TextPart("I will not.", refusal=True)]


def test_half_an_emoji_meets_its_other_half_or_is_replaced() -> None:
    halves = [{"type": "text-delta", "text": "a\ud83d"}, {"type": "text-delta", "text": "\ude00b"}]
    assert "".join(part.value for part in parts_of(*halves)) == "a\U0001f600b"
    alone = parts_of({"type": "text-delta", "text": "a\ud83d"}, {"type": "text-delta", "text": "b"})
    assert "".join(part.value for part in alone) == "a\ufffdb"
    assert event_parts(ev.TextStart(0), ev.TextDelta(0, "a\ud83d"), ev.TextEnd(0)) == [TextPart("a\ufffd")]


def test_a_call_comes_after_the_text_before_it() -> None:
    events = [
        ev.TextStart(0), ev.TextDelta(0, "Let us"), ev.CallStart(1, "c1", "tide"), ev.TextDelta(0, " see."),
        ev.CallEnd(1, "c1", "tide", "{}"), ev.TextEnd(0),
    ]  # fmt: skip
    assert event_parts(*events) == [TextPart("Let us"), TextPart(" see."), ToolCallPart("gw-c1", "tide", {})]
