"""Streams that somebody hands in: traced, or made one HTML file. They are looked at and forgotten.

Leans on `traces`. The work is done in a thread, a few at a time.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _protocols as protocols
from penstock._gateway.access import Access
from penstock._gateway.callers import make_refusal
from penstock._gateway.config import AccessTable, GatewayConfig, JournalTable
from penstock._gateway.endpoints import Headers, IncomingRequest, query_integer
from penstock._inspector.api import (
    INDEX,
    NOT_BUILT,
    ApiResponse,
    ApiRouter,
    StaticFiles,
    check_origin,
    encode_redacted,
    redact_text,
    text_response,
)
from penstock._inspector.traces import CONSUMERS, TraceSource, read_trace, source_from_file
from penstock._version import __version__
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._inspector.schemas import Trace

MAX_EXPORT_BYTES = (
    64 * 2**20
)  # bytes of all traces together; consumers that there is no room for are left out, and that is said
ID = "penstock-trace"
_TAG = re.compile(r"<(?:script|link)\b([^<>]*+)>(?:</script>)?\s*")
_ATTRIBUTE = re.compile(r'\b([a-z]++)="([^"]*+)"')
_TITLE = re.compile(r"<title>[^<]*</title>")
_ASSET_PREFIX = re.compile(r"^.*?/?inspector/|^\./|^/")


def export_html(source: TraceSource, pages: StaticFiles, secrets: Iterable[str] = (), consumer: str = "") -> bytes:
    """The file. `consumer`: whose view it opens with."""
    if not pages.built:
        raise InputError(f"there is no page to put it in: {NOT_BUILT}")
    data = b'{"version":1,"traces":{%b}}' % b",".join(_encode_traces(source, list(secrets), consumer or source.own))
    return _fill_page(pages, source.title, data.replace(b"<", b"\\u003c").decode()).encode()


def _encode_traces(source: TraceSource, secrets: list[str], first: str) -> Iterator[bytes]:
    size = 0
    for consumer in (first, *(name for name in source.consumers if name != first)):
        trace: Trace = read_trace(source, consumer).trace()
        if consumer != first:
            trace.frames, trace.events, trace.same, trace.request, trace.row = [], [], first, "", None
        made = b"%b:%b" % (encode_redacted(consumer), encode_redacted(trace, secrets))
        size += len(made)
        if size > MAX_EXPORT_BYTES and consumer != first:
            return
        yield made


def _fill_page(pages: StaticFiles, title: str, data: str) -> str:
    """The built page, all that it asks for put in its place."""
    html = pages.text(INDEX)
    assets = [dict(_ATTRIBUTE.findall(attributes)) for attributes in _TAG.findall(html)]
    # Where these stand in a script they are parts of strings, which say the same with a backslash.
    script = (
        _join_assets(pages, [one["src"] for one in assets if "src" in one])
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )
    styles = [one["href"] for one in assets if one.get("rel") == "stylesheet"]
    style = _join_assets(pages, styles).replace("</style", "<\\/style")
    policy = (
        f"default-src 'none'; script-src '{_csp_hash(script)}'; style-src '{_csp_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="content-security-policy" content="{escape(policy)}">'
        f"<title>{escape(title)} · penstock</title><style>{style}</style>"
    )
    body = f'<script type="application/json" id="{ID}">{data}</script><script type="module">{script}</script>'
    bare = _TITLE.sub("", _TAG.sub(_remove_asset_tag, html))
    before, _, after = bare.partition("<head>")
    rest, _, end = after.rpartition("</body>")
    return f'{before}<head>\n    <meta charset="utf-8">{head}{rest}{body}</body>{end}'


def _remove_asset_tag(tag: re.Match[str]) -> str:
    """Nothing in place of what is put into the file, or not needed there; any other tag stays."""
    attributes = dict(_ATTRIBUTE.findall(tag[1]))
    return "" if "src" in attributes or attributes.get("rel") in {"stylesheet", "icon"} else tag[0]


def _join_assets(pages: StaticFiles, places: list[str]) -> str:
    return "\n".join(pages.text(_ASSET_PREFIX.sub("", place)) for place in places)


def _csp_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


T = TypeVar("T")
MAX_WORKERS = 4  # pieces of work; others wait
LARGE_BYTES = 4 * 2**20  # bytes: of streams that are longer, one at a time
MAX_WAIT = 60.0  # seconds that work waits for its turn
MAX_NAME = 100  # letters of a file's name
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


class WorkerSlots:
    """What takes its time, away from the loop, a little at once."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_WORKERS)
        self._alone = asyncio.Semaphore(1)

    async def run(self, work: Callable[[], T], size: int = 0) -> T:
        """Have it done. `size`: how many bytes it is about."""
        room = self._alone if size > LARGE_BYTES else self._room
        try:
            async with asyncio.timeout(MAX_WAIT):
                await room.acquire()
        except TimeoutError:
            message = "the inspector has too much to do just now"
            raise make_refusal(503, "overloaded", message, retry_after=5.0) from None
        try:
            return await asyncio.to_thread(work)
        finally:
            room.release()


