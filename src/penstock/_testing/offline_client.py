"""Clients for tests: every request goes to one server on this machine, without keys and without waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from penstock._client.api import Client
from penstock._client.sync_client import SyncClient
from penstock._engines.engine_pool import EnginePool
from penstock._engines.native import NativeEngine
from penstock._engines.router import Router
from penstock._testing.dialects import placeholder_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.engine_interface import HttpRequest, UpstreamRequest
    from penstock._engines.request_plan import RequestPlan
    from penstock._http.request_options import RequestOptions
    from penstock._http.response import UpstreamResponse

FORWARDED = "x-forwarded-host"


class RedirectEngine(NativeEngine):
    """Sends every request to one server, with the path of the provider. The host stands in `x-forwarded-host`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def send(
        self, out: HttpRequest, options: RequestOptions, job: UpstreamRequest | None = None
    ) -> UpstreamResponse:
        parts = urlsplit(out.url)
        target = f"{self._url}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        redirected = replace(out, url=target, headers={**out.headers, FORWARDED: parts.netloc})
        # Without the job, no head is prepared for later requests: it would have the provider's own host.
        return await super().send(redirected, replace(options, proxy="none"))


class UnsignedEnginePool(EnginePool):
    """One engine for all providers. Requests are not signed, so no key is needed."""

    def sign(self, upstream: UpstreamRequest, plan: RequestPlan) -> str:
        """Does nothing."""
        return ""


class OfflineRouter(Router):
    """A router for tests: one engine, no keys, no waits before a retry. It reads no variables of this machine."""

    def __init__(self, engine: NativeEngine, config: Any = None, env: Mapping[str, str] | None = None) -> None:
        settings = {**placeholder_settings(), **(env or {})}
        super().__init__(config, env=settings, sleep=skip_wait, chance=_no_jitter)
        self.engines = UnsignedEnginePool(self.config, self.env, {"native": engine, "sdk": engine})


async def skip_wait(_: float) -> None:
    """Stands in for the wait before a retry."""
    await asyncio.sleep(0)


def _no_jitter() -> float:
    return 0.0


def redirected_client(url: str, config: Any, options: Mapping[str, Any]) -> Client:
    """Returns a client whose every provider is the server at this URL."""
    rest = dict(options)
    return Client(router=OfflineRouter(RedirectEngine(url), config, rest.pop("env", None)), **rest)


def redirected_sync_client(url: str, config: Any, options: Mapping[str, Any]) -> SyncClient:
    """Returns the same without async."""
    rest = dict(options)
    return SyncClient(router=OfflineRouter(RedirectEngine(url), config, rest.pop("env", None)), **rest)
