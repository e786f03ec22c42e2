"""The response cache of the gateway: one stored turn answers equal requests of clients of any protocol.

It is off unless the configuration names aliases or keys. The key and the form of an answer are those of the library's
response cache: see `penstock._client.answer_cache`. A hit is not counted in limits.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._client.answer_cache import AnswerCache, CachedReply
from penstock._fold import Fold
from penstock._store.response_cache import MemoryCache, SqliteCache
from penstock._text_runs import merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._client.turn_calls import TurnCall
    from penstock._engines.reply import ModelReply
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.endpoints import IncomingRequest, TurnRequest
    from penstock._gateway.relay import ReplyCapture
    from penstock._gateway.upstream import GatewayUpstream
    from penstock.stores import ResponseCache

CACHE_HEADER = b"x-penstock-cache"
MAX_ANSWER = 4 * 2**20  # characters; a longer answer is not stored
MAX_EVENTS = 100_000  # the same
SHARED = ""  # the tenant of answers that all tenants share
_CLIENT_TOOLS = frozenset({"function", "custom"})


class CachedTurn:
    """The cache for one turn. `hit` is the stored reply; None if the request is sent."""

    def __init__(self, cache: AnswerCache, call: TurnCall, *, reads: bool, stores: bool) -> None:
        self.hit: CachedReply | None = None
        self._cache, self._call, self._reads, self._stores = cache, call, reads, stores
        self._key = ""
        self._fold = Fold()
        self._count = self._size = 0
        self._answer: ReplyCapture | None = None

    @property
    def header(self) -> tuple[tuple[bytes, bytes], ...]:
        """The response header that says hit or miss."""
        return ((CACHE_HEADER, b"hit" if self.hit is not None else b"miss"),)

    async def find(self) -> CachedReply | None:
        """Look the request up."""
        self._key = await self._cache.key(self._call)
        if self._key and self._reads:
            self.hit = await self._cache.find(self._key, self._call.request, self._call.operation)
        self._stores = self._stores and bool(self._key) and self.hit is None
        return self.hit

    def capture(self, answer: ReplyCapture | None) -> CachedTurn | ReplyCapture | None:
        """Return what sees the events of the answer: this, if the answer may be stored. It passes them on."""
        if not self._stores:
            return answer
        self._answer = answer
        return self

    def add(self, events: Sequence[Any]) -> None:
        """Collect the events of a read."""
        if self._answer is not None:
            self._answer.add(events)
        if self._stores:
            merged = merge_runs(list(events))
            self._count += len(merged)
            self._size += sum(len(getattr(event, "text", "")) + len(getattr(event, "json", "")) for event in merged)
            self._fold.feed(merged)
            self._stores = self._count <= MAX_EVENTS and self._size <= MAX_ANSWER

    async def store(self, reply: ModelReply) -> None:
        """Store the answer, if it is complete and nothing in it had to be mended or skipped."""
        if self._stores and len(self._fold.turns) == 1 and not reply.malformed and not reply.diagnostics:
            turn = self._fold.turns[0]
            turn.id, turn.created = "", None  # every client gets an id of its own
            await self._cache.store(self._key, reply, turn)


class TurnCache:
    """Decides which turns are cached, and holds the store, which is made when it is first needed."""

    def __init__(self, config: GatewayConfig, upstream: GatewayUpstream) -> None:
        self._config, self._upstream = config, upstream
        self._store: Any = None

    @property
    def enabled(self) -> bool:
        """Whether any turn is cached."""
        return bool(self._config.cache.aliases or self._config.cache.keys)

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration from the next request on. The store and its bounds stay."""
        self._config = config

    def begin(self, incoming: IncomingRequest, turn_request: TurnRequest) -> CachedTurn | None:
        """Return the cache for a turn; None if the turn is not cached."""
        table = self._config.cache
        if not self._is_cacheable(incoming, turn_request):
            return None
        asked = {word.strip() for word in incoming.headers.get("cache-control", "").lower().split(",")}
        if "no-store" in asked:
            return None
        tenant = SHARED if table.shared else incoming.caller.tenant
        cache = AnswerCache(self._open(), self._upstream.router, tenant, table.pace)
        call = self._upstream.turn_call(incoming, turn_request)
        return CachedTurn(cache, call, reads="no-cache" not in asked, stores=True)

    def _is_cacheable(self, incoming: IncomingRequest, turn_request: TurnRequest) -> bool:
        """Return whether the configuration names the alias or key, and the answer depends on nothing else."""
        table, request = self._config.cache, turn_request.request
        named = any(fnmatchcase(request.model, pattern) for pattern in table.aliases)
        if not named and not any(fnmatchcase(incoming.caller.key, pattern) for pattern in table.keys):
            return False
        settings = request.settings
        return (
            turn_request.cacheable
            and settings.store is not True
            and (settings.choices or 1) == 1
            and all(tool.kind in _CLIENT_TOOLS for tool in request.tools)
        )

    def _open(self) -> ResponseCache:
        if self._store is None:
            table, redis = self._config.cache, self._config.stores.redis
            if table.path:
                self._store = SqliteCache(Path(table.path).expanduser(), ttl=table.ttl, size=table.size)
            elif redis:
                from penstock._store.redis_cache import RedisCache  # noqa: PLC0415 — an optional extra

                self._store = RedisCache(redis, ttl=table.ttl, size=table.size)
            else:
                self._store = MemoryCache(ttl=table.ttl, size=table.size)
        store: ResponseCache = self._store
        return store

    async def aclose(self) -> None:
        """Close the store, if it has something to close."""
        close = getattr(self._store, "aclose", None)
        if close is not None:
            await close()
        elif isinstance(self._store, SqliteCache):
            self._store.close()
