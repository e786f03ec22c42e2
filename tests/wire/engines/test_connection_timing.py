"""The phases of a connection are measured for a request whose observer asks for it, with TLS and without."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock._http.connection_timing import ConnectionTiming
from penstock._http.pool import UpstreamClient
from penstock._http.proxy_and_tls import load_tls_context
from penstock._http.request_options import RequestOptions
from penstock.errors import NetworkError
from penstock.testing import Reply, Upstream
from tests.wire.engines.router_setup import run

if TYPE_CHECKING:
    from tests.wire.engines.certificates import Papers


async def send(client: UpstreamClient, url: str, options: RequestOptions) -> ConnectionTiming:
    """One request, and how long its connection took."""
    if url.startswith("https"):
        await load_tls_context(options)
    prepared = client.prepare("POST", url, {}, options)
    assert prepared is not None
    timing = ConnectionTiming()
    response = await client.send_prepared(prepared, b"{}", options.timeouts, timing)
    assert await response.read_all() == b"{}"
    return timing


@pytest.mark.parametrize("secure", [False, True])
def test_every_phase_is_measured_once(certified: Papers, secure: bool) -> None:
    async def scene() -> None:
        async with Upstream(*[Reply.body({})] * 2, tls=certified.server if secure else None) as up:
            client, options = UpstreamClient(), RequestOptions(ca_bundle=(certified.ca,))
            first = await send(client, f"{up.url}/a", options)
            assert not first.reused
            assert 0 < first.connect_start <= first.resolved <= first.connected
            assert (first.secured >= first.connected) if secure else first.secured == 0
            second = await send(client, f"{up.url}/a", options)
            assert second.reused
            assert (second.connect_start, second.connected, second.secured) == (0, 0, 0)
            await client.aclose()

    run(scene)


def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Upstream(Reply.body({})) as up:
            with closing(socket.socket()) as unused:
                unused.bind(("127.0.0.1", 0))  # it does not listen
                addresses = [unused.getsockname(), ("127.0.0.1", int(up.url.rpartition(":")[2]))]

                async def resolve(*_: Any, **__: Any) -> list[Any]:
                    return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]

                monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
                client = UpstreamClient()
                timing = await send(client, f"{up.url}/a", RequestOptions())
                assert timing.connected > 0
                addresses.pop()
                with pytest.raises(NetworkError):
                    await send(UpstreamClient(), f"{up.url}/a", RequestOptions())
                await client.aclose()

    run(scene)
