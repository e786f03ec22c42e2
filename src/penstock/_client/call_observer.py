"""What a client does around its calls: budget, response cache, hooks, spans, costs.

`ClientOperations` belongs to a client, `CallObserver` to one turn: it sends the turn, sees its events and its end.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._client.costs import Cost, PriceList, UsageTracker
from penstock._client.hooks import CallReport, ClientHooks
from penstock._client.results import build_answer
from penstock._client.span_content import finish_reason, write_input, write_output
from penstock._client.spans import CallSpan, ToolSpan, is_observed, server_attributes, tool_span
from penstock.errors import InputError, ProviderError
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._client.answer_cache import AnswerCache
    from penstock._client.parameters import ClientParameters
    from penstock._client.turn_calls import TurnCall
    from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
    from penstock._engines.reply import ModelReply
    from penstock._engines.router import Router
    from penstock.events import AnyEvent, Usage
    from penstock.request import Turn

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_VALUES = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT", "TRUE"})


class FetchedAnswer(NamedTuple):
    """The answer to a request that is not a turn."""

    job: UpstreamRequest
    record: DecisionLog
    answer: Any
    usage: Usage | None


class ClientOperations:
    """What the calls of one client share."""

    def __init__(self, router: Router, parameters: ClientParameters) -> None:
        self.router = router
        self.prices: PriceList = PriceList(router.config, parameters.get("prices"))
        self.spending: UsageTracker = UsageTracker(self.prices, parameters.get("budget"))
        self.hooks: ClientHooks = ClientHooks(
            parameters.get("on_request"),
            parameters.get("on_event"),
            parameters.get("on_finish"),
            parameters.get("on_decision"),
        )
        if self.hooks.has_decision:
            router.add_observer(self.hooks.decision)
        self.cache: AnswerCache | None = _open_cache(parameters, router)
        self.tracing = _read_tracing(parameters.get("tracing", True))

    @property
    def traces_content(self) -> bool:
        """True if spans have the content of messages."""
        return self.tracing == "content"

    def observe(self, call: TurnCall) -> CallObserver:
        """Returns the observer of a turn."""
        return CallObserver(self, call)

    async def fetch(
        self, operation: str, model: str, send: Callable[[], Awaitable[FetchedAnswer]]
    ) -> tuple[FetchedAnswer, Cost | None]:
        """Sends a request that is not a turn, within the budget and with a span. Counts its usage."""
        self.spending.check_budget()
        span = CallSpan(operation, model) if self.tracing and is_observed() else None
        try:
            with span.activate() if span is not None else nullcontext():
                found = await send()
        except BaseException as error:
            if span is not None:
                provider, name = getattr(error, "provider", ""), getattr(error, "model", "")
                span.end(provider=provider, model=name, usage=None, error=error)
            raise
        job, record, _, usage = found
        cost = self.spending.count(job.provider.name, job.model, usage)
        if span is not None:
            more: dict[str, Any] = {
                "penstock.cost": None if cost is None else float(cost),
                **server_attributes(job.url),
            }
            more["penstock.tries"] = record.tries or None
            span.end(provider=job.provider.name, model=job.model, usage=usage, **more)
        return found, cost

    def tool_span(
        self, name: str, call: str = "", *, description: str = "", arguments: Any = None
    ) -> AbstractContextManager[ToolSpan]:
        """Returns the span of a tool that a run calls, as the client's `tracing` says."""
        if not self.tracing:
            return nullcontext(ToolSpan())
        return tool_span(name, call, description=description, arguments=arguments, content=self.traces_content)

    async def aclose(self) -> None:
        """Waits for hooks that still run."""
        self.router.remove_observer(self.hooks.decision)
        await self.hooks.drain()


def _open_cache(parameters: ClientParameters, router: Router) -> AnswerCache | None:
    store = parameters.get("cache")
    if store is None:
        return None
    if not all(callable(getattr(store, name, None)) for name in ("get", "put")):
        raise InputError(f"cache: expected a ResponseCache, such as MemoryCache(), found {type(store).__name__}")
    from penstock._client.answer_cache import AnswerCache  # noqa: PLC0415 — most clients have no cache

    return AnswerCache(store, router, parameters.get("tenant", ""))


def _read_tracing(value: Any) -> str:
    """Returns `content`, `on` or nothing."""
    if value not in (True, False, "content"):
        raise InputError(f"tracing: expected True, False or 'content', found {value!r}")
    if value == "content":
        return "content"
    if value and os.environ.get(CONTENT_VARIABLE, "").upper() in _CONTENT_VALUES:
        return "content"
    return "on" if value else ""


