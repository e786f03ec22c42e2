"""Addresses below `/inspector` → answers, over ASGI: what the page asks for, and the page itself.

Knows neither turns nor files: routes are handed in. A body is bounded in size and time; a flow ends when its reader
leaves. Every answer has the headers of `answers.SAFE`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from penstock._gateway import error_responses
from penstock._gateway.byte_budget import ByteBudget
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import Headers, IncomingRequest
from penstock._gateway.request_body import read_request_body
from penstock._gateway.routes import mounted_path
from penstock._http.response_writer import CancellableTask, DisconnectWatch, EventStream, ResponseWriter, end_with_error
from penstock._input_limits import MAX_BODY_TOTAL_BYTES
from penstock._jsontext import replace_surrogates
from penstock._redaction import MARK, find_secrets
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from penstock._gateway.services import Services
    from penstock.events import Fault

PREFIX = "/inspector"
MAX_BODY_BYTES = 32 * 2**20  # bytes that may be sent to be looked at
BODY_TIMEOUT = 120.0  # seconds that they may take
KEEP_ALIVE_SECONDS = 15.0  # silence after which a reader is sent a comment
WRITE_TIMEOUT = 60.0  # seconds that a reader may take nothing
READ_METHODS = frozenset({"GET", "HEAD"})
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
_encode = msgspec.json.Encoder().encode
Route: TypeAlias = Callable[[IncomingRequest], Awaitable["ApiResponse | EventStream"]]
log = logging.getLogger("penstock.inspector")


class ApiResponse(NamedTuple):
    """An answer in one piece."""

    body: bytes
    headers: Headers = JSON_HEADERS
    status: int = 200


class ApiRouter:
    """The page and its routes. `admit` lets a visit in, or raises why not: it is told whether a key is asked for.

    A route is named by its method and its address, in which every second word is a name: `("GET", "turns/*/frames/*")`.
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
        self._bytes = ByteBudget(MAX_BODY_TOTAL_BYTES)  # where there is no gateway
        self._free = free  # addresses that ask for no key

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        visit = IncomingRequest(scope)
        visit.path = mounted_path(scope)
        try:
            await self._answer(visit, scope, receive, send)
        finally:
            visit.release_body()

    async def _answer(self, visit: IncomingRequest, scope: Any, receive: Any, send: Any) -> None:
        try:
            said = await self._route(visit, scope, receive)
        except PenstockError as error:
            said = _error_response(error_responses.fault_from_error(error))
        except Exception as error:
            log.exception("the inspector failed at %s", visit.path)
            said = _error_response(error_responses.fault_from_error(error))
        if isinstance(said, EventStream):
            await self._stream(said, visit, receive, send)
        else:
            await _send_response(said, send, head=visit.method == "HEAD")

    async def _route(self, visit: IncomingRequest, scope: Any, receive: Any) -> ApiResponse | EventStream:
        self._admit(scope, visit, False)  # noqa: FBT003 — size, Host and Origin, before anything is looked up
        page = self._page(visit)
        if page is not None:
            return page
        words = visit.path.removeprefix(PREFIX).strip("/").split("/")
        shape = "/".join("*" if place % 2 else word for place, word in enumerate(words))
        if shape not in self._free:
            self._admit(scope, visit, True)  # noqa: FBT003 — and its key
        route = self._routes.get(("GET" if visit.method == "HEAD" else visit.method, shape))
        if route is None:
            known = any(where == shape for _, where in self._routes)
            said = "this address takes another method" if known else "nothing is served at this address"
            raise make_refusal(405, "invalid", said) if known else make_refusal(404, "not-found", said)
        visit.params = dict(zip(("one", "two"), words[1::2], strict=False))
        if visit.method == "POST":
            budget = cast("Services", visit.services).body_bytes if visit.services is not None else self._bytes
            await read_request_body(
                visit, receive, CancellableTask(), budget, limit=MAX_BODY_BYTES, patience=BODY_TIMEOUT
            )
        return await route(visit)

    def _page(self, visit: IncomingRequest) -> ApiResponse | None:
        """A file of the page, if that is what is asked for. It needs no key: there is nothing of anybody's in it."""
        name = INDEX if visit.path == "/" else visit.path.removeprefix(f"{PREFIX}/")
        found = self.pages.get(name) if visit.method in READ_METHODS else None
        return ApiResponse(*found) if found is not None else None

    async def _stream(self, flow: EventStream, visit: IncomingRequest, receive: Any, send: Any) -> None:
        gone = DisconnectWatch(receive)
        out = ResponseWriter(send, gone, keep_alive=KEEP_ALIVE_SECONDS, stuck_limit=WRITE_TIMEOUT)
        try:
            with _watch_disconnect(visit, gone):
                await flow.send_to(out, SECURITY_HEADERS)
        except asyncio.CancelledError:
            if not gone.absorb_cancellation():
                raise
            if gone.fault is not None:
                await end_with_error(out, *error_responses.error_response("", gone.fault))
        finally:
            gone.close()
            close: Any = getattr(flow.chunks, "aclose", None)
            if close is not None:
                await close()


