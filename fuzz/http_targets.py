"""Targets for HTTP: responses as our own connection parses them, headers that are written, packed bodies, query strings."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import h11

from fuzz.mutation import BytesMutator, LinesMutator
from fuzz.target import Target, Verdict, cut, promise
from fuzz.transport import FakeTransport, event_loop
from penstock._gateway.endpoints import IncomingRequest
from penstock._gateway.request_body import decompress
from penstock._gateway.routes import find_route
from penstock._http.connection import UpstreamConnection
from penstock._http.pool import load_httptools
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check

MOST_READ = 2**22
WORDS = (
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"content-length: 5\r\n", b"Content-Length: 0\r\n",
    b"transfer-encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n",
    b"connection: close\r\n", b"connection: keep-alive, upgrade\r\nupgrade: x\r\n", b"content-encoding: gzip\r\n", b"x: " + b"y" * 300,
    b" folded\r\n", b"\r\n\r\n", b"ffffffffffffffff\r\n", b"content-type: text/event-stream\r\n", b"set-cookie: a=b\r\n",
)  # fmt: skip
_BODY = b'data: {"x":1}\n\ndata: [DONE]\n\n'
_PACKED = gzip.compress(_BODY * 3, mtime=0)
RESPONSES: tuple[bytes, ...] = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY),
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n5\r\nhello\r\n0\r\n\r\n" % (len(_BODY), _BODY),
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(_PACKED), _PACKED),
    b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n"
    % (len(zlib.compress(_BODY)), zlib.compress(_BODY)),
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.1 301 Moved\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n",
)


class Keeper:
    """Takes connections back, as the pool does."""

    def __init__(self) -> None:
        self.aiohttp: Any = import_module("aiohttp")
        self.httptools: Any = load_httptools()

    def add_idle(self, at: tuple[object, ...], made: UpstreamConnection) -> None: ...
    def discard(self, at: tuple[object, ...], made: UpstreamConnection) -> None: ...


@cache
def _keeper() -> Keeper:
    return Keeper()


async def _received(chunks: Sequence[bytes]) -> tuple[UpstreamConnection, bytes, str]:
    """A connection that got these bytes and was closed, the body it gives, and the name of the error it ends with."""
    keeper = _keeper()
    made = UpstreamConnection(keeper, ())
    transport = FakeTransport()
    made.connection_made(transport)
    for chunk in chunks:
        if transport.closed:
            break
        made.data_received(chunk)
    made.connection_lost(None)
    body = b""
    try:
        while (piece := await made.readany()) and len(body) < MOST_READ:
            body += piece
    except (keeper.aiohttp.ClientError, keeper.aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
        return made, body, type(error).__name__
    return made, body, ""


async def _both(data: bytes) -> tuple[tuple[UpstreamConnection, bytes, str], tuple[UpstreamConnection, bytes, str]]:
    return await _received([data]), await _received(cut(data))


def check_response(data: bytes) -> Verdict:
    """A response is read, or there is an error that the callers know. Where h11 reads the same bytes, it reads the same."""
    whole, pieces = event_loop().run_until_complete(asyncio.wait_for(_both(data), 5))
    (made, body, error), (again, other, fault) = whole, pieces
    if not error and not fault:
        promise((again.status, other) == (made.status, body), "cut in pieces it is another answer")
    promise(not (error and body and not made.status), "a body without a head")
    theirs = _by_h11(data)
    if theirs is not None and made.status and not error and "content-encoding" not in made.headers:
        promise(
            theirs == (made.status, body),
            f"h11 reads {theirs[0]} with {len(theirs[1])} bytes, we {made.status} with {len(body)}",
        )
    return made.status > 0, (made.status // 100, error, theirs is None)


def _by_h11(data: bytes) -> tuple[int, bytes] | None:
    """The first final response as h11 reads it; None where it does not, or not to its end."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    client.send(h11.EndOfMessage())
    try:
        client.receive_data(data)
        client.receive_data(b"")
        status, body = 0, b""
        while True:
            event = client.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, body
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except (h11.RemoteProtocolError, RuntimeError):
        return None


# ── headers that are written ──────────────────────────────────────────────────────────────────────

HEADERS: tuple[bytes, ...] = (
    b"x-api-key: sk-made-up-1", b"authorization: Bearer abc", b"x-empty:", b"accept: text/event-stream", b"anthropic-version: 2023-06-01",
    b"x-tab: a\tb", b"host: evil", b"content-length: 3", b"x: a\r\nsmuggled: 1", b"transfer-encoding: chunked",
)  # fmt: skip


