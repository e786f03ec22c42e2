"""The response cache of a client: finds the answer to a request, and stores the answers that may be found again.

A stored answer is a turn: a stream replays it as events, with one delta for each part. Stored are only answers that
the model has ended by itself: no fault, no cut by a limit or a filter, nothing that could not be read.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._engines.engine_interface import Decision, DecisionLog, UpstreamRequest
from penstock._engines.model_resolution import resolve_targets
from penstock._engines.reply import ModelReply
from penstock._fold import unfold
from penstock._providers.registry import Endpoint
from penstock._store.response_cache import response_key
from penstock.errors import InputError
from penstock.events import Finish, ReasoningDelta, TextDelta
from penstock.request import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._client.turn_calls import TurnCall
    from penstock._diagnostics import Diagnostic
    from penstock._engines.engine_interface import ChunkEvents
    from penstock._engines.model_resolution import Target
    from penstock._engines.router import Router
    from penstock.events import AnyEvent, Fault
    from penstock.request import Request
    from penstock.stores import ResponseCache

STORED_REASONS = frozenset({"stop", "calls"})
LARGE_REQUEST = 256 * 1024  # characters: the key of a larger request is computed in a thread
CACHE = "cache"
_KEY_OPTIONS = ("headers", "extra_body", "key")
_IGNORED_CONVERT = frozenset({"store", "tenant", "state", "count", "prompt_caching"})
log = logging.getLogger("penstock.client")


class StoredAnswer(msgspec.Struct):
    """A row of the cache."""

    provider: str
    model: str
    protocol: str
    turn: Turn


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredAnswer).decode


class StoredResponse:
    """A `ResponseSource` that replays a stored answer."""

    status = 200
    raw = False

    def __init__(self, events: list[AnyEvent]) -> None:
        self.headers: Mapping[str, str] = {}
        self._events = events

    async def read(self) -> ChunkEvents | None:
        events, self._events = self._events, []
        return (b"", events) if events else None

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        return [fault]

    def complete(self) -> None:
        """Nothing is open."""

    async def aclose(self) -> None:
        self._events = []

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return []


class PacedResponse(StoredResponse):
    """The same, word by word: `pace` seconds lie between two words."""

    def __init__(self, events: list[AnyEvent], pace: float) -> None:
        super().__init__([piece for event in events for piece in _split_delta(event)])
        self._pace = pace

    async def read(self) -> ChunkEvents | None:
        if not self._events:
            return None
        end = next((at for at, event in enumerate(self._events) if type(event) in _WORDS), len(self._events) - 1) + 1
        events, self._events = self._events[:end], self._events[end:]
        if self._events:
            await asyncio.sleep(self._pace)
        return b"", events


_WORDS = frozenset({TextDelta, ReasoningDelta})


def _split_delta(event: AnyEvent) -> list[AnyEvent]:
    """Returns a delta of each word of a text."""
    if not isinstance(event, TextDelta | ReasoningDelta):
        return [event]
    first, *rest = event.text.split(" ")
    return [replace(event, text=text) for text in (first, *(f" {word}" for word in rest)) if text]


class CachedReply(ModelReply):
    """The reply of a stored answer."""


class AnswerCache:
    """Finds and stores answers. A cache that fails counts as empty: the call goes on."""

    def __init__(self, store: ResponseCache, router: Router, tenant: str, pace: float = 0.0) -> None:
        self._store, self._router, self._tenant, self._pace = store, router, tenant, pace

    async def key(self, call: TurnCall) -> str:
        """Returns the key of a call; empty if its answer cannot be cached."""
        if _count_characters(call.request) > LARGE_REQUEST:
            return await asyncio.to_thread(self._compute_key, call)
        return self._compute_key(call)

    def _compute_key(self, call: TurnCall) -> str:
        config = self._router.config
        try:
            targets = resolve_targets(call.request.model, config, self._router.env)
        except InputError:  # the request is going to fail with the same error
            return ""
        settings = {
            "operation": call.operation,
            "targets": [self._describe_target(target) for target in targets],
            "options": [config.options, {name: getattr(call.options, name) for name in _KEY_OPTIONS}],
            "convert": {name: value for name, value in call.convert.items() if name not in _IGNORED_CONVERT},
        }
        return response_key(replace(call.request, model=""), settings, self._tenant)

    def _describe_target(self, target: Target) -> list[Any]:
        """Returns what decides which server and model answer. The key stays out: it may be renewed."""
        row, env = target.provider, self._router.env
        account = replace(self._router.config.account(row.name), key="", env="", models=())
        variables = {
            name: next((env[one] for one in setting.env if env.get(one)), "") for name, setting in row.settings.items()
        }
        return [row.name, row.base_url, target.model, account, variables]

    async def find(self, key: str, request: Request, operation: str) -> CachedReply | None:
        """Returns the reply to a request whose answer is stored; else None."""
        try:
            row = await self._store.get(self._tenant, key)
            if row is None:
                return None
            return self._reply(_decode(row), request, operation)
        except Exception:
            log.warning("the response cache cannot be read; the request is sent", exc_info=True)
            return None

    def _reply(self, stored: StoredAnswer, request: Request, operation: str) -> CachedReply:
        turn = stored.turn
        if turn.usage is not None:
            turn.usage = replace(turn.usage, extra={**(turn.usage.extra or {}), "penstock": {"cached": True}})
        upstream = UpstreamRequest(
            provider=self._router.config.provider(stored.provider),
            endpoint=Endpoint(path="", protocol=stored.protocol),
            operation=operation,
            model=stored.model,
            protocol=stored.protocol,
            url="",
            stream=request.stream,
        )
        decision = Decision("open", CACHE, "the response cache has the answer", stored.provider, stored.model, CACHE)
        record = DecisionLog(request.model, [decision])
        events = list(unfold(turn))
        source = PacedResponse(events, self._pace) if self._pace and request.stream else StoredResponse(events)
        return CachedReply(source, upstream, record, CACHE)

    async def store(self, key: str, reply: ModelReply, turn: Turn | None) -> None:
        """Stores an answer, if it is complete."""
        if turn is None or not is_storable(reply, turn):
            return
        try:
            row = _encode(StoredAnswer(reply.provider, reply.model, reply.protocol, turn))
            await self._store.put(self._tenant, key, row)
        except Exception:
            log.warning("an answer was not stored in the response cache", exc_info=True)


def is_storable(reply: ModelReply, turn: Turn) -> bool:
    """True if the model has ended the answer by itself, and all of it was read."""
    return (
        isinstance(reply.end, Finish)
        and reply.end.reason in STORED_REASONS
        and not set(reply.end.others) - STORED_REASONS
        and turn.finish is not None
        and bool(turn.parts)
        and not turn.broken
        and not reply.malformed
        and not reply.end_frame_missing
        and not any(getattr(part, "cut", False) for part in turn.parts)
    )


def _count_characters(request: Request) -> int:
    return sum(
        len(getattr(part, "text", "")) + len(getattr(part, "data", "") or "")
        for message in request.messages
        for part in message.parts
        if type(part).__name__ != "Opaque"
    )
