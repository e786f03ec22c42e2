"""Live events: changes of the list, one turn while it runs, and no cost while no page is open."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from penstock._inspector import capture_ring
from penstock._inspector.file_inspector import WorkerSlots
from penstock._inspector.live_feed import ClosableStream, LiveFeed
from penstock._inspector.turn_query import TurnQuery
from penstock._store.journal import JournalEntry
from tests.support import process
from tests.support.client_requests import ask, get
from tests.support.event_feed import Reader, ended, watching
from tests.support.inspector import inspected
from tests.support.paused_upstream import going, waiting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.inspector import Inspected


def over(reader: Reader, name: str) -> dict[str, Any]:
    found: dict[str, Any] = reader.until(
        lambda: reader.rows.get(name) if reader.rows.get(name, {}).get("duration") is not None else None
    )
    return found


def in_loop(gateway: Inspected, work: Any) -> Any:
    """Something of the gateway's, done where it lives."""

    async def done() -> Any:
        return work()

    return gateway.call(done())


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_seen_from_its_beginning_to_its_end() -> None:
    with waiting() as (gateway, gate), watching(gateway.url) as reader:
        with going(gateway, gate, reader) as row:
            assert (row["asked"], row["provider"], row["engine"]) == ("openai-chat/text", "openai-chat", "native")
            assert (row["duration"], row["held"]) == (None, True)
        found = over(reader, row["id"])
        assert reader.states(row["id"])[-2:] == ["streaming", "finish"]
        assert (found["input"], found["output"], found["finish"]) == (11, 40, "stop")
        assert found["rate"] is None or found["rate"] < 1000
        assert found["decisions"]
        assert reader.named("turns")[0]["first"] is True


def test_a_turn_that_waits_is_named_as_it_is_when_it_has_ended() -> None:
    with waiting(silent=True) as (gateway, gate), watching(gateway.url) as reader:
        asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
        asking.start()
        (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["provider"]])
        assert (row["state"], row["provider"], row["model"], row["asked"]) == (
            "open", "openai-chat", "text", "openai-chat/text"
        )  # fmt: skip
        assert row["decisions"]
        gate.open.set()
        found = over(reader, row["id"])
        asking.join(20)
        assert (found["provider"], found["model"]) == ("openai-chat", "text")


@pytest.mark.usefixtures("keeps_nothing")
def test_the_list_begins_with_what_there_was() -> None:
    with inspected() as gateway:
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(3)]
        with watching(gateway.url) as reader:
            first = reader.named("turns")[0]
            assert [row["id"] for row in first["rows"]] == names[::-1]
            assert not any(row["held"] for row in first["rows"])


def test_refusals_and_errands_are_in_the_list() -> None:
    from tests.support.client_requests import post

    with inspected() as gateway, watching(gateway.url) as reader:
        assert post(f"{gateway.url}/v1/chat/completions", content=b"{").status_code == 400
        (row,) = reader.until(lambda: list(reader.rows.values()))
        assert (row["state"], row["http"], row["held"]) == ("refused", 400, True)  # its request can be looked at
        body = {"model": "openai-chat/text", "input": ["one"]}
        assert post(f"{gateway.url}/v1/embeddings", json=body).status_code == 200
        reader.until(lambda: [row for row in reader.rows.values() if row["operation"] == "embeddings"])


def test_a_turn_that_ends_after_the_clock_was_set_back_is_in_the_list() -> None:
    """Its row says that it ended before the page was opened."""
    with inspected() as gateway, watching(gateway.url) as reader:
        early = JournalEntry(time=1_000.0, duration=1.0, request_id="early")
        in_loop(gateway, lambda: gateway.inspector.watch.on_journal_row(early))
        reader.until(lambda: "early" in reader.rows)


def test_a_page_that_leaves_before_the_first_event_is_forgotten() -> None:
    with inspected() as gateway:
        watch = gateway.inspector.watch

        async def leave() -> int:
            listener = watch.add_listener(None)
            feed = LiveFeed(watch, listener, TurnQuery(), dict, WorkerSlots(), tuple)
            stream = ClosableStream(feed.stream({"rows": []}), lambda: watch.remove_listener(listener))
            assert len(watch.listeners) == 1
            await stream.aclose()
            return len(watch.listeners)

        assert gateway.call(leave()) == 0


# ── nobody ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("keeps_nothing")
def test_while_nobody_watches_nothing_is_tapped(gateway: Inspected) -> None:
    services, watch = gateway.inspector.services, gateway.inspector.watch
    watch.clear()
    ask(gateway.url, "anthropic", "replay/text")
    assert (len(watch.captures), watch.size) == (0, 0)
    with watching(gateway.url), watching(gateway.url):
        ask(gateway.url, "anthropic", "replay/text")
        assert len(watch.captures) == 1
    left(gateway)
    assert services.estimates.on_estimate is None
    ask(gateway.url, "anthropic", "replay/text")
    assert len(watch.captures) == 1  # what was held stays a while
    in_loop(gateway, watch.clear_unwatched)
    assert (len(watch.captures), watch.size) == (0, 0)


