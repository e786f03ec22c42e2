"""Logs of running streams in Redis or Valkey: every process can follow the streams of all.

A process holds its own streams in memory, and uploads what is new a few times a second, all streams in one round trip.
Its own readers read the memory. The others read a Redis stream: its first entry is the head, the last one the end, and
the id of an entry is the position after its bytes. So any position can be read, and an entry that is written twice
does no harm. A process renews a lease; streams of a process without a lease are lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from penstock._store.limit_store import StoreUnavailable
from penstock._store.stream_log import (
    KEEP,
    MAX_LOG_BYTES,
    MAX_STREAM_BYTES,
    Deletion,
    LogPage,
    MemoryStream,
    MemoryStreamLog,
)
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._store.stream_log import LogReader, StreamState

PREFIX = "penstock:stream:"
_DELETIONS = "penstock:deletions"  # a stream of notices
MAX_DELETIONS = 1_000  # that are read at once
UPLOAD_INTERVAL = 0.25  # seconds between two uploads of a stream that grows
LEASE = 6.0  # seconds after which a process that does not renew its lease counts as dead
RENEW_INTERVAL = 2.0  # seconds: a lease survives two renewals that fail
SPARE = 180.0  # seconds that a running stream outlives its last renewal, besides the time it is kept
EXTEND_INTERVAL = 60.0  # seconds between two renewals of the expiry of streams
TIMEOUT = 5.0  # seconds for a command
MAX_CONNECTIONS = 1_000  # each reader that waits has one
MAX_BLOCK = 2.0  # seconds that a reader waits before it looks whether the writer lives
ENTRIES = 16  # in a page
MAX_PAGES = 64  # of one stream in an upload
MAX_CANCELS = 100  # that are taken at once
CANCEL_SECONDS = 60  # after which a request to cancel is forgotten
_HEAD = b"0-1"
_WRITTEN_BEFORE = "equal or smaller than the target stream top item"  # how Redis refuses an entry
_END = 2  # the second number of the id of the last entry
_DELETED = f"{2**53}-{_END}"  # the id of the only entry of a deleted stream: after every position
log = logging.getLogger("penstock.store")


class RedisWriter:
    """Writes one stream: into memory, from which it is uploaded."""

    __slots__ = ("_wake", "key", "name_key", "sent", "stream")

    def __init__(self, stream: MemoryStream, key: str, name_key: str, wake: Callable[[], None]) -> None:
        self.stream, self.key, self.name_key = stream, key, name_key
        self.sent = -1  # the position up to which it is uploaded; -1: nothing is
        self._wake = wake

    def when_cancelled(self, action: Callable[[], None]) -> None:
        self.stream.when_cancelled(action)

    def append(self, data: bytes) -> bool:
        return self.stream.append(data)

    def finish(self) -> None:
        self.stream.finish()
        self._wake()


class RedisReader:
    """Reads a stream of another process."""

    is_local = False

    def __init__(self, log: RedisStreamLog, key: str, head: bytes, owner: str, state: StreamState) -> None:
        self.head = head
        self.state: StreamState = state
        self._log, self._key, self._owner = log, key, owner

    async def read(self, position: int, wait: float) -> LogPage:
        after = f"{position}-0" if position else _HEAD.decode()
        found = await self._log.read_entries(self._key, after, min(wait, MAX_BLOCK))
        if not found:
            return LogPage(b"", position, await self._log.check_writer(self._key, self._owner))
        pieces: list[bytes] = []
        for entry, fields in found:
            end, number = map(int, entry.split(b"-"))
            if number == _END:
                return LogPage(b"".join(pieces), position, fields[b"state"].decode())
            data: bytes = fields[b"data"]
            pieces.append(data[max(position - (end - len(data)), 0) :])
            position = end
        return LogPage(b"".join(pieces), position)


class RedisStreamLog:
    """A `StreamLog` in Redis. While the server is away, streams go on, and can be followed in their own process.

    `deletions`: seconds for which notices of deletions are kept, for processes with a store of their own; 0: none are.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = MAX_STREAM_BYTES,
        total: int = MAX_LOG_BYTES,
        keep: float = KEEP,
        deletions: float = 0.0,
    ) -> None:
        self._client, self._errors = connect_redis(url)
        self._local = MemoryStreamLog(size=size, total=total, keep=keep)
        self._owner = uuid.uuid4().hex
        self._deletions = deletions
        self._uploads: dict[str, RedisWriter] = {}
        self._woken = asyncio.Event()
        self._flushes: list[asyncio.Future[None]] = []  # those who wait for the next upload
        self._task: asyncio.Task[None] | None = None
        self._renewed = self._extended = 0.0
        self._away = False

    def begin(self, tenant: str, id: str, head: bytes, name: str = "") -> RedisWriter:
        stream = self._local.begin(tenant, id, head, name)
        writer = RedisWriter(stream, _key(tenant, id), _name_key(tenant, name) if name else "", self._woken.set)
        self._uploads[writer.key] = writer
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="penstock-stream-log")
        return writer

    async def find(self, tenant: str, name: str) -> str | None:
        here = await self._local.find(tenant, name)
        writer = self._uploads.get(_key(tenant, here)) if here is not None else None
        if writer is not None and writer.sent < 0:
            return here  # Redis does not know it yet
        try:
            found = await self._call(self._client.get(_name_key(tenant, name)))
        except StoreUnavailable:
            if here is None:
                raise
            return here
        return found.decode() if found is not None else here

    async def open(self, tenant: str, id: str) -> LogReader | None:
        here, key = self._local.get(tenant, id), _key(tenant, id)
        if here is not None and not here.state:
            return here
        pipe = self._client.pipeline(transaction=False)
        pipe.xrange(key, _HEAD, _HEAD)
        pipe.xrevrange(key, count=1)
        try:
            first, last = await self._call(pipe.execute())
        except StoreUnavailable:
            if here is None:
                raise
            return here
        state: StreamState = last[0][1].get(b"state", b"").decode() if last else ""
        if state == "deleted":
            await self._local.drop(tenant, id)
            return RedisReader(self, key, b"", "", state)
        if here is not None or not first:
            return here
        head, owner = first[0][1][b"head"], first[0][1][b"owner"].decode()
        return RedisReader(self, key, head, owner, state or await self.check_writer(key, owner))

    async def cancel(self, tenant: str, id: str) -> None:
        if self._local.get(tenant, id) is not None:
            await self._local.cancel(tenant, id)
            return
        found = await self._call(self._client.xrange(_key(tenant, id), _HEAD, _HEAD))
        if found:
            target = _cancel_key(found[0][1][b"owner"].decode())
            pipe = self._client.pipeline(transaction=False)
            pipe.rpush(target, _key(tenant, id))
            pipe.expire(target, CANCEL_SECONDS)
            await self._call(pipe.execute())

    async def drop(self, tenant: str, id: str) -> None:
        """Leaves an entry that says so: other processes have the stream in their memory, or are reading it."""
        key = _key(tenant, id)
        await self._local.drop(tenant, id)
        await self.flush()
        pipe = self._client.pipeline(transaction=True)
        pipe.xadd(key, {b"state": b"deleted"}, id=_DELETED, nomkstream=True)
        pipe.xtrim(key, maxlen=1, approximate=False)
        pipe.pexpire(key, int((self._local.keep + SPARE) * 1000))
        if self._deletions:
            oldest = int((time.time() - self._deletions) * 1000)
            pipe.xadd(_DELETIONS, {b"tenant": tenant, b"id": id}, minid=oldest)
            pipe.pexpire(_DELETIONS, int(self._deletions * 1000))
        results = await self._call(pipe.execute(raise_on_error=False))
        await self._call(_raise_first(results))

    async def read_deletions(self, after: str) -> list[Deletion]:
        if not self._deletions:
            return []
        found = await self._call(self._client.xrange(_DELETIONS, f"({after}" if after else "-", count=MAX_DELETIONS))
        result = [Deletion(at.decode(), row[b"tenant"].decode(), row[b"id"].decode()) for at, row in found]
        for deletion in result:
            await self._local.drop(deletion.tenant, deletion.id)
        return result

    async def flush(self) -> None:
        if not self._away:  # else nobody waits: other processes cannot be told
            await self._wait_upload()

    async def _wait_upload(self) -> None:
        """Waits for the next attempt to upload."""
        if self._uploads and self._task is not None and not self._task.done():
            uploaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._flushes.append(uploaded)
            self._woken.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(uploaded, TIMEOUT)

    async def aclose(self) -> None:
        await self._wait_upload()
        if self._task is not None:
            with suppress(TimeoutError):  # a long stream needs several uploads
                async with asyncio.timeout(TIMEOUT):
                    while not self._task.done() and any(writer.stream.state for writer in self._uploads.values()):
                        await self._wait_upload()
            self._task.cancel()
            await asyncio.wait([self._task])
        with suppress(*self._errors):
            await self._client.delete(_owner_key(self._owner))
        await self._local.aclose()
        await self._client.aclose()

    # ── readers ───────────────────────────────────────────────────────────────────────────────────

    async def read_entries(self, key: str, after: str, wait: float) -> list[Any]:
        """Returns the entries after an id; waits for them if there are none."""
        found = await self._call(self._client.xread({key: after}, count=ENTRIES, block=max(int(wait * 1000), 1)))
        return found[0][1] if found else []

    async def check_writer(self, key: str, owner: str) -> StreamState:
        """Returns "lost" if the process of a running stream is dead or the stream is gone."""
        return "" if await self._call(self._client.exists(key, _owner_key(owner))) == 2 else "lost"  # noqa: PLR2004

    async def _call(self, command: Awaitable[Any]) -> Any:
        try:
            return await command
        except self._errors as error:
            raise StoreUnavailable("Redis: streams of other processes cannot be read at the moment") from error

    # ── uploads ───────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        """Uploads as long as there is something to upload."""
        while self._uploads:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), UPLOAD_INTERVAL)
            self._woken.clear()
            waiting, self._flushes = self._flushes, []
            try:
                await self._upload()
            except self._errors:
                if not self._away:
                    log.warning("Redis is away: streams go on, but other processes cannot follow them", exc_info=True)
                self._away = True
            else:
                self._away = False
            for uploaded in waiting:
                if not uploaded.done():
                    uploaded.set_result(None)
            if self._away:
                await asyncio.sleep(UPLOAD_INTERVAL)

    async def _upload(self) -> None:
        now, pipe = time.monotonic(), self._client.pipeline(transaction=False)
        renews, extends = now - self._renewed >= RENEW_INTERVAL, now - self._extended >= EXTEND_INTERVAL
        if renews:
            pipe.lpop(_cancel_key(self._owner), MAX_CANCELS)
            pipe.set(_owner_key(self._owner), b"", px=int(LEASE * 1000))
        sent: list[tuple[RedisWriter, int, bool]] = []
        for writer in list(self._uploads.values()):
            self._add_stream(pipe, writer, sent, extends=extends)
        if not len(pipe):
            return
        results = await pipe.execute(raise_on_error=False)
        await _raise_first(results)
        if renews:
            self._renewed = now
            self._cancel_streams(results[0])
        self._extended = now if extends else self._extended
        for writer, position, ended in sent:
            writer.sent = position
            if ended:
                self._uploads.pop(writer.key, None)

    def _add_stream(
        self, pipe: Any, writer: RedisWriter, sent: list[tuple[RedisWriter, int, bool]], *, extends: bool
    ) -> None:
        """Adds the commands that upload what is new in a stream."""
        stream, key, position = writer.stream, writer.key, writer.sent
        state, keep = stream.state, int(self._local.keep * 1000)
        if state == "overflow" and position >= 0:
            pipe.delete(key)
            position = -1
        if position < 0:
            pipe.xadd(key, {b"head": stream.head, b"owner": self._owner}, id=_HEAD)
            if writer.name_key:
                pipe.set(writer.name_key, stream.key[1], px=keep + int(SPARE * 1000))
            position = 0
        fresh = writer.sent < 0 or extends
        for _ in range(MAX_PAGES):
            page = stream.page(position)
            if not page.data:
                break
            pipe.xadd(key, {b"data": page.data}, id=f"{page.position}-0")
            position = page.position
        is_over = bool(state) and (state != "finished" or position >= stream.size)
        if is_over:
            pipe.xadd(key, {b"state": state}, id=f"{max(position, stream.size)}-{_END}")
            pipe.pexpire(key, keep)
        elif fresh:
            pipe.pexpire(key, keep + int(SPARE * 1000))
            if writer.name_key:
                pipe.pexpire(writer.name_key, keep + int(SPARE * 1000))
        sent.append((writer, position, is_over))

    def _cancel_streams(self, keys: Any) -> None:
        for key in cast("list[bytes]", keys) if isinstance(keys, list) else ():
            writer = self._uploads.get(key.decode())
            if writer is not None and writer.stream.on_cancel is not None:
                writer.stream.on_cancel()


