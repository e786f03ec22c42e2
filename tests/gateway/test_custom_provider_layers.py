"""Custom providers among the other layers of providers, in several processes, and after damage and failures."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest
from msgspec.structs import replace

from penstock._cli import main
from penstock._engines.environ import LIVE
from penstock._gateway import provider_layers
from penstock._gateway.editor_keys import EditorProvider
from penstock._gateway.provider_layers import CustomProviders, CustomProvidersWatcher
from penstock._store.custom_providers import CustomProvider, CustomProvidersFile
from penstock._store.key_store import FileKeyStore
from penstock._store.provider_keys import ProviderKeys
from penstock.gateway import App
from penstock.testing import scripted
from tests.gateway.test_custom_providers import BAD, GOOD, PATH, Lab, add_keys, configured, lab, running_lab
from tests.support import process
from tests.support.gateway import Running
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.gateway import GatewayConfig
    from penstock.testing import Upstream

ROW = CustomProvider(base_url="http://127.0.0.1:1", like="vllm")


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    add_keys(tmp_path)
    with scripted(lab) as up:
        yield up


@pytest.fixture
def admin(tmp_path: Path, up: Upstream) -> Iterator[Lab]:
    with running_lab(tmp_path, up) as client:
        yield client


# ── other layers ──────────────────────────────────────────────────────────────────────────────────


def test_a_provider_of_the_file_goes_first(tmp_path: Path, up: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
    file = {"base_url": f"{up.url}/open/file", "models": ("tide-7",)}
    with caplog.at_level(logging.WARNING), running_lab(tmp_path, up, lab=file) as admin:
        row = admin.row()
        assert (row["custom"], row["base_url"], row["used"]) == (True, f"{up.url}/open/v1", True)
        assert row["problem"].startswith("not used: penstock.toml has a provider 'lab', which goes first")
        assert admin.models() == {"lab/tide-7"}
        found = admin.ask("GET", "/admin/check")["problems"]
        assert [one["setting"] for one in found if "lab: not used" in one["message"]] == ["custom-providers.json"]
        assert admin.add(409)["error"]["message"].startswith("name: penstock.toml has a provider 'lab' already")
        admin.ask("PUT", f"{PATH}/lab", status=409, json={"base_url": up.url})
        admin.running.call(_reload(admin))
        admin.ask("DELETE", f"{PATH}/lab", status=204)
        row = admin.row()
        assert (row["custom"], row["problem"], row["stored"]) == (False, "", True)  # the file's provider uses the key
        assert admin.models() == {"lab/tide-7"}
    assert len([one for one in caplog.records if "the custom provider lab is not used" in one.getMessage()]) == 1


async def _reload(admin: Lab) -> None:
    services = admin.running.app.services
    services.reload(replace(services.config, engine=services.file_engine))


def test_a_reload_of_the_file_keeps_and_hides_providers(admin: Lab, tmp_path: Path) -> None:
    admin.add()
    admin.running.call(_reload(admin))
    assert admin.models() == {"lab/tide-1", "lab/tide-2"}
    services = admin.running.app.services
    hiding = configured(tmp_path, admin.up, lab={"base_url": f"{admin.up.url}/open/file", "models": ("tide-7",)})

    async def reload(made: GatewayConfig) -> None:
        services.reload(made)

    admin.running.call(reload(hiding))
    assert (admin.models(), bool(admin.row()["problem"])) == ({"lab/tide-7"}, True)
    admin.running.call(reload(configured(tmp_path, admin.up)))
    assert (admin.models(), admin.row()["problem"]) == ({"lab/tide-1", "lab/tide-2"}, "")


def test_an_editors_provider_of_the_same_name_is_not_used(admin: Lab) -> None:
    admin.add()
    services = admin.running.app.services

    async def hand_over() -> dict[str, str]:
        services.editor_keys.set_window("w", (EditorProvider(name="lab", base_url="http://127.0.0.1:1", keys=(BAD,)),))
        services.apply_providers()
        return services.editor_keys.problems

    assert admin.running.call(hand_over()) == {
        "lab": "the gateway's page Manage has another provider 'lab': rename one of them"
    }
    assert admin.chat() == 200
    assert BAD not in admin.sent_keys()


# ── several processes, restarts and damaged files ─────────────────────────────────────────────────


def test_a_restart_keeps_it_and_another_gateway_sees_it(tmp_path: Path, up: Upstream) -> None:
    with running_lab(tmp_path, up) as first, running_lab(tmp_path, up) as second:
        assert second.models() == set()
        first.add(base_url=f"{up.url}/lab/v1", key=GOOD)
        until(lambda: second.models() == {"lab/tide-1", "lab/tide-2"})
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
def test_all_workers_use_it(tmp_path: Path) -> None:
    with scripted(lab) as up, process.gateway(tmp_path, "", "--workers", "2") as server:
        body = {"name": "lab", "base_url": f"{up.url}/lab/v1", "key": GOOD}
        httpx.post(f"{server.base}{PATH}", json=body, headers=server.session, timeout=30).raise_for_status()

        def listed() -> bool:
            rows = httpx.get(f"{server.base}/v1/models", timeout=30).json()["data"]
            return "lab/tide-1" in {row["id"] for row in rows}

        until(lambda: all(listed() for _ in range(12)))
        httpx.delete(f"{server.base}{PATH}/lab", headers=server.session, timeout=30).raise_for_status()
        until(lambda: not any(listed() for _ in range(12)))


def test_a_damaged_file_stops_nothing_and_is_said_once(
    tmp_path: Path, up: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "custom-providers.json"
    with caplog.at_level(logging.WARNING), running_lab(tmp_path, up) as admin:
        admin.add()
        whole = file.read_text()
        file.write_text("{")
        until(lambda: admin.ask("GET", "/admin/providers")["error"] != "")
        assert admin.models() == {"lab/tide-1", "lab/tide-2"}  # as it was read last
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
    good = CustomProvider(base_url=f"{up.url}/open/v1", like="openai-compatible")
    rows = {
        "lab": good,
        "meta": replace(good, base_url="http://169.254.169.254"),
        "odd": replace(good, like="nobody"),
        "Upper": good,
    }
    CustomProvidersFile(tmp_path).change(lambda _: rows)
    with running_lab(tmp_path, up) as admin:
        assert admin.models() == {"lab/tide-1", "lab/tide-2"}
        for name, words in (("meta", "link-local"), ("odd", "'nobody'"), ("Upper", "lower-case")):
            row = admin.row(name)
            assert (row["custom"], row["problem"].startswith("not used: "), words in row["problem"]) == (
                True,
                True,
                True,
            )
            assert admin.chat(f"{name}/x") in {400, 404}
            admin.ask("DELETE", f"{PATH}/{name}", status=204)
        assert admin.models() == {"lab/tide-1", "lab/tide-2"}


def test_a_file_that_cannot_be_written_is_named(admin: Lab, tmp_path: Path) -> None:
    (tmp_path / "custom-providers.json.lock").mkdir()
    error = admin.add(409)["error"]
    assert error["message"].startswith(f"{tmp_path / 'custom-providers.json'} cannot be written: ")


def test_a_gateway_without_a_data_folder_or_stored_keys(tmp_path: Path, up: Upstream) -> None:
    with running_lab(tmp_path, up, env={}) as admin:
        assert "does not use stored keys" in admin.add(409, key=GOOD)["error"]["message"]
        assert admin.add()["custom"]
        assert admin.chat() == 200
        admin.ask("DELETE", f"{PATH}/lab", status=204)
    made = replace(configured(tmp_path, up), data=None, access=replace(configured(tmp_path, up).access,
                   keys_file=str(tmp_path / "keys.json")))  # fmt: skip
    with Running(App(made, env=LIVE)) as running:
        client = Lab(running, up)
        assert "has no data folder" in client.add(409)["error"]["message"]
        client.http.close()


def test_commands_know_it(tmp_path: Path, up: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"lab": CustomProvider(base_url=f"{up.url}/lab/v1", like="vllm", title="The Lab")}
    CustomProvidersFile(tmp_path).change(lambda _: rows)
    assert main(["providers", "lab", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["title"], row["base_url"]) == ("lab", "The Lab", f"{up.url}/lab/v1")
    config = tmp_path / "penstock.toml"
    config.write_text("[aliases]\nfast = 'lab/tide-1'\n")
    assert main(["serve", "--check", "--config", str(config)]) == 0
    with running_lab(tmp_path, up) as admin:  # the key of `penstock setup` is the gateway's too
        ProviderKeys.of(LIVE).add("lab", GOOD, origin=up.url, keyring=False)
        until(lambda: admin.chat("lab/text") == 200)
        assert admin.row()["used"]


def test_a_row_that_is_like_an_unknown_provider_is_repaired_or_removed(tmp_path: Path, up: Upstream) -> None:
    rows = {name: CustomProvider(base_url=f"{up.url}/open/v1", like="gone") for name in ("odd", "old", "moved")}
    CustomProvidersFile(tmp_path).change(lambda _: rows)
    for name in rows:
        ProviderKeys.of(LIVE).add(name, GOOD, origin=up.url, keyring=False)
    with running_lab(tmp_path, up) as admin:
        repaired = admin.ask("PUT", f"{PATH}/odd", json={"base_url": f"{up.url}/open/v1"})
        assert (repaired["problem"], repaired["like"], repaired["stored"]) == ("", "openai-compatible", True)
        moved = admin.ask("PUT", f"{PATH}/moved", json={"base_url": "http://127.0.0.1:1/v1", "check": False})
        assert (moved["problem"], moved["stored"]) == ("", False)
        admin.ask("DELETE", f"{PATH}/old", status=204)
    assert set(CustomProvidersFile(tmp_path).read()) == {"odd", "moved"}
    assert set(json.loads((tmp_path / "provider-keys.json").read_text())) == {"odd"}


def stored(folder: Path) -> list[object]:
    """What the files hold: custom providers, the ids of stored keys, and the actions of the audit log."""
    keys = ProviderKeys.of(LIVE).read()
    rows = FileKeyStore(folder / "keys.json").audit()
    return [CustomProvidersFile(folder).read(), {name: row.id for name, row in keys.items()}, [one.id for one in rows]]


Change: TypeAlias = tuple[str, str, dict[str, Any] | None]


def other_lab(admin: Lab, **more: Any) -> dict[str, Any]:
    return {"base_url": f"{admin.up.url}/open/v1", "models": ["tide-9"], "check": False, **more}


def changes_without_key(admin: Lab) -> list[Change]:
    return [("POST", PATH, other_lab(admin, name="two")), ("PUT", f"{PATH}/lab", other_lab(admin))]


def changes_that_store_a_key(admin: Lab) -> list[Change]:
    return [
        ("POST", PATH, other_lab(admin, name="two", key=BAD)),
        ("PUT", f"{PATH}/lab", other_lab(admin, key=BAD)),
        ("POST", "/admin/providers", {"name": "lab", "key": BAD, "check": False}),
        ("POST", "/admin/providers", {"name": "groq", "key": BAD, "check": False}),
    ]


def changes_that_remove_a_key(admin: Lab) -> list[Change]:
    return [
        ("PUT", f"{PATH}/lab", other_lab(admin, base_url="http://127.0.0.1:1/v1")),
        ("DELETE", f"{PATH}/lab", None),
        ("DELETE", "/admin/providers/lab", None),
    ]


def test_a_change_that_cannot_be_logged_is_not_made(
    tmp_path: Path, up: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in place of the audit log, which cannot be written, also by root."""
    monkeypatch.setattr(provider_layers, "WATCH_INTERVAL", 60.0)
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
    monkeypatch.setattr(provider_layers, "WATCH_INTERVAL", 60.0)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with running_lab(tmp_path, up) as admin:
        admin.add(key=GOOD)
        before, models = stored(tmp_path), admin.models()
        store = admin.running.app.services.access.ring.store
        assert store is not None
        write: Callable[..., Any] = store.add_audit
        if broken in {"add", "remove"}:
            monkeypatch.setattr(ProviderKeys, broken, fail)
        else:

            def add_audit(*, action: str, **row: Any) -> Any:
                return fail() if action == broken else write(action=action, **row)

            monkeypatch.setattr(store, "add_audit", add_audit)
        changes = changes_that_store_a_key(admin) if "add" in broken else changes_that_remove_a_key(admin)
        for method, path, body in changes:
            assert admin.http.request(method, path, json=body).status_code == 503, (method, path)
            assert (stored(tmp_path), admin.models()) == (before, models), (method, path)
        assert admin.chat() == 200


