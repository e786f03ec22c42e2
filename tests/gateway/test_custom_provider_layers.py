"""Custom providers among the other layers of providers, in several processes, and after damage and failures."""

from __future__ import annotations

import json
import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest

from penstock.gateway import App
from penstock.testing import scripted
from tests.cli.command_runner import inside
from tests.support import process
from tests.support.admin import (
    BAD,
    GOOD,
    PATH,
    Admin,
    add_keys,
    busy_loop,
    fail_to_apply,
    fail_to_write,
    lab,
    read_providers,
    running_lab,
    slow_watch,
    store_key,
    stored,
    write_providers,
)
from tests.support.client_requests import get
from tests.support.gateway import Running, config
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import Upstream

TIDES = {"lab/tide-1", "lab/tide-2"}


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


# ── other layers ──────────────────────────────────────────────────────────────────────────────────


def test_a_provider_of_the_file_goes_first(tmp_path: Path, up: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
    file = {"base_url": f"{up.url}/open/file", "models": ["tide-7"]}
    with caplog.at_level(logging.WARNING), running_lab(tmp_path, up, lab=file) as admin:
        row = admin.row()
        assert (row["custom"], row["base_url"], row["used"]) == (True, f"{up.url}/open/v1", True)
        assert row["problem"].startswith("not used: penstock.toml has a provider 'lab', which goes first")
        assert admin.models() == {"lab/tide-7"}
        found = admin.ask("GET", "/admin/check")["problems"]
        assert [one["setting"] for one in found if "lab: not used" in one["message"]] == ["custom-providers.json"]
        assert admin.add(409)["error"]["message"].startswith("name: penstock.toml has a provider 'lab' already")
        admin.ask("PUT", f"{PATH}/lab", status=409, json={"base_url": up.url})
        admin.running.reload(data=tmp_path, providers={"lab": file})
        admin.ask("DELETE", f"{PATH}/lab", status=204)
        row = admin.row()
        assert (row["custom"], row["problem"], row["stored"]) == (False, "", True)  # the file's provider uses the key
        assert admin.models() == {"lab/tide-7"}
    assert len([one for one in caplog.records if "the custom provider lab is not used" in one.getMessage()]) == 1


def test_a_reload_of_the_file_keeps_and_hides_providers(admin: Admin, tmp_path: Path) -> None:
    admin.add()
    admin.running.reload(data=tmp_path)
    assert admin.models() == TIDES
    admin.running.reload(
        data=tmp_path, providers={"lab": {"base_url": f"{admin.up.url}/open/file", "models": ["tide-7"]}}
    )
    assert (admin.models(), bool(admin.row()["problem"])) == ({"lab/tide-7"}, True)
    admin.running.reload(data=tmp_path)
    assert (admin.models(), admin.row()["problem"]) == (TIDES, "")


def test_an_editors_provider_of_the_same_name_is_not_used(tmp_path: Path, up: Upstream) -> None:
    env = {"PENSTOCK_EDITOR_KEYS": "1", "PENSTOCK_GATEWAY_KEY": "the-key-of-the-editor"}
    with running_lab(tmp_path, up, env=env) as admin:
        admin.add()
        body = {"window": "w", "providers": [{"name": "lab", "base_url": "http://127.0.0.1:1", "keys": [BAD]}]}
        said = admin.http.put("/vscode/keys", json=body, headers={"authorization": "Bearer the-key-of-the-editor"})
        assert said.json()["problems"] == {
            "lab": "the gateway's page Manage has another provider 'lab': rename one of them"
        }
        assert admin.chat() == 200
        assert BAD not in admin.sent_keys()


# ── several processes, restarts and damaged files ─────────────────────────────────────────────────


def test_a_restart_keeps_it_and_another_gateway_sees_it(tmp_path: Path, up: Upstream) -> None:
    with running_lab(tmp_path, up) as first, running_lab(tmp_path, up) as second:
        assert second.models() == set()
        first.add(base_url=f"{up.url}/lab/v1", key=GOOD)
        until(lambda: second.models() == TIDES)
        assert second.row() == first.row()
        assert second.chat() == 200
        second.ask("PUT", f"{PATH}/lab", json={"base_url": f"{up.url}/lab/v1", "models": ["tide-2"]})
        until(lambda: first.models() == {"lab/tide-2"})
    with running_lab(tmp_path, up) as third:
        assert third.models() == {"lab/tide-2"}
        assert third.chat("lab/tide-2") == 200
        third.ask("DELETE", f"{PATH}/lab", status=204)
    with running_lab(tmp_path, up) as fourth:
        assert fourth.row() == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers need a system that can fork")
def test_the_owner_of_a_gateway_without_keys_adds_a_provider_which_all_workers_use(tmp_path: Path) -> None:
    with (
        scripted(lab) as up,
        process.gateway(tmp_path, "", "--workers", "2") as server,
        httpx.Client(base_url=server.base, timeout=30) as http,
    ):
        body = {"name": "lab", "base_url": f"{up.url}/lab/v1", "key": GOOD}
        assert http.post(PATH, json=body).status_code == 401
        assert http.post(PATH, json=body, headers=server.session).status_code == 201

        def listed() -> bool:
            """On a new connection, which is any worker's."""
            return "lab/tide-1" in {row["id"] for row in get(f"{server.base}/v1/models").json()["data"]}

        until(lambda: all(listed() for _ in range(8)))
        http.delete(f"{PATH}/lab", headers=server.session).raise_for_status()
        until(lambda: not any(listed() for _ in range(8)))
        rows = http.get("/admin/audit", headers=server.session).json()["data"]
        assert [(row["actor"], row["action"]) for row in rows] == [
            ("session", f"provider.{done}") for done in ("remove-key", "remove", "add-key", "add")
        ]


def test_a_damaged_file_stops_nothing_and_is_said_once(
    tmp_path: Path, up: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "custom-providers.json"
    with caplog.at_level(logging.WARNING), running_lab(tmp_path, up) as admin:
        admin.add()
        whole = file.read_text()
        file.write_text("{")
        until(lambda: admin.ask("GET", "/admin/providers")["error"] != "")
        assert admin.models() == TIDES  # as it was read last
        assert str(file) in admin.ask("GET", "/admin/check")["problems"][-1]["message"]
        for refused in (admin.add(409, name="two"), admin.ask("DELETE", f"{PATH}/lab", status=409)):
            assert "repair it, or delete it" in refused["error"]["message"]
        assert file.read_text() == "{"
        assert [str(file) in one.getMessage() for one in caplog.records if "custom providers:" in one.getMessage()] == [
            True
        ]
        file.write_text(whole)
        until(lambda: admin.ask("GET", "/admin/providers")["error"] == "")
    file.write_text("{")
    with running_lab(tmp_path, up) as admin:  # a start with a damaged file
        assert admin.row() == {}
        assert admin.chat("openai-chat/text") == 200


def test_one_wrong_row_of_the_file_does_not_hide_the_others(tmp_path: Path, up: Upstream) -> None:
    good = {"base_url": f"{up.url}/open/v1", "like": "openai-compatible"}
    wrong = {"meta": {**good, "base_url": "http://169.254.169.254"}, "odd": {**good, "like": "nobody"}, "Upper": good}
    write_providers(tmp_path, {"lab": good, **wrong})
    with running_lab(tmp_path, up) as admin:
        assert admin.models() == TIDES
        for name, words in (("meta", "link-local"), ("odd", "'nobody'"), ("Upper", "lower-case")):
            row = admin.row(name)
            assert (row["custom"], row["problem"].startswith("not used: "), words in row["problem"]) == (
                True,
                True,
                True,
            )
            assert admin.chat(f"{name}/x") in {400, 404}
            admin.ask("DELETE", f"{PATH}/{name}", status=204)
        assert admin.models() == TIDES


def test_a_file_that_cannot_be_written_is_named(admin: Admin, tmp_path: Path) -> None:
    (tmp_path / "custom-providers.json.lock").mkdir()
    error = admin.add(409)["error"]
    assert error["message"].startswith(f"{tmp_path / 'custom-providers.json'} cannot be written: ")


def test_a_gateway_without_a_data_folder_or_stored_keys(tmp_path: Path, up: Upstream) -> None:
    with running_lab(tmp_path, up, env={}) as admin:
        assert "does not use stored keys" in admin.add(409, key=GOOD)["error"]["message"]
        assert admin.add()["custom"]
        assert admin.chat() == 200
        admin.ask("DELETE", f"{PATH}/lab", status=204)
    with Running(App(config(up.url, access={"keys_file": str(tmp_path / "keys.json")}))) as running:
        client = Admin(running, up)
        with closing(client.http):
            assert "has no data folder" in client.add(409)["error"]["message"]


def test_commands_know_it(tmp_path: Path, up: Upstream) -> None:
    write_providers(tmp_path, {"lab": {"base_url": f"{up.url}/lab/v1", "like": "vllm", "title": "The Lab"}})
    (row,) = json.loads(inside("providers", "lab", "--json", PENSTOCK_DATA=str(tmp_path)).stdout)
    assert (row["name"], row["title"], row["base_url"]) == ("lab", "The Lab", f"{up.url}/lab/v1")
    config = tmp_path / "penstock.toml"
    config.write_text("[aliases]\nfast = 'lab/tide-1'\n")
    assert inside("serve", "--check", "--config", str(config), PENSTOCK_DATA=str(tmp_path)).returncode == 0
    with running_lab(tmp_path, up) as admin:  # the key of `penstock setup` is the gateway's too
        store_key("lab", GOOD, up.url)
        until(lambda: admin.chat("lab/text") == 200)
        assert admin.row()["used"]


def test_a_row_that_is_like_an_unknown_provider_is_repaired_or_removed(tmp_path: Path, up: Upstream) -> None:
    rows = {name: {"base_url": f"{up.url}/open/v1", "like": "gone"} for name in ("odd", "old", "moved")}
    write_providers(tmp_path, rows)
    for name in rows:
        store_key(name, GOOD, up.url)
    with running_lab(tmp_path, up) as admin:
        repaired = admin.ask("PUT", f"{PATH}/odd", json={"base_url": f"{up.url}/open/v1"})
        assert (repaired["problem"], repaired["like"], repaired["stored"]) == ("", "openai-compatible", True)
        moved = admin.ask("PUT", f"{PATH}/moved", json={"base_url": "http://127.0.0.1:1/v1", "check": False})
        assert (moved["problem"], moved["stored"]) == ("", False)
        admin.ask("DELETE", f"{PATH}/old", status=204)
    assert set(read_providers(tmp_path)) == {"odd", "moved"}
    assert set(json.loads((tmp_path / "provider-keys.json").read_text())) == {"odd"}


Change: TypeAlias = tuple[str, str, dict[str, Any] | None]


def other_lab(admin: Admin, **more: Any) -> dict[str, Any]:
    return {"base_url": f"{admin.up.url}/open/v1", "models": ["tide-9"], "check": False, **more}


def changes_without_key(admin: Admin) -> list[Change]:
    return [("POST", PATH, other_lab(admin, name="two")), ("PUT", f"{PATH}/lab", other_lab(admin))]


def changes_that_store_a_key(admin: Admin) -> list[Change]:
    return [
        ("POST", PATH, other_lab(admin, name="two", key=BAD)),
        ("PUT", f"{PATH}/lab", other_lab(admin, key=BAD)),
        ("POST", "/admin/providers", {"name": "lab", "key": BAD, "check": False}),
        ("POST", "/admin/providers", {"name": "groq", "key": BAD, "check": False}),
    ]


def changes_that_remove_a_key(admin: Admin) -> list[Change]:
    return [
        ("PUT", f"{PATH}/lab", other_lab(admin, base_url="http://127.0.0.1:1/v1")),
        ("DELETE", f"{PATH}/lab", None),
        ("DELETE", "/admin/providers/lab", None),
    ]


def test_a_change_that_cannot_be_logged_is_not_made(
    tmp_path: Path, up: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in place of the audit log, which cannot be written, also by root."""
    slow_watch(monkeypatch)
    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
        before, models = stored(tmp_path)[:2], admin.models()
        log = tmp_path / "keys.json.audit"
        log.unlink()
        log.mkdir()
        changes = changes_without_key(admin) + changes_that_store_a_key(admin) + changes_that_remove_a_key(admin)
        for method, path, body in changes:
            refused = admin.http.request(method, path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable"), (method, path)
            log.rmdir()
            assert (stored(tmp_path)[:2], admin.models()) == (before, models), (method, path)
            log.mkdir()
        assert admin.chat() == 200
        assert admin.sent_keys() == {GOOD}


@pytest.mark.parametrize("broken", ["provider.add-key", "provider.remove-key", "add", "remove"])
def test_a_change_whose_key_cannot_be_changed_is_undone(
    tmp_path: Path, up: Upstream, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The second row of the audit log, or the key's file, cannot be written."""
    slow_watch(monkeypatch)

    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
        before, models = stored(tmp_path), admin.models()
        fail_to_write(monkeypatch, admin.running, broken)
        changes = changes_that_store_a_key(admin) if "add" in broken else changes_that_remove_a_key(admin)
        for method, path, body in changes:
            assert admin.http.request(method, path, json=body).status_code == 503, (method, path)
            assert (stored(tmp_path), admin.models()) == (before, models), (method, path)
        assert admin.chat() == 200


def test_a_change_is_stored_although_the_event_loop_is_busy(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_loop(monkeypatch)
    assert admin.add()["custom"]
    until(lambda: admin.models() == TIDES)
    admin.ask("DELETE", f"{PATH}/lab", status=204)
    until(lambda: admin.models() == set())


def test_a_file_that_could_not_be_read_and_is_deleted_has_no_rows(admin: Admin, tmp_path: Path) -> None:
    admin.add()
    file = tmp_path / "custom-providers.json"
    file.unlink()
    file.mkdir()  # cannot be read, also by root
    until(lambda: admin.ask("GET", "/admin/providers")["error"] != "")
    assert admin.models() == TIDES
    file.rmdir()
    until(lambda: admin.models() == set())
    assert admin.ask("GET", "/admin/providers")["error"] == ""


def test_a_change_that_could_not_be_applied_is_tried_again(
    tmp_path: Path, up: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow_watch(monkeypatch, 0.01)
    with running_lab(tmp_path, up) as admin:
        tried = fail_to_apply(admin.running, 3)
        write_providers(tmp_path, {"lab": {"base_url": f"{up.url}/open/v1", "like": "vllm"}})
        until(lambda: admin.models() == TIDES)
        assert len(tried) == 4
    assert len([one for one in caplog.records if "could not be used" in one.getMessage()]) == 1
