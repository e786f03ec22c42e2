"""Providers in the admin API: keys are stored, tested and removed, and never sent back; the configuration is checked."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import scripted
from tests.support.admin import BAD, GOOD, SEER, USER, Admin, add_keys, bearer, lab, managed_app, running_lab
from tests.support.gateway import Running
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Reply


@contextmanager
def managed(data: Path, **more: Any) -> Generator[Admin]:
    with managed_app(data, **more) as app, Running(app) as running:
        client = Admin(running)
        with closing(client.http):
            yield client


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with managed(tmp_path) as client:
        yield client


def groq(admin: Admin) -> dict[str, Any]:
    return admin.row("groq")


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
    body = {"model": "groq/text", "messages": [{"role": "user", "content": "Hi"}]}
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


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "nobody", "key": GOOD}, 404, "name"), ({"name": "groq", "key": " "}, 400, "key"),
    ({"name": "groq", "key": "a\nb"}, 400, "key"), ({"name": "groq"}, 400, "key"),
    ({"name": "groq", "key": 7}, 400, "key"), ({"name": "groq", "key": GOOD, "x": 1}, 400, ""),
    ({"name": "replay", "key": GOOD}, 404, "name"),
]  # fmt: skip


def test_wrong_values_are_named(admin: Admin) -> None:
    for body, status, field in WRONG:
        error = admin.ask("POST", "/admin/providers", status=status, json=body)["error"]
        assert (error["field"], GOOD in json.dumps(error)) == (field, False), body


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


def test_few_requests_at_once(tmp_path: Path) -> None:
    add_keys(tmp_path)
    held = threading.Event()

    async def hold(seen: ReceivedRequest) -> Reply:
        assert await asyncio.to_thread(held.wait, 30)
        return lab(seen)

    with scripted(hold) as up, running_lab(tmp_path, up, slow={"base_url": f"{up.url}/open"}) as slow:
        test = "/admin/providers/slow/test"
        asking = [threading.Thread(target=slow.http.post, args=(test,)) for _ in range(4)]
        for thread in asking:
            thread.start()
        until(lambda: len(up.requests) == len(asking))
        assert slow.http.post(test).status_code == 503
        held.set()
        for thread in asking:
            thread.join(30)
        assert slow.http.post(test).status_code == 200


def test_a_gateway_with_variables_of_its_own_stores_nothing(tmp_path: Path) -> None:
    with managed(tmp_path, env={}) as client:
        error = client.ask("POST", "/admin/providers", status=409, json={"name": "groq", "key": GOOD})["error"]
        assert "does not use stored keys" in error["message"]
        client.ask("DELETE", "/admin/providers/groq", status=409)
        assert not groq(client)["stored"]


def test_the_check_names_setting_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    file = tmp_path / "penstock.toml"
    file.write_text("# mine\n[aliases]\nfast = 'groq/llama-4'\n\n[providers.groq]\nbase_url = 'http://127.0.0.1:1'\n")
    with managed(tmp_path, path=file) as client:
        found = client.ask("GET", "/admin/check")
    assert (found["path"], found["error"], found["restart_needed"]) == (str(file), "", [])
    (problem,) = (one for one in found["problems"] if one["setting"] == "providers.groq")
    assert problem["line"] == 5
    assert "GROQ_API_KEY is not set" in problem["message"]
