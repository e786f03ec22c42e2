"""Plays a script of `scripts.toml`, or parts that were just made, as the canonical events of a turn in small deltas."""

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
from penstock._replay.tool_choice import write_example_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.events import AnyEvent

WORD = re.compile(r"\s*\S+|\s+$")
MAX_CHOICES = 8
_INPUT_CHUNK = 12  # characters of a delta of a call's input
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@cache
def scripts() -> dict[str, dict[str, Any]]:
    """Returns all scripts by name."""
    return tomllib.loads(files("penstock._replay").joinpath("scripts.toml").read_text(encoding="utf-8"))


def describe_scripts() -> dict[str, str]:
    """Returns the scripts that a user can choose, with a line about each."""
    return {name: script["about"] for name, script in scripts().items() if not script.get("hidden")}


def play(
    name: str,
    *,
    id: str = "replay",
    model: str = "",
    created: int = 0,
    prompt_tokens: int = 0,
    settings: rq.Settings | None = None,
) -> list[AnyEvent]:
    """Returns the events of a script. `id` is part of the ids of calls.

    Examples:
        >>> [type(event).__name__ for event in play("text")][:3]
        ['Start', 'TextStart', 'TextDelta']
    """
    script = scripts()[name]
    parts = [part for number, row in enumerate(script["parts"]) for part in _read_parts(id, number, row)]
    turn = rq.Turn(id, model or f"replay/{name}", created, parts)
    if "finish" in script:
        turn.finish = ev.Finish(script["finish"])
    if "fault" in script:
        turn.fault = msgspec.convert(script["fault"], ev.Fault, strict=False)
    return _play_turn(turn, prompt_tokens, settings)


def play_parts(
    parts: list[rq.AnyPart], *, id: str, model: str, created: int, prompt_tokens: int, settings: rq.Settings
) -> list[AnyEvent]:
    """Returns the events of a turn of these parts."""
    return _play_turn(rq.Turn(id, model, created, parts), prompt_tokens, settings)


def _play_turn(turn: rq.Turn, prompt_tokens: int, settings: rq.Settings | None) -> list[AnyEvent]:
    turn.finish = turn.finish or ev.Finish("calls" if turn.calls else "stop")
    if settings is not None:
        _apply_settings(turn, settings)
    if turn.fault is None:
        words = sum(len(WORD.findall(_part_text(part))) for part in turn.parts)
        reasoning = sum(len(WORD.findall(part.text)) for part in turn.parts if isinstance(part, rq.Reasoning))
        turn.usage = ev.Usage(prompt_tokens, words, reasoning=reasoning or None)
    events = [delta for event in unfold(turn) for delta in split_deltas(event)]
    return [_add_logprobs(event) for event in events] if settings is not None and settings.logprobs else events


def _read_parts(id: str, number: int, row: dict[str, Any]) -> Iterator[rq.AnyPart]:
    """Yields the part of a row, and the sources of its text."""
    if "text" in row:
        yield rq.Text(row["text"])
        for source in row.get("sources", ()):
            first = row["text"].find(source["cites"])
            span = (first, first + len(source["cites"]))
            yield rq.Source(source["url"], source["title"], number, span, source["cites"])
    elif "reasoning" in row:
        yield rq.Reasoning(row["reasoning"])
    elif "refusal" in row:
        yield rq.Text(row["refusal"], refusal=True)
    elif "file" in row:
        yield rq.File(row["file"], data=row["data"])
    else:
        json = row["input"] if isinstance(row["input"], str) else msgspec.json.encode(row["input"]).decode()
        yield rq.Call(f"call_{id}_{number}", row.get("call") or row["cut"], json, cut="cut" in row)


def split_deltas(event: AnyEvent) -> Iterator[AnyEvent]:
    """Yields text word by word and input a few characters at a time, as a model does."""
    if isinstance(event, ev.TextDelta | ev.ReasoningDelta | ev.RefusalDelta):
        for word in WORD.findall(event.text):
            yield type(event)(event.index, word)
    elif isinstance(event, ev.CallDelta):
        for start in range(0, len(event.json), _INPUT_CHUNK):
            yield ev.CallDelta(event.index, event.json[start : start + _INPUT_CHUNK])
    else:
        yield event


def _part_text(part: rq.AnyPart) -> str:
    return getattr(part, "text", "") or getattr(part, "json", "")


# ── settings of the request ───────────────────────────────────────────────────────────────────────────────────────────


def _apply_settings(turn: rq.Turn, settings: rq.Settings) -> None:
    if settings.format is not None and settings.format.kind != "text" and not turn.calls and turn.fault is None:
        schema = settings.format.schema or _ANSWER
        turn.parts = [part for part in turn.parts if isinstance(part, rq.Reasoning)]
        turn.parts.append(rq.Text(write_example_input(schema, "")))
    if settings.stop:
        _stop_at(turn, settings.stop)
    if settings.max_output:
        _limit_words(turn, settings.max_output)
    if settings.choices and settings.choices > 1:
        _add_choices(turn, min(settings.choices, MAX_CHOICES))


def _stop_at(turn: rq.Turn, sequences: list[str]) -> None:
    """Ends the turn before the first of the stop sequences."""
    for position, part in enumerate(turn.parts):
        if not isinstance(part, rq.Text):
            continue
        found = [(part.text.find(one), one) for one in sequences if one and one in part.text]
        if found:
            end, sequence = min(found)
            turn.parts = [*turn.parts[:position], replace(part, text=part.text[:end])]
            extra = {"anthropic": {"stop_sequence": sequence}}
            turn.finish, turn.fault = ev.Finish("stop", raw="stop_sequence", extra=extra), None
            return


def _limit_words(turn: rq.Turn, limit: int) -> None:
    """Ends the turn after so many words, reasoning and inputs included."""
    for position, part in enumerate(turn.parts):
        words = WORD.findall(_part_text(part))
        if len(words) <= limit:
            limit -= len(words)
            continue
        turn.parts = turn.parts[:position]
        if limit:
            text = "".join(words[:limit])
            cut = {"json": text, "cut": True} if isinstance(part, rq.Call) else {"text": text}
            turn.parts.append(replace(part, **cut))
        turn.finish, turn.fault = ev.Finish("length"), None
        return


def _add_choices(turn: rq.Turn, count: int) -> None:
    """Repeats texts and reasoning for each further choice."""
    repeated = [part for part in turn.parts if isinstance(part, rq.Text | rq.Reasoning)]
    for choice in range(1, count):
        turn.parts = [*turn.parts, *(replace(part, choice=choice) for part in repeated)]
    if turn.finish is not None:
        reason = turn.finish.reason if turn.finish.reason != "calls" else "stop"
        turn.finish = replace(turn.finish, others=(reason,) * (count - 1))


def _add_logprobs(event: AnyEvent) -> AnyEvent:
    if not isinstance(event, ev.TextDelta):
        return event
    token = {"token": event.text, "logprob": 0.0, "bytes": list(event.text.encode())}
    return replace(event, logprobs={"content": [{**token, "top_logprobs": [token]}], "refusal": None})
