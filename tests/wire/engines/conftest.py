"""Fixtures of the tests of engines."""

from __future__ import annotations

import asyncio

import pytest

from penstock.testing import Reply, Upstream, play
from tests.wire.engines.certificates import certified
from tests.wire.engines.router_setup import VENDORS, asking, events, quick, router

__all__ = ["certified", "warmed"]


@pytest.fixture(scope="session", autouse=True)
def warmed(request: pytest.FixtureRequest) -> None:
    """The SDKs are imported once, before any test that has a limit on its waits, and only where they are used."""
    if not any(item.get_closest_marker("slow") for item in request.session.items):
        return

    async def scene() -> None:
        for provider, (protocol, _, _) in VENDORS.items():
            async with Upstream(Reply.of(protocol, play("text"))) as up:
                way = router(up)
                await events(await way.open(asking(provider), engine="sdk", options=quick(timeouts={"first_byte": 60})))
                await way.aclose()

    asyncio.run(scene())
