"""The long-lived objects of a gateway: access, limits, upstream, catalogue, telemetry, stores.

They are created once and closed once. Without a configuration the gateway serves packaged streams.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import _delta_templates as delta_templates
from penstock._engines.environ import live, stored_keys
from penstock._engines.router import Router
from penstock._gateway.access import Access, Revocations
from penstock._gateway.background_responses import BackgroundResponses
from penstock._gateway.byte_budget import ByteBudget
from penstock._gateway.callers import Caller, Refusal
from penstock._gateway.catalogue import ModelCatalogue
from penstock._gateway.config import GatewayConfig
from penstock._gateway.config_reload import ConfigStatus, ConfigWatcher, restart_settings
from penstock._gateway.daily_budget import DailyBudget
from penstock._gateway.editor_keys import EditorKeys
from penstock._gateway.error_responses import SHUTTING_DOWN, error_status
from penstock._gateway.journal import AuxRequest, refused_row
from penstock._gateway.known_secrets import KnownSecrets
from penstock._gateway.limit_stores import open_limit_store
from penstock._gateway.limit_usage import LimitGauges, LimitScope, list_scopes
from penstock._gateway.limits import CallerLimits, LimitSlot
from penstock._gateway.log_setup import TRACE, TRACE_NEEDS_CONTENT, TracedTurn, TraceLog, log_trace
from penstock._gateway.provider_layers import CustomProviders, CustomProvidersWatcher, merge_providers
from penstock._gateway.request_body import ConversionThread
from penstock._gateway.stored_response_reads import StoredResponseReads
from penstock._gateway.stream_resume import StreamResume
from penstock._gateway.telemetry import Telemetry
from penstock._gateway.token_estimates import TurnEstimates
from penstock._gateway.token_estimators import LimitWarning, TokenEstimators
from penstock._gateway.turn_cache import TurnCache
from penstock._gateway.upstream import GatewayUpstream, engine_config
from penstock._gateway.usage_bounds import TextInput, UsageBounds
from penstock._http.direct_response import SMALL_BODY
from penstock._providers.registry import ClientProfile, client, clients
from penstock._redaction import is_secret_name
from penstock._store.key_value import StoredResponses
from penstock._store.limit_store import RELEASED
from penstock._store.postgres import password_of
from penstock._store.recordings import RecordingHeader
from penstock.errors import StreamFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engines.config import Config
    from penstock._gateway.endpoints import IncomingRequest, TurnRequest
    from penstock._gateway.journal import Journal
    from penstock._gateway.metrics import Metrics
    from penstock._gateway.recordings import Recorder
    from penstock._http.response_writer import CancellableTask, ResponseWriter
    from penstock._store.limit_store import LimitRule
    from penstock.events import Fault
    from penstock.request import Request
    from penstock.stores import ReasoningStore

log = logging.getLogger("penstock.access")
MIN_SECRET_LENGTH = 8  # characters: shorter values of secret variables occur in ordinary text
_MAX_CLIENTS = 1000  # combinations of headers whose client program is cached


class Services:
    """All long-lived objects. `router` and `telemetry` replace those that the configuration would create."""

    def __init__(
        self,
        config: GatewayConfig | None = None,
        *,
        env: Mapping[str, str] | None = None,
        router: Router | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.config: GatewayConfig = config or GatewayConfig()
        self.started_with: GatewayConfig = self.config  # settings that a reload cannot change are compared with these
        delta_templates.enabled = self.config.features.fast_path
        self.env: Mapping[str, str] = live(env)  # read at every use: flags and stored keys may change
        router = self._load_providers(router)
        self.config_status: ConfigStatus = ConfigStatus()
        self.config_watcher: ConfigWatcher[Any] | None = None
        self.revision: int = 0  # changes of configuration and keys since the start
        self.access: Access = Access(self.config, self.env)
        self.known_secrets: KnownSecrets = KnownSecrets(self.env, self._list_secrets)
        self.revocations: Revocations = Revocations(self.access)
        self.websocket_bytes: ByteBudget = ByteBudget(self.config.serve.websocket_total)
        self.body_bytes: ByteBudget = ByteBudget(_body_total(self.config), SMALL_BODY)
        self.telemetry: Telemetry = telemetry or Telemetry(self.config, self.env, lambda: self.secrets)
        self.journal: Journal = self.telemetry.journal
        self.metrics: Metrics = self.telemetry.metrics
        self.limits: CallerLimits = self._open_limits()
        self.budget: DailyBudget = DailyBudget(self.journal, self.env)
        self.recorder: Recorder = self.telemetry.recorder
        self._open_stores()
        self._open_upstream(router)
        self.active: set[CancellableTask] = set()  # requests that are not answered yet
        self.closing: asyncio.Event = asyncio.Event()  # the server accepts no more requests
        self.stopped: bool = False  # unfinished answers have been ended
        self.ready: bool = True
        self.watch: Any = None  # the inspector's captures of turns, if there is an inspector
        self._warned_of_trace = False
        self._clients: dict[tuple[str | None, ...], ClientProfile] = {}
        self._client_headers = tuple({name for row in clients().values() for name in row.headers})
        self.limit_gauges: LimitGauges = LimitGauges(self.limits, self.list_limits, self.metrics.models.redact)
        self._register_metrics()

    def _load_providers(self, router: Router | None) -> Router:
        """Read what an admin or an editor adds to the providers. Return the router, a new one unless it is given."""
        self.editor_keys: EditorKeys = EditorKeys(self.env)
        self.custom_providers: CustomProviders = CustomProviders(self.config.data)
        watcher = CustomProvidersWatcher(self.custom_providers, self.apply_providers)
        self.custom_providers_watcher: CustomProvidersWatcher = watcher
        self.file_engine: Config = self.config.engine  # of the file, without what an admin or an editor adds
        if router is not None:
            return router
        self.config = replace(self.config, engine=self._merge_providers())
        return Router(engine_config(self.config), env=self.env, engines=_plain_engines(self.config))

    def _open_stores(self) -> None:
        self.reasoning_store: ReasoningStore = self.telemetry.state.reasoning
        self.response_store: StoredResponses = StoredResponses(self.telemetry.state.responses, lambda: uuid.uuid4().hex)
        self.background: BackgroundResponses = BackgroundResponses()
        self.resume: StreamResume = StreamResume(self.config)
        self.response_reads: StoredResponseReads = StoredResponseReads(
            self.telemetry.state, self.response_store, self.resume, self.config.stores
        )

    def _open_upstream(self, router: Router) -> None:
        self.conversion_thread: ConversionThread = ConversionThread()
        upstream = GatewayUpstream(self.config, self.env, self.reasoning_store, self.conversion_thread, router)
        self.upstream: GatewayUpstream = upstream
        self.cache: TurnCache = TurnCache(self.config, upstream)
        self.catalogue: ModelCatalogue = ModelCatalogue(self.upstream)
        self.estimators: TokenEstimators = TokenEstimators(self.config, self.telemetry.database)
        self.bounds: UsageBounds = UsageBounds(self.upstream, self.catalogue, self.estimators)
        self.estimates: TurnEstimates = TurnEstimates(self.config, self.estimators, self.journal.rows)

    def list_limits(self) -> Iterator[LimitScope]:
        """Yield everybody who has limits."""
        return list_scopes(self.access.ring, self.config)

    def _open_limits(self) -> CallerLimits:
        def read_past(rule: LimitRule) -> list[tuple[float, int]]:
            return self.telemetry.read_past_usage(rule, self.access.ring.team_keys)

        store, config = open_limit_store(self.config), self.config
        return CallerLimits(store, config.serve.streams, outage=config.stores.outage, read_past=read_past)

    def _register_metrics(self) -> None:
        metrics, upstream = self.metrics, self.upstream
        metrics.add_gauge("body_bytes", lambda: self.body_bytes.used)
        metrics.add_gauge("background", lambda: len(self.background))
        metrics.add_gauge("limits_lost", lambda: self.limits.store.lost)
        metrics.add_gauge("limits_unchecked", lambda: self.limits.unchecked)
        metrics.add_gauge("limits_hidden", lambda: self.limit_gauges.hidden)
        metrics.add_levels("limit_used", self.limit_gauges.used)
        metrics.add_levels("limit_most", self.limit_gauges.most)
        metrics.add_gauge("circuits_open", lambda: float(upstream.router.breakers.open_count()))
        metrics.add_gauge("cooling_targets", lambda: float(upstream.router.deployments.cooling_count()))
        metrics.add_counters("unlearned_turns", lambda: {(): self.estimates.dropped})
        metrics.add_counters("decisions", lambda: {(*key,): count for key, count in upstream.router.counts.items()})
        metrics.models.configured, metrics.models.listed = self.catalogue.is_configured, self.catalogue.is_listed

    # ── start and end ─────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Begin what runs in the background, on the running loop."""
        self.upstream.start()
        self.custom_providers_watcher.start()
        self.limit_gauges.refresh()

    async def aclose(self) -> None:
        """Close everything. All journal rows are written."""
        self.ready = False
        if self.config_watcher is not None:
            self.config_watcher.stop()
        self.custom_providers_watcher.stop()
        self.end_answers()
        await self.background.aclose()
        await self.resume.aclose()
        await self.cache.aclose()
        await self.upstream.aclose()
        await self.limit_gauges.aclose()
        await self.limits.aclose()
        self.telemetry.throttle.flush()
        await asyncio.to_thread(self._close_stores)

    def _close_stores(self) -> None:
        """Close what waits for disks or threads. Runs in a thread, not on the event loop."""
        self.conversion_thread.close()
        if self.watch is not None:
            self.watch.close_files()
        self.estimates.close()
        self.estimators.close()
        self.telemetry.close()
        self.access.ring.close()

    def end_answers(self) -> None:
        """End every unfinished answer with an error in its client's protocol, because the server stops."""
        self.stopped = True
        self.resume.stop()
        for request in list(self.active):
            request.cancel_with(SHUTTING_DOWN)

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration from the next request on. Listening addresses and storage paths stay."""
        self.access.reload(config)
        self.limits.max_open, self.limits.outage = config.serve.streams, config.stores.outage
        self.websocket_bytes.limit = config.serve.websocket_total
        self.body_bytes.limit = _body_total(config)
        old = self.config
        self.config_status = ConfigStatus(restart_needed=restart_settings(self.started_with, config))
        stores = replace(config.stores, postgres=old.stores.postgres, redis=old.stores.redis)
        self.config = replace(config, journal=old.journal, record=old.record, state=old.state, stores=stores)
        self.file_engine = config.engine
        self.apply_providers()
        self.resume.reload(self.config)
        self.cache.reload(self.config)
        self.estimates.enabled = config.features.estimates
        self._warned_of_trace = False

    def apply_providers(self) -> None:
        """Use the providers as an admin or an editor has changed them, from the next request on.

        Lists of models are read anew, and circuit breakers are closed again.
        """
        self.config = replace(self.config, engine=self._merge_providers())
        self.upstream.reload(self.config)
        self.known_secrets.refresh()
        self.metrics.models.clear()
        self.revision += 1

    def _merge_providers(self) -> Config:
        return merge_providers(self.file_engine, self.custom_providers, self.editor_keys)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that are known by value. They are redacted in everything that is written."""
        return self.known_secrets.values()

    def _list_secrets(self) -> tuple[str, ...]:
        """Return the secrets that are in use now."""
        accounts = self.config.engine.providers.values()
        keys = [key for account in accounts for _, key in account.configured_keys(self.env)]
        keys += [value for name, value in self.env.items() if is_secret_name(name)]
        keys += stored_keys(self.env).values()
        keys += [password_of(url) for url in (self.config.stores.postgres, self.config.stores.redis)]
        return (*self.access.ring.secrets, *(key for key in keys if len(key) >= MIN_SECRET_LENGTH))

    # ── admission ─────────────────────────────────────────────────────────────────────────────────

    def admit(self, scope: Any, incoming: IncomingRequest) -> None:
        """Set the caller of a request, or raise the refusal."""
        try:
            incoming.caller = self.access.admit(scope, incoming.headers)
        except Refusal as error:
            log.info("refused: %s", error.fault.message, extra={"status": error.status, "path": incoming.path})
            raise
        incoming.client = self._find_client(incoming.headers)
        incoming.services = self

    async def reserve_turn(self, incoming: IncomingRequest, request: Request) -> LimitSlot:
        """Take a slot for a turn, and reserve what it may use if the caller is limited; or raise the refusal."""
        incoming.caller.check_other_models(request)
        if self.budget.limit:
            await self._check_budget(incoming.caller, request.model)
        slot = self._take_slot(incoming, request.model)
        if slot.is_limited:
            try:
                await self.bounds.reserve_turn(slot, incoming, request)
            except BaseException:
                slot.release(RELEASED)
                raise
        return slot

    async def reserve_texts(self, incoming: IncomingRequest, model: str, input: TextInput) -> LimitSlot:
        """Do the same for a request that is not a turn, and has this input."""
        if self.budget.limit:
            await self._check_budget(incoming.caller, model)
        slot = self._take_slot(incoming, model)
        if slot.is_limited:
            try:
                await self.bounds.reserve_texts(slot, incoming, model, input)
            except BaseException:
                slot.release(RELEASED)
                raise
        return slot

    async def _check_budget(self, caller: Caller, model: str) -> None:
        """Raise the refusal if the caller's daily budget is used up and the model may cost something."""
        if self.budget.applies_to(caller) and not self.bounds.is_free(model):
            await self.budget.check()

    def _take_slot(self, incoming: IncomingRequest, model: str) -> LimitSlot:
        if self.stopped:
            raise StreamFault(SHUTTING_DOWN)
        caller: Caller = incoming.caller
        caller.check_model(model)
        return self.limits.take_slot(caller, incoming.id)

    def warn_of_limit(self, incoming: IncomingRequest, request: Request, out: ResponseWriter) -> LimitWarning | None:
        """Estimate a prompt that may be near its model's input limit. Most are far from it: then return None."""
        limit = self.catalogue.input_limit(request.model, request.settings.max_output)
        size = incoming.prompt_bytes
        if not LimitWarning.is_possible(size, limit.tokens):
            return None
        return LimitWarning(self.estimators, incoming.caller.tenant, request, limit, out, size)

    def record_refusal(self, incoming: IncomingRequest, protocol: str, fault: Fault) -> None:
        """Count and journal a request that was not admitted."""
        status = error_status(fault, protocol)
        self.metrics.count_refusal(status, fault.code or fault.kind)
        row = refused_row(incoming, protocol, status, fault, self.secrets)
        self.telemetry.throttle.write_row(row)
        incoming.log_row(row)
        if self.watch is not None:
            self.watch.on_refusal(incoming, fault, row)

    def _find_client(self, headers: dict[str, str]) -> ClientProfile:
        key = tuple(map(headers.get, self._client_headers))
        found = self._clients.get(key)
        if found is None:
            if len(self._clients) >= _MAX_CLIENTS:
                self._clients.clear()
            found = self._clients[key] = client(headers)
        return found

    # ── observation ───────────────────────────────────────────────────────────────────────────────

    def observe(self, turn: TracedTurn) -> Any:
        """Return what sees the reads of a turn: the inspector, the trace log, both, or None."""
        observer = self.watch.begin(turn) if self.watch is not None else None
        if not log_trace.isEnabledFor(TRACE) or not self._may_trace():
            return observer
        return TraceLog(turn, observer, self.secrets)

    def _may_trace(self) -> bool:
        """Return whether content may be logged. With gateway keys the configuration must allow it."""
        if self.config.log.content or not (self.access.keyed or self.config.forward):
            return True
        if not self._warned_of_trace:
            self._warned_of_trace = True
            log_trace.warning(TRACE_NEEDS_CONTENT)
        return False

    def record(self, incoming: IncomingRequest, turn_request: TurnRequest) -> Any:
        """Return the recording of a turn; None if the gateway does not record."""
        if self.recorder.folder is None:
            return None
        model, headers = turn_request.request.model, incoming.headers
        header = RecordingHeader(
            id=incoming.id, time=time.time(), url=incoming.path, model=model, request_headers=headers
        )
        return self.recorder.begin(header, incoming.raw, (incoming.caller.secret,))

    def finish_aux_request(self, incoming: IncomingRequest, http: int, size: int) -> None:
        """Journal a request that was not a turn, and free its slot."""
        aux_request: AuxRequest = incoming.aux_request
        row = aux_request.journal_row(incoming, http, size)
        if aux_request.slot is not None:
            usage = self.bounds.aux_usage(aux_request.slot, aux_request)
            dollars = self.upstream.price_list.dollars(row.provider, row.model, usage)
            self.bounds.settle_slot(aux_request.slot, usage, dollars)
        self.telemetry.add_turn(row, incoming, aux_request.record, throttle=aux_request.is_throttled)
        incoming.log_row(row)
        if self.watch is not None:
            self.watch.on_journal_row(row)


def _body_total(config: GatewayConfig) -> int:
    """Return the bytes that all bodies together may have. One body of the largest size always fits."""
    return max(config.serve.body_total, config.serve.body)


def _plain_engines(config: GatewayConfig) -> dict[str, Any]:
    """Return a native engine over plain aiohttp if `features.direct_http` is off."""
    if config.features.direct_http:
        return {}
    from penstock._engines.native import NativeEngine  # noqa: PLC0415 — aiohttp is loaded only when it is needed

    return {"native": NativeEngine(direct=False)}
