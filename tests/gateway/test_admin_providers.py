"""Providers in the admin API: keys are stored, tested and removed, and never sent back; the configuration is checked."""

from __future__ import annotations

import json
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._engines.environ import LIVE
from penstock._gateway import provider_test
from penstock.gateway import App
from penstock.testing import Reply, scripted
from tests.gateway.test_admin_api import ROOT, SEER, USER, Admin, bearer
from tests.gateway.test_keys import key_file
from tests.support.gateway import Running, answer, config, hash_key

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

GOOD, BAD = "gsk-good-0123456789abcdef", "gsk-bad-0123456789abcdef"
MODELS = {"object": "list", "data": [{"id": "llama-4", "object": "model"}, {"id": "llama-5", "object": "model"}]}


def lists_models(seen: ReceivedRequest) -> Reply:
    """A provider that has two models, for callers with the good key."""
    if not seen.path.startswith("/groq"):
        return answer(seen)
    if seen.headers.get("authorization") != f"Bearer {GOOD}":
        return Reply.error("openai-chat", 401, "Invalid API Key: gsk-bad-0123456789abcdef")
    if seen.path.endswith("/models"):
        return Reply.body(MODELS)
    return answer(seen)


@contextmanager
def managed_app(data: Path, *, path: Path | None = None, env: Any = LIVE, keyed: bool = True) -> Generator[App]:
    """A gateway with an admin, a viewer and a user, unless it has no keys, and a provider `groq` without a key."""
    if keyed:
        keys = key_file(data)
        keys.add("root", {"hash": hash_key(ROOT), "role": "admin"})
        keys.add("seer", {"hash": hash_key(SEER), "role": "viewer"})
        keys.add("user", {"hash": hash_key(USER)})
    with scripted(lists_models) as up:
        made = config(up.url, serve={"pace": 0.0}, data=data, path=path)
        accounts = {**made.engine.providers, "groq": {"base_url": f"{up.url}/groq"}}
        made = replace(made, engine=replace(made.engine, providers=accounts))
        yield App(made, env=env)


@contextmanager
def managed(data: Path, *, path: Path | None = None, env: Any = LIVE) -> Generator[Running]:
    """The same, running."""
    with managed_app(data, path=path, env=env) as app, Running(app) as running:
        yield running


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with managed(tmp_path) as running:
        client = Admin(running)
        yield client
        client.http.close()


def groq(admin: Admin) -> dict[str, Any]:
    rows = admin.ask("GET", "/admin/providers")["data"]
    return next(row for row in rows if row["name"] == "groq")


def test_a_key_is_stored_used_and_removed_and_never_sent_back(admin: Admin, tmp_path: Path) -> None:
    before = groq(admin)
    assert (before["has_key"], before["source"], before["stored"], before["title"]) == (
        False,
        "configuration",
        False,
        "Groq",
    )
    made = admin.ask("POST", "/admin/providers", status=201, json={"name": "groq", "key": f" {GOOD}\n"})
    assert (made["stored"], made["used"], made["source"], made["ending"]) == (True, True, "stored", "cdef")
    assert made == groq(admin)
    assert admin.ask("POST", "/admin/providers/groq/test")["message"] == "Groq answers: 2 models."
    body = {"model": "groq/llama-4", "messages": [{"role": "user", "content": "Hi"}]}
    assert admin.http.post("/v1/chat/completions", json=body).status_code == 200
    file = tmp_path / "provider-keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    admin.ask("DELETE", "/admin/providers/groq", status=204)
    after = groq(admin)
    assert (after["stored"], after["has_key"], after["ending"]) == (False, False, "")
    assert GOOD not in file.read_text()
    assert admin.http.post("/v1/chat/completions", json=body).status_code in {401, 500, 502}
    admin.ask("DELETE", "/admin/providers/groq", status=404)
    removed, added = admin.ask("GET", "/admin/audit?limit=2")["data"]
    assert (removed["action"], added["action"], added["actor"]) == (
        "provider.remove-key",
        "provider.add-key",
        "key:root",
    )
    assert [(change["kind"], change["name"]) for change in added["changes"]] == [("provider", "groq")]
    everything = json.dumps([before, made, after, removed, added]) + (tmp_path / "keys.json.audit").read_text()
    assert GOOD not in everything
    assert GOOD[:8] not in everything


