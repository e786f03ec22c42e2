"""Connections of the vendors' libraries: kept while they are used, closed by a timer when they are not."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import PenstockError
from penstock.testing import Upstream
from tests.support.raw_upstream import LIMIT, raw_upstream
from tests.support.routed_client import GOOD, KEY, RoutedClient, asking, events, quick, routed, staged, turn


@staged
async def test_idle_connections_of_an_sdk_are_closed_without_another_request() -> None:
    with raw_upstream() as up:
        account = {"base_url": f"{up.url}/v1", "key": KEY}
        way = RoutedClient({"providers": {"openai": account}, "engine": "sdk", "retries": 0})
        way.close_idle_after(0.3)
        with pytest.raises(PenstockError):  # a failure gives its client back, too
            await way.open(asking(stream=False), options={"proxy": "http://127.0.0.1:9"})
        await asyncio.gather(*[turn(await way.open(asking(stream=False))) for _ in range(3)])
        assert len(up.requests) == 3
        opened = len(up.connections)
        for _ in range(opened):
            assert await asyncio.to_thread(up.closed.acquire, timeout=LIMIT)
        await turn(await way.open(asking(stream=False)))
        assert (len(up.requests), len(up.connections)) == (4, opened + 1)


@staged
async def test_a_connection_in_use_is_not_closed() -> None:
    async with Upstream(GOOD.slow(0.05, max(1, len(GOOD.data) // 20)), GOOD) as up:
        way = routed(up, engine="sdk")
        way.close_idle_after(0.05)
        slow = await way.open(asking(), options=quick())
        await events(await way.open(asking(), options=quick()))
        assert type((await events(slow))[-1]).__name__ == "Finish", "it has another user"
