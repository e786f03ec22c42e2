"""Small streams, written in a line or two, and what they mean: for tests that need a stream of their own.

A stream is cut at every byte before anything is said about it. Payloads are those of `tests.oracles.samples`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._fold import fold_all
from tests.oracles import samples
from tests.support import run_streams as running
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.events import AnyEvent
    from penstock.request import Turn

DONE = b"data: [DONE]\n\n"
delta, fragment, block = samples.chat, samples.fragment, samples.block
Payload = dict[str, Any]


def chat(*payloads: Payload, end: bytes = DONE) -> bytes:
    return samples.events(*payloads, end=end)


def message(*blocks: list[Payload], finish: str = "end_turn") -> bytes:
    return samples.message(*blocks, finish=finish)


def response(*payloads: Payload) -> bytes:
    return samples.events(*payloads, named=True)


def gemini(*payloads: Payload) -> bytes:
    return samples.events(*payloads)


def events(source: str, body: bytes, **options: Any) -> list[AnyEvent]:
    """What a stream means, in every cutting."""
    return running.steady(source, body, options=options)


def turn(source: str, body: bytes, **options: Any) -> Turn:
    """The one turn of a stream."""
    (only,) = fold_all(events(source, body, **options))
    return only


def sent(target: str, said: Sequence[AnyEvent], **options: Any) -> list[Payload]:
    """The payloads that a target is sent, its end mark left out."""
    frames = running.encode(target, said, options)
    return [json.loads(data) for _, data in frames if data != b"[DONE]"]


def translated(source: str, target: str, body: bytes) -> list[Payload]:
    return sent(target, events(source, body))


def of_type(payloads: Iterable[Payload], *types: str) -> list[Payload]:
    return [payload for payload in payloads if payload.get("type") in types]


def tool_deltas(payloads: Iterable[Payload]) -> list[Payload]:
    """The fragments of calls in chat chunks."""
    choices = [choice for payload in payloads for choice in payload.get("choices", ())]
    return [call for choice in choices for call in choice["delta"].get("tool_calls") or ()]


def called(said: Iterable[AnyEvent]) -> list[tuple[str, str, Any]]:
    """The calls that the client must run."""
    ends = [event for event in said if isinstance(event, ev.CallEnd) and event.by == "client"]
    return [(end.id, end.name, end.json if end.form == "text" else json.loads(end.json)) for end in ends]


def finished(protocol: str | None = None) -> list[Case]:
    """Cases of streams that end well."""
    return [case for case in cases(protocol) if case.streamed and isinstance(case.expected()[-1], ev.Finish)]
