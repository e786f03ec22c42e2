"""Providers, teams and the configuration on the page, in a real browser: an admin changes them, a viewer only looks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from penstock.gateway import Inspector
from tests.gateway.test_admin_api import ROOT, SEER, USER, bearer
from tests.gateway.test_admin_providers import BAD, GOOD, managed_app
from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.support.gateway import LIMIT
from tests.support.inspector import Inspected, run_inspector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

TOML = "[aliases]\nfast = 'groq/llama-4'\nslow = 'nobody/x'\n\n[providers.groq]\nbase_url = 'http://127.0.0.1:1'\n"


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspected]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    file = tmp_path / "penstock.toml"
    file.write_text(TOML)
    with managed_app(tmp_path, path=file) as app, run_inspector(Inspector(app)) as found:
        yield found


def open_tab(page: Page, running: Inspected, key: str, tab: str) -> None:
    page.goto(f"{running.url}/#/keys")
    page.get_by_label("Admin key").fill(key)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name=tab).click()


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(f"^{name}")))


def drop_refusals(problems: list[str]) -> None:
    """The console names refused requests, which these tests ask for."""
    problems[:] = [one for one in problems if "Failed to load resource" not in one]


def test_an_admin_stores_tests_and_removes_a_key(page: Page, running: Inspected, problems: list[str]) -> None:
    sent: list[str] = []
    page.on("response", lambda reply: sent.append(reply.text()) if "/admin/" in reply.url and reply.ok else None)
    open_tab(page, running, ROOT, "Providers")
    groq = row_of(page, "Groq")
    expect(groq).to_contain_text("none: it needs one")
    page.get_by_role("button", name="Add a key of a provider").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Store")).to_be_disabled()
    dialog.get_by_label("Provider").select_option("groq")
    expect(dialog).to_contain_text("https://console.groq.com/keys")
    dialog.get_by_label("Key").fill(BAD)
    assert dialog.get_by_label("Key").get_attribute("type") == "password"
    dialog.get_by_role("button", name="Store").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Groq refused the key")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    assert serious(page) == []
    dialog.get_by_label("Key").fill(GOOD)
    dialog.get_by_role("button", name="Store").click()
    expect(page.get_by_role("status").filter(has_text="The key of Groq is stored.")).to_be_visible()
    expect(groq).to_contain_text("stored …cdef")
    page.get_by_role("button", name="Test Groq").click()
    expect(groq).to_contain_text("Groq answers: 2 models.")
    assert serious(page) == []
    page.get_by_role("button", name="Remove key of Groq").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(groq).to_contain_text("none: it needs one")
    page.get_by_role("button", name="Test Groq").click()
    expect(groq.locator(".provider-bad")).to_be_visible()
    page.get_by_role("tab", name="Audit log").click()
    changes = page.get_by_role("table", name="Changes")
    expect(changes.get_by_role("row").nth(1)).to_contain_text(re.compile(r"key:root\s*provider\.remove-key\s*groq"))
    expect(changes.get_by_role("row").nth(2)).to_contain_text("provider.add-key")
    assert GOOD not in "".join(sent) + page.content()
    drop_refusals(problems)


def test_an_admin_adds_edits_and_removes_a_team(page: Page, running: Inspected, problems: list[str]) -> None:
    open_tab(page, running, ROOT, "Teams")
    page.get_by_role("button", name="Add a team").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("a/b")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not allowed in a name")
    dialog.get_by_label("Name").fill("lab")
    dialog.get_by_label("Models").fill("openai-chat/*")
    dialog.get_by_label("Dollars a month").fill("500")
    dialog.get_by_role("button", name="Add").click()
    lab = row_of(page, "lab")
    expect(lab).to_contain_text("of $500.00 a month")
    expect(lab).to_contain_text("openai-chat/*")
    page.get_by_role("button", name="Edit lab").click()
    dialog.get_by_label("Dollars a month").fill("-1")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Dollars a month: Expected a number of at least 0")
    assert serious(page) == []
    dialog.get_by_label("Dollars a month").fill("20")
    dialog.get_by_label("Note").fill("research")
    dialog.get_by_role("button", name="Save").click()
    expect(lab).to_contain_text("of $20.00 a month")
    expect(lab).to_contain_text("research")
    page.get_by_role("button", name="Edit the organisation").click()
    dialog.get_by_label("Requests a day").fill("900")
    dialog.get_by_role("button", name="Save").click()
    expect(row_of(page, "The whole organisation")).to_contain_text("of 900 requests a day")
    made = httpx.post(
        f"{running.url}/admin/keys", json={"name": "ci", "team": "lab"}, headers=bearer(ROOT), timeout=LIMIT
    )
    assert made.status_code == 201
    page.get_by_role("button", name="Remove lab").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the team 'lab' has 1 keys")
    httpx.delete(f"{running.url}/admin/keys/ci", headers=bearer(ROOT), timeout=LIMIT).raise_for_status()
    dialog.get_by_role("button", name="Remove").click()
    expect(lab).to_have_count(0)
    page.get_by_role("tab", name="Audit log").click()
    actions = page.get_by_role("table", name="Changes").get_by_role("rowheader")
    for place, action in enumerate(
        ("team.remove", "key.revoke", "key.add", "organisation.edit", "team.edit", "team.add")
    ):
        expect(actions.nth(place)).to_have_text(action)
    drop_refusals(problems)


def test_two_people_at_once(page: Page, running: Inspected, problems: list[str]) -> None:
    http = httpx.Client(base_url=running.url, headers=bearer(ROOT), timeout=LIMIT)
    http.post("/admin/teams", json={"name": "lab"}).raise_for_status()
    open_tab(page, running, ROOT, "Teams")
    page.get_by_role("button", name="Edit lab").click()
    http.patch("/admin/teams/lab", json={"note": "changed by another"}).raise_for_status()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Note").fill("mine")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("changed")
    assert http.get("/admin/teams/lab").json()["note"] == "changed by another"
    http.close()
    drop_refusals(problems)


def test_the_configuration_is_checked(page: Page, running: Inspected) -> None:
    open_tab(page, running, SEER, "Configuration")
    problems = page.get_by_role("list", name="Problems").get_by_role("listitem")
    expect(problems.filter(has_text="providers.groq")).to_have_text(
        re.compile(r"providers\.groq line 5: GROQ_API_KEY is not set: groq needs it as its key")
    )
    expect(page.get_by_text("penstock.toml")).to_be_visible()
    assert serious(page) == []


def test_a_viewer_has_no_buttons_and_is_refused(page: Page, running: Inspected) -> None:
    open_tab(page, running, SEER, "Providers")
    expect(row_of(page, "Groq")).to_be_visible()
    main = page.locator("main")
    assert main.get_by_role("button").all_inner_texts() == ["Sign out", "Refresh"]
    page.get_by_role("tab", name="Teams").click()
    expect(row_of(page, "The whole organisation")).to_be_visible()
    assert main.get_by_role("button").all_inner_texts() == ["Sign out", "Refresh"]
    for method, path in (("POST", "providers"), ("POST", "providers/groq/test"), ("POST", "teams"),
                         ("PATCH", "organisation")):  # fmt: skip
        refused = httpx.request(
            method,
            f"{running.url}/admin/{path}",
            json={"name": "groq", "key": GOOD},
            headers=bearer(SEER),
            timeout=LIMIT,
        )
        assert refused.status_code == 403
        assert "has the role viewer, and this needs admin" in refused.json()["error"]["message"]


def test_a_user_does_not_get_in(page: Page, running: Inspected, problems: list[str]) -> None:
    page.goto(f"{running.url}/#/keys?tab=providers")
    page.get_by_label("Admin key").fill(USER)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("has the role user")
    expect(page.get_by_role("tab")).to_have_count(0)
    drop_refusals(problems)


# ── a gateway without keys ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def unkeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspected]:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with managed_app(tmp_path, keyed=False) as app, run_inspector(Inspector(app)) as found:
        yield found


def ask(running: Inspected, method: str, path: str, token: str, **headers: str) -> int:
    sent = {"x-penstock-session-token": token, **headers} if token else headers
    body = {"name": "groq", "key": GOOD}
    return httpx.request(method, f"{running.url}/admin/{path}", headers=sent, json=body, timeout=LIMIT).status_code


def test_without_keys_the_session_token_is_enough_for_providers(unkeyed: Inspected) -> None:
    token = unkeyed.inspector.session_token
    for path in ("me", "providers", "check", "audit"):
        assert [ask(unkeyed, "GET", path, one) for one in ("", "x" * 32, token)] == [401, 401, 200]
    assert [ask(unkeyed, "POST", "providers", one) for one in ("", "x" * 32, token)] == [401, 401, 201]
    for method, path in (("GET", "keys"), ("POST", "keys"), ("GET", "teams"), ("POST", "teams"), ("GET", "usage"),
                         ("PATCH", "organisation"), ("GET", "nothing")):  # fmt: skip
        assert ask(unkeyed, method, path, token) == 401, path
    assert ask(unkeyed, "DELETE", "providers/groq", token, origin="http://evil.example") == 403
    assert ask(unkeyed, "DELETE", "providers/groq", token, forwarded="for=1.2.3.4") == 401  # behind a proxy
    rows = httpx.get(f"{unkeyed.url}/admin/audit", headers={"x-penstock-session-token": token}, timeout=LIMIT).json()
    assert [(row["actor"], row["action"]) for row in rows["data"]] == [("session", "provider.add-key")]


def test_with_keys_the_session_token_is_not_enough(running: Inspected) -> None:
    token = running.inspector.session_token
    assert [ask(running, "GET", path, token) for path in ("me", "providers", "check")] == [401, 401, 401]


def test_the_owner_stores_a_key_on_the_page(page: Page, unkeyed: Inspected) -> None:
    page.goto(f"{unkeyed.url}/#session={unkeyed.inspector.session_token}")
    page.get_by_role("link", name="Manage").click()
    expect(page.get_by_text("This gateway has no keys: you are its owner")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_text(["Providers", "Configuration", "Audit log"])
    page.get_by_role("button", name="Add key of Groq").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key").fill(GOOD)
    dialog.get_by_role("button", name="Store").click()
    expect(row_of(page, "Groq")).to_contain_text("stored …cdef")
    assert serious(page) == []


def test_nothing_is_asked_for_that_needs_a_key_before_there_is_one(page: Page, running: Inspected) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(running.url)))
    page.goto(f"{running.url}/#/keys")
    page.get_by_label("Admin key").wait_for()
    assert "/inspector/about" in asked
    assert [path for path in asked if path.startswith(("/inspector/turns", "/inspector/live", "/admin"))] == []


@pytest.mark.parametrize("scheme", THEMES)
def test_widths_and_themes(page: Page, running: Inspected, scheme: str) -> None:
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    open_tab(page, running, ROOT, "Providers")
    for width in (390, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        for tab, seen in (("Providers", "Groq"), ("Teams", "The whole organisation"), ("Configuration", "")):
            page.get_by_role("tab", name=tab).click()
            (row_of(page, seen) if seen else page.get_by_role("list", name="Problems")).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert serious(page) == []
