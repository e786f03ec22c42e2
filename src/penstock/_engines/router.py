"""Sends a request to its targets: retries, falls back to the next target, records each decision with its reason.

A request is sent again, or to another target, only before the first content of its answer. After that, `ModelReply`
handles failures. `plan_cache` says what is sent, `engine_pool` which engine sends it, `retries` whether to try again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._engines.config import Config
from penstock._engines.decisions import Decision, DecisionLog, DecisionRecorder
from penstock._engines.engine_pool import EnginePool
from penstock._engines.environ import live
from penstock._engines.missing_endpoints import MissingEndpoints, is_missing_endpoint
from penstock._engines.plan_cache import PlanCache
from penstock._engines.reply import ModelReply
from penstock._engines.request_plan import (
    RequestFiles,
    RequestPlan,
    RoutedRequest,
    RunInThread,
    drop_optional_field,
    find_endpoint,
    forward_headers,
    load_state,
    merge_bodies,
    start_request,
)
from penstock._engines.retries import (
    CircuitBreakers,
    CircuitKey,
    RetryWait,
    RouteObserver,
    compute_retry_delay,
    describe_open_circuit,
    is_transient,
    may_fall_back,
)
from penstock._protocols import DEFAULT
from penstock.errors import InvalidRequest, ProviderError, TooLarge, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from penstock._engines.interface import Engine, ResponseSource, UpstreamRequest
    from penstock._engines.model_resolution import Target
    from penstock._engines.options import RequestOptions
    from penstock._messages.options import ConvertOptions
    from penstock.request import Request


T = TypeVar("T")


class Router:
    """Routes the requests of a process. Keeps connections, tokens, circuits and counts.

    `counts` holds the number of decisions by kind, code and provider. `env` is read for each request.
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | None = None,
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
        self.breakers: CircuitBreakers = CircuitBreakers(time.monotonic, self.config.breaker)
        self.engines: EnginePool = EnginePool(self.config, self.env, dict(engines or {}))
        self.missing: MissingEndpoints = MissingEndpoints()
        self._recorder = DecisionRecorder(self.counts, on_decision)
        self._cache = PlanCache(self.config, self.env)
        self._sleep = sleep
        self._chance = chance

    def renewed(self, config: Config | Mapping[str, Any] | None) -> Router:
        """Returns a router with another configuration and the same connections and counts. Open requests keep this."""
        result = Router(config, env=self.env, sleep=self._sleep, chance=self._chance)
        result.counts, result._recorder, result.missing = self.counts, self._recorder, self.missing
        result.engines.by_name = self.engines.by_name
        return result

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
        files: RequestFiles | None = None,
    ) -> ModelReply:
        """Returns the reply to a turn once its first content has arrived. Raises if no target answers.

        `run` runs the slow work of a large request, for example in a thread; without it the work runs inline. `files`
        fetches the files that a request names by URL, for targets that do not take URLs.
        """
        given = await load_state(request, source, convert or {}, run)
        turn = RoutedRequest(request, operation, source, engine, options, given, watch, run, files)
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
            if is_missing_endpoint(error):  # both are missing: the URL is wrong
                self.missing.forget(target, learned)
            raise

    async def _send_turn(self, turn: RoutedRequest, target: Target, record: DecisionLog, left: float) -> ModelReply:
        """Plans, builds and sends a request. Shortens a conversation that is too long, once."""
        known = self.missing.known(target, turn.operation) and self.missing.substitute(target, turn.operation)
        plan = self._cache.plan(target, known or turn.operation, turn.options, left, stream=turn.request.stream)
        request = turn.request if turn.files is None else await turn.files.fill(turn.request, plan)
        upstream = await turn.build(request, plan, turn.convert)
        if plan.operation_reason:
            self._note(record, "operation", upstream.operation, plan.operation_reason, target)
        elif known:
            self._note(record, "operation", known, f"{target.provider.name} has no {turn.operation}", target)
        try:
            return await self._reply(upstream, plan, target, record, turn.engine, turn.observer)
        except TooLarge as error:
            if not turn.convert.get("context_management") or upstream.cleared is not None:
                raise
            upstream = await turn.build(request, plan, {**turn.convert, "overflow": True})
            if upstream.cleared is None:
                raise
            why = f"shortened from about {upstream.cleared.before} to {upstream.cleared.after} tokens: {error}"
            self._note(record, "retry", "context", why, target)
        return await self._reply(upstream, plan, target, record, turn.engine, turn.observer)

    async def _reply(
        self,
        upstream: UpstreamRequest,
        plan: RequestPlan,
        target: Target,
        record: DecisionLog,
        engine: str,
        watch: RouteObserver | None,
    ) -> ModelReply:
        """Signs and sends a request. Returns the reply once it has begun."""
        if watch is not None:
            watch.request_built(upstream)
        self.engines.sign(upstream, plan)
        sender = self._choose_engine(upstream, plan, record, engine)
        answer = await self._ask(sender, upstream, record, target)
        reply = ModelReply(answer, upstream, record, sender.name)
        await reply.begin()
        self._note(
            record, "open", sender.name, f"{sender.name} is answering, status {reply.status}", target, sender.name
        )
        return reply

    async def _ask(
        self, sender: Engine, upstream: UpstreamRequest, record: DecisionLog, target: Target
    ) -> ResponseSource:
        """Sends a request. If the provider refuses a field that penstock added, sends it again without the field."""
        try:
            return await sender.open(upstream)
        except InvalidRequest as error:
            field = drop_optional_field(upstream, error)
            if not field:
                raise
            self._note(record, "retry", "field", f"without {field}: {error}", target)
            return await sender.open(upstream)

    def _learn_missing(self, error: ProviderError, target: Target, operation: str, record: DecisionLog) -> str:
        """Remembers that the server lacks the endpoint of an operation. Returns the operation; else an empty text."""
        if self.missing.known(target, operation) or not is_missing_endpoint(error):
            return ""
        other = self.missing.substitute(target, operation)
        # A target without an endpoint for the operation was sent another operation already.
        if not other or not target.provider.endpoint(operation, target.model):
            return ""
        self.missing.learn(target, operation)
        record.tries += 1
        why = f"{target.provider.name} has no {operation}, {other} is asked in its place: {error}"
        self._note(record, "fallback", "no-endpoint", why, target)
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
            _, endpoint, _ = find_endpoint(target, operation)
            account = self.config.account(target.provider.name)
            upstream = start_request(target, operation, endpoint, options=chosen, account=account, env=self.env)
            fields = body(target, endpoint.protocol)
            accepted = {name: value for name, value in fields.items() if name not in endpoint.drop}
            upstream.body = merge_bodies(merge_bodies(accepted, upstream.body), chosen.extra_body)
            forward_headers(upstream, headers or {})
            plan = RequestPlan(template=upstream)
            self.engines.sign(upstream, plan)
            sender = self._choose_engine(upstream, plan, record, engine)
            _, data = await sender.fetch(upstream)
            self._note(record, "open", sender.name, f"{sender.name} has answered", target, sender.name)
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
        failed: list[ProviderError] = []
        deadline = time.monotonic() + self._cache.total_timeout(options)
        targets = self._cache.targets(name) if isinstance(name, str) else [name]
        for number, target in enumerate(targets):
            self._note(record, "route", "first" if not number else "next", target.why, target)
            try:
                circuit = CircuitKey.of(target.provider.name, target.model, options.key if options is not None else "")
                self._check_circuit(target, circuit, record, alternative=number + 1 < len(targets))
                patience = self._cache.options(target, options, deadline - time.monotonic()).timeouts.retry_wait
                return await self._try_target(target, circuit, record, deadline, attempt, watch, patience)
            except ProviderError as error:
                error.provider, error.model = error.provider or target.provider.name, error.model or target.model
                error.attempts = [*failed, *error.attempts]
                if number + 1 == len(targets) or not may_fall_back(error):
                    self._note(record, "give-up", error.kind, f"no more to try after: {error}", target)
                    raise
                self._note(
                    record, "fallback", error.kind, f"{targets[number + 1].provider.name} is next: {error}", target
                )
                failed = [*error.attempts, _without_frames(error)]
        raise AssertionError  # the last target returned or raised

    async def _try_target(
        self,
        target: Target,
        circuit: CircuitKey,
        record: DecisionLog,
        deadline: float,
        attempt: Callable[[Target, DecisionLog, float], Awaitable[T]],
        watch: RouteObserver | None,
        patience: float,
    ) -> T:
        """Tries one target until it answers or a retry is pointless. `patience` limits the sum of its waits."""
        name, policy = target.provider.name, target.provider.retry
        max_tries = 1 + self.config.retries if self.config.retries is not None else policy.attempts
        failed: list[ProviderError] = []
        while True:
            record.tries += 1
            try:
                result = await attempt(target, record, deadline - time.monotonic())
            except ProviderError as error:
                self.breakers.record_failure(circuit, error.kind, str(error))
                error.attempts = list(failed)
                tries = len(failed) + 1
                wait = compute_retry_delay(error, tries, policy, self._chance)
                why = self._reason_to_stop(
                    error, target, circuit, tries >= max_tries, wait, deadline, patience - record.total_wait()
                )
                if why:
                    self._note(record, "give-up", error.kind, f"{why}: {error}", target)
                    raise
                failed.append(_without_frames(error))
                self._note(record, "retry", error.kind, f"after {wait:.2f} s: {error}", target, wait=wait or 0)
                if watch is not None:
                    await watch.retry_waits(RetryWait(wait or 0, error.kind, target.provider.title or name))
                await self._sleep(wait or 0)
            except BaseException:
                self.breakers.record_cancelled(circuit)
                raise
            else:
                self.breakers.record_success(circuit)
                return result

    def _reason_to_stop(
        self,
        error: ProviderError,
        target: Target,
        circuit: CircuitKey,
        last: bool,  # noqa: FBT001
        wait: float | None,
        deadline: float,
        patience: float,
    ) -> str:
        """Returns why there is no retry; empty if there is one."""
        if not is_transient(error, target.provider.retry):
            return "asking again would not help"
        if last:
            return "it was asked often enough"
        if wait is None:
            return f"it asks for a wait of {error.retry_after:g} s, which is too long"
        if wait > patience:
            return f"a wait of {wait:.1f} s is longer than the {patience:.1f} s that timeouts.retry_wait leaves"
        if time.monotonic() + wait >= deadline:
            return "there is no time left"
        return "" if self.breakers.take_retry(circuit) else "the budget of retries is spent"

    def _check_circuit(self, target: Target, circuit: CircuitKey, record: DecisionLog, *, alternative: bool) -> None:
        """Raises if the circuit is open."""
        left = self.breakers.closed_for(circuit, alternative=alternative)
        if left:
            why = describe_open_circuit(target.provider.name, left, self.breakers.last_message(circuit))
            self._note(record, "skip", "circuit", why, target)
            fault = Fault("overloaded", why, code="circuit-open", retry_after=left)
            raise provider_error(fault, provider=target.provider.name)

    def _choose_engine(
        self, upstream: UpstreamRequest, plan: RequestPlan, record: DecisionLog, requested: str
    ) -> Engine:
        """Returns the engine for a request. Records if it is not the preferred one."""
        engine, why = self.engines.choose(upstream, plan, requested)
        if why:
            decision = Decision("engine", "lacks", why, upstream.provider.name, upstream.model, "native")
            self._recorder.add(record, decision)
        return engine

    def _note(
        self, record: DecisionLog, what: Any, code: str, why: str, target: Target, engine: str = "", wait: float = 0.0
    ) -> None:
        decision = Decision(what, code, why, target.provider.name, target.model, engine, wait)
        self._recorder.add(record, decision)


def _without_frames(error: ProviderError) -> ProviderError:
    """Returns an error that a local variable may keep. Its traceback would refer to the variable's frame: a cycle."""
    return error.with_traceback(None)
