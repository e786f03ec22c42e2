"""Bytes from outside do not become part of an upstream's request line or headers: one request in, at most one out.

The gateway is a real server. The upstream logs raw bytes and lets h11 read the requests in them.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_from_bytes

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.gateway import App
from tests.support.gateway import Running, read_config
from tests.support.raw_upstream import RawUpstream, exchange, raw_upstream, request, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator


SMUGGLED = b"ATT\r\nContent-Length: 0\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: x"
UNSAFE = {
    "request": SMUGGLED, "header": b"k\r\nx-evil: 1", "lf": b"k\nx-evil: 1", "cr": b"k\rx", "nul": b"k\0x",
    "escape": b"k\x1bx", "del": b"k\x7fx",
}  # fmt: skip
KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
WAYS = ("direct", "aiohttp", "sdk")
CHAT = "/v1/chat/completions"


def providers(url: str, key: str) -> dict[str, Any]:
    """Providers that put the model's name in the body, the path, or a base address."""
    openai = {"has": ["chat"], "sdk": "openai"}
    rows: dict[str, dict[str, Any]] = {
        "raw": {"base_url": f"{url}/v1", "fields": openai},
        "gem": {"base_url": f"{url}/v1beta", "like": "gemini"},
        "ant": {"base_url": url, "like": "anthropic"},
        "based": {"base_url": f"{url}/{{model}}/v1", "fields": openai},
        "head": {"base_url": f"{url}/v1", "fields": {**openai, "headers": {"x-model": "{model}"}}},
    }
    return {name: {**row, **({"key": key} if key else {})} for name, row in rows.items()}


class Asked(NamedTuple):
    """A gateway that has asked, and what its upstream has heard."""

    url: str
    up: RawUpstream
    way: str

    def refused(self, data: bytes, *words: str) -> None:
        """The gateway says no, where and why, without the value; and the upstream hears nothing."""
        before, answer = len(self.up.raw), exchange(self.url, data)
        assert status_of(answer) == 400, answer
        for word in words:
            assert word.encode() in answer
        assert b"ATT" not in answer
        assert len(self.up.raw) == before

    def arrived(self, data: bytes) -> Any:
        """One request reaches the upstream, and h11 sees no other."""
        requests = len(self.up.requests)
        answer = exchange(self.url, data)
        assert status_of(answer) == 200, answer
        assert self.up.errors == []
        assert len(self.up.requests) == requests + 1
        assert b"x-evil" not in self.up.raw.lower().replace(b"%0d%0ax-evil", b"")
        return self.up.requests[-1]


@contextmanager
def gateway(way: str, key: str) -> Iterator[Asked]:
    """A gateway that passes keys on, unless it has its own."""
    with raw_upstream() as up:
        # An address that only a proxy could know: the upstream is the proxy.
        url = "http://provider.invalid" if way == "aiohttp" else up.url
        made = read_config(
            providers=providers(url, key), retries=0, options={"proxy": up.url if way == "aiohttp" else "none"},
            engine="sdk" if way == "sdk" else None, access={"keys": "own" if key else "forward"},
            journal={"path": "memory"}, state={"path": "memory"}, serve={"pace": 0.0},
        )  # fmt: skip
        with Running(App(made, env={})) as running:
            yield Asked(running.url, up, way)


@pytest.fixture(scope="module")
def forwarding() -> Iterator[list[Asked]]:
    """Gateways that pass the keys of their clients on, by each way to a provider."""
    with ExitStack() as stack:
        yield [stack.enter_context(gateway(way, "")) for way in WAYS]


@pytest.fixture(scope="module")
def keyed() -> Iterator[list[Asked]]:
    """Gateways with keys of their own."""
    with ExitStack() as stack:
        yield [stack.enter_context(gateway(way, "sk-up")) for way in WAYS]


def chat(model: str) -> bytes:
    return msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "x"}]})


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", UNSAFE)
def test_a_key_in_the_query(forwarding: list[Asked], case: str) -> None:
    path = f"{CHAT}?key={quote_from_bytes(UNSAFE[case])}".encode()
    kind = "line break" if case in {"request", "header", "lf", "cr"} else "control character"
    place = UNSAFE[case].find(b"\r" if b"\r" in UNSAFE[case] else b"\n") + 1 or 2
    for one in forwarding:
        one.refused(request(path, chat("raw/m")), f"the key in ?key= has a {kind} at position {place}")
        # The next caller on the same gateway gets its own answer.
        seen = one.arrived(request(f"{CHAT}?key=VICTIM".encode(), chat("raw/m")))
        assert ("authorization", "Bearer VICTIM") in seen.headers
        vendor = any(name == "x-stainless-lang" for name, _ in seen.headers)
        assert vendor is (one.way == "sdk"), "the vendor's client asked, or did not"


