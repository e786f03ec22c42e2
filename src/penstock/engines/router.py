"""Who is asked, with which engine, again, and who next. Every decision is recorded with its reason.

A request is tried again, or elsewhere, only before its first content; from there on it is the reply's. Leans on
`naming`, `prepare`, `flags`, `breaker` and `retrying`, each of which decides one thing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from penstock.engines.config import Config, wished
from penstock.engines.credentials import Credentials, Signing
from penstock.engines.decisions import Decision, Record, Recorder
from penstock.engines.environ import EnvironmentChanges, live
from penstock.engines.model_resolution import Target, targets
from penstock.engines.options import RequestOptions
from penstock.engines.reply import Reply
from penstock.engines.request_plan import (
    Plan,
    TurnRequest,
    load_state,
    outline,
    over,
    pass_headers,
    place,
    plan,
    relieved,
)
from penstock.engines.retries import (
    Breakers,
    CircuitKey,
    MissingEndpoints,
    Wait,
    circuit_message,
    elsewhere,
    is_missing_endpoint,
    passing,
    pause,
)
from penstock.errors import InvalidRequest, ProviderError, TooLarge, provider_error
from penstock.events import Fault
from penstock.protocols import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from penstock.engines.interface import Engine, Job, Source
    from penstock.engines.request_plan import RequestFiles, Run
    from penstock.engines.retries import Watch
    from penstock.messages import ConvertOptions
    from penstock.request import Request


T = TypeVar("T")
_MOST = 200  # names that are remembered, and plans
_MOMENT = 0.05  # seconds that a first try may have spent before it: no reason to give it less


class Router:
    """One for a process: it keeps connections, tokens, circuits and counts.

    `counts` are the decisions by what, code and provider. `env` is read anew for each request.
    """

    def __init__(
        self, config: Config | Mapping[str, Any] | None = None, *, env: Mapping[str, str] | None = None,
        engines: Mapping[str, Engine] | None = None, on_decision: Callable[[Decision], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self.config = Config.read(config)
        self.env = live(env)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.breakers = Breakers(time.monotonic, self.config.breaker)
        self._engines: dict[str, Engine] = dict(engines or {})
        self._recorder = Recorder(self.counts, on_decision)
        self._credentials = Credentials(self.config, self.env)
        self._own = RequestOptions.read(self.config.options)
        self._below: dict[str, RequestOptions] = {}  # the options of each provider, over our own
        self._changes = EnvironmentChanges(self.env)
        self._meant: dict[str, list[Target]] = {}  # who is meant by a name,
        self._plans: dict[tuple[str, str, str, bool], Plan] = {}  # and how they are asked
        self.missing = MissingEndpoints()
        self._sleep = sleep
        self._chance = chance

    def renewed(self, config: Config | Mapping[str, Any] | None) -> Router:
        """One with another configuration that shares connections and counts: requests in flight keep this one."""
        made = Router(config, env=self.env, sleep=self._sleep, chance=self._chance)
        made.counts, made._engines, made._recorder = self.counts, self._engines, self._recorder
        made.missing = self.missing
        return made

    async def aclose(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            await engine.aclose()

    # ── what is asked ─────────────────────────────────────────────────────────────────────────────

    async def open(
        self, request: Request, operation: str = "chat", *, source: str = DEFAULT, engine: str = "",
        options: RequestOptions | None = None, convert: ConvertOptions | None = None, watch: Watch | None = None,
        run: Run | None = None, files: RequestFiles | None = None,
    ) -> Reply:  # fmt: skip
        """A turn: the reply once its first content is there, or an error once nobody could give any.

        `run` does what takes long for a large request, such as in a thread; without it that is done at once. `files`
        fetches files that are given by their address, for targets that take none.
        """
        given = await load_state(request, source, convert or {}, run)
        turn = TurnRequest(request, operation, source, engine, options, given, watch, run, files)
        # Not a nested function that calls itself: it would hold itself, and all of the turn with it.
        return await self._any(request.model, options, partial(self._once, turn), watch)

    async def _once(self, turn: TurnRequest, target: Target, record: Record, left: float) -> Reply:
        """One try at a target. A server that has no endpoint for an operation is asked by another one."""
        try:
            return await self._try(turn, target, record, left)
        except ProviderError as error:
            learned = self._learn(error, target, turn.operation, record)
            if not learned:
                raise
        try:
            return await self._try(turn, target, record, left)
        except ProviderError as error:
            if is_missing_endpoint(error):  # that is missing too: the address is wrong, and nothing was learned
                self.missing.forget(target, learned)
            raise

    async def _try(self, turn: TurnRequest, target: Target, record: Record, left: float) -> Reply:
        """The steps of one try, in order. A conversation that is too long is shortened, once."""
        known = self.missing.known(target, turn.operation) and self.missing.substitute(target, turn.operation)
        plan = self._plan(target, known or turn.operation, turn.options, left, stream=turn.request.stream)
        request = turn.request if turn.files is None else await turn.files.filled(turn.request, plan)
        job = await turn.prepare(request, plan, turn.convert)
        if plan.why:
            self._note(record, "operation", job.operation, plan.why, target)
        elif known:
            self._note(record, "operation", known, f"{target.provider.name} has no {turn.operation}", target)
        try:
            return await self._reply(job, plan, target, record, turn.engine, turn.watch)
        except TooLarge as error:
            if not turn.convert.get("context_management") or job.cleared is not None:
                raise
            job = await turn.prepare(request, plan, {**turn.convert, "overflow": True})
            if job.cleared is None:
                raise
            why = f"shortened from about {job.cleared.before} to {job.cleared.after} tokens: {error}"
            self._note(record, "retry", "context", why, target)
        return await self._reply(job, plan, target, record, turn.engine, turn.watch)

    async def _reply(
        self, job: Job, plan: Plan, target: Target, record: Record, engine: str, watch: Watch | None
    ) -> Reply:
        """The reply to one job, once it has begun."""
        if watch is not None:
            watch.chosen(job)
        self._sign(job, plan)
        used = self._engine(job, record, engine, plan)
        answer = await self._ask(used, job, record, target)
        reply = Reply(answer, job, record, used.name)
        await reply.begin()
        self._note(record, "open", used.name, f"{used.name} is answering, status {reply.status}", target, used.name)
        return reply

    async def _ask(self, used: Engine, job: Job, record: Record, target: Target) -> Source:
        """The answer of an engine; a field of our own adding that the provider refuses is left out."""
        try:
            return await used.open(job)
        except InvalidRequest as error:
            field = relieved(job, error)
            if not field:
                raise
            self._note(record, "retry", "field", f"without {field}: {error}", target)
            return await used.open(job)

    def _learn(self, error: ProviderError, target: Target, operation: str, record: Record) -> str:
        """The operation that is asked by another endpoint from now on: the server has none for it. Else nothing."""
        if self.missing.known(target, operation) or not is_missing_endpoint(error):
            return ""
        other = self.missing.substitute(target, operation)
        if not other or not target.provider.endpoint(operation, target.model):  # the latter was asked elsewhere already
            return ""
        self.missing.learn(target, operation)
        record.tries += 1
        why = f"{target.provider.name} has no {operation}, {other} is asked in its place: {error}"
        self._note(record, "fallback", "no-endpoint", why, target)
        return operation

    async def fetch(
        self, model: str | Target, operation: str, body: Callable[[Target, str], dict[str, Any]], *, engine: str = "",
        options: RequestOptions | None = None, headers: Mapping[str, str] | None = None,
    ) -> tuple[Job, bytes, Record]:  # fmt: skip
        """Something that is no turn. `body` makes the body for a target and the shape its endpoint speaks.

        `headers`: the client's; those that the provider's row names are passed on.
        """

        async def once(target: Target, record: Record, left: float) -> tuple[Job, bytes, Record]:
            chosen = self._options(target, options, left)
            _, endpoint, _ = place(target, operation)
            account = self.config.account(target.provider.name)
            job = outline(target, operation, endpoint, options=chosen, account=account, env=self.env)
            said = body(target, endpoint.protocol)
            kept = {name: value for name, value in said.items() if name not in endpoint.drop}
            job.body = over(over(kept, job.body), chosen.extra_body)
            pass_headers(job, headers or {})
            plan = Plan(job=job)
            self._sign(job, plan)
            used = self._engine(job, record, engine, plan)
            _, data = await used.fetch(job)
            self._note(record, "open", used.name, f"{used.name} has answered", target, used.name)
            return job, data, record

        return await self._any(model, options, once)

    # ── who is asked ──────────────────────────────────────────────────────────────────────────────

    async def _any(
        self, name: str | Target, options: RequestOptions | None,
        once: Callable[[Target, Record, float], Awaitable[T]], watch: Watch | None = None,
    ) -> T:  # fmt: skip
        """The first of those meant who answers."""
        record = Record(name if isinstance(name, str) else name.provider.name)
        failed: list[ProviderError] = []
        ends = time.monotonic() + (options.over(self._own) if options is not None else self._own).timeouts.total
        meant = self._targets(name) if isinstance(name, str) else [name]
        for number, target in enumerate(meant):
            self._note(record, "route", "first" if not number else "next", target.why, target)
            try:
                circuit = CircuitKey.of(target.provider.name, target.model, options.key if options is not None else "")
                self._closed(target, circuit, record, alternative=number + 1 < len(meant))
                patience = self._options(target, options, ends - time.monotonic()).timeouts.retry_wait
                return await self._one(target, circuit, record, ends, once, watch, patience)
            except ProviderError as error:
                error.provider, error.model = error.provider or target.provider.name, error.model or target.model
                error.attempts = [*failed, *error.attempts]
                if number + 1 == len(meant) or not elsewhere(error):
                    self._note(record, "give-up", error.kind, f"no more to try after: {error}", target)
                    raise
                self._note(
                    record, "fallback", error.kind, f"{meant[number + 1].provider.name} is next: {error}", target
                )
                failed = [*error.attempts, _without_frames(error)]
        raise AssertionError  # the last target returned or raised

    async def _one(
        self, target: Target, circuit: CircuitKey, record: Record, ends: float,
        once: Callable[[Target, Record, float], Awaitable[T]], watch: Watch | None, patience: float,
    ) -> T:  # fmt: skip
        """A provider, as often as it is worth it. `patience` is how long all waits of a request may take together."""
        name, policy = target.provider.name, target.provider.retry
        most = 1 + self.config.retries if self.config.retries is not None else policy.attempts
        failed: list[ProviderError] = []
        while True:
            record.tries += 1
            try:
                made = await once(target, record, ends - time.monotonic())
            except ProviderError as error:
                self.breakers.bad(circuit, error.kind, str(error))
                error.attempts = list(failed)
                tries = len(failed) + 1
                wait = pause(error, tries, policy, self._chance)
                why = self._enough(error, target, circuit, tries >= most, wait, ends, patience - record.waited())
                if why:
                    self._note(record, "give-up", error.kind, f"{why}: {error}", target)
                    raise
                failed.append(_without_frames(error))
                self._note(record, "retry", error.kind, f"after {wait:.2f} s: {error}", target, wait=wait or 0)
                if watch is not None:
                    await watch.waits(Wait(wait or 0, error.kind, target.provider.title or name))
                await self._sleep(wait or 0)
            except BaseException:
                self.breakers.left(circuit)
                raise
            else:
                self.breakers.good(circuit)
                return made

    def _enough(
        self, error: ProviderError, target: Target, circuit: CircuitKey, last: bool, wait: float | None, ends: float,  # noqa: FBT001
        patience: float,
    ) -> str:  # fmt: skip
        """Why there is no next try; nothing where there is one."""
        if not passing(error, target.provider.retry):
            return "asking again would not help"
        if last:
            return "it was asked often enough"
        if wait is None:
            return f"it asks for a wait of {error.retry_after:g} s, which is too long"
        if wait > patience:
            return f"a wait of {wait:.1f} s is longer than the {patience:.1f} s that timeouts.retry_wait leaves"
        if time.monotonic() + wait >= ends:
            return "there is no time left"
        return "" if self.breakers.spend(circuit) else "the budget of retries is spent"

    def _closed(self, target: Target, circuit: CircuitKey, record: Record, *, alternative: bool) -> None:
        """Raise where a circuit is open."""
        left = self.breakers.closed_for(circuit, alternative=alternative)
        if left:
            why = circuit_message(target.provider.name, left, self.breakers.quote(circuit))
            self._note(record, "skip", "circuit", why, target)
            fault = Fault("overloaded", why, code="circuit-open", retry_after=left)
            raise provider_error(fault, provider=target.provider.name)

    def _targets(self, name: str) -> list[Target]:
        """As `targets` says. It is asked anew when the environment has changed, and with it all that is planned."""
        if self._changes.any():
            self._meant.clear()
            self._plans.clear()
        found = self._meant.get(name)
        if found is None:
            found = targets(name, self.config, self.env)
            if len(self._meant) >= _MOST:
                self._meant.clear()
            self._meant[name] = found
        return found

    # ── how ───────────────────────────────────────────────────────────────────────────────────────

    def _plan(
        self, target: Target, operation: str, options: RequestOptions | None, left: float, *, stream: bool
    ) -> Plan:
        """How a target is asked. What a call says of its own way is not kept, nor is a time that is running out."""
        chosen = self._options(target, options, left)
        usual = chosen is self._below.get(target.provider.name)
        key = (target.provider.name, target.model, operation, stream)
        found = self._plans.get(key) if usual else None
        if found is None:
            account = self.config.account(target.provider.name)
            found = plan(target, operation, options=chosen, account=account, env=self.env, stream=stream)
            if usual:
                if len(self._plans) >= _MOST:
                    self._plans.clear()
                self._plans[key] = found
        return found

    def _options(self, target: Target, options: RequestOptions | None, left: float) -> RequestOptions:
        """The call's options over the provider's over the configuration's; no wait is longer than what is left."""
        made = self._below.get(target.provider.name)
        if made is None:
            said = RequestOptions.read(self.config.account(target.provider.name).options)
            made = self._below[target.provider.name] = said.over(self._own)
        made = options.over(made) if options is not None else made
        if left < made.timeouts.total - _MOMENT:
            made = replace(made, timeouts=replace(made.timeouts, total=max(left, 0.001)))
        return made

    def _engine(self, job: Job, record: Record, said: str, plan: Plan) -> Engine:
        """The engine that is wished for, or the one that can."""
        row = job.provider
        if row.engine != "native":
            return self._made(row.engine)
        if said or plan.wished is None:
            name, who = wished(row.name, self.config, self.env, said)
            plan.wished = plan.wished if said else (name, who)
        else:
            name, who = plan.wished
        engine = self._made(name)
        lacks = engine.lacks(job)
        if lacks:
            why = f"native in place of {name}, which {who} wishes for: {lacks}"
            self._recorder.note(record, Decision("engine", "lacks", why, row.name, job.model, "native"))
            return self._made("native")
        return engine

    def _made(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = engine_named(name)
        return self._engines[name]

    def _sign(self, job: Job, plan: Plan) -> None:
        """Who is asking. Tokens are kept, so what signs is kept too."""
        if job.provider.engine != "native":
            return
        if plan.sign is None:
            plan.sign = Signing(self._credentials.auth(job), job.options, self._made("native"))
        job.sign, job.secrets, job.steady = plan.sign, plan.sign.secrets(), plan.sign.steady

    def _note(
        self, record: Record, what: Any, code: str, why: str, target: Target, engine: str = "", wait: float = 0.0
    ) -> None:
        decision = Decision(what, code, why, target.provider.name, target.model, engine, wait)
        self._recorder.note(record, decision)


def _without_frames(error: ProviderError) -> ProviderError:
    """An error to keep in a local variable. Its traceback refers to the frame that has the variable: a cycle."""
    return error.with_traceback(None)


def engine_named(name: str) -> Engine:
    """A new engine."""
    if name == "native":
        from penstock.engines.native import Native  # noqa: PLC0415 — aiohttp is a tenth of a second

        return Native()
    if name == "sdk":
        from penstock.engines.sdk import Sdk  # noqa: PLC0415 — and the SDKs are whole seconds

        return Sdk()
    from penstock.engines.replay import Played  # noqa: PLC0415 — and this reads the packaged streams

    return Played()
