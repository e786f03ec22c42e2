"""The NDJSON form of VS Code parts: what each line says, that it is read back, and that no line can do harm."""

from __future__ import annotations

import random
from typing import Any, get_args

import msgspec

from penstock import encoder as new_encoder
from penstock import events as ev
from penstock.vscode import HOST
from tests.support import run_streams as running
from tests.support.each_case import each

REPLY: list[Any] = [
    ev.TextStart(0), ev.TextDelta(0, "Let me look."), ev.TextEnd(0), ev.CallStart(1, "c1", "tide"),
    ev.CallEnd(1, "c1", "tide", '{"port":"Oban"}'),
]  # fmt: skip
INCOMPLETE = "The model called a tool with input that is not complete JSON"
LIMIT = "The model reached its output limit before it had written an answer"
WHY = {
    "stop": "The model ended its turn without an answer", "length": LIMIT, "pause": "The model paused",
    "calls": "The model called tools, and none of the calls can be run here", "filter": "A content filter withheld the answer",
    "refusal": "The model declined to answer", "other": "The model gave no answer, and no known reason for it",
}  # fmt: skip


def lines(*events: Any, end: Any = None, **options: Any) -> list[dict[str, Any]]:
    encoder = new_encoder("vscode", **options)
    frames = encoder.feed([ev.Start("m1"), *events, end or ev.Finish("stop")]) + encoder.finish()
    return [msgspec.json.decode(data) for _, data in frames]


def read(wire: bytes) -> list[Any]:
    return running.run("vscode", [[(b"", line) for line in wire.splitlines()]]).events


def body(*events: Any) -> bytes:
    encoder, row = new_encoder("vscode"), running.row("vscode")
    assert row.body is not None
    return row.body(encoder.feed([ev.Start("m1"), *events]))


# ── what is written ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_line_says_version_and_prefix() -> None:
    assert lines()[0] == {"kind": "start", "version": 1, "id": "m1", "prefix": "gw-"}
    assert lines(call_id_prefix="")[0] == {"kind": "start", "version": 1, "id": "m1"}


@each(
    "finish, message",
    [
        ("tool_calls", INCOMPLETE), ("tool_use", INCOMPLETE), ("function_call", INCOMPLETE), ("length", LIMIT), ("max_tokens", LIMIT),
    ],
)  # fmt: skip
def test_a_call_without_whole_input_is_not_called_an_output_limit(finish: str, message: str) -> None:
    started = [
        ev.CallStart(0, "c1", "weigh"),
        ev.CallDelta(0, '{"kilos": 1'),
        ev.CallCut(0, "c1", "weigh", '{"kilos": 1'),
    ]
    assert lines(*started, end=ev.Finish("length", finish))[-1]["message"].startswith(message)


@each("reason", get_args(ev.Reason))
def test_an_empty_reply_says_why(reason: Any) -> None:
    end = lines(end=ev.Finish(reason, "word"))[-1]
    why = end.pop("message")
    assert end == {"kind": "end", "reason": reason, "raw": "word"}
    assert why.startswith(WHY[reason])
    thought = [ev.ReasoningStart(0), ev.ReasoningDelta(0, "Hm"), ev.ReasoningEnd(0)]
    assert lines(*thought, end=ev.Finish(reason))[-1]["message"] == why
    assert "message" not in lines(*REPLY, end=ev.Finish(reason))[-1]
    refusal = [ev.RefusalStart(0), ev.RefusalDelta(0, "No."), ev.RefusalEnd(0)]
    assert "message" not in lines(*refusal, end=ev.Finish(reason))[-1]


def test_an_error_is_a_line_of_its_own_kind_and_the_last() -> None:
    fault = ev.Fault("rate-limit", "too many boats", 429, "slow", "req_1", 2.5)
    assert lines(*REPLY[:3], ev.Usage(9, 2), end=fault)[-2:] == [
        {"kind": "usage", "value": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}},
        {"kind": "error", "fault": "rate-limit", "message": "too many boats", "status": 429, "code": "slow",
         "requestId": "req_1", "retryAfter": 2.5},
    ]  # fmt: skip


