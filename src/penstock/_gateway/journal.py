"""The journal: a row for every turn, refusal and auxiliary request, written in a thread.

It contains no prompt, no answer and no key. The table is in `_store.journal`. Auxiliary requests are requests to a
provider that are not turns: embeddings, rerank, token counts. An endpoint fills in the `AuxRequest`; the application
journals it when the answer is sent. Refusals and token counts may come by the thousand: `JournalThrottle` writes the
first rows of a kind in each minute, and the number of the others as one row (`times`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import fields, replace

from penstock._engines.failure_policy import may_be_charged
from penstock._gateway.client_names import name_client
from penstock._gateway.config import GatewayConfig, data_path
from penstock._redaction import redact, redact_cut
from penstock._store.journal import JournalEntry, JournalRows, JournalStore
from penstock._store.sqlite import IN_MEMORY
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engines.engine_interface import DecisionLog
    from penstock._gateway.endpoints import Headers, IncomingRequest
    from penstock._gateway.limits import LimitSlot
    from penstock._store.postgres import PostgresDatabase
    from penstock._tokens.estimate import Estimate
    from penstock.events import Fault, Usage

FILE = "journal.sqlite"
DAY = 86_400.0
_MAX_LENGTH = 500  # characters of a text column
_CUT_LENGTH = _MAX_LENGTH - 40  # leaves room for the note about the cut
_GATEWAY_ID = re.compile("[0-9a-f]{32}")  # as `IncomingRequest` creates them
log = logging.getLogger("penstock.journal")


class Journal:
    """Writes rows of turns. `rows` queries them; None if the journal is off."""

    def __init__(self, rows: JournalRows | None, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.rows = rows
        self._secrets = secrets

    @classmethod
    def open(
        cls,
        config: GatewayConfig,
        secrets: Callable[[], Iterable[str]] = tuple,
        database: PostgresDatabase | None = None,
    ) -> Journal:
        """Open the journal of a configuration: in `database`, else in a file.

        If the default file cannot be written, rows are kept in memory.
        """
        if config.journal.path == "off":
            return cls(None)
        path = data_path(config.journal.path, config.data, FILE)
        age, size = config.journal.days * DAY, config.journal.size
        if database is not None and not config.journal.path:
            from penstock._store.postgres_stores import PostgresJournal  # noqa: PLC0415 — most gateways need none

            return cls(PostgresJournal(database, time.time, age=age, size=size), secrets)
        try:
            return cls(JournalStore(path, time.time, age=age, size=size), secrets)
        except OSError as error:
            if config.journal.path:
                raise
            log.warning("the journal is kept in memory only: %s", error)
            return cls(JournalStore(IN_MEMORY, time.time, age=age, size=size), secrets)

    def write_row(self, row: JournalEntry) -> None:
        """Write a row without blocking. A row without room in the queue is counted (`lost`) and logged."""
        if self.rows is not None and not self.rows.add(row, self._clean):
            log.error("a turn was not journaled: too many rows wait for the disk")

    def _clean(self, row: JournalEntry) -> JournalEntry:
        """Shorten and redact all texts of a row. Runs in the writer's thread, because searching is slow.

        All text columns of the journal are redacted here.
        """
        known = tuple(self._secrets())
        texts = _read_texts(row)
        shown = _redact_texts(texts, known)
        changed = {} if shown == texts else dict(zip(_TEXT_COLUMNS, shown, strict=True))
        if not _GATEWAY_ID.fullmatch(row.request_id):
            changed["request_id"] = redact_cut(row.request_id, _MAX_LENGTH, known)
        return replace(row, **changed) if changed else row

    @property
    def waiting(self) -> int:
        return self.rows.waiting if self.rows is not None else 0

    @property
    def lost(self) -> int:
        """The number of rows that were not written."""
        return self.rows.lost if self.rows is not None else 0

    def flush(self) -> None:
        if self.rows is not None:
            self.rows.flush()

    def close(self) -> None:
        """Write everything that waits."""
        if self.rows is not None:
            self.rows.close()


# The text columns that are redacted. Redacted texts are cached: the request id, which is unique, would defeat that.
_TEXT_COLUMNS = tuple(
    field.name
    for field in fields(JournalEntry)
    if isinstance(field.default, str) and field.name not in {"request_id", "status"}
)
_read_texts: Callable[[JournalEntry], tuple[str, ...]] = attrgetter(*_TEXT_COLUMNS)
_SEPARATOR = "\n\0\n"  # no secret contains it


@lru_cache(1000)
def _redact_texts(texts: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Redact the texts of a row. They are searched as one text and cached, because most rows are alike."""
    short = [redact_cut(text, _CUT_LENGTH, known) if len(text) > _MAX_LENGTH else text for text in texts]
    joined = _SEPARATOR.join(short)
    hidden = redact(joined, known)
    result = short if hidden is joined else hidden.split(_SEPARATOR)
    if len(result) != len(texts):  # a text contains the separator
        result = [redact(text, known) for text in short]
    return tuple(result)


MAX_ANONYMOUS_ROWS = 3  # of a kind in a minute, from callers without a key
MAX_CALLER_ROWS = 30  # of a kind in a minute, from callers with a key
MAX_KINDS = 64  # that are told apart; the others share one count
MINUTE = 60.0
_OTHER_KINDS = ("", 0, "", "", "")


class _RowKind(msgspec.Struct):
    """Rows of one kind in the current minute. `last` is the last row that was counted instead of written."""

    since: float
    count: int = 0
    skipped: int = 0
    last: JournalEntry | None = None


