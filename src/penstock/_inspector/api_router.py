"""The inspector's ASGI router: its API below `/inspector` and the files of its page.

The routes are given. Request bodies are limited in size and time; a stream ends when its reader leaves. Every response
has `SECURITY_HEADERS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from penstock._gateway import error_responses
from penstock._gateway.byte_budget import ByteBudget
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import Headers, IncomingRequest
from penstock._gateway.request_body import read_request_body
from penstock._gateway.routes import mounted_path
from penstock._http.response_writer import (
    CancellableTask,
    DisconnectWatch,
    EventStream,
    ResponseWriter,
    end_with_error,
    send_response,
)
from penstock._input_limits import MAX_BODY_TOTAL_BYTES
from penstock._inspector.static_files import INDEX, StaticFiles
from penstock._lenient_json import replace_surrogates
from penstock._redaction import MARK, find_secrets, json_spellings
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock._gateway.services import Services
    from penstock.events import Fault

PREFIX = "/inspector"
MAX_BODY_BYTES = 32 * 2**20
MAX_INLINE_JSON = 4 * 1024  # bytes that are redacted on the event loop: faster than starting a thread
BODY_TIMEOUT = 120.0  # seconds
KEEP_ALIVE_SECONDS = 15.0  # of silence, after which a comment is sent
WRITE_TIMEOUT = 60.0  # seconds without reading, after which a stream is aborted
READ_METHODS = frozenset({"GET", "HEAD"})
# Only our own scripts and styles, only from here; nothing may frame the page, and it sends no form.
CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Headers = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
JSON_HEADERS: Headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
TEXT_HEADERS: Headers = ((b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"))
_JSON_LEVELS = 4  # a secret in the arguments of a call: of a string in JSON in a string of a body in a response
_encode = msgspec.json.Encoder().encode
Route: TypeAlias = Callable[[IncomingRequest], Awaitable["ApiResponse | EventStream"]]
log = logging.getLogger("penstock.inspector")


class ApiResponse(NamedTuple):
    """A response that is not a stream."""

    body: bytes
    headers: Headers = JSON_HEADERS
    status: int = 200


class ApiRouter:
    """The page and its routes. `admit(scope, request, keyed)` raises if a request is refused; `keyed`: it needs a key.

    Routes are found by method and path; every second segment is a parameter: `("GET", "turns/*/frames/*")`.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Route],
        admit: Callable[[Any, IncomingRequest, bool], None],
        free: frozenset[str] = frozenset(),
        pages: StaticFiles | None = None,
    ) -> None:
        self.pages = pages or StaticFiles()
        self._routes = routes
        self._admit = admit
        self._bytes = ByteBudget(MAX_BODY_TOTAL_BYTES)  # if there is no gateway
        self._free = free  # paths that need no key

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        incoming = IncomingRequest(scope)
        incoming.path = mounted_path(scope)
        try:
            await self._answer(incoming, scope, receive, send)
        finally:
            incoming.release_body()

    async def _answer(self, incoming: IncomingRequest, scope: Any, receive: Any, send: Any) -> None:
        try:
            response = await self._route(incoming, scope, receive)
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("the inspector failed at %s", incoming.path)
            response = _error_response(error_responses.fault_from_error(error))
        if isinstance(response, EventStream):
            await self._stream(response, incoming, receive, send)
        else:
            await _send_response(response, send, head=incoming.method == "HEAD")

    async def _route(self, incoming: IncomingRequest, scope: Any, receive: Any) -> ApiResponse | EventStream:
        self._admit(scope, incoming, False)  # noqa: FBT003 — size, Host and Origin first
        page = self._page(incoming)
        if page is not None:
            return page
        segments = incoming.path.removeprefix(PREFIX).removeprefix("/").split("/")
        shape = "/".join("*" if number % 2 else segment for number, segment in enumerate(segments))
        if shape not in self._free:
            self._admit(scope, incoming, True)  # noqa: FBT003 — then its key
        if _lacks_segment(segments, incoming.method, scope["path"]):
            raise make_refusal(
                404, "not-found", "nothing is served at this address: an id is missing, or a slash is extra"
            )
        route = self._routes.get(("GET" if incoming.method == "HEAD" else incoming.method, shape))
        if route is None:
            if any(path == shape for _, path in self._routes):
                raise make_refusal(405, "invalid", "this address takes another method")
            raise make_refusal(404, "not-found", "nothing is served at this address")
        incoming.params = dict(zip(("one", "two"), segments[1::2], strict=False))
        if incoming.method == "POST":
            budget = cast("Services", incoming.services).body_bytes if incoming.services is not None else self._bytes
            await read_request_body(
                incoming, receive, CancellableTask(), budget, limit=MAX_BODY_BYTES, patience=BODY_TIMEOUT
            )
        return await route(incoming)

    def _page(self, incoming: IncomingRequest) -> ApiResponse | None:
        """Returns a file of the page, if the path names one. It needs no key: it holds no data."""
        name = INDEX if incoming.path == "/" else incoming.path.removeprefix(f"{PREFIX}/")
        encodings = incoming.headers.get("accept-encoding", "")
        found = self.pages.get(name, encodings) if incoming.method in READ_METHODS else None
        return ApiResponse(*found) if found is not None else None

    async def _stream(self, stream: EventStream, incoming: IncomingRequest, receive: Any, send: Any) -> None:
        disconnect = DisconnectWatch(receive)
        out = ResponseWriter(send, disconnect, keep_alive=KEEP_ALIVE_SECONDS, stuck_limit=WRITE_TIMEOUT)
        try:
            with _watch_disconnect(incoming, disconnect):
                await stream.send_to(out, SECURITY_HEADERS)
        except asyncio.CancelledError:
            if not disconnect.absorb_cancellation():
                raise
            if disconnect.fault is not None:
                await end_with_error(out, *error_responses.error_response("", disconnect.fault))
        finally:
            disconnect.close()
            close: Any = getattr(stream.chunks, "aclose", None)
            if close is not None:
                await close()


