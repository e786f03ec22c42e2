"""Traces and HTML exports of uploaded streams, and an application that shows one file without a gateway.

Uploads are not stored. Traces are made in threads, a few at a time.

An export is one HTML file that needs nothing else: the page with its script and style, and the traces as data, one for
each chosen consumer; all but the first share its frames and events (`same`). Secrets are redacted before. The data is
compressed (gzip, as base64), so that no text of a model can end the element that holds it; the file's security policy
allows only the page's own script, and the worker that it makes of its own data.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _protocols as protocols
from penstock._gateway.access import Access
from penstock._gateway.callers import Refusal, make_refusal
from penstock._gateway.config import AccessTable, GatewayConfig, JournalTable
from penstock._gateway.endpoints import Headers, IncomingRequest, query_integer
from penstock._inspector import api_router
from penstock._inspector.api_router import ApiResponse, ApiRouter, encode_redacted
from penstock._inspector.request_breakdown import break_down
from penstock._inspector.static_files import INDEX, NOT_BUILT, StaticFiles
from penstock._inspector.stream_traces import CONSUMERS, TraceSource, read_trace, source_from_file
from penstock._inspector.trace_encoding import encode_trace
from penstock._version import __version__
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._inspector.schemas import Trace
    from penstock._tokens.estimate import HybridTokenEstimator

MAX_EXPORT_BYTES = 64 * 2**20  # of all traces together; further consumers are left out
MAX_UPLOAD_STEPS = 200_000  # frames, events and outputs of an uploaded stream
MAX_UPLOAD_ANSWER_BYTES = 64 * 2**20  # of its trace
ID = "penstock-trace"
WORKER = "assets/regexWorker-"  # the script that runs regular expressions
WORKER_ID = "penstock-worker"
_TAG = re.compile(r"<(?:script|link)\b([^<>]*+)>(?:</script>)?\s*")
_ATTRIBUTE = re.compile(r'\b([a-z]++)="([^"]*+)"')
_TITLE = re.compile(r"<title>[^<]*</title>")
_ASSET_PREFIX = re.compile(r"^.*?/?inspector/|^\./|^/")


def export_html(
    source: TraceSource,
    pages: StaticFiles,
    secrets: Iterable[str] = (),
    consumer: str = "",
    estimator: HybridTokenEstimator | None = None,
    others: Iterable[str] | None = None,
) -> bytes:
    """Returns the file. `consumer`: whose view it opens with; `others`: whose views it has, too; None: all.

    `estimator` counts the request.
    """
    if not pages.built:
        raise InputError(f"there is no page to put it in: {NOT_BUILT}")
    first = consumer or source.consumer
    wanted = [first, *(name for name in (source.consumers if others is None else others) if name != first)]
    data = b'{"version":1,"traces":{%b}}' % b",".join(_encode_traces(source, list(secrets), wanted, estimator))
    return _fill_page(pages, source.title, b64encode(gzip.compress(data, 9, mtime=0)).decode()).encode()


def _encode_traces(
    source: TraceSource, secrets: list[str], consumers: list[str], estimator: HybridTokenEstimator | None
) -> Iterator[bytes]:
    size, first = 0, consumers[0]
    for consumer in consumers:
        try:
            member = _encode_consumer(source, secrets, consumer, first, estimator)
        except Refusal:
            if consumer == first:
                raise
            return
        size += len(member)
        if size > MAX_EXPORT_BYTES and consumer != first:
            return
        yield member


def _encode_consumer(
    source: TraceSource, secrets: list[str], consumer: str, first: str, estimator: HybridTokenEstimator | None
) -> bytes:
    """Returns the member of a consumer's trace. Only that of the first one has frames, events and the request."""
    trace: Trace = read_trace(source, consumer).trace()
    if consumer != first:
        trace.frames, trace.events, trace.same, trace.request, trace.row = [], [], first, "", None
    elif source.request:
        trace.breakdown = break_down(source, estimator or _new_estimator())
    return b"%b:%b" % (encode_redacted(consumer), encode_trace(trace, secrets, _answer_limit(source)))


def _answer_limit(source: TraceSource) -> int:
    """Returns the bytes that an answer about a source may have; 0 is any number."""
    return MAX_UPLOAD_ANSWER_BYTES if source.step_limit else 0


