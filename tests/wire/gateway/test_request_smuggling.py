"""Bytes from outside do not become part of an upstream's request line or headers: one request in, at most one out.

The gateway is a real server. The upstream logs raw bytes and lets h11 read the requests in them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.gateway import Account, App, Config, GatewayConfig
from tests.support.gateway import Running
from tests.support.raw_upstream import RawUpstream, exchange, raw_upstream, request, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator


SMUGGLED = b"ATT\r\nContent-Length: 0\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: x"
UNSAFE = {
    "request": SMUGGLED, "header": b"k\r\nx-evil: 1", "lf": b"k\nx-evil: 1", "cr": b"k\rx", "nul": b"k\0x",
    "escape": b"k\x1bx", "del": b"k\x7fx",
}  # fmt: skip
KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
each_way = pytest.mark.parametrize("way", ["direct", "aiohttp", "sdk"])
CHAT = "/v1/chat/completions"


def accounts(url: str, key: str) -> dict[str, Account]:
    """Providers without keys of their own, which put the model's name in the body, the path, or a base address."""
    openai = {"has": ["chat"], "sdk": "openai"}
    rows: dict[str, dict[str, Any]] = {
        "raw": {"base_url": f"{url}/v1", "fields": openai},
        "gem": {"base_url": f"{url}/v1beta", "like": "gemini"},
        "ant": {"base_url": url, "like": "anthropic"},
        "based": {"base_url": f"{url}/{{model}}/v1", "fields": openai},
        "head": {"base_url": f"{url}/v1", "fields": {**openai, "headers": {"x-model": "{model}"}}},
    }
    return {name: {"key": key, **row} for name, row in rows.items()}


@contextmanager
def gateway(way: str, key: str = "") -> Iterator[tuple[Running, RawUpstream]]:
    """A gateway that passes keys on, unless it has its own."""
    with raw_upstream() as up:
        # An address that only a proxy could know: the upstream is the proxy.
        url = "http://provider.invalid" if way == "aiohttp" else up.url
        options = {"proxy": up.url if way == "aiohttp" else "none"}
        engine = Config(providers=accounts(url, key), retries=0, options=options, engine="sdk" if way == "sdk" else "")
        made = GatewayConfig(
            engine=engine, access={"keys": "own" if key else "forward"}, journal={"path": "memory"},
            state={"path": "memory"}, serve={"pace": 0.0},
        )  # fmt: skip
        with Running(App(made, env={})) as running:
            yield running, up


def chat(model: str) -> bytes:
    return msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "x"}]})


def refused(answer: bytes, up: RawUpstream, *words: str) -> None:
    """The gateway said no, where and why, without the value; and the upstream heard nothing."""
    assert status_of(answer) == 400, answer
    for word in words:
        assert word.encode() in answer
    assert b"ATT" not in answer
    assert up.raw == b""


def arrived(answer: bytes, up: RawUpstream, before: int = 0) -> None:
    """One request has reached the upstream, and h11 sees no other."""
    assert status_of(answer) == 200, answer
    assert up.errors == []
    assert len(up.requests) == before + 1
    assert b"x-evil" not in up.raw.lower().replace(b"%0d%0ax-evil", b"")


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@each_way
@pytest.mark.parametrize("case", UNSAFE)
def test_a_key_in_the_query(way: str, case: str) -> None:
    with gateway(way) as (running, up):
        path = f"{CHAT}?key={quote_from_bytes(UNSAFE[case])}".encode()
        kind = "line break" if case in {"request", "header", "lf", "cr"} else "control character"
        place = UNSAFE[case].find(b"\r" if b"\r" in UNSAFE[case] else b"\n") + 1 or 2
        answer = exchange(running.url, request(path, chat("raw/m")))
        refused(answer, up, f"the key in ?key= has a {kind} at position {place}")
        # The next caller on the same gateway gets its own answer.
        arrived(exchange(running.url, request(f"{CHAT}?key=VICTIM".encode(), chat("raw/m"))), up)
        assert ("authorization", "Bearer VICTIM") in up.requests[0].headers
        assert (b"x-stainless-lang" in up.raw.lower()) is (way == "sdk"), "the vendor's client asked, or did not"


@each_way
@pytest.mark.parametrize("name", KEY_HEADERS)
def test_a_key_in_a_header(way: str, name: bytes) -> None:
    """Control characters are refused by the server, what is not ASCII by the gateway."""
    prefix = b"Bearer " if name == b"authorization" else b""
    with gateway(way) as (running, up):
        for case in ("cr", "nul", "escape", "del"):
            answer = exchange(running.url, request(CHAT.encode(), chat("raw/m"), (name, prefix + UNSAFE[case])))
            assert status_of(answer) in {400, 0}, case
            assert up.raw == b""
        answer = exchange(running.url, request(CHAT.encode(), chat("raw/m"), (name, prefix + b"k\xe9y")))
        refused(answer, up, f"the key in the header {name.decode()} has a character outside ASCII at position 2")
        # Two headers in one are two headers: the second is not passed on.
        answer = exchange(running.url, request(CHAT.encode(), chat("raw/m"), (name, prefix + UNSAFE["header"])))
        arrived(answer, up)