def _lacks_segment(segments: list[str], method: str, path: str) -> bool:
    """True if an id in the path is empty. `DELETE turns/` must not count as `DELETE turns`, which deletes all."""
    return (len(segments) > 1 and "" in segments) or (method not in READ_METHODS and path.endswith("/"))


def _watch_disconnect(incoming: IncomingRequest, disconnect: DisconnectWatch) -> AbstractContextManager[None]:
    """Ends a stream when its reader's key is revoked."""
    if incoming.services is None:
        return nullcontext()
    return cast("Services", incoming.services).revocations.guard(
        incoming.caller, disconnect.cancel_with, open_ended=True
    )


def text_response(text: str) -> ApiResponse:
    """Returns a response of plain text."""
    return ApiResponse(text.encode("utf-8", "replace"), TEXT_HEADERS)


def _error_response(fault: Fault) -> ApiResponse:
    body = encode_redacted({"error": {"message": fault.message, "code": fault.code or fault.kind}})
    return ApiResponse(
        body, (*JSON_HEADERS, *error_responses.error_headers(fault)), error_responses.error_status(fault, "")
    )


async def _send_response(response: ApiResponse, send: Any, *, head: bool) -> None:
    headers = (*response.headers, *SECURITY_HEADERS)
    await send_response(send, response.status, response.body, headers, head_only=head)


class WorkerThreads(Protocol):
    """Runs slow work in threads."""

    async def run(self, work: Callable[[], bytes]) -> bytes: ...


@lru_cache(1000)
def contains_secret(text: str, secrets: tuple[str, ...]) -> bool:
    """True if the text holds a secret. Cached: many rows are equal."""
    return bool(find_secrets(text, secrets))


def encode_public(value: Any) -> bytes:
    """Returns a value as JSON, unchanged."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which some programs send
        return _encode(replace_surrogates(msgspec.to_builtins(value)))


def encode_redacted(value: Any, secrets: Iterable[str] = ()) -> bytes:
    """Returns a value as JSON, without secrets."""
    return _redact_json_bytes(encode_public(value), secrets)


async def encode_in_worker(value: Any, secrets: Iterable[str], work: WorkerThreads) -> bytes:
    """Returns the same as `encode_redacted`. What is long is redacted in a thread: some texts take long."""
    data = encode_public(value)
    if len(data) <= MAX_INLINE_JSON:
        return _redact_json_bytes(data, secrets)
    return await work.run(lambda: _redact_json_bytes(data, secrets))


def _redact_json_bytes(data: bytes, secrets: Iterable[str]) -> bytes:
    text = data.decode()
    hidden = redact_json_text(text, secrets)
    return data if hidden is text else hidden.encode()


def redact_json_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns a JSON text without secrets, also those that its escapes spell."""
    return redact_text(text, _secret_spellings(tuple(secrets)))


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns a text with a mark in place of each secret. JSON stays valid."""
    spans = find_secrets(text, secrets)
    if not spans:
        return text
    starts, ends = [0, *(last for _, last in spans)], [*(first for first, _ in spans), len(text)]
    return MARK.join(text[start:end] for start, end in zip(starts, ends, strict=True))


@lru_cache(100)
def _secret_spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Returns secrets as they are, as encoders write them in JSON, and both as in a JSON text within a JSON string."""
    spellings: dict[str, None] = {}
    for secret in secrets:
        forms = dict.fromkeys((secret, *json_spellings(secret)))
        for _ in range(_JSON_LEVELS):
            spellings |= forms
            forms = dict.fromkeys(map(_json_inside, forms))
    return tuple(spellings)


def _json_inside(text: str) -> str:
    return _encode(text.encode("utf-8", "replace").decode())[1:-1].decode()


def sse_event(name: str, data: bytes) -> bytes:
    """Returns a server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


_SAME_SITE = frozenset(
    {"", "none", "same-origin"}
)  # values of Sec-Fetch-Site: no browser, the address bar, our own page


def check_origin(headers: Mapping[str, str], allowed: frozenset[str]) -> None:
    """Raises if another page sends the request. `allowed`: origins that may."""
    origin = headers.get("origin", "").lower()
    if "*" in allowed or (origin and origin in allowed):
        return
    if origin:
        same_site = _origin_host(origin) == headers.get("host", "").lower()
    else:
        same_site = headers.get("sec-fetch-site", "") in _SAME_SITE
    if not same_site:
        message = "only the inspector's own page may ask here, or one that access.origins in penstock.toml names"
        raise make_refusal(403, "permission", message, code="origin_not_allowed")


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
