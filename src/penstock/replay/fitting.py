"""A turn as it was asked for: as JSON, no longer than allowed, up to a stop, so many times, with the odds of each word.

A packaged stream has no tokens: its words are counted in their place. It was never going to say anything else, so the
probability of each is one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock.replay.inputs import filled

if TYPE_CHECKING:
    from penstock.events import AnyEvent

WORD = re.compile(r"\s*\S+|\s+$")
MOST = 8  # choices
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def fit(turn: rq.Turn, asked: rq.Settings) -> rq.Turn:
    """The turn, within what was asked."""
    if asked.format is not None and asked.format.kind != "text" and not turn.calls and turn.fault is None:
        schema = asked.format.schema or _ANSWER
        turn.parts = [part for part in turn.parts if isinstance(part, rq.Reasoning)]
        turn.parts.append(rq.Text(filled(schema, "")))
    if asked.stop:
        _stop(turn, asked.stop)
    if asked.max_output:
        _limit(turn, asked.max_output)
    if asked.choices and asked.choices > 1 and turn.finish is not None:
        _repeat(turn, min(asked.choices, MOST))
    return turn


def words(turn: rq.Turn) -> tuple[int, int]:
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


def sure(event: AnyEvent) -> AnyEvent:
    """A word with its odds."""
    if not isinstance(event, ev.TextDelta):
        return event
    token = {"token": event.text, "logprob": 0.0, "bytes": list(event.text.encode())}
    return replace(event, logprobs={"content": [{**token, "top_logprobs": [token]}], "refusal": None})
