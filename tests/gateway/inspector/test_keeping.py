"""Whose turns are kept, within which bounds, how they are deleted, and why a turn has no content, after a restart too."""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply
from tests.support.client_requests import ask
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import (
    CLIENT,
    ask_inspector,
    delete,
    lost,
    phrase,
    say,
    send,
    switch,
    trace_of,
    until,
    view,
)
from tests.support.kept_on_disk import FILE, full_disk, kept_bytes, on_disk, workers, written
from tests.support.paused_upstream import going, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST, SECOND, OWNER = "pk-penstock-first", "pk-penstock-second", "pk-penstock-owner"
ONLY_A_ROW = ": there is only its row in the journal"


def keyed(**more: Any) -> dict[str, Any]:
    """Of two team keys the second wants its turns kept."""
    keys = {
        "first": {"env": "FIRST"}, "second": {"env": "SECOND", "inspect_keep": True},
        "owner": {"env": "OWNER", "inspect": "all"},
    }  # fmt: skip
    return {"env": {"FIRST": FIRST, "SECOND": SECOND, "OWNER": OWNER}, "keys": keys, **more}


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────


def test_a_turn_can_be_opened_though_nobody_watched(gateway: Inspected) -> None:
    name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
    ended(gateway, name)
    trace = trace_of(gateway, name)
    assert trace["frames"]
    assert trace["outputs"]
    assert json.loads(trace["request"])["model"] == "openai-chat/text"
    assert "lost" not in trace
    assert view(gateway, "turns", limit=1)["rows"][0]["held"] is True


def test_a_turn_that_was_refused_is_kept_with_its_request() -> None:
    refused = Reply.body({"error": {"message": "no such key", "type": "auth"}}, status=401)
    with inspected(refused, serve={"pace": 0.0, "body": 1_000}) as gateway:
        said = [{"role": "user", "content": "hi"}]
        for body, status in (
            (b"{", 400), (b'{"model": "openai-chat/text", "messages": 7}', 400), (b"x" * 2_000, 413),
            (json.dumps({"model": "nobody/has-it", "messages": said}).encode(), 404),
            (json.dumps({"model": "openai-chat/text", "messages": said}).encode(), 401),
        ):  # fmt: skip
            reply = CLIENT.post(f"{gateway.url}/v1/chat/completions", content=body)
            assert reply.status_code == status
            (row,) = view(gateway, "turns", limit=1)["rows"]
            assert (row["state"], row["held"], row["http"]) == ("refused", True, status)
            trace = trace_of(gateway, row["id"])
            assert trace["request"] == ("" if status == 413 else body.decode())
            answered = "the provider openai-chat answered 401: there are no frames"
            assert trace["lost"] == (answered if status == 401 else "the gateway refused it: no provider was asked")
            (output,) = trace["outputs"]
            assert json.loads(output["data"])["error"]["message"] == reply.json()["error"]["message"]


def test_with_team_keys_only_turns_of_keys_that_opted_in_are_kept() -> None:
    with inspected(**keyed()) as gateway:
        first, second = say(gateway, "weather", FIRST), say(gateway, key=SECOND)
        assert trace_of(gateway, second, SECOND)["frames"]
        why = lost(gateway, first, FIRST)
        assert "turns of the key 'first' are not kept" in why
        assert "penstock keys edit first --inspect-keep on" in why
        assert phrase(gateway, "weather", FIRST) == set()
        before = view(gateway, "keeping", OWNER)["memory"]["turns"]
        assert CLIENT.post(f"{gateway.url}/v1/chat/completions", content=b"{}").status_code == 401
        assert view(gateway, "keeping", OWNER)["memory"]["turns"] == before, "unknown callers would push out others"


def test_the_key_that_a_gateway_was_started_with_is_no_team_key() -> None:
    with inspected(env={"PENSTOCK_GATEWAY_KEY": OWNER}) as gateway:
        assert trace_of(gateway, say(gateway, key=OWNER), OWNER)["frames"]


def test_a_gateway_that_others_can_reach_keeps_turns_while_somebody_watches() -> None:
    serve = {"host": "0.0.0.0", "pace": 0.0}  # noqa: S104 — not bound
    with inspected(serve=serve, access={"trusted_proxies": ()}) as gateway:
        assert "other machines can reach" in lost(gateway, say(gateway))
        with watching(gateway.url):
            name = say(gateway)
        assert trace_of(gateway, name)["frames"], "it stays a while"


