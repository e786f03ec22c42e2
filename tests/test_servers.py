"""The real servers that tests start: they answer, and keep their data over a restart."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection

import psycopg
import pytest
import redis

from tests.support.servers import HOST, NginxServer, PostgresServer, RedisServer

pytestmark = pytest.mark.row("Q1")


@pytest.mark.slow
def test_redis_keeps_its_data_over_a_restart() -> None:
    with closing(RedisServer()) as server:
        server.start()
        with redis.Redis(port=server.port) as client:
            client.set("level", "3.2")
        server.stop()
        assert not server.answers()
        server.start()
        with redis.Redis(port=server.port) as client:
            assert client.get("level") == b"3.2"


@pytest.mark.slow
def test_postgres_keeps_its_data_over_a_restart() -> None:
    with closing(PostgresServer()) as server:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as client:
            client.execute("CREATE TABLE gauge (level real)")
            client.execute("INSERT INTO gauge VALUES (3.5)")
        server.kill()
        server.start()
        with psycopg.connect(server.url) as client:
            assert client.execute("SELECT level FROM gauge").fetchall() == [(3.5,)]


@pytest.mark.slow
def test_nginx_answers() -> None:
    with closing(NginxServer([1], more="return 200 'here';")) as server:
        server.start()
        client = HTTPConnection(HOST, server.port, timeout=10)
        client.request("GET", "/")
        assert client.getresponse().read() == b"here"
        client.close()