@pytest.mark.usefixtures("keeps_nothing")
def test_a_turn_that_runs_longer_than_anybody_watches_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_ring, "KEEP_SECONDS", 0.05)
    with waiting() as (gateway, gate), ExitStack() as turn:
        watch = gateway.inspector.watch
        with watching(gateway.url) as reader:
            name = turn.enter_context(going(gateway, gate, reader))["id"]
        left(gateway)
        in_loop(gateway, watch.clear_unwatched)
        assert name in watch.captures
        turn.close()

        async def forgotten() -> None:
            async with asyncio.timeout(10):
                while name in watch.captures:  # noqa: ASYNC110 — a timer does it, which tells nobody
                    await asyncio.sleep(0.01)

        gateway.call(forgotten())
        assert "nobody has watched" in get(f"{gateway.url}/inspector/turns/{name}").json()["lost"]


def left(gateway: Inspected) -> None:
    """Wait until the gateway knows that nobody watches."""

    async def known() -> None:
        async with asyncio.timeout(10):
            while gateway.inspector.watch.listeners:  # noqa: ASYNC110 — told by the network, to nobody else
                await asyncio.sleep(0.005)

    gateway.call(known())


def test_a_turn_ends_though_its_watcher_has_gone() -> None:
    with waiting() as (gateway, gate):
        reader = watching(gateway.url)
        with reader, going(gateway, gate, reader):
            reader.leave()
            left(gateway)
        (tap,) = gateway.inspector.watch.captures.values()
        ended(gateway, tap.id)
        assert tap.turn is None
        assert get(f"{gateway.url}/inspector/turns/{tap.id}").json()["events"][-1]["type"] == "finish"


# ── one turn as it goes on ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("consumer", ["", "vscode"])
def test_a_turn_is_followed_to_its_end(consumer: str) -> None:
    with waiting() as (gateway, gate), watching(gateway.url) as reader:
        with going(gateway, gate, reader) as row, Reader(_at(gateway, row, f"/follow?as={consumer}")) as follower:
            (first,) = follower.named("trace")
            assert (first["done"], first["row"]["state"]) == (False, "streaming")
            assert "word1" in str(first["events"])
            assert "word20" not in str(first["events"])
            gate.open.set()
            follower.until(lambda: follower.over)
        more = follower.named("more")
        assert more[-1]["done"] is True
        whole = get(_at(gateway, row, f"?as={consumer}")).json()
        for kind in ("frames", "events", "outputs", "marks"):
            assert [*first[kind], *(one for part in more for one in part[kind])] == whole[kind]


def _at(gateway: Inspected, row: dict[str, Any], rest: str = "") -> str:
    return f"{gateway.url}/inspector/turns/{row['id']}{rest}"


def test_a_turn_that_is_over_is_followed_too(gateway: Inspected) -> None:
    with watching(gateway.url):
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        with Reader(f"{gateway.url}/inspector/turns/{name}/follow") as follower:
            follower.until(lambda: follower.over)
    assert [said for said, _ in follower.events] == ["trace"]
    assert follower.events[0][1]["done"] is True


def test_who_leaves_is_forgotten() -> None:
    with (
        waiting() as (gateway, gate),
        watching(gateway.url) as reader,
        going(gateway, gate, reader) as row,
    ):
        tap = gateway.inspector.watch.captures[row["id"]]
        with Reader(_at(gateway, row, "/follow")):
            assert len(tap.followers) == 1

        async def gone() -> None:
            async with asyncio.timeout(10):
                while tap.followers:  # noqa: ASYNC110 — as above
                    await asyncio.sleep(0.005)

        gateway.call(gone())


# ── the end ───────────────────────────────────────────────────────────────────────────────────────


def test_when_the_gateway_stops_nobody_is_kept_waiting(gateway: Inspected) -> None:
    with inspected() as other, watching(other.url) as reader:
        in_loop(other, other.inspector.stopping)
        reader.until(lambda: reader.over)
        assert not other.inspector.watch.listeners
    assert gateway.inspector.watch.closed is False


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_server_that_is_stopped_does_not_wait_for_those_who_watch(tmp_path: Path) -> None:
    """Streams are given half a minute to end; a page that is open for hours is none."""
    with process.gateway(tmp_path, "[serve]\ndrain = 300\n") as server, watching(server.base, server.session) as reader:
        server.stop()  # within the time that this gives it
        reader.until(lambda: reader.over)
