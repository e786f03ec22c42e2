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
from penstock.events import AnyEvent
from penstock.request import Call, Text
from tests.cli.command_runner import inside, main
from tests.cli.sample_streams import CHAT_CALLS, call, chunk, sse
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.request import Turn

FEW, MANY = 2_200, 4_400  # frames; from 2,000 on they are traced in batches
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


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if rich was not installed: it takes long for long tables."""
    monkeypatch.setitem(sys.modules, "rich.console", None)


def peak(path: Path, *words: str) -> int:
    """The most memory that a run takes. What it prints goes nowhere."""
    stdout, sys.stdout = sys.stdout, io.TextIOWrapper(open("/dev/null", "wb"), "utf-8")  # noqa: SIM115, PTH123
    tracemalloc.start()
    try:
        assert main(["inspect", str(path), "--width", "120", *words]) == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        sys.stdout.close()
        sys.stdout = stdout


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("rows that differ", ()),
        *(
            pytest.param(kind, words, marks=pytest.mark.nightly)
            for kind in ("one text", "large frames", "many turns", "rows that differ")
            for words in ((), ("--all",))
        ),
    ],
)
def test_memory_does_not_grow_with_the_stream(kind: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """But for the text that decoders keep."""
    path = tmp_path / "stream.sse"
    sizes: dict[int, int] = {}
    path.write_bytes(stream(kind, 100))
    peak(path, *words)  # loads modules
    for count in (FEW, MANY):
        path.write_bytes(stream(kind, count))
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
        done = inside("inspect", "--json", "--from", "events", "--to", "events", str(path))
        assert done.returncode == 0, (path, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        turns = fold_all([DECODER.decode(line) for line in path.read_bytes().splitlines()])
        assert rows[-1]["turns"] == json.loads(json.dumps([expected_turn(turn) for turn in turns])), path
        assert rows[-1]["unknown"] == sum(len(turn.unknown) for turn in turns), path


@pytest.mark.usefixtures("plain")
def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "long.sse"
    large = [chunk({"content": "tide " * 30_000}) for _ in range(8)]
    path.write_bytes(sse(*large, chunk({}, "stop"), done=True) + CHAT_CALLS * 201)
    text = inside("inspect", "--to", "events", str(path)).stdout.decode()
    assert "rows are not shown; --all shows them" in text
    assert "characters" in text
    assert "2 more are not shown" in text
    summary = json.loads(inside("inspect", "--json", str(path)).stdout.splitlines()[-1])
    assert (len(summary["turns"]), summary["more_turns"]) == (200, 2)
    assert summary["turns"][0]["lengths"]["text"] == 1_200_000
    assert len(summary["turns"][0]["text"]) == 1 << 20


@pytest.mark.usefixtures("plain")
def test_all_rows_of_a_long_stream_come_in_several_tables(tmp_path: Path) -> None:
    """The others show the same rows at both ends, and the same summary, though most frames are traced in batches."""
    path = tmp_path / "long.sse"
    data = stream("rows that differ", FEW)
    path.write_bytes(data)
    everything = inside("inspect", "--all", str(path)).stdout.decode()
    assert [
        number for number in range(FEW) if f" {number}," not in everything and f'"{number},' not in everything
    ] == []
    assert everything.count("openai-chat frames") == 3
    assert "not shown" not in everything
    piped = inside("inspect", "--all", "-", given=data).stdout.decode()  # a pipe can be read once only
    assert piped.replace("standard input", "long.sse") == everything
    rows, _, summary = everything.partition("\nturn ")
    before, _, after = inside("inspect", str(path)).stdout.decode().partition("rows are not shown")
    shown, _, told = after.partition("\nturn ")
    assert told == summary
    assert words(shown)[-20:] == words(rows)[-20:]
    assert words(before)[1:400] == words(rows)[1:400]


def words(table: str) -> list[list[str]]:
    """The beginnings of the lines of a table, however wide its columns are."""
    return [line.split()[:5] for line in table.splitlines()]


def test_a_value_that_changes_late_is_not_said_to_be_constant() -> None:
    frames = [
        {**chunk({"content": f"{number}"}), "seen": "a", "late": "b" if number < 1_030 else "c"}
        for number in range(1_040)
    ]
    given = sse(*frames, chunk({}, "stop"), done=True)
    shown = inside("inspect", "--to", "events", given=given).stdout.decode()
    line = next(line for line in shown.splitlines() if "in every frame" in line)
    assert 'seen "a"' in line
    assert "late" not in line


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
