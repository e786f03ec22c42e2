"""Custom providers: added, asked, listed, bound to their keys, and never metadata services."""

from __future__ import annotations

import json
import socket
import stat
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply, scripted
from tests.support.admin import (
    BAD,
    GOOD,
    PATH,
    SEER,
    USER,
    Admin,
    add_keys,
    bearer,
    lab,
    read_providers,
    running_lab,
    write_providers,
)
from tests.support.each_case import each
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Upstream

MAX_CUSTOM_PROVIDERS = 100


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    add_keys(tmp_path)
    with scripted(lab) as up:
        yield up


@pytest.fixture
def admin(tmp_path: Path, up: Upstream) -> Iterator[Admin]:
    with running_lab(tmp_path, up) as client:
        yield client


# ── add, use, change, remove ──────────────────────────────────────────────────────────────────────


def test_a_provider_is_added_used_tested_and_removed(admin: Admin, tmp_path: Path) -> None:
    made = admin.add(title="The Lab", base_url=f"{admin.up.url}/lab/v1/", like="vllm", key=f" {GOOD}\n")
    assert (made["custom"], made["title"], made["like"], made["models"]) == (True, "The Lab", "vllm", [])
    assert made["base_url"] == f"{admin.up.url}/lab/v1"
    assert (made["stored"], made["used"], made["ending"], made["problem"]) == (True, True, "cdef", "")
    assert made["origin"] == admin.up.url
    assert made == admin.row()
    assert admin.models() == {"lab/tide-1", "lab/tide-2"}
    assert admin.chat() == 200
    assert admin.sent_keys() == {GOOD}
    assert admin.ask("POST", "/admin/providers/lab/test")["message"] == "The Lab answers: 2 models."
    file = tmp_path / "custom-providers.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    admin.ask("DELETE", f"{PATH}/lab", status=204)
    assert (admin.row(), admin.models()) == ({}, set())
    assert admin.chat() in {400, 404}
    assert "lab" not in json.loads((tmp_path / "provider-keys.json").read_text())
    admin.ask("DELETE", f"{PATH}/lab", status=404)
    everything = json.dumps(made) + file.read_text() + (tmp_path / "keys.json.audit").read_text()
    assert GOOD[:12] not in everything


def test_changes_are_in_the_audit_log(admin: Admin) -> None:
    admin.add(key=GOOD)
    body = {"base_url": f"{admin.up.url}/open/v1", "title": "New", "models": ["tide-9"]}
    admin.ask("PUT", f"{PATH}/lab", json=body)
    admin.ask("DELETE", f"{PATH}/lab", status=204)
    rows = admin.ask("GET", "/admin/audit?limit=5")["data"]
    assert [row["action"] for row in rows] == [
        "provider.remove-key", "provider.remove", "provider.edit", "provider.add-key", "provider.add",
    ]  # fmt: skip
    assert {row["actor"] for row in rows} == {"key:root"}
    (added,), (edited,), (removed,) = (rows[place]["changes"] for place in (4, 2, 1))
    assert ("before" in added, edited["before"], "after" in removed) == (False, added["after"], False)
    assert edited["after"] == removed["before"]
    assert (edited["after"]["title"], edited["after"]["models"]) == ("New", ["tide-9"])
    assert GOOD[:12] not in json.dumps(rows)


def test_only_the_models_that_are_named_are_listed(admin: Admin) -> None:
    made = admin.add(models=["tide-7", "tide-7", "deep/tide"])
    assert made["models"] == ["tide-7", "deep/tide"]
    assert admin.models() == {"lab/tide-7", "lab/deep/tide"}
    admin.ask("PUT", f"{PATH}/lab", json={"base_url": made["base_url"]})
    assert admin.models() == {"lab/tide-1", "lab/tide-2"}


def test_a_provider_speaks_the_protocol_of_the_one_it_is_like(admin: Admin) -> None:
    admin.add(base_url=f"{admin.up.url}/anthropic", like="anthropic", models=["text"], check=False)
    admin.sent_keys()
    assert admin.chat("lab/text") == 200
    admin.ask("PUT", f"{PATH}/lab", json={"base_url": f"{admin.up.url}/openai-chat", "models": ["text"]})
    assert admin.chat("lab/text") == 200