def test_a_key_that_the_provider_refuses_is_not_stored(admin: Admin, tmp_path: Path) -> None:
    error = admin.ask("POST", "/admin/providers", status=400, json={"name": "groq", "key": BAD})["error"]
    assert error["field"] == "key"
    assert "Groq refused the key (401: " in error["message"]
    assert BAD not in error["message"]
    assert not (tmp_path / "provider-keys.json").exists()
    made = admin.ask("POST", "/admin/providers", status=201, json={"name": "groq", "key": BAD, "check": False})
    assert made["stored"]
    tested = admin.ask("POST", "/admin/providers/groq/test")
    assert (tested["ok"], tested["kind"]) == (False, "auth")
    assert BAD not in tested["message"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"name": "nobody", "key": GOOD}, 404, "name"), ({"name": "groq", "key": " "}, 400, "key"),
        ({"name": "groq", "key": "a\nb"}, 400, "key"), ({"name": "groq"}, 400, "key"),
        ({"name": "groq", "key": 7}, 400, "key"), ({"name": "groq", "key": GOOD, "x": 1}, 400, ""),
        ({"name": "replay", "key": GOOD}, 404, "name"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(admin: Admin, body: dict[str, Any], status: int, field: str) -> None:
    error = admin.ask("POST", "/admin/providers", status=status, json=body)["error"]
    assert error["field"] == field
    assert GOOD not in json.dumps(error)


def test_roles(admin: Admin) -> None:
    for key, read in ((SEER, 200), (USER, 403), ("", 401)):
        headers = bearer(key) if key else {"authorization": ""}
        for path in ("/admin/providers", "/admin/check"):
            assert admin.http.get(path, headers=headers).status_code == read
        for method, path in (("POST", "/admin/providers"), ("DELETE", "/admin/providers/groq"),
                             ("POST", "/admin/providers/groq/test")):  # fmt: skip
            refused = admin.http.request(method, path, headers=headers, json={"name": "groq", "key": GOOD})
            assert refused.status_code == (401 if not key else 403)
            if key == SEER:
                assert "has the role viewer, and this needs admin" in refused.json()["error"]["message"]
    assert not groq(admin)["stored"]


def test_a_page_of_another_site_may_not_ask(admin: Admin) -> None:
    for origin in ("http://evil.example", "http://127.0.0.1:1"):
        reply = admin.http.post(
            "/admin/providers", json={"name": "groq", "key": GOOD, "check": False}, headers={"origin": origin}
        )
        assert reply.status_code == 403
    assert not groq(admin)["stored"]


def test_few_requests_at_once(admin: Admin) -> None:
    for _ in range(provider_test.MAX_CHECKS):
        assert provider_test.check_slots.acquire(blocking=False)
    try:
        assert admin.http.post("/admin/providers/groq/test").status_code == 503
    finally:
        for _ in range(provider_test.MAX_CHECKS):
            provider_test.check_slots.release()
    assert admin.http.post("/admin/providers/groq/test").status_code == 200


def test_a_gateway_with_variables_of_its_own_stores_nothing(tmp_path: Path) -> None:
    with managed(tmp_path, env={}) as running:
        client = Admin(running)
        error = client.ask("POST", "/admin/providers", status=409, json={"name": "groq", "key": GOOD})["error"]
        assert "does not use stored keys" in error["message"]
        client.ask("DELETE", "/admin/providers/groq", status=409)
        assert not groq(client)["stored"]
        client.http.close()


def test_the_check_names_setting_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    file = tmp_path / "penstock.toml"
    file.write_text("# mine\n[aliases]\nfast = 'groq/llama-4'\n\n[providers.groq]\nbase_url = 'http://127.0.0.1:1'\n")
    with managed(tmp_path, path=file) as running:
        client = Admin(running)
        found = client.ask("GET", "/admin/check")
        client.http.close()
    assert (found["path"], found["error"], found["restart_needed"]) == (str(file), "", [])
    (problem,) = (one for one in found["problems"] if one["setting"] == "providers.groq")
    assert problem["line"] == 5
    assert "GROQ_API_KEY is not set" in problem["message"]