class FileRoutes:
    """The routes of what is handed in."""

    def __init__(self, work: WorkerSlots, pages: StaticFiles, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self._work, self._pages, self._secrets = work, pages, secrets

    async def trace(self, visit: IncomingRequest) -> ApiResponse:
        """`POST /inspector/trace`: a file's bytes. `frame` or `output`: only the whole text of that one."""
        raw, query = visit.raw, visit.query
        return await self._work.run(
            lambda: self.trace_response(source_from_file(raw, *_file_options(visit)), query), len(raw)
        )

    async def export(self, visit: IncomingRequest) -> ApiResponse:
        """`POST /inspector/export`: the same as one HTML file."""
        raw, query = visit.raw, visit.query
        return await self._work.run(
            lambda: self.export_response(source_from_file(raw, *_file_options(visit)), query), len(raw)
        )

    # ── in a thread ───────────────────────────────────────────────────────────────────────────────

    def trace_response(self, source: TraceSource, query: dict[str, str]) -> ApiResponse:
        """A source as a trace, or one of its texts."""
        reading = read_trace(source, query.get("as", ""))
        for kind in ("frame", "output"):
            if kind in query:
                rows = [step.item[1] for step in reading.tracer.steps if step.kind == kind]
                return text_response(redact_text(_single_text(rows, kind, query), self._secrets_of(source)))
        return ApiResponse(encode_redacted(reading.trace(), self._secrets_of(source)))

    def export_response(self, source: TraceSource, query: dict[str, str]) -> ApiResponse:
        """A source as a file to keep."""
        made = export_html(source, self._pages, self._secrets_of(source), query.get("as", ""))
        return ApiResponse(made, attachment_headers(source.title))

    def _secrets_of(self, source: TraceSource) -> list[str]:
        return [*self._secrets(), *source.secrets]


def _single_text(rows: list[bytes], kind: str, query: dict[str, str]) -> str:
    """The whole text of one frame."""
    place = query_integer(query, kind, -1)
    if not 0 <= place < len(rows):
        raise InputError(f"{kind}: there are {len(rows)}, numbered from 0, and none is {query[kind][:20]!r}")
    return rows[place].decode("utf-8", "replace")


def attachment_headers(title: str) -> Headers:
    """What makes a browser save it, not show it: there it would be a page of ours."""
    name = _UNSAFE_CHARACTERS.sub("-", title).strip("-.")[:MAX_NAME] or "stream"
    return (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-disposition", f'attachment; filename="{name}.html"'.encode()),
    )


def _file_options(visit: IncomingRequest) -> tuple[str, str]:
    query = visit.query
    return query.get("name", "")[:MAX_NAME], query.get("protocol", "")


class SingleFileApp:
    """The application. `source` is what is shown."""

    def __init__(self, source: TraceSource, pages: StaticFiles | None = None) -> None:
        self._source = source
        self._work, self._pages = WorkerSlots(), pages or StaticFiles()
        config = GatewayConfig(access=AccessTable(keys_file="memory"), journal=JournalTable(path="off"))
        self._access = Access(config, {})
        self._files = FileRoutes(self._work, self._pages)
        routes = {
            ("GET", "about"): self._about,
            ("GET", "file"): self._file,
            ("GET", "export"): self._export,
            ("POST", "trace"): self._files.trace,
            ("POST", "export"): self._files.export,
        }
        self._serving = ApiRouter(routes, self._admit, pages=self._pages)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._serving(scope, receive, send)
        elif scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return

    def _admit(self, scope: Any, visit: IncomingRequest, api: bool) -> None:  # noqa: FBT001 — as `Serving` asks
        self._access.admit(scope, visit.headers)
        if api:
            check_origin(visit.headers, frozenset())

    async def _about(self, _: IncomingRequest) -> ApiResponse:
        told = {
            "version": __version__,
            "models": [],
            "consumers": CONSUMERS,
            "protocols": list(protocols.MODULES),
            "recording": {"on": False},
            "journal": False,
            "key": "none",
            "sees": "all",
            "live": False,
            "file": self._source.title,
        }
        return ApiResponse(encode_redacted(told))

    async def _file(self, visit: IncomingRequest) -> ApiResponse:
        return await self._work.run(lambda: self._files.trace_response(self._source, visit.query))

    async def _export(self, visit: IncomingRequest) -> ApiResponse:
        return await self._work.run(lambda: self._files.export_response(self._source, visit.query))
