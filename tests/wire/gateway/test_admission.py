"""Who is let in is decided before an address is looked up, from headers that can be read in one way only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.support.gateway import gateway, hash_key
from tests.support.inspector import inspected
from tests.support.raw_upstream import exchange, request, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "pk-one-11111111"
KEYS = {"one": {"hash": hash_key(KEY)}}
KEYED = (b"x-penstock-key", KEY.encode())
CHAT = msgspec.json.encode({"model": "replay/text", "messages": [{"role": "user", "content": "x"}]})
EVIL = b"evil.example"
# docs/limits.md
MAX_PATH, MAX_QUERY, MAX_HEADERS = 2048, 8192, 128


@pytest.fixture(scope="module")
def keyed() -> Iterator[str]:
    """The address of a gateway with one key, that plays packaged streams."""
    with gateway(keys=KEYS) as (running, _):
        yield running.url


def ask(url: str, path: bytes, *headers: tuple[bytes, bytes], host: bytes = b"localhost") -> int:
    return status_of(exchange(url, request(path, b"", *headers, method=b"GET", host=host)))


# ── the order ─────────────────────────────────────────────────────────────────────────────────────

LONG = {
    "gemini": "/v1/" + "models/" * 4000 + ":a" * 8000 + ":0",
    "twice": "/v1" * 1500,
    "many times": "/v1" * 20_000,
    "slashes": "/" * 50_000,
    "deployments": "/openai/deployments/" + "/chat/completions" * 3000,
    "encoded": "/v1/models/" + "%61" * 700,
}


def test_a_long_path_is_refused_at_once(keyed: str) -> None:
    problems = []
    for case, path in LONG.items():
        for headers in ((), (KEYED,)):
            data = request(path.encode(), b"", *headers, method=b"GET", host=EVIL)
            began = time.process_time()
            answer = exchange(keyed, data)
            spent = time.process_time() - began  # of the server too: it is a thread of this process
            if status_of(answer) != 414 or b"the path is longer than 2048 bytes" not in answer or spent >= 0.5:
                problems.append((case, headers, answer, spent))
    assert problems == []


def test_the_limits_are_exact(keyed: str) -> None:
    for size, status in ((MAX_PATH, 404), (MAX_PATH + 1, 414)):
        assert ask(keyed, b"/x/" + b"a" * (size - 3), KEYED) == status
    for size, status in ((MAX_QUERY, 200), (MAX_QUERY + 1, 414)):
        assert ask(keyed, b"/v1/models?" + b"a" * size, KEYED) == status
    for count, status in ((MAX_HEADERS - 4, 200), (MAX_HEADERS + 1, 431)):
        assert ask(keyed, b"/v1/models", KEYED, *((b"x-%d" % number, b"") for number in range(count))) == status


def test_a_long_path_is_refused_in_its_dialect(keyed: str) -> None:
    forms = {
        "/v1/messages": b'"type":"error"', "/v1beta/models/x": b'"status":"INVALID_ARGUMENT"',
        "/api/chat": b'{"error":"', "/v1/chat/completions": b'"error":{"message":"', "/v1/responses/x": b'"error":{',
    }  # fmt: skip
    answers = {path: exchange(keyed, request(f"{path}/{'a' * MAX_PATH}".encode(), CHAT, KEYED)) for path in forms}
    wrong = {path: said for path, said in answers.items() if status_of(said) != 414 or forms[path] not in said}
    assert wrong == {}


ORDER: dict[str, tuple[dict[str, Any], int, bytes]] = {
    "host": ({"host": EVIL}, 403, b"does not answer to the name"),
    "origin": ({"headers": ((b"origin", b"https://evil.example"),)}, 403, b"may not ask here"),
    "key": ({}, 401, b"no gateway key was sent"),
    "wrong key": ({"headers": ((b"x-api-key", b"no"),)}, 401, b"the gateway key is not known here"),
}
PATHS = ("/v1/models", "/v1/nothing/like/this", "/v1/models/x:generateContent", "/v1/v1/v1/models", "/favicon.ico")


@pytest.mark.parametrize("case", ORDER)
def test_who_asks_comes_before_what_is_asked(keyed: str, case: str) -> None:
    """An address that nothing is served at is not told apart for those who are not let in."""
    given, status, words = ORDER[case]
    headers, host = given.get("headers", ()), given.get("host", b"localhost")
    for path in PATHS:
        answer = exchange(keyed, request(path.encode(), b"", *headers, method=b"GET", host=host))
        assert (status_of(answer), words in answer) == (status, True), (path, answer)


def test_what_needs_no_key_is_served_as_before(keyed: str) -> None:
    for path in (b"/healthz", b"/readyz", b"/"):
        assert ask(keyed, path) == 200
    assert ask(keyed, b"/metrics") == 401  # a proxy may be on this machine
    with gateway(keys=KEYS, access={"trusted_proxies": []}) as (running, _):
        assert ask(running.url, b"/metrics") == 200
    assert ask(keyed, b"/healthz", host=EVIL) == 200
    assert ask(keyed, b"/", host=EVIL) == 403
    wish = ((b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"x-api-key, x-b"))
    page = (b"origin", b"http://localhost:3000")
    answer = exchange(keyed, request(b"/v1/messages", b"", page, *wish, method=b"OPTIONS"))
    assert status_of(answer) == 204
    assert b"access-control-allow-headers: x-api-key, x-b\r\n" in answer
    stranger = (b"origin", b"https://evil.example")
    assert status_of(exchange(keyed, request(b"/v1/messages", b"", stranger, *wish, method=b"OPTIONS"))) == 403
    assert status_of(exchange(keyed, request(b"/v1/messages", CHAT, KEYED, page))) == 200


def test_the_inspector_admits_first_too() -> None:
    with inspected(keys=KEYS, without_session=True) as running:
        url = running.url
        assert ask(url, b"/inspector/about") == 200
        assert ask(url, b"/inspector/turns") == 401
        assert ask(url, b"/inspector/nothing/here") == 401
        assert ask(url, b"/inspector/nothing/here", KEYED) == 404
        assert ask(url, b"/inspector/nothing/here", host=EVIL) == 403
        assert ask(url, b"/inspector/" + b"a/" * 5000, KEYED) == 414
        assert ask(url, b"/inspector/turns", KEYED, KEYED) == 400


# ── one reading of the headers ────────────────────────────────────────────────────────────────────

TWICE = {
    "host": (b"127.0.0.1", EVIL), "origin": (b"http://localhost:3000", b"https://evil.example"),
    "x-penstock-key": (KEY.encode(), b"no"), "authorization": (b"Bearer " + KEY.encode(), b"Bearer no"),
    "x-api-key": (KEY.encode(), b"no"), "x-goog-api-key": (KEY.encode(), b"no"), "api-key": (KEY.encode(), b"no"),
    "content-type": (b"application/json", b"text/plain"), "sec-fetch-site": (b"same-origin", b"cross-site"),
    "sec-fetch-mode": (b"cors", b"navigate"), "access-control-request-method": (b"POST", b"GET"),
}  # fmt: skip
SECRET = frozenset({"x-penstock-key", "authorization", "x-api-key", "x-goog-api-key", "api-key"})


@pytest.mark.parametrize("name", TWICE)
def test_a_header_that_decides_is_sent_once(keyed: str, name: str) -> None:
    good, bad = TWICE[name]
    for values in ((good, bad), (bad, good), (good, good)):
        for spelt in (name, name.title()):
            headers = [(name.encode(), values[0]), (spelt.encode(), values[1])]
            if name not in SECRET:
                headers.append(KEYED)
            for path in (b"/v1/chat/completions", b"/v1/models", b"/nothing"):
                answer = exchange(keyed, request(path, CHAT, *headers, host=b"" if name == "host" else b"localhost"))
                assert status_of(answer) == 400, (values, path)
                assert f"the header {name} was sent more than once".encode() in answer
                assert KEY.encode() not in answer


def test_other_headers_are_joined(keyed: str) -> None:
    """RFC 9110, section 5.3: lines of one name are a list. The second line of a list of wishes counts too."""
    wish = (b"access-control-request-method", b"POST")
    page = (b"origin", b"http://localhost:3000")
    names = [(b"Access-Control-Request-Headers", b"x-a"), (b"access-control-request-headers", b"x-b")]
    answer = exchange(keyed, request(b"/v1/messages", b"", page, wish, *names, method=b"OPTIONS"))
    assert b"access-control-allow-headers: x-a, x-b\r\n" in answer
    strange = (b"access-control-request-headers", b"x-\xe9")
    answer = exchange(keyed, request(b"/v1/messages", b"", page, wish, strange, method=b"OPTIONS"))
    assert status_of(answer) == 400
    assert b"access-control-allow-headers" not in answer


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
        assert ask(keyed, b"/v1/models?" + query % KEY.encode()) == 200


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


def test_where_a_request_ends_is_not_a_matter_of_opinion(keyed: str) -> None:
    """Refused by the server's parser, before there is a request; the hidden request gets no answer."""
    head = b"POST /nothing HTTP/1.1\r\nhost: localhost\r\nx-penstock-key: %b\r\n" % KEY.encode()
    answers = {case: exchange(keyed, head + end + b"connection: close\r\n\r\n" + HIDDEN) for case, end in ENDS.items()}
    wrong = {
        case: answer
        for case, answer in answers.items()
        if answer.count(b"HTTP/1.1 ") != 1 or status_of(answer) != 400 or b'"object":"list"' in answer
    }
    assert wrong == {}


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_secret_gives_no_second_limit() -> None:
    keys = {"one": {"hash": hash_key(KEY), "tenant": "team", "limits": {"requests": 3}}}
    with gateway(keys=keys, access={"keys": "forward"}) as (running, _):
        path = b"/v1/chat/completions"
        plain = [status_of(exchange(running.url, request(path, CHAT, KEYED))) for _ in range(4)]
        second = (b"x-api-key", b"junk")
        more = [status_of(exchange(running.url, request(path, CHAT, KEYED, second))) for _ in range(2)]
        query = [status_of(exchange(running.url, request(path + b"?key=junk2", CHAT, KEYED))) for _ in range(2)]
    assert (plain, more, query) == ([200, 200, 200, 429], [429, 429], [429, 429])