def test_the_context_is_filled_by_the_last_model_call() -> None:
    steps = [ev.Usage(10, 2, step=1), ev.Step(2), ev.Usage(14, 3, step=2), ev.Usage(24, 5)]
    (said,) = [line for line in lines(*steps) if line["kind"] == "usage"]
    assert said == {
        "kind": "usage", "value": {"prompt_tokens": 14, "completion_tokens": 3, "total_tokens": 17},
        "total": {"prompt_tokens": 24, "completion_tokens": 5, "total_tokens": 29}, "step": 2,
    }  # fmt: skip


def test_a_number_that_is_not_known_is_not_made_up() -> None:
    (said,) = [line for line in lines(ev.Usage(None, 5)) if line["kind"] == "usage"]
    assert said["value"] == {"completion_tokens": 5}


def test_input_is_written_letter_by_letter() -> None:
    encoder = new_encoder("vscode")
    given = '{"a": 1.0, "b": 12345678901234567890123, "a": 2}'
    frames = encoder.feed([ev.Start(), ev.CallStart(0, "c", "f"), ev.CallEnd(0, "c", "f", given)])
    assert frames[1][1] == b'{"kind":"call","callId":"gw-c","name":"f","input":' + given.encode() + b"}"


def test_a_call_is_written_once_in_a_stream_of_several_turns() -> None:
    turn: list[Any] = [ev.Start(), *REPLY, ev.Finish("calls")]
    encoder = new_encoder("vscode")
    written = b"\n".join(data for _, data in encoder.feed([*turn, *turn]))
    assert written.count(b'"kind":"call"') == 1
    assert "call-twice" in {found.code for found in encoder.diagnostics}


def test_only_the_first_choice_is_written() -> None:
    other = [
        ev.TextStart(0, choice=1), ev.TextDelta(0, "no"), ev.TextEnd(0), ev.RefusalStart(1, choice=1), ev.RefusalDelta(1, "no"),
        ev.RefusalEnd(1), ev.ReasoningStart(2, choice=1), ev.ReasoningDelta(2, "no"), ev.ReasoningEnd(2),
        ev.CallStart(3, "c", "f", choice=1), ev.CallEnd(3, "c", "f", "{}"), ev.FileStart(4, "image/png", choice=1),
        ev.FileDelta(4, "iVBORw0KGgo="), ev.FileEnd(4), ev.CallStart(5, "d", "f", choice=1), ev.CallCut(5, "d", "f", "{"),
    ]  # fmt: skip
    assert [line["kind"] for line in lines(*other)] == ["start", "end"]


def test_half_an_emoji_breaks_no_line() -> None:
    half = "a\ud83d"
    events = [
        ev.TextStart(0), ev.TextDelta(0, half), ev.TextEnd(0), ev.ReasoningStart(1, half), ev.ReasoningDelta(1, half),
        ev.ReasoningEnd(1, {"x": {"signature": half}}), ev.CallStart(2, half, half), ev.CallEnd(2, half, half, half, form="text"),
        ev.Source(3, "https://a.example", half), ev.Data("x", '"\ud83d"'), ev.CallStart(4, "c", half),
        ev.CallCut(4, "c", half, half),
    ]  # fmt: skip
    assert "\ud83d" not in repr(lines(*events))


def test_the_parts_of_a_host_are_known() -> None:
    assert {"text", "thinking", "tool-call", "data"} == HOST


# ── whole bodies ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_puts_neighbouring_text_together() -> None:
    spoken = [ev.TextStart(0), ev.TextDelta(0, "Let me"), ev.TextDelta(0, " look."), ev.TextEnd(0), *REPLY[3:]]
    whole = body(*spoken, ev.Finish("calls"))
    assert whole == body(*REPLY, ev.Finish("calls"))
    assert [line["kind"] for line in msgspec.json.decode(whole)["lines"]] == ["start", "text", "call", "end"]


