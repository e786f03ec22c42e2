"""Who is let in is decided before an address is looked up, from headers that can be read in one way only."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock._gateway.callers import ANONYMOUS, Caller
from penstock._gateway.limits import rules_of
from penstock._http.header_fields import UNIQUE_HEADERS, read_headers, repeated_header
from penstock._input_limits import MAX_HEADERS, MAX_PATH, MAX_QUERY
from penstock.gateway import App, GatewayConfig, Inspector
from tests.support.gateway import Running, hash_key
from tests.support.raw_upstream import exchange, request, status_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

KEY = "pk-one-11111111"
KEYED = (b"x-penstock-key", KEY.encode())
CHAT = msgspec.json.encode({"model": "replay/text", "messages": [{"role": "user", "content": "x"}]})
EVIL = b"evil.example"


@contextmanager
def gateway(*, inspected: bool = False, **more: Any) -> Generator[str]:
    """The address of a gateway with one key, that plays packaged streams."""
    given: dict[str, Any] = {"keys": {"one": {"hash": hash_key(KEY)}}, **more}
    config = GatewayConfig(journal={"path": "memory"}, state={"path": "memory"}, serve={"pace": 0.0}, **given)
    app: Any = App(config, env={})
    made: Any = Running(app)
    if inspected:
        made._server.config.app = Inspector(app)
    with made as running:
        yield running.url


@pytest.fixture(scope="module")
def keyed() -> Iterator[str]:
    with gateway() as url:
        yield url


@pytest.fixture(scope="module")
def inspector() -> Iterator[str]:
    with gateway(inspected=True) as url:
        yield url


# ── the order ─────────────────────────────────────────────────────────────────────────────────────

LONG = {
    "gemini": "/v1/" + "models/" * 4000 + ":a" * 8000 + ":0",
    "twice": "/v1" * 1500,
    "many times": "/v1" * 20_000,
    "slashes": "/" * 50_000,
    "deployments": "/openai/deployments/" + "/chat/completions" * 3000,
    "encoded": "/v1/models/" + "%61" * 700,
}


@pytest.mark.parametrize("case", LONG)
@pytest.mark.parametrize("headers", [(), (KEYED,)], ids=["stranger", "keyed"])
def test_a_long_path_is_refused_at_once(keyed: str, case: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    data = request(LONG[case].encode(), b"", *headers, method=b"GET", host=EVIL)
    began = time.process_time()
    answer = exchange(keyed, data)
    spent = time.process_time() - began  # of the server too: it is a thread of this process
    assert (status_of(answer), b"the path is longer than 2048 bytes" in answer) == (414, True)
    assert spent < 0.5


def test_the_limits_are_exact(keyed: str) -> None:
    for size, status in ((MAX_PATH, 404), (MAX_PATH + 1, 414)):
        path = b"/x/" + b"a" * (size - 3)
        assert status_of(exchange(keyed, request(path, b"", KEYED, method=b"GET"))) == status
    for size, status in ((MAX_QUERY, 200), (MAX_QUERY + 1, 414)):
        path = b"/v1/models?" + b"a" * size
        assert status_of(exchange(keyed, request(path, b"", KEYED, method=b"GET"))) == status
    for count, status in ((MAX_HEADERS - 4, 200), (MAX_HEADERS + 1, 431)):
        more = [(b"x-%d" % number, b"") for number in range(count)]
        assert status_of(exchange(keyed, request(b"/v1/models", b"", KEYED, *more, method=b"GET"))) == status


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/messages", b'"type":"error"'), ("/v1beta/models/x", b'"status":"INVALID_ARGUMENT"'),
        ("/api/chat", b'{"error":"'), ("/v1/chat/completions", b'"error":{"message":"'), ("/v1/responses/x", b'"error":{'),
    ],
)  # fmt: skip
def test_a_long_path_is_refused_in_its_dialect(keyed: str, path: str, form: bytes) -> None:
    answer = exchange(keyed, request(f"{path}/{'a' * MAX_PATH}".encode(), CHAT, KEYED))
    assert status_of(answer) == 414
    assert form in answer


ORDER: dict[str, tuple[dict[str, Any], int, bytes]] = {
    "host": ({"host": EVIL}, 403, b"does not answer to the name"),
    "origin": ({"headers": ((b"origin", b"https://evil.example"),)}, 403, b"may not ask here"),
    "key": ({}, 401, b"no gateway key was sent"),
    "wrong key": ({"headers": ((b"x-api-key", b"no"),)}, 401, b"the gateway key is not known here"),
}
PATHS = ["/v1/models", "/v1/nothing/like/this", "/v1/models/x:generateContent", "/v1/v1/v1/models", "/favicon.ico"]


@pytest.mark.parametrize("case", ORDER)
@pytest.mark.parametrize("path", PATHS)
def test_who_asks_comes_before_what_is_asked(keyed: str, case: str, path: str) -> None:
    """An address that nothing is served at is not told apart for those who are not let in."""
    given, status, words = ORDER[case]
    headers, host = given.get("headers", ()), given.get("host", b"localhost")
    answer = exchange(keyed, request(path.encode(), b"", *headers, method=b"GET", host=host))
    assert status_of(answer) == status
    assert words in answer


def test_what_needs_no_key_is_served_as_before(keyed: str) -> None:
    for path in (b"/healthz", b"/readyz", b"/"):
        assert status_of(exchange(keyed, request(path, method=b"GET"))) == 200
    assert status_of(exchange(keyed, request(b"/metrics", method=b"GET"))) == 401  # a proxy may be on this machine
    with gateway(access={"trusted_proxies": ()}) as url:
        assert status_of(exchange(url, request(b"/metrics", method=b"GET"))) == 200
    assert status_of(exchange(keyed, request(b"/healthz", method=b"GET", host=EVIL))) == 200
    assert status_of(exchange(keyed, request(b"/", method=b"GET", host=EVIL))) == 403
    wish = ((b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"x-api-key, x-b"))
    page = (b"origin", b"http://localhost:3000")
    answer = exchange(keyed, request(b"/v1/messages", b"", page, *wish, method=b"OPTIONS"))
    assert status_of(answer) == 204
    assert b"access-control-allow-headers: x-api-key, x-b\r\n" in answer
    stranger = (b"origin", b"https://evil.example")
    assert status_of(exchange(keyed, request(b"/v1/messages", b"", stranger, *wish, method=b"OPTIONS"))) == 403
    assert status_of(exchange(keyed, request(b"/v1/messages", CHAT, KEYED, page))) == 200


def test_the_inspector_admits_first_too(inspector: str) -> None:
    def ask(path: bytes, *headers: tuple[bytes, bytes], host: bytes = b"localhost") -> int:
        return status_of(exchange(inspector, request(path, b"", *headers, method=b"GET", host=host)))

    assert ask(b"/inspector/about") == 200
    assert ask(b"/inspector/turns") == 401
    assert ask(b"/inspector/nothing/here") == 401
    assert ask(b"/inspector/nothing/here", KEYED) == 404
    assert ask(b"/inspector/nothing/here", host=EVIL) == 403
    assert ask(b"/inspector/" + b"a/" * 5000, KEYED) == 414
    assert ask(b"/inspector/turns", KEYED, KEYED) == 400


# ── one reading of the headers ────────────────────────────────────────────────────────────────────

TWICE = {
    "host": (b"127.0.0.1", EVIL), "origin": (b"http://localhost:3000", b"https://evil.example"),
    "x-penstock-key": (KEY.encode(), b"no"), "authorization": (b"Bearer " + KEY.encode(), b"Bearer no"),
    "x-api-key": (KEY.encode(), b"no"), "x-goog-api-key": (KEY.encode(), b"no"), "api-key": (KEY.encode(), b"no"),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("order", ["good first", "bad first", "same"])
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/models", b"/nothing"])
def test_a_header_that_decides_is_sent_once(keyed: str, name: str, order: str, path: bytes) -> None:
    good, bad = TWICE[name]
    values = {"good first": (good, bad), "bad first": (bad, good), "same": (good, good)}[order]
    headers = [(name.encode(), value) for value in values]
    if name in {"host", "origin"}:
        headers.append(KEYED)
    answer = exchange(keyed, request(path, CHAT, *headers, host=b"" if name == "host" else b"localhost"))
    assert status_of(answer) == 400
    assert f"the header {name} was sent more than once".encode() in answer
    assert KEY.encode() not in answer


@pytest.mark.parametrize("name", ["x-api-key", "origin", "host"])
def test_a_websocket_is_refused_the_same(keyed: str, name: str) -> None:
    good, bad = TWICE[name]
    upgrade = [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13"),
               (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip
    headers = [*upgrade, *((name.encode(), value) for value in (good, bad))]
    if name != "x-api-key":
        headers.append(KEYED)
    data = request(b"/v1/responses", b"", *headers, method=b"GET", host=b"" if name == "host" else b"localhost")
    answer = exchange(keyed, data.replace(b"connection: close", b"connection: upgrade"))
    assert status_of(answer) in {400, 403}
    assert b"101 " not in answer[:20]


def test_a_key_in_the_query_is_sent_once(keyed: str) -> None:
    for query in (b"key=%b&key=no", b"key=no&key=%b", b"key=%b&k%%65y=no", b"key=%b&key="):
        answer = exchange(keyed, request(b"/v1/models?" + query % KEY.encode(), method=b"GET"))
        assert (status_of(answer), b"the query has more than one key=" in answer) == (400, True), query
    for query in (b"key=%b", b"k%%65y=%b"):
        assert status_of(exchange(keyed, request(b"/v1/models?" + query % KEY.encode(), method=b"GET"))) == 200


# Ways to make two parsers disagree on where a request ends (RFC 9112, sections 6.3 and 11.2).
ENDS = {
    "two lengths": b"content-length: 0\r\ncontent-length: 9\r\n",
    "two equal lengths": b"content-length: 0\r\ncontent-length: 0\r\n",
    "length and chunked": b"content-length: 9\r\ntransfer-encoding: chunked\r\n",
    "chunked and length": b"transfer-encoding: chunked\r\ncontent-length: 9\r\n",
    "list of lengths": b"content-length: 0, 9\r\n",
    "signed length": b"content-length: +0\r\n",
    "hexadecimal length": b"content-length: 0x0\r\n",
    "not chunked at last": b"transfer-encoding: chunked, identity\r\n",
    "almost chunked": b"transfer-encoding: xchunked\r\n",
    "space before the colon": b"content-length : 0\r\n",
    "folded": b"content-length:\r\n 0\r\n",
    "line feed": b"x: y\ncontent-length: 0\r\n",
    "control character": b"x: a\0b\r\ncontent-length: 0\r\n",
}
HIDDEN = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-penstock-key: %b\r\n\r\n" % KEY.encode()


@pytest.mark.parametrize("case", ENDS)
def test_where_a_request_ends_is_not_a_matter_of_opinion(keyed: str, case: str) -> None:
    """Refused by the server's parser, before there is a request; the hidden request gets no answer."""
    head = b"POST /nothing HTTP/1.1\r\nhost: localhost\r\nx-penstock-key: %b\r\n" % KEY.encode()
    answer = exchange(keyed, head + ENDS[case] + b"connection: close\r\n\r\n" + HIDDEN)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert status_of(answer) == 400
    assert b'"object":"list"' not in answer


