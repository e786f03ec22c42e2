"""Every spelling of a call, calls that only stream, and which event of an interleaved stream causes which part."""

from __future__ import annotations

from json import dumps, loads
from typing import Any

from penstock import events as ev
from penstock import translate
from penstock.vscode import DataPart, Outcome, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import CITATION, FINISH, Log, event_parts, outcome, parts_of

BEGIN = {"type": "tool-call-streaming-start", "toolCallId": "c1", "toolName": "tide"}


# ── S5: every spelling ────────────────────────────────────────────────────────────────────────────────────────────────

START = {"toolCallId": "c1", "toolName": "tide"}
CALL = [ToolCallPart("gw-c1", "tide", {"port": "Oban"})]
GIVEN = {"port": "Oban"}
SPELLINGS: list[tuple[str, list[Any], list[Any]]] = [
    *[(f"text-delta {key}", [{"type": "text-delta", key: "Ahoy"}], [TextPart("Ahoy")]) for key in ("textDelta", "text", "delta")],
    *[
        (f"reasoning-delta {key}", [{"type": "reasoning-delta", "id": "r", key: "Hm"}], [ThinkingPart("Hm")])
        for key in ("textDelta", "text", "delta")
    ],
    ("text", [{"type": "text", "text": "Ahoy"}], [TextPart("Ahoy")]),
    ("reasoning", [{"type": "reasoning", "textDelta": "Hm"}, {"type": "reasoning-part-finish"}], [ThinkingPart("Hm")]),
    ("reasoning text", [{"type": "reasoning", "text": "Hm"}], [ThinkingPart("Hm")]),
    ("error", [{"type": "error", "error": "no"}], [TextPart("**Error:** no")]),
    ("errorText", [{"type": "error", "errorText": "no"}], [TextPart("**Error:** no")]),
    ("error exception", [{"type": "error", "error": ValueError("no")}], [TextPart("**Error:** no")]),
    ("tool-call args", [{"type": "tool-call", **START, "args": GIVEN}], CALL),
    ("tool-call input", [{"type": "tool-call", **START, "input": GIVEN}], CALL),
    ("tool-input-available", [{"type": "tool-input-available", **START, "input": GIVEN}], CALL),
    (
        "version 4 streaming",
        [{"type": "tool-call-streaming-start", **START}, {"type": "tool-call-delta", **START, "argsTextDelta": '{"port":'},
         {"type": "tool-call-delta", **START, "argsTextDelta": '"Oban"}'}, {"type": "tool-call", **START, "args": GIVEN}],
        CALL,
    ),
    (
        "version 5 streaming",
        [{"type": "tool-input-start", "id": "c1", "toolName": "tide"}, {"type": "tool-input-delta", "id": "c1", "delta": '{"port":'},
         {"type": "tool-input-delta", "id": "c1", "delta": '"Oban"}'}, {"type": "tool-input-end", "id": "c1"},
         {"type": "tool-call", **START, "input": GIVEN}],
        CALL,
    ),
    (
        "UI stream",
        [{"type": "tool-input-start", **START}, {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"port":"Oban"}'},
         {"type": "tool-input-available", **START, "input": GIVEN}],
        CALL,
    ),
    (
        "source 4",
        [{"type": "source", "source": {"sourceType": "url", "id": "s", "url": "https://a.example", "title": "A"}}],
        [DataPart.json({"type": "citation", "url": "https://a.example", "title": "A", "sourceId": "s"}, CITATION)],
    ),
    (
        "source-url",
        [{"type": "source-url", "sourceId": "s", "url": "https://a.example", "title": "A"}],
        [DataPart.json({"type": "citation", "url": "https://a.example", "title": "A", "sourceId": "s"}, CITATION)],
    ),
    (
        "source-document",
        [{"type": "source-document", "sourceId": "s", "mediaType": "application/pdf", "title": "A", "filename": "a.pdf"}],
        [DataPart.json({"type": "citation", "title": "A", "sourceId": "s", "mediaType": "application/pdf", "filename": "a.pdf"},
                       CITATION)],
    ),
]  # fmt: skip


