"""Sends requests: one attempt at one target at a time. `TargetLoop` chooses the targets and tries again.

After the first content of an answer, `ModelReply` handles failures. `request_plan` says what is sent, `engine_pool`
which engine sends it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._engines import failure_policy, request_plan
from penstock._engines.reply import ModelReply
from penstock._engines.request_plan import RequestPlan, RoutedRequest
from penstock._engines.target_loop import TargetLoop
from penstock._protocols import DEFAULT
from penstock.errors import InvalidRequest, ProviderError, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.config import Config
    from penstock._engines.engine_interface import DecisionLog, Engine, ResponseSource, UpstreamRequest
    from penstock._engines.failure_policy import RouteObserver
    from penstock._engines.model_resolution import Target
    from penstock._engines.request_plan import RunInThread, UrlFileFetcher
    from penstock._http.request_options import RequestOptions
    from penstock._messages.options import ConvertOptions
    from penstock.request import Request


class Router(TargetLoop):
    """Routes the requests of a process. Keeps connections, tokens, circuits and counts.

    `counts` holds the number of decisions by kind, code and provider. `env` is read for each request.
    """

    def renewed(self, config: Config | Mapping[str, Any] | None) -> Router:
        """Returns a router with another configuration and the same connections and counts. Open requests keep this."""
        result = Router(config, env=self.env, sleep=self._sleep, chance=self._chance, clock=self._clock)
        result.missing, result.deployments, result._decisions = self.missing, self.deployments, self._decisions
        result.breakers.shared = self.breakers.shared
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
        return await self.try_targets(request.model, options, partial(self._attempt, turn), turn)

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
        """Signs and sends a request. Returns the reply once it has begun."""
        if turn.observer is not None:
            turn.observer.request_built(upstream)
        engine = self._prepare(upstream, plan, target, record, turn.engine)
        trace = upstream.trace
        if trace is not None:
            trace.engine, trace.secrets = engine.name, upstream.secrets
        reply: ModelReply | None = None
        try:
            source = await self._open_source(upstream, engine, target, record)
            reply = ModelReply(source, upstream, record, engine.name)
            await reply.begin()
        except ProviderError as error:
            if upstream.trace is not None:
                upstream.trace.fail(error, reply.held_bytes() if reply is not None else b"")
            raise
        why = f"{engine.name} is answering, status {reply.status}"
        self._record(record, "open", engine.name, why, target, engine=engine.name)
        return reply

    async def _open_source(
        self, upstream: UpstreamRequest, engine: Engine, target: Target, record: DecisionLog
    ) -> ResponseSource:
        """Sends a request. If the provider refuses a field that penstock added, sends it again without the field."""
        try:
            return await engine.open(upstream)
        except InvalidRequest as error:
            field = request_plan.drop_optional_field(upstream, error)
            if not field:
                raise
            self._record(record, "retry", "field", f"without {field}: {error}", target)
            if upstream.trace is not None:
                upstream.trace.fail(error)
                upstream.trace = upstream.trace.repeat(upstream, len(record.decisions))
        return await engine.open(upstream)

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

        return await self.try_targets(model, options, attempt)

    def _prepare(
        self, upstream: UpstreamRequest, plan: RequestPlan, target: Target, record: DecisionLog, requested: str
    ) -> Engine:
        """Gives a request its signature. Returns its engine, and records if it is not the preferred one."""
        record.key = self.engines.sign(upstream, plan)
        engine, why = self.engines.choose(upstream, plan, requested)
        if why:
            self._record(record, "engine", "lacks", why, target, engine="native")
        return engine
