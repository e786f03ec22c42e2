"""A script (`scripts.toml` says what is said) as the canonical events of a turn, cut into small deltas.

What an agent says is not in a script: `told` makes the same of parts that were made up a moment ago.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import request as rq
from penstock.fold import unfold
from penstock.replay.fitting import WORD, fit, sure, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.events import AnyEvent, Reason


@cache
def scripts() -> dict[str, dict[str, Any]]:
    """All scripts by name."""
    return tomllib.loads(files("penstock.replay").joinpath("scripts.toml").read_text(encoding="utf-8"))


def offered() -> dict[str, str]:
    """The scripts a person can choose, with a line about each."""
    return {name: script["about"] for name, script in scripts().items() if not script.get("hidden")}


def play(
    name: str, *, id: str = "replay", model: str = "", created: int = 0, asked: int = 0,
    settings: rq.Settings | None = None,
) -> list[AnyEvent]:  # fmt: skip
    """The events of a script. `id` makes the ids of calls; `asked` is the size of the prompt in tokens."""
    script = scripts()[name]
    parts = [made for number, part in enumerate(script["parts"]) for made in _made(id, number, part)]
    turn = rq.Turn(id, model or f"replay/{name}", created, parts)
    turn.finish = ev.Finish(script.get("finish") or _reason(turn))
    if "fault" in script:
        turn.fault = msgspec.convert(script["fault"], ev.Fault, strict=False)
    return _played(turn, asked, settings)


def told(
    parts: list[rq.AnyPart], *, id: str, model: str, created: int = 0, asked: int = 0,
    settings: rq.Settings | None = None,
) -> list[AnyEvent]:  # fmt: skip
    """The events of a turn of these parts."""
    turn = rq.Turn(id, model, created, parts)
    turn.finish = ev.Finish(_reason(turn))
    return _played(turn, asked, settings)


def _played(turn: rq.Turn, asked: int, settings: rq.Settings | None) -> list[AnyEvent]:
    if settings is not None:
        turn = fit(turn, settings)
    if turn.fault is None:
        every, thought = words(turn)
        turn.usage = ev.Usage(asked, every, reasoning=thought or None)
    made = [small for event in unfold(turn) for small in _cut(event)]
    return [sure(event) for event in made] if settings is not None and settings.logprobs else made


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