def test_paused_turns_are_not_kept_and_say_so(gateway: Inspected) -> None:
    assert switch(gateway, paused=True).json()["paused"] is True
    names = [say(gateway), send(gateway, "/v1/messages", b"{")]
    assert {lost(gateway, name) for name in names} == {f"keeping was paused when it began{ONLY_A_ROW}"}
    assert switch(gateway, paused=False).json()["paused"] is False
    assert trace_of(gateway, say(gateway))["frames"]


# ── bounds of memory ──────────────────────────────────────────────────────────────────────────────


def held(gateway: Inspected, names: list[str]) -> list[bool]:
    rows = {row["id"]: row["held"] for row in view(gateway, "turns", limit=500)["rows"]}
    return [rows[name] for name in names]


def test_so_many_turns_are_held_and_the_list_hears_of_those_that_are_not() -> None:
    with bounds(turns=3), inspected() as gateway:
        first = say(gateway)
        with watching(gateway.url) as reader:
            assert reader.rows[first]["held"] is True
            second = say(gateway)
            reader.until(lambda: reader.rows.get(second, {}).get("state") == "finish")
            names = [first, second, *(say(gateway) for _ in range(3))]
            removed = reader.until(
                lambda: len(found := [name for one in reader.named("removed") for name in one["ids"]]) == 2 and found
            )
            assert sorted(removed) == sorted(names[:2])
        assert held(gateway, names) == [False, False, True, True, True]
        assert lost(gateway, first) == f"newer turns took its place in memory (32 MB){ONLY_A_ROW}"
        assert delete(gateway, f"turns/{names[4]}").json() == {"deleted": 1}
        assert lost(gateway, names[4]) == f"it was deleted on the inspector's page{ONLY_A_ROW}"


def test_all_turns_together_take_so_much_memory_and_no_more() -> None:
    """The bytes that the page shows, and the bound, count turns that have just ended, too."""
    with bounds(memory=40_000), inspected() as gateway:
        names = [say(gateway)]
        one = view(gateway, "keeping")["memory"]["bytes"]
        assert one > 4_000
        for _ in range(7):
            names.append(say(gateway))
            assert 0 < view(gateway, "keeping")["memory"]["bytes"] <= 40_000
        memory = view(gateway, "keeping")["memory"]
        assert held(gateway, names) == [False] * (8 - memory["turns"]) + [True] * memory["turns"]
        assert 0 < memory["turns"] < 8
        assert trace_of(gateway, names[-1])["frames"]
        assert delete(gateway).json() == {"deleted": memory["turns"]}
        assert (view(gateway, "keeping")["memory"]["turns"], view(gateway, "keeping")["memory"]["bytes"]) == (0, 0)


def test_the_oldest_go_together_and_one_that_runs_stays() -> None:
    with bounds(turns=64), waiting() as (gateway, gate), watching(gateway.url) as reader:  # of which a batch is two
        with going(gateway, gate, reader) as row:
            names = [say(gateway, model="replay/text") for _ in range(64)]
            assert held(gateway, names) == [*[False] * 3, *[True] * 61]
            assert "lost" not in trace_of(gateway, row["id"])
        assert trace_of(gateway, row["id"])["events"][-1]["type"] == "finish"


def test_a_turn_that_was_dropped_while_it_runs_says_so() -> None:
    """There is no room for it. It has no row in the journal yet."""
    said = "it still runs; it was dropped because too much went on at once for the memory of the inspector"
    with bounds(memory=1_000), waiting() as (gateway, gate), watching(gateway.url) as reader:
        with going(gateway, gate, reader) as row:
            trace = trace_of(gateway, row["id"])
            assert (trace["lost"], trace["request_lost"], trace["row"]["state"]) == (said, said, "streaming")
            assert trace["marks"] == []
            request = view(gateway, f"turns/{row['id']}/request")
            assert (request["kept"], request["canonical_error"]) == (False, said)
            for part in ("export", "breakdown", "headers"):
                assert ask_inspector(gateway, f"turns/{row['id']}/{part}").status_code != 404, part
            with Reader(f"{gateway.url}/inspector/turns/{row['id']}/follow") as follower:
                follower.until(lambda: follower.events)
                gate.open.set()
                follower.until(lambda: follower.over)
        ended(gateway, row["id"])
        assert "too much went on at once" in lost(gateway, row["id"])
        assert view(gateway, "keeping")["memory"]["bytes"] <= 1_000


