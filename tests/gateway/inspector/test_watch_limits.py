"""Limits of live capture: bytes per turn, bytes in all, turns, waiting changes, pages; and its token estimates."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import nullcontext
from typing import Any, cast

import pytest

from penstock._gateway.callers import Refusal
from penstock._inspector import capture_ring, file_inspector, live_feed, turn_list, turn_listeners
from penstock._inspector import live_capture as tapping
from penstock.testing import Reply
from tests.support.client_requests import ask, get
from tests.support.event_feed import Reader, ended, watching
from tests.support.inspector import inspected
from tests.support.paused_upstream import SSE, TEXT


def test_one_turn_takes_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapping, "MAX_TURN_BYTES", 4_000)
    reply = Reply.of("openai-chat", TEXT)
    slow = Reply(reply.chunks, headers=SSE)
    with inspected(slow) as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        tap = gateway.inspector.watch.captures[name]
        assert tap.cut
        assert tap.chunks.size <= 4_000
        around = 1_000  # the body of the attempt, and headers
        assert tap.size <= 4_000 + tapping.TURN_OVERHEAD + len(tap.request) + around
        trace = get(f"{gateway.url}/inspector/turns/{name}").json()
        assert "only the beginning" in trace["lost"]


def test_all_turns_together_take_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TOTAL_BYTES", 40_000)
    with inspected() as gateway, watching(gateway.url):
        names = [ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"] for _ in range(8)]
        watch = gateway.inspector.watch
        assert 0 < watch.size <= 40_000
        assert watch.size == sum(tap.size for tap in watch.captures.values())
        assert names[0] not in watch.captures
        assert get(f"{gateway.url}/inspector/turns/{names[0]}").json()["row"]["held"] is False
        assert get(f"{gateway.url}/inspector/turns/{names[-1]}").json()["frames"]


def test_so_many_turns_are_held_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TURNS", 3)
    with inspected() as gateway, watching(gateway.url):
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(6)]
        assert list(gateway.inspector.watch.captures) == names[-3:]


class Diagnostics(list[Any]):
    """What a trace refers to, and a test can see freed."""


@pytest.mark.parametrize("watched", [False, True])
def test_turns_that_are_dropped_are_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TURNS", 3)
    with inspected() as gateway, watching(gateway.url) if watched else nullcontext():
        watch = gateway.inspector.watch
        first = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, first)
        (trace,) = watch.captures[first]._traces
        trace.diagnostics = held = Diagnostics()
        dropped = weakref.ref(held)
        del trace, held
        gc.disable()
        try:
            for _ in range(3):
                ask(gateway.url, "anthropic", "openai-chat/text")
            assert first not in watch.captures
            assert dropped() is None
        finally:
            gc.enable()


def test_the_oldest_go_together_and_one_that_runs_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TURNS", 64)  # of which a batch is two
    with inspected() as gateway, watching(gateway.url):
        watch = gateway.inspector.watch
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(64)]
        ended(gateway, names[-1])
        running = watch.captures[names[0]]
        monkeypatch.setattr(running, "turn", object())
        newest = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        assert list(watch.captures) == [names[0], *names[4:], newest]
        monkeypatch.undo()


def test_a_turn_for_which_there_is_no_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "MAX_TOTAL_BYTES", 1_000)
    with inspected() as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        row = get(f"{gateway.url}/inspector/turns/{name}").json()
        assert row["row"]["held"] is False
        assert gateway.inspector.watch.size <= 1_000
        assert gateway.inspector.watch.captures[name].attempts == [], "what was sent since takes memory, too"
        with Reader(f"{gateway.url}/inspector/turns/{name}/follow") as reader:
            assert "too much went on at once" in reader.until(lambda: reader.named("trace"))[0]["lost"]


def test_a_slow_listener_misses_turns_and_takes_no_memory() -> None:
    made, ended = turn_listeners.TurnListener(None), cast("Any", object())
    for number in range(turn_listeners.MAX_UNREAD + 50):
        assert made.has_room("") == (number < turn_listeners.MAX_UNREAD)
        made.on_turn(str(number), "")
        made.on_turn(str(number), "", ended)
    assert made.take_changes() == dict.fromkeys(map(str, range(turn_listeners.MAX_UNREAD)), (ended, False))
    assert made.missed == 50, "each is counted once, when it is over"
    assert made.take_changes() == {}
    assert made.has_room("")


def test_the_end_of_a_turn_that_was_shown_is_never_missed() -> None:
    made = turn_listeners.TurnListener(None)
    made.on_turn("shown", "")
    made.take_changes()
    ended = cast("Any", object())
    for number in range(3 * turn_listeners.MAX_UNREAD):
        made.on_turn(str(number), "", ended)
    made.on_turn("shown", "", ended)
    assert made.take_changes()["shown"].row is ended
    for number in range(3 * turn_listeners.MAX_UNREAD):
        made.on_turn(str(number), "", ended)
    made.on_turn("shown", "", ended)  # nothing is held of it any more: it is one of many
    assert "shown" not in made.take_changes()


def test_an_update_is_told_as_such_unless_the_end_is_not_read_yet() -> None:
    made, ended, updated = turn_listeners.TurnListener(None), cast("Any", object()), cast("Any", object())
    made.on_turn("one", "", ended)
    made.on_turn("one", "", updated, is_update=True)
    assert made.take_changes() == {"one": (updated, False)}
    made.on_turn("one", "", updated, is_update=True)
    assert made.take_changes() == {"one": (updated, True)}


def test_what_a_listener_does_not_see_is_neither_told_nor_held() -> None:
    made = turn_listeners.TurnListener("ours")
    assert made.has_room("ours")
    assert not made.has_room("theirs")
    made.on_turn("one", "theirs", cast("Any", object()))
    assert made.take_changes() == {}


@pytest.mark.usefixtures("keeps_nothing")
def test_turns_that_are_only_counted_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_listeners, "MAX_UNREAD", 2)
    monkeypatch.setattr(live_feed, "LIST_INTERVAL", 60.0)
    with inspected() as gateway, watching(gateway.url):
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(5)]
        held = set(gateway.inspector.watch.captures)
        assert 2 <= len(held) <= 4  # the first may have been fetched already
        assert held == set(names[: len(held)])


def test_only_so_many_watch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_list, "MAX_LISTENERS", 1)
    with inspected() as gateway, watching(gateway.url):
        refused = get(f"{gateway.url}/inspector/live")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────


def test_an_estimate_comes_beside_what_was_counted() -> None:
    with inspected(Reply.of("openai-chat", TEXT)) as gateway, watching(gateway.url) as reader:
        services = gateway.inspector.services
        services.estimates._interval = 0.0
        names = [ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"] for _ in range(3)]
        services.estimates.flush()
        row = reader.until(lambda: (found := reader.rows.get(names[0], {})).get("estimate") and found)
        assert row["low"] <= row["estimate"] <= row["high"]
        assert row["input"] == 11
        (model,) = get(f"{gateway.url}/inspector/tokens").json()["models"]
        assert (model["model"], model["samples"]) == ("openai-chat/text", 3)
        assert [point["actual"] for point in model["points"]] == [11, 11, 11]
        assert len({entry["factor"] for entry in model["history"]}) == 3  # it learns
        assert model["factor"] == model["history"][-1]["factor"]


def test_turns_are_estimated_now_and_then() -> None:
    with inspected(Reply.of("openai-chat", TEXT)) as gateway:
        estimates = gateway.inspector.services.estimates
        for _ in range(4):
            ask(gateway.url, "openai-chat", "openai-chat/text")
        estimates.flush()
        assert sum(row.estimate is not None for row in gateway.rows()) == 1


# ── work ──────────────────────────────────────────────────────────────────────────────────────────


def test_long_streams_are_looked_at_one_at_a_time() -> None:
    """And whoever waits too long for that is told so; what is short goes on meanwhile."""

    async def main() -> None:
        work, gate, begun = file_inspector.WorkerSlots(), threading.Event(), threading.Event()

        def long() -> bool:
            begun.set()
            return gate.wait(20)

        first = asyncio.create_task(work.run(long, file_inspector.LARGE_BYTES + 1))
        assert await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(Refusal) as refused:
            await work.run(lambda: None, file_inspector.LARGE_BYTES + 1)
        assert (refused.value.status, refused.value.fault.retry_after) == (503, 5.0)
        assert await work.run(lambda: "short") == "short"
        gate.set()
        assert await first is True
        assert await work.run(lambda: "next", file_inspector.LARGE_BYTES + 1) == "next"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_inspector, "MAX_WAIT", 0.01)
        asyncio.run(main())


def test_turns_that_end_are_measured_a_few_at_a_time() -> None:
    """The bytes that the page shows, and the bound, count those that wait, too."""
    with inspected() as gateway:
        watch = gateway.inspector.watch
        names = [ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"] for _ in range(3)]
        ended(gateway, names[-1])
        assert [tap.id for tap in watch.ended] == names
        assert watch.size == 0
        shown = get(f"{gateway.url}/inspector/keeping").json()["memory"]["bytes"]
        assert watch.ended == []
        assert shown == watch.size == sum(tap.size for tap in watch.captures.values())
        assert shown > 3 * tapping.TURN_OVERHEAD
        more = range(watch.max_ended + 1)
        names = [ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"] for _ in more]
        ended(gateway, names[-1])
        assert watch.ended == []
        assert watch.size == sum(tap.size for tap in watch.captures.values()) > shown


def test_a_large_turn_is_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapping, "MAX_WAITING_BYTES", 10)
    with inspected() as gateway:
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        assert gateway.inspector.watch.ended == []
        assert gateway.inspector.watch.size > 0


def test_a_deleted_turn_that_waited_to_be_measured_leaves_nothing() -> None:
    with inspected() as gateway:
        watch = gateway.inspector.watch
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        (tap,) = watch.ended

        async def clear() -> None:
            watch.clear()

        assert tap.turn_request.request.messages
        gateway.call(clear())
        assert (watch.ended, watch.size, len(watch.captures)) == ([], 0, 0)
        assert not tap.turn_request.request.messages
        assert (tap.request, tap.attempts, tap.chunks_from(0)) == (b"", [], [])
