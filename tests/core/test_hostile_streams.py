"""Spoilt streams: never an exception, always lawful, no call twice, none with half an input, no success without an end.

Whatever comes of them, every encoder takes it, and no call becomes callable on the way that was not before.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import events as ev
from penstock._lenient_json import is_json, parse_lenient
from penstock.errors import InputError
from tests.support import broken_frames as hostility
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases
from tests.support.stream_laws import READABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from tests.support.run_streams import Run

SOURCES = [name for name in running.sources() if cases(name)]
STREAMED = [case for case in cases() if case.streamed]
sources = st.sampled_from(SOURCES)
numbers = st.integers(0, 10**4)
LONGEST = 60  # frames of a stream of which every pair is tried


def tried(examples: int) -> Any:
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)


@cache
def streams(source: str) -> list[list[Frame]]:
    """The frames of a protocol's golden cases."""
    return [case.frames for case in cases(source) if case.streamed]


def read(source: str, frames: Sequence[Frame]) -> Run:
    """Lawful, or an exception; and what must hold of calls and the end whatever the input was."""
    run = running.run(source, [frames])
    called: set[tuple[int, str]] = set()
    owed: set[tuple[int, str]] = set()  # calls of the client that nobody has answered yet
    choices: dict[int, int] = {}
    for event in run.events:
        if isinstance(event, ev.Start):
            called, owed, choices = set(), set(), {}
        elif isinstance(event, ev.Step):  # ids are unique within a step, and while an answer is owed
            called = set(owed)
        elif isinstance(event, ev.Result) and not event.partial:
            owed.discard((0, event.call))
        elif isinstance(event, ev.CallStart):
            choices[event.index] = event.choice
        elif isinstance(event, ev.CallEnd):
            key = choices[event.index], event.id
            assert key not in called
            called.add(key)
            owed |= {key} if event.by == "client" else set()
            assert event.name
            assert event.form == "text" or is_json(event.json)
    assert isinstance(run.events[-1], ev.Finish | ev.Fault)
    return run


def sent_whole(events: Sequence[AnyEvent]) -> Counter[str]:
    """Calls that were cut though a whole input had been streamed, with more behind it: it cannot be taken back."""
    cut = [event for event in events if isinstance(event, ev.CallCut) and event.by == "client"]
    return Counter(event.name for event in cut if _begins_whole(event.json))


def _begins_whole(text: str) -> bool:
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return False
    return True


def survive(source: str, frames: Sequence[Frame]) -> None:
    """Whatever is read, every target takes it; read again it is lawful, and nothing is callable that was not."""
    run = read(source, frames)
    allowed = running.callable_calls(run.events) + sent_whole(run.events)
    for target in running.targets():
        written = running.encode(target, run.events)
        if target in READABLE:
            assert running.callable_calls(read(target, written).events) <= allowed, target


def check_spoilt_frames(source: str, data: st.DataObject, orders: list[hostility.Order]) -> None:
    survive(source, hostility.spoil(data.draw(st.sampled_from(streams(source))), orders))


@tried(150)
@given(sources, st.data(), hostility.ORDERS)
def test_spoilt_frames(source: str, data: st.DataObject, orders: list[hostility.Order]) -> None:
    check_spoilt_frames(source, data, orders)


@pytest.mark.nightly
@pytest.mark.parametrize("source", SOURCES)
@tried(600)
@given(st.data(), hostility.ORDERS)
def test_spoilt_frames_at_length(source: str, data: st.DataObject, orders: list[hostility.Order]) -> None:
    check_spoilt_frames(source, data, orders)


@pytest.mark.parametrize("way", ["drop", "double", "swap"])
def test_frames_dropped_doubled_or_swapped(way: str) -> None:
    check_every_pair(way, 40)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["double", "swap"])
def test_every_frame_doubled_or_swapped(way: str) -> None:
    check_every_pair(way, LONGEST * LONGEST)


def check_every_pair(way: str, most: int) -> None:
    """So many pairs of places of a stream, or all there are."""
    for case in STREAMED:
        count = len(case.frames) if len(case.frames) <= LONGEST else 0
        pairs = [(first, second) for first in range(count) for second in (range(count) if way != "drop" else (0,))]
        for first, second in pairs if len(pairs) <= most else random.Random(case.id).sample(pairs, most):
            read(case.protocol, hostility.spoil(case.frames, [(way, first, second)]))