def check_header(data: bytes) -> Verdict:
    """What is accepted is written as one header, and h11 reads that header and no other."""
    fields: Any = import_module("penstock._http.header_fields")
    name, _, value = data.decode("latin-1").partition(": ")
    try:
        lines: bytes = fields.encode_headers({name: value})
    except PenstockError as error:
        return False, str(error)[-30:]
    promise(lines.count(b"\n") == 1 and lines.endswith(b"\r\n"), "more than one line is written")
    server = h11.Connection(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n")
    event: Any = server.next_event()
    promise(isinstance(event, h11.Request), "h11 does not read the head")
    read = [(bytes(one), bytes(two)) for one, two in event.headers if bytes(one) != b"host"]
    promise(read == [(name.lower().encode(), value.encode())], f"h11 reads {read}")
    return True, (len(name) > 8, "\t" in value)


def check_head(data: bytes) -> Verdict:
    """What is accepted as a request line is read back by h11 as the same request, with nothing behind it."""
    head: Any = import_module("penstock._http.header_fields")
    pieces = [*data.decode("latin-1").split(" "), "", "", ""]
    method, target, authority = pieces[0], pieces[1], " ".join(pieces[2:-3])
    try:
        written: bytes = head.encode_request_head(method, target, authority, {"x-a": "b"})
    except PenstockError as error:
        return False, str(error)[-30:]
    server = h11.Connection(h11.SERVER)
    server.receive_data(written + b"\r\n")
    event: Any = server.next_event()
    promise(isinstance(event, h11.Request), "h11 does not read the head")
    promise((event.method, event.target) == (method.encode(), target.encode()), f"h11 reads {event}")
    promise(len(event.headers) == 2, f"h11 reads the headers {list(event.headers)}")
    return True, (method, len(target) > 20)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────


def check_packed_body(data: bytes) -> Verdict:
    """A packed body is unpacked up to the limit, or refused."""
    encoding, _, packed = data.partition(b"\n")
    try:
        made = event_loop().run_until_complete(decompress(packed, encoding.decode("latin-1"), 100_000))
    except PenstockError as error:
        return False, str(error)[:30]
    promise(len(made) <= 100_000, "more is unpacked than is allowed")
    return True, len(made) // 10_000


def check_address(data: bytes) -> Verdict:
    """Any path and query is routed, or found to lead nowhere."""
    path, _, query = data.partition(b"?")
    incoming = IncomingRequest({"method": "POST", "path": path.decode("latin-1"), "query_string": query, "headers": []})
    route = find_route("POST", incoming.path)
    values = incoming.query
    promise(len(values) <= len(query) + 1, "more values than bytes")
    return route.endpoint is not None or route.handler is not None or bool(values), (
        bool(values),
        *sorted(route.params),
    )


ADDRESSES: tuple[bytes, ...] = (
    b"/v1/chat/completions", b"/v1/messages?beta=true", b"/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=x",
    b"/openai/deployments/gpt/chat/completions?api-version=2024-10-21", b"/v1/responses/resp_1/input_items?limit=5&after=a",
    b"/v1/models/a%2Fb", b"//v1//v1/models", b"/api/chat", b"/v1/v1/v1/messages/count_tokens", b"/gemini/v1beta/models/x:countTokens",
)  # fmt: skip


def _simple(seeds: Sequence[bytes], mutator: Mutator, check: Check) -> Any:
    return lambda: (seeds, mutator, check)


def targets() -> list[Target]:
    """All targets of this module. Those of modules that are not there are left out."""
    packed = [name + b"\n" + pack(_BODY * 5) for name, pack in ((b"gzip", gzip.compress), (b"deflate", zlib.compress))]
    made = [
        Target(
            "http-response",
            "the head of a response is read",
            _simple(RESPONSES, LinesMutator(WORDS, b"\r\n"), check_response),
        ),
        Target(
            "http-packed-body",
            "a body is unpacked",
            _simple([*packed, b"identity\nx"], BytesMutator(), check_packed_body),
        ),
        Target(
            "http-address",
            "an endpoint or a value is found",
            _simple(ADDRESSES, BytesMutator(ADDRESS_WORDS), check_address),
        ),
    ]
    if find_spec("penstock._http.header_fields"):
        mutator = BytesMutator((b"\r\n", b": ", b"\t", b"\x7f"))
        made.append(Target("http-header", "the header is accepted", _simple(HEADERS, mutator, check_header)))
    if find_spec("penstock._http.header_fields"):
        heads = [b"POST /v1/messages?x=1 api.example.com:443", b"GET / [::1]:80", b"POST /a%20b localhost"]
        made.append(
            Target(
                "http-request-head", "the head is written", _simple(heads, BytesMutator((b"\r\n", b"#")), check_head)
            )
        )
    return made


ADDRESS_WORDS = (
    b"/v1",
    b"//",
    b"/models/",
    b":generateContent",
    b"?",
    b"&",
    b"%2F",
    b"%00",
    b"%",
    b"..",
    b"/openai/deployments/",
    b"key=",
)