# ── why a turn has no content, after a restart ────────────────────────────────────────────────────


def _delete(gateway: Inspected) -> str:
    name = say(gateway)
    written(gateway)
    assert delete(gateway, f"turns/{name}").status_code == 200
    return name


def _pause(gateway: Inspected) -> str:
    switch(gateway, paused=True)
    name = say(gateway)
    switch(gateway, paused=False)
    return name


def _fail(gateway: Inspected) -> str:
    """The file cannot be written, and newer turns take its place in memory."""
    with full_disk():
        name = say(gateway, secrets.token_hex(3 * 2**19))
        written(gateway)
    say(gateway)
    return name


def _push_out(gateway: Inspected) -> str:
    name = say(gateway)
    written(gateway)
    say(gateway)
    return name


def _fill(gateway: Inspected) -> str:
    name = say(gateway)
    for _ in range(8):
        written(gateway)
        say(gateway, secrets.token_hex(2**17))
    written(gateway)
    return name


REASONS: dict[str, tuple[Callable[[Inspected], str], dict[str, float], dict[str, Any], str]] = {
    "deleted": (_delete, {}, {}, "it was deleted on the inspector's page"),
    "paused": (_pause, {}, {}, "keeping was paused when it began"),
    "disk-error": (
        _fail, {"turns": 1}, {},
        "it could not be written to disk (the log says why), and newer turns took its place in memory",
    ),
    "disk-busy": (
        _push_out, {"turns": 1, "queue": 0}, {},
        "too many turns came at once to keep them all on disk, and newer ones took its place in memory",
    ),
    "too-large": (
        say, {"memory": 1_000}, {},
        "it was dropped because too much went on at once for the memory of the inspector (0 MB)",
    ),
    "disk-full": (_fill, {"turns": 1}, {"size": 2**20}, "newer turns took its place on disk (1 MB)"),
    "disk-age": (
        _push_out, {"turns": 1, "settle": 0.0}, {"days": 1e-9},
        "it is older than 1e-09 days, and older turns are deleted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_known_after_a_restart(tmp_path: Path, reason: str) -> None:
    lose, smaller, more, words = REASONS[reason]
    options = on_disk(tmp_path, inspector={"keep": True, **more})
    with bounds(**smaller):
        with inspected(**options) as gateway:
            name = lose(gateway)
        with inspected(**options) as again:
            assert lost(again, name) == words + ONLY_A_ROW
            assert held(again, [name]) == [False]


def test_a_turn_of_a_key_that_did_not_opt_in_says_so_after_a_restart(tmp_path: Path) -> None:
    """It was in memory, because somebody watched. One that runs longer than anybody watches is forgotten, too."""
    said = "nobody has watched for 0 minutes, and this gateway keeps no turns of this key"
    with bounds(unwatched=0.0):
        with inspected(**keyed(**on_disk(tmp_path))) as gateway:
            with watching(gateway.url, bearer(FIRST)):
                name = say(gateway, key=FIRST)
                assert trace_of(gateway, name, FIRST)["frames"]
            until(lambda: said in lost(gateway, name, FIRST))
            assert "turns of the key 'first'" in lost(gateway, say(gateway, key=FIRST), FIRST)
        with inspected(**keyed(**on_disk(tmp_path))) as again:
            assert said in lost(again, name, FIRST)


def test_in_memory_only_a_restart_is_the_one_reason(tmp_path: Path) -> None:
    """Whatever else happened to it: after a restart nothing would be there. Nothing is stored for this."""
    with inspected(**on_disk(tmp_path, inspector={})) as gateway:
        names = [say(gateway) for _ in range(2)]
        delete(gateway, f"turns/{names[0]}")
    assert not (tmp_path / FILE).exists()
    with inspected(**on_disk(tmp_path, inspector={})) as again:
        why = f"the gateway was restarted since, and turns were kept in memory only{ONLY_A_ROW}"
        assert [lost(again, name) for name in names] == [why] * 2
    with inspected(**on_disk(tmp_path)) as kept:  # the file is younger than the turns
        say(kept)
        written(kept)
        assert "it was in memory only, or it was deleted, or newer turns took its place on disk" in lost(kept, names[0])


def test_a_turn_that_was_never_on_disk_says_so_after_a_restart(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        say(gateway)
        switch(gateway, disk=False)
        name = say(gateway)
    with inspected(**on_disk(tmp_path)) as again:
        assert lost(again, name) == f"the gateway was restarted since, and it was not written to disk{ONLY_A_ROW}"


def test_reasons_are_written_though_no_turn_comes(tmp_path: Path) -> None:
    with bounds(trim=0.05), inspected(**on_disk(tmp_path)) as gateway:
        say(gateway)
        name = _pause(gateway)
        until(lambda: name.encode() in kept_bytes(tmp_path))


def test_reasons_that_cannot_be_written_wait(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        say(gateway)
        written(gateway)
        with full_disk(0):
            name = _pause(gateway)
            say(gateway)
            written(gateway)
            assert name.encode() not in kept_bytes(tmp_path)
        say(gateway)
    with inspected(**on_disk(tmp_path)) as again:
        assert "keeping was paused" in lost(again, name)


# ── deletions ─────────────────────────────────────────────────────────────────────────────────────


def test_deleted_text_leaves_memory_index_and_file(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway, watching(gateway.url) as reader:
        names = [say(gateway, f"play the {word}") for word in ("xylophone", "marimba")]
        written(gateway)
        assert phrase(gateway, "xylophone") == {names[0]}
        reader.until(lambda: set(names) <= set(reader.rows))
        assert delete(gateway, f"turns/{names[0]}").json() == {"deleted": 1}
        assert delete(gateway, f"turns/{names[0]}").status_code == 404
        assert (phrase(gateway, "xylophone"), phrase(gateway, "marimba")) == (set(), {names[1]})
        assert "it was deleted on the inspector's page" in lost(gateway, names[0])
        reader.until(lambda: names[0] in str(reader.named("removed")))
        assert b"xylophone" not in kept_bytes(tmp_path)
        assert delete(gateway).json() == {"deleted": 1}
        assert view(gateway, "keeping")["disk"]["turns"] == 0


def test_text_that_a_reader_holds_is_told_and_erased_later(tmp_path: Path) -> None:
    with bounds(lock=0.1), inspected(**on_disk(tmp_path)) as gateway:
        name = say(gateway, "play the xylophone")
        written(gateway)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            answer = delete(gateway, f"turns/{name}").json()
            assert answer["deleted"] == 1
            assert f"{FILE}-wal" in answer["remains"]
            assert b"xylophone" in (tmp_path / f"{FILE}-wal").read_bytes()
            reader.execute("COMMIT")
            until(lambda: b"xylophone" not in kept_bytes(tmp_path), 30.0)
        assert delete(gateway).json() == {"deleted": 0}


def test_a_wrong_address_deletes_and_shows_nothing(tmp_path: Path) -> None:
    """`DELETE turns/ID` with an id that is empty by mistake is not `DELETE turns`, which deletes all."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = say(gateway)
        written(gateway)
        for path in ("turns/", "turns//", "turns/%2F", "/turns", "turns//frames", "//turns/", "turns/?id=", "turns/x/"):
            assert delete(gateway, path).status_code == 404, path
        for path in ("sessions", "turns", "recordings"):
            for rest in ("//follow", "//export", "//request", "//frames/", "//frames/0", "/x/outputs/"):
                assert ask_inspector(gateway, path + rest).status_code == 404, path + rest
        for path in ("keeping/", "trace/", "convert/"):
            assert CLIENT.post(f"{gateway.url}/inspector/{path}").status_code == 404, path
        assert "lost" not in trace_of(gateway, name)
        assert view(gateway, "keeping")["disk"]["turns"] == 1


def test_a_key_deletes_its_own_turns_and_switches_nothing(tmp_path: Path) -> None:
    options = keyed(**on_disk(tmp_path))
    options["keys"]["first"]["inspect_keep"] = True
    with inspected(**options) as gateway:
        names = {key: say(gateway, key=key) for key in (FIRST, SECOND)}
        written(gateway)
        assert delete(gateway, f"turns/{names[SECOND]}", FIRST).status_code == 404
        assert delete(gateway, key=FIRST).json() == {"deleted": 1}
        assert trace_of(gateway, names[SECOND], SECOND)["frames"]
        assert [switch(gateway, key, disk=False).status_code for key in (FIRST, OWNER)] == [403, 200]
        state = view(gateway, "keeping", FIRST)
        assert (state["memory"]["turns"], state["disk"]["turns"], state["may_switch"]) == (0, 0, False)
    with inspected(**options) as again:
        assert trace_of(again, names[SECOND], SECOND)["frames"]


# ── several workers ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keep", [False, True])
def test_one_of_several_workers_says_that_another_may_have_a_turn(tmp_path: Path, keep: bool) -> None:
    advice = "took its place on disk" if keep else "or keep turns on disk"
    with workers(tmp_path, keep=keep) as made, ExitStack() as smaller:
        first, second = made.gateways
        if keep:
            smaller.enter_context(bounds(queue=0))  # it stays in the memory of the other
        name = say(second)
        assert name in [row.request_id for row in second.rows()]  # the journal has it
        why = lost(first, name)
        assert "another worker of this gateway may have it in memory (open it again" in why
        assert advice in why
        refused = switch(first, paused=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "several_processes")
        assert view(first, "keeping")["may_switch"] is False


@pytest.mark.parametrize("keep", [False, True])
def test_what_is_deleted_is_shown_by_no_worker(tmp_path: Path, keep: bool) -> None:
    with workers(tmp_path, keep=keep) as made:
        first, second = made.gateways
        name, other = say(second, "zebra one"), say(second, "zebra two")
        assert delete(first, f"turns/{name}").json() == {"deleted": 1}
        for one in (second, first):
            assert "it was deleted on the inspector's page" in lost(one, name)
        assert phrase(second, "zebra") == {other}
        assert trace_of(second, other)["frames"]
        assert delete(first, f"turns/{name}").status_code == 404
        names = [other, *(say(one, f"zebra {place}") for place, one in enumerate(made.gateways * 2))]
        assert made.deletions == [], "nothing is left of deletions that all have applied"
        with watching(second.url) as reader:
            reader.until(lambda: names[-1] in reader.rows)
            assert delete(first).json() == {"deleted": 5}
            reader.until(lambda: names[-1] in str(reader.named("removed")))
        for one in made.gateways:
            assert phrase(one, "zebra") == set()
            assert all(trace_of(one, name)["frames"] == [] for name in names)


def test_a_worker_that_does_not_answer_is_named_and_shows_nothing_later(tmp_path: Path) -> None:
    """It looks for deletions before it answers. A turn that may be in it is not called unknown."""
    with ExitStack() as patient, workers(tmp_path, keep=False) as made:
        first, second = made.gateways
        made.stop(1)
        with bounds(deletion=0.1):
            name, own = say(second, "zebra"), say(first, "zebra")
            assert delete(first, f"turns/{name}").json() == {"deleted": 0, "pending": [1]}
            assert delete(first).json() == {"deleted": 1, "pending": [1]}
        later = say(second, "zebra")
        assert trace_of(second, name)["frames"] == trace_of(first, own)["frames"] == []
        assert trace_of(second, later)["frames"], "it ended after that"
        made.start(1)
        patient.enter_context(bounds(deletion=20.0))
        assert delete(first, f"turns/{later}").json() == {"deleted": 1}
        assert made.deletions == []


def test_a_key_deletes_its_own_turns_only_in_all_workers(tmp_path: Path) -> None:
    options = keyed()
    options["keys"]["first"]["inspect_keep"] = True
    with workers(tmp_path, keep=True, **options) as made:
        first, second = made.gateways
        names = {key: say(second, "zebra", key) for key in (FIRST, SECOND)}
        assert delete(first, f"turns/{names[SECOND]}", FIRST).status_code == 404
        assert delete(first, key=FIRST).json() == {"deleted": 1}
        assert trace_of(second, names[FIRST], FIRST)["frames"] == []
        assert trace_of(second, names[SECOND], SECOND)["frames"]