def test_other_headers_are_joined() -> None:
    """RFC 9110, section 5.3: lines of one name are a list."""
    lines = [(b"Accept", b"a"), (b"accept", b"b"), (b"x-forwarded-for", b"1"), (b"x-forwarded-for", b"2")]
    assert read_headers(lines) == {"accept": "a, b", "x-forwarded-for": "1, 2"}
    assert repeated_header(lines) == ""
    for name in UNIQUE_HEADERS:
        twice = [*lines, (name.encode(), b"first"), (name.upper().encode(), b"second")]
        assert (repeated_header(twice), read_headers(twice)[name]) == (name, "first")


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_secret_gives_no_second_limit() -> None:
    keys = {"one": {"hash": hash_key(KEY), "tenant": "team", "limits": {"requests": 3}}}
    with gateway(keys=keys, access={"keys": "forward"}) as url:
        path = b"/v1/chat/completions"
        plain = [status_of(exchange(url, request(path, CHAT, KEYED))) for _ in range(4)]
        second = (b"x-api-key", b"junk")
        more = [status_of(exchange(url, request(path, CHAT, KEYED, second))) for _ in range(2)]
        query = [status_of(exchange(url, request(path + b"?key=junk2", CHAT, KEYED))) for _ in range(2)]
    assert (plain, more, query) == ([200, 200, 200, 429], [429, 429], [429, 429])


def test_who_has_no_key_is_told_apart_by_the_provider_key() -> None:
    one, two = (Caller(tenant=f"{ANONYMOUS}:{name}", secret=name, limits={"requests": 1}) for name in "ab")
    assert [[rule.scope for rule in rules_of(who)] for who in (one, two)] == [
        ["caller:anonymous:a"],
        ["caller:anonymous:b"],
    ]