async def _raise_first(results: list[Any]) -> None:
    """Raises the first error among results. That an entry was written before is none."""
    for result in results:
        if isinstance(result, Exception) and _WRITTEN_BEFORE not in str(result):
            raise result


def connect_redis(url: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Returns a client, and the errors of a server that is away."""
    try:
        import redis.asyncio as library  # noqa: PLC0415 — an optional extra
        from redis import exceptions  # noqa: PLC0415 — as above
    except ImportError:
        raise MissingExtra("redis", "redis") from None
    scheme, colon, rest = url.partition(":")
    try:
        client: Any = library.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            scheme.replace("valkey", "redis") + colon + rest,
            protocol=2,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            max_connections=MAX_CONNECTIONS,
        )
    except ValueError:
        raise InputError("stores.redis: expected a URL like redis://host:6379/0 (rediss://, unix://)") from None
    return client, (exceptions.RedisError, OSError, TimeoutError)


def _key(tenant: str, id: str) -> str:
    """Returns the key of a stream. Ids come from clients, so both are hashed."""
    return PREFIX + sha256(f"{len(tenant)}:{tenant}:{id}".encode()).hexdigest()


def _name_key(tenant: str, name: str) -> str:
    return f"{PREFIX}name:" + sha256(f"{len(tenant)}:{tenant}:{name}".encode()).hexdigest()


def _owner_key(owner: str) -> str:
    return f"{PREFIX}owner:{owner}"


def _cancel_key(owner: str) -> str:
    return f"{PREFIX}cancel:{owner}"