def test_a_provider_without_a_list_answers_with_a_model_that_is_named(admin: Admin) -> None:
    url = f"{admin.up.url}/bare/v1"
    for like in ("openai-compatible", "anthropic"):
        refused = admin.add(400, base_url=url, like=like)["error"]
        assert refused["field"] == "models"
        assert "gives no list of models (404). If the address is right, name one of its models" in refused["message"]
    made = admin.add(base_url=url, models=["text"])
    assert made["models"] == ["text"]
    assert admin.ask("POST", "/admin/providers/lab/test")["message"].endswith("answers: text answered.")


def test_the_first_named_model_is_asked_whatever_the_provider_is_like(admin: Admin) -> None:
    """It has the facts of another provider, but not its models."""
    for like in ("openai-compatible", "gemini", "together", "fireworks"):
        admin.add(
            name=like[:3] + "-2", base_url=f"{admin.up.url}/bare/v1", like=like, models=["tide-1", "text"], check=False
        )
        tested = admin.ask("POST", f"/admin/providers/{like[:3]}-2/test", json={"ask_model": False})
        assert (tested["kind"], tested["model"]) == ("no-list", "tide-1"), like


def test_no_model_is_asked_for_a_test_that_does_not_want_it(admin: Admin) -> None:
    admin.add(base_url=f"{admin.up.url}/bare/v1", models=["text"])
    admin.up.requests.clear()
    tested = admin.ask("POST", "/admin/providers/lab/test", json={"ask_model": False})
    assert (tested["ok"], tested["kind"], tested["model"]) == (False, "no-list", "text")
    assert "lists no models (404). To test it, ask text for an answer of at most 16 tokens" in tested["message"]
    assert [seen.path for seen in admin.up.requests] == ["/bare/v1/models"]
    assert admin.ask("POST", "/admin/providers/lab/test", json={"ask_model": True})["ok"]
    admin.ask("POST", "/admin/providers/lab/test", status=400, json={"ask_model": "no"})
    admin.add(name="nameless", base_url=f"{admin.up.url}/bare/v1", like="anthropic", check=False)
    tested = admin.ask("POST", "/admin/providers/nameless/test")
    assert (tested["ok"], tested["kind"], tested["model"]) == (False, "no-list", "")
    assert "name one of its models" in tested["message"]


def test_the_whole_address_is_listed_without_its_secrets(tmp_path: Path, up: Upstream) -> None:
    accounts = {
        "deep": {"base_url": "https://Example.com:443/a/b/v1/"},
        "odd": {"base_url": "https://ann:secret-word@example.com/v1?token=secret-word"},
    }
    with running_lab(tmp_path, up, **accounts) as admin:
        assert admin.row("deep")["address"] == "https://example.com/a/b/v1"
        assert admin.row("odd")["address"] == "https://example.com/v1"
        assert admin.row("openai")["address"] == "https://api.openai.com/v1"
        assert admin.row("azure")["address"].startswith("https://{resource}.")
        admin.add()
        assert admin.row("lab")["address"] == f"{up.url}/open/v1"


def test_two_people_at_once(admin: Admin) -> None:
    made = admin.add()
    body = {"base_url": made["base_url"], "title": "mine"}
    stale = {"if-match": f'"{made["etag"]}"'}
    changed = admin.ask("PUT", f"{PATH}/lab", json={**body, "title": "theirs"}, headers=stale)
    assert changed["etag"] != made["etag"]
    admin.ask("PUT", f"{PATH}/lab", status=412, json=body, headers=stale)
    admin.ask("DELETE", f"{PATH}/lab", status=412, headers=stale)
    assert admin.row()["title"] == "theirs"
    admin.ask("DELETE", f"{PATH}/lab", status=204, headers={"if-match": f'"{changed["etag"]}"'})
    admin.ask("PUT", f"{PATH}/lab", status=404, json=body)