class JournalThrottle:
    """Writes the first rows of a kind per minute with `write`; counts the rest."""

    def __init__(self, write: Callable[[JournalEntry], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._kinds: dict[tuple[object, ...], _RowKind] = {}
        self._timer: asyncio.TimerHandle | None = None

    def write_row(self, row: JournalEntry) -> None:
        """Write a row, or count it."""
        kind = self._find_kind((row.key, row.http, row.fault, row.operation, row.model), self._clock())
        kind.count += 1
        limit = MAX_CALLER_ROWS if row.key else MAX_ANONYMOUS_ROWS
        if kind.count <= limit and kind is not self._kinds.get(_OTHER_KINDS):
            self._write(row)
            return
        kind.skipped += 1
        kind.last = row
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MINUTE, self.flush)

    def _find_kind(self, key: tuple[object, ...], now: float) -> _RowKind:
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) >= MAX_KINDS:
                self._drop_expired(now)
            key = key if len(self._kinds) < MAX_KINDS else _OTHER_KINDS
            found = self._kinds.get(key)
        if found is None or now - found.since >= MINUTE:
            if found is not None:
                self._write_count(found)
            found = self._kinds[key] = _RowKind(now)
        return found

    def _drop_expired(self, now: float) -> None:
        for key, kind in list(self._kinds.items()):
            if now - kind.since >= MINUTE:
                self._write_count(kind)
                del self._kinds[key]

    def _write_count(self, kind: _RowKind) -> None:
        if kind.last is not None:
            self._write(replace(kind.last, times=kind.skipped))
            kind.last, kind.skipped = None, 0

    def flush(self) -> None:
        """Write the counts of rows that were not written. The minute of each kind continues."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for kind in self._kinds.values():
            self._write_count(kind)


COUNT = "count"  # the operation of token counts: free, and frequent


class AuxRequest:
    """One auxiliary request. `requested_model` is the name that the client sent, `counted` the result of a count.

    `headers` are added to the response.
    """

    def __init__(self, operation: str, protocol: str) -> None:
        self.operation: str = operation
        self.protocol: str = protocol
        self.requested_model: str = ""
        self.provider: str = ""
        self.model: str = ""
        self.slot: LimitSlot | None = None
        self.fault: Fault | None = None
        self.error: BaseException | None = None
        self.usage: Usage | None = None
        self.record: DecisionLog | None = None
        self.counted: Estimate | None = None
        self.headers: Headers = ()

    def set_answer(
        self, provider: str, model: str, usage: Usage | None = None, record: DecisionLog | None = None
    ) -> None:
        """Set the provider that answered, its usage, and the router's decisions."""
        self.provider, self.model, self.usage, self.record = provider, model, usage, record

    def set_fault(self, fault: Fault, error: BaseException | None = None) -> None:
        """Set why the request failed."""
        self.fault, self.error = fault, error
        if isinstance(error, ProviderError):
            self.provider, self.model = error.provider, error.model

    def count_unanswered(self) -> int:
        """Return the number of attempts without an answer that a provider may have charged for."""
        if self.record is not None:
            return sum(attempt.unsure for attempt in self.record.attempts)
        if isinstance(self.error, ProviderError):
            return sum(map(may_be_charged, [*self.error.attempts, self.error])) or int(self.error.partial)
        return int(self.fault is not None and self.fault.kind == "cancelled")

    @property
    def is_throttled(self) -> bool:
        """Whether thousands of the kind may come, so that only a few get a journal row."""
        return self.operation == COUNT or self.slot is None

    def journal_row(self, incoming: IncomingRequest, http: int, size: int) -> JournalEntry:
        """Return the journal row."""
        fault, usage = self.fault, self.usage
        more: dict[str, Any] = {"input": usage.input, "output": usage.output} if usage is not None else {}
        if fault is not None:
            status = "cancelled" if fault.kind == "cancelled" else "refused"
            more |= {"status": status, "fault": fault.kind, "fault_message": fault.message}
        if self.counted is not None:
            more |= {"estimate": self.counted.tokens, "method": self.counted.method}
        if self.record is not None:
            more |= {"tries": self.record.tries, "decisions": "\n".join(self.record.lines())}
        return JournalEntry(
            protocol=self.protocol,
            operation=self.operation,
            asked=self.requested_model,
            provider=self.provider,
            model=self.model,
            http=http,
            cost=incoming.services.upstream.price_list.dollars(self.provider, self.model, usage),
            bytes_out=size,
            **request_columns(incoming),
            **more,
        )


def refused_row(
    incoming: IncomingRequest, protocol: str, http: int, fault: Fault, secrets: tuple[str, ...]
) -> JournalEntry:
    """Return the journal row of a request that was not admitted."""
    more: dict[str, Any] = {"status": "refused", "fault": fault.kind, "fault_message": fault.message}
    return JournalEntry(protocol=protocol, http=http, **more, **request_columns(incoming, secrets))


def request_columns(incoming: IncomingRequest, secrets: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the columns of a row that describe the client's request. A request that was not admitted has no caller."""
    duration, caller = time.monotonic() - incoming.started, incoming.caller
    client, agent = name_client(incoming, secrets)
    columns: dict[str, Any] = {
        "time": time.time() - duration,
        "duration": duration,
        "client": client,
        "agent": agent,
        "route": incoming.path,
        "request_id": incoming.id,
        "bytes_in": len(incoming.raw),
    }
    if caller is not None:
        columns["key"], columns["tenant"], columns["team"] = caller.key, caller.tenant, caller.team
    return columns
