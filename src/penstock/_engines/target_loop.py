"""Tries the targets of a request: chooses among them, retries, falls back to the next, records each decision.

A request is sent again, or to another target, only before the first content of its answer. `deployments` chooses,
`failure_policy` says whether to try again.
"""

from __future__ import annotations

import asyncio
import math
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock._engines import failure_policy, request_plan
from penstock._engines.config import Config
from penstock._engines.deployments import Deployments
from penstock._engines.engine_interface import AttemptRecord, Decision, DecisionKind, DecisionLog, DecisionRecorder
from penstock._engines.engine_pool import EnginePool
from penstock._engines.environ import live
from penstock._engines.reply import ModelReply
from penstock.errors import ProviderError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    import os
    from collections import Counter
    from collections.abc import Awaitable, Callable, Mapping

    from penstock._engines.deployments import TargetRoute
    from penstock._engines.engine_interface import Engine
    from penstock._engines.failure_policy import RouteObserver
    from penstock._engines.model_resolution import Target
    from penstock._engines.request_plan import RoutedRequest
    from penstock._http.request_options import RequestOptions

T = TypeVar("T")


def _random() -> float:
    """Returns a number from 0 to 1."""
    from random import random  # noqa: PLC0415 — only retries and choices need it

    return random()  # noqa: S311 — it spreads retries and requests


class RoutedCall(NamedTuple, Generic[T]):
    """A call while its targets are tried. `attempt` sends it to a target, in the seconds that are left.

    `route`: the choice among several targets; None if there is one.
    """

    attempt: Callable[[Target, DecisionLog, float], Awaitable[T]]
    options: RequestOptions | None
    observer: RouteObserver | None
    record: DecisionLog
    deadline: float  # by the monotonic clock
    route: TargetRoute | None = None