def test_a_turn_that_runs_is_finished_when_its_provider_is_removed(tmp_path: Path, up: Upstream) -> None:
    go = threading.Event()

    def held(seen: ReceivedRequest) -> Reply:
        if seen.body:
            assert go.wait(30)
        return lab(seen)

    up.script(held)
    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
        statuses: list[int] = []
        turn = threading.Thread(target=lambda: statuses.append(admin.chat("lab/text")))
        turn.start()
        until(lambda: any(seen.body for seen in up.requests))
        admin.ask("DELETE", f"{PATH}/lab", status=204)
        go.set()
        turn.join(30)
        assert statuses == [200]
        assert admin.chat("lab/text") in {400, 404}


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_never_sent_to_another_address(admin: Admin) -> None:
    with scripted(lab) as other:
        admin.add(key=GOOD)
        moved = admin.ask("PUT", f"{PATH}/lab", json={"base_url": f"{other.url}/open/v1"})
        assert (moved["origin"], moved["stored"], moved["has_key"]) == (other.url, False, False)
        assert admin.chat() == 200
        assert {seen.headers.get("authorization", "") for seen in other.requests} == {""}
        back = admin.ask("PUT", f"{PATH}/lab", json={"base_url": f"{admin.up.url}/open/v1"})
        assert not back["has_key"]  # it was removed with the address


def test_a_stored_key_for_another_address_is_not_used_by_a_provider_of_its_name(admin: Admin, tmp_path: Path) -> None:
    row = {"lab": {"place": "file", "id": "1", "key": BAD, "origin": "https://elsewhere.example"}}
    (tmp_path / "provider-keys.json").write_text(json.dumps(row))
    admin.add()
    until(lambda: "is for https://elsewhere.example, so it is not sent to" in admin.row()["problem"])
    assert (admin.row()["has_key"], admin.row()["stored"]) == (False, True)
    assert admin.chat() == 200
    assert BAD not in admin.sent_keys()
    admin.ask("DELETE", f"{PATH}/lab", status=204)
    assert "lab" in json.loads((tmp_path / "provider-keys.json").read_text())  # it is not this provider's


def test_the_stored_key_stays_with_the_address(admin: Admin) -> None:
    admin.add(base_url=f"{admin.up.url}/lab/v1", key=GOOD)
    changed = admin.ask("PUT", f"{PATH}/lab", json={"base_url": f"{admin.up.url}/lab/v2", "title": "New"})
    assert (changed["used"], changed["title"]) == (True, "New")
    admin.ask("DELETE", "/admin/providers/lab", status=204)  # the key alone
    left = admin.row()
    assert (left["custom"], left["has_key"]) == (True, False)
    error = admin.ask("PUT", f"{PATH}/lab", status=400, json={"base_url": f"{admin.up.url}/lab/v1"})["error"]
    assert (error["field"], error["message"]) == (
        "key",
        "key: lab asks for a key: give one, or check the one that is stored",
    )
    assert admin.ask("POST", "/admin/providers", status=201, json={"name": "lab", "key": GOOD})["used"]


