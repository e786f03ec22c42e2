"""A turn of many parts takes time in proportion to their number: in every encoder, decoder, whole body and fold.

A provider decides how many texts, calls and sources an answer has. What looks through all of them for each of them
would stall everybody.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import encoding
from penstock._fold import fold_all
from penstock._input_limits import MAX_PARTS
from tests.support.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.framing import Frame

pytestmark = [pytest.mark.finding("SEC-3"), pytest.mark.slow]

WORDS = "a word, or ein Wört "
INPUT = '{"a":1}'


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


def _text(index: int, *inside: ev.AnyEvent, text: str = WORDS) -> Iterator[ev.AnyEvent]:
    yield from (ev.TextStart(index), ev.TextDelta(index, text), *inside, ev.TextEnd(index))


def _thought(index: int, item: str = "") -> Iterator[ev.AnyEvent]:
    yield from (ev.ReasoningStart(index, item=item), ev.ReasoningDelta(index, WORDS), ev.ReasoningEnd(index))


def _call(index: int) -> tuple[ev.AnyEvent, ev.AnyEvent, ev.AnyEvent]:
    name = f"call_{index}"
    return ev.CallStart(index, name, "tool"), ev.CallDelta(index, INPUT), ev.CallEnd(index, name, "tool", INPUT)


def _source(number: int, of: int, span: tuple[int, int] | None = None) -> ev.Source:
    return ev.Source(number, url=f"https://example.com/{number}", title="a page", of=of, span=span)


def _side_by_side(parts: list[Any]) -> list[ev.AnyEvent]:
    """The first event of every part, then the second of every part, and so on."""
    return [event for row in zip(*parts, strict=True) for event in row]


TURNS: dict[str, Callable[[int], list[Any]]] = {
    "texts": lambda count: [event for n in range(count) for event in _text(n)],
    "deltas": lambda count: [ev.TextStart(0), *[ev.TextDelta(0, WORDS)] * count, ev.TextEnd(0)],
    "texts with a source each": lambda count: [event for n in range(count) for event in _text(n, _source(n, n))],
    "sources of a text": lambda count: [*_text(0, *(_source(n, 0) for n in range(count)))],
    "sources of places in a text": lambda count: [
        *_text(0, *(_source(n, 0, (7 * n, 7 * n + 5)) for n in range(count)), text=WORDS * (count // 2))
    ],
    "sources before their words": lambda count: [
        ev.TextStart(0), *(_source(n, 0, (20 * n, 20 * n + 5)) for n in range(count)),
        *[ev.TextDelta(0, WORDS)] * count, ev.TextEnd(0),
    ],
    "sources behind their texts": lambda count: [
        *(event for n in range(count) for event in _text(n)), *(_source(n, n) for n in range(count))
    ],
    "sources of the answer": lambda count: [
        *_text(0), *(ev.Source(n, url=f"https://example.com/{n}") for n in range(count))
    ],
    "thoughts": lambda count: [event for n in range(count) for event in _thought(n)],
    "thoughts of items": lambda count: [event for n in range(count) for event in _thought(n, f"item_{n}")],
    "calls": lambda count: [event for n in range(count) for event in _call(n)],
    "calls at once": lambda count: _side_by_side([_call(n) for n in range(count)]),
    "texts at once": lambda count: _side_by_side([list(_text(n)) for n in range(count)]),
    "thoughts at once": lambda count: _side_by_side([list(_thought(n, f"item_{n}")) for n in range(count)]),
    "thoughts, texts and calls": lambda count: [
        event for n in range(0, 3 * count, 3) for event in (*_thought(n), *_text(n + 1), *_call(n + 2))
    ],
    "texts among open calls": lambda count: [
        *(_call(n)[0] for n in range(count)), *(event for n in range(count, 2 * count) for event in _text(n)),
        *(event for n in range(count) for event in _call(n)[1:]),
    ],
}  # fmt: skip


def _turn(shape: str, count: int) -> list[Any]:
    events = _numbered(TURNS[shape](count))
    return [ev.Start(id="1", model="m"), *events, ev.Finish("calls" if "calls" in shape else "stop")]


def _numbered(events: list[Any]) -> list[Any]:
    """Sources are numbered above as if there were no other parts; in a turn all parts are numbered together."""
    numbers: dict[tuple[bool, int], int] = {}
    made: list[Any] = []
    for event in events:
        is_source = isinstance(event, ev.Source)
        number = numbers.setdefault((is_source, event.index), len(numbers))
        of = {} if not is_source or event.of is None else {"of": numbers[False, event.of]}
        made.append(replace(event, index=number, **of))
    return made


def _frames(protocol: str, shape: str, count: int) -> list[Frame]:
    pipe = encoding(protocol, frames=True)
    return [*pipe.feed(_turn(shape, count)), *pipe.finish()]


# ── what is measured ──────────────────────────────────────────────────────────────────────────────


def _encoder(protocol: str, shape: str) -> Callable[[int], Callable[[], Any]]:
    return lambda count: lambda: _frames(protocol, shape, count)


def _decoder(protocol: str, shape: str) -> Callable[[int], Callable[[], Any]]:
    def make(count: int) -> Callable[[], Any]:
        frames = _frames(protocol, shape, count)
        return lambda: _decoded(protocol, frames)

    return make


def _whole_body(protocol: str, shape: str) -> Callable[[int], Callable[[], Any]]:
    row = protocols.protocol(protocol)
    body: Any = row.body

    def make(count: int) -> Callable[[], Any]:
        frames = _frames(protocol, shape, count)
        return lambda: row.decoder and protocols.decoder(protocol).body(body(frames))

    return make


def _fold(_: str, shape: str) -> Callable[[int], Callable[[], Any]]:
    def make(count: int) -> Callable[[], Any]:
        events = _turn(shape, count)
        return lambda: fold_all(events)

    return make


STAGES = {"encoder": _encoder, "decoder": _decoder, "whole body": _whole_body, "fold": _fold}
SPEAKING = {
    "encoder": [name for name in protocols.MODULES if protocols.protocol(name).encoder is not None],
    "decoder": [name for name in protocols.MODULES if protocols.protocol(name).decoder and protocols.protocol(name).encoder],
    "whole body": [name for name in protocols.MODULES if protocols.protocol(name).body is not None],
    "fold": [""],
}  # fmt: skip
CASES = [(stage, protocol, shape) for stage in STAGES for protocol in SPEAKING[stage] for shape in TURNS]
SAMPLE = sorted(random.Random(14).sample(CASES, 80))


@pytest.mark.parametrize(("stage", "protocol", "shape"), SAMPLE)
def test_turns_of_many_parts(stage: str, protocol: str, shape: str) -> None:
    assert_linear(STAGES[stage](protocol, shape), f"{stage} of {protocol}: {shape}", 100, MAX_PARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("stage", "protocol", "shape"), sorted(set(CASES) - set(SAMPLE)))
def test_all_turns_of_many_parts(stage: str, protocol: str, shape: str) -> None:
    assert_linear(STAGES[stage](protocol, shape), f"{stage} of {protocol}: {shape}", 100, MAX_PARTS)


def _decoded(protocol: str, frames: list[Frame]) -> list[Any]:
    decoder = protocols.decoder(protocol)
    return [*decoder.feed(frames), *decoder.finish()]


# ── what providers say that our encoders do not ───────────────────────────────────────────────────


def _chat(count: int, *left_out: str, **more: Any) -> list[Any]:
    calls = [
        {"index": n, "id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}
        for n in range(count)
    ]
    rows = [{key: value for key, value in call.items() if key not in left_out} for call in calls]
    return [{"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [row]}}]} for row in rows]


def _fragments(count: int, piece: str, **more: Any) -> list[Any]:
    """One call, whose name comes with every piece of its input."""
    call = {"index": 0, "type": "function", "function": {"name": "f", "arguments": piece}, **more}
    return [{"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}] * count


def _items(count: int, done: bool, final: bool, *left_out: str, **more: Any) -> list[Any]:
    items = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "f", "arguments": "{}", **more}
        for n in range(count)
    ]
    items = [{key: value for key, value in item.items() if key not in left_out} for item in items]
    kinds = ["response.output_item.added", *["response.output_item.done"] * done]
    rows: list[Any] = [{"type": "response.created", "response": {"id": "r", "output": []}}]
    places = "output_index" not in left_out
    for kind in kinds:
        rows += [
            {"type": kind, **({"output_index": n} if places else {}), "item": item} for n, item in enumerate(items)
        ]
    final_items = items if final else []
    return [
        *rows,
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": final_items}},
    ]


STREAMS: dict[str, tuple[str, Callable[[int], list[Any]]]] = {
    "calls without an index": ("openai-chat", lambda count: _chat(count, "index")),
    "calls without an id": ("openai-chat", lambda count: _chat(count, "id")),
    "calls of one id": ("openai-chat", lambda count: _chat(count, id="a")),
    "calls of one id without an index": ("openai-chat", lambda count: _chat(count, "index", id="a")),
    "calls at one index": ("openai-chat", lambda count: _chat(count, index=0)),
    "a name with every piece": ("openai-chat", lambda count: _fragments(count, "a")),
    "pieces that look like an end": ("openai-chat", lambda count: _fragments(count, '{"}')),
    "pieces of one id that look like an end": ("openai-chat", lambda count: _fragments(count, '{"}', id="a")),
    "items": ("responses", lambda count: _items(count, True, True)),
    "items that are only added": ("responses", lambda count: _items(count, False, True)),
    "items without an id": ("responses", lambda count: _items(count, True, True, "id")),
    "items without an id or a place": ("responses", lambda count: _items(count, True, True, "id", "output_index")),
    "items of one id": ("responses", lambda count: _items(count, True, True, id="a")),
    "items of one call": ("responses", lambda count: _items(count, True, True, call_id="a")),
    "items of one id that are only added": ("responses", lambda count: _items(count, False, True, id="a")),
    "items of one id and other calls at the end": ("responses", lambda count: [
        *_items(count, False, False, id="a")[:-1],
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [
            {"type": "function_call", "id": "a", "call_id": f"other_{n}", "name": "f", "arguments": "{}"}
            for n in range(count)
        ]}},
    ]),
    "items of another kind at the end": ("responses", lambda count: [
        *_items(count, False, False)[:-1],
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [
            {"type": "custom_tool_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "f", "input": "x"}
            for n in range(count)
        ]}},
    ]),
    "pieces that name no item": ("responses", lambda count: [
        {"type": "response.created", "response": {"id": "r", "output": []}},
        *[{"type": "response.function_call_arguments.delta", "delta": "1"},
          {"type": "response.output_text.delta", "delta": "1"}] * count,
    ]),
    "blocks that stay open": ("anthropic", lambda count: [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        *({"type": "content_block_start", "index": n, "content_block": {"type": "text", "text": "a"}} for n in range(count)),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"},
    ]),
    "parts of one candidate": ("gemini", lambda count: [
        {"candidates": [{"content": {"parts": [{"text": "a"}, {"functionCall": {"name": "f", "args": {}}}] * count},
                         "finishReason": "STOP"}]}
    ]),
    "grounding of one answer": ("gemini", lambda count: [
        {"candidates": [{"content": {"parts": [{"text": WORDS * count}]}, "finishReason": "STOP", "groundingMetadata": {
            "groundingChunks": [{"web": {"uri": f"https://example.com/{n}", "title": "t"}} for n in range(count)],
            "groundingSupports": [
                {"segment": {"startIndex": 7 * n, "endIndex": 7 * n + 5}, "groundingChunkIndices": [n]}
                for n in range(count)
            ],
        }}]}
    ]),
}  # fmt: skip


@pytest.mark.parametrize("shape", STREAMS)
def test_streams_of_providers(shape: str) -> None:
    protocol, rows = STREAMS[shape]

    def make(count: int) -> Callable[[], Any]:
        frames = [(b"", json.dumps(row).encode()) for row in rows(count)]
        return lambda: _decoded(protocol, frames)

    assert_linear(make, f"{protocol}: {shape}", 100, MAX_PARTS)
