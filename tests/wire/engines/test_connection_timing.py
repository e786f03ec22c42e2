"""The phases of a connection to a provider, as the inspector tells them, with TLS and without."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.gateway import App, Inspector
from penstock.testing import Reply, Upstream, play, scripted
from tests.support.client_requests import ASKING
from tests.support.gateway import config

if TYPE_CHECKING:
    from tests.support.certificates import Papers

ANSWER = Reply.of("openai-chat", play("text"), stream=False)


class Watched:
    """A gateway in the loop of the test, and what its inspector says of each turn's attempts."""

    def __init__(self, url: str, **options: Any) -> None:
        lab = {"base_url": f"{url}/v1", "like": "openai-compatible", "models": ["m"], "options": options}
        inspector = Inspector(App(config(url, providers={"lab": lab}), env={}))
        self.app = inspector
        session = {"x-penstock-session-token": inspector.session_token}
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(inspector), base_url="http://127.0.0.1", headers=session
        )

    async def close(self) -> None:
        """The end of the gateway, as a server tells it."""
        told = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))

        async def receive() -> Any:
            return next(told)

        async def send(_: Any) -> None:
            pass

        await self.client.aclose()
        await self.app({"type": "lifespan"}, receive, send)

    async def timing(self) -> dict[str, Any] | int:
        """Asks. Returns the timing of the only attempt; the status if there was no answer."""
        path, body = ASKING["openai-chat"]("lab/m", False)
        reply = await self.client.post(path, json=body)
        if reply.status_code != 200:
            return reply.status_code
        turn = (await self.client.get(f"/inspector/turns/{reply.headers['x-request-id']}/request")).json()
        (attempt,) = turn["attempts"]
        return dict(attempt["attempt"]["timing"])


@pytest.mark.parametrize("secure", [False, True])
def test_every_phase_is_measured_once(certified: Papers, secure: bool) -> None:
    async def scene() -> None:
        async with Upstream(ANSWER, tls=certified.server if secure else None) as up:
            watched = Watched(up.url, ca_bundle=certified.ca)
            first, second = await watched.timing(), await watched.timing()
            assert isinstance(first, dict)
            assert isinstance(second, dict)
            assert first.get("reused", False) is False
            assert min(first["dns"], first["connect"]) >= 0
            assert (first["tls"] > 0) if secure else first.get("tls") is None
            assert second["reused"] is True
            assert [second.get(name) for name in ("dns", "connect", "tls")] == [None] * 3
            await watched.close()

    asyncio.run(scene())


def test_the_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(port: int) -> None:
        with closing(socket.socket()) as unused:
            unused.bind(("127.0.0.1", 0))  # it does not listen
            addresses = [unused.getsockname(), ("127.0.0.1", port)]

            async def resolve(*_: Any, **__: Any) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            for expected in (dict, int):
                watched = Watched(f"http://127.0.0.1:{port}")
                assert isinstance(await watched.timing(), expected)
                await watched.close()
                addresses.pop()

    with scripted(ANSWER) as up:
        asyncio.run(scene(int(up.url.rpartition(":")[2])))
