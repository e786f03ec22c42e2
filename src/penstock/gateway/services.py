"""What an application leans on besides its doors: the router, who may come in, limits, journal, metrics, recordings.

Made once and closed once. Everything here can be left out: without a configuration packaged streams are played.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import delta_templates
from penstock.client.api import Client
from penstock.engines.config_problems import find_missing_keys
from penstock.engines.environ import live, stored_keys
from penstock.engines.model_resolution import DEFAULT_STREAM, REPLAY, is_pattern, known, targets
from penstock.engines.options import RequestOptions
from penstock.engines.request_plan import RequestFiles
from penstock.engines.router import Router
from penstock.errors import InputError, StreamFault
from penstock.fetch import Fetcher
from penstock.gateway.access import Access, Revocations
from penstock.gateway.aux_requests import turned_away
from penstock.gateway.background import Background
from penstock.gateway.byte_budget import ByteBudget
from penstock.gateway.callers import Refused
from penstock.gateway.catalogue import Catalogue
from penstock.gateway.config import GatewayConfig
from penstock.gateway.error_responses import STOPPING, status_of
from penstock.gateway.estimates import Estimates
from penstock.gateway.journal import PriceList
from penstock.gateway.limits import Limits
from penstock.gateway.logs import TRACE, TRACE_NEEDS_CONTENT, TraceLog, log_trace
from penstock.gateway.request_body import LARGE, ConversionThread
from penstock.gateway.telemetry import Kept
from penstock.gateway.turn import row_of
from penstock.gateway.upstream import body_total, engine_config, fetch_limits
from penstock.http.response_channel import SMALL
from penstock.protocols import protocol
from penstock.providers.registry import client, clients
from penstock.redaction import is_secret_name
from penstock.store.key_value import Responses
from penstock.store.recordings import Header
from penstock.transforms.remote_files import RemoteFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.model_resolution import Target
    from penstock.engines.reply import Reply
    from penstock.engines.retries import Watch
    from penstock.events import Fault
    from penstock.gateway.aux_requests import Errand
    from penstock.gateway.callers import Caller
    from penstock.gateway.endpoints import Asked, Visit
    from penstock.gateway.limits import Ticket
    from penstock.gateway.turn import Turn
    from penstock.http.disconnect import Stoppable
    from penstock.messages import ConvertOptions
    from penstock.providers.registry import ClientProfile as Row
    from penstock.stores import ReasoningStore
    from penstock.tokens import HybridTokenEstimator

log = logging.getLogger("penstock.access")
log_turns = logging.getLogger("penstock.gateway")
DEFAULT = "default"  # the alias for requests that name no model
SHORT = 8  # letters: a value of fewer, in a variable whose name tells of a secret, would be found everywhere
_KNOWN = 1000  # clients whose headers are remembered
STRICT = "x-penstock-strict"  # the header that asks to refuse what cannot be carried


class Services:
    """All of them. Whichever is given is used in place of the configuration's own."""

    def __init__(
        self, config: GatewayConfig | None = None, *, env: Mapping[str, str] | None = None,
        router: Router | None = None, kept: Kept | None = None,
    ) -> None:  # fmt: skip
        self.config = config or GatewayConfig()
        delta_templates.enabled = self.config.features.fast_path
        self.env = live(env)  # as it is now: flags may be flipped, keys stored
        self.router = router or Router(engine_config(self.config), env=self.env)
        self.client = Client(router=self.router)
        self.price_list = PriceList(self.router.config)
        self.access = Access(self.config, self.env)
        self.revocations = Revocations(self.access)
        self.websocket_bytes = ByteBudget(self.config.serve.websocket_total)
        self.body_bytes = ByteBudget(body_total(self.config), SMALL)
        self.limits = Limits(time.time, self.config.serve.streams)
        self.kept = kept or Kept(self.config, self.env, lambda: self.secrets)
        self.journal, self.metrics, self.recorder = self.kept.journal, self.kept.metrics, self.kept.recorder
        self.state: ReasoningStore = self.kept.state.reasoning
        self.responses = Responses(self.kept.state.responses, lambda: uuid.uuid4().hex)
        self.background = Background()
        self.conversions = ConversionThread()
        self.answering: set[Stoppable] = set()  # tasks that owe a client an answer
        self.closing = asyncio.Event()  # the server takes no more requests
        self.stopped = False  # and gives none that is unfinished any more time
        self.watch: Any = None  # whoever looks at turns as they go by; the inspector's
        self.estimates = Estimates(self.config, self.journal.rows)
        self.metrics.gauge(
            "penstock_body_bytes", "Bytes of requests over HTTP that are held.", lambda: float(self.body_bytes.used)
        )
        self.metrics.gauge("penstock_background", "Responses made in the background.", lambda: len(self.background))
        self.metrics.gauge(
            "penstock_circuits_open", "Circuits that are open now.", lambda: float(self.router.breakers.open_count())
        )
        self.kept.seed(self.limits)
        self.metrics.counts(
            "penstock_decisions_total", "What was decided on the way.", ("what", "code", "provider"),
            lambda: {(*key,): float(count) for key, count in self.router.counts.items()},
        )  # fmt: skip
        self.catalogue = Catalogue(self)
        self.metrics.models.configured, self.metrics.models.listed = self._configured, self.catalogue.lists
        self._secrets: tuple[str, ...] | None = None
        self._stored: dict[str, str] = {}  # stored keys of providers that are among the secrets
        self._named: set[tuple[str, str]] | None = None  # models that the configuration names
        self.ready = True
        self._convert = self._converting()
        self.fetch_limits = fetch_limits(self.config)
        self._warned_of_trace = False
        self._clients: dict[tuple[str, ...], Row] = {}
        self._heads = tuple({name for row in clients().values() for name in row.headers})

    async def aclose(self) -> None:
        """Let go of all of them; what the journal was given is written."""
        self.ready = False
        self.end_answers()
        await self.background.aclose()
        await self.router.aclose()
        self.kept.sparing.flush()
        await asyncio.to_thread(self._close_stores)

    def _close_stores(self) -> None:
        """Waits for disks, and for what is being estimated: not for the event loop."""
        self.conversions.close()
        self.estimates.close()
        self.kept.close()

    def end_answers(self) -> None:
        """The server stops: every answer that is not whole ends with an error in its client's dialect."""
        self.stopped = True
        for one in list(self.answering):
            one.end_with(STOPPING)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys that are known by value: to be kept out of everything that is written."""
        stored = stored_keys(self.env)
        # Looked for once: the environment is large, and a row is written for every turn.
        if self._secrets is None or stored != self._stored:
            self._stored = dict(stored)
            accounts = self.config.engine.providers.values()
            own = [account.key or self.env.get(account.env, "") for account in accounts]
            theirs = [value for name, value in self.env.items() if is_secret_name(name)]
            every = (*own, *theirs, *self._stored.values())
            self._secrets = (*self.access.secrets, *(key for key in every if len(key) >= SHORT))
        return self._secrets

    def reload(self, config: GatewayConfig) -> None:
        """Another configuration, from the next request on. Where we listen, and where things are kept, stays."""
        self.access.reload(config)
        self.limits.most = config.serve.streams
        self.websocket_bytes.limit = config.serve.websocket_total
        self.body_bytes.limit = body_total(config)
        self.config = replace(config, journal=self.config.journal, record=self.config.record, state=self.config.state)
        self.router = self.router.renewed(engine_config(config))
        self._secrets = None
        self.metrics.models.clear()
        self._named = None
        self.client = Client(router=self.router)
        self.price_list = PriceList(self.router.config)
        self._convert = self._converting()
        self.fetch_limits = replace(
            fetch_limits(config), allow=self.fetch_limits.allow, resolve=self.fetch_limits.resolve,
            ports=self.fetch_limits.ports,
        )  # fmt: skip
        self._warned_of_trace = False

    # ── who asks ──────────────────────────────────────────────────────────────────────────────────

    def admit(self, scope: Any, visit: Visit) -> None:
        """Let a visit in, or raise why not."""
        try:
            visit.caller = self.access.admit(scope, visit.headers)
        except Refused as error:
            log.info("refused: %s", error.fault.message, extra={"status": error.status, "path": visit.path})
            raise
        visit.client = self._client(visit.headers)
        visit.services = self

    def enter(self, visit: Visit, model: str) -> Ticket:
        """A place for a turn, or the refusal of one."""
        if self.stopped:
            raise StreamFault(STOPPING)
        caller: Caller = visit.caller
        caller.check(model)
        return self.limits.enter(caller, model)

    def _client(self, headers: dict[str, str]) -> Row:
        key = tuple([headers.get(name, "") for name in self._heads])
        found = self._clients.get(key)
        if found is None:
            if len(self._clients) >= _KNOWN:
                self._clients.clear()
            found = self._clients[key] = client(headers)
        return found

    # ── what is asked ─────────────────────────────────────────────────────────────────────────────

    async def open(self, visit: Visit, asked: Asked, watch: Watch | None = None) -> Reply:
        """The answer, once it has begun. `watch` is told what goes on before that."""
        caller: Caller = visit.caller
        convert: ConvertOptions = {**self._convert, "tenant": caller.tenant}
        if self._strict(visit):
            convert["strict"] = True
        source = asked.source or asked.protocol
        return await self.router.open(
            asked.request, asked.operation, source=source, convert=convert, options=self.options(visit),
            watch=watch, run=self.conversions.run if len(visit.raw) > LARGE else None, files=self._request_files(),
        )  # fmt: skip

    def _request_files(self) -> RequestFiles | None:
        """What fetches the files of a request, if anything does."""
        when = self.config.fetch.requests
        return None if when == "off" else RequestFiles(self.fetch_limits, when)

    def stream_files(self, asked: Asked) -> RemoteFiles | None:
        """What fetches the files of an answer, if anything does: for the editor, which shows data and no addresses."""
        if not self.config.fetch.streams or not protocol(asked.protocol).inline_files:
            return None
        return RemoteFiles(Fetcher(self.fetch_limits), self.fetch_limits.files)

    def _strict(self, visit: Visit) -> bool:
        """Whether a loss that changes the result is refused: by a header of the request, else by the configuration."""
        said = visit.headers.get(STRICT)
        if said is None:
            return self.config.features.strict
        if said.lower() not in ("true", "false"):
            raise InputError(f"{STRICT}: expected true or false, found {said!r}")
        return said.lower() == "true"

    def options(self, visit: Visit) -> RequestOptions | None:
        """What goes for the requests of a visit: the key that its caller brought, where that is passed on."""
        caller: Caller = visit.caller
        return RequestOptions(key=caller.secret) if caller.secret else None

    @cached_property
    def estimator(self) -> HybridTokenEstimator:
        """What counts tokens where no provider does; its tables are read when they are first needed."""
        from penstock.tokens import HybridTokenEstimator  # noqa: PLC0415 — most requests need no count

        return HybridTokenEstimator()

    @cached_property
    def _thread_estimator(self) -> HybridTokenEstimator:
        """For large requests, which are counted in a thread: what an estimator remembers is not shared with one."""
        from penstock.tokens import HybridTokenEstimator  # noqa: PLC0415 — most requests need no count

        return HybridTokenEstimator()

    def estimator_for(self, visit: Visit) -> HybridTokenEstimator:
        """The estimator for a count that `visit.offload` makes."""
        return self._thread_estimator if len(visit.raw) > LARGE else self.estimator

    @property
    def default(self) -> str:
        """The model of a request that names none: the alias `default`, else the first alias or model there is.

        With nothing configured a packaged stream is played.
        """
        config = self.router.config
        if DEFAULT in config.aliases:
            return DEFAULT
        said = (f"{name}/{one}" for name, account in config.providers.items() for one in account.models)
        first = next(iter([*(name for name in config.aliases if not is_pattern(name)), *said]), "")
        if first or config.aliases or known(config, self.router.env):
            return first or DEFAULT
        return f"{REPLAY}/{DEFAULT_STREAM}"

    def means(self, model: str) -> bool:
        """Whether a name means anybody."""
        try:
            targets(model, self.router.config, self.env)
        except InputError:
            return False
        return True

    def lacks_keys(self) -> bool:
        """Whether a provider or alias of the configuration cannot be asked because its key is missing.

        A gateway with nothing configured lacks none: it plays packaged streams. Callers may bring keys of their own.
        """
        return not self.config.forward and bool(find_missing_keys(self.router.config, self.router.env))

    def _configured(self, provider: str, model: str) -> bool:
        """Whether a model is named in the configuration: listed under its provider, or meant by an alias."""
        if self._named is None:
            config = self.router.config
            self._named = {(name, one) for name, account in config.providers.items() for one in account.models}
            for name in (*config.aliases, *config.fallbacks):
                self._named |= {(target.provider.name, target.model) for target in self._meant(name)}
        return (provider, model) in self._named

    def _meant(self, name: str) -> list[Target]:
        try:
            return targets(name, self.router.config, self.env)
        except InputError:
            return []

    def tap(self, turn: Turn) -> Any:
        """What sees the reads of a turn go by: the inspector, the log at level trace, both, or nothing."""
        tap = self.watch.begin(turn) if self.watch is not None else None
        if not log_trace.isEnabledFor(TRACE) or not self._may_trace():
            return tap
        return TraceLog(turn, tap, self.secrets)

    def _may_trace(self) -> bool:
        """Whether content may be written to the log: with gateway keys, only if the configuration says so."""
        if self.config.log.content or not (self.access.keyed or self.config.forward):
            return True
        if not self._warned_of_trace:
            self._warned_of_trace = True
            log_trace.warning(TRACE_NEEDS_CONTENT)
        return False

    def tape(self, visit: Visit, asked: Asked) -> Any:
        """What records this turn, if anything does."""
        tape = self.recorder.begin(
            Header(
                id=visit.id, time=time.time(), url=visit.path, model=asked.request.model, request_headers=visit.headers
            ),
            (visit.caller.secret,),
        )
        if tape is not None:
            tape.request(visit.raw)
        return tape

    def _converting(self) -> ConvertOptions:
        features = self.config.features
        made: ConvertOptions = {"store": self.state}
        if features.prompt_caching:
            made["prompt_caching"] = True
        if features.context_management:
            made["context_management"] = True
        return made

    # ── what there was ────────────────────────────────────────────────────────────────────────────

    def note(self, turn: Turn) -> None:
        """A turn is over: its place is free, its row is written."""
        row = row_of(turn)
        if row.malformed:
            log_turns.warning(
                "%s: %d malformed frames from %s were left out", row.request_id, row.malformed, row.provider
            )
        if turn.ticket is not None:
            turn.ticket.leave(turn.reply.usage if turn.reply is not None else None, row.cost or 0.0)
        if turn.tape is not None:
            turn.tape.close()
        self.kept.note(row, turn.visit.headers, sparing=turn.ticket is None)
        self.estimates.note(turn, row)
        if turn.tap is not None:
            turn.tap.on_end(turn, row)
        if self.watch is not None:
            self.watch.on_journal_row(row)

    def ran(self, visit: Visit, http: int, size: int) -> None:
        """What is no turn is over."""
        errand: Errand = visit.errand
        row = errand.row(visit, http, size)
        errand.leave(row.cost or 0.0)
        self.kept.note(row, visit.headers, sparing=errand.sparing)
        if self.watch is not None:
            self.watch.on_journal_row(row)

    def away(self, visit: Visit, protocol: str, fault: Fault) -> None:
        """A request was not let in."""
        status = status_of(fault, protocol)
        self.metrics.refused(status, fault.code or fault.kind)
        self.kept.sparing.note(turned_away(visit, protocol, status, fault))
