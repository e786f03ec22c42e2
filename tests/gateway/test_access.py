"""Who is let in: by Host, by Origin, by key. Data first; every refusal says what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError
from penstock.testing import Reply, play, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.each_case import each
from tests.support.gateway import hash_key
from tests.support.key_file import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest

ONE, TWO = f"{PREFIX}one-11111111", f"{PREFIX}two-22222222"
KEYS = {"one": {"hash": hash_key(ONE)}, "two": {"env": "TWO", "models": ["fast", "lab/*"], "tenant": "team"}}
ENV = {"TWO": TWO}
HOST_REFUSED, ORIGIN_REFUSED, KEY_REFUSED = (
    (403, "host_not_allowed"), (403, "origin_not_allowed"), (401, "invalid_api_key"),
)  # fmt: skip
EVERYWHERE = {"pace": 0.0, "host": "0.0.0.0"}  # noqa: S104


def door(*, keys: bool = False, serve: dict[str, Any] | None = None, **access: Any) -> AsgiGateway:
    tables: dict[str, Any] = {"access": access, "keys": KEYS if keys else {}} | ({"serve": serve} if serve else {})
    return AsgiGateway(env=ENV, **tables)


@pytest.fixture(scope="module")
def plain() -> Iterator[AsgiGateway]:
    """A gateway with nothing configured."""
    with door() as made:
        yield made


@pytest.fixture(scope="module")
def keyed() -> Iterator[AsgiGateway]:
    with door(keys=True) as made:
        yield made


# ── Host ──────────────────────────────────────────────────────────────────────────────────────────

OURS = ["127.0.0.1:4480", "localhost", "LOCALHOST:1", "[::1]:4480", "127.9.9.9", "app.localhost", "gateway:80", "",
        "localhost."]  # fmt: skip
THEIRS = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4480", "192.168.1.5",
          "[2001:db8::1]:4480", "xn--a.example"]  # fmt: skip


def test_names_of_this_machine_are_answered_to_and_those_of_others_are_not(
    plain: AsgiGateway, keyed: AsgiGateway
) -> None:
    assert {host: keyed.status(host=host, x_api_key=ONE) for host in OURS} == dict.fromkeys(OURS, 200)
    assert {host: plain.refusal(host=host) for host in THEIRS} == dict.fromkeys(THEIRS, HOST_REFUSED)


def test_names_that_the_configuration_adds() -> None:
    with door(keys=True, hosts=["gw.example.com"]) as named, door(keys=True, hosts=["*"]) as any_name:
        assert named.status(host="GW.example.com:443", x_api_key=ONE) == 200
        assert named.refusal(host="evil.example") == HOST_REFUSED
        assert any_name.status(host="evil.example", x_api_key=ONE) == 200


def test_a_server_of_others_answers_to_addresses_and_not_to_names() -> None:
    with door(keys=True, serve=EVERYWHERE) as open_to_all:
        assert open_to_all.status(host="192.168.1.5:4480", client="192.168.1.9", x_api_key=ONE) == 200
        assert open_to_all.refusal(host="evil.example", x_api_key=ONE) == HOST_REFUSED


# ── Origin ────────────────────────────────────────────────────────────────────────────────────────

PAGES = ["http://localhost:3000", "http://127.0.0.1:4480", "https://[::1]", "http://127.0.0.1:1",
         "vscode-webview://1a2b"]  # fmt: skip
STRANGERS = ["https://evil.example", "null", "http://localhost.evil.example", "https://", "http://[", "file://"]


def test_pages_of_this_machine_may_ask_and_read_the_answer_and_others_may_not(plain: AsgiGateway) -> None:
    for origin in PAGES:
        reply = plain.ask(origin=origin)
        assert (reply.status_code, reply.headers.get("access-control-allow-origin")) == (200, origin)
        assert (reply.headers["vary"], reply.headers["access-control-expose-headers"]) == ("origin", "*")
    for origin in STRANGERS:
        assert plain.refusal(origin=origin) == ORIGIN_REFUSED, origin
        assert "access-control-allow-origin" not in plain.ask(origin=origin).headers, origin


def test_a_page_that_hides_its_origin_may_not_either(plain: AsgiGateway) -> None:
    assert plain.refusal(sec_fetch_site="cross-site", sec_fetch_mode="no-cors") == ORIGIN_REFUSED
    assert plain.status(sec_fetch_site="cross-site", sec_fetch_mode="navigate") == 200


def test_pages_that_the_configuration_adds_and_those_of_the_gateway_itself() -> None:
    with door(origins=["https://chat.example.com/"]) as added:
        assert added.status(origin="https://chat.example.com") == 200
        assert added.refusal(origin="https://chat.example.com.evil.example") == ORIGIN_REFUSED
    with door(keys=True, hosts=["gw.example.com"]) as named:
        assert named.status(host="gw.example.com", origin="https://gw.example.com", x_api_key=ONE) == 200


def test_a_browser_may_ask_whether_it_may_ask(plain: AsgiGateway) -> None:
    wish: Any = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key"}
    said = plain.ask(method="OPTIONS", origin="http://localhost:3000", **wish)
    assert said.status_code < 300
    assert said.headers["access-control-allow-headers"] == "x-api-key"
    assert "POST" in said.headers["access-control-allow-methods"]
    assert "access-control-allow-private-network" not in said.headers
    assert "access-control-allow-methods" not in plain.ask(method="OPTIONS").headers, "no preflight"
    assert plain.refusal(method="OPTIONS", origin="https://evil.example", **wish) == ORIGIN_REFUSED
    near = plain.ask(
        method="OPTIONS", origin="http://localhost:3000", access_control_request_private_network="true", **wish
    )
    assert near.headers["access-control-allow-private-network"] == "true"


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────

CHAT = {"model": "replay/text", "messages": [{"role": "user", "content": "Hi"}]}
WAYS: list[dict[str, Any]] = [
    {"authorization": f"Bearer {ONE}"}, {"authorization": f"bearer   {ONE}"}, {"x_api_key": ONE}, {"api_key": ONE},
    {"x_goog_api_key": ONE}, {"x_penstock_key": ONE}, {"path": f"/v1/chat/completions?beta=true&key={ONE}"},
    {"authorization": "Bearer something-else", "x_api_key": ONE},
]  # fmt: skip
NOT: list[dict[str, Any]] = [
    {}, {"x_api_key": ONE[:-1]}, {"x_api_key": ONE + "1"}, {"authorization": f"Basic {ONE}"}, {"x_api_key": hash_key(ONE)},
    {"path": "/v1/models?key="}, {"x_api_key": "é" * 9},
]  # fmt: skip


@each("way", WAYS)
def test_a_key_is_found_wherever_clients_put_it(keyed: AsgiGateway, way: dict[str, Any]) -> None:
    assert keyed.status(**{"path": "/v1/chat/completions", "body": CHAT, "client": "10.0.0.9", **way}) == 200
    row = keyed.rows()[0]
    assert (row.key, row.tenant) == ("one", "one")


@each("way", NOT)
def test_without_the_right_key_nobody_comes_in(keyed: AsgiGateway, way: dict[str, Any]) -> None:
    assert keyed.refusal(**way) == KEY_REFUSED


def test_a_key_may_use_what_it_is_said_to() -> None:
    lab = {"base_url": "http://127.0.0.1:9/v1", "key": "sk-none-000000"}
    with AsgiGateway(env=ENV, keys=KEYS, aliases={"fast": "replay/text"}, providers={"lab": lab}, retries=0) as made:
        for model, status in (("fast", 200), ("lab/large", 502), ("replay/text", 403)):
            reply = made.ask("/v1/chat/completions", {**CHAT, "model": model}, x_api_key=TWO)
            assert reply.status_code == status, (model, reply.text)
            assert ("model_not_allowed" in reply.text) is (status == 403)
            assert ("may not use the model 'replay/text'" in reply.text) is (status == 403)
        assert {(row.key, row.tenant) for row in made.rows()} == {("two", "team")}


def test_a_key_has_its_own_limits_or_those_of_all() -> None:
    keys = {"a": {"hash": hash_key(ONE), "limits": {"requests": 3}}, "b": {"hash": hash_key(TWO)}}
    with AsgiGateway(keys=keys, limits={"requests": 9}) as made:
        for key, most in ((ONE, "3"), (TWO, "9")):
            reply = made.ask("/v1/chat/completions", CHAT, x_api_key=key)
            assert reply.headers["x-ratelimit-limit-requests"] == most


def test_a_variable_that_is_not_set_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match=r"keys\.two\.env: the variable TWO is not set"):
        AsgiGateway(keys=KEYS)


def test_without_keys_only_this_machine_is_served() -> None:
    with door(serve=EVERYWHERE, trusted_proxies=[]) as made:
        for client in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            assert made.status(client=client) == 200
        assert made.refusal(client="10.0.0.9") == KEY_REFUSED
    with door(serve=EVERYWHERE, trusted_proxies=[], anonymous=True) as made:
        assert made.status(client="10.0.0.9") == 200


# ── proxies ───────────────────────────────────────────────────────────────────────────────────────

PROXIED: list[dict[str, Any]] = [
    {"x_forwarded_for": "10.0.0.9"}, {"x_forwarded_host": "gw.example.com"}, {"x_forwarded_proto": "https"},
    {"forwarded": "for=10.0.0.9"}, {"via": "1.1 proxy"}, {"x_real_ip": "10.0.0.9"}, {"cf_connecting_ip": "10.0.0.9"},
    {"host": "gw.example.com"}, {"host": "gateway"}, {"host": ""}, {"client": None},
    {"version": "1.0"},  # so nginx asks, by default, with no header that would tell
]  # fmt: skip


def test_a_request_through_a_proxy_is_not_local() -> None:
    """The proxy connects from this machine for somebody who may be anywhere."""
    table: dict[str, Any] = {"hosts": ["gw.example.com"], "trusted_proxies": []}
    with door(**table) as made, door(keys=True, **table) as locked:
        assert (made.status(), locked.status("/metrics")) == (200, 200)
        for sign in PROXIED:
            assert made.refusal(**sign) == KEY_REFUSED, sign
            assert locked.refusal("/metrics", **sign) == KEY_REFUSED, sign


def test_nobody_is_local_behind_a_declared_proxy() -> None:
    with door(proxy=True) as made, door(proxy=True, keys=True) as locked:
        assert made.refusal() == made.refusal("/metrics") == KEY_REFUSED
        assert locked.status(x_api_key=ONE) == 200


@pytest.mark.parametrize(("metrics", "near", "far"), [("local", 200, 401), ("open", 200, 200), ("key", 401, 401)])
def test_who_sees_the_metrics(metrics: str, near: int, far: int) -> None:
    with door(keys=True, serve=EVERYWHERE, metrics=metrics, trusted_proxies=[]) as made:
        asked: list[dict[str, Any]] = [{}, {"client": "10.0.0.9"}, {"client": "10.0.0.9", "x_api_key": ONE}]
        assert [made.status("/metrics", **more) for more in asked] == [near, far, 200]
        assert made.status("/metrics", origin="https://evil.example") == 403


@each("keys, table", [(True, {}), (False, {"serve": {"host": "192.0.2.1"}}), (False, {"hosts": ["gw.example.com"]})])
def test_with_keys_or_a_public_name_nobody_is_local_until_the_proxies_are_named(
    *, keys: bool, table: dict[str, Any]
) -> None:
    """A proxy on this machine may leave no sign of the client."""
    proxies: list[tuple[dict[str, Any], int]] = [
        ({}, 401), ({"trusted_proxies": []}, 200), ({"trusted_proxies": ["10.0.0.0/8"]}, 200),
        ({"trusted_proxies": ["127.0.0.0/8"]}, 401), ({"trusted_proxies": [], "proxy": True}, 401),
    ]  # fmt: skip
    for more, status in proxies:
        with door(keys=keys, **table, **more) as made:
            assert made.status("/metrics") == status, more


def test_without_either_a_local_program_sees_the_metrics(plain: AsgiGateway) -> None:
    assert plain.status("/metrics") == 200


FORWARDED: list[tuple[str, dict[str, str], str]] = [
    ("192.0.2.7", {"x_forwarded_for": "203.0.113.5"}, "192.0.2.7"),  # anybody may write that
    ("10.0.0.1", {}, "10.0.0.1"),
    ("10.0.0.1", {"x_forwarded_for": "203.0.113.5"}, "203.0.113.5"),
    ("::ffff:10.0.0.1", {"x_forwarded_for": "203.0.113.5"}, "203.0.113.5"),
    ("10.0.0.1", {"x_forwarded_for": "1.1.1.1, 203.0.113.5, 10.0.0.2"}, "203.0.113.5"),  # the client wrote the first
    ("10.0.0.1", {"x_forwarded_for": "203.0.113.5:4711"}, "203.0.113.5"),
    ("10.0.0.1", {"x_forwarded_for": "[2001:db8::1]:4711"}, "2001:db8::1"),
    ("10.0.0.1", {"x_forwarded_for": "203.0.113.5, unknown"}, "10.0.0.1"),
    ("10.0.0.1", {"x_forwarded_for": "10.0.0.9"}, "10.0.0.1"),
    ("10.0.0.1", {"x_forwarded_for": ", ,"}, "10.0.0.1"),
    ("10.0.0.1", {"forwarded": 'for=1.1.1.1, for="[2001:db8::1]:47";proto=https;by=10.0.0.1'}, "2001:db8::1"),
    ("10.0.0.1", {"forwarded": "proto=https;For=203.0.113.5"}, "203.0.113.5"),
    ("10.0.0.1", {"forwarded": "for=203.0.113.5", "x_forwarded_for": "203.0.113.5"}, "203.0.113.5"),
    ("10.0.0.1", {"forwarded": "for=1.1.1.1", "x_forwarded_for": "203.0.113.5"}, "10.0.0.1"),
    ("10.0.0.1", {"x_forwarded_for": "1.1.1.1," * 5000 + "203.0.113.5"}, "203.0.113.5"),
]


@pytest.mark.parametrize("proxies", [["10.0.0.0/8"], None], ids=["trusted", "none"])
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(proxies: list[str] | None) -> None:
    with AsgiGateway(log="json", access={"trusted_proxies": proxies}) as made:
        for peer, headers, _ in FORWARDED:
            made.ask("/healthz", client=peer, **headers)
        logged = [json.loads(line)["address"] for line in made.lines()]
    assert logged == [client if proxies else peer for peer, _, client in FORWARDED]


def test_a_client_behind_a_trusted_proxy_is_never_local(plain: AsgiGateway) -> None:
    with door(trusted_proxies=["127.0.0.1"]) as made:
        assert made.refusal() == made.refusal(x_forwarded_for="127.0.0.1") == KEY_REFUSED
    assert plain.status() == 200


# ── the client's own key ──────────────────────────────────────────────────────────────────────────


def test_whoever_brings_a_key_of_a_provider_has_a_state_of_its_own() -> None:
    with AsgiGateway(access={"keys": "forward"}, serve=EVERYWHERE) as made:
        turn = {"model": "replay/text", "input": "Hi."}
        mine: dict[str, Any] = {"client": "10.0.0.9", "x_api_key": "sk-mine-000001"}
        first = made.ask("/v1/responses", turn, **mine).json()["id"]
        more = {**turn, "previous_response_id": first}
        assert made.status("/v1/responses", more, **mine) == 200
        assert made.status("/v1/responses", more, client="10.0.0.9", authorization="Bearer sk-other-00001") == 400
        assert made.refusal(client="10.0.0.9") == KEY_REFUSED, "who brings no key is a stranger"
        rows = made.rows()
    assert len({row.tenant for row in rows if row.tenant}) == 2
    assert "sk-mine" not in repr(rows)


def test_the_key_arrives_as_the_provider_wants_it() -> None:
    """A key of the gateway is never forwarded; and that of the provider which the gateway has is not used."""

    def say(seen: ReceivedRequest) -> Reply:
        return Reply.of("anthropic" if seen.path.endswith("messages") else "openai-chat", play("text"), stream=False)

    key = "sk-mine-0001"
    wanted = {"openai": ("authorization", f"Bearer {key}"), "anthropic": ("x-api-key", key)}
    body = {**CHAT, "max_tokens": 9}
    with scripted(say) as up:
        providers = {f"up-{name}": {"base_url": f"{up.url}/v1", "like": name} for name in wanted}
        env = {"OPENAI_API_KEY": "sk-ours-00001", "ANTHROPIC_API_KEY": "sk-ours-00001", "TWO": TWO}
        table: dict[str, Any] = {"providers": providers, "access": {"keys": "forward"}, "retries": 0}
        ways: list[dict[str, Any]] = [{"x_api_key": key}, {"authorization": f"Bearer {key}"}, {"x_goog_api_key": key}]
        with AsgiGateway(env=env, **table) as made, AsgiGateway(env=env, keys=KEYS, **table) as locked:
            for provider, (header, value) in wanted.items():
                asked = {**body, "model": f"up-{provider}/m"}
                for gateway, more in ((made, {}), (locked, {"x_penstock_key": ONE})):
                    for way in ways:
                        assert gateway.status("/v1/messages", asked, **way, **more) == 200
                        assert up.requests[-1].headers.get(header) == value, way
                        assert ONE not in str(up.requests[-1].headers)
                assert "sk-ours-00001" not in "".join(str(seen.headers) for seen in up.requests)
                up.requests.clear()
                assert locked.status("/v1/messages", asked, x_api_key=ONE) == 200, "with the gateway's"
                assert ONE not in str(up.requests.pop().headers)
