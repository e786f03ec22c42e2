"""The providers' side of the gateway: router, client, prices, and the options that requests are opened with.

A reload replaces the router and everything that depends on the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._client.api import Client
from penstock._client.costs import PriceList
from penstock._client.turn_calls import TurnCall
from penstock._engines.config import Account, Config
from penstock._engines.model_resolution import REPLAY
from penstock._engines.request_plan import UrlFileFetcher
from penstock._engines.shared_targets import SharedTargets
from penstock._gateway.endpoints import LARGE_BODY, IncomingRequest, TurnRequest
from penstock._gateway.price_factors import PriceFactors
from penstock._http.request_options import RequestOptions
from penstock._media import RemoteFiles
from penstock._protocols import protocol
from penstock._providers.registry import Prices
from penstock._store.redis_notices import RedisNotices
from penstock.errors import InputError
from penstock.file_fetch import Fetcher, FetchLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.failure_policy import RouteObserver
    from penstock._engines.reply import ModelReply
    from penstock._engines.router import Router
    from penstock._gateway.callers import Caller
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.config_tables import PricesTable
    from penstock._gateway.request_body import ConversionThread
    from penstock._messages.options import ConvertOptions
    from penstock.stores import ReasoningStore

FREE = Prices(input=0.0, output=0.0)
_COMPLETIONS = ("completions", "fim")
MAX_RETRY_WAIT = 60.0  # seconds that all pauses before retries of a request may take, if the configuration sets none
STRICT_HEADER = "x-penstock-strict"  # asks to refuse a request that cannot be converted without loss


class GatewayPrices(PriceList):
    """The prices of models in a gateway. `table`: prices of its own, and the policy for models without a price."""

    def __init__(self, config: Config, table: PricesTable) -> None:
        super().__init__(config, table.models)
        self._table = table
        self.factors: PriceFactors = PriceFactors(table.factors)

    def limit_prices(self, provider: str, model: str) -> Prices | None:
        """Return the prices that a limit of cost counts with; None if there are none and the policy is to refuse."""
        found = self.prices(provider, model)
        if found is None and (provider == REPLAY or self._table.unknown == "free"):
            return FREE
        return found

    @property
    def refuses_unknown(self) -> bool:
        """Whether a request without a known price is refused where cost is limited."""
        return self._table.unknown == "refuse"

    def _find(self, provider: str, model: str) -> Prices | None:
        found = super()._find(provider, model)
        if found is not None and not found.input is found.output is None:
            return found
        return self._table.flat if self._table.unknown == "flat" and provider != REPLAY else None


class GatewayUpstream:
    """Opens requests at providers. `env` is the live environment: keys may be stored while the gateway runs."""

    config: GatewayConfig
    router: Router
    client: Client
    price_list: GatewayPrices

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
        self._notices = self._share_targets(config.stores.redis) if config.stores.redis else None

    def _share_targets(self, url: str) -> RedisNotices:
        """Share cool-downs and open circuits with other replicas."""
        notices = RedisNotices(url)
        notices.on_change = SharedTargets(notices, lambda: self.router).adopt
        return notices

    def start(self) -> None:
        """Begin what runs in the background, on the running loop."""
        if self._notices is not None:
            self._notices.start()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._notices is not None:
            await self._notices.aclose()
        await self.router.aclose()

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration from the next request on. Overrides of the fetch limits stay."""
        self._apply_config(config, self.router.renewed(engine_config(config)))
        old = self.fetch_limits
        self.fetch_limits = replace(fetch_limits(config), allow=old.allow, resolve=old.resolve, ports=old.ports)

    def _apply_config(self, config: GatewayConfig, router: Router) -> None:
        self.config, self.router = config, router
        self.client = Client(router=router, tracing=False)  # the gateway has its own spans
        self.price_list = GatewayPrices(router.config, config.prices)
        self._convert: ConvertOptions = {"store": self._store}
        if config.features.prompt_caching:
            self._convert["prompt_caching"] = True
        if config.features.context_management:
            self._convert["context_management"] = True

    async def open(
        self, incoming: IncomingRequest, turn_request: TurnRequest, watch: RouteObserver | None = None
    ) -> ModelReply:
        """Open a turn at a provider. Returns once the answer has begun; `watch` hears of retries before that."""
        fetch = self.config.fetch.requests
        return await self.router.open(
            turn_request.request,
            turn_request.operation,
            source=turn_request.source or turn_request.protocol,
            convert=self._convert_options(incoming),
            options=self.options(incoming),
            watch=watch,
            run=self._threads.run if len(incoming.raw) > LARGE_BODY else None,
            files=None if fetch == "off" else UrlFileFetcher(self.fetch_limits, fetch),
        )

    def _convert_options(self, incoming: IncomingRequest) -> ConvertOptions:
        convert: ConvertOptions = {**self._convert, "tenant": incoming.caller.tenant}
        if self._is_strict(incoming):
            convert["strict"] = True
        return convert

    def turn_call(self, incoming: IncomingRequest, turn_request: TurnRequest) -> TurnCall:
        """Return a turn as the response cache knows it: chats of all protocols are one operation."""
        operation = turn_request.operation if turn_request.operation in _COMPLETIONS else "chat"
        options = self.options(incoming) or RequestOptions()
        return TurnCall(turn_request.request, operation, "", options, "", self._convert_options(incoming))

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