@each("chunks, expected", [case[1:] for case in SPELLINGS])
def test_every_spelling_is_read(chunks: list[Any], expected: list[Any]) -> None:
    unknown: list[Any] = []
    assert parts_of(*chunks, citations="data", on_unknown=unknown.append) == expected
    assert unknown == []


# ── S6: calls that only stream ────────────────────────────────────────────────────────────────────────────────────────


class TestUnfinishedCalls:
    def streamed(self, *pieces: str, end: bool = True, log: Log | None = None) -> tuple[list[Any], Outcome]:
        deltas = [
            {"type": "tool-call-delta", "toolCallId": "c1", "toolName": "tide", "argsTextDelta": piece}
            for piece in pieces
        ]
        return outcome([BEGIN, *deltas, *([FINISH] if end else [])], logger=log)

    def test_a_whole_one_is_delivered_once_at_the_end(self) -> None:
        assert self.streamed('{"port"', ':"Oban"}')[0] == CALL
        assert self.streamed('{"port"', ':"Oban"}', end=False)[0][0] == CALL[0]

    def test_a_truncated_one_is_reported_and_never_delivered(self) -> None:
        log = Log()
        parts, end = self.streamed('{"port"', log=log)
        assert parts == []
        assert [(cut.id, cut.name, cut.json) for cut in end.cut] == [("c1", "tide", '{"port"')]
        assert any(level == "warning" and "'c1'" in line for level, line in log.lines)
        assert not [part for part in self.streamed('{"port"', end=False)[0] if isinstance(part, ToolCallPart)]

    @each("end", [[], [{"type": "error", "error": "busy"}]])
    @each(
        "input, whole",
        [('{"port":"Oban"}', True), ("{}", True), ("[7]", True), ('{"port"', False), ("", False), ("7", False)],
    )
    def test_a_fault_is_an_end_too(self, end: list[Any], input: str, whole: bool) -> None:
        """Complete JSON is delivered before the error, once. A number is not: more digits might have followed."""
        begun = {"type": "tool-input-start", "id": "c1", "toolName": "tide"}
        chunks = [begun, {"type": "tool-input-delta", "id": "c1", "delta": input}, *end]
        data = b"".join(b"data: %b\n\n" % dumps(chunk).encode() for chunk in chunks)
        lines = [loads(line) for line in b"".join(translate(data, "aisdk", "vscode")).splitlines()]
        assert [line["kind"] for line in lines] == ["start", "call" if whole else "cut", "error"]

    def test_empty_input_is_an_empty_object(self) -> None:
        assert self.streamed()[0] == [ToolCallPart("gw-c1", "tide", {})]
        assert self.streamed(" ", "\n")[0] == [ToolCallPart("gw-c1", "tide", {})]

    def test_a_call_is_delivered_once_whatever_comes_again(self) -> None:
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "args": {"port": "Oban"}}
        assert parts_of(BEGIN, call, call, BEGIN, call) == CALL


@each(
    "json, form, given",
    [
        ('{"a":1}', "json", {"a": 1}), (' {"a":1}\n', "json", {"a": 1}), ("[1]", "json", {"input": [1]}), ("7", "json", {"input": 7}),
        ("null", "json", {}), ("cast off\n", "text", {"input": "cast off\n"}), ("{}", "text", {"input": "{}"}),
    ],
)  # fmt: skip
def test_input_is_always_an_object(json: str, form: Any, given: Any) -> None:
    events = [ev.CallStart(0, "c1", "tide", form=form), ev.CallEnd(0, "c1", "tide", json, form=form)]
    assert event_parts(*events) == [ToolCallPart("gw-c1", "tide", given)]


# ── the two interleaving tables of the Responses state machine ────────────────────────────────────────────────────────


