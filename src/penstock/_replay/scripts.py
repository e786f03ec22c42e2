"""A script (`scripts.toml` says what is said) as the canonical events of a turn, cut into small deltas.

What an agent says is not in a script: `told` makes the same of parts that were made up a moment ago.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock._fold import unfold
from penstock._replay.tools import write_example_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.events import AnyEvent, Reason


@cache
def scripts() -> dict[str, dict[str, Any]]:
    """All scripts by name."""
    return tomllib.loads(files("penstock._replay").joinpath("scripts.toml").read_text(encoding="utf-8"))


def describe_scripts() -> dict[str, str]:
    """The scripts a person can choose, with a line about each."""
    return {name: script["about"] for name, script in scripts().items() if not script.get("hidden")}


def play(
    name: str,
    *,
    id: str = "replay",
    model: str = "",
    created: int = 0,
    asked: int = 0,
    settings: rq.Settings | None = None,
) -> list[AnyEvent]:
    """The events of a script. `id` makes the ids of calls; `asked` is the size of the prompt in tokens."""
    script = scripts()[name]
    parts = [made for number, part in enumerate(script["parts"]) for made in _made(id, number, part)]
    turn = rq.Turn(id, model or f"replay/{name}", created, parts)
    turn.finish = ev.Finish(script.get("finish") or _reason(turn))
    if "fault" in script:
        turn.fault = msgspec.convert(script["fault"], ev.Fault, strict=False)
    return _played(turn, asked, settings)


def play_parts(
    parts: list[rq.AnyPart],
    *,
    id: str,
    model: str,
    created: int = 0,
    asked: int = 0,
    settings: rq.Settings | None = None,
) -> list[AnyEvent]:
    """The events of a turn of these parts."""
    turn = rq.Turn(id, model, created, parts)
    turn.finish = ev.Finish(_reason(turn))
    return _played(turn, asked, settings)


def _played(turn: rq.Turn, asked: int, settings: rq.Settings | None) -> list[AnyEvent]:
    if settings is not None:
        turn = apply_settings(turn, settings)
    if turn.fault is None:
        every, thought = count_words(turn)
        turn.usage = ev.Usage(asked, every, reasoning=thought or None)
    made = [small for event in unfold(turn) for small in _cut(event)]
    return [add_logprobs(event) for event in made] if settings is not None and settings.logprobs else made


def _reason(turn: rq.Turn) -> Reason:
    return "calls" if turn.calls else "stop"


def _made(id: str, number: int, part: dict[str, Any]) -> Iterator[rq.AnyPart]:
    if "text" in part:
        yield rq.Text(part["text"])
        for source in part.get("sources", ()):
            first = part["text"].find(source["cites"])
            yield rq.Source(
                source["url"], source["title"], number, (first, first + len(source["cites"])), source["cites"]
            )
    elif "reasoning" in part:
        yield rq.Reasoning(part["reasoning"])
    elif "refusal" in part:
        yield rq.Text(part["refusal"], refusal=True)
    elif "file" in part:
        yield rq.File(part["file"], data=part["data"])
    else:
        given = part["input"]
        json = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        yield rq.Call(f"call_{id}_{number}", part.get("call") or part["cut"], json, cut="cut" in part)


def _cut(event: AnyEvent) -> Iterator[AnyEvent]:
    """Text a word at a time, input a few characters at a time, as a model would."""
    if isinstance(event, ev.TextDelta | ev.ReasoningDelta | ev.RefusalDelta):
        for word in WORD.findall(event.text):
            yield type(event)(event.index, word)
    elif isinstance(event, ev.CallDelta):
        for place in range(0, len(event.json), 12):
            yield ev.CallDelta(event.index, event.json[place : place + 12])
    else:
        yield event


WORD = re.compile(r"\s*\S+|\s+$")
MAX_CHOICES = 8  # choices
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def apply_settings(turn: rq.Turn, asked: rq.Settings) -> rq.Turn:
    """The turn, within what was asked."""
    if asked.format is not None and asked.format.kind != "text" and not turn.calls and turn.fault is None:
        schema = asked.format.schema or _ANSWER
        turn.parts = [part for part in turn.parts if isinstance(part, rq.Reasoning)]
        turn.parts.append(rq.Text(write_example_input(schema, "")))
    if asked.stop:
        _stop(turn, asked.stop)
    if asked.max_output:
        _limit(turn, asked.max_output)
    if asked.choices and asked.choices > 1 and turn.finish is not None:
        _repeat(turn, min(asked.choices, MAX_CHOICES))
    return turn


def count_words(turn: rq.Turn) -> tuple[int, int]:
    """How many there are in all, and how many of them were thought."""
    every = sum(len(WORD.findall(_said(part))) for part in turn.parts)
    return every, sum(len(WORD.findall(part.text)) for part in turn.parts if isinstance(part, rq.Reasoning))


def _said(part: rq.AnyPart) -> str:
    return getattr(part, "text", "") or getattr(part, "json", "")


def _stop(turn: rq.Turn, marks: list[str]) -> None:
    """Nothing is said from the first of these on."""
    for place, part in enumerate(turn.parts):
        if not isinstance(part, rq.Text):
            continue
        found = [(part.text.find(mark), mark) for mark in marks if mark and mark in part.text]
        if found:
            at, mark = min(found)
            turn.parts = [*turn.parts[:place], replace(part, text=part.text[:at])]
            own = {"anthropic": {"stop_sequence": mark}}
            turn.finish, turn.fault = ev.Finish("stop", raw="stop_sequence", extra=own), None
            return


def _limit(turn: rq.Turn, most: int) -> None:
    """No more words than this, thoughts and input included."""
    for place, part in enumerate(turn.parts):
        found = WORD.findall(_said(part))
        if len(found) <= most:
            most -= len(found)
            continue
        kept = _shortened(part, "".join(found[:most])) if most else []
        turn.parts = [*turn.parts[:place], *kept]
        turn.finish, turn.fault = ev.Finish("length"), None
        return


def _shortened(part: Any, said: str) -> list[rq.AnyPart]:
    return [replace(part, json=said, cut=True) if isinstance(part, rq.Call) else replace(part, text=said)]


def _repeat(turn: rq.Turn, times: int) -> None:
    once = [part for part in turn.parts if isinstance(part, rq.Text | rq.Reasoning)]
    for choice in range(1, times):
        turn.parts = [*turn.parts, *(replace(part, choice=choice) for part in once)]
    if turn.finish is not None:
        reason = turn.finish.reason if turn.finish.reason != "calls" else "stop"
        turn.finish = replace(turn.finish, others=(reason,) * (times - 1))


def add_logprobs(event: AnyEvent) -> AnyEvent:
    """A word with its odds."""
    if not isinstance(event, ev.TextDelta):
        return event
    token = {"token": event.text, "logprob": 0.0, "bytes": list(event.text.encode())}
    return replace(event, logprobs={"content": [{**token, "top_logprobs": [token]}], "refusal": None})
