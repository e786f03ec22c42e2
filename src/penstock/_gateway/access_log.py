"""The access log: one line for each request on standard output, as common log format or as JSON.

`AccessLog` stands in front of the application. A request leaves its facts in a queue, and a thread writes the lines, so
no request waits for the disk or for a reader. Lines have no query string, no secret and no control character.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock._gateway.endpoints import ACCESS_KEY
from penstock._redaction import redact_cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._store.journal import JournalEntry

MAX_WAITING = 10_000  # lines; further ones are counted as lost
MAX_TEXT = 200  # characters of a path or a name
_MAX_WRITE = 4096  # bytes: the lines of several processes do not mix in a pipe up to this size (PIPE_BUF of Linux)
_GATHER = 0.05  # seconds in which lines are collected for one write
_CLOSE_TIMEOUT = 2.0  # seconds that the last lines may take
_ACCEPTED = 101
log = logging.getLogger("penstock.access")


class AccessLine(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one request. Times in seconds; None is unknown."""

    time: float
    id: str
    address: str
    method: str
    path: str
    version: str
    status: int
    bytes: int
    duration: float
    key: str = ""
    team: str = ""
    provider: str = ""
    model: str = ""
    ttft: float | None = None
    input: int | None = None
    output: int | None = None
    cost: float | None = None


class RequestEntry:
    """The facts of a request while it is answered. `row` is its row of the journal, if it has one."""

    __slots__ = ("_finished", "_log", "_scope", "_started", "_time", "incoming", "row", "size", "status")

    def __init__(self, scope: Any, log: AccessLog) -> None:
        self._scope, self._log = scope, log
        self._time, self._started = time.time(), time.monotonic()
        self._finished = False
        self.status = self.size = 0
        self.incoming: IncomingRequest | None = None
        self.row: JournalEntry | None = None

    def add_row(self, row: JournalEntry) -> None:
        """The journal gets a row. One of a WebSocket, or of work that outlives its request, is a line by itself."""
        if self._finished or self._scope["type"] == "websocket":
            self._log.add(self._build_line(row.http, row))
        else:
            self.row = row

    def finish(self) -> None:
        """The request is answered."""
        self._finished = True
        self._log.add(self._build_line(self.status, self.row))
        self.incoming = None

    def _build_line(self, status: int, row: JournalEntry | None) -> AccessLine:
        scope, incoming = self._scope, self.incoming
        caller = incoming.caller if incoming is not None else None
        facts: dict[str, Any] = {"key": caller.key, "team": caller.team} if caller is not None else {}
        if row is not None:
            facts = {name: getattr(row, name) for name in _ROW_FIELDS}
            facts |= {"id": row.request_id, "status": row.http or status, "bytes": row.bytes_out or self.size}
        line: dict[str, Any] = {
            "time": self._time,
            "id": incoming.id if incoming is not None else "",
            "address": self._log.client_address(scope),
            "method": "WEBSOCKET" if row is not None and scope["type"] == "websocket" else scope.get("method", "GET"),
            "path": scope["path"],
            "version": scope.get("http_version", "1.1"),
            "status": status,
            "bytes": self.size,
            "duration": time.monotonic() - self._started,
        }
        return AccessLine(**(line | facts))


_ROW_FIELDS = ("time", "duration", "key", "team", "provider", "model", "ttft", "input", "output", "cost")


class AccessLog:
    """An ASGI application in front of another, which writes a line for each request to it."""

    def __init__(self, app: Any, form: Literal["common", "json"], services: Services, descriptor: int = 1) -> None:
        self._app, self._services, self._descriptor = app, services, descriptor
        self._format = format_json if form == "json" else format_common
        self._lines: deque[AccessLine] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._failed = False
        self.lost: int = 0
        services.metrics.add_gauge("access_log_lost", lambda: self.lost)
        self._thread = threading.Thread(target=self._run, name="penstock-access-log", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        """The server calls methods of the application, such as `stopping`."""
        return getattr(self._app, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        entry = scope[ACCESS_KEY] = RequestEntry(scope, self)

        async def counting_send(message: Any) -> None:
            kind = message["type"]
            if kind in {"http.response.start", "websocket.http.response.start"}:
                entry.status = message["status"]
            elif kind == "http.response.body":
                entry.size += len(message.get("body", b""))
            elif kind == "websocket.accept":
                entry.status = _ACCEPTED
            await send(message)

        try:
            await self._app(scope, receive, counting_send)
        finally:
            entry.finish()

    def client_address(self, scope: Any) -> str:
        """Return the address of a client: the peer, or what a trusted proxy says."""
        return self._services.access.client_address(scope)

    def add(self, line: AccessLine) -> None:
        """Write a line soon."""
        if len(self._lines) >= MAX_WAITING:
            self.lost += 1
            return
        self._lines.append(line)
        self._wake.set()

    def close(self) -> None:
        """Write the lines that wait."""
        self._closing = True
        self._wake.set()
        self._thread.join(_CLOSE_TIMEOUT)

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closing or self._lines:
            self._wake.wait()
            if not self._closing:
                time.sleep(_GATHER)
            self._wake.clear()
            self._write_lines()

    def _write_lines(self) -> None:
        secrets, data = tuple(self._services.secrets), b""
        while self._lines:
            line = self._format(self._lines.popleft(), secrets)
            if len(data) + len(line) > _MAX_WRITE:
                self._write(data)
                data = b""
            data += line
        self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self.lost += data.count(b"\n")
            if not self._failed:
                log.error("the access log cannot be written to standard output: %s", error)  # noqa: TRY400
            self._failed = True


def format_common(line: AccessLine, secrets: Iterable[str] = ()) -> bytes:
    """Return a line in common log format, followed by `name=value` for what that format has no place for."""
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(line.time))
    request = f"{line.method} {_word(line.path, secrets)} HTTP/{line.version}"
    head = f'{_word(line.address)} - {_word(line.key, secrets)} [{when}] "{request}" {line.status} {line.bytes}'
    more = {
        "id": _word(line.id, secrets),
        "team": _word(line.team, secrets),
        "provider": _word(line.provider, secrets),
        "model": _word(line.model, secrets),
        "duration": f"{line.duration:.3f}",
        "ttft": "-" if line.ttft is None else f"{line.ttft:.3f}",
        "input": "-" if line.input is None else line.input,
        "output": "-" if line.output is None else line.output,
        "cost": "-" if line.cost is None else f"{line.cost:.6f}",
    }
    return f"{head} {' '.join(f'{name}={value}' for name, value in more.items())}\n".encode("ascii", "backslashreplace")


def format_json(line: AccessLine, secrets: Iterable[str] = ()) -> bytes:
    """Return a line as a JSON object. It always has the same members."""
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(line.time))}.{int(line.time % 1 * 1000):03}Z"
    fields: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(line).items():
        fields[name] = _clean(value, secrets) if isinstance(value, str) else value
    fields |= {"time": at, "duration": round(line.duration, 6)}
    if line.ttft is not None:
        fields["ttft"] = round(line.ttft, 6)
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _word(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without spaces; `-` for none."""
    return _clean(text, secrets, ' "\\') or "-"


def _clean(text: str, secrets: Iterable[str], also: str = "") -> str:
    """Shorten and redact a text. Escapes what a terminal would obey, and the characters of `also`."""
    short = redact_cut(text, MAX_TEXT, secrets)
    if short.isprintable() and not any(one in short for one in also):
        return short
    return "".join(one if one.isprintable() and one not in also else _escape(one) for one in short)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