class TargetLoop:
    """The loop over targets, and the state that it needs: circuits, deployments, decisions. `Router` sends requests."""

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        engines: Mapping[str, Engine] | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = _random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config: Config = Config.read(config)
        self.env: Mapping[str, str] = live(env)
        self.breakers: failure_policy.CircuitBreakers = failure_policy.CircuitBreakers(clock, self.config.breaker)
        self.engines: EnginePool = EnginePool(self.config, self.env, dict(engines or {}), clock)
        self.missing: failure_policy.MissingEndpoints = failure_policy.MissingEndpoints()
        self.deployments: Deployments = Deployments(clock, chance)
        self._decisions = DecisionRecorder(on_decision)
        self._cache = request_plan.PlanCache(self.config, self.env)
        self._sleep, self._chance, self._clock = sleep, chance, clock

    def targets(self, name: str) -> list[Target]:
        """Returns the targets of a model name. Raises if there is none."""
        return self._cache.targets(name)

    @property
    def counts(self) -> Counter[tuple[str, str, str]]:
        """The number of decisions by kind, code and provider."""
        return self._decisions.counts

    def add_observer(self, on_decision: Callable[[Decision], None]) -> None:
        """Calls a function with each decision from now on."""
        self._decisions.observers.append(on_decision)

    def remove_observer(self, on_decision: Callable[[Decision], None]) -> None:
        """Undoes `add_observer`."""
        if on_decision in self._decisions.observers:
            self._decisions.observers.remove(on_decision)

    async def try_targets(
        self,
        name: str | Target,
        options: RequestOptions | None,
        attempt: Callable[[Target, DecisionLog, float], Awaitable[T]],
        turn: RoutedRequest | None = None,
    ) -> T:
        """Tries the targets of a name in order. Returns the first result."""
        record = DecisionLog(name if isinstance(name, str) else name.provider.name)
        deadline = time.monotonic() + self._cache.total_timeout(options)
        targets = self._cache.targets(name) if isinstance(name, str) else [name]
        call = RoutedCall(attempt, options, None if turn is None else turn.observer, record, deadline)
        if call.observer is not None:
            call.observer.route_begins(record)
        if len(targets) > 1:
            call = call._replace(route=await self._choose_route(call, targets, turn))
            targets = call.route.targets if call.route is not None else targets
        failed: list[ProviderError] = []
        for number, target in enumerate(targets, 1):
            code = target.chosen_by or ("first" if number == 1 else "next")
            self._record(record, "route", code, target.why, target)
            try:
                return await self._try_target(call, target, alternative=number < len(targets))
            except ProviderError as error:
                error.provider, error.model = error.provider or target.provider.name, error.model or target.model
                error.attempts = [*failed, *error.attempts]
                may_fall_back = failure_policy.may_fall_back(error)
                if number == len(targets) or not may_fall_back:
                    self._record(record, "give-up", error.kind, f"no more to try after: {error}", target)
                    if call.route is None or not call.route.pooled or not may_fall_back:
                        raise
                    raise self._summarize(call.route, record, error) from None
                following = targets[number]
                why = f"{following.model} at {following.provider.name} is next: {error}"
                self._record(record, "fallback", error.kind, why, target)
                failed = [*error.attempts, _without_frames(error)]
        raise AssertionError  # the last target returned or raised

    async def _choose_route(
        self, call: RoutedCall[Any], targets: list[Target], turn: RoutedRequest | None
    ) -> TargetRoute:
        """Chooses among several targets. If all cool down, waits for the first, or raises if that is too long."""
        record, credential = call.record, call.options.key if call.options is not None else ""
        while True:
            route = self.deployments.arrange(targets, credential, turn, self.breakers)
            reasons = [self.deployments.describe(target, why) for target, why in route.skipped]
            for (target, _), why in zip(route.skipped, reasons, strict=True):
                self._record(record, "skip", "cool-down", why, target)
            if not route.wait:
                return route
            first = route.skipped[0][0]
            wait = route.wait + self._chance() * 0.1
            allowed = self._cache.options(first, call.options, math.inf).timeouts.retry_wait - record.total_wait()
            if wait > allowed or time.monotonic() + wait >= call.deadline:
                message = f"all targets of {record.asked} cool down: {'; '.join(reasons)}"
                self._record(record, "give-up", "cool-down", message, first)
                fault = Fault("rate-limit", message, code="cool-down", retry_after=route.wait)
                raise provider_error(fault, provider=first.provider.name, model=first.model)
            await self._pause(call, first, wait, "cool-down", "rate-limit", "all targets cool down")

    def _summarize(self, route: TargetRoute, record: DecisionLog, error: ProviderError) -> ProviderError:
        """Returns one error about all targets of a pool, when none is left."""
        skipped = [self.deployments.describe(target, why) for target, why in route.skipped]
        return failure_policy.summarize_failures(record.asked, [*error.attempts, _without_frames(error)], skipped)

    async def _pause(self, call: RoutedCall[Any], target: Target, wait: float, code: str, kind: str, why: str) -> None:
        """Waits before another attempt, and tells the observer."""
        row = target.provider
        self._record(call.record, "retry", code, f"after {wait:.2f} s: {why}", target, wait=wait)
        if call.observer is not None:
            await call.observer.retry_waits(failure_policy.RetryWait(wait, kind, row.title or row.name))
        await self._sleep(wait)

    async def _try_target(self, call: RoutedCall[T], target: Target, *, alternative: bool) -> T:
        """Tries one target until it answers or a retry is pointless. `alternative`: another target follows."""
        row, record = target.provider, call.record
        circuit = failure_policy.CircuitKey.of(
            row.name, target.model, call.options.key if call.options is not None else ""
        )
        self._check_circuit(target, circuit, record, alternative=alternative)
        failed: list[ProviderError] = []
        while True:
            try:
                return await self._attempt_target(call, target, circuit)
            except ProviderError as error:
                error.attempts = list(failed)
                tries = len(failed) + 1
                wait = failure_policy.compute_retry_delay(error, tries, row.retry, self._chance)
                why = self._reason_to_stop(call, target, error, tries, wait, alternative=alternative)
                if not why and not self.breakers.take_retry(circuit):
                    why = "the budget of retries is spent"
                if why:
                    self._record(record, "give-up", error.kind, f"{why}: {error}", target)
                    raise
                failed.append(_without_frames(error))
                await self._pause(call, target, wait or 0.0, error.kind, error.kind, str(error))

    async def _attempt_target(self, call: RoutedCall[T], target: Target, circuit: failure_policy.CircuitKey) -> T:
        """Makes one attempt, with another key at once if one is refused. Notes the outcome."""
        record = call.record
        while True:
            await self._begin_attempt(call)
            start = time.monotonic()
            started = None if call.route is None else call.route.start(target)
            try:
                result = await call.attempt(target, record, call.deadline - start)
            except ProviderError as error:
                unsure = failure_policy.may_be_charged(error)
                record.attempts.append(_attempt(target, start, error.status or 0, error.kind, unsure=unsure))
                has_next_key = record.key and self._set_key_aside(target, error, record)
                if started is not None:
                    started.failed(None if has_next_key else error)
                if not has_next_key:
                    self.breakers.record_failure(circuit, error.kind, str(error))
                    raise
            except BaseException:
                record.attempts.append(_attempt(target, start, 0, "cancelled", unsure=True))
                if started is not None:
                    started.failed(None)
                self.breakers.record_cancelled(circuit)
                raise
            else:
                status = result.status if isinstance(result, ModelReply) else HTTPStatus.OK
                record.attempts.append(_attempt(target, start, status))
                self.breakers.record_success(circuit)
                if started is not None:
                    started.succeeded(result)
                if record.key and isinstance(result, ModelReply):
                    self._note_key_limits(target, result, record)
                return result

    async def _begin_attempt(self, call: RoutedCall[Any]) -> None:
        """Counts an attempt. Tells the observer if it is not the first one."""
        if call.record.attempts and call.observer is not None:
            await call.observer.retry_begins(call.record)
        call.record.tries += 1

    def _set_key_aside(self, target: Target, error: ProviderError, record: DecisionLog) -> bool:
        """Sets a key aside that was refused or is rate-limited. Returns True if the next key can be used at once."""
        rotation = self.engines.rotation(target.provider.name)
        why = rotation.set_aside(record.key, target.model, error) if rotation is not None else ""
        if why:
            self._record(record, "retry", "key", f"{why}, the next one is used: {error}", target)
        return bool(why)

    def _note_key_limits(self, target: Target, reply: ModelReply, record: DecisionLog) -> None:
        """Sets a key aside whose rate limit is used up, as the answer's headers say."""
        rotation = self.engines.rotation(target.provider.name)
        if rotation is not None:
            rotation.note_limit(record.key, target.model, reply.seconds_to_limit_reset())

    def _reason_to_stop(
        self,
        call: RoutedCall[Any],
        target: Target,
        error: ProviderError,
        tries: int,
        wait: float | None,
        *,
        alternative: bool,
    ) -> str:
        """Returns why there is no retry; empty if there is one. `alternative`: another target follows."""
        policy, configured = target.provider.retry, self.config.retries
        if not failure_policy.is_transient(error, policy):
            return "asking again would not help"
        if alternative and (target.pool is not None or (error.kind == "rate-limit" and error.retry_after)):
            return "another target can answer"
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

    def _record(
        self, record: DecisionLog, kind: DecisionKind, code: str, why: str, target: Target, **more: Any
    ) -> None:
        """Adds a decision to the record of a request."""
        self._decisions.add(record, Decision(kind, code, why, target.provider.name, target.model, **more))


def _attempt(target: Target, start: float, status: int, error: str = "", *, unsure: bool = False) -> AttemptRecord:
    """Returns an attempt that ends now."""
    return AttemptRecord(target.provider.name, target.model, start, time.monotonic(), status, error, unsure)


def _without_frames(error: ProviderError) -> ProviderError:
    """Returns an error that a local variable may keep. Its traceback would refer to the variable's frame: a cycle."""
    return error.with_traceback(None)
