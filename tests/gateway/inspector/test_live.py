"""Live events: changes of the list, one turn while it runs, and how many may watch at once."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import process
from tests.support.client_requests import ask
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds, set_clock
from tests.support.inspector_calls import ask_inspector, lost, say, send, trace_of, until, view
from tests.support.paused_upstream import Gate, going, waiting

if TYPE_CHECKING:
    from pathlib import Path

ANNA, BEN, CARL, OWNER = (f"pk-penstock-{name}0123456789" for name in ("anna", "ben", "carl", "owner"))
KEYS = {name: {"hash": hash_key(key), "inspect": "own", "inspect_keep": True}
        for name, key in (("anna", ANNA), ("ben", BEN), ("carl", CARL))}  # fmt: skip
KEYS["owner"] = {"hash": hash_key(OWNER), "inspect": "all"}
# A gateway that others can reach keeps turns only while somebody watches.
PUBLIC: dict[str, Any] = {"serve": {"host": "0.0.0.0", "pace": 0.0}, "access": {"trusted_proxies": ()}}  # noqa: S104


def over(reader: Reader, name: str) -> dict[str, Any]:
    found: dict[str, Any] = reader.until(
        lambda: reader.rows.get(name) if reader.rows.get(name, {}).get("duration") is not None else None
    )
    return found


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
        names = [row[part] for part in ("state", "provider", "model", "asked")]
        assert names == ["open", "openai-chat", "text", "openai-chat/text"]
        assert row["decisions"]
        gate.open.set()
        found = over(reader, row["id"])
        asking.join(20)
        assert (found["provider"], found["model"]) == ("openai-chat", "text")


def test_the_list_begins_with_what_there_was() -> None:
    with inspected(**PUBLIC) as gateway:
        names = [say(gateway, model="replay/text") for _ in range(3)]
        with watching(gateway.url) as reader:
            first = reader.named("turns")[0]
            assert [row["id"] for row in first["rows"]] == names[::-1]
            assert not any(row["held"] for row in first["rows"])


def test_refusals_and_errands_are_in_the_list(gateway: Inspected) -> None:
    with watching(gateway.url) as reader:
        name = send(gateway, "/v1/chat/completions", b"{")
        row = over(reader, name)
        assert (row["state"], row["http"], row["held"]) == ("refused", 400, True)  # its request can be looked at
        send(gateway, "/v1/embeddings", b'{"model": "openai-chat/text", "input": ["one"]}')
        reader.until(lambda: [row for row in reader.rows.values() if row["operation"] == "embeddings"])


def test_a_turn_that_ends_after_the_clock_was_set_back_is_in_the_list() -> None:
    """Its row says that it ended before the page was opened."""
    with set_clock() as clock, inspected() as gateway, watching(gateway.url) as reader:
        clock.ahead = -100_000.0
        over(reader, say(gateway))


# ── who watches ───────────────────────────────────────────────────────────────────────────────────


def test_a_turn_that_runs_longer_than_anybody_watches_is_forgotten() -> None:
    with bounds(unwatched=0.05), Gate() as gate, inspected(at=gate.url, **PUBLIC) as gateway, ExitStack() as turn:
        with watching(gateway.url) as reader:
            name = turn.enter_context(going(gateway, gate, reader))["id"]
        assert trace_of(gateway, name)["frames"], "it runs"
        turn.close()
        until(lambda: "nobody has watched" in lost(gateway, name))


def test_a_turn_ends_though_its_watcher_has_gone() -> None:
    with waiting() as (gateway, gate):
        reader = watching(gateway.url)
        with reader, going(gateway, gate, reader) as row:
            reader.leave()
        ended(gateway, row["id"])
        assert trace_of(gateway, row["id"])["events"][-1]["type"] == "finish"


def test_a_slow_page_is_told_how_many_turns_it_missed() -> None:
    """Turns that it misses are not held for it, either."""
    with bounds(unread=2, interval=1.5), inspected(**PUBLIC) as gateway, watching(gateway.url) as reader:
        names = [say(gateway, model="replay/text") for _ in range(6)]
        held = [row["held"] for row in view(gateway, "turns")["rows"]][::-1]
        assert 2 <= sum(held) <= 4  # the first may have been told already
        assert held == sorted(held, reverse=True)
        missed = reader.until(lambda: sum(data.get("missed", 0) for data in reader.named("turns")))
        assert 2 <= missed <= 5
        assert set(reader.rows) == set(names[: 6 - missed])


# ── one turn as it goes on ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("consumer", ["", "vscode"])
def test_a_turn_is_followed_to_its_end(consumer: str) -> None:
    with waiting() as (gateway, gate), watching(gateway.url) as reader:
        with going(gateway, gate, reader) as row:
            place = f"{gateway.url}/inspector/turns/{row['id']}/follow?as={consumer}"
            with Reader(place) as follower:
                (first,) = follower.named("trace")
                assert (first["done"], first["row"]["state"]) == (False, "streaming")
                said = str(first["events"])
                assert ("word1" in said, "word20" in said) == (True, False)
                gate.open.set()
                follower.until(lambda: follower.over)
        more = follower.named("more")
        assert more[-1]["done"] is True
        whole = trace_of(gateway, row["id"], **{"as": consumer})
        for kind in ("frames", "events", "outputs", "marks"):
            assert [*first[kind], *(one for part in more for one in part[kind])] == whole[kind]


# ── how many ──────────────────────────────────────────────────────────────────────────────────────


def refused(gateway: Inspected, place: str, key: str) -> str:
    reply = ask_inspector(gateway, place, key)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    return str(reply.json()["error"]["message"])


def test_no_tenant_takes_all_lists() -> None:
    """12 of a tenant, 32 in all, of which 8 are left for those without a list, and for who sees all turns."""
    with inspected(keys=KEYS) as gateway, ExitStack() as pages:

        def open_lists(key: str, count: int) -> list[Reader]:
            made = [pages.enter_context(watching(gateway.url, bearer(key))) for _ in range(count)]
            assert [one.status for one in made] == [200] * count
            return made

        bens = open_lists(BEN, 12)
        assert "12 pages with keys of this tenant" in refused(gateway, "live", BEN)
        open_lists(ANNA, 12)
        open_lists(CARL, 1)
        assert "too many pages" in refused(gateway, "live", CARL)
        open_lists(OWNER, 7)
        assert "too many pages" in refused(gateway, "live", OWNER)
        bens[0].leave()
        until(lambda: _opens(gateway, OWNER))


def _opens(gateway: Inspected, key: str) -> bool:
    with watching(gateway.url, bearer(key)) as reader:
        return reader.status == 200


def test_no_tenant_reads_all_traces_at_once() -> None:
    """Six of a tenant. A page that is closed makes room."""
    with Gate() as gate, inspected(at=gate.url, keys=KEYS) as gateway, watching(gateway.url, bearer(ANNA)) as reader:
        headers = bearer(ANNA)
        asking = threading.Thread(
            target=ask, args=(gateway.url, "anthropic", "openai-chat/text"), kwargs={"headers": headers}
        )
        asking.start()
        (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["state"] == "streaming"])
        place = f"turns/{row['id']}/follow"
        with ExitStack() as pages:
            readers = [pages.enter_context(Reader(f"{gateway.url}/inspector/{place}", headers)) for _ in range(6)]
            assert "6 pages with keys of this tenant" in refused(gateway, place, ANNA)
            with Reader(f"{gateway.url}/inspector/{place}", bearer(OWNER)) as other:
                assert other.named("trace")
            gate.open.set()
            for one in readers:
                one.until(lambda one=one: one.over)  # type: ignore[misc]
        asking.join(20)
        for _ in range(8):  # one after another
            with Reader(f"{gateway.url}/inspector/{place}", headers) as one:
                one.until(lambda one=one: one.over)  # type: ignore[misc]
                assert one.named("trace")


# ── the end ───────────────────────────────────────────────────────────────────────────────────────


def test_when_the_gateway_stops_nobody_is_kept_waiting() -> None:
    with ExitStack() as stack:
        gateway = stack.enter_context(inspected())
        reader = watching(gateway.url)
        with reader:
            stack.close()
            reader.until(lambda: reader.over)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_server_that_is_stopped_does_not_wait_for_those_who_watch(tmp_path: Path) -> None:
    """Streams are given half a minute to end; a page that is open for hours is none."""
    with process.gateway(tmp_path, "[serve]\ndrain = 300\n") as server, watching(server.base, server.session) as reader:
        server.stop()  # within the time that this gives it
        reader.until(lambda: reader.over)
