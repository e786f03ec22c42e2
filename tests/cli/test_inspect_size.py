"""`penstock inspect` of long streams: memory does not grow with them, and the summary is that of a fold."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import fold_all
from penstock._cli import inspect_rows, inspect_summary, one_line_summary
from penstock._cli.inspect_summary import StreamSummary
from penstock.events import AnyEvent
from penstock.request import Call, Text
from tests.cli.command_runner import PROJECT, inside, main
from tests.cli.sample_streams import CHAT_CALLS, CHAT_LONG, call, chunk, sse

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.request import Turn

FEW, MANY = 1_000, 3_000  # frames
KEPT_PER_FRAME = 350  # bytes: decoders keep the text of open parts; a frame with its events and outputs takes 3,000


def stream(kind: str, count: int) -> bytes:
    """A stream of that many frames or turns."""
    start, end = chunk({"role": "assistant", "content": ""}), chunk({}, "stop")
    if kind == "one text":
        return sse(start, *(chunk({"content": f"word{number} "}) for number in range(count)), end, done=True)
    if kind == "rows that differ":  # nothing to fold
        opened = [chunk({"tool_calls": [call(part, "", id=f"c{part}", type="function")]}) for part in (0, 1)]
        deltas = (chunk({"tool_calls": [call(number % 2, f"{number},")]}) for number in range(count))
        return sse(start, *opened, *deltas, chunk({}, "tool_calls"), done=True)
    if kind == "large frames":
        return sse(start, *(chunk({"content": "tide " * 4_000}) for _ in range(count // 100)), end, done=True)
    return CHAT_CALLS * (count // 8)  # many turns


def peak(path: Path, *words: str, measured: bool = True) -> int:
    """The most memory that a run takes. What it prints goes nowhere."""
    stdout, sys.stdout = sys.stdout, io.TextIOWrapper(open("/dev/null", "wb"), "utf-8")  # noqa: SIM115, PTH123
    if measured:
        tracemalloc.start()
    try:
        assert main(["inspect", str(path), "--width", "120", *words]) == 0
        return tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        tracemalloc.stop()
        sys.stdout.close()
        sys.stdout = stdout


@pytest.mark.parametrize("words", [[], ["--json"], ["--all"]], ids=["table", "json", "all"])
@pytest.mark.parametrize("kind", ["one text", "rows that differ", "large frames", "many turns"])
def test_memory_does_not_grow_with_the_stream(
    kind: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the text that decoders keep. Limits are small, so that small streams reach them; rich takes too long."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(inspect_rows, "MAX_ROWS", 60)
    monkeypatch.setattr(inspect_rows, "MAX_LAST_ROWS", 20)
    monkeypatch.setattr("penstock._cli.inspect.BLOCK", 60)
    monkeypatch.setattr("penstock._cli.inspect.MAX_HELD_LINES", 100)
    monkeypatch.setattr(inspect_summary, "MAX_TEXT", 2_000)
    monkeypatch.setattr(inspect_summary, "MAX_TURNS", 10)
    monkeypatch.setattr(one_line_summary, "_SEARCHED", 100)
    sizes: dict[int, int] = {}
    for count in (FEW, MANY):
        path = tmp_path / f"{count}.sse"
        path.write_bytes(stream(kind, count))
        if not sizes:
            peak(path, *words, measured=False)  # loads modules
        sizes[count] = peak(path, *words)
    text = 20_000 * (MANY - FEW) // 100 if kind == "large frames" else 0
    assert sizes[MANY] - sizes[FEW] < KEPT_PER_FRAME * (MANY - FEW) + 3 * text, sizes


def expected_turn(turn: Turn) -> dict[str, Any]:
    """The summary of a complete turn."""
    kinds = Counter(
        "refusal" if isinstance(part, Text) and part.refusal else str(part.__struct_config__.tag) for part in turn.parts
    )
    names = ("id", "name", "json", "by", "cut")
    calls = [{name: getattr(part, name) for name in names} for part in turn.parts if isinstance(part, Call)]
    sources = [row.url or row.title or row.filename or row.quote for row in turn.sources]
    known: dict[str, Any] = {"id": turn.id, "model": turn.model, "parts": dict(kinds), "text": turn.text}
    known |= {"reasoning": turn.reasoning, "refusal": turn.refusal, "calls": calls, "sources": [*filter(None, sources)]}
    for name in ("usage", "finish", "fault"):
        fields: dict[str, Any] = msgspec.to_builtins(getattr(turn, name)) or {}
        known[name] = {key: value for key, value in fields.items() if key not in {"type", "extra"}}
    return {name: value for name, value in known.items() if value}


DECODER = msgspec.json.Decoder(AnyEvent)
CASES = sorted((PROJECT / "tests" / "streams").glob("*/*/events.jsonl"))


def test_the_summary_is_that_of_a_fold() -> None:
    """Of every golden case."""
    assert len(CASES) > 100
    for path in CASES:
        events = [DECODER.decode(line) for line in path.read_bytes().splitlines()]
        summary = StreamSummary()
        for event in events:
            summary.feed(event)
        turns = fold_all(events)
        found = summary.result([])
        assert found["turns"] == [expected_turn(turn) for turn in turns], path
        assert found["unknown"] == sum(len(turn.unknown) for turn in turns), path


def test_what_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_rows, "MAX_ROWS", 4)
    monkeypatch.setattr(inspect_rows, "MAX_LAST_ROWS", 2)
    monkeypatch.setattr(inspect_summary, "MAX_TEXT", 10)
    monkeypatch.setattr(inspect_summary, "MAX_TURNS", 2)
    path = tmp_path / "long.sse"
    path.write_bytes(CHAT_CALLS + CHAT_LONG * 3)
    text = inside("inspect", "--to", "events", str(path)).stdout.decode()
    assert "rows are not shown; --all shows them" in text
    assert "characters" in text
    assert "2 more are not shown" in text
    summary = json.loads(inside("inspect", "--json", str(path)).stdout.splitlines()[-1])
    assert (len(summary["turns"]), summary["more_turns"]) == (2, 2)
    assert summary["turns"][1]["lengths"]["text"] > 10 == len(summary["turns"][1]["text"])


def test_all_rows_of_a_long_stream_come_in_several_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_rows, "MAX_ROWS", 4)
    monkeypatch.setattr(inspect_rows, "MAX_LAST_ROWS", 2)
    monkeypatch.setattr("penstock._cli.inspect.BLOCK", 5)
    path = tmp_path / "long.sse"
    path.write_bytes(CHAT_LONG)
    for words, given in (([str(path)], b""), (["-"], CHAT_LONG)):  # a pipe can be read once only
        text = inside("inspect", "--to", "events", "--all", *words, given=given).stdout.decode()
        assert all(f"word{number} " in text for number in range(30))
        assert text.count("openai-chat frames") > 3
        assert "not shown" not in text


def test_a_value_that_changes_late_is_not_said_to_be_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_line_summary, "_SEARCHED", 5)
    frames = [
        {**chunk({"content": f"{number}"}), "seen": "a", "late": "b" if number < 15 else "c"} for number in range(20)
    ]
    given = sse(*frames, chunk({}, "stop"), done=True)
    line = next(
        line
        for line in inside("inspect", "--to", "events", given=given).stdout.decode().splitlines()
        if "in every frame" in line
    )
    assert 'seen "a"' in line
    assert "late" not in line


@pytest.mark.parametrize("kind", ["one text", "rows that differ", "many turns"])
def test_frames_in_batches_change_only_the_rows_that_are_not_shown(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_rows, "MAX_ROWS", 3)
    monkeypatch.setattr(inspect_rows, "MAX_LAST_ROWS", 5)
    monkeypatch.setattr(one_line_summary, "_SEARCHED", 20)
    monkeypatch.setattr("penstock._cli.common_options.READ_BYTES", 500)
    path = tmp_path / "long.sse"
    path.write_bytes(stream(kind, 400))
    found: list[tuple[str, str]] = []
    for window in (10, 1_000_000):  # frames: the second is more than the stream has
        monkeypatch.setattr("penstock._cli.inspect_trace.WINDOW", window)
        before, _, after = inside("inspect", str(path)).stdout.decode().partition("rows are not shown")
        found.append((before.rpartition("\n")[0], after.partition("\n")[2]))
    assert found[0][0] == found[1][0]
    last_rows, summary = zip(
        *((rows, tail) for rows, _, tail in (one.partition("\n\n") for _, one in found)), strict=True
    )
    assert summary[0] == summary[1]
    assert last_rows[0].splitlines()[-3:] == last_rows[1].splitlines()[-3:]


def test_the_events_of_one_frame_are_bounded(tmp_path: Path) -> None:
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for number in range(300)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    path = tmp_path / "calls.json"
    path.write_text(json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}))
    text = inside("inspect", str(path)).stdout.decode()
    assert "more events; --all shows them" in text
    assert "more events" not in inside("inspect", "--all", str(path)).stdout.decode()
