"""Turns on disk: deleting and pausing, and what is said of turns after a restart and with several workers."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from penstock._store import sqlite as store_sqlite
from penstock._store.kept_turns import FILE
from penstock._store.wal_truncation import WalTruncation
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.inspector import inspected
from tests.support.kept_on_disk import add_workers, change, delete, on_disk, restart, trace_of, written

if TYPE_CHECKING:
    from pathlib import Path


def test_deleted_text_leaves_memory_index_and_file(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway, watching(gateway.url) as reader:
        names: list[str] = []
        for word in ("xylophone", "marimba"):
            body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": f"play the {word}"}]}
            names.append(post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"])
            ended(gateway, names[-1])
        written(gateway)
        index = gateway.inspector.watch.text_index
        assert index.find_turns("xylophone", None) == {names[0]}
        reader.until(lambda: set(names) <= set(reader.rows))
        assert delete(f"{gateway.url}/inspector/turns/{names[0]}").json() == {"deleted": 1}
        assert delete(f"{gateway.url}/inspector/turns/{names[0]}").status_code == 404
        assert index.find_turns("xylophone", None) == set()
        assert index.find_turns("marimba", None) == {names[1]}
        assert "it was deleted on the inspector's page" in trace_of(gateway, names[0])["lost"]
        reader.until(lambda: names[0] in str(reader.named("removed")))
        raw = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
        assert b"xylophone" not in raw
        assert delete(f"{gateway.url}/inspector/turns").json() == {"deleted": 1}
        assert gateway.inspector.watch.disk.describe(None)["turns"] == 0


def test_text_that_a_reader_holds_is_told_and_erased_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    erased = threading.Event()
    run = WalTruncation.run

    def watch(self: WalTruncation, connection: sqlite3.Connection) -> None:
        run(self, connection)
        if not self.is_pending:
            erased.set()

    monkeypatch.setattr(store_sqlite, "LOCK_TIMEOUT", 0.1)
    with inspected(**on_disk(tmp_path)) as gateway:
        body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": "play the xylophone"}]}
        name = post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        monkeypatch.setattr(WalTruncation, "run", watch)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turns").fetchone()
            answer = delete(f"{gateway.url}/inspector/turns/{name}").json()
            assert answer["deleted"] == 1
            assert f"{FILE}-wal" in answer["remains"]
            assert b"xylophone" in (tmp_path / f"{FILE}-wal").read_bytes()
            assert not erased.is_set()
            reader.execute("COMMIT")
            assert erased.wait(30.0)
            assert b"xylophone" not in b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
        assert delete(f"{gateway.url}/inspector/turns").json() == {"deleted": 0}


@pytest.mark.parametrize(
    "path", ["turns/", "turns//", "turns/%2F", "/turns", "turns//frames", "//turns/", "turns/?id="]
)
def test_an_empty_id_deletes_nothing(tmp_path: Path, path: str) -> None:
    """`DELETE turns/ID` with an id that is empty by mistake is not `DELETE turns`, which deletes all."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        assert delete(f"{gateway.url}/inspector/{path}").status_code == 404
        assert "lost" not in trace_of(gateway, name)
        assert gateway.inspector.watch.disk.describe(None)["turns"] == 1


