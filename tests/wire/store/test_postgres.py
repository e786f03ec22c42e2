"""The writer of PostgreSQL (each job once, bounded, retried), and token factors in SQLite and PostgreSQL."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock._store import postgres as module
from penstock._store.journal import JournalEntry
from penstock._store.postgres import PostgresDatabase, PostgresError
from penstock._store.postgres_stores import FACTOR_SECONDS, PostgresFactors, PostgresJournal, PostgresKeyValueTable
from penstock._store.sqlite_writer import COMMIT_SECONDS, GATHER_SECONDS
from penstock._store.tokens import TokenStore
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.stores import FactorStore
    from tests.support.servers import PostgresServer

    OpenFactors = Callable[..., FactorStore]


def open_journal(database: PostgresDatabase) -> PostgresJournal:
    return PostgresJournal(database, time.time, age=1e12, size=10**9)


class CommitDropper:
    """A proxy that passes the first COMMIT on to the server, and ends the connection before its answer."""

    def __init__(self, port: int) -> None:
        self.dropped = False
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [client, server]
                pair = [
                    threading.Thread(target=self._pass_on, args=(client, server)),
                    threading.Thread(target=self._pass_on, args=(server, client)),
                ]
                self._threads += pair
                for thread in pair:
                    thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if b"COMMIT" in data and not self.dropped and target.getpeername()[1] == self._server_port:
                    self.dropped = True
                    source.shutdown(socket.SHUT_RDWR)  # before the server can answer
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._sockets):
            one.close()


def test_a_commit_whose_answer_is_lost_is_not_repeated(postgres: PostgresServer, postgres_url: str) -> None:
    with closing(CommitDropper(postgres.port)) as proxy:
        url = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/") + "?sslmode=disable&gssencmode=disable"
        PostgresDatabase(postgres_url).close()  # creates the tables
        database = PostgresDatabase(url)
        rows = open_journal(database)
        for number in range(20):
            rows.add(JournalEntry(time=float(number)))
        database.close()
        assert proxy.dropped
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT time FROM penstock.turns ORDER BY 1").fetchall()
    assert [time_ for (time_,) in found] == [float(number) for number in range(20)]


def test_a_bad_job_costs_no_other(postgres_url: str) -> None:
    failed: list[int] = []

    def job(number: int) -> Callable[[Any], Any]:
        async def insert(connection: Any) -> None:
            if number == 3:
                raise ValueError("of our own")
            await connection.execute(
                "INSERT INTO turns (time, input) VALUES (%s, %s)", (number, 2**70 if number == 5 else 1)
            )

        return insert

    with closing(PostgresDatabase(postgres_url)) as database:
        for number in range(8):
            assert database.submit(job(number), on_failure=partial(failed.append, number))
        assert database.flush()
        assert (failed, database.failed) == ([3, 5], 2)
        assert database.read("SELECT time FROM turns ORDER BY time") == [(float(n),) for n in (0, 1, 2, 4, 6, 7)]


def test_what_waits_is_bounded_and_what_is_lost_is_counted(
    postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1000)
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", 0.5)
    monkeypatch.setattr("penstock._store.journal.MAX_WAITING_JOBS", 5)
    database = PostgresDatabase(postgres_url)
    rows, table = open_journal(database), PostgresKeyValueTable(database, "reasoning", time.time)
    assert database.flush()
    postgres.stop()
    assert [rows.add(JournalEntry(time=float(number))) for number in range(7)] == [True] * 5 + [False] * 2
    for name in "abc":
        table.put("t", {name: b"x" * 400})
    with pytest.raises(PostgresError):
        table.get("t", ["unknown"])
    assert (table.get("t", ["a", "b"]), table.dropped) == ({"a": b"x" * 400, "b": b"x" * 400}, 1)
    assert not database.flush(20)
    assert (rows.waiting, rows.lost) == (5, 2)
    rows.close()
    database.close()
    assert rows.lost == 7
    assert "5 rows were not written and are lost" in caplog.text
    postgres.start()


def test_rows_that_waited_are_written_when_the_server_is_back(postgres: PostgresServer, postgres_url: str) -> None:
    with closing(PostgresDatabase(postgres_url)) as database:
        rows, factors = open_journal(database), PostgresFactors(database)
        rows.add(JournalEntry(time=0.0))
        rows.flush()
        assert factors.update("t", "k", lambda old: (old or b"") + b"1") == b"1"
        postgres.kill()
        for number in range(1, 1200):
            assert rows.add(JournalEntry(time=float(number)))
        assert factors.update("t", "k", lambda old: (old or b"") + b"2") in {b"2", b"12"}
        postgres.start()
        ends = time.monotonic() + 60
        while not database.flush() and time.monotonic() < ends:
            time.sleep(0.05)
        assert sorted(turn.time for _, turn in rows.turns(limit=2000)) == [float(number) for number in range(1200)]
        assert (rows.waiting, rows.lost) == (0, 0)
        assert factors.update("t", "k", lambda old: (old or b"") + b"3") == b"123"
    assert GATHER_SECONDS < COMMIT_SECONDS <= 0.25


def test_a_statement_has_a_time_limit(postgres_url: str) -> None:
    with (
        closing(PostgresDatabase(postgres_url, timeout=0.2)) as database,
        pytest.raises(PostgresError, match="timeout"),
    ):
        database.read("SELECT pg_sleep(60)")


def test_a_wrong_address_is_an_error_without_its_password() -> None:
    with pytest.raises(InputError, match=r"stores\.postgres") as caught:
        PostgresDatabase("postgresql://me:hunter2@host/name?nosuch=1")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(PostgresError, match="PostgreSQL at") as away:
        PostgresDatabase("postgresql://me:hunter2@127.0.0.1:1/name")
    assert "hunter2" not in str(away.value)


# ── factors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["file", "postgres"])
def open_factors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFactors]:
    opened: list[Any] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def open_(rows: int = 100) -> FactorStore:
        opened.append(PostgresDatabase(url) if url else TokenStore(tmp_path / "tokens.sqlite", factors=rows))
        return PostgresFactors(opened[-1], rows=rows) if url else opened[-1].factors

    yield open_
    for one in opened:
        one.close()


def test_no_change_of_a_factor_is_lost(open_factors: OpenFactors) -> None:
    def learn() -> None:
        factors = open_factors()
        for _ in range(25):
            factors.update("t", "model", lambda old: str(int(old or b"0") + 1).encode())

    threads = [threading.Thread(target=learn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_factors().get("t", ["model", "other"]) == {"model": b"100"}


def test_factors_of_tenants_and_a_change_that_fails(open_factors: OpenFactors) -> None:
    factors = open_factors()
    factors.update("one", "k", lambda _: b"1")
    factors.update("two\0", "k", lambda _: b"2")
    with pytest.raises(ZeroDivisionError):
        factors.update("one", "k", lambda _: bytes(1 // 0))
    assert [factors.get(tenant, ["k"]) for tenant in ("one", "two\0", "two")] == [{"k": b"1"}, {"k": b"2"}, {}]


def test_a_factor_is_read_again_after_some_seconds(postgres_url: str) -> None:
    clock = [1000.0]
    with closing(PostgresDatabase(postgres_url)) as one, closing(PostgresDatabase(postgres_url)) as two:
        reader, learner = PostgresFactors(one, clock=lambda: clock[0]), PostgresFactors(two)
        assert reader.get("t", ["k"]) == {}
        learner.update("t", "k", lambda _: b"1")
        assert reader.get("t", ["k"]) == {}
        clock[0] += FACTOR_SECONDS
        assert reader.get("t", ["k"]) == {"k": b"1"}
        assert reader.update("t", "k", lambda old: (old or b"") + b"2") == b"12"
        assert reader.get("t", ["k"]) == {"k": b"12"}
        clock[0] -= 100  # a clock that went back does not keep a factor for ever
        learner.update("t", "k", lambda _: b"3")
        assert reader.get("t", ["k"]) == {"k": b"3"}


def test_factors_are_bounded_and_large_tenants_make_room(open_factors: OpenFactors) -> None:
    factors = open_factors(rows=16)
    factors.update("small", "k", lambda _: b"1")
    for number in range(40):
        factors.update("large", f"k{number:02}", lambda _: b"1")
    stored = open_factors()
    assert stored.get("small", ["k"]) == {"k": b"1"}
    assert [*stored.get("large", [f"k{number:02}" for number in range(40)])] == [f"k{n:02}" for n in range(25, 40)]
