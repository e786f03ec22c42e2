"""Streams saved as they pass, for replay. A tape keeps chunks in memory, and is written once it is closed.

Secrets are taken out on the way to the file, whole, also where a chunk ends in the middle of one. Writing happens in a
thread of its own. Leans on `store.recordings` for the file, on `secrecy` for what a secret is.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock.http.header_fields import is_token, response_header
from penstock.input_limits import NestingError, decode_bounded
from penstock.redaction import MARK, find_secrets, redact, redact_cut, redact_headers, redact_json
from penstock.store.recordings import SUFFIX, Header, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from penstock.engines.reply import Reply
    from penstock.gateway.config import RecordTable
    from penstock.store.recordings import Recording

DAY = 86_400.0
log = logging.getLogger("penstock.recording")
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
PATIENCE = 10.0
_LONG = 2_000  # characters of a path, a name or a note that are kept


class Tape:
    """One recording. `close` it, whatever happened; a second time does nothing."""

    def __init__(self, recorder: Recorder, header: Header, secrets: tuple[str, ...] = ()) -> None:
        self.header = header
        self._secrets = secrets
        self._recorder = recorder
        self._chunks: list[tuple[float, bytes]] = []
        self._request = b""
        self._size = 0
        self._began = time.perf_counter()
        self._closed = False

    def request(self, body: bytes) -> None:
        """The body that was sent."""
        self._request = body

    def answered(self, reply: Reply, spoken: str) -> None:
        """How the answer begins. `spoken` is the client's protocol: what is kept where the engine has no bytes."""
        header = self.header
        header.status, header.headers = reply.status, dict(reply.headers)
        header.provider, header.model = reply.provider, reply.model
        header.protocol = reply.protocol if reply.raw else spoken

    def chunk(self, data: bytes) -> None:
        """Bytes that came. What is over the size of a tape is not kept, and the recording says so."""
        if self._size + len(data) > self._recorder.size:
            self.header.cut = True
            return
        self._size += len(data)
        self._chunks.append((time.perf_counter() - self._began, data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._recorder.keep(self.header, self._request, self._chunks, self._secrets)


class Recorder:
    """Makes tapes; `begin` gives None where nothing is recorded. `secrets` are those known by value."""

    def __init__(self, table: RecordTable, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.folder = Path(table.path).expanduser() if table.path else None
        self.size, self.total, self.age = table.size, table.total, table.days * DAY
        self.failed = 0
        self._secrets = secrets
        self._numbers = itertools.count(1)
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def begin(self, info: Header, secrets: Iterable[str] = ()) -> Tape | None:
        """A tape for one answer; `secrets` are those of this one besides."""
        return Tape(self, info, tuple(secrets)) if self.folder is not None else None

    def keep(
        self, header: Header, request: bytes, chunks: list[tuple[float, bytes]], secrets: tuple[str, ...] = ()
    ) -> None:
        """Have a tape written."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-recorder")
            atexit.register(self.close)
        self._last = self._pool.submit(self._write, header, request, chunks, secrets)

    def close(self) -> None:
        """Write what waits."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
            atexit.unregister(self.close)

    # ── in the recorder's thread ──────────────────────────────────────────────────────────────────

    def _write(
        self, header: Header, request: bytes, chunks: list[tuple[float, bytes]], secrets: tuple[str, ...]
    ) -> None:
        assert self.folder is not None  # noqa: S101 — there would be no tape
        known = (*self._secrets(), *secrets)
        try:
            cleaned, hidden = clean(chunks, known)
            made = replace(cleaned_header(header, known), request=body_of(request, known), hidden=hidden)
            write(self._path(self.folder, made), made, cleaned)
            self._trim()
        except Exception:
            self.failed += 1
            log.exception("a recording was not written to %s", self.folder)

    def _path(self, folder: Path, header: Header) -> Path:
        """A name that is not taken: another gateway may record to the same folder, in the same second."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(header.time or time.time()))
        who = _PLAIN.sub("-", f"{header.provider}-{header.model}").strip("-.")[:80] or "stream"
        names = (folder / f"{stamp}-{number:04}-{who}{SUFFIX}" for number in self._numbers)
        return next(path for path in names if not path.exists())

    def _trim(self) -> None:
        """What is too old goes, and the oldest of the rest make room for new ones."""
        assert self.folder is not None  # noqa: S101
        found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob(f"*{SUFFIX}"))
        over, oldest = sum(size for _, size, _ in found) - self.total, time.time() - self.age
        for made, size, path in found[:-1]:
            if over <= 0 and made >= oldest:
                return
            path.unlink(missing_ok=True)
            over -= size


def clean(chunks: list[tuple[float, bytes]], secrets: Iterable[str] = ()) -> tuple[list[tuple[float, bytes]], int]:
    """The chunks without secrets, and how many there were: a mark stands where one began, cuts stay where they were."""
    whole = b"".join(data for _, data in chunks).decode("latin-1")
    known = [secret.encode("utf-8", "surrogateescape").decode("latin-1") for secret in secrets]
    spans = find_secrets(whole, known)
    if not spans:
        return chunks, 0
    return list(_cut(chunks, spans)), len(spans)


def _cut(chunks: list[tuple[float, bytes]], spans: list[tuple[int, int]]) -> Iterable[tuple[float, bytes]]:
    """Each chunk without the spans, in one walk over both: spans are sorted, and none touches another."""
    start = number = 0
    for at, data in chunks:
        end = start + len(data)
        pieces: list[bytes] = []
        place = start
        while number < len(spans) and spans[number][0] < end:
            first, last = spans[number]
            if first >= start:
                pieces += (data[place - start : first - start], MARK.encode())
            place = min(last, end)
            if last > end:
                break  # it goes on in the next chunk
            number += 1
        yield at, b"".join([*pieces, data[place - start :]])
        start = end


def cleaned_header(header: Header, secrets: tuple[str, ...] = ()) -> Header:
    """A header without secrets."""
    return replace(
        header, url=redact_cut(header.url, _LONG, secrets), headers=redact_headers(header.headers, secrets),
        request_headers=redact_headers(header.request_headers, secrets), note=redact_cut(header.note, _LONG, secrets),
        provider=redact_cut(header.provider, _LONG, secrets), model=redact_cut(header.model, _LONG, secrets),
    )  # fmt: skip


def body_of(body: bytes, secrets: tuple[str, ...] = ()) -> Any:
    """A request's body without secrets: a JSON value, or a text."""
    if not body:
        return None
    try:
        return redact_json(decode_bounded(body), secrets)
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return redact(body.decode("utf-8", "replace"), secrets)


BODY = 64 * 2**20
JSON = (b"content-type", b"application/json")
# What belongs to the connection that was recorded, or to an encoding that is gone.
_NOT = frozenset({
    "connection", "content-encoding", "content-length", "date", "keep-alive", "server", "set-cookie", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip


async def timed(recording: Recording, speed: float) -> AsyncIterator[bytes]:
    """The chunks, each at its time. `speed` 2 is twice as fast; 0 waits for nothing."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at, chunk in recording.chunks:
        wait = began + at / speed - loop.time() if speed else 0.0
        if wait > 0:
            await asyncio.sleep(wait)
        yield chunk


class Playback:
    """An ASGI application that answers with recordings: the one of the same request, else one after the other."""

    def __init__(self, recordings: Sequence[Recording], speed: float = 0.0) -> None:
        self._recordings = recordings
        self._speed = speed
        self._next = itertools.cycle(recordings)
        self._asked = {_key(one.header.request): one for one in reversed(recordings) if one.header.request is not None}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            models = [
                {"id": name, "object": "model"} for name in sorted({one.header.model for one in self._recordings})
            ]
            await _whole(send, msgspec.json.encode({"object": "list", "data": models}))
            return
        recording = self._chosen(await _body(receive))
        said = recording.header.headers.items()
        made = (response_header(name, value) for name, value in said if name.lower() not in _NOT and is_token(name))
        headers = [header for header in made if header is not None]
        await send({"type": "http.response.start", "status": recording.header.status, "headers": headers or [JSON]})
        async for chunk in timed(recording, self._speed):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _chosen(self, body: bytes) -> Recording:
        try:
            asked = redact_json(decode_bounded(body))
        except (msgspec.DecodeError, NestingError):
            asked = None
        return self._asked.get(_key(asked)) or next(self._next)


def _key(request: Any) -> bytes:
    return msgspec.json.encode(request, order="deterministic")


async def _body(receive: Any) -> bytes:
    """The body, or as much of it as is read."""
    pieces: list[bytes] = []
    more = True
    while more and sum(map(len, pieces)) < BODY:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _whole(send: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
