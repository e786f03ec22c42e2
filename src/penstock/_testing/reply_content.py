"""Builds the events of an answer from plain Python: texts, tool calls, parts.

The text is divided into words, and the input of a call into short pieces, as a model sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import _protocols as protocols
from penstock import events as ev
from penstock import request as rq
from penstock._bridge import parser
from penstock._fold import fold_all, unfold
from penstock._grammar import Guard
from penstock._replay.scripts import WORD, split_deltas
from penstock._text_runs import expand_runs
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._testing.dialects import Dialect

# A call: `("name", {"argument": 1})`, a mapping with `name`, `arguments` and perhaps `id`, or a `Call`.
CallLike: TypeAlias = tuple[str, Any] | Mapping[str, Any] | rq.Call
# Tokens: a `Usage`, or the numbers of the prompt and of the answer.
UsageLike: TypeAlias = ev.Usage | tuple[int, int]
_PROMPT_TOKENS = 10
_ID = "test"
_STREAMS = ("text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream")


def turn_events(
    parts: Sequence[rq.AnyPart], *, usage: UsageLike | None = None, finish: ev.Reason | None = None, model: str = ""
) -> tuple[ev.AnyEvent, ...]:
    """Returns the events of an answer with these parts. Without `usage`, its words are counted."""
    turn = rq.Turn(_ID, model, None, list(parts))
    turn.finish = ev.Finish(finish or ("calls" if turn.calls else "stop"))
    turn.usage = _read_usage(usage, turn)
    return tuple(delta for event in unfold(turn) for delta in split_deltas(event))


def answer_parts(text: str = "", calls: Sequence[CallLike] = (), *, reasoning: str = "") -> list[rq.AnyPart]:
    """Returns the parts of an answer, in the order in which models write them."""
    parts: list[rq.AnyPart] = []
    if reasoning:
        parts.append(rq.Reasoning(reasoning))
    if text:
        parts.append(rq.Text(text))
    return [*parts, *(_read_call(call, number) for number, call in enumerate(calls, 1))]


def with_model(events: Sequence[ev.AnyEvent], model: str) -> list[ev.AnyEvent]:
    """Returns the events with the model's name in their start, if it has none."""
    first = events[0] if events else None
    if isinstance(first, ev.Start) and not first.model and model:
        return [replace(first, model=model), *events[1:]]
    return list(events)


def decode_answer(dialect: Dialect, data: bytes, content_type: str = "") -> rq.Turn:
    """Returns the answer that bytes of a dialect hold."""
    return fold_all(decode_events(dialect, data, content_type))[-1]


def decode_events(dialect: Dialect, data: bytes, content_type: str = "") -> list[ev.AnyEvent]:
    """Returns the events of an answer. It is a stream if the dialect or the content type says so."""
    decoder, guard = protocols.decoder(dialect.protocol), Guard()
    if dialect.stream or content_type.startswith(_STREAMS):
        parse = parser(dialect.framing or "auto", content_type=content_type)
        decoded = [*decoder.feed(parse.feed([data])), *decoder.feed(parse.finish())]
    else:
        decoded = [*decoder.feed_body(data)]
        decoder.mark_complete()
    return expand_runs([*guard.feed([*decoded, *decoder.finish()]), *guard.finish()])


def _read_call(call: CallLike, number: int) -> rq.Call:
    if isinstance(call, rq.Call):
        return call
    if isinstance(call, tuple):
        call = {"name": call[0], "arguments": call[1]}
    if not call.get("name"):
        raise InputError("a call needs a name: ('get_weather', {'city': 'Oslo'})")
    given: Any = call.get("arguments", {})
    written = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return rq.Call(str(call.get("id") or f"call_{_ID}_{number}"), str(call["name"]), written)


def _read_usage(usage: UsageLike | None, turn: rq.Turn) -> ev.Usage:
    if isinstance(usage, ev.Usage):
        return usage
    if usage is not None:
        return ev.Usage(*usage)
    written = "".join(getattr(part, "text", "") or getattr(part, "json", "") for part in turn.parts)
    return ev.Usage(_PROMPT_TOKENS, len(WORD.findall(written)))