@pytest.mark.parametrize("name", KEY_HEADERS)
def test_a_key_in_a_header(forwarding: list[Asked], name: bytes) -> None:
    """Control characters are refused by the server, what is not ASCII by the gateway."""
    prefix = b"Bearer " if name == b"authorization" else b""
    for one in forwarding:
        for case in ("cr", "nul", "escape", "del"):
            before = len(one.up.raw)
            answer = exchange(one.url, request(CHAT.encode(), chat("raw/m"), (name, prefix + UNSAFE[case])))
            assert status_of(answer) in {400, 0}, case
            assert len(one.up.raw) == before
        words = f"the key in the header {name.decode()} has a character outside ASCII at position 2"
        one.refused(request(CHAT.encode(), chat("raw/m"), (name, prefix + b"k\xe9y")), words)
        # Two headers in one are two headers: the second is not passed on.
        one.arrived(request(CHAT.encode(), chat("raw/m"), (name, prefix + UNSAFE["header"])))


def test_a_gateway_key_is_never_passed_on(forwarding: list[Asked]) -> None:
    """`x-penstock-key` is for the gateway. The key for the provider is the other one."""
    both = ((b"x-penstock-key", b"gw-secret"), (b"x-api-key", b"sk-mine"))
    for one in forwarding:
        seen = one.arrived(request(CHAT.encode(), chat("raw/m"), *both))
        assert ("authorization", "Bearer sk-mine") in seen.headers
        assert b"gw-secret" not in one.up.raw


def test_a_long_key(forwarding: list[Asked]) -> None:
    data = request(CHAT.encode(), chat("raw/m"), (b"x-api-key", b"k" * 20_000))
    for one in forwarding:
        one.refused(data, "the key in the header x-api-key is too long")


# ── models ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", UNSAFE)
def test_a_model_in_the_body_or_the_path(keyed: list[Asked], case: str) -> None:
    body = b'{"contents":[{"role":"user","parts":[{"text":"x"}]}]}'
    bad = UNSAFE[case]
    asked = [request(CHAT.encode(), chat(f"{name}/{bad.decode()}")) for name in ("raw", "gem", "based", "head")]
    paths = [f"/v1beta/models/{name}/{quote_from_bytes(bad)}:generateContent" for name in ("gem", "raw")]
    asked += [request(path.encode(), body) for path in paths]
    for one in keyed:
        for data in asked:
            one.refused(data, "model: the name has a", "at position")


def test_a_model_that_would_lead_elsewhere(keyed: list[Asked]) -> None:
    for one in keyed:
        for model in ("gem/../../evil", "gem/..", "based/../evil"):
            one.refused(request(CHAT.encode(), chat(model)), "cannot be part of an address")
        seen = one.arrived(request(CHAT.encode(), chat("gem/a?b#c d/e%2e")))
        assert seen.target.endswith("/v1beta/models/a%3Fb%23c%20d%2Fe%252e:generateContent")


def test_query_parameters_and_headers_of_the_client_stay_here(keyed: list[Asked]) -> None:
    path = f"{CHAT}?beta=true&x={quote_from_bytes(SMUGGLED)}&api-version=%0d%0ax-evil:1".encode()
    headers = ((b"x-request-id", b"evil-1"), (b"user-agent", b"evil-2"), (b"anthropic-beta", b"evil-3"))
    for one in keyed:
        seen = one.arrived(request(path, chat("raw/m"), *headers))
        assert b"evil" not in one.up.raw
        assert seen.target.endswith("/v1/chat/completions")


# ── whatever comes ────────────────────────────────────────────────────────────────────────────────

PIECES = st.sampled_from(
    ["\r\n", "\n", "\r", "\0", " ", "%0d%0a", "..", "/", "?", "#", "&", "é", "\u2028", "\x85", ":"]
)
HOSTILE = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=8).map("".join)
RAW = st.lists(st.one_of(st.sampled_from([b"\r\n", b"\n", b"\0", b"\t", b" ", b":", b","]), st.binary(max_size=5)))
DIRECT_AND_AIOHTTP = st.sampled_from([0, 1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    way=DIRECT_AND_AIOHTTP, key=HOSTILE, model=HOSTILE, provider=st.sampled_from(["raw", "gem", "ant", "based", "head"])
)
def test_any_key_and_model(forwarding: list[Asked], way: int, key: str, model: str, provider: str) -> None:
    """One request upstream for each that is answered with 200, none for any other."""
    url, up, _ = forwarding[way]
    before = len(up.requests)
    path = f"{CHAT}?key=k{quote_from_bytes(key.encode('utf-8', 'replace'))}".encode()
    answer = exchange(url, request(path, chat(f"{provider}/{model.encode('utf-8', 'replace').decode()}")))
    assert up.errors == []
    if status_of(answer) == 200:
        assert len(up.requests) == before + 1
        assert up.requests[-1].method == "POST"
        assert ".." not in up.requests[-1].target.split("/")
    else:
        assert 400 <= status_of(answer) < 500, answer
        assert len(up.requests) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(way=DIRECT_AND_AIOHTTP, raw=RAW, name=st.sampled_from(KEY_HEADERS))
def test_any_bytes_in_a_key_header(forwarding: list[Asked], way: int, raw: list[bytes], name: bytes) -> None:
    url, up, _ = forwarding[way]
    before = len(up.requests)
    value = b"Bearer k" + b"".join(raw) if name == b"authorization" else b"k" + b"".join(raw)
    # What the bytes make of the client's own request is for the server to say; no second request may come of one.
    answer = exchange(url, request(CHAT.encode(), chat("raw/m"), (name, value)))
    assert up.errors == []
    assert len(up.requests) == before + answer.count(b"HTTP/1.1 200 ")