def test_a_gateway_key_is_never_passed_on() -> None:
    """`x-penstock-key` is for the gateway. The key for the provider is the other one."""
    with gateway("direct") as (running, up):
        both = ((b"x-penstock-key", b"gw-secret"), (b"x-api-key", b"sk-mine"))
        arrived(exchange(running.url, request(CHAT.encode(), chat("raw/m"), *both)), up)
        assert b"Bearer sk-mine" in up.raw
        assert b"gw-secret" not in up.raw


def test_a_long_key() -> None:
    with gateway("direct") as (running, up):
        answer = exchange(running.url, request(CHAT.encode(), chat("raw/m"), (b"x-api-key", b"k" * 20_000)))
        refused(answer, up, "the key in the header x-api-key is too long")


# ── models ────────────────────────────────────────────────────────────────────────────────────────


@each_way
@pytest.mark.parametrize("provider", ["raw", "gem", "based", "head"])
@pytest.mark.parametrize("case", UNSAFE)
def test_a_model_in_the_body(way: str, provider: str, case: str) -> None:
    with gateway(way, key="sk-up") as (running, up):
        answer = exchange(running.url, request(CHAT.encode(), chat(f"{provider}/{UNSAFE[case].decode()}")))
        refused(answer, up, "model: the name has a", "at position")


@each_way
@pytest.mark.parametrize("provider", ["gem", "raw"])
@pytest.mark.parametrize("case", UNSAFE)
def test_a_model_in_the_path(way: str, provider: str, case: str) -> None:
    body = b'{"contents":[{"role":"user","parts":[{"text":"x"}]}]}'
    with gateway(way, key="sk-up") as (running, up):
        path = f"/v1beta/models/{provider}/{quote_from_bytes(UNSAFE[case])}:generateContent"
        refused(exchange(running.url, request(path.encode(), body)), up, "model: the name has a", "at position")


@each_way
def test_a_model_that_would_lead_elsewhere(way: str) -> None:
    with gateway(way, key="sk-up") as (running, up):
        for model in ("gem/../../evil", "gem/..", "based/../evil"):
            answer = exchange(running.url, request(CHAT.encode(), chat(model)))
            assert status_of(answer) == 400
            assert b"cannot be part of an address" in answer
        assert up.raw == b""
        arrived(exchange(running.url, request(CHAT.encode(), chat("gem/a?b#c d/e%2e"))), up)
        assert up.requests[0].target.endswith("/v1beta/models/a%3Fb%23c%20d%2Fe%252e:generateContent")


@each_way
def test_query_parameters_and_headers_of_the_client_stay_here(way: str) -> None:
    with gateway(way, key="sk-up") as (running, up):
        path = f"{CHAT}?beta=true&x={quote_from_bytes(SMUGGLED)}&api-version=%0d%0ax-evil:1".encode()
        headers = ((b"x-request-id", b"evil-1"), (b"user-agent", b"evil-2"), (b"anthropic-beta", b"evil-3"))
        arrived(exchange(running.url, request(path, chat("raw/m"), *headers)), up)
        assert b"evil" not in up.raw
        assert up.requests[0].target.endswith("/v1/chat/completions")


# ── whatever comes ────────────────────────────────────────────────────────────────────────────────

PIECES = st.sampled_from(
    ["\r\n", "\n", "\r", "\0", " ", "%0d%0a", "..", "/", "?", "#", "&", "é", "\u2028", "\x85", ":"]
)
HOSTILE = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=8).map("".join)
RAW = st.lists(st.one_of(st.sampled_from([b"\r\n", b"\n", b"\0", b"\t", b" ", b":", b","]), st.binary(max_size=5)))


@pytest.fixture(scope="module", params=["direct", "aiohttp"])
def forwarding(request: pytest.FixtureRequest) -> Iterator[tuple[Running, RawUpstream]]:
    with gateway(request.param) as made:
        yield made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=HOSTILE, model=HOSTILE, provider=st.sampled_from(["raw", "gem", "ant", "based", "head"]))
def test_any_key_and_model(forwarding: tuple[Running, RawUpstream], key: str, model: str, provider: str) -> None:
    """One request upstream for each that is answered with 200, none for any other."""
    running, up = forwarding
    before = len(up.requests)
    path = f"{CHAT}?key=k{quote_from_bytes(key.encode('utf-8', 'replace'))}".encode()
    answer = exchange(running.url, request(path, chat(f"{provider}/{model.encode('utf-8', 'replace').decode()}")))
    assert up.errors == []
    if status_of(answer) == 200:
        assert len(up.requests) == before + 1
        assert up.requests[-1].method == "POST"
        assert ".." not in up.requests[-1].target.split("/")
    else:
        assert 400 <= status_of(answer) < 500, answer
        assert len(up.requests) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=RAW, name=st.sampled_from(KEY_HEADERS))
def test_any_bytes_in_a_key_header(forwarding: tuple[Running, RawUpstream], raw: list[bytes], name: bytes) -> None:
    running, up = forwarding
    before = len(up.requests)
    value = b"Bearer k" + b"".join(raw) if name == b"authorization" else b"k" + b"".join(raw)
    # What the bytes make of the client's own request is for the server to say; no second request may come of one.
    answer = exchange(running.url, request(CHAT.encode(), chat("raw/m"), (name, value)))
    assert up.errors == []
    assert len(up.requests) == before + answer.count(b"HTTP/1.1 200 ")
