"""Watching: the list as it changes, one turn as it goes on, bounds that hold, and nothing at all while nobody looks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import pytest

from penstock import events as ev
from penstock.inspector import tap as tapping
from penstock.inspector import watch as watches
from penstock.testing import Reply
from tests.gateway.asking import ask, get
from tests.inspector.conftest import inspected
from tests.inspector.watching import Reader, ended, watching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.inspector.conftest import Inspected

SSE = {"content-type": "text/event-stream"}
TEXT: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, f"word{n} ") for n in range(40)), ev.TextEnd(0),
    ev.Usage(input=11, output=40), ev.Finish("stop"),
]  # fmt: skip


class Gate:
    """An upstream that says its first words, and the rest when it is told to."""

    def __init__(self) -> None:
        data = b"".join(Reply.of("openai-chat", TEXT).chunks)
        cut = data.rindex(b"\n\n", 0, data.index(b"word20")) + 2
        self.open = gate = threading.Event()

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(data[:cut])
                gate.wait(20)
                self.wfile.write(data[cut:])

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def waiting() -> Iterator[tuple[Inspected, Gate]]:
    """A gateway before a gate."""
    with Gate() as gate, inspected(at=gate.url) as running:
        yield running, gate


@contextmanager
def going(gateway: Inspected, gate: Gate, reader: Reader) -> Iterator[dict[str, Any]]:
    """A turn that goes on, as a row; it is over when this is left."""
    asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
    asking.start()
    (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["state"] == "streaming"])
    try:
        yield row
    finally:
        gate.open.set()
        asking.join(20)
    assert not asking.is_alive()


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


@pytest.mark.row("G3")
def test_a_turn_is_seen_from_its_beginning_to_its_end() -> None:
    with waiting() as (gateway, gate), watching(gateway.url) as reader:
        with going(gateway, gate, reader) as row:
            assert (row["asked"], row["provider"], row["engine"]) == ("openai-chat/text", "openai-chat", "native")
            assert (row["duration"], row["held"]) == (None, True)
        found = over(reader, row["id"])
        assert reader.states(row["id"])[-2:] == ["streaming", "finish"]
        assert (found["input"], found["output"], found["finish"]) == (11, 40, "stop")
        assert found["rate"] > 0
        assert found["decisions"]
        assert reader.named("turns")[0]["first"] is True


@pytest.mark.row("G3")
def test_the_list_begins_with_what_there_was() -> None:
    with inspected() as gateway:
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(3)]
        with watching(gateway.url) as reader:
            first = reader.named("turns")[0]
            assert [row["id"] for row in first["rows"]] == names[::-1]
            assert not any(row["held"] for row in first["rows"])


def test_refusals_and_errands_are_in_the_list() -> None:
    from tests.gateway.asking import post

    with inspected() as gateway, watching(gateway.url) as reader:
        assert post(f"{gateway.url}/v1/chat/completions", content=b"{").status_code == 400
        (row,) = reader.until(lambda: list(reader.rows.values()))
        assert (row["state"], row["http"], row["held"]) == ("refused", 400, False)
        body = {"model": "openai-chat/text", "input": ["one"]}
        assert post(f"{gateway.url}/v1/embeddings", json=body).status_code == 200
        reader.until(lambda: [row for row in reader.rows.values() if row["operation"] == "embeddings"])


# ── nobody ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("G3")
def test_while_nobody_watches_nothing_is_tapped(gateway: Inspected) -> None:
    services, watch = gateway.inspector.services, gateway.inspector.watch
    assert services.watch is None
    ask(gateway.url, "anthropic", "replay/text")
    assert (len(watch.taps), watch.size) == (0, 0)
    with watching(gateway.url), watching(gateway.url):
        assert services.watch is watch
        ask(gateway.url, "anthropic", "replay/text")
        assert len(watch.taps) == 1
    left(gateway)
    assert services.estimates.told is None
    ask(gateway.url, "anthropic", "replay/text")
    assert len(watch.taps) == 1  # what was held stays a while
    in_loop(gateway, watch.clear)
    assert (len(watch.taps), watch.size) == (0, 0)


def left(gateway: Inspected) -> None:
    """Wait until the gateway knows that nobody watches."""

    async def known() -> None:
        async with asyncio.timeout(10):
            while gateway.inspector.services.watch is not None:  # noqa: ASYNC110 — told by the network, to nobody else
                await asyncio.sleep(0.005)

    gateway.call(known())


def test_a_turn_ends_though_its_watcher_has_gone() -> None:
    with waiting() as (gateway, gate):
        reader = watching(gateway.url)
        with reader, going(gateway, gate, reader):
            reader.leave()
            left(gateway)
        (tap,) = gateway.inspector.watch.taps.values()
        ended(gateway, tap.id)
        assert tap.turn is None
        assert get(f"{gateway.url}/inspector/turns/{tap.id}").json()["events"][-1]["type"] == "finish"


# ── one turn as it goes on ────────────────────────────────────────────────────────────────────────


@pytest.mark.row("G3")
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
        tap = gateway.inspector.watch.taps[row["id"]]
        with Reader(_at(gateway, row, "/follow")):
            assert len(tap.followers) == 1

        async def gone() -> None:
            async with asyncio.timeout(10):
                while tap.followers:  # noqa: ASYNC110 — as above
                    await asyncio.sleep(0.005)

        gateway.call(gone())


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("G3")
def test_one_turn_takes_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapping, "MOST", 4_000)
    reply = Reply.of("openai-chat", TEXT)
    slow = Reply(reply.chunks, headers=SSE)
    with inspected(slow) as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        tap = gateway.inspector.watch.taps[name]
        assert tap.cut
        assert tap.size <= 4_000
        trace = get(f"{gateway.url}/inspector/turns/{name}").json()
        assert "only the beginning" in trace["lost"]


@pytest.mark.row("G3")
def test_all_turns_together_take_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "TOTAL", 20_000)
    with inspected() as gateway, watching(gateway.url):
        names = [ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"] for _ in range(8)]
        watch = gateway.inspector.watch
        assert 0 < watch.size <= 20_000
        assert watch.size == sum(tap.size for tap in watch.taps.values())
        assert names[0] not in watch.taps
        assert get(f"{gateway.url}/inspector/turns/{names[0]}").json()["row"]["held"] is False
        assert get(f"{gateway.url}/inspector/turns/{names[-1]}").json()["frames"]


def test_so_many_turns_are_held_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "TURNS", 3)
    with inspected() as gateway, watching(gateway.url):
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(6)]
        assert list(gateway.inspector.watch.taps) == names[-3:]


def test_a_turn_for_which_there_is_no_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "TOTAL", 1_000)
    with inspected() as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        row = get(f"{gateway.url}/inspector/turns/{name}").json()
        assert row["row"]["held"] is False
        assert gateway.inspector.watch.size <= 1_000


def test_a_slow_listener_misses_turns_and_takes_no_memory() -> None:
    made = watches.Listener(None)
    for number in range(watches.FRESH + 50):
        made.told(str(number), "")
    assert len(made.fetch()) == watches.FRESH
    assert made.fetch() == {}


def test_only_so_many_watch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.inspector import turns

    monkeypatch.setattr(turns, "WATCHERS", 1)
    with inspected() as gateway, watching(gateway.url):
        refused = get(f"{gateway.url}/inspector/live")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


# ── the end ───────────────────────────────────────────────────────────────────────────────────────


def test_when_the_gateway_stops_nobody_is_kept_waiting(gateway: Inspected) -> None:
    with inspected() as other, watching(other.url) as reader:
        in_loop(other, other.inspector.stopping)
        reader.until(lambda: reader.over)
        assert other.inspector.services.watch is None
    assert gateway.inspector.watch.closed is False


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("G3")
def test_an_estimate_comes_beside_what_was_counted() -> None:
    with inspected(Reply.of("openai-chat", TEXT)) as gateway, watching(gateway.url) as reader:
        services = gateway.inspector.services
        services.estimates._every = 0.0
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