def test_nothing_is_stored_if_the_provider_does_not_answer_or_refuses(admin: Admin, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        for field, more in (("base_url", {"base_url": nobody}),
                            ("key", {"base_url": f"{admin.up.url}/lab/v1", "key": BAD})):  # fmt: skip
            error = admin.add(400, **more)["error"]
            assert error["field"] == field
            assert BAD not in error["message"]
        assert not (tmp_path / "custom-providers.json").exists()
        assert not (tmp_path / "provider-keys.json").exists()
        made = admin.add(base_url=nobody, check=False)
        tested = admin.ask("POST", "/admin/providers/lab/test")
    assert (made["custom"], tested["ok"]) == (True, False)


def test_a_key_that_cannot_be_stored_leaves_no_provider(admin: Admin, tmp_path: Path) -> None:
    (tmp_path / "provider-keys.json").write_text("damaged")
    error = admin.add(400, key=GOOD)["error"]
    assert "provider-keys.json" in error["message"]
    assert read_providers(tmp_path) == {}
    admin.add()
    before = read_providers(tmp_path)
    body = {"base_url": f"{admin.up.url}/open/v2", "key": GOOD}
    assert "provider-keys.json" in admin.ask("PUT", f"{PATH}/lab", status=400, json=body)["error"]["message"]
    assert "provider-keys.json" in admin.ask("GET", "/admin/providers")["error"]
    assert read_providers(tmp_path) == before
    admin.ask("DELETE", f"{PATH}/lab", status=204)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@each(
    "more, status, field, words",
    [
        ({"name": "Lab"}, 400, "name", "expected 1 to 64 lower-case letters"),
        ({"name": "../lab"}, 400, "name", "expected 1 to 64"), ({"name": "a" * 65}, 400, "name", "expected 1 to 64"),
        ({"name": "openai"}, 400, "name", "is OpenAI, which penstock knows: choose another name"),
        ({"name": "vertex"}, 400, "name", "which penstock knows"), ({"name": "replay"}, 400, "name", "penstock knows"),
        ({"name": "ollama"}, 400, "name", "penstock knows"),
        ({"name": "anthropic-2", "like": "nobody"}, 400, "like", "no provider"),
        ({"like": "bedrock"}, 400, "like", "Amazon Bedrock needs more settings: add it in penstock.toml"),
        ({"like": "replay"}, 400, "like", "needs more settings"), ({"like": 7}, 400, "like", "expected a text, found a number"),
        ({"base_url": ""}, 400, "base_url", "does not begin with http"),
        ({"base_url": "ftp://host/v1"}, 400, "base_url", "does not begin with http"),
        ({"base_url": "file:///etc/passwd"}, 400, "base_url", "does not begin with http"),
        ({"base_url": "http://user:pw@host/v1"}, 400, "base_url", "user name or password; leave them out"),
        ({"base_url": "http://host/v1?key=k"}, 400, "base_url", "has a query"),
        ({"base_url": "http://host/v1#a"}, 400, "base_url", "fragment"),
        ({"base_url": "http://host/{region}"}, 400, "base_url", "setting in braces"),
        ({"base_url": "http://"}, 400, "base_url", "no valid host"),
        ({"base_url": "http://ho st/"}, 400, "base_url", "space"),
        ({"base_url": "http://host:99999/"}, 400, "base_url", "port"),
        ({"base_url": "http://a\nb/"}, 400, "base_url", "line break"),
        ({"base_url": f"http://host/{'v' * 2_000}"}, 400, "base_url", "at most 2000 characters"),
        ({"title": "a\nb"}, 400, "title", "line break"), ({"title": "t" * 101}, 400, "title", "too long"),
        ({"models": ["a", " b"]}, 400, "models", "begins or ends with a space"),
        ({"models": [""]}, 400, "models", "is empty"), ({"models": "a"}, 400, "models", "expected a list, found a text"),
        ({"models": [str(one) for one in range(501)]}, 400, "models", "at most 500, found 501"),
        ({"key": "a\nb"}, 400, "key", "line break"), ({"x": 1}, 400, "", "x: no such field"),
        ({"check": "no"}, 400, "check", "expected bool"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(admin: Admin, more: dict[str, Any], status: int, field: str, words: str) -> None:
    error = admin.add(status, **more)["error"]
    assert (error["field"], words in error["message"]) == (field, True), error
    assert not admin.up.requests
    assert admin.row() == {}


REFUSED = """http://169.254.169.254/latest http://169.254.0.1 http://[fe80::1]/v1 http://[fe80::1%25eth0]/v1
http://2852039166/ http://0xa9fea9fe/ http://0251.0376.0251.0376/ http://169.254.43518/ http://169.16689662/
http://[::ffff:169.254.169.254]/ http://[::ffff:a9fe:a9fe]/ http://[64:ff9b::a9fe:a9fe]/ http://[2002:a9fe:a9fe::1]/
http://[fd00:ec2::254]/ http://100.100.100.200/ http://168.63.129.16/ http://192.0.0.192/ http://0.0.0.0:8000/
http://[::]:8000/ http://224.0.0.1/ http://metadata.google.internal/ http://METADATA.google.internal./
http://metadata/ http://metadata.goog/ http://x.metadata.google.internal/ http://instance-data/
http://instance-data.ec2.internal/ http://169.254.169%2e254/ http://①69.254.169.254/ http://169。254。169。254/""".split()

# The metadata services of clouds over IPv6, and an IPv4 address inside an IPv6 address in every form.
REFUSED_IPV6 = """fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1 fd00:100::100:200
::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1:a9:fe:a9fe::
64:ff9b:1:0:a9:fea9:fe00:0 64:ff9b:1::169.254.169.254 64:ff9b:1:7::168.63.129.16 2002:6464:64c8::1
2001:0:4136:e378:8000:63bf:5601:5601""".split()
USABLE_IPV6 = """::1 fd00::1 fd00:ec3::1 ::ffff:127.0.0.1 ::ffff:0:10.0.0.5 64:ff9b::10.0.0.5 64:ff9b:1::10.0.0.5
64:ff9b:1:a00:0:500:: 2001:db8::1""".split()


def test_metadata_services_and_link_local_addresses_are_refused(admin: Admin) -> None:
    addresses = REFUSED + [f"http://[{address}]:80/v1" for address in REFUSED_IPV6]
    for url in addresses:
        assert admin.add(400, base_url=url, check=False)["error"]["field"] == "base_url", url
    assert admin.row() == {}


def test_other_ipv6_addresses_may_be_used(admin: Admin) -> None:
    for number, address in enumerate(USABLE_IPV6):
        made = admin.add(name=f"lab-{number}", base_url=f"http://[{address}]:8000/v1", check=False)
        assert made["problem"] == "", address


def test_a_name_that_leads_to_a_refused_address_is_refused(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    known = socket.getaddrinfo
    leads = {"value": "169.254.169.254"}

    def resolve(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        return known(leads["value"] if host == "rebound.example" else host, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for address in ("169.254.169.254", "fe80::1", "::ffff:169.254.169.254", *REFUSED_IPV6):
        leads["value"] = address
        error = admin.add(400, base_url="http://rebound.example/v1", check=False)["error"]
        assert error["field"] == "base_url", address
        assert "base_url: rebound.example leads to" in error["message"], address
    leads["value"] = "127.0.0.1"
    admin.add(base_url="http://rebound.example:1/v1", check=False)
    leads["value"] = "169.254.169.254"  # the name means something else now
    tested = admin.ask("POST", "/admin/providers/lab/test")
    assert (tested["ok"], tested["kind"]) == (False, "config")
    assert tested["message"].startswith("rebound.example leads to 169.254.169.254, which is link-local")


EXPOSED = {
    "http://8.8.8.8:1/v1": True, "http://llm.example.com/v1": True, "https://llm.example.com/v1": False,
    "http://127.0.0.1:8000": False, "http://[::1]:8000": False, "http://10.1.2.3": False,
    "http://192.168.0.7": False, "http://gpu-box:8000": False, "http://gpu.local": False,
    "http://a.localhost": False, "http://[fd00::1]": False, "http://vllm.prod.internal": False,
}  # fmt: skip


def test_an_unencrypted_way_through_the_internet_is_pointed_out(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the answer, and in the list."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])  # no name is looked up
    found = {}
    for number, url in enumerate(EXPOSED):
        made = admin.add(name=f"lab-{number}", base_url=url, key=GOOD, check=False)
        assert admin.row(f"lab-{number}")["warning"] == made["warning"]
        found[url] = "unencrypted" in made["warning"]
    assert found == EXPOSED


def test_the_list_says_what_a_provider_can_be_like(admin: Admin) -> None:
    templates = admin.ask("GET", "/admin/providers")["templates"]
    assert {"openai-compatible", "anthropic", "gemini", "ollama", "vllm"} <= {row["name"] for row in templates}
    for number, row in enumerate(templates):  # all of them can be stored
        made = admin.add(name=f"lab-{number}", like=row["name"], check=False)
        assert (made["like"], made["problem"]) == (row["name"], "")


def test_as_many_as_are_kept(admin: Admin, tmp_path: Path) -> None:
    row = {"base_url": "http://127.0.0.1:1", "like": "vllm"}
    write_providers(tmp_path, {f"lab-{number}": row for number in range(MAX_CUSTOM_PROVIDERS)})
    assert f"at most {MAX_CUSTOM_PROVIDERS} custom providers" in admin.add(409)["error"]["message"]


# ── who may ───────────────────────────────────────────────────────────────────────────────────────


def test_roles_and_pages_of_other_sites(admin: Admin) -> None:
    admin.add()
    asks = (("POST", PATH, admin.body(name="two")), ("PUT", f"{PATH}/lab", {"base_url": admin.up.url}),
            ("DELETE", f"{PATH}/lab", None))  # fmt: skip
    for method, path, body in asks:
        for key, status in ((SEER, 403), (USER, 403), ("", 401)):
            headers = bearer(key) if key else {"authorization": ""}
            assert admin.http.request(method, path, headers=headers, json=body).status_code == status
        for headers in ({"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:1"},
                        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
                        {"host": "evil.example"}):  # fmt: skip
            assert admin.http.request(method, path, headers=headers, json=body).status_code == 403
    rows = admin.http.get("/admin/providers", headers=bearer(SEER)).json()["data"]
    assert [row["name"] for row in rows if row["custom"]] == ["lab"]