@tried(150)
@given(sources, st.data(), numbers, numbers, hostility.ORDERS | st.just([]))
def test_spliced_streams(source: str, data: st.DataObject, a: int, b: int, orders: list[hostility.Order]) -> None:
    one, other = data.draw(st.sampled_from(streams(source))), data.draw(st.sampled_from(streams(source)))
    survive(source, hostility.spoil(hostility.splice(one, other, a, b), orders))


@tried(200)
@given(st.sampled_from(STREAMED), st.lists(st.tuples(numbers, st.binary(max_size=6)), max_size=4))
def test_spoilt_bytes(case: Case, spots: list[tuple[int, bytes]]) -> None:
    body = case.body
    for place, garbage in spots:
        at = place % (len(body) + 1)
        body = body[:at] + garbage + body[at + len(garbage) // 2 :]
    try:
        frames = running.frames_of(body, case.framing)
    except InputError:
        return  # a framing may refuse bytes, with a word; what it may not is to let them through
    read(case.protocol, frames)


@over(STREAMED)
def test_the_frames_of_other_protocols_are_garbage_too(case: Case) -> None:
    for source in random.Random(case.id).sample(SOURCES, 3):
        read(source, case.frames)


@tried(200)
@given(st.sampled_from([case for case in cases() if not case.streamed]), hostility.ORDERS)
def test_spoilt_bodies(case: Case, orders: list[hostility.Order]) -> None:
    """Whole answers and error bodies, spoilt as well."""
    frames = hostility.spoil([(b"", case.body)], orders)
    running.decode_body(case.protocol, frames[0][1] if frames else b"")


def test_half_a_character_costs_no_payload() -> None:
    """Half of a surrogate pair in any string of a payload: only that string is changed, and nothing is left out."""
    seen, lost = set[tuple[str, ...]](), list[tuple[str, ...]]()
    for case in cases():
        frames = case.frames if case.streamed else [(b"", case.body)]
        for place, (name, data) in enumerate(frames):
            value = parse_lenient(data)
            for path in _strings(value):
                keys = (case.protocol, *("#" if isinstance(step, int) else step for step in path))
                if keys in seen:
                    continue
                seen.add(keys)
                halved = json.dumps(_appended(value, path, "\ud83d")).encode()
                decoder = penstock.decoder(case.protocol, **case.options)
                if case.streamed:
                    decoder.feed([*frames[:place], (name, halved), *frames[place + 1 :]])
                    decoder.finish()
                else:
                    decoder.body(halved)
                if any("to its end" in one.message for one in decoder.diagnostics):
                    lost.append(keys)
    assert lost == []


def _strings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, str) and path:
        yield path
    elif isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(child, (*path, key))


def _appended(value: Any, path: tuple[str | int, ...], more: str) -> Any:
    """A copy of a JSON value with more at the end of one of its strings."""
    if not path:
        return value + more
    made = value.copy()
    made[path[0]] = _appended(value[path[0]], path[1:], more)
    return made


ENDED = [case for case in cases() if case.streamed and isinstance(end := case.expected()[-1], ev.Finish) and end.raw]


@over(ENDED)
def test_without_its_end_a_stream_is_no_success(case: Case) -> None:
    """Cut off before the frame that gives the finish reason, and at every frame before that."""
    frames = case.frames
    finishes = [event for event in case.expected() if isinstance(event, ev.Finish)]
    word = finishes[0].raw.encode()
    first = next((place for place, (_, data) in enumerate(frames) if b'"%b"' % word in data), len(frames) - 1)
    for end in range(first + 1):
        assert isinstance(running.run(case.source, [frames[:end]], case.options).events[-1], ev.Fault)


@over(STREAMED)
def test_numbers_of_any_size(case: Case) -> None:
    """Nothing is counted up to a number that the stream gives: it would take memory or time without end."""
    survive(case.protocol, [(name, hostility.renumber(data, 10**12)) for name, data in case.frames])
    read(case.protocol, [(name, hostility.renumber(data, -(10**12))) for name, data in case.frames])