def _fill_page(pages: StaticFiles, title: str, data: str) -> str:
    """Returns the built page with its assets and the data inserted."""
    html = pages.text(INDEX)
    assets = [dict(_ATTRIBUTE.findall(attributes)) for attributes in _TAG.findall(html)]
    script = _escape_script(_join_assets(pages, [one["src"] for one in assets if "src" in one]))
    styles = [one["href"] for one in assets if one.get("rel") == "stylesheet"]
    style = _join_assets(pages, styles).replace("</style", "<\\/style")
    policy = (
        f"default-src 'none'; script-src '{_csp_hash(script)}'; style-src '{_csp_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="content-security-policy" content="{escape(policy)}">'
        f"<title>{escape(title)} · penstock</title><style>{style}</style>"
    )
    worker = pages.find_name(WORKER)
    worker_script = _escape_script(pages.text(worker)) if worker else ""
    body = (
        f'<script type="application/gzip+base64" id="{ID}">{data}</script>'
        f'<script type="text/plain" id="{WORKER_ID}">{worker_script}</script><script type="module">{script}</script>'
    )
    bare = _TITLE.sub("", _TAG.sub(_remove_asset_tag, html))
    before, _, after = bare.partition("<head>")
    rest, _, end = after.rpartition("</body>")
    return f'{before}<head>\n    <meta charset="utf-8">{head}{rest}{body}</body>{end}'


def _escape_script(script: str) -> str:
    """Escapes what would end its element: parts of strings, where a backslash does not change the value."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _remove_asset_tag(tag: re.Match[str]) -> str:
    """Removes the tags of assets that are inserted or not needed; keeps any other tag."""
    attributes = dict(_ATTRIBUTE.findall(tag[1]))
    return "" if "src" in attributes or attributes.get("rel") in {"stylesheet", "icon"} else tag[0]


def _join_assets(pages: StaticFiles, places: list[str]) -> str:
    return "\n".join(pages.text(_ASSET_PREFIX.sub("", place)) for place in places)


def _csp_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


T = TypeVar("T")
MAX_WORKERS = 4  # at once; others wait
LARGE_BYTES = 4 * 2**20  # longer streams are traced one at a time
MAX_WAIT = 60.0  # seconds for a free worker
MAX_NAME = 100  # characters of a file's name
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


class WorkerSlots:
    """Runs slow work in threads, a few at a time."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_WORKERS)
        self._alone = asyncio.Semaphore(1)

    async def run(self, work: Callable[[], T], size: int = 0) -> T:
        """Returns the result of `work`. `size`: the bytes that it handles."""
        room = self._alone if size > LARGE_BYTES else self._room
        try:
            async with asyncio.timeout(MAX_WAIT):
                await room.acquire()
        except TimeoutError:
            raise _refuse_busy("the inspector has too much to do just now") from None
        try:
            return await asyncio.to_thread(work)
        finally:
            room.release()


def _refuse_busy(message: str) -> Refusal:
    return make_refusal(503, "overloaded", message, retry_after=5.0)


def _new_estimator(_: str = "") -> HybridTokenEstimator:
    from penstock._tokens.estimate import HybridTokenEstimator  # noqa: PLC0415 — most requests need no count

    return HybridTokenEstimator()


