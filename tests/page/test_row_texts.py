"""The rows of one turn are readable in every protocol: a frame and an output begin with what they say.

The page's own script prints the rows of golden streams. Which frame says what is known from their traces.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles.node.oracle import NODE
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_calls import CLIENT, view
from tests.support.paths import PROJECT
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAMED = [case for case in cases() if case.streamed]
READ_AS = {"text-delta": "text", "reasoning-delta": "text", "refusal-delta": "text", "call-delta": "json"}
MISTRAL_CHUNK = {"id": "cmpl-m", "object": "chat.completion.chunk", "created": 1, "model": "magistral"}
MISTRAL = "".join(
    f"data: {json.dumps({**MISTRAL_CHUNK, 'choices': [{'index': 0, 'delta': {'content': content}}]})}\n\n"
    for content in ([{"type": "thinking", "thinking": [{"type": "text", "text": "Low water"}]}], "At six", " o'clock.")
)
COUNTERS = re.compile(
    r"\b(?:id|index|sequence_number|obfuscation|created|object|p|item_id|output_index|content_index):"
)
WEB = PROJECT / "web"


def test_a_row_begins_with_what_it_says_and_counters_come_last(tmp_path: Path) -> None:
    """In every protocol; which frame says what is known from the trace."""
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the npm packages of web/ are missing (make web installs them)")
    lists: list[list[dict[str, str]]] = []
    spoken: list[tuple[str, int, int, str]] = []  # where, and the only text that the payload says
    with inspected() as gateway:
        traces = list(_traces(gateway))
    for where, trace in traces:
        spoken += _spoken(where, trace, len(lists))
        lists += [[{"name": row["name"], "data": row["data"]} for row in trace[kind]] for kind in ("frames", "outputs")]
    (tmp_path / "payloads.json").write_text(json.dumps(lists))
    command = [str(NODE) if NODE.exists() else "node", "test/printPayloadLines.ts", str(tmp_path / "payloads.json")]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=120, check=True)
    printed = json.loads(done.stdout)
    lines = [(where, text, printed[rows][place]["line"]) for where, rows, place, text in spoken]
    assert [one for one in lines if not _begins(one[2], one[1])][:5] == []
    assert [one for one in lines if (found := COUNTERS.search(one[2])) and found.start() < min(len(one[1]), 60)][
        :5
    ] == []
    frames = {re.split("[/:]", where)[0] for where, *_ in spoken if "frame" in where}
    assert frames >= {case.protocol for case in STREAMED} - {"events", "completions"} | {"mistral"}


def _traces(gateway: Inspected) -> Iterator[tuple[str, Any]]:
    consumers = view(gateway, "about")["consumers"]
    golden = [case for case in STREAMED if not case.options and case.protocol not in {"events", "completions"}]
    for place, case in enumerate(golden):
        consumer = consumers[place % len(consumers)]
        query = {"protocol": case.source, "as": consumer}
        reply = CLIENT.post(f"{gateway.url}/inspector/trace", params=query, content=case.body)
        assert reply.status_code == 200, (case.id, reply.text)
        trace = reply.json()
        yield f"{case.id} as {consumer}", trace
    query = {"protocol": "openai-chat"}
    yield "mistral", CLIENT.post(f"{gateway.url}/inspector/trace", params=query, content=MISTRAL.encode()).json()


def _spoken(where: str, trace: Any, number: int) -> Iterator[tuple[str, int, int, str]]:
    for index, frame in enumerate(trace["frames"]):
        text = _only_text([event for event in trace["events"] if event["frame"] == index])
        if text in _strings(frame["data"]):  # not one that a decoder put together
            yield f"{where}: frame {index}", number, index, text
    for index, output in enumerate(trace["outputs"]):
        same = [other for other in trace["outputs"] if other["event"] == output["event"]]
        text = _only_text([trace["events"][output["event"]]]) if output["event"] is not None and len(same) == 1 else ""
        if text in _strings(output["data"]):
            yield f"{where}: output {index}", number + 1, index, text


def _only_text(events: list[Any]) -> str:
    """The text of the only event, if it is a delta."""
    if len(events) != 1 or events[0]["type"] not in READ_AS:
        return ""
    return str(events[0]["body"].get(READ_AS[events[0]["type"]], ""))


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


def _begins(line: str, text: str) -> bool:
    """`“text”`, or with the name of the field before it: `partial_json “text”`."""
    start = text.replace("\r\n", "\n").replace("\n", "⏎").replace("\t", "⇥")[:60]
    found = re.match(r"(?:\w++ )?“", line)
    return found is not None and line[found.end() :].startswith(start)
