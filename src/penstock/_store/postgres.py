"""One PostgreSQL database: a pool of connections, and a writer that commits jobs in batches.

Connections belong to a thread with its own event loop. So any thread and any loop may use the database, and a slow
server holds up nobody else. `call` waits for a result, `acall` awaits it; both fail within seconds while the server is
away. `submit` never waits: jobs are committed within `COMMIT_SECONDS`, many in a transaction, each exactly once. While
the server is away they wait, within bounds, and are written later.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from penstock._redaction import redact
from penstock._store.migrations import POSTGRES_SCHEMA, migrate_postgres
from penstock._store.sqlite_writer import CLOSE_TIMEOUT, GATHER_SECONDS, JOBS_PER_COMMIT, LOG_INTERVAL
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool

    PostgresJob: TypeAlias = Callable[[AsyncConnection[Any]], Awaitable[Callable[[], None] | None]]

T = TypeVar("T")
MAX_WAITING_JOBS = 100_000
MAX_WAITING_BYTES = 128 * 2**20  # of jobs that say their size
CONNECT_TIMEOUT = 3  # seconds, unless the URL says otherwise
ACQUIRE_TIMEOUT = 2.0  # seconds to wait for a free connection
AWAY_INTERVAL = 1.0  # seconds in which a server that is away is not asked again
WRITER_INTERVAL = 4.0  # seconds: longer than an attempt of the writer, so that nobody else waits for a server away
RETRY_DELAY = 0.25  # seconds until jobs are tried again
DEAD_PEER_TIMEOUT = 10_000  # milliseconds until a connection without an acknowledgement is closed
_DEFAULTS = {"connect_timeout": CONNECT_TIMEOUT, "tcp_user_timeout": DEAD_PEER_TIMEOUT, "application_name": "penstock"}
log = logging.getLogger("penstock.store")


class PostgresError(OSError):
    """PostgreSQL did not do what was asked. The message names the server, and has no password."""


def location_of(url: str) -> str:
    """Return the host, port and database of a URL: what may stand in messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"PostgreSQL at {host or 'the local socket'}{parts.path}"


def password_of(url: str) -> str:
    """Return the password of a URL, to be redacted; empty if it has none."""
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""


def connection_options(url: str) -> dict[str, Any]:
    """Return the arguments of a connection: our defaults where the URL says nothing. Raises for a wrong URL."""
    _, conninfo = import_psycopg()
    try:
        given = conninfo.conninfo_to_dict(url)
    except Exception as error:  # noqa: BLE001 — of libpq, with parts of the URL in its text
        raise InputError(f"stores.postgres: not a URL of PostgreSQL: {_clean(error, url)}") from None
    defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
    return {**given, **defaults, "autocommit": True}


def import_psycopg() -> tuple[Any, Any]:
    """Return the modules `psycopg` and `psycopg.conninfo`."""
    try:
        import psycopg  # noqa: PLC0415 — an extra
        from psycopg import conninfo  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error
    return psycopg, conninfo


def session_statement(timeout: float) -> bytes:
    """Return the statement that prepares a connection."""
    return f"SET search_path TO {POSTGRES_SCHEMA}; SET statement_timeout = {round(timeout * 1000)}".encode()


def connect(url: str, timeout: float) -> Connection[Any]:
    """Return a connection for one thread at a time. Raises `PostgresError`."""
    psycopg, _ = import_psycopg()
    try:
        connection: Connection[Any] = psycopg.connect(**connection_options(url))
        connection.execute(session_statement(timeout))
    except psycopg.Error as error:
        raise wrap_error(error, url) from None
    return connection


def migrate(url: str, timeout: float) -> None:
    """Bring the database to the latest schema."""
    psycopg, _ = import_psycopg()
    with connect(url, timeout) as connection:
        try:
            migrate_postgres(connection, location_of(url))
        except psycopg.Error as error:
            raise wrap_error(error, url) from None


def wrap_error(error: BaseException, url: str) -> PostgresError:
    """Return an error without secrets."""
    return PostgresError(f"{location_of(url)}: {_clean(error, url)}")


def _clean(error: BaseException, url: str) -> str:
    secret = password_of(url)
    text = " ".join(str(error).split())[:500] or "it did not answer in time"
    return redact(text, (secret,) if secret else ())


