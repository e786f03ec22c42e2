"""PostgreSQL fails: answers of a commit are lost, the server ends, a statement hangs. Each turn is noted once."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.errors import PenstockError
from tests.support.client_requests import get, metric, post
from tests.support.openresponses import named
from tests.support.stores import Place, turn, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import PostgresServer


class CommitDropper:
    """A proxy that passes the first COMMIT after `armed` on to the server, and ends the connection before its answer."""

    def __init__(self, port: int) -> None:
        self.armed = self.dropped = False
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
                to_server = target.getpeername()[1] == self._server_port
                if self.armed and not self.dropped and to_server and b"COMMIT" in data:
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


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    with closing(CommitDropper(postgres.port)) as proxy:
        url = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/") + "?sslmode=disable&gssencmode=disable"
        behind = Place("postgres", tmp_path, url)
        place = Place("postgres", tmp_path, postgres_url)
        with behind.open() as running:
            place.wait_for(turn(running))
            proxy.armed = True
            ids = [turn(running) for _ in range(20)]
            place.wait_for(*ids)
            until(lambda: metric(running.url, "journal_waiting") == 0)
        assert proxy.dropped
    assert len(place.ids()) == 21


def test_rows_that_waited_are_written_when_the_server_is_back(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    place = Place("postgres", tmp_path, postgres_url)
    with place.open(named, stores={"keys_hold": 600}) as running:
        place.wait_for(turn(running))
        postgres.kill()
        ids = [turn(running) for _ in range(30)]
        body = {"model": "openai-chat/text", "input": "Hi."}
        stored = post(f"{running.url}/v1/responses", json=body).json()["id"]
        assert get(f"{running.url}/v1/responses/{stored}").status_code == 200, "from memory"
        assert metric(running.url, "journal_waiting") > 0
        postgres.start()
        place.wait_for(*ids)
        until(lambda: metric(running.url, "journal_waiting") == 0)
        assert metric(running.url, "journal_lost") == 0
    with place.open(named) as running:
        assert get(f"{running.url}/v1/responses/{stored}").status_code == 200


def test_what_cannot_be_written_at_the_end_is_counted_and_said(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place("postgres", tmp_path, postgres_url)
    with place.open(named) as running:
        place.wait_for(turn(running))
        postgres.stop()
        for _ in range(5):
            turn(running)
    postgres.start()
    assert "5 rows were not written and are lost" in caplog.text
    assert len(place.ids()) == 1


def test_a_statement_has_a_time_limit(tmp_path: Path, postgres_url: str) -> None:
    """The table is locked: a page of the history is an error soon, and turns do not wait."""
    place = Place("postgres", tmp_path, postgres_url)
    with place.open(stores={"postgres_timeout": 0.3}) as running:
        place.wait_for(turn(running))
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE penstock.turns IN ACCESS EXCLUSIVE MODE")
            assert get(f"{running.url}/inspector/usage?by=model").status_code >= 500
            name = turn(running)
        place.wait_for(name)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:hunter2@host/name?nosuch=1", "stores.postgres"),
        ("postgresql://me:hunter2@127.0.0.1:1/name", "PostgreSQL at 127.0.0.1:1/name"),
    ],
)
def test_a_wrong_address_is_an_error_without_its_password(tmp_path: Path, url: str, words: str) -> None:
    with pytest.raises((PenstockError, OSError)) as caught, Place("postgres", tmp_path, url).open():
        pass
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
