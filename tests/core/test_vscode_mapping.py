"""What becomes of each kind of chunk or event in a VS Code reply, by the options and by what the host has."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock import request as rq
from penstock.errors import StreamFault
from penstock.messages import read_request
from penstock.vscode import DataPart, TextPart, ThinkingPart, ToolCallPart, Usage, usage_part
from tests.support.each_case import each
from tests.support.stream_adapter import CITATION, FINISH, PNG, PNG64, event_parts, outcome, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator


SOURCE = {"type": "source", "sourceType": "url", "id": "s1", "url": "https://a.example/x", "title": "Tides"}
TEXT = {"type": "text-delta", "text": "The tide turns at six."}
DATA = DataPart.json({"type": "citation", "url": "https://a.example/x", "title": "Tides", "sourceId": "s1"}, CITATION)
LINK = TextPart("\n\n[Tides](https://a.example/x)")


# ── S2: the mapping ───────────────────────────────────────────────────────────────────────────────────────────────────


class TestMapping:
    def test_text_and_reasoning(self) -> None:
        assert parts_of(
            {"type": "reasoning-start", "id": "r"}, {"type": "reasoning-delta", "id": "r", "text": "Hm"},
            {"type": "reasoning-end", "id": "r"}, {"type": "text-delta", "id": "t", "text": "Ahoy"},
        ) == [ThinkingPart("Hm"), TextPart("Ahoy")]  # fmt: skip

    def test_a_call(self) -> None:
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {"port": "Oban"}}
        assert parts_of(call) == [ToolCallPart("gw-c1", "tide", {"port": "Oban"})]

    def test_a_call_of_the_provider_and_its_result_are_not_for_the_client(self) -> None:
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "search", "input": {}, "providerExecuted": True}
        result = {
            "type": "tool-result",
            "toolCallId": "c1",
            "toolName": "search",
            "output": 1,
            "providerExecuted": True,
        }
        parts, end = outcome([call, result, FINISH])
        assert parts == []
        assert "loss-provider-call" in {found.code for found in end.diagnostics}

    def test_a_call_that_was_answered_in_the_same_stream_is_not_for_the_client(self) -> None:
        calls: list[Any] = [
            {"type": "tool-call", "toolCallId": call, "toolName": "tide", "input": {}} for call in ("c1", "c2")
        ]
        result = {"type": "tool-result", "toolCallId": "c1", "toolName": "tide", "output": "six"}
        parts, end = outcome([*calls, result, FINISH])
        assert parts == [ToolCallPart("gw-c2", "tide", {})]
        assert "loss-provider-call" in {found.code for found in end.diagnostics}

    @each(
        "media, data",
        [
            ("image/png", PNG),
            ("application/json", b'{"a":1}'),
            ("text/csv", b"a,b"),
            ("application/zip", b"PK\x03\x04"),
        ],
    )
    def test_files(self, media: str, data: bytes) -> None:
        chunk = {"type": "file", "file": {"mediaType": media, "base64": base64.b64encode(data).decode()}}
        assert parts_of(chunk) == [DataPart(data, media)]
        assert parts_of({"type": "file", "file": {"mediaType": media, "uint8Array": data}}) == [DataPart(data, media)]

    def test_files_in_pieces(self) -> None:
        pieces = [ev.FileDelta(0, PNG64[:5]), ev.FileDelta(0, PNG64[5:])]
        assert event_parts(ev.FileStart(0, "image/*"), *pieces, ev.FileEnd(0)) == [DataPart(PNG, "image/png")]
        padded = [ev.FileDelta(0, "QQ=="), ev.FileDelta(0, "Qg==")]
        assert event_parts(ev.FileStart(0, "audio/wav"), *padded, ev.FileEnd(0)) == [DataPart(b"AB", "audio/wav")]
        assert event_parts(ev.FileStart(0, "audio/wav"), ev.FileDelta(0, "?!"), ev.FileEnd(0)) == []

    @each("citations, expected", [("both", [DATA, LINK]), ("data", [DATA]), ("link", [LINK]), (None, [DATA, LINK])])
    def test_sources(self, citations: Any, expected: list[Any]) -> None:
        options = {"citations": citations} if citations else {}
        assert [part for part in parts_of(TEXT, SOURCE, **options) if part != TextPart(TEXT["text"])] == expected

    def test_data(self) -> None:
        chunk = {"type": "data-harbour-map", "data": {"depth": 4}}
        assert parts_of(chunk) == [DataPart(b'{"depth":4}', "application/vnd.vercel.harbour-map+json")]

    def test_an_error_is_text_or_raised(self) -> None:
        error = {"type": "error", "error": {"name": "Error", "message": "the pier is closed"}}
        assert parts_of(error) == [TextPart("**Error:** the pier is closed")]
        spoken = parts_of({"type": "text-delta", "text": "Well"}, error)
        assert spoken == [TextPart("Well"), TextPart("\n\n"), TextPart("**Error:** the pier is closed")]
        with pytest.raises(StreamFault, match="the pier is closed"):
            parts_of(error, errors="raise")

    def test_a_stream_that_breaks_off_is_an_error(self) -> None:
        parts, end = outcome([{"type": "text-delta", "text": "Well"}])
        assert parts[-1] == TextPart("**Error:** the stream ended before the answer was finished")
        assert end.fault is not None
        assert end.fault.kind == "truncated"

    def test_an_exception_of_the_source_is_an_error_too(self) -> None:
        def upstream(error: Exception) -> Iterator[Any]:
            yield {"type": "text-delta", "text": "Well"}
            raise error

        parts, end = outcome(upstream(ConnectionError("the line is cut")))
        assert parts == [TextPart("Well"), TextPart("\n\n"), TextPart("**Error:** the line is cut")]
        assert end.fault is not None
        assert end.fault.kind == "network"
        fault = outcome(upstream(TimeoutError()))[1].fault
        assert fault is not None
        assert (fault.kind, fault.message) == ("timeout", "TimeoutError")
        with pytest.raises(StreamFault) as caught:
            outcome(upstream(ConnectionError("the line is cut")), errors="raise")
        assert isinstance(caught.value.__cause__, ConnectionError)

    def test_an_exception_after_the_finish_changes_nothing(self) -> None:
        def upstream() -> Iterator[Any]:
            yield {"type": "text-delta", "text": "Well"}
            yield FINISH
            raise ConnectionError

        assert outcome(upstream(), errors="raise")[0] == [TextPart("Well")]

    def test_broken_framing_is_an_error(self) -> None:
        parts, end = outcome([b"\x00\x00\x00\x20" + b"\x00" * 40], source="bedrock")
        assert end.fault is not None
        assert len(parts) == 1
        assert parts[0].value.startswith("**Error:** ")

    def test_finish_and_step_finish_are_usage_only(self) -> None:
        step = {"type": "finish-step", "finishReason": "tool-calls", "usage": {"inputTokens": 15, "outputTokens": 2}}
        parts, end = outcome([{"type": "start-step"}, step, {"type": "start-step"}, step, FINISH])
        assert parts == []
        assert (end.usage.input, end.usage.output) == (30, 4)
        without = {"type": "finish", "finishReason": "stop"}
        assert outcome([{"type": "start-step"}, step, {"type": "start-step"}, step, without])[1].usage.input == 30

    def test_the_usage_of_two_turns_is_their_sum(self) -> None:
        turn = [ev.Start(), ev.Usage(10, 2), ev.Usage(10, 5), ev.Finish("stop")]
        assert outcome([*turn, *turn], source="events")[1].usage == Usage(20, 10, summed=True)

    def test_usage_for_the_host(self) -> None:
        part = usage_part(Usage(100, 20, 80, None, 5))
        assert part is not None
        assert part.mime_type == "usage"
        assert msgspec.json.decode(part.data) == {
            "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 80}, "completion_tokens_details": {"reasoning_tokens": 5},
        }  # fmt: skip
        assert usage_part(Usage(100)) is None


# ── S3: reasoning and the host ────────────────────────────────────────────────────────────────────────────────────────

THOUGHTS = [
    {"type": "reasoning-start", "id": "a"}, {"type": "reasoning-delta", "id": "a", "delta": "Is it"},
    {"type": "reasoning-delta", "id": "a", "delta": " six?"}, {"type": "reasoning-end", "id": "a"},
    {"type": "reasoning-start", "id": "b"}, {"type": "reasoning-delta", "id": "b", "delta": "Yes."},
    {"type": "reasoning-end", "id": "b"}, {"type": "text-delta", "id": "t", "delta": "Six."},
]  # fmt: skip


class TestReasoning:
    def test_thinking_parts_where_the_host_has_them(self) -> None:
        thinking = [ThinkingPart("Is it"), ThinkingPart(" six?"), ThinkingPart("Yes."), TextPart("Six.")]
        assert parts_of(*THOUGHTS) == thinking
        assert parts_of(*THOUGHTS, reasoning="thinking") == thinking

    def test_as_text_the_prefix_comes_once_per_block(self) -> None:
        said = "".join(part.value for part in parts_of(*THOUGHTS, reasoning="text"))
        assert said == "[Thinking] Is it six?\n\n[Thinking] Yes.\n\nSix."

    def test_dropped_by_option_or_where_the_host_lacks_them(self) -> None:
        host = {"text", "tool-call", "data"}
        assert parts_of(*THOUGHTS, reasoning="drop") == [TextPart("Six.")]
        assert parts_of(*THOUGHTS, host=host) == [TextPart("Six.")]
        assert parts_of(*THOUGHTS, host=host, reasoning="thinking") == [TextPart("Six.")]
        assert parts_of(*THOUGHTS, host=host, reasoning="text")[0] == TextPart("[Thinking] Is it")

    def test_a_host_without_data_parts_gets_links_at_most(self) -> None:
        file = {"type": "file", "file": {"mediaType": "image/png", "base64": PNG64}}
        parts = parts_of(TEXT, SOURCE, file, {"type": "data-x", "data": 1}, host={"text"})
        assert parts == [TextPart("The tide turns at six."), LINK]

    def test_a_host_without_tools_gets_no_calls(self) -> None:
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {}}
        assert parts_of(call, host={"text", "data"}) == []


def test_the_last_thinking_part_of_a_round_has_the_state_of_all() -> None:
    parts = event_parts(
        ev.ReasoningStart(0), ev.ReasoningDelta(0, "One. "), ev.ReasoningEnd(0, {"anthropic": {"signature": "s1"}}),
        ev.ReasoningStart(1, form="redacted"), ev.ReasoningEnd(1, {"anthropic": {"redacted": "r2"}}),
        ev.ReasoningStart(2, item="rs_3"), ev.ReasoningDelta(2, "Three."),
        ev.ReasoningEnd(2, {"responses": {"encrypted_content": "e3"}}),
        ev.TextStart(3), ev.TextDelta(3, "Six."), ev.TextEnd(3),
    )  # fmt: skip
    thinking = [part for part in parts if isinstance(part, ThinkingPart)]
    assert "".join(part.value for part in thinking) == "One. Three."
    last = thinking[-1]
    assert (last.value, last.id) == ("", "rs_3")
    assert last.metadata is not None
    assert set(last.metadata) == {"_completeThinking", "signature", "redactedData", "encrypted_content"}
    assert all(isinstance(value, str) for value in last.metadata.values())
    assert [last.metadata[key] for key in ("_completeThinking", "signature", "redactedData")] == [
        "One. Three.",
        "s1",
        "r2",
    ]
    assert thoughts("One. Three.", last.metadata) == [
        ("One. ", {"anthropic": {"signature": "s1"}}), ("", {"anthropic": {"redacted": "r2"}}),
        ("Three.", {"responses": {"encrypted_content": "e3"}}),
    ]  # fmt: skip


def thoughts(text: str, metadata: Any) -> list[tuple[str, Any]]:
    """What is read when a host gives back the thought that it was given."""
    said = [{"role": 2, "content": [{"kind": "thinking", "value": text, "metadata": metadata}]}]
    [message] = read_request({"messages": said}, "vscode").messages
    return [
        (part.text, {key: own for key, own in (part.extra or {}).items() if key != "vscode"})
        for part in message.parts
        if isinstance(part, rq.Reasoning)
    ]


@each(
    "metadata, read",
    [
        (None, ("Hm.", {})), ({}, ("Hm.", {})), ({"signature": "s"}, ("Hm.", {"anthropic": {"signature": "s"}})),
        ({"_completeThinking": "x", "encrypted_content": "gAAAA"}, ("x", {"responses": {"encrypted_content": "gAAAA"}})),
        ({"_completeThinking": "x", "encrypted_content": "penstock:1:{"}, ("Hm.", {})),
        ({"_completeThinking": "x", "encrypted_content": "penstock:1:[]"}, ("Hm.", {})),
        ({"_completeThinking": 7, "encrypted_content": "penstock:1:[]"}, ("Hm.", {})),
    ],
)  # fmt: skip
def test_metadata_of_others_is_read_as_theirs_and_what_is_broken_is_left_out(metadata: Any, read: Any) -> None:
    assert thoughts("Hm.", metadata) == [read]


# ── S8: files by their address ────────────────────────────────────────────────────────────────────────────────────────


class TestFilesByAddress:
    def test_a_link(self) -> None:
        chunk = {"type": "file", "url": "https://a.example/maps/oban.png?big=1", "mediaType": "image/png"}
        assert parts_of(chunk) == [TextPart("[oban.png](https://a.example/maps/oban.png?big=1)\n\n")]

    def test_a_paragraph_of_its_own_after_text(self) -> None:
        chunk = {"type": "file", "url": "https://a.example/oban.png", "mediaType": "image/png"}
        parts = parts_of({"type": "text-delta", "text": "Here:"}, chunk)
        assert parts == [TextPart("Here:"), TextPart("\n\n[oban.png](https://a.example/oban.png)\n\n")]

    def test_a_data_address_is_data(self) -> None:
        chunk = {"type": "file", "url": f"data:image/png;base64,{PNG64}", "mediaType": "image/png"}
        assert parts_of(chunk) == [DataPart(PNG, "image/png")]
        start = ev.FileStart(0, "", f"data:image/png;base64,{PNG64}")
        assert event_parts(start, ev.FileEnd(0)) == [DataPart(PNG, "image/png")]

    def test_no_other_scheme_becomes_a_link(self) -> None:
        for url in ("file:///etc/passwd", "command:workbench.action.quit"):
            assert event_parts(ev.FileStart(0, "text/plain", url), ev.FileEnd(0)) == []
