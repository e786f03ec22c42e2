"""Who is let in: by Host, by Origin, by key. Data first; every refusal says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError
from penstock.gateway.access import Access, Caller, Refused
from penstock.gateway.config import AccessTable, GatewayConfig, Key, Limit, Serve
from penstock.gateway.keys import PREFIX, KeyFile, digest, file_of, made

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = f"{PREFIX}one-11111111", f"{PREFIX}two-22222222"
KEYS = {"one": Key(hash=digest(ONE)), "two": Key(env="TWO", models=("fast", "lab/*"), tenant="team")}
ENV = {"TWO": TWO}


def scope(query: str = "", client: str | None = "127.0.0.1", method: str = "POST", **headers: str) -> dict[str, Any]:
    names = {name.replace("_", "-"): value for name, value in {"host": "127.0.0.1:4480", **headers}.items()}
    return {
        "type": "http", "method": method, "path": "/v1/messages", "query_string": query.encode(),
        "client": (client, 5000) if client else None,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in names.items() if value],
    }  # fmt: skip


def access(host: str = "127.0.0.1", keys: dict[str, Key] | None = None, **table: Any) -> Access:
    return Access(GatewayConfig(serve=Serve(host=host), keys=keys or {}, access=AccessTable(**table)), ENV)


def refusal(door: Access, given: dict[str, Any]) -> tuple[int, str]:
    with pytest.raises(Refused) as raised:
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
    assert access().admit(scope(host=host)).key == "anonymous"


@pytest.mark.parametrize("host", THEIRS)
def test_names_of_others(host: str) -> None:
    assert refusal(access(), scope(host=host)) == (403, "host_not_allowed")


def test_names_that_the_configuration_adds() -> None:
    door = access(hosts=["gw.example.com"])
    door.admit(scope(host="GW.example.com:443"))
    assert refusal(door, scope(host="evil.example"))[0] == 403
    access(hosts=["*"]).admit(scope(host="evil.example"))


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
    door = access(hosts=["gw.example.com"])
    door.admit(scope(host="gw.example.com", origin="https://gw.example.com"))


def test_a_browser_may_ask_whether_it_may_ask() -> None:
    door = access()
    wish = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key"}
    asked = scope(method="OPTIONS", origin="http://localhost:3000", **wish)
    said = dict(door.preflight(asked) or [])
    assert said[b"access-control-allow-headers"] == b"x-api-key"
    assert b"POST" in said[b"access-control-allow-methods"]
    assert door.preflight(scope(method="OPTIONS")) is None
    with pytest.raises(Refused):
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
    {}, {"x_api_key": ONE[:-1]}, {"x_api_key": ONE + "1"}, {"authorization": f"Basic {ONE}"}, {"x_api_key": digest(ONE)},
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
    caller.check("fast")
    caller.check("openai/gpt-5", "lab/large")  # what was asked for, and whom that means
    with pytest.raises(Refused, match="may not use the model 'openai/gpt-5'") as raised:
        caller.check("openai/gpt-5")
    assert raised.value.status == 403


def test_a_key_has_its_own_limits_or_those_of_all() -> None:
    own = Limit(requests=3)
    config = GatewayConfig(
        keys={"a": Key(hash=digest(ONE), limits=own), "b": Key(hash=digest(TWO))}, limits=Limit(tokens=9)
    )
    door = Access(config, {})
    assert door.admit(scope(x_api_key=ONE)).limits == own
    assert door.admit(scope(x_api_key=TWO)).limits == Limit(tokens=9)


def test_a_variable_that_is_not_set_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match=r"keys\.two\.env: the variable TWO is not set"):
        Access(GatewayConfig(keys=KEYS), {})


def test_without_keys_only_this_machine_is_served() -> None:
    everywhere: dict[str, Any] = {"host": "0.0.0.0"}  # noqa: S104
    access(**everywhere).admit(scope())
    access(**everywhere).admit(scope(client="::1"))
    access(**everywhere).admit(scope(client=None))  # a socket file, or no socket at all
    assert refusal(access(**everywhere), scope(client="10.0.0.9")) == (401, "invalid_api_key")
    assert refusal(access(), scope(x_forwarded_for="10.0.0.9"))[0] == 401  # a proxy on this machine is not this machine
    access(**everywhere, anonymous=True).admit(scope(client="10.0.0.9"))


@pytest.mark.parametrize(("metrics", "near", "far"), [("local", 200, 401), ("open", 200, 200), ("key", 401, 401)])
def test_who_sees_the_metrics(metrics: Any, near: int, far: int) -> None:
    door = access(host="0.0.0.0", keys=KEYS, metrics=metrics)  # noqa: S104

    def status(**given: Any) -> int:
        try:
            door.watch(scope(**given))
        except Refused as error:
            return error.status
        return 200

    assert (status(), status(client="10.0.0.9"), status(client="10.0.0.9", x_api_key=ONE)) == (near, far, 200)
    assert status(origin="https://evil.example") == 403


# ── the client's own key ──────────────────────────────────────────────────────────────────────────


def test_forward_passes_the_clients_own_key_on() -> None:
    door = access()
    door.reload(GatewayConfig(access=AccessTable(keys="forward"), serve=Serve(host="0.0.0.0")))  # noqa: S104
    caller = door.admit(scope(client="10.0.0.9", x_api_key="sk-mine"))
    assert (caller.forward, caller.secret) == ({"x-api-key": "sk-mine"}, "sk-mine")
    other = door.admit(scope(client="10.0.0.9", authorization="Bearer sk-other"))
    assert other.forward == {"authorization": "Bearer sk-other"}
    assert caller.tenant != other.tenant  # nobody sees another's state
    assert "sk-mine" not in caller.tenant + repr(caller)
    assert refusal(door, scope(client="10.0.0.9"))[0] == 401  # who brings no key is a stranger


def test_a_gateway_key_is_never_forwarded() -> None:
    config = GatewayConfig(keys=KEYS, access=AccessTable(keys="forward"))
    caller = Access(config, ENV).admit(scope(x_penstock_key=ONE, authorization="Bearer sk-mine"))
    assert (caller.key, caller.forward) == ("one", {"authorization": "Bearer sk-mine"})
    assert Access(config, ENV).admit(scope(x_api_key=ONE)).forward == {}


def test_own_keys_are_not_forwarded_unless_said() -> None:
    assert access().admit(scope(x_api_key="sk-mine")) == Caller(sees="all")


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def test_keys_of_the_file_open_and_close_a_running_gateway(tmp_path: Path) -> None:
    config = GatewayConfig(data=tmp_path)
    door = Access(config, {})
    door._ring._look = 0.0  # as if a second had passed
    file = file_of(config)
    assert file is not None
    secret = made()
    file.add("laptop", Key(hash=digest(secret)))
    assert secret not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    assert door.admit(scope(x_api_key=secret)).key == "laptop"
    assert refusal(door, scope())[0] == 401
    door._ring._look = 0.0
    file.revoke("laptop")
    assert door.admit(scope()).key == "anonymous"


def test_a_file_that_breaks_locks_nobody_out_and_lets_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = GatewayConfig(data=tmp_path)
    (tmp_path / "keys.json").write_text("{")
    with pytest.raises(InputError, match=r"keys\.json"):
        Access(config, {})
    (tmp_path / "keys.json").write_text(f'{{"a": {{"hash": "{digest(ONE)}"}}}}')
    door = Access(config, {})
    (tmp_path / "keys.json").write_text("{")
    door._ring._look = 0.0
    assert door.admit(scope(x_api_key=ONE)).key == "a"
    assert refusal(door, scope())[0] == 401
    assert "those known stay" in caplog.text


def test_the_file_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add("a", Key(hash=digest("x")))
    with pytest.raises(InputError, match="there is a key 'a' already"):
        file.add("a", Key(hash=digest("y")))
    with pytest.raises(InputError, match="there is no key 'b'"):
        file.revoke("b")
    file.path.write_text("{")
    with pytest.raises(InputError, match=r"keys\.json"):
        file.read()


def test_made_keys_are_all_different() -> None:
    assert len({made() for _ in range(100)}) == 100
    assert made().startswith(PREFIX)
