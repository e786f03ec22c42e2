"""Hooks of a client: functions of the program that are called for each request, event, end and decision.

A hook is a plain or an async function. It gets a copy: what it changes there changes no call. A hook that raises never
breaks a call: the first error of each hook is logged as a warning with its traceback, later ones at debug level.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from penstock._client.costs import Cost
from penstock._client.results import Answer
from penstock._engines.engine_interface import Decision, DecisionLog
from penstock.errors import InputError
from penstock.events import AnyEvent, Usage
from penstock.request import Request

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Iterable

log = logging.getLogger("penstock.client")


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended: with a complete `answer`, or with an `error`.

    `duration` and `first_token` (the time to the first content) are seconds. `cached`: the answer comes from the
    response cache. `provider` and `model` are those that answered, or failed last.
    """

    request: Request
    answer: Answer | None = None
    error: BaseException | None = None
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    cost: Cost | None = None
    cached: bool = False
    duration: float = 0.0
    first_token: float | None = None
    record: DecisionLog | None = None


def copy_data(value: Any) -> Any:
    """Returns a copy of structs, lists and dicts that shares nothing that can be changed with the original.

    Frozen structs with immutable fields, and objects of other kinds (exceptions), are not copied.
    """
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        copies = {name: copy_data(one) for name, one in fields.items()}
        is_frozen = value.__struct_config__.frozen and all(copies[name] is one for name, one in fields.items())
        return value if is_frozen else replace(value, **copies)
    rows: Any = value
    if type(value) is dict:
        return {name: copy_data(one) for name, one in rows.items()}
    if type(value) is list:
        return [copy_data(one) for one in rows]
    return value


HookResult: TypeAlias = "Awaitable[object] | object"
RequestHook: TypeAlias = Callable[[Request], HookResult]
EventHook: TypeAlias = Callable[[AnyEvent], HookResult]
FinishHook: TypeAlias = Callable[[CallReport], HookResult]
DecisionHook: TypeAlias = Callable[[Decision], HookResult]


class ClientHooks:
    """The hooks of one client."""

    def __init__(
        self,
        on_request: RequestHook | None = None,
        on_event: EventHook | None = None,
        on_finish: FinishHook | None = None,
        on_decision: DecisionHook | None = None,
    ) -> None:
        given = {"on_request": on_request, "on_event": on_event, "on_finish": on_finish, "on_decision": on_decision}
        for name, hook in given.items():
            if hook is not None and not callable(hook):
                raise InputError(f"{name}: expected a function, found {type(hook).__name__}")
        self._hooks = {name: cast("Callable[[Any], Any]", hook) for name, hook in given.items() if hook is not None}
        self._warned: set[str] = set()
        self._tasks: set[Future[Any]] = set()
        self.has_request = on_request is not None
        self.has_event = on_event is not None
        self.has_finish = on_finish is not None
        self.has_decision = on_decision is not None

    async def request(self, request: Request) -> None:
        """A request is about to be sent, or to be answered from the cache."""
        await self._call("on_request", request)

    async def events(self, events: Iterable[AnyEvent]) -> None:
        """Events have arrived."""
        for event in events:
            await self._call("on_event", event)

    async def finish(self, report: CallReport) -> None:
        """A call has ended."""
        await self._call("on_finish", report)

    def decision(self, decision: Decision) -> None:
        """The router has decided something. It does not wait: an async hook runs as a task; `drain` waits for it."""
        result = self._start("on_decision", decision)
        if inspect.isawaitable(result):
            from asyncio import ensure_future  # noqa: PLC0415 — few hooks need it, and the import of `Client` must be quick

            task = ensure_future(self._await("on_decision", result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Waits for hooks that still run."""
        if self._tasks:
            from asyncio import gather  # noqa: PLC0415 — as above

            await gather(*self._tasks, return_exceptions=True)

    async def _call(self, name: str, value: Any) -> None:
        result = self._start(name, value)
        if result is not None and inspect.isawaitable(result):
            await self._await(name, result)

    def _start(self, name: str, value: Any) -> Any:
        hook = self._hooks.get(name)
        if hook is None:
            return None
        try:
            return hook(copy_data(value))
        except Exception:  # noqa: BLE001 — a hook must not break a call
            self._report(name)
            return None

    async def _await(self, name: str, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception:  # noqa: BLE001 — as above
            self._report(name)

    def _report(self, name: str) -> None:
        """Logs the current exception: as a warning the first time, so that a broken hook does not flood the log."""
        level = logging.DEBUG if name in self._warned else logging.WARNING
        self._warned.add(name)
        text = "the hook %s has failed, and the call goes on (its later failures are logged at debug level)"
        log.log(level, text, name, exc_info=True)
