"""The places where gateways keep things, one for each test, and one Redis for all."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests.support.servers import RedisServer
from tests.support.stores import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def make_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    return Place(request.param, folder, url)


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return make_place(request, tmp_path)


@pytest.fixture(params=["file", "postgres"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place that outlives its gateways."""
    return make_place(request, tmp_path)


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """A Redis that is empty. Who stops it starts it again."""
    client: Any = redis.Redis(port=shared_redis.port)
    with client:
        client.flushall()
    return shared_redis