def _watch_disconnect(visit: IncomingRequest, gone: DisconnectWatch) -> AbstractContextManager[None]:
    """End a feed whose reader is no longer let in."""
    if visit.services is None:
        return nullcontext()
    return cast("Services", visit.services).revocations.guard(visit.caller, gone.cancel_with, open_ended=True)


def text_response(said: str) -> ApiResponse:
    """A text by itself."""
    return ApiResponse(said.encode("utf-8", "replace"), TEXT_HEADERS)


def _error_response(fault: Fault) -> ApiResponse:
    body = encode_redacted({"error": {"message": fault.message, "code": fault.code or fault.kind}})
    return ApiResponse(
        body, (*JSON_HEADERS, *error_responses.error_headers(fault)), error_responses.error_status(fault, "")
    )


async def _send_response(said: ApiResponse, send: Any, *, head: bool) -> None:
    made = [*said.headers, *SECURITY_HEADERS, (b"content-length", b"%d" % len(said.body))]
    await send({"type": "http.response.start", "status": said.status, "headers": made})
    await send({"type": "http.response.body", "body": b"" if head else said.body, "more_body": False})


# Scripts and styles of our own only, from here only; nothing may frame the page, and it sends no form anywhere.


@lru_cache(1000)
def contains_secret(text: str, secrets: tuple[str, ...]) -> bool:
    """Whether there is a secret in it. Remembered: many rows are alike."""
    return bool(find_secrets(text, secrets))


def encode_public(value: Any) -> bytes:
    """A value as JSON, as it is."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a character, which some programs send
        return _encode(replace_surrogates(msgspec.to_builtins(value)))


def encode_redacted(value: Any, secrets: Iterable[str] = ()) -> bytes:
    """A value as JSON, without secrets."""
    data = encode_public(value)
    text = data.decode()
    hidden = redact_text(text, _secret_spellings(secrets))
    return data if hidden is text else hidden.encode()


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A text, of JSON or of anything else, with a mark in place of secrets: its form is kept."""
    spans = find_secrets(text, secrets)
    if not spans:
        return text
    pieces: list[str] = []
    place = 0
    for first, last in spans:
        pieces += [text[place:first], MARK]
        place = last
    return "".join([*pieces, text[place:]])


def _secret_spellings(secrets: Iterable[str]) -> list[str]:
    """Secrets as JSON spells them, and as it spells them in a text that is JSON itself."""
    made: list[str] = []
    for secret in secrets:
        once = _json_inside(secret)
        made += dict.fromkeys((secret, once, _json_inside(once)))
    return made


def _json_inside(text: str) -> str:
    return _encode(text.encode("utf-8", "replace").decode())[1:-1].decode()


def sse_event(name: str, data: bytes) -> bytes:
    """A server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


_SAME_SITE = frozenset({"", "none", "same-origin"})  # of Sec-Fetch-Site: no browser, the address bar, our own page


def check_origin(headers: Mapping[str, str], welcome: frozenset[str]) -> None:
    """Raise where another page asks. `welcome` are origins that may."""
    origin = headers.get("origin", "").lower()
    if "*" in welcome or (origin and origin in welcome):
        return
    own = (
        _origin_host(origin) == headers.get("host", "").lower()
        if origin
        else headers.get("sec-fetch-site", "") in _SAME_SITE
    )
    if not own:
        said = "only the inspector's own page may ask here, or one that access.origins in penstock.toml names"
        raise make_refusal(403, "permission", said, code="origin_not_allowed")


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


# ── the built page ──────────────────────────────────────────────────────────────────────────────────────────────────

CONTENT_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "woff2": b"font/woff2",
    "json": b"application/json",
}
INDEX = "index.html"
NOT_BUILT = "the inspector's page is not built: `make web` builds it, and a released wheel has it"
_IMMUTABLE = b"public, max-age=31536000, immutable"  # a built file's name changes with its content


class StaticFiles:
    """All files by their names. Names come from the folder, never from a request: no path leads out of it."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or files("penstock._inspector") / "static"
        self._files: Mapping[str, Traversable] = {}

    @property
    def built(self) -> bool:
        return self._find(INDEX) is not None

    def text(self, name: str) -> str:
        """A file that is there."""
        found = self._find(name)
        if found is None:
            raise InputError(NOT_BUILT)
        return found.read_text("utf-8")

    def get(self, name: str) -> tuple[bytes, Headers] | None:
        """A file and what is said of it; None where there is none."""
        found = self._find(name)
        if found is None:
            return None
        kind = CONTENT_TYPES.get(name.rpartition(".")[2], b"application/octet-stream")
        kept = b"no-cache" if name == INDEX else _IMMUTABLE
        return found.read_bytes(), ((b"content-type", kind), (b"cache-control", kept))

    def _find(self, name: str) -> Traversable | None:
        found = self._files.get(name)
        if found is None or not found.is_file():  # it may have been built since
            self._files = dict(_list_files(self._folder)) if self._folder.is_dir() else {}
            found = self._files.get(name)
        return found


def _list_files(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    made: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = before + entry.name
        made += _list_files(entry, f"{name}/") if entry.is_dir() else [(name, entry)]
    return made