class PostgresDatabase:
    """A database with its pool and writer. Opening it migrates the schema; raises `PostgresError` if it is away.

    `timeout`: seconds for one statement. `refused` counts jobs without room, `failed` jobs that could not be written.
    """

    def __init__(self, url: str, *, connections: int = 8, timeout: float = 10.0) -> None:
        self.url: str = url
        self.location: str = location_of(url)
        self.timeout: float = timeout
        self.refused: int = 0
        self.failed: int = 0
        self._psycopg = import_psycopg()[0]
        migrate(url, timeout)
        self._connections = connections
        self._jobs: deque[tuple[PostgresJob, int, Callable[[], None] | None]] = deque()
        self._bytes = 0  # of jobs that wait
        self._lock = threading.Lock()
        self._submitted = self._finished = self._flush_goal = 0  # numbers of jobs
        self._progress = threading.Condition()
        self._closing = False
        self._due = 0.0  # until then jobs are collected
        self._away_until = 0.0
        self._reported_at: float | None = None  # when the log last said that the server is away
        self._pool: AsyncConnectionPool[Any] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._loop = asyncio.SelectorEventLoop()  # psycopg does not work with Windows' other loop
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._thread = threading.Thread(target=self._run_loop, name="penstock-postgres", daemon=True)
        self._thread.start()
        self._writer = asyncio.run_coroutine_threadsafe(self._run_writer(), self._loop)
        atexit.register(self.close)  # a process that ends without `close` still writes its jobs

    # ── for any thread ────────────────────────────────────────────────────────────────────────────

    def call(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Run a function with a connection and wait for its result. Not for the event loop. Raises `PostgresError`.

        A function that fails because its connection broke runs again, so it must not change anything.
        """
        result: T = self._start(self._call(work)).result()
        return result

    async def acall(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Do the same for any event loop."""
        result: T = await asyncio.wrap_future(self._start(self._call(work)))
        return result

    def transact(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Run a function in a transaction, once, and wait for its result."""
        result: T = self._start(self._call(work, changes=True)).result()
        return result

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whose values are marked by `%s`."""

        async def fetch(connection: AsyncConnection[Any]) -> list[tuple[Any, ...]]:
            return await (await connection.execute(query.encode(), values)).fetchall()

        return self.call(fetch)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a function that calls the database in a thread, for the event loop."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._connections, "penstock-postgres-reader")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def submit(self, job: PostgresJob, size: int = 0, on_failure: Callable[[], None] | None = None) -> bool:
        """Run a job soon. False: refused, because too many wait or the database is closed.

        The job may return a function, which is called after the commit. `on_failure` is called if it cannot be written.
        """
        with self._lock:
            full = len(self._jobs) >= MAX_WAITING_JOBS or (size and self._bytes + size > MAX_WAITING_BYTES)
            if self._closing or full:
                self.refused += 1
                return False
            self._jobs.append((job, size, on_failure))
            self._bytes += size
            self._submitted += 1
            if first := len(self._jobs) == 1:
                self._due = time.monotonic() + GATHER_SECONDS
        if first:
            self._loop.call_soon_threadsafe(self._wake.set)
        return True

    def flush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Wait until all jobs submitted so far are written. False if they are not, or the server is away."""
        goal = self._flush_goal = self._submitted
        if self._finished < goal:
            with suppress(RuntimeError):  # closed
                self._loop.call_soon_threadsafe(self._hurry.set)
        with self._progress:
            self._progress.wait_for(lambda: self._finished >= goal or self._reported_at is not None, timeout)
            return self._finished >= goal

    def close(self) -> None:
        """Write the jobs that wait, then close all connections. A second call does nothing."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        atexit.unregister(self.close)
        self._loop.call_soon_threadsafe(self._wake.set)
        self._loop.call_soon_threadsafe(self._hurry.set)
        with suppress(TimeoutError):
            self._writer.result(CLOSE_TIMEOUT)
        if left := self._submitted - self._finished:
            log.error("%s: %d changes were not written within %g s and are lost", self.location, left, CLOSE_TIMEOUT)
        if self._threads is not None:
            self._threads.shutdown()
        with suppress(TimeoutError):
            self._start(self._close_pool()).result(CLOSE_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    def _start(self, work: Coroutine[Any, Any, T]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # ── in the database's thread ──────────────────────────────────────────────────────────────────

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _open_pool(self) -> AsyncConnectionPool[Any]:
        """Return the pool. It opens connections as they are needed, and closes those that are idle for long."""
        if self._pool is None:
            from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 — an extra

            async def configure(connection: AsyncConnection[Any]) -> None:
                await connection.execute(session_statement(self.timeout))

            options = connection_options(self.url)
            self._pool = AsyncConnectionPool(
                kwargs=options, min_size=0, max_size=self._connections, open=False, configure=configure,
                timeout=ACQUIRE_TIMEOUT, reconnect_timeout=ACQUIRE_TIMEOUT, name="penstock",
            )  # fmt: skip
            await self._pool.open()
        return self._pool

    async def _close_pool(self) -> None:
        self._writer.cancel()
        if self._pool is not None:
            await self._pool.close(timeout=1.0)

    async def _call(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]], *, changes: bool = False) -> T:
        if time.monotonic() < self._away_until:
            raise PostgresError(f"{self.location} is away")
        pool, last = await self._open_pool(), 0 if changes else 1
        for attempt in range(2):
            broken = False
            try:
                async with asyncio.timeout(self.timeout + ACQUIRE_TIMEOUT), pool.connection() as connection:
                    try:
                        if not changes:
                            return await work(connection)
                        async with connection.transaction():
                            return await work(connection)
                    finally:
                        broken = connection.broken
            except (self._psycopg.OperationalError, TimeoutError) as error:
                if not broken or attempt >= last:
                    self._away_until = time.monotonic() + AWAY_INTERVAL * (not broken)
                    raise wrap_error(error, self.url) from None
                await pool.check()  # the server was restarted: other connections are broken too
            except self._psycopg.Error as error:
                raise wrap_error(error, self.url) from None
        raise PostgresError(f"{self.location} is away")

    # ── the writer ────────────────────────────────────────────────────────────────────────────────

    async def _run_writer(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                if not self._closing and self._flush_goal <= self._finished:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._hurry.wait(), max(self._due - time.monotonic(), 0))
                self._hurry.clear()
                self._due = 0.0  # jobs that are left over have waited long enough
                batch = [self._jobs.popleft() for _ in range(min(JOBS_PER_COMMIT, len(self._jobs)))]
                await self._write(batch)
                with self._lock:
                    self._bytes -= sum(size for _, size, _ in batch)
                with self._progress:
                    self._finished += len(batch)
                    self._progress.notify_all()
            if self._closing:
                return

    async def _write(self, batch: list[tuple[PostgresJob, int, Callable[[], None] | None]]) -> None:
        """Commit all jobs in one transaction; if that fails, one by one, so that a bad job costs no other."""
        commit = _Commit([job for job, _, _ in batch])
        while (error := await self._commit(commit)) is not None and self._is_retryable(error):
            self._report(error)
            await asyncio.sleep(RETRY_DELAY)
        if self._reported_at is not None:
            self._reported_at = None
            log.warning("%s: rows that were held back are written again", self.location)
        if error is None:
            for callback in commit.callbacks:
                callback()
        elif len(batch) > 1:
            for one in batch:
                await self._write([one])
        else:
            self.failed += 1
            log.error("%s: a row was not written: %s", self.location, _clean(error, self.url))
            if batch[0][2] is not None:
                batch[0][2]()

    async def _commit(self, commit: _Commit) -> Exception | None:
        """Run jobs in one transaction. Returns the error that kept it from being committed."""
        try:
            pool = await self._open_pool()
            async with pool.connection() as connection:
                if commit.transaction is not None and await commit.was_committed(connection):
                    return None
                commit.transaction, commit.callbacks = None, []
                async with connection.transaction():
                    for job in commit.jobs:
                        callback = await job(connection)
                        commit.callbacks += [callback] if callback is not None else []
                    row = await (await connection.execute("SELECT pg_current_xact_id()::text")).fetchone()
                    commit.transaction = row[0] if row is not None else None
                commit.transaction = None
        except Exception as error:  # noqa: BLE001 — an error of a job must not end the writer
            if isinstance(error, self._psycopg.OperationalError) and self._pool is not None:
                if getattr(error, "sqlstate", None) is None:  # no error of a statement: there is no connection
                    self._away_until = time.monotonic() + WRITER_INTERVAL
                with suppress(self._psycopg.Error):
                    await self._pool.check()
            return error
        self._away_until = 0.0
        return None

    def _is_retryable(self, error: Exception) -> bool:
        """Return whether the same transaction may succeed later: the fault is the server's and not a row's."""
        if isinstance(error, self._psycopg.DataError | self._psycopg.IntegrityError):
            return False
        known = isinstance(error, self._psycopg.OperationalError | self._psycopg.InterfaceError | OSError)
        return known or getattr(error, "sqlstate", None) is not None

    def _report(self, error: Exception) -> None:
        """Log that rows wait: once in `LOG_INTERVAL` seconds."""
        now = time.monotonic()
        if self._reported_at is not None and now - self._reported_at < LOG_INTERVAL:
            return
        waiting = self._submitted - self._finished
        log.error("%s: rows are held back, %d changes wait: %s", self.location, waiting, _clean(error, self.url))
        with self._progress:
            self._reported_at = now
            self._progress.notify_all()


class _Commit:
    """A transaction that is tried until it is committed. `transaction`: the id, if its commit was not confirmed."""

    def __init__(self, jobs: list[PostgresJob]) -> None:
        self.jobs = jobs
        self.transaction: str | None = None
        self.callbacks: list[Callable[[], None]] = []

    async def was_committed(self, connection: AsyncConnection[Any]) -> bool:
        """Ask the server what became of a commit whose answer was lost with the connection."""
        while True:
            row = await (await connection.execute("SELECT pg_xact_status(%s::xid8)", (self.transaction,))).fetchone()
            if row is None or row[0] != "in progress":
                return row is not None and row[0] == "committed"
            await asyncio.sleep(RETRY_DELAY)