def function(id: str, place: int, status: str = "in_progress", arguments: str = "") -> dict[str, Any]:
    item = {
        "id": f"fc_{id}",
        "type": "function_call",
        "call_id": id,
        "name": "tide",
        "arguments": arguments,
        "status": status,
    }
    return {"output_index": place, "item": item}


def arguments(id: str, place: int, **fields: str) -> dict[str, Any]:
    return {"item_id": f"fc_{id}", "output_index": place, **fields}


Step = tuple[str, dict[str, Any], list[Any]]
OBAN, MULL = '{"port":"Oban"}', '{"port":"Mull"}'
CREATED: Step = (
    "response.created",
    {"response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}},
    [],
)
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
SPOKEN = {"type": "output_text", "text": "One moment, please.", "annotations": []}
TEXT_AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
PARALLEL: list[Step] = [
    CREATED,
    ("response.output_item.added", function("call_1", 0), []),
    ("response.output_item.added", function("call_2", 1), []),
    ("response.function_call_arguments.delta", arguments("call_1", 0, delta=OBAN), []),
    ("response.function_call_arguments.delta", arguments("call_2", 1, delta=MULL), []),
    ("response.function_call_arguments.done", arguments("call_1", 0, arguments=OBAN),
     [ToolCallPart("gw-call_1", "tide", {"port": "Oban"})]),
    ("response.function_call_arguments.done", arguments("call_2", 1, arguments=MULL),
     [ToolCallPart("gw-call_2", "tide", {"port": "Mull"})]),
    ("response.output_item.done", function("call_1", 0, "completed", OBAN), []),
    ("response.output_item.done", function("call_2", 1, "completed", MULL), []),
    ("response.completed", {"response": {"id": "resp_1", "status": "completed", "output": [
        function("call_1", 0, "completed", OBAN)["item"], function("call_2", 1, "completed", MULL)["item"]]}}, []),
]  # fmt: skip
INTERLEAVED: list[Step] = [
    CREATED,
    ("response.output_item.added", {"output_index": 0, "item": MESSAGE}, []),
    ("response.content_part.added", {**TEXT_AT, "part": {"type": "output_text", "text": "", "annotations": []}}, []),
    ("response.output_text.delta", {**TEXT_AT, "delta": "One moment,"}, [TextPart("One moment,")]),
    ("response.output_item.added", function("call_1", 1), []),
    ("response.output_text.delta", {**TEXT_AT, "delta": " please."}, [TextPart(" please.")]),
    ("response.function_call_arguments.delta", arguments("call_1", 1, delta=OBAN), []),
    ("response.output_text.done", {**TEXT_AT, "text": "One moment, please."}, []),
    ("response.function_call_arguments.done", arguments("call_1", 1, arguments=OBAN),
     [ToolCallPart("gw-call_1", "tide", {"port": "Oban"})]),
    ("response.output_item.done", {"output_index": 0, "item": {**MESSAGE, "status": "completed", "content": [SPOKEN]}}, []),
    ("response.output_item.done", function("call_1", 1, "completed", OBAN), []),
    ("response.completed", {"response": {"id": "resp_1", "status": "completed", "output": [
        {**MESSAGE, "status": "completed", "content": [SPOKEN]}, function("call_1", 1, "completed", OBAN)["item"]]}}, []),
]  # fmt: skip


@each("table", [PARALLEL, INTERLEAVED])
def test_each_event_causes_exactly_these_parts(table: list[Step]) -> None:
    stream = VSCodeStreamAdapter(source="responses").stream()
    found = [[_bare(part) for part in stream.feed({"type": kind, **fields})] for kind, fields, _ in table]
    assert found == [expected for _, _, expected in table]
    assert stream.finish() == []
    end = stream.outcome()
    assert end.finish is not None
    assert end.finish.reason == "calls"


def _bare(part: Any) -> Any:
    """A part without the provider's own state."""
    return ToolCallPart(part.call_id, part.name, part.input) if isinstance(part, ToolCallPart) else part
