"""Sends a request to its targets: retries, falls back to the next target, records each decision with its reason.

A request is sent again, or to another target, only before the first content of its answer. After that, `ModelReply`
handles failures. `request_plan` says what is sent, `engine_pool` which engine sends it, `retries` whether to try again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._engines import failure_policy, request_plan
from penstock._engines.config import Config
from penstock._engines.engine_interface import INFO_KINDS, Decision, DecisionKind, DecisionLog
from penstock._engines.engine_pool import EnginePool
from penstock._engines.environ import live
from penstock._engines.reply import ModelReply
from penstock._engines.request_plan import RequestPlan, RoutedRequest
from penstock._protocols import DEFAULT
from penstock._redaction import redact
from penstock.errors import InvalidRequest, ProviderError, TooLarge, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping

    from penstock._engines.engine_interface import Engine, UpstreamRequest
    from penstock._engines.failure_policy import RouteObserver
    from penstock._engines.model_resolution import Target
    from penstock._engines.request_plan import RunInThread, UrlFileFetcher
    from penstock._http.request_options import RequestOptions
    from penstock._messages.options import ConvertOptions
    from penstock.request import Request


T = TypeVar("T")
log = logging.getLogger("penstock.routing")


@dataclass(slots=True)
class RoutedCall(Generic[T]):
    """A call while its targets are tried. `attempt` sends it to a target, in the seconds that are left."""

    attempt: Callable[[Target, DecisionLog, float], Awaitable[T]]
    options: RequestOptions | None
    observer: RouteObserver | None
    record: DecisionLog
    deadline: float  # by the monotonic clock


class Router:
    """Routes the requests of a process. Keeps connections, tokens, circuits and counts.

    `counts` holds the number of decisions by kind, code and provider. `env` is read for each request.
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        engines: Mapping[str, Engine] | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.config: Config = Config.read(config)
        self.env: Mapping[str, str] = live(env)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.breakers: failure_policy.CircuitBreakers = failure_policy.CircuitBreakers(
            time.monotonic, self.config.breaker
        )
        self.engines: EnginePool = EnginePool(self.config, self.env, dict(engines or {}))
        self.missing: failure_policy.MissingEndpoints = failure_policy.MissingEndpoints()
        self._on_decision = on_decision
        self._observers: list[Callable[[Decision], None]] = []
        self._cache = request_plan.PlanCache(self.config, self.env)
        self._sleep, self._chance = sleep, chance

    def renewed(self, config: Config | Mapping[str, Any] | None) -> Router:
        """Returns a router with another configuration and the same connections and counts. Open requests keep this."""
        result = Router(config, env=self.env, on_decision=self._on_decision, sleep=self._sleep, chance=self._chance)
        result.counts, result.missing, result._observers = self.counts, self.missing, self._observers
        result.engines.by_name = self.engines.by_name
        return result

    def add_observer(self, on_decision: Callable[[Decision], None]) -> None:
        """Calls a function with each decision from now on."""
        self._observers.append(on_decision)

    def remove_observer(self, on_decision: Callable[[Decision], None]) -> None:
        """Undoes `add_observer`."""
        if on_decision in self._observers:
            self._observers.remove(on_decision)

    async def aclose(self) -> None:
        """Closes all connections."""
        await self.engines.aclose()

    # ── one attempt ───────────────────────────────────────────────────────────────────────────────

    async def open(
        self,
        request: Request,
        operation: str = "chat",
        *,
        source: str = DEFAULT,
        engine: str = "",
        options: RequestOptions | None = None,
        convert: ConvertOptions | None = None,
        watch: RouteObserver | None = None,
        run: RunInThread | None = None,
        files: UrlFileFetcher | None = None,
    ) -> ModelReply:
        """Returns the reply to a turn once its first content has arrived. Raises if no target answers.

        `run` runs the slow work of a large request, for example in a thread; without it the work runs inline. `files`
        fetches the files that a request names by URL, for targets that do not take URLs.
        """
        run = run or request_plan.run_inline
        convert = await request_plan.load_state(request, source, convert or {}, run)
        turn = RoutedRequest(request, operation, source, engine, options, convert, watch, run, files)
        # Not a nested function that calls itself: that is a reference cycle, which keeps the turn in memory.
        return await self._try_targets(request.model, options, partial(self._attempt, turn), watch)

    async def _attempt(self, turn: RoutedRequest, target: Target, record: DecisionLog, left: float) -> ModelReply:
        """Makes one attempt at a target. If the server lacks the endpoint, uses another operation."""
        try:
            return await self._send_turn(turn, target, record, left)
        except ProviderError as error:
            learned = self._learn_missing(error, target, turn.operation, record)
            if not learned:
                raise
        try:
            return await self._send_turn(turn, target, record, left)
        except ProviderError as error:
            if failure_policy.is_missing_endpoint(error):  # both are missing: the URL is wrong
                self.missing.forget(target.provider, learned)
            raise

    async def _send_turn(self, turn: RoutedRequest, target: Target, record: DecisionLog, left: float) -> ModelReply:
        """Plans, builds and sends a request. Shortens a conversation that is too long, once."""
        known = self.missing.known(target.provider, turn.operation)
        other = self.missing.substitute(target.provider, target.model, turn.operation) if known else ""
        plan = self._cache.plan(target, other or turn.operation, turn.options, left, stream=turn.request.stream)
        request = turn.request if turn.files is None else await turn.files.fill(turn.request, plan)
        upstream = await turn.build(request, plan, turn.convert)
        if plan.operation_reason:
            self._record(record, "operation", upstream.operation, plan.operation_reason, target)
        elif other:
            self._record(record, "operation", other, f"{target.provider.name} has no {turn.operation}", target)
        try:
            return await self._reply(turn, upstream, plan, target, record)
        except TooLarge as error:
            if not turn.convert.get("context_management") or upstream.cleared is not None:
                raise
            upstream = await turn.build(request, plan, {**turn.convert, "overflow": True})
            if upstream.cleared is None:
                raise
            why = f"shortened from about {upstream.cleared.before} to {upstream.cleared.after} tokens: {error}"
            self._record(record, "retry", "context", why, target)
        return await self._reply(turn, upstream, plan, target, record)

    async def _reply(
        self, turn: RoutedRequest, upstream: UpstreamRequest, plan: RequestPlan, target: Target, record: DecisionLog
    ) -> ModelReply:
        """Signs and sends a request. Returns the reply once it has begun.

        If the provider refuses a field that penstock added, sends the request again without the field.
        """
        if turn.observer is not None:
            turn.observer.request_built(upstream)
        engine = self._prepare(upstream, plan, target, record, turn.engine)
        try:
            source = await engine.open(upstream)
        except InvalidRequest as error:
            field = request_plan.drop_optional_field(upstream, error)
            if not field:
                raise
            self._record(record, "retry", "field", f"without {field}: {error}", target)
            source = await engine.open(upstream)
        reply = ModelReply(source, upstream, record, engine.name)
        await reply.begin()
        why = f"{engine.name} is answering, status {reply.status}"
        self._record(record, "open", engine.name, why, target, engine=engine.name)
        return reply

    def _learn_missing(self, error: ProviderError, target: Target, operation: str, record: DecisionLog) -> str:
        """Remembers that the server lacks the endpoint of an operation. Returns the operation; else an empty text."""
        row = target.provider
        if self.missing.known(row, operation) or not failure_policy.is_missing_endpoint(error):
            return ""
        other = self.missing.substitute(row, target.model, operation)
        # A target without an endpoint for the operation was sent another operation already.
        if not other or not row.endpoint(operation, target.model):
            return ""
        self.missing.learn(row, operation)
        record.tries += 1
        why = f"{row.name} has no {operation}, {other} is asked in its place: {error}"
        self._record(record, "fallback", "no-endpoint", why, target)
        return operation

    async def fetch(
        self,
        model: str | Target,
        operation: str,
        body: Callable[[Target, str], dict[str, Any]],
        *,
        engine: str = "",
        options: RequestOptions | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[UpstreamRequest, bytes, DecisionLog]:
        """Sends a request that is not a turn. `body` returns the body for a target and its endpoint's protocol.

        `headers` are the client's; those that the provider's row names are forwarded.
        """

        async def attempt(
            target: Target, record: DecisionLog, left: float
        ) -> tuple[UpstreamRequest, bytes, DecisionLog]:
            chosen = self._cache.options(target, options, left)
            _, endpoint, _ = request_plan.find_endpoint(target, operation)
            account = self.config.account(target.provider.name)
            upstream = request_plan.start_request(
                target, operation, endpoint, options=chosen, account=account, env=self.env
            )
            fields = body(target, endpoint.protocol)
            accepted = {name: value for name, value in fields.items() if name not in endpoint.drop}
            upstream.body = request_plan.merge_bodies(accepted, upstream.body, chosen.extra_body)
            request_plan.forward_headers(upstream, headers or {})
            sender = self._prepare(upstream, RequestPlan(template=upstream), target, record, engine)
            _, data = await sender.fetch(upstream)
            self._record(record, "open", sender.name, f"{sender.name} has answered", target, engine=sender.name)
            return upstream, data, record

        return await self._try_targets(model, options, attempt)

    # ── retries and fallbacks ─────────────────────────────────────────────────────────────────────

    async def _try_targets(
        self,
        name: str | Target,
        options: RequestOptions | None,
        attempt: Callable[[Target, DecisionLog, float], Awaitable[T]],
        watch: RouteObserver | None = None,
    ) -> T:
        """Tries the targets of a name in order. Returns the first result."""
        record = DecisionLog(name if isinstance(name, str) else name.provider.name)
        deadline = time.monotonic() + self._cache.total_timeout(options)
        call = RoutedCall(attempt, options, watch, record, deadline)
        failed: list[ProviderError] = []
        targets = self._cache.targets(name) if isinstance(name, str) else [name]
        for number, target in enumerate(targets, 1):
            self._record(record, "route", "first" if number == 1 else "next", target.why, target)
            try:
                return await self._try_target(call, target, alternative=number < len(targets))
            except ProviderError as error:
                error.provider, error.model = error.provider or target.provider.name, error.model or target.model
                error.attempts = [*failed, *error.attempts]
                if number == len(targets) or not failure_policy.may_fall_back(error):
                    self._record(record, "give-up", error.kind, f"no more to try after: {error}", target)
                    raise
                following = targets[number].provider.name
                self._record(record, "fallback", error.kind, f"{following} is next: {error}", target)
                failed = [*error.attempts, _without_frames(error)]
        raise AssertionError  # the last target returned or raised

    async def _try_target(self, call: RoutedCall[T], target: Target, *, alternative: bool) -> T:
        """Tries one target until it answers or a retry is pointless. `alternative`: another target follows."""
        row, record = target.provider, call.record
        circuit = failure_policy.CircuitKey.of(
            row.name, target.model, call.options.key if call.options is not None else ""
        )
        self._check_circuit(target, circuit, record, alternative=alternative)
        failed: list[ProviderError] = []
        while True:
            record.tries += 1
            try:
                result = await call.attempt(target, record, call.deadline - time.monotonic())
            except ProviderError as error:
                self.breakers.record_failure(circuit, error.kind, str(error))
                error.attempts = list(failed)
                tries = len(failed) + 1
                wait = failure_policy.compute_retry_delay(error, tries, row.retry, self._chance)
                why = self._reason_to_stop(call, target, error, tries, wait)
                if not why and not self.breakers.take_retry(circuit):
                    why = "the budget of retries is spent"
                if why:
                    self._record(record, "give-up", error.kind, f"{why}: {error}", target)
                    raise
                failed.append(_without_frames(error))
                wait = wait or 0.0
                self._record(record, "retry", error.kind, f"after {wait:.2f} s: {error}", target, wait=wait)
                if call.observer is not None:
                    await call.observer.retry_waits(failure_policy.RetryWait(wait, error.kind, row.title or row.name))
                await self._sleep(wait)
            except BaseException:
                self.breakers.record_cancelled(circuit)
                raise
            else:
                self.breakers.record_success(circuit)
                return result

    def _reason_to_stop(
        self, call: RoutedCall[Any], target: Target, error: ProviderError, tries: int, wait: float | None
    ) -> str:
        """Returns why there is no retry; empty if there is one."""
        policy, configured = target.provider.retry, self.config.retries
        if not failure_policy.is_transient(error, policy):
            return "asking again would not help"
        if tries >= (policy.attempts if configured is None else 1 + configured):
            return "it was asked often enough"
        if wait is None:
            return f"it asks for a wait of {error.retry_after:g} s, which is too long"
        allowed = self._cache.options(target, call.options, math.inf).timeouts.retry_wait - call.record.total_wait()
        if wait > allowed:
            return f"a wait of {wait:.1f} s is longer than the {allowed:.1f} s that timeouts.retry_wait leaves"
        return "there is no time left" if time.monotonic() + wait >= call.deadline else ""

    def _check_circuit(
        self, target: Target, circuit: failure_policy.CircuitKey, record: DecisionLog, *, alternative: bool
    ) -> None:
        """Raises if the circuit is open."""
        left = self.breakers.closed_for(circuit, alternative=alternative)
        if left:
            why = failure_policy.describe_open_circuit(target.provider.name, left, self.breakers.last_message(circuit))
            self._record(record, "skip", "circuit", why, target)
            fault = Fault("overloaded", why, code="circuit-open", retry_after=left)
            raise provider_error(fault, provider=target.provider.name)

    def _prepare(
        self, upstream: UpstreamRequest, plan: RequestPlan, target: Target, record: DecisionLog, requested: str
    ) -> Engine:
        """Gives a request its signature. Returns its engine, and records if it is not the preferred one."""
        self.engines.sign(upstream, plan)
        engine, why = self.engines.choose(upstream, plan, requested)
        if why:
            self._record(record, "engine", "lacks", why, target, engine="native")
        return engine

    def _record(
        self, record: DecisionLog, kind: DecisionKind, code: str, why: str, target: Target, **more: Any
    ) -> None:
        """Adds a decision to the record of a request, to the counters and to the log."""
        name, level = target.provider.name, logging.DEBUG
        if kind in INFO_KINDS:  # these quote errors, which may hold secrets; the others hold names only
            why, level = redact(why), logging.INFO
        decision = Decision(kind, code, why, name, target.model, **more)
        record.decisions.append(decision)
        self.counts[kind, code, name] += 1
        if log.isEnabledFor(level):
            log.log(level, "%s %s: %s: %s", name or "-", record.asked, kind, why)
        if self._on_decision is not None:
            self._on_decision(decision)
        for observer in self._observers:
            observer(decision)


def _without_frames(error: ProviderError) -> ProviderError:
    """Returns an error that a local variable may keep. Its traceback would refer to the variable's frame: a cycle."""
    return error.with_traceback(None)
