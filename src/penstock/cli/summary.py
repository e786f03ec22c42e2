"""What a stream came to: its turns, parts, calls, usage, end, findings. For people as lines, for programs as an object.

Leans on `fold`. The object is made first; the lines are drawn from it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.cli.digest import quoted
from penstock.cli.ink import cut, plain
from penstock.fold import fold
from penstock.request import Call, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.cli.ink import Line
    from penstock.diagnostics import Diagnostic
    from penstock.request import AnyPart, Turn

Object = dict[str, Any]
FEW, LONG = 6, 300  # sources listed, columns for one text


def summary(events: Iterable[Any], diagnostics: Iterable[Diagnostic]) -> Object:
    """The whole stream as one plain object."""
    turns = fold(events)
    return {
        "turns": [_turn(turn) for turn in turns],
        "unknown": sum(len(turn.unknown) for turn in turns),
        "diagnostics": [msgspec.to_builtins(row) for row in diagnostics],
    }


def _turn(turn: Turn) -> Object:
    calls = [part for part in turn.parts if isinstance(part, Call)]
    known: Object = {
        "id": turn.id, "model": turn.model, "parts": dict(Counter(map(_kind, turn.parts))), "text": turn.text,
        "reasoning": turn.reasoning, "refusal": turn.refusal, "calls": [_call(call) for call in calls],
        "sources": list(filter(None, [row.url or row.title or row.filename or row.quote for row in turn.sources])),
    }  # fmt: skip
    for name in ("usage", "finish", "fault"):
        value = getattr(turn, name)
        known[name] = value and {
            key: item for key, item in msgspec.to_builtins(value).items() if key not in {"type", "extra"}
        }
    return {key: value for key, value in known.items() if value}


def _kind(part: AnyPart) -> str:
    if isinstance(part, Text) and part.refusal:
        return "refusal"
    return str(part.__struct_config__.tag)


def _call(call: Call) -> Object:
    return {"id": call.id, "name": call.name, "json": call.json, "by": call.by, "cut": call.cut}


def lines(found: Object) -> Iterator[tuple[str, Line]]:
    """The summary as labelled lines."""
    turns: list[Object] = found["turns"]
    for number, turn in enumerate(turns, 1):
        label = f"turn {number}" if len(turns) > 1 else "turn"
        yield label, [(plain(" · ".join(filter(None, (turn.get("id"), turn.get("model"))))) or "(no id)", "bold")]
        yield from _turn_lines(turn)
    yield "unknown", [(str(found["unknown"]) if found["unknown"] else "none", "red" if found["unknown"] else "dim")]
    for place, row in enumerate(found["diagnostics"]):
        times = f" ({row['count']} times)" if row["count"] > 1 else ""
        yield "findings" if not place else "", [(row["code"], "yellow"), (f" {plain(row['message'])}{times}", "")]
    if not found["diagnostics"]:
        yield "findings", [("none", "dim")]


def _turn_lines(turn: Object) -> Iterator[tuple[str, Line]]:
    if turn.get("parts"):
        yield "parts", [(", ".join(f"{count} {kind}" for kind, count in turn["parts"].items()), "")]
    for name, style in (("reasoning", "magenta"), ("text", "green"), ("refusal", "red")):
        if turn.get(name):
            yield name, [(quoted(turn[name], LONG), style), (f" {len(turn[name]):,} characters", "dim")]
    for place, call in enumerate(turn.get("calls", ())):
        yield "calls" if not place else "", _call_line(call)
    if turn.get("sources"):
        shown = turn["sources"][:FEW]
        more = f" and {len(turn['sources']) - FEW} more" if len(turn["sources"]) > FEW else ""
        yield "sources", [(plain(", ".join(shown)), "blue"), (more, "dim")]
    if turn.get("usage"):
        yield "usage", _usage_line(turn["usage"])
    yield _end_line(turn)


def _call_line(call: Object) -> Line:
    given = cut(plain(call["json"]), LONG)
    line: Line = [(plain(call["name"]), "yellow"), (f" {given}  ", ""), (plain(call["id"]), "dim")]
    if call["cut"]:
        line.append((" cut off, not callable", "red"))
    if call["by"] == "provider":
        line.append((" run by the provider", "dim"))
    return line


def _usage_line(usage: Object) -> Line:
    line: Line = []
    for name, label in (("input", "in"), ("cached", "cached"), ("written", "written"), ("output", "out"),
                        ("reasoning", "reasoning")):  # fmt: skip
        if usage.get(name) or (usage.get(name) == 0 and name in {"input", "output"}):
            line += [(f"{usage[name]:,} ", ""), (f"{label}  ", "dim")]
    return line


def _end_line(turn: Object) -> tuple[str, Line]:
    if turn.get("fault"):
        fault = turn["fault"]
        return "fault", [(fault["kind"], "bold red"), (f" {plain(fault['message'])}", "")]
    finish = turn.get("finish", {"reason": "none"})
    raw = finish.get("raw", "")
    return "finish", [
        (finish["reason"], "bold"),
        (f" ({plain(raw)})" if raw not in {"", finish["reason"]} else "", "dim"),
    ]