class FileRoutes:
    """The routes of uploaded streams. `estimator(tenant)` counts requests.

    The query of an upload: `name` and `protocol` of the file; `request_bytes`: so many bytes at the beginning of the
    body are the request that the file answers.
    """

    def __init__(
        self,
        work: WorkerSlots,
        pages: StaticFiles,
        secrets: Callable[[], Iterable[str]] = tuple,
        estimator: Callable[[str], HybridTokenEstimator] = _new_estimator,
    ) -> None:
        self._work, self._pages, self._secrets, self._estimator = work, pages, secrets, estimator
        self._uploading = asyncio.Semaphore(1)  # a long stream takes hundreds of megabytes while it is traced

    async def trace(self, incoming: IncomingRequest) -> ApiResponse:
        """`POST /inspector/trace`: the trace of a file. `frame` or `output`: only the whole text of that one."""
        return await self._run(self.trace_response, incoming)

    async def export(self, incoming: IncomingRequest) -> ApiResponse:
        """`POST /inspector/export`: the same as one HTML file."""
        return await self._run(self.export_response, incoming)

    async def breakdown(self, incoming: IncomingRequest) -> ApiResponse:
        """`POST /inspector/breakdown`: the tokens of a recording's prompt, line by line."""
        return await self._run(lambda source, _: self.breakdown_response(source), incoming)

    async def _run(
        self, respond: Callable[[TraceSource, dict[str, str]], ApiResponse], incoming: IncomingRequest
    ) -> ApiResponse:
        raw, query = incoming.raw, incoming.query
        name, protocol = query.get("name", "")[:MAX_NAME], query.get("protocol", "")
        size = query_integer(query, "request_bytes", 0, most=len(raw))
        request, file = raw[:size], raw[size:]
        try:
            async with asyncio.timeout(MAX_WAIT):
                await self._uploading.acquire()
        except TimeoutError:
            raise _refuse_busy("the inspector reads other files just now") from None
        try:
            return await self._work.run(
                lambda: respond(self._read_file(file, name, protocol, request), query), len(raw)
            )
        finally:
            self._uploading.release()

    def _read_file(self, raw: bytes, name: str, protocol: str, request: bytes) -> TraceSource:
        source = source_from_file(raw, name, protocol, MAX_UPLOAD_STEPS)
        source.request = source.request or request.decode("utf-8", "replace")
        source.secrets = tuple(self._secrets())
        return source

    # ── in a thread ───────────────────────────────────────────────────────────────────────────────

    def trace_response(self, source: TraceSource, query: dict[str, str]) -> ApiResponse:
        """Returns the trace of a source, or the text of one frame or output."""
        reader = read_trace(source, query.get("as", ""))
        for kind in ("frame", "output"):
            if kind in query:
                rows = [step.item[1] for step in reader.tracer.steps if step.kind == kind]
                return api_router.text_response(
                    api_router.redact_json_text(_single_text(rows, kind, query), self._secrets_of(source))
                )
        trace = reader.trace()
        del reader  # its steps are freed before the answer is written
        return ApiResponse(encode_trace(trace, self._secrets_of(source), _answer_limit(source)))

    def export_response(self, source: TraceSource, query: dict[str, str]) -> ApiResponse:
        """Returns the HTML file of a source. `with`: further consumers, or `all`."""
        estimator, others = self._estimator(source.tenant), query.get("with", "")
        names = None if others == "all" else [name for name in others.split(",") if name]
        page = export_html(source, self._pages, self._secrets_of(source), query.get("as", ""), estimator, names)
        return ApiResponse(page, attachment_headers(source.title))

    def breakdown_response(self, source: TraceSource) -> ApiResponse:
        """Returns the breakdown of a source's request."""
        found = break_down(source, self._estimator(source.tenant))
        return ApiResponse(encode_redacted(found, self._secrets_of(source)))

    def _secrets_of(self, source: TraceSource) -> list[str]:
        return [*self._secrets(), *source.secrets]


def _single_text(rows: list[bytes], kind: str, query: dict[str, str]) -> str:
    """Returns the whole text of one frame."""
    place = query_integer(query, kind, -1)
    if not 0 <= place < len(rows):
        raise InputError(f"{kind}: there are {len(rows)}, numbered from 0, and none is {query[kind][:20]!r}")
    return rows[place].decode("utf-8", "replace")


def attachment_headers(title: str) -> Headers:
    """Returns headers that make a browser save the file: shown, it would have our origin."""
    name = _UNSAFE_CHARACTERS.sub("-", title).strip("-.")[:MAX_NAME] or "stream"
    return (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-disposition", f'attachment; filename="{name}.html"'.encode()),
    )


def describe_inspector(**more: Any) -> dict[str, Any]:
    """Returns the body of `GET /inspector/about`."""
    fixed = {"version": __version__, "consumers": CONSUMERS, "protocols": list(protocols.MODULES)}
    return {**fixed, "models": [], "recording": {"on": False}, "journal": False, **more}


class SingleFileApp:
    """An application that shows one source without a gateway."""

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
            ("GET", "breakdown"): self._breakdown,
            ("POST", "trace"): self._files.trace,
            ("POST", "export"): self._files.export,
            ("POST", "breakdown"): self._files.breakdown,
        }
        self._router = ApiRouter(routes, self._admit, pages=self._pages)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._router(scope, receive, send)
        elif scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return

    def _admit(self, scope: Any, incoming: IncomingRequest, keyed: bool) -> None:  # noqa: FBT001 — as `ApiRouter` calls it
        self._access.admit(scope, incoming.headers)
        if keyed:
            api_router.check_origin(incoming.headers, frozenset())

    async def _about(self, _: IncomingRequest) -> ApiResponse:
        file = self._source.title
        return ApiResponse(encode_redacted(describe_inspector(key="none", sees="all", live=False, file=file)))

    async def _file(self, incoming: IncomingRequest) -> ApiResponse:
        return await self._work.run(lambda: self._files.trace_response(self._source, incoming.query))

    async def _export(self, incoming: IncomingRequest) -> ApiResponse:
        return await self._work.run(lambda: self._files.export_response(self._source, incoming.query))

    async def _breakdown(self, _: IncomingRequest) -> ApiResponse:
        return await self._work.run(lambda: self._files.breakdown_response(self._source))
