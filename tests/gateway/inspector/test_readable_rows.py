"""The rows of one turn are readable in every protocol: a frame and an output begin with what they say.

The streams are the golden cases of `tests/streams` and, for Mistral, a stream of its shape. Which frame says what is
known from the trace: its events name the frame that caused them, its outputs the event that they encode.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock._inspector.stream_traces import CONSUMERS, read_trace, source_from_file
from tests.page.test_page_units import WEB
from tests.support.stream_cases import cases
from tests.surfaces.vscode.e2e import script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._inspector.schemas import FrameRow, OutputRow, Trace

PROTOCOLS = (
    "openai-chat",
    "responses",
    "anthropic",
    "gemini",
    "bedrock",
    "uistream",
    "vscode",
    "cohere",
    "ollama",
    "aisdk",
)
DELTAS = {"text-delta": "text", "reasoning-delta": "text", "refusal-delta": "text", "call-delta": "json"}
MISTRAL = "".join(
    f"data: {json.dumps({'id': 'cmpl-m', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'magistral', 'choices': [{'index': 0, 'delta': {'content': content}, 'finish_reason': None}]})}\n\n"
    for content in ([{"type": "thinking", "thinking": [{"type": "text", "text": "Low water"}]}], "At six", " o'clock.")
)
COUNTERS = re.compile(
    r"\b(?:id|index|sequence_number|obfuscation|created|object|p|item_id|output_index|content_index):"
)
LINE_ENDS = str.maketrans({"\n": "⏎", "\t": "⇥"})


class Spoken(NamedTuple):
    """A payload of a trace, and the only text that it says."""

    where: str
    list_number: int
    place: int
    text: str


def _traces() -> Iterator[tuple[str, Trace]]:
    for protocol in PROTOCOLS:
        found = [case for case in cases() if case.protocol == protocol and case.streamed and not case.options]
        for case in found:
            for consumer in CONSUMERS:
                source = source_from_file(case.body, case.id, case.source)
                yield f"{case.id} as {consumer}", read_trace(source, consumer).trace()
    yield "mistral", read_trace(source_from_file(MISTRAL.encode(), "mistral", "openai-chat")).trace()


def _only_text(events: list[Any]) -> str:
    """The text of the only event, if it is a delta."""
    if len(events) != 1 or events[0].type not in DELTAS:
        return ""
    return str(getattr(events[0].body, DELTAS[events[0].type]))


def _spoken(where: str, trace: Trace, number: int) -> Iterator[Spoken]:
    for index in range(len(trace.frames)):
        text = _only_text([event for event in trace.events if event.frame == index])
        if text in _strings(trace.frames[index].data):  # not one that a decoder put together
            yield Spoken(f"{where}: frame {index}", number, index, text)
    for index, output in enumerate(trace.outputs):
        same = [other for other in trace.outputs if other.event == output.event]
        text = _only_text([trace.events[output.event]]) if output.event is not None and len(same) == 1 else ""
        if text in _strings(output.data):
            yield Spoken(f"{where}: output {index}", number + 1, index, text)


def _strings(data: str) -> set[str]:
    """All strings in a JSON text."""
    found = set[str]()

    def collect(value: Any) -> None:
        if isinstance(value, str):
            found.add(value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            collect(item)

    with suppress(ValueError):
        collect(json.loads(data))
    return found - {""}


def _payloads(rows: list[FrameRow] | list[OutputRow]) -> list[dict[str, str]]:
    return [{"name": row.name, "data": row.data} for row in rows]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Spoken, str]]:
    """What is said, and the row that says it."""
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the npm packages of web/ are missing (make web installs them)")
    lists, spoken = list[Any](), list[Spoken]()
    for where, trace in _traces():
        spoken += _spoken(where, trace, len(lists))
        lists += [_payloads(trace.frames), _payloads(trace.outputs)]
    path: Path = tmp_path_factory.mktemp("rows") / "payloads.json"
    path.write_text(json.dumps(lists))
    printed = json.loads(script("test/printPayloadLines.ts", path, cwd=WEB))
    return [(one, printed[one.list_number][one.place]["line"]) for one in spoken]


def test_a_row_begins_with_what_it_says(lines: list[tuple[Spoken, str]]) -> None:
    wrong = [(one.where, one.text, line) for one, line in lines if not _begins(line, one.text)]
    assert not wrong, wrong[:5]


def _begins(line: str, text: str) -> bool:
    """`“text”`, or with the name of the field before it: `partial_json “text”`."""
    start = text.replace("\r\n", "\n").translate(LINE_ENDS)[:60]
    found = re.match(r"(?:\w++ )?“", line)
    return found is not None and line[found.end() :].startswith(start)


def test_counters_and_ids_come_after_the_text(lines: list[tuple[Spoken, str]]) -> None:
    for one, line in lines:
        counter = COUNTERS.search(line)
        assert counter is None or counter.start() >= min(len(one.text), 60), (one.where, line)


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "mistral"])
def test_each_protocol_is_among_them(protocol: str, lines: list[tuple[Spoken, str]]) -> None:
    assert any(one.where.startswith((f"{protocol}/", protocol)) and "frame" in one.where for one, _ in lines)
