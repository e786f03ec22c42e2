"""The admin API over real sockets: keys, teams, roles, pages of browsers, the audit log, and its own description."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.admin import ROOT, SEER, USER, Admin, add_keys, bearer
from tests.support.client_requests import ASKING, get, post
from tests.support.gateway import LIMIT, answer, gateway, hash_key
from tests.support.key_file import KeyFile, key_file
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Reply
    from tests.support.gateway import Running


@pytest.fixture
def running(tmp_path: Path) -> Generator[Running]:
    add_keys(tmp_path)
    configured = {"fixed": {"hash": hash_key("pk-penstock-fixed"), "team": "lab"}}
    with gateway(answer, data=tmp_path, keys=configured, teams={"lab": {}}) as (running, _):
        yield running


@pytest.fixture
def admin(running: Running) -> Generator[Admin]:
    client = Admin(running)
    with closing(client.http):
        yield client


def use(running: Running, key: str, model: str = "openai-chat/text") -> int:
    path, body = ASKING["openai-chat"](model, False)
    return post(running.url + path, json=body, headers=bearer(key)).status_code


# ── the whole of it ───────────────────────────────────────────────────────────────────────────────


def test_every_route_is_described_and_answers_as_described(admin: Admin) -> None:
    made = admin.ask(
        "POST", "/admin/keys", status=201, json={"name": "ci", "limits": {"day_requests": 500}, "note": "a build"}
    )
    assert made["secret"].startswith("pk-penstock-")
    assert use(admin.running, made["secret"]) == 200
    shown = admin.ask("GET", "/admin/keys/ci")
    assert shown == {name: value for name, value in made.items() if name != "secret"}  # the secret is shown once
    assert made["secret"] not in json.dumps(admin.ask("GET", "/admin/keys"))
    admin.ask("POST", "/admin/teams", status=201, json={"name": "research", "models": ["openai-chat/*"]})
    changed = admin.ask("PATCH", "/admin/keys/ci", json={"team": "research", "limits": {"requests": 60}})
    assert (changed["team"], changed["limits"]) == ("research", {"requests": 60, "day_requests": 500})
    assert admin.ask("GET", "/admin/teams/research")["keys"] == 1
    assert [team["name"] for team in admin.ask("GET", "/admin/teams")["data"]] == ["lab", "research"]
    assert use(admin.running, made["secret"], "anthropic/text") == 403
    assert use(admin.running, made["secret"]) == 200
    rotated = admin.ask("POST", "/admin/keys/ci/rotate", json={"overlap": 3600})
    assert [use(admin.running, made["secret"]), use(admin.running, rotated["secret"])] == [200, 200]
    usage = {row["name"]: row for row in admin.ask("GET", "/admin/usage")["data"]}
    assert (usage["ci"]["requests"], usage["ci"]["refused"]) == (5, 1)
    by_team = {row["name"]: row for row in admin.ask("GET", "/admin/usage?by=team")["data"]}
    assert by_team["research"]["requests"] == 5
    admin.ask("PATCH", "/admin/teams/research", json={"models": None, "limits": {"month_requests": 900}})
    (limited,) = admin.ask("GET", "/admin/limits?scope=key")["data"]
    assert (limited["name"], [row["used"] for row in limited["limits"]]) == ("ci", [3, 4])
    assert admin.ask("GET", "/admin/me") == {"name": "root", "role": "admin"}
    admin.ask("PATCH", "/admin/organisation", json={"models": ["openai-chat/*"]})
    assert admin.ask("GET", "/admin/organisation")["models"] == ["openai-chat/*"]
    assert use(admin.running, rotated["secret"], "anthropic/text") == 403
    assert admin.ask("DELETE", "/admin/teams/research", status=409)["error"]["message"].startswith(
        "the team 'research'"
    )
    admin.ask("DELETE", "/admin/keys/ci", status=204)
    assert use(admin.running, rotated["secret"]) == 401
    admin.ask("DELETE", "/admin/teams/research", status=204)
    audit = admin.ask("GET", "/admin/audit")["data"]
    assert [row["action"] for row in audit[:3]] == ["team.remove", "key.revoke", "organisation.edit"]
    admin.ask("GET", "/admin/openapi.json")
    assert admin.ask("GET", "/admin/check")["error"] == ""
    assert "anthropic" in {row["name"] for row in admin.ask("GET", "/admin/providers")["data"]}
    assert admin.ask("POST", "/admin/providers/openai-chat/test")["seconds"] >= 0
    admin.ask("POST", "/admin/providers", status=409, json={"name": "anthropic", "key": "sk-ant"})
    admin.ask("DELETE", "/admin/providers/anthropic", status=409)
    server = {"base_url": "http://127.0.0.1:1/v1", "check": False}
    assert admin.ask("POST", "/admin/custom-providers", status=201, json={"name": "mine", **server})["custom"]
    assert admin.ask("PUT", "/admin/custom-providers/mine", json={**server, "title": "Mine"})["title"] == "Mine"
    admin.ask("DELETE", "/admin/custom-providers/mine", status=204)
    assert admin.seen == admin.routes()


def test_the_audit_log_says_who_changed_what_and_holds_no_secret(admin: Admin, tmp_path: Path) -> None:
    made = admin.ask("POST", "/admin/keys", status=201, json={"name": "ci"})
    admin.ask("PATCH", "/admin/keys/ci", json={"limits": {"day_cost": 5}})
    new = admin.ask("POST", "/admin/keys/ci/rotate")
    rotated, edited, added = admin.ask("GET", "/admin/audit?limit=3")["data"]
    assert {row["actor"] for row in (rotated, edited, added)} == {"key:root"}
    (change,) = edited["changes"]
    assert "limits" not in change["before"]
    assert change["after"]["limits"] == {"day_cost": 5.0}
    assert added["changes"][0].get("before") is None
    assert rotated["changes"][0]["before"]["hash"] != rotated["changes"][0]["after"]["hash"]
    written = (tmp_path / "keys.json.audit").read_text()
    for secret in (made["secret"], new["secret"], hash_key(made["secret"]), hash_key(new["secret"])):
        assert secret not in written
    first = admin.ask("GET", "/admin/audit?limit=2")
    rest = admin.ask("GET", f"/admin/audit?before={first['next']}")
    assert [row["id"] for row in first["data"] + rest["data"]] == list(range(6, 0, -1))
    assert rest["next"] is None


def test_pages(admin: Admin) -> None:
    names: list[str] = []
    after = ""
    for number in range(5):
        admin.ask("POST", "/admin/keys", status=201, json={"name": f"k{number}", "team": "lab" if number % 2 else ""})
    while after is not None:
        page = admin.ask("GET", f"/admin/keys?limit=3&after={after}")
        assert len(page["data"]) <= 3
        names += [key["name"] for key in page["data"]]
        after = page["next"]
    assert names == ["fixed", "k0", "k1", "k2", "k3", "k4", "root", "seer", "user"]
    of_team = admin.ask("GET", "/admin/keys?team=lab")["data"]
    assert [key["name"] for key in of_team] == ["fixed", "k1", "k3"]


# ── who may ───────────────────────────────────────────────────────────────────────────────────────


def test_roles(admin: Admin) -> None:
    """On loopback too: all of these are local."""
    pages = [path for method, path in sorted(admin.routes()) if method == "GET" and "{name}" not in path]
    assert len(pages) > 8
    for key, read, write in ((ROOT, 200, 201), (SEER, 200, 403), (USER, 403, 403), ("", 401, 401)):
        with httpx.Client(base_url=admin.url, headers=bearer(key) if key else {}, timeout=LIMIT) as http:
            assert {path: http.get(path).status_code for path in pages} == dict.fromkeys(pages, read)
            assert http.post("/admin/keys", json={"name": "new"}).status_code == write
            if key == SEER:
                refused = http.delete("/admin/keys/user").json()["error"]
                assert (refused["code"], "has the role viewer" in refused["message"]) == ("role_not_allowed", True)
            for path in ("/admin", "/admin/", "/admin/nothing", "/admin/keys/a/b/c"):
                assert http.get(path).status_code == (404 if read == 200 else read)


def test_without_keys_there_is_no_admin(tmp_path: Path) -> None:
    with gateway(answer, data=tmp_path) as (running, _):
        assert get(f"{running.url}/v1/models").status_code == 200  # a program on this machine
        refused = get(f"{running.url}/admin/keys")
        assert refused.status_code == 401
        assert "penstock keys add NAME --admin" in refused.json()["error"]["message"]


def test_a_key_in_the_url_is_not_taken(running: Running) -> None:
    assert get(f"{running.url}/v1/models?key={ROOT}").status_code == 200
    assert get(f"{running.url}/admin/keys?key={ROOT}").status_code == 401


def test_only_the_gateways_own_page_may_ask(tmp_path: Path) -> None:
    key_file(tmp_path).add("root", {"hash": hash_key(ROOT), "role": "admin"})
    access = {"origins": ("https://chat.example.com", "*")}
    with gateway(answer, data=tmp_path, access=access) as (running, _):

        def status(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            reply = get(f"{running.url}/admin/keys", headers={**bearer(ROOT), **named})
            assert "access-control-allow-origin" not in reply.headers
            return reply.status_code

        assert status(origin=running.url) == 200
        assert status(sec_fetch_site="same-origin") == 200
        for origin in ("https://chat.example.com", "http://localhost:3000", "http://127.0.0.1:1", "null", "http://["):
            assert status(origin=origin) == 403
        assert status(sec_fetch_site="cross-site") == 403
        assert status(sec_fetch_site="same-site") == 403
        assert status(host="evil.example") == 403  # `*` as an origin opens no other name
        preflight = httpx.options(
            f"{running.url}/admin/keys",
            headers={"origin": "http://localhost:3000", "access-control-request-method": "POST"},
        )
        assert preflight.status_code == 403


def test_a_revoked_admin_is_refused_at_once(admin: Admin, tmp_path: Path) -> None:
    key_file(tmp_path).revoke("root")
    until(lambda: admin.http.get("/admin/keys").status_code == 401)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def test_two_people_who_edit_the_same_key(admin: Admin) -> None:
    reply = admin.http.get("/admin/keys/user")
    tag = reply.headers["etag"]
    assert tag == f'"{reply.json()["etag"]}"'
    admin.ask("PATCH", "/admin/keys/user", json={"note": "mine"}, headers={"if-match": tag})
    for method, path, body in (
        ("PATCH", "/admin/keys/user", {"note": "theirs"}),
        ("POST", "/admin/keys/user/rotate", {}),
        ("DELETE", "/admin/keys/user", None),
    ):
        refused = admin.ask(method, path, status=412, json=body, headers={"if-match": tag})["error"]
        assert refused["code"] == "changed_meanwhile"
    assert admin.ask("GET", "/admin/keys/user")["note"] == "mine"


def test_of_many_edits_at_once_with_the_same_tag_one_wins(admin: Admin) -> None:
    tag = admin.http.get("/admin/keys/user").headers["etag"]
    statuses: list[int] = []

    def edit(number: int) -> None:
        headers = {**bearer(ROOT), "if-match": tag}
        body = {"note": f"of {number}"}
        statuses.append(
            httpx.patch(f"{admin.url}/admin/keys/user", json=body, headers=headers, timeout=LIMIT).status_code
        )

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [412] * 7


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"limits": {"day_cost": -3}}, "limits.day_cost", "expected a number of at least 0, found -3"),
    ({"limits": {"requests": 1.5}}, "limits.requests", "expected a whole number"),
    ({"limits": {"day_coast": 3}}, "limits.day_coast", "no such field"),
    ({"limits": {"day_tokens": 10**18}}, "limits.day_tokens", "expected a number of at most 1,000,000,000,000,000"),
    ({"limits": 5}, "limits", "expected object"),
    ({"max_output": -1}, "max_output", "expected a number from 0 to 1,000,000,000,000,000, found -1"),
    ({"expires": "tomorrow"}, "expires", "invalid RFC3339"),
    ({"expires": "2027-01-31T00:00:00"}, "expires", "timezone"),
    ({"role": "root"}, "role", "invalid enum value"),
    ({"team": "nobody"}, "team", "there is no team 'nobody'"),
    ({"team": "lba"}, "team", "did you mean lab?"),
    ({"modles": []}, "modles", "did you mean models?"),
    ({"models": []}, "models", "expected 1 to 200 patterns"),
    ({"hash": "sha256:0"}, "hash", "no such field"),
    ({"note": "x" * 2000}, "note", "expected at most 1000 characters"),
    ({"note": "a\0b"}, "note", "without NUL"),
    ({"tenant": "a\0b"}, "tenant", "printable characters"),
    ({"tenant": "t" * 200}, "tenant", "at most 128"),
]


def test_errors_name_the_field(admin: Admin) -> None:
    before = admin.ask("GET", "/admin/keys")
    for body, field, said in WRONG:
        refused = admin.ask("PATCH", "/admin/keys/user", status=400, json=body)["error"]
        assert refused["field"] == field
        assert said in refused["message"]
        refused = admin.ask("POST", "/admin/keys", status=400, json={"name": "new", **body})["error"]
        assert refused["field"] == field
    for name in ("", "a/b", "x" * 200, "new\nline", " a", ".."):
        refused = admin.ask("POST", "/admin/keys", status=400, json={"name": name})["error"]
        assert (refused["field"], refused["code"]) == ("name", "invalid_value")
    assert admin.ask("GET", "/admin/keys") == before


def test_what_cannot_be_changed(admin: Admin) -> None:
    assert admin.ask("POST", "/admin/keys", status=409, json={"name": "user"})["error"]["field"] == "name"
    reserved = admin.ask("POST", "/admin/keys", status=409, json={"name": "started-with"})["error"]
    assert (reserved["field"], "PENSTOCK_GATEWAY_KEY" in reserved["message"]) == ("name", True)
    assert "stands in" in admin.ask("PATCH", "/admin/keys/fixed", status=409, json={"note": "x"})["error"]["message"]
    assert admin.ask("GET", "/admin/keys/fixed")["source"] == "configuration"
    assert "did you mean user?" in admin.ask("DELETE", "/admin/keys/usr", status=404)["error"]["message"]
    assert admin.ask("GET", "/admin/keys/nobody", status=404)["error"]["code"] == "not_found"
    assert admin.ask("POST", "/admin/keys/user/rotate", status=400, json={"overlap": -1})["error"]["field"] == "overlap"
    assert admin.ask("GET", "/admin/usage?by=moon", status=400)["error"]["field"] == "by"
    assert admin.ask("GET", "/admin/keys?limit=0", status=400)["error"]["message"]
    for broken in (b"{", b"[]", b"\xff"):
        admin.ask("PATCH", "/admin/keys/user", status=400, content=broken)
    assert admin.http.put("/admin/keys").status_code == 405


def test_a_body_that_is_too_large(admin: Admin) -> None:
    assert admin.http.post("/admin/keys", content=b'{"name": "' + b"x" * 300_000).status_code == 413


# ── a stream ends with its key ────────────────────────────────────────────────────────────────────


def replace_key(keys: KeyFile, name: str) -> None:
    keys.revoke(name)
    keys.add(name, {"hash": hash_key("another")})


ENDS: dict[str, Callable[[KeyFile], object]] = {
    "revoke": lambda keys: keys.revoke("revoke"),
    "expire": lambda keys: keys.edit("expire", {"expires": "2020-01-01T00:00:00Z"}),
    "rotate": lambda keys: keys.rotate("rotate"),
    "replace": lambda keys: replace_key(keys, "replace"),
}  # fmt: skip


def stalled(seen: ReceivedRequest) -> Reply:
    """All but the end of an answer, then nothing more."""
    return answer(seen).stall(after=-60)


def test_a_change_ends_open_streams(tmp_path: Path) -> None:
    """Within a second: test_revocation.py."""
    keys = key_file(tmp_path)
    for name in ENDS:
        keys.add(name, {"hash": hash_key(f"pk-penstock-of-{name}")})
    path, body = ASKING["openai-chat"]("openai-chat/text", True)
    with gateway(stalled, data=tmp_path) as (running, _):
        for name, end in ENDS.items():
            headers = bearer(f"pk-penstock-of-{name}")
            with httpx.stream("POST", running.url + path, json=body, headers=headers, timeout=LIMIT) as stream:
                chunks = stream.iter_bytes()
                got = next(chunks)
                end(keys)
                got += b"".join(chunks)
            assert (b"has expired" if name == "expire" else b"was revoked") in got, name
            assert use(running, f"pk-penstock-of-{name}") == 401, name
