"""Recordings that are played by their server, in this process and without a socket."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from penstock._gateway.recordings import PlaybackApp

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.testing import Recording


@contextmanager
def playing(*recordings: Recording) -> Generator[httpx.Client]:
    app = PlaybackApp(recordings)
    with asyncio.Runner() as runner:

        def answer(request: httpx.Request) -> httpx.Response:
            return runner.run(_through(app, request))

        with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
            yield client


async def _through(app: PlaybackApp, request: httpx.Request) -> httpx.Response:
    transport: Any = httpx.ASGITransport(app)
    made = await transport.handle_async_request(httpx.Request(request.method, request.url, content=request.content))
    return httpx.Response(made.status_code, headers=made.headers, content=await made.aread())