def test_every_route_with_an_id_needs_it(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        for method, shape in gateway.inspector._router._routes:
            wrong = [shape.replace("*", "", 1)] if "*" in shape else []
            wrong += [shape.replace("*", "x") + "/"] if method != "GET" else []
            for path in wrong:
                reply = httpx.request(method, f"{gateway.url}/inspector/{path}", trust_env=False, timeout=20)
                is_list = method == "GET" and path.endswith("/")  # a trailing slash changes nothing for a read
                assert reply.status_code == 404 or is_list, (method, path, reply.text)


def test_a_key_deletes_its_own_turns_and_switches_nothing(tmp_path: Path) -> None:
    first, second, owner = "pk-penstock-first", "pk-penstock-second", "pk-penstock-owner"
    keys = {
        "first": {"env": "FIRST", "inspect_keep": True},
        "second": {"env": "SECOND", "inspect_keep": True},
        "owner": {"env": "OWNER", "inspect": "all"},
    }
    env = {"FIRST": first, "SECOND": second, "OWNER": owner}
    with inspected(**on_disk(tmp_path, env=env, keys=keys)) as gateway:
        names = {
            key: ask(gateway.url, "openai-chat", "openai-chat/text", headers=bearer(key)).headers["x-request-id"]
            for key in (first, second)
        }
        for name in names.values():
            ended(gateway, name)
        written(gateway)
        place = f"{gateway.url}/inspector"
        assert delete(f"{place}/turns/{names[second]}", first).status_code == 404
        assert delete(f"{place}/turns", first).json() == {"deleted": 1}
        assert trace_of(gateway, names[second], second)["frames"]
        assert gateway.inspector.watch.disk.holds(names[second])
        assert post(f"{place}/keeping", json={"disk": False}, headers=bearer(first)).status_code == 403
        assert post(f"{place}/keeping", json={"disk": False}, headers=bearer(owner)).status_code == 200
        state = get(f"{place}/keeping", headers=bearer(first)).json()
        assert (state["memory"]["turns"], state["disk"]["turns"], state["may_switch"]) == (0, 0, False)


def test_paused_turns_are_not_kept_and_say_so() -> None:
    with inspected() as gateway:
        assert change(gateway, paused=True).json()["paused"] is True
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        assert "keeping was paused when it began" in trace_of(gateway, name)["lost"]
        refused = httpx.post(f"{gateway.url}/v1/messages", content=b"{").headers["x-request-id"]
        assert "keeping was paused when it began" in trace_of(gateway, refused)["lost"]
        assert change(gateway, paused=False).json()["paused"] is False
        other = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, other)
        assert trace_of(gateway, other)["frames"]


def test_one_of_several_workers_does_not_switch(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        add_workers(gateway, tmp_path / "workers")
        refused = change(gateway, paused=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "several_processes")
        assert get(f"{gateway.url}/inspector/keeping").json()["may_switch"] is False


@pytest.mark.parametrize("still_on", [True, False])
def test_after_a_restart_a_turn_says_that_it_may_have_been_on_disk(tmp_path: Path, still_on: bool) -> None:
    """If the file does not know: it was made by a version that did not remember reasons."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        assert delete(f"{gateway.url}/inspector/turns/{name}").status_code == 200
        gateway.inspector.watch.close_files()
    connection = sqlite3.connect(tmp_path / FILE)
    for table in ("missing_turns", "marks"):
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    with inspected(**on_disk(tmp_path, inspector={"keep": still_on})) as again:
        lost = trace_of(again, name)["lost"]
        assert "it was in memory only, or it was deleted, or newer turns took its place on disk" in lost


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("keep", "advice"), [(False, "or keep turns on disk"), (True, "took its place on disk")])
def test_one_of_several_workers_says_that_another_may_have_a_turn(
    tmp_path: Path, keep: bool, advice: str, restarted: bool
) -> None:
    with inspected(**on_disk(tmp_path, inspector={"keep": keep})) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        assert delete(f"{gateway.url}/inspector/turns/{name}").status_code == 200
        _forget_missing_turns(tmp_path)
        gateway.inspector.watch.policy.forgotten.clear()
        if restarted:
            restart(gateway)
        add_workers(gateway, tmp_path / "workers")
        lost = trace_of(gateway, name)["lost"]
        assert "another worker of this gateway may have it in memory (open it again" in lost
        assert advice in lost
        assert "in memory (32 MB)" not in lost


def _forget_missing_turns(folder: Path) -> None:
    """Deletes the reasons, as the file does with the oldest of many."""
    if (folder / FILE).exists():
        connection = sqlite3.connect(folder / FILE)
        connection.execute("DELETE FROM missing_turns")
        connection.commit()
        connection.close()