class CallObserver:
    """One turn. `send` sends it, or takes its answer from the cache; `see_events` and `end_turn` follow it."""

    def __init__(self, operations: ClientOperations, call: TurnCall) -> None:
        self._operations, self._call = operations, call
        self._key = ""
        self._started = 0.0
        self._first: float | None = None
        self._span: CallSpan | None = None
        self.sees_events: bool = operations.hooks.has_event
        self.cached: bool = False
        self.cost: Cost | None = None

    async def send(self, send: Callable[[], Awaitable[ModelReply]]) -> ModelReply:
        """Returns the reply once it has begun. The error of a request that fails is reported and raised."""
        operations, request = self._operations, self._call.request
        self._started = time.monotonic()
        if operations.tracing and is_observed():
            self._span = CallSpan(self._call.operation, request.model, request)
            if operations.traces_content and self._span.recording:
                self._span.set_content(write_input(request))
        try:
            if operations.hooks.has_request:
                await operations.hooks.request(request)
            reply = await self._find_cached() or await self._send_now(send)
        except BaseException as error:
            await self._fail(error)
            raise
        self._first = time.monotonic() - self._started
        if self._span is not None:
            self._span.note_first_chunk()
        return reply

    async def _find_cached(self) -> ModelReply | None:
        cache, mode = self._operations.cache, self._call.cache
        if cache is None or mode is False:
            return None
        self._key = await cache.key(self._call)
        if not self._key or mode == "refresh":
            return None
        reply = await cache.find(self._key, self._call.request, self._call.operation)
        self.cached = reply is not None
        return reply

    async def _send_now(self, send: Callable[[], Awaitable[ModelReply]]) -> ModelReply:
        self._operations.spending.check_budget()
        with self._span.activate() if self._span is not None else nullcontext():
            return await send()

    async def see_events(self, events: list[AnyEvent]) -> None:
        """Events have arrived."""
        await self._operations.hooks.events(events)

    async def end_turn(self, reply: ModelReply, turn: Turn | None) -> None:
        """The answer is complete, or closed before its end."""
        operations = self._operations
        self.cost = operations.spending.add_reply(reply, turn.steps if turn is not None else (), hit=self.cached)
        if self._span is not None:
            self._end_span(self._span, reply, turn)
        if self._key and not self.cached and operations.cache is not None:
            await operations.cache.store(self._key, reply, turn)
        if operations.hooks.has_finish:
            is_complete = turn is not None and turn.finish is not None
            error = None if is_complete else reply.error(_end_fault(reply))
            answer = None
            if turn is not None and is_complete:
                answer = build_answer(turn, reply, cost=self.cost, cached=self.cached)
            await self._report(reply, answer=answer, error=error)
        if operations.hooks.has_decision:
            await operations.hooks.drain()

    async def _report(self, reply: ModelReply | None, **more: Any) -> None:
        known: dict[str, Any] = {}
        if reply is not None:
            known = {"provider": reply.provider, "model": reply.model, "usage": reply.usage, "record": reply.record}
        report = CallReport(
            request=self._call.request,
            cost=self.cost,
            cached=self.cached,
            duration=time.monotonic() - self._started,
            first_token=self._first,
            **known,
            **more,
        )
        await self._operations.hooks.finish(report)

    async def _fail(self, error: BaseException) -> None:
        """Reports a request that was not answered."""
        provider, model = getattr(error, "provider", ""), getattr(error, "model", "")
        if self._span is not None:
            reasons = ["error"] if isinstance(error, ProviderError) else None
            fields = {"gen_ai.response.finish_reasons": reasons}
            self._span.end(provider=provider, model=model, usage=None, error=error, **fields)
        if self._operations.hooks.has_finish:
            await self._report(None, error=error, provider=provider, model=model)
        if self._operations.hooks.has_decision:
            await self._operations.hooks.drain()

    def _end_span(self, span: CallSpan, reply: ModelReply, turn: Turn | None) -> None:
        finish = turn.finish if turn is not None else None
        reasons = [finish_reason(one) for one in (finish.reason, *finish.others)] if finish is not None else ["error"]
        if turn is not None and self._operations.traces_content and span.recording:
            span.set_content(write_output(turn))
        span.end(
            provider=reply.provider,
            model=(turn.model if turn is not None else "") or reply.model,
            usage=None if self.cached else reply.usage,
            error=None if finish is not None else _end_fault(reply),
            **{
                "gen_ai.response.finish_reasons": reasons,
                "gen_ai.response.id": turn.id if turn is not None else "",
                "penstock.cost": None if self.cost is None else float(self.cost),
                "penstock.cached": self.cached or None,
                "penstock.engine": reply.engine,
                "penstock.tries": reply.record.tries or None,
                **server_attributes(reply.server_url),
            },
        )


def _end_fault(reply: ModelReply) -> Fault:
    """Returns the fault that ended a reply; a reply that was closed early is cancelled."""
    return reply.end if isinstance(reply.end, Fault) else Fault("cancelled", "the answer was closed before its end")
