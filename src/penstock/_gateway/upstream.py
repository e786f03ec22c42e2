"""The providers' side of the gateway: router, client, prices, and the options that requests are opened with.

A reload replaces the router and everything that depends on the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._client.api import Client
from penstock._client.costs import PriceList
from penstock._engines.config import Account, Config
from penstock._engines.model_resolution import REPLAY
from penstock._engines.request_plan import UrlFileFetcher
from penstock._gateway.endpoints import LARGE_BODY, IncomingRequest, TurnRequest
from penstock._http.request_options import RequestOptions
from penstock._media import RemoteFiles
from penstock._protocols import protocol
from penstock.errors import InputError
from penstock.file_fetch import Fetcher, FetchLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.failure_policy import RouteObserver
    from penstock._engines.reply import ModelReply
    from penstock._engines.router import Router
    from penstock._gateway.callers import Caller
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.request_body import ConversionThread
    from penstock._messages.options import ConvertOptions
    from penstock.stores import ReasoningStore

MAX_RETRY_WAIT = 60.0  # seconds that all pauses before retries of a request may take, if the configuration sets none
STRICT_HEADER = "x-penstock-strict"  # asks to refuse a request that cannot be converted without loss


class GatewayUpstream:
    """Opens requests at providers. `env` is the live environment: keys may be stored while the gateway runs."""

    config: GatewayConfig
    router: Router
    client: Client
    price_list: PriceList

    def __init__(
        self,
        config: GatewayConfig,
        env: Mapping[str, str],
        store: ReasoningStore,
        threads: ConversionThread,
        router: Router,
    ) -> None:
        self.env = env
        self._store, self._threads = store, threads
        self._apply_config(config, router)
        self.fetch_limits: FetchLimits = fetch_limits(config)

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration from the next request on. Overrides of the fetch limits stay."""
        self._apply_config(config, self.router.renewed(engine_config(config)))
        old = self.fetch_limits
        self.fetch_limits = replace(fetch_limits(config), allow=old.allow, resolve=old.resolve, ports=old.ports)

    def _apply_config(self, config: GatewayConfig, router: Router) -> None:
        self.config, self.router = config, router
        self.client = Client(router=router, tracing=False)  # the gateway has its own spans
        self.price_list = PriceList(router.config)
        self._convert: ConvertOptions = {"store": self._store}
        if config.features.prompt_caching:
            self._convert["prompt_caching"] = True
        if config.features.context_management:
            self._convert["context_management"] = True

    async def open(
        self, incoming: IncomingRequest, turn_request: TurnRequest, watch: RouteObserver | None = None
    ) -> ModelReply:
        """Open a turn at a provider. Returns once the answer has begun; `watch` hears of retries before that."""
        caller: Caller = incoming.caller
        convert: ConvertOptions = {**self._convert, "tenant": caller.tenant}
        if self._is_strict(incoming):
            convert["strict"] = True
        fetch = self.config.fetch.requests
        return await self.router.open(
            turn_request.request,
            turn_request.operation,
            source=turn_request.source or turn_request.protocol,
            convert=convert,
            options=self.options(incoming),
            watch=watch,
            run=self._threads.run if len(incoming.raw) > LARGE_BODY else None,
            files=None if fetch == "off" else UrlFileFetcher(self.fetch_limits, fetch),
        )

    def stream_files(self, turn_request: TurnRequest) -> RemoteFiles | None:
        """Return what fetches files of an answer, for protocols that carry data and no addresses. Else None."""
        if not self.config.fetch.streams or not protocol(turn_request.protocol).inline_files:
            return None
        return RemoteFiles(Fetcher(self.fetch_limits), self.fetch_limits.files)

    def options(self, incoming: IncomingRequest) -> RequestOptions | None:
        """Return the options of a request: the caller's own provider key, if the configuration forwards it."""
        caller: Caller = incoming.caller
        return RequestOptions(key=caller.secret) if caller.secret else None

    def _is_strict(self, incoming: IncomingRequest) -> bool:
        """Return whether a conversion with losses is refused: by the request's header, else by the configuration."""
        value = incoming.headers.get(STRICT_HEADER)
        if value is None:
            return self.config.features.strict
        if value.lower() not in ("true", "false"):
            raise InputError(f"{STRICT_HEADER}: expected true or false, found {value!r}")
        return value.lower() == "true"


def fetch_limits(config: GatewayConfig) -> FetchLimits:
    """Return the limits of fetched files."""
    fetch = config.fetch
    return FetchLimits(size=fetch.size, seconds=fetch.seconds, redirects=fetch.redirects, files=fetch.files)


def engine_config(config: GatewayConfig) -> Config:
    """Return the engines' configuration, with the pace of packaged streams and the gateway's wait for retries.

    Pauses before retries may be longer than in the library: the gateway sends keep-alives meanwhile.
    """
    engine, timeouts = config.engine, config.engine.options.get("timeouts", {})
    if isinstance(timeouts, dict) and "retry_wait" not in timeouts:
        limits: dict[str, Any] = {"retry_wait": MAX_RETRY_WAIT, **timeouts}
        engine = replace(engine, options={**engine.options, "timeouts": limits})
    if config.serve.pace <= 0 or REPLAY in engine.providers:
        return engine
    return replace(engine, providers={**engine.providers, REPLAY: Account(settings={"pace": "natural"})})