def test_the_body_of_a_fault_is_its_line() -> None:
    said = msgspec.json.decode(body(*REPLY, ev.Fault("server", "the pier is closed")))
    assert said == {"kind": "error", "fault": "server", "message": "the pier is closed"}


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_of_no_known_kind() -> None:
    assert read(b'{"kind":"error","fault":"shipwreck","message":"aground"}')[-1] == ev.Fault("other", "aground")


def test_steps_are_read_back() -> None:
    encoder = new_encoder("vscode")
    frames = encoder.feed([ev.Start(), ev.Usage(14, 3, step=2), ev.Usage(24, 5), ev.Finish("stop")])
    used = [event for event in read(b"\n".join(data for _, data in frames)) if isinstance(event, ev.Usage)]
    assert used == [ev.Usage(14, 3, step=2), ev.Usage(24, 5)]


def test_a_citation_that_is_none_is_kept_as_unknown() -> None:
    wire = b'{"kind":"start"}\n{"kind":"data","data":"bm90IGpzb24=","mimeType":"application/vnd.vscode.citation+json"}'
    assert isinstance(read(wire)[1], ev.Unknown)


FULL: list[Any] = [
    ev.ReasoningStart(0, "rs_1"), ev.ReasoningDelta(0, "Hm"), ev.ReasoningEnd(0, {"x": {"signature": "s"}}),
    ev.TextStart(1), ev.TextDelta(1, "The tide turns."), ev.Source(2, "https://a.example", "A", 1), ev.TextEnd(1),
    ev.CallStart(3, "c1", "tide"), ev.CallEnd(3, "c1", "tide", "{}"), ev.CallStart(4, "c2", "tide"),
    ev.CallCut(4, "c2", "tide", "{"), ev.FileStart(5, "image/png"), ev.FileDelta(5, "iVBORw0KGgo="), ev.FileEnd(5),
    ev.Data("map", "[1]"), ev.Usage(9, 2, 3, 4, 1),
]  # fmt: skip


def test_no_line_does_harm() -> None:
    """Lines dropped, doubled, swapped and garbled: always lawful, and no call twice."""
    for seed in range(300):
        _spoilt(random.Random(seed))


def _spoilt(dice: random.Random) -> None:
    encoder = new_encoder("vscode")
    wire = [data for _, data in encoder.feed([ev.Start("m1"), *FULL, ev.Finish("calls")])]
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(wire))
        change = dice.choice(["drop", "double", "swap", "cut", "garble", "empty"])
        if change == "drop" and len(wire) > 1:
            del wire[at]
        elif change == "double":
            wire.insert(dice.randrange(len(wire)), wire[at])
        elif change == "swap":
            other = dice.randrange(len(wire))
            wire[at], wire[other] = wire[other], wire[at]
        elif change == "cut":
            wire[at] = wire[at][: dice.randrange(len(wire[at]) + 1)]
        elif change == "garble":
            wire[at] = bytes(dice.choice([byte, 34, 123, 0, 255]) if dice.random() < 0.1 else byte for byte in wire[at])
        else:
            wire[at] = dice.choice(
                [b"{}", b"[]", b"null", b'{"kind":"text"}', b'{"kind":"call","callId":"c1"}', b'{"kind":7}']
            )
    for turn in _turns(read(b"\n".join(line.replace(b"\n", b"") for line in wire))):
        called = [event.id for event in turn if isinstance(event, ev.CallEnd)]
        assert len(called) == len(set(called))


def _turns(events: list[Any]) -> list[list[Any]]:
    turns: list[list[Any]] = []
    for event in events:
        if isinstance(event, ev.Start):
            turns.append([])
        turns[-1].append(event)
    return turns