def test_a_change_is_stored_although_the_event_loop_is_busy(admin: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_layers, "APPLY_TIMEOUT", 0.0)
    assert admin.add()["custom"]
    until(lambda: admin.models() == {"lab/tide-1", "lab/tide-2"})
    admin.ask("DELETE", f"{PATH}/lab", status=204)
    until(lambda: admin.models() == set())


def test_a_file_that_could_not_be_read_and_is_deleted_has_no_rows(tmp_path: Path) -> None:
    file = CustomProvidersFile(tmp_path)
    file.change(lambda _: {"lab": ROW})
    custom = CustomProviders(tmp_path)
    file.path.unlink()
    file.path.mkdir()  # cannot be read, also by root
    custom.refresh()
    assert (set(custom.rows), bool(custom.error)) == ({"lab"}, True)
    file.path.rmdir()
    custom.refresh()
    assert (custom.rows, custom.error) == ({}, "")


def test_a_change_that_could_not_be_applied_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(provider_layers, "WATCH_INTERVAL", 0.01)
    custom = CustomProviders(tmp_path)
    tries: list[set[str]] = []
    applied = asyncio.Event()

    def apply() -> None:
        tries.append(set(custom.rows))
        if len(tries) < 4:
            raise RuntimeError("it does not work yet")
        applied.set()

    async def watch() -> None:
        watcher = CustomProvidersWatcher(custom, apply)
        watcher.start()
        await asyncio.to_thread(CustomProvidersFile(tmp_path).change, lambda _: {"lab": ROW})
        async with asyncio.timeout(20):
            await applied.wait()
        await asyncio.sleep(0.1)
        watcher.stop()

    asyncio.run(watch())
    assert tries == [{"lab"}] * 4
    assert len([one for one in caplog.records if "could not be used" in one.getMessage()]) == 1
