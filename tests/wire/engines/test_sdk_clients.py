"""The HTTP clients of the SDK engine: kept while they are used, closed by a timer when they are not."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from penstock._engines.sdk import SdkClientPool, SdkEngine
from penstock.errors import PenstockError
from tests.support.raw_upstream import LIMIT, raw_upstream
from tests.wire.engines.router_setup import asking, router, run, turn


def test_idle_connections_of_an_sdk_are_closed_without_another_request() -> None:
    async def scene() -> None:
        with raw_upstream() as up:
            way = router({}, providers={"openai": {"base_url": f"{up.url}/v1", "key": "k"}}, engine="sdk")
            sdk = way.engines.by_name["sdk"] = SdkEngine(idle_seconds=0.3)
            await asyncio.gather(*[turn(await way.open(asking(stream=False))) for _ in range(3)])
            assert len(up.requests) == 3
            opened = len(up.connections)
            for _ in range(opened):
                assert await asyncio.to_thread(up.closed.acquire, timeout=LIMIT)
            assert len(sdk.clients) == 0
            await turn(await way.open(asking(stream=False)))
            assert (len(up.requests), len(up.connections), len(sdk.clients)) == (4, opened + 1, 1)

    run(scene)


def test_a_failure_gives_the_client_back() -> None:
    async def scene() -> None:
        with raw_upstream() as up:
            url = up.url
        way = router({}, providers={"openai": {"base_url": f"{url}/v1", "key": "k"}}, engine="sdk", retries=0)
        sdk = way.engines.by_name["sdk"] = SdkEngine()
        with pytest.raises(PenstockError):  # the upstream is gone
            await way.open(asking(stream=False))
        (client,) = sdk.clients._open.values()
        assert client.users == 0

    run(scene)


def test_a_client_in_use_is_not_closed() -> None:
    async def scene() -> None:
        clients, key = SdkClientPool(idle_seconds=0.05), (asyncio.get_running_loop(),)
        one = clients.borrow(key, lambda: httpx.AsyncClient(verify=False))  # noqa: S501 — it asks nobody
        assert clients.borrow(key, lambda: None) is one
        clients.give_back(one)
        await asyncio.sleep(0.2)
        assert (len(clients), one.http.is_closed) == (1, False), "it has another user"
        clients.give_back(one)
        async with asyncio.timeout(LIMIT):
            while not one.http.is_closed:  # noqa: ASYNC110 — it has no event for it
                await asyncio.sleep(0.01)
        assert len(clients) == 0
        await clients.aclose()

    asyncio.run(scene())
