"""Records streams to files, and plays them back. A recording is kept in memory and written when it is closed.

Secrets are removed before writing, also if they span chunks. Writing happens in a thread. The playback server stands
in for the recorded provider and looks at requests only to find the recording of the same request.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._gateway.client_form import ClientForm
from penstock._gateway.client_stream import can_pass_through
from penstock._http.header_fields import is_token, response_header
from penstock._input_limits import NestingError, decode_bounded
from penstock._redaction import redact, redact_cut, redact_headers, redact_json
from penstock._store.recordings import SUFFIX, Recording, RecordingHeader, write_recording
from penstock._stream_redaction import redact_chunks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from penstock._engines.reply import ModelReply
    from penstock._gateway.config_tables import RecordTable
    from penstock._gateway.endpoints import TurnRequest

DAY = 86_400.0
log = logging.getLogger("penstock.recording")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
CLOSE_TIMEOUT = 10.0
SKEW = 60.0  # seconds that the time of a file may be ahead: network drives have their own clock
_MAX_TEXT = 2_000  # characters of a text in the header


@dataclass(slots=True, eq=False)
class RecordingSession:
    """One recording. `close` writes it; a second call does nothing."""

    _recorder: Recorder
    header: RecordingHeader
    request: bytes
    secrets: tuple[str, ...]
    chunks: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    _size: int = 0
    _began: float = field(default_factory=time.perf_counter)
    _closed: bool = False

    def set_reply(self, reply: ModelReply, turn_request: TurnRequest) -> None:
        """Set the head of the answer. If the engine has no bytes, those of the client's response are recorded."""
        header = self.header
        header.status, header.headers = reply.status, dict(reply.headers)
        header.provider, header.model = reply.provider, reply.model
        header.protocol = reply.protocol if reply.raw else turn_request.protocol
        is_stream = reply.media.startswith("text/event-stream") or not turn_request.request.stream
        header.passthrough = not reply.raw or (is_stream and can_pass_through(turn_request, reply))
        if not reply.transforms:  # they are not recorded, and change what the client gets
            header.client = msgspec.to_builtins(ClientForm.of(turn_request))

    def add_chunk(self, data: bytes) -> None:
        """Add bytes. From the first that are over the size limit on, all are dropped, and the header says so."""
        if self.header.cut or self._size + len(data) > self._recorder.size:
            self.header.cut = True
            return
        self._size += len(data)
        self.chunks.append((time.perf_counter() - self._began, data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._recorder.write(self)


class Recorder:
    """Starts recordings; `begin` returns None if the gateway does not record. `secrets` are redacted."""

    def __init__(self, table: RecordTable, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.folder: Path | None = Path(table.path).expanduser() if table.path else None
        self.size: int = table.size
        self.total: int = table.total
        self.age: float = table.days * DAY
        self.failed: int = 0
        self._secrets = secrets
        self._numbers = itertools.count(1)
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def begin(
        self, header: RecordingHeader, request: bytes = b"", secrets: tuple[str, ...] = ()
    ) -> RecordingSession | None:
        """Start a recording. `secrets` are redacted in addition."""
        return RecordingSession(self, header, request, secrets) if self.folder is not None else None

    def write(self, session: RecordingSession) -> None:
        """Write a recording in the thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-recorder")
            atexit.register(self.close)
        self._last = self._pool.submit(self._write, session)

    def close(self) -> None:
        """Write everything that waits."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
            atexit.unregister(self.close)

    # ── in the recorder's thread ──────────────────────────────────────────────────────────────────

    def _write(self, session: RecordingSession) -> None:
        assert self.folder is not None  # noqa: S101 — set if there are recordings
        known = (*self._secrets(), *session.secrets)
        try:
            cleaned, hidden = redact_chunks(session.chunks, known)
            request = redact_body(session.request, known)
            header = replace(redact_header(session.header, known), request=request, hidden=hidden)
            write_recording(self._path(self.folder, header), header, cleaned)
            self._trim()
        except Exception:
            self.failed += 1
            log.exception("a recording was not written to %s", self.folder)

    def _path(self, folder: Path, header: RecordingHeader) -> Path:
        """Return an unused path: another gateway may record to the same folder in the same second."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(header.time or time.time()))
        who = _UNSAFE.sub("-", f"{header.provider}-{header.model}").strip("-.")[:80] or "stream"
        names = (folder / f"{stamp}-{number:04}-{who}{SUFFIX}" for number in self._numbers)
        return next(path for path in names if not path.exists())

    def _trim(self) -> None:
        """Delete recordings that are too old, then the oldest until the total size fits.

        A file from the future was written before the clock was set back: it counts as older than all others.
        """
        assert self.folder is not None  # noqa: S101
        now = time.time()
        stats = [(path.stat(), path) for path in self.folder.glob(f"*{SUFFIX}")]
        found = sorted((one.st_mtime <= now + SKEW, one.st_mtime, one.st_size, path) for one, path in stats)
        over = sum(size for _, _, size, _ in found) - self.total
        for _, modified, size, path in found[:-1]:
            if over > 0 or modified < now - self.age:
                path.unlink(missing_ok=True)
                over -= size


def redact_header(header: RecordingHeader, secrets: tuple[str, ...] = ()) -> RecordingHeader:
    """Redact a header."""
    names = ("url", "note", "provider", "model")
    texts: dict[str, Any] = {name: redact_cut(getattr(header, name), _MAX_TEXT, secrets) for name in names}
    headers, request_headers = (redact_headers(sent, secrets) for sent in (header.headers, header.request_headers))
    client = redact_json(header.client, secrets)
    return replace(header, headers=headers, request_headers=request_headers, client=client, **texts)


def redact_body(body: bytes, secrets: tuple[str, ...] = ()) -> Any:
    """Redact a request body: a JSON value, or a text."""
    if not body:
        return None
    try:
        return redact_json(decode_bounded(body), secrets)
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return redact(body.decode("utf-8", "replace"), secrets)


MAX_BODY_BYTES = 64 * 2**20
JSON = (b"content-type", b"application/json")
# Headers of the recorded connection or of a removed encoding.
_DROPPED_HEADERS = frozenset(
    "connection content-encoding content-length date keep-alive server set-cookie trailer transfer-encoding "
    "upgrade".split()
)


async def paced_chunks(recording: Recording, speed: float) -> AsyncIterator[bytes]:
    """Yield the chunks at their recorded times. `speed` 2 is twice as fast; 0 does not wait."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at, chunk in recording.chunks:
        wait = began + at / speed - loop.time() if speed else 0.0
        if wait > 0:
            await asyncio.sleep(wait)
        yield chunk


class PlaybackApp:
    """An ASGI application that answers with the recording of the same request, else with the next one."""

    def __init__(self, recordings: Sequence[Recording], speed: float = 0.0) -> None:
        self._recordings = recordings
        self._speed = speed
        self._next = itertools.cycle(recordings)
        known = [one for one in reversed(recordings) if one.header.request is not None]
        self._by_request = {_request_key(one.header.request): one for one in known}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            names = sorted({one.header.model for one in self._recordings})
            models = [{"id": name, "object": "model"} for name in names]
            body = msgspec.json.encode({"object": "list", "data": models})
            await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        recording = self._choose(await _read_body(receive))
        recorded = recording.header.headers.items()
        passed = ((name, value) for name, value in recorded if name.lower() not in _DROPPED_HEADERS and is_token(name))
        headers = list(filter(None, (response_header(name, value) for name, value in passed)))
        await send({"type": "http.response.start", "status": recording.header.status, "headers": headers or [JSON]})
        async for chunk in paced_chunks(recording, self._speed):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _choose(self, body: bytes) -> Recording:
        try:
            request = redact_json(decode_bounded(body))
        except (msgspec.DecodeError, NestingError):
            request = None
        return self._by_request.get(_request_key(request)) or next(self._next)


def _request_key(request: Any) -> bytes:
    return msgspec.json.encode(request, order="deterministic")


async def _read_body(receive: Any) -> bytes:
    """Receive the body, up to a limit."""
    pieces: list[bytes] = []
    more = True
    while more and sum(map(len, pieces)) < MAX_BODY_BYTES:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _run_lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
