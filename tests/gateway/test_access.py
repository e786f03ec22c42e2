"""Who is let in: by Host, by Origin, by key. Data first; every refusal says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.access import Access
from penstock._gateway.callers import Caller, Refusal
from penstock._gateway.keys import PREFIX
from penstock.errors import InputError
from penstock.gateway import GatewayConfig
from tests.support.gateway import hash_key

if TYPE_CHECKING:
    from penstock._gateway.config import Key

ONE, TWO = f"{PREFIX}one-11111111", f"{PREFIX}two-22222222"
KEYS = {"one": {"hash": hash_key(ONE)}, "two": {"env": "TWO", "models": ("fast", "lab/*"), "tenant": "team"}}
ENV = {"TWO": TWO}


def scope(query: str = "", client: str | None = "127.0.0.1", method: str = "POST", **headers: str) -> dict[str, Any]:
    names = {name.replace("_", "-"): value for name, value in {"host": "127.0.0.1:4480", **headers}.items()}
    return {
        "type": "http", "method": method, "path": "/v1/messages", "query_string": query.encode(),
        "client": (client, 5000) if client else None,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in names.items() if value],
    }  # fmt: skip


def access(host: str = "127.0.0.1", keys: dict[str, Key] | None = None, **table: Any) -> Access:
    return Access(GatewayConfig(serve={"host": host}, keys=keys or {}, access={**table}), ENV)


def refusal(door: Access, given: dict[str, Any]) -> tuple[int, str]:
    with pytest.raises(Refusal) as raised:
        door.admit(given)
    assert raised.value.fault.status == raised.value.status
    return raised.value.status, raised.value.fault.code


# ── Host ──────────────────────────────────────────────────────────────────────────────────────────

OURS = [
    "127.0.0.1:4480",
    "localhost",
    "LOCALHOST:1",
    "[::1]:4480",
    "127.9.9.9",
    "app.localhost",
    "gateway:80",
    "",
    "localhost.",
]
THEIRS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:4480",
    "192.168.1.5",
    "[2001:db8::1]:4480",
    "xn--a.example",
]


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine(host: str) -> None:
    assert access(keys=KEYS).admit(scope(host=host, x_api_key=ONE)).key == "one"


@pytest.mark.parametrize("host", THEIRS)
def test_names_of_others(host: str) -> None:
    assert refusal(access(), scope(host=host)) == (403, "host_not_allowed")


def test_names_that_the_configuration_adds() -> None:
    door = access(keys=KEYS, hosts=["gw.example.com"])
    door.admit(scope(host="GW.example.com:443", x_api_key=ONE))
    assert refusal(door, scope(host="evil.example"))[0] == 403
    access(keys=KEYS, hosts=["*"]).admit(scope(host="evil.example", x_api_key=ONE))


def test_a_server_of_others_answers_to_addresses_and_not_to_names() -> None:
    door = access(host="0.0.0.0", keys=KEYS)  # noqa: S104
    door.admit(scope(host="192.168.1.5:4480", client="192.168.1.9", x_api_key=ONE))
    assert refusal(door, scope(host="evil.example", x_api_key=ONE))[0] == 403


# ── Origin ────────────────────────────────────────────────────────────────────────────────────────

PAGES = [
    "http://localhost:3000",
    "http://127.0.0.1:4480",
    "https://[::1]",
    "http://127.0.0.1:1",
    "vscode-webview://1a2b",
]
STRANGERS = ["https://evil.example", "null", "http://localhost.evil.example", "https://", "http://[", "file://"]


@pytest.mark.parametrize("origin", PAGES)
def test_pages_of_this_machine_may_ask_and_read_the_answer(origin: str) -> None:
    door = access()
    door.admit(scope(origin=origin))
    assert (b"access-control-allow-origin", origin.encode()) in door.cors(scope(origin=origin))


@pytest.mark.parametrize("origin", STRANGERS)
def test_other_pages_may_not(origin: str) -> None:
    door = access()
    assert refusal(door, scope(origin=origin)) == (403, "origin_not_allowed")
    assert door.cors(scope(origin=origin)) == []


def test_a_page_that_hides_its_origin_may_not_either() -> None:
    given = scope(method="GET", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert refusal(access(), given) == (403, "origin_not_allowed")
    access().admit(scope(method="GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate"))


def test_pages_that_the_configuration_adds() -> None:
    door = access(origins=["https://chat.example.com/"])
    door.admit(scope(origin="https://chat.example.com"))
    assert refusal(door, scope(origin="https://chat.example.com.evil.example"))[0] == 403


def test_a_page_of_the_gateway_itself_is_no_stranger() -> None:
    door = access(keys=KEYS, hosts=["gw.example.com"])
    door.admit(scope(host="gw.example.com", origin="https://gw.example.com", x_api_key=ONE))


def test_a_browser_may_ask_whether_it_may_ask() -> None:
    door = access()
    wish = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key"}
    asked = scope(method="OPTIONS", origin="http://localhost:3000", **wish)
    said = dict(door.preflight(asked) or [])
    assert said[b"access-control-allow-headers"] == b"x-api-key"
    assert b"POST" in said[b"access-control-allow-methods"]
    assert door.preflight(scope(method="OPTIONS")) is None
    with pytest.raises(Refusal):
        door.preflight(scope(method="OPTIONS", origin="https://evil.example", **wish))
    near = door.preflight(
        {**asked, "headers": [*asked["headers"], (b"access-control-request-private-network", b"true")]}
    )
    assert dict(near or [])[b"access-control-allow-private-network"] == b"true"


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────

WAYS: list[dict[str, Any]] = [
    {"authorization": f"Bearer {ONE}"}, {"authorization": f"bearer   {ONE}"}, {"x_api_key": ONE}, {"api_key": ONE},
    {"x_goog_api_key": ONE}, {"x_penstock_key": ONE}, {"query": f"beta=true&key={ONE}"},
    {"authorization": "Bearer something-else", "x_api_key": ONE},
]  # fmt: skip
NOT: list[dict[str, Any]] = [
    {}, {"x_api_key": ONE[:-1]}, {"x_api_key": ONE + "1"}, {"authorization": f"Basic {ONE}"}, {"x_api_key": hash_key(ONE)},
    {"query": "key="}, {"x_api_key": "é" * 9},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids="+".join)
def test_a_key_is_found_wherever_clients_put_it(way: dict[str, Any]) -> None:
    caller = access(keys=KEYS).admit(scope(client="10.0.0.9", **way))
    assert (caller.key, caller.tenant, caller.forward) == ("one", "one", {})


@pytest.mark.parametrize("way", NOT, ids=lambda way: "+".join(way) or "none")
def test_without_the_right_key_nobody_comes_in(way: dict[str, Any]) -> None:
    assert refusal(access(keys=KEYS), scope(**way)) == (401, "invalid_api_key")


def test_a_key_may_use_what_it_is_said_to() -> None:
    caller = access(keys=KEYS).admit(scope(x_api_key=TWO))
    assert (caller.key, caller.tenant) == ("two", "team")
    caller.check_model("fast")
    caller.check_model("openai/gpt-5", "lab/large")  # what was asked for, and whom that means
    with pytest.raises(Refusal, match="may not use the model 'openai/gpt-5'") as raised:
        caller.check_model("openai/gpt-5")
    assert raised.value.status == 403


def test_a_key_has_its_own_limits_or_those_of_all() -> None:
    own = {"requests": 3}
    config = GatewayConfig(
        keys={"a": {"hash": hash_key(ONE), "limits": own}, "b": {"hash": hash_key(TWO)}}, limits={"tokens": 9}
    )
    door = Access(config, {})
    assert door.admit(scope(x_api_key=ONE)).limits == own
    assert door.admit(scope(x_api_key=TWO)).limits == {"tokens": 9}


def test_a_variable_that_is_not_set_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match=r"keys\.two\.env: the variable TWO is not set"):
        Access(GatewayConfig(keys=KEYS), {})


def test_without_keys_only_this_machine_is_served() -> None:
    everywhere: dict[str, Any] = {"host": "0.0.0.0", "trusted_proxies": ()}  # noqa: S104
    access(**everywhere).admit(scope())
    access(**everywhere).admit(scope(client="::1"))
    access(**everywhere).admit(scope(client="::ffff:127.0.0.1"))
    assert refusal(access(**everywhere), scope(client="10.0.0.9")) == (401, "invalid_api_key")
    access(**everywhere, anonymous=True).admit(scope(client="10.0.0.9"))


PROXIED: list[dict[str, Any]] = [
    {"x_forwarded_for": "10.0.0.9"}, {"x_forwarded_host": "gw.example.com"}, {"x_forwarded_proto": "https"},
    {"forwarded": "for=10.0.0.9"}, {"via": "1.1 proxy"}, {"x_real_ip": "10.0.0.9"}, {"cf_connecting_ip": "10.0.0.9"},
    {"host": "gw.example.com"}, {"host": "gateway"}, {"host": ""}, {"client": None},
]  # fmt: skip


@pytest.mark.parametrize("sign", PROXIED, ids=str)
def test_a_request_through_a_proxy_is_not_local(sign: dict[str, Any]) -> None:
    """The proxy connects from this machine for somebody who may be anywhere."""
    door = access(hosts=["gw.example.com"], trusted_proxies=())
    assert door.admit(scope()).sees == "all"
    assert refusal(door, scope(**sign)) == (401, "invalid_api_key")
    with pytest.raises(Refusal):
        access(keys=KEYS, hosts=["gw.example.com"], trusted_proxies=()).admit_metrics(scope(**sign))


def test_http_1_0_is_a_sign_of_a_proxy() -> None:
    """So nginx asks, by default, with no header that would tell."""
    assert refusal(access(), {**scope(), "http_version": "1.0"}) == (401, "invalid_api_key")
    assert access().admit({**scope(), "http_version": "1.1"}).sees == "all"


def test_nobody_is_local_behind_a_declared_proxy() -> None:
    door = access(proxy=True)
    assert refusal(door, scope()) == (401, "invalid_api_key")
    with pytest.raises(Refusal):
        door.admit_metrics(scope())
    assert access(proxy=True, keys=KEYS).admit(scope(x_api_key=ONE)).key == "one"


@pytest.mark.parametrize(("metrics", "near", "far"), [("local", 200, 401), ("open", 200, 200), ("key", 401, 401)])
def test_who_sees_the_metrics(metrics: Any, near: int, far: int) -> None:
    door = access(host="0.0.0.0", keys=KEYS, metrics=metrics, trusted_proxies=())  # noqa: S104

    def status(**given: Any) -> int:
        try:
            door.admit_metrics(scope(**given))
        except Refusal as error:
            return error.status
        return 200

    assert (status(), status(client="10.0.0.9"), status(client="10.0.0.9", x_api_key=ONE)) == (near, far, 200)
    assert status(origin="https://evil.example") == 403


# ── the client's own key ──────────────────────────────────────────────────────────────────────────


def test_forward_passes_the_clients_own_key_on() -> None:
    door = access()
    door.reload(GatewayConfig(access={"keys": "forward"}, serve={"host": "0.0.0.0"}))  # noqa: S104
    caller = door.admit(scope(client="10.0.0.9", x_api_key="sk-mine"))
    assert (caller.forward, caller.secret) == ({"x-api-key": "sk-mine"}, "sk-mine")
    other = door.admit(scope(client="10.0.0.9", authorization="Bearer sk-other"))
    assert other.forward == {"authorization": "Bearer sk-other"}
    assert caller.tenant != other.tenant  # nobody sees another's state
    assert "sk-mine" not in caller.tenant + repr(caller)
    assert refusal(door, scope(client="10.0.0.9"))[0] == 401  # who brings no key is a stranger


def test_a_gateway_key_is_never_forwarded() -> None:
    config = GatewayConfig(keys=KEYS, access={"keys": "forward"})
    caller = Access(config, ENV).admit(scope(x_penstock_key=ONE, authorization="Bearer sk-mine"))
    assert (caller.key, caller.forward) == ("one", {"authorization": "Bearer sk-mine"})
    assert Access(config, ENV).admit(scope(x_api_key=ONE)).forward == {}


def test_own_keys_are_not_forwarded_unless_said() -> None:
    assert access().admit(scope(x_api_key="sk-mine")) == Caller(sees="all")


# ── trusted proxies ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "table",
    [{"keys": KEYS}, {"host": "192.0.2.1"}, {"hosts": ["gw.example.com"]}],
    ids=["keys", "host", "name"],
)
def test_with_keys_or_a_public_name_nobody_is_local_until_the_proxies_are_named(table: dict[str, Any]) -> None:
    """A proxy on this machine may leave no sign of the client."""
    given = scope(method="GET")
    with pytest.raises(Refusal):
        access(**table).admit_metrics(given)
    access(**table, trusted_proxies=()).admit_metrics(given)
    access(**table, trusted_proxies=("10.0.0.0/8",)).admit_metrics(given)
    with pytest.raises(Refusal):
        access(**table, trusted_proxies=("127.0.0.0/8",)).admit_metrics(given)
    with pytest.raises(Refusal):
        access(**table, trusted_proxies=(), proxy=True).admit_metrics(given)
    access().admit_metrics(given)


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


@pytest.mark.parametrize(("peer", "headers", "client"), FORWARDED, ids=[str(i) for i in range(len(FORWARDED))])
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(
    peer: str, headers: dict[str, str], client: str
) -> None:
    door = access(keys=KEYS, trusted_proxies=("10.0.0.0/8",))
    assert door.client_address(scope(client=peer, **headers)) == client
    assert access(keys=KEYS).client_address(scope(client=peer, **headers)) == peer


def test_a_client_behind_a_trusted_proxy_is_never_local() -> None:
    door = access(trusted_proxies=("127.0.0.1",))
    assert refusal(door, scope()) == (401, "invalid_api_key")
    assert refusal(door, scope(x_forwarded_for="127.0.0.1")) == (401, "invalid_api_key")
    assert access(trusted_proxies=()).admit(scope()).sees == "all"
