"""The adapter's logger at level trace: which frame caused which events, and which parts came of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock import bridge
from penstock.vscode import VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import FINISH, outcome

if TYPE_CHECKING:
    import pytest

KEY = "sk-proj-abcdefghij1234567890"
TEXT = {"type": "text-delta", "text": "Ahoy"}


class TraceLog:
    """A logger with `trace` and `warn`, as editors have it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def trace(self, message: str) -> None:
        self.lines.append(message)

    def warn(self, message: str) -> None:
        self.warnings.append(message)


def test_the_logger_of_the_adapter_is_told_frame_event_and_part() -> None:
    log = TraceLog()
    outcome([TEXT, FINISH], logger=log)
    assert log.lines[0] == 'penstock: frame 1: {"type":"text-delta","text":"Ahoy"}'
    assert 'penstock: frame 1 → {"type":"text-delta","index":0,"text":"Ahoy"}' in log.lines
    assert 'penstock: frame 1 → TextDelta → {"kind":"text","value":"Ahoy"}' in log.lines
    assert any(line.startswith('penstock: frame 2 → {"type":"finish"') for line in log.lines)


def test_frames_of_bytes_are_told_one_by_one() -> None:
    log = TraceLog()
    data = b"".join(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % word for word in (b"One", b"Two"))
    parts, _ = outcome([data + b"data: [DONE]\n\n"], source="openai-chat", logger=log)
    assert [part.value for part in parts] == ["One", "Two"]
    assert any("frame 1 → TextDelta → " in line and "One" in line for line in log.lines)
    assert any("frame 2 → TextDelta → " in line and "Two" in line for line in log.lines)


def test_parts_are_the_same_with_and_without_a_trace() -> None:
    stream: list[Any] = [
        TEXT, {"type": "source", "url": "https://a.example"}, {"type": "reasoning-delta", "text": "Hm."},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {}}, {"type": "error", "error": "no"},
    ]  # fmt: skip
    assert outcome(stream, logger=TraceLog())[0] == outcome(stream)[0]


def test_the_adapter_says_at_the_start_that_content_is_written() -> None:
    log = TraceLog()
    VSCodeStreamAdapter(logger=log)
    [said] = log.warnings
    assert "the log holds the content of streams" in said


def test_the_trace_of_the_adapter_holds_no_secret() -> None:
    log = TraceLog()
    outcome([{**TEXT, "text": f"the key is {KEY}"}, FINISH], logger=log)
    assert any("[secret]" in line for line in log.lines)
    assert not any(KEY in line for line in log.lines)


@each("level, writes", [(5, True), (logging.DEBUG, False)])
def test_a_logger_of_the_standard_library_traces_at_level_5(
    caplog: pytest.LogCaptureFixture, level: int, writes: bool
) -> None:
    caplog.clear()
    with caplog.at_level(level, "adapter"):
        outcome([TEXT, FINISH], logger=logging.getLogger("adapter"))
    assert any("frame 1" in record.getMessage() for record in caplog.records) is writes


def test_pipe_trace_tells_which_item_caused_which() -> None:
    data = b'data: {"choices":[{"delta":{"content":"Ahoy"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    hops = bridge("openai-chat", "vscode").trace([data])
    output = next(hop for hop in hops if isinstance(hop.item, bytes) and b"Ahoy" in hop.item and hop.stage > 1)
    chain = [output]
    while chain[-1].cause is not None:
        chain.append(hops[chain[-1].cause])
    assert [type(hop.item).__name__ for hop in chain[:1]] == ["bytes"]
    assert chain[-1].item == data
    assert [hop.stage for hop in chain] == sorted((hop.stage for hop in chain), reverse=True)
