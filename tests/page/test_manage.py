"""Managing a gateway on the page: keys, teams, providers, servers that somebody adds, roles, the logs, and its owner."""

# ruff: noqa: PLR0915 — a story has as many steps as its user

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from penstock.gateway import App, Inspector
from penstock.testing import Reply, scripted
from tests.page.axe import serious
from tests.page.steps import appearances, drop_problems, drop_refusals, expect_fit, look
from tests.support.admin import BAD, GOOD, ROOT, SEER, USER, add_keys, bearer, configured, lab, write_providers
from tests.support.browser import SHOTS
from tests.support.gateway import events
from tests.support.inspector import Inspected, run_inspector
from tests.support.inspector_calls import CLIENT
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import httpx
    from playwright.sync_api import Locator, Page

    from penstock.testing import ReceivedRequest

TOML = "[aliases]\nfast = 'groq/llama-4'\nslow = 'nobody/x'\n\n[providers.groq]\nbase_url = 'http://127.0.0.1:1'\n"
KEEP, SEE_ALL = "Keep this key's turns for the inspector", "May see every key's turns"
TABS = ("Keys", "Teams", "Providers", "Usage", "Configuration", "Audit log")
UNENCRYPTED = "the key and all prompts and answers are sent unencrypted"


def odd_server(seen: ReceivedRequest) -> Reply:
    """`lab`, and beside it a page for people, an address that has moved, and a server that lists no models."""
    place = seen.path.split("/")[1]
    if place == "page":
        return Reply.body(b"<html><title>Log in</title></html>", headers={"content-type": "text/html"})
    if place == "moved":
        return Reply.body(b"", status=302, headers={"location": "https://login.example.com/"})
    if seen.path == "/bare/v1/messages":
        return Reply.of("anthropic", events(seen.json, seen.path), stream=False)
    return lab(seen)


@contextmanager
def managed(folder: Path, *, keyed: bool) -> Generator[Inspected]:
    """A gateway with a provider that has no key and one at a deep address; with an admin, a viewer and a user."""
    file = folder / "penstock.toml"
    file.write_text(TOML)
    if keyed:
        add_keys(folder)
    with scripted(odd_server) as up:
        accounts = {"groq": {"base_url": f"{up.url}/lab"}, "deep": {"base_url": f"{up.url}/open/deep/v1"}}
        app: Any = Inspector(App(configured(folder, up, path=file, **accounts)))
        with run_inspector(app) as found:
            found.up = up
            yield found


@pytest.fixture
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    for name in ("GROQ_API_KEY", "AZURE_RESOURCE_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def running(_environment: None, tmp_path: Path) -> Iterator[Inspected]:
    with managed(tmp_path, keyed=True) as found:
        yield found


@pytest.fixture
def unkeyed(_environment: None, tmp_path: Path) -> Iterator[Inspected]:
    with managed(tmp_path, keyed=False) as found:
        yield found


def ask(running: Inspected, path: str, method: str = "GET", by: str = ROOT, **body: Any) -> httpx.Response:
    url = f"{running.url}/admin/{path}"
    return CLIENT.request(method, url, json=body or None, headers=bearer(by))


def do(running: Inspected, path: str, method: str = "GET", **body: Any) -> Any:
    reply = ask(running, path, method, **body).raise_for_status()
    return reply.json() if reply.content else None


def use(running: Inspected, key: str, model: str = "openai-chat/text") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    return CLIENT.post(f"{running.url}/v1/chat/completions", json=body, headers=bearer(key)).status_code


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Admin key").fill(key)
    page.keyboard.press("Enter")


def open_tab(page: Page, running: Inspected, key: str, tab: str) -> Locator:
    """Returns the dialogs of the page."""
    page.goto(f"{running.url}/#/keys")
    sign_in(page, key)
    page.get_by_role("tab", name=tab).click()
    return page.get_by_role("dialog")


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(f"^{name}")))


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def fill(dialog: Locator, **values: str) -> None:
    for label, value in values.items():
        dialog.get_by_label(re.compile(f"^{label.replace('_', ' ')}", re.IGNORECASE)).fill(value)


def said(dialog: Locator) -> Locator:
    return dialog.get_by_role("alert")


def expect_changes(page: Page, *actions: str) -> None:
    """The newest rows of the audit log."""
    page.get_by_role("tab", name="Audit log").click()
    found = page.get_by_role("table", name="Changes").get_by_role("rowheader")
    expect(found.nth(len(actions) - 1)).to_be_visible()
    assert found.all_inner_texts()[: len(actions)] == list(actions)


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png")


def take_secret(page: Page) -> str:
    secret = page.get_by_label("Secret", exact=True).input_value()
    press(page, "Done")
    expect(page.get_by_label("Secret", exact=True)).to_have_count(0)
    assert secret not in page.content()
    return secret


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_admin_adds_uses_edits_rotates_and_revokes_keys(page: Page, running: Inspected, problems: list[str]) -> None:
    do(running, "teams", "POST", name="lab", limits={"week_requests": 500})
    dialog = open_tab(page, running, ROOT, "Keys")
    expect(page.get_by_text("Signed in with the key root, which has the role admin")).to_be_visible()
    page.get_by_role("button", name="Add a key").focus()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    fill(dialog, name="a/b")
    press(dialog, "Add")
    expect(said(dialog)).to_contain_text("is not allowed in a name")
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    fill(dialog, name=" ci ", requests_a_day="5", tenant="acme")
    dialog.get_by_label("Team").select_option("lab")
    dialog.get_by_label(KEEP).check()
    dialog.get_by_label(SEE_ALL).check()
    assert serious(page, "dialog[open]") == []
    dialog.get_by_label("Name").press("Enter")
    secret = take_secret(page)
    assert use(running, secret) == 200
    press(page, "Refresh")
    row = row_of(page, "ci")
    expect(row).to_contain_text("1 of 5 requests a day")
    expect(row).to_contain_text(re.compile("ci tenant acme.*its turns are kept.*sees every key's turns", re.DOTALL))
    assert serious(page) == []
    made = do(running, "keys/ci")
    assert (made["inspect_keep"], made["inspect"], made["tenant"]) == (True, "all", "acme")
    press(page, "Edit ci")
    expect(dialog.get_by_label(KEEP)).to_be_checked()
    dialog.get_by_label(SEE_ALL).uncheck()
    fill(dialog, requests_a_day="-1")
    press(dialog, "Save")
    expect(said(dialog)).to_contain_text("Requests a day: Expected a number of at least 0")
    fill(dialog, requests_a_day="7")
    press(dialog, "Save")
    expect(row).to_contain_text("1 of 7 requests a day")
    expect(row).not_to_contain_text("sees every")
    made = do(running, "keys/ci")
    assert (made["inspect_keep"], made["inspect"]) == (True, "own")
    press(page, "Rotate ci")
    press(dialog, "Rotate")
    fresh = take_secret(page)
    assert [use(running, secret), use(running, fresh)] == [401, 200]
    press(page, "Revoke ci")
    press(dialog, "Revoke")
    expect(row).to_have_count(0)
    assert use(running, fresh) == 401
    page.get_by_role("tab", name="Teams").click()
    expect(page.get_by_role("table", name="Teams")).to_contain_text("2 of 500 requests a week")
    expect_changes(page, "key.revoke", "key.rotate", "key.edit", "key.add", "team.add")
    edited = page.get_by_role("table", name="Changes").get_by_role("row").nth(3)
    expect(edited).to_contain_text(re.compile("key:root\\s*key[.]edit\\s*ci"))
    expect(edited).to_contain_text("inspect: all → \N{EN DASH}")
    # A time that has passed stops a key.
    page.get_by_role("tab", name="Keys").click()
    for expires, shown, status in (("2020-01-31T12:00", "expired", 401), ("", "never", 200)):
        press(page, "Edit user")
        fill(dialog, expires=expires)
        press(dialog, "Save")
        expect(row_of(page, "user")).to_contain_text(shown)
        assert use(running, USER) == status
    for number in range(9):
        do(running, "keys", "POST", name=f"k{number}", note="the build" if number == 4 else "")
    press(page, "Refresh")
    page.get_by_label("Find a key").fill("BUILD")
    expect(page.get_by_role("table", name="Keys").get_by_role("rowheader")).to_have_text("k4")
    expect(page.get_by_text("1 of 12")).to_be_visible()
    press(page, "Sign out")
    expect(page.get_by_label("Admin key")).to_be_visible()
    assert page.evaluate("Object.values(sessionStorage).concat(Object.values(localStorage)).join()").find(ROOT) < 0
    drop_refusals(problems)


WRONG_KEYS = (
    ("Maximum tokens", "5e", "This is not a number"),  # a browser gives an empty text for these: no limit, never
    ("Expires", "12", "Enter the whole date and time"), ("Tokens a week", "1.5", "Expected a whole number"),
    ("Dollars in total", "1e12", "Expected a number of at most 1,000,000,000"), ("Name", "user", "There is a key"),
    ("Tenant", "t" * 129, "Expected at most 128 printable characters"),
)  # fmt: skip


def test_a_wrong_value_of_a_key_is_not_stored_and_has_the_focus(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    dialog = open_tab(page, running, ROOT, "Keys")
    for label, typed, words in WRONG_KEYS:
        press(page, "Add a key")
        fill(dialog, name="new")
        field = dialog.get_by_label(re.compile(f"^{label}"))
        field.focus()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.insert_text(typed) if len(typed) > 9 else page.keyboard.type(typed)
        press(dialog, "Add")
        expect(said(dialog)).to_contain_text(words)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    assert [key["name"] for key in do(running, "keys")["data"]] == ["root", "seer", "user"]
    drop_refusals(problems)


# ── teams and providers ───────────────────────────────────────────────────────────────────────────


def test_an_admin_adds_edits_and_removes_a_team(page: Page, running: Inspected, problems: list[str]) -> None:
    dialog = open_tab(page, running, ROOT, "Teams")
    press(page, "Add a team")
    fill(dialog, name="a/b")
    press(dialog, "Add")
    expect(said(dialog)).to_contain_text("is not allowed in a name")
    fill(dialog, name="lab", models="openai-chat/*", dollars_a_month="500")
    press(dialog, "Add")
    row = row_of(page, "lab")
    expect(row).to_contain_text("of $500.00 a month")
    expect(row).to_contain_text("openai-chat/*")
    press(page, "Edit lab")
    fill(dialog, dollars_a_month="-1")
    press(dialog, "Save")
    expect(said(dialog)).to_contain_text("Dollars a month: Expected a number of at least 0")
    assert serious(page, "dialog[open]") == []
    fill(dialog, dollars_a_month="20", note="research")
    press(dialog, "Save")
    expect(row).to_contain_text("of $20.00 a month")
    expect(row).to_contain_text("research")
    press(page, "Edit lab")  # two people at once
    do(running, "teams/lab", "PATCH", note="changed by another")
    fill(dialog, note="mine")
    press(dialog, "Save")
    expect(said(dialog)).to_contain_text("changed")
    assert do(running, "teams/lab")["note"] == "changed by another"
    press(dialog, "Cancel")
    press(page, "Edit the organisation")
    fill(dialog, requests_a_day="900")
    press(dialog, "Save")
    expect(row_of(page, "The whole organisation")).to_contain_text("of 900 requests a day")
    do(running, "keys", "POST", name="ci", team="lab")
    press(page, "Remove lab")
    press(dialog, "Remove")
    expect(said(dialog)).to_contain_text("the team 'lab' has 1 keys")
    do(running, "keys/ci", "DELETE")
    press(dialog, "Remove")
    expect(row).to_have_count(0)
    changes = ("team.remove", "key.revoke", "key.add", "organisation.edit", "team.edit", "team.edit", "team.add")
    expect_changes(page, *changes)
    drop_refusals(problems)


def test_an_admin_stores_tests_and_removes_the_key_of_a_provider(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    sent: list[str] = []
    page.on("response", lambda reply: sent.append(reply.text()) if "/admin/" in reply.url and reply.ok else None)
    dialog = open_tab(page, running, ROOT, "Providers")
    groq = row_of(page, "Groq")
    expect(groq).to_contain_text("none: it needs one")
    press(page, "Add a key of a provider")
    expect(dialog.get_by_role("button", name="Store")).to_be_disabled()
    dialog.get_by_label("Provider").select_option("azure")
    fill(dialog, key="azure-key-0123456789")
    press(dialog, "Store")  # the key is not blamed for a missing setting
    expect(said(dialog)).to_contain_text("Settings of a provider stand in penstock.toml. To store it")
    expect(dialog.get_by_label("Provider")).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "false")
    dialog.get_by_label("Provider").select_option("groq")
    expect(dialog).to_contain_text("https://console.groq.com/keys")
    fill(dialog, key=BAD)
    assert dialog.get_by_label("Key").get_attribute("type") == "password"
    press(dialog, "Store")
    expect(said(dialog)).to_contain_text("Groq refused the key")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    assert serious(page, "dialog[open]") == []
    fill(dialog, key=GOOD)
    press(dialog, "Store")
    expect(page.get_by_role("status").filter(has_text="The key of Groq is stored.")).to_be_visible()
    expect(groq).to_contain_text("stored …cdef")
    press(page, "Test Groq")
    expect(groq).to_contain_text("Groq answers: 2 models.")
    assert serious(page) == []
    press(page, "Remove key of Groq")
    press(dialog, "Remove")
    expect(groq).to_contain_text("none: it needs one")
    press(page, "Test Groq")
    expect(groq.locator(".provider-bad")).to_be_visible()
    expect_changes(page, "provider.remove-key", "provider.add-key")
    newest = page.get_by_role("table", name="Changes").get_by_role("row").nth(1)
    expect(newest).to_contain_text(re.compile(r"key:root\s*provider\.remove-key\s*groq"))
    page.get_by_role("tab", name="Configuration").click()
    listed = page.get_by_role("list", name="Problems").get_by_role("listitem")
    words = r"providers\.groq line 5: GROQ_API_KEY is not set: groq needs it as its key"
    expect(listed.filter(has_text="providers.groq")).to_have_text(re.compile(words))
    expect(page.get_by_text("penstock.toml")).to_be_visible()
    assert serious(page, "main") == []
    assert GOOD not in "".join(sent) + page.content()
    drop_refusals(problems)


# ── servers that somebody adds ────────────────────────────────────────────────────────────────────


def test_a_custom_provider_is_added_tested_edited_and_removed(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    sent: list[str] = []
    page.on("response", lambda reply: sent.append(reply.text()) if "/admin/" in reply.url and reply.ok else None)
    open_tab(page, running, ROOT, "Providers")
    expect(row_of(page, "deep")).to_contain_text(f"{running.up.url}/open/deep/v1")
    press(page, "Add a custom provider")
    dialog = page.get_by_role("dialog", name="Add a custom provider")
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    assert dialog.get_by_label("Key").get_attribute("type") == "password"
    fill(dialog, name="lab", address=f"{running.up.url}/lab/v1", title="The Lab", key=BAD)
    expect(dialog).to_contain_text("Its models are asked for as lab/model.")
    press(dialog, "Add")
    expect(said(dialog)).to_contain_text("The Lab refused the key")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    shoot(page, "custom-provider-refused")
    assert serious(page, "dialog[open]") == []
    fill(dialog, key=GOOD)
    page.keyboard.press("Enter")  # the form is sent with the keyboard
    expect(page.get_by_role("status").filter(has_text="The Lab is added.")).to_be_visible()
    row = row_of(page, "The Lab")
    expect(row).to_contain_text(f"{running.up.url}/lab/v1")
    expect(row).to_contain_text("stored …cdef")
    assert use(running, ROOT, "lab/text") == 200
    press(page, "Test The Lab")
    expect(row).to_contain_text("The Lab answers: 2 models.")
    shoot(page, "custom-provider-list")
    assert serious(page, "main") == []
    press(page, "Edit The Lab")
    dialog = page.get_by_role("dialog", name="Edit The Lab")
    expect(dialog.get_by_label("Address")).to_have_value(f"{running.up.url}/lab/v1")
    expect(dialog).to_contain_text("Empty: the stored one stays.")
    fill(dialog, title="Our Lab", models="tide-2\n\ntide-3\n")
    press(dialog, "Save")
    row = row_of(page, "Our Lab")
    expect(row).to_contain_text("stored …cdef")
    expect(row).not_to_contain_text("answers")  # what was tested is not this any more
    listed = CLIENT.get(f"{running.url}/v1/models", headers=bearer(ROOT)).json()["data"]
    assert [one["id"] for one in listed if one["id"].startswith("lab/")] == ["lab/tide-2", "lab/tide-3"]
    press(page, "Remove Our Lab")
    question = page.get_by_role("dialog", name="Remove Our Lab")
    expect(question).to_contain_text("forgets this provider and its key at once")
    shoot(page, "custom-provider-remove")
    assert serious(page, "dialog[open]") == []
    press(question, "Cancel")
    expect(row).to_be_visible()
    press(page, "Remove Our Lab")
    press(question, "Remove")
    expect(row).to_have_count(0)
    changes = ("remove-key", "remove", "edit", "add-key", "add")
    expect_changes(page, *(f"provider.{change}" for change in changes))
    assert GOOD not in "".join(sent) + page.content()
    drop_refusals(problems)


WRONG_SERVERS = (
    ("Name", "My Lab", "Expected 1 to 64 lower-case letters"), ("Name", "openai", "is OpenAI, which penstock knows"),
    ("Address", "localhost:8000", "oes not begin with http:// or https://"),
    ("Address", "http://169.254.169.254/v1", "only penstock.toml may name it"),
    ("Address", "http://127.0.0.1:1/v1", "could not be asked"),
    ("Title", "t" * 101, "too long"), ("Models", "m" * 1_025, "too long"),
)  # fmt: skip


def test_an_error_stands_at_its_field_and_says_what_to_do(page: Page, running: Inspected, problems: list[str]) -> None:
    dialog = open_tab(page, running, ROOT, "Providers")
    alert, good = said(dialog), {"name": "lab", "address": f"{running.up.url}/open/v1"}
    for label, value, words in WRONG_SERVERS:
        press(page, "Add a custom provider")
        fill(dialog, **{**good, label.lower(): value})
        press(dialog, "Add")
        expect(alert).to_contain_text(words)
        field = dialog.get_by_label(re.compile(f"^{label}"))
        expect(field).to_have_attribute("aria-invalid", "true")
        assert alert.get_attribute("id") in (field.get_attribute("aria-describedby") or "").split()
        assert not re.match(r"[a-z_]+: ", alert.inner_text())  # no name of a JSON field
        press(dialog, "Cancel")
    press(page, "Add a custom provider")
    for place, words in (("page", "the answer is no JSON"), ("moved", "has moved to https://login.example.com/")):
        fill(dialog, name="lab", address=f"{running.up.url}/{place}/v1")
        press(dialog, "Add")
        expect(alert).to_contain_text(words)
        expect(alert).to_contain_text(
            "Check that its API begins at this address. To store it all the same, leave out the test."
        )
        expect(alert).to_contain_text(re.compile("^lab could not be asked"))
    page.route("**/admin/**", lambda route: route.abort())
    press(dialog, "Add")
    expect(alert).to_have_text("The gateway does not answer.")
    expect(alert).to_be_focused()
    page.unroute("**/admin/**")
    dialog.get_by_label("Test it with one request").uncheck()
    press(dialog, "Add")
    expect(row_of(page, "lab")).to_contain_text(f"{running.up.url}/moved/v1")
    drop_problems(problems, "net::ERR_FAILED")
    drop_refusals(problems)


def test_a_model_is_asked_only_if_somebody_agrees_and_what_is_not_safe_is_pointed_out(
    page: Page, running: Inspected, problems: list[str], tmp_path: Path
) -> None:
    dialog = open_tab(page, running, ROOT, "Providers")
    press(page, "Add a custom provider")
    fill(dialog, name="bare", address=f"{running.up.url}/bare/v1")
    dialog.get_by_label("Behaves like").select_option("anthropic")
    press(dialog, "Add")
    expect(said(dialog)).to_contain_text("If the address is right, name one of its models")
    expect(dialog.get_by_label("Models")).to_be_focused()
    expect(dialog).to_contain_text("it asks the first model that is named above for an answer of at most 16 tokens")
    fill(dialog, models="text")
    press(dialog, "Add")
    row = row_of(page, "bare")
    expect(row).to_be_visible()
    assert use(running, ROOT, "bare/text") == 200
    running.up.requests.clear()
    press(page, "Test bare")
    expect(row).to_contain_text("it lists no models (404). To test it, ask text for an answer of at most 16 tokens.")
    assert [seen.method for seen in running.up.requests] == ["GET"]
    row.get_by_role("button", name="Ask text").click()
    expect(row).to_contain_text("bare answers: text answered.")
    # Words that are sent unencrypted are pointed out before and after.
    press(page, "Add a custom provider")
    fill(dialog, name="far", address="https://8.8.8.8:1/v1")
    expect(dialog.get_by_text(UNENCRYPTED)).to_have_count(0)
    fill(dialog, address="http://8.8.8.8:1/v1")
    expect(dialog.get_by_text(UNENCRYPTED)).to_be_visible()
    dialog.get_by_label("Test it with one request").uncheck()
    press(dialog, "Add")
    expect(row_of(page, "far")).to_contain_text(UNENCRYPTED)
    # Another address removes the key; and somebody else changes it meanwhile.
    do(running, "custom-providers", "POST", name="lab", base_url=f"{running.up.url}/lab/v1", key=GOOD)
    press(page, "Refresh")
    press(page, "Edit lab")
    fill(dialog, address="http://127.0.0.1:1/v1")
    expect(dialog).to_contain_text(f"The stored one is for {running.up.url} only, and is removed.")
    dialog.get_by_label("Test it with one request").uncheck()
    press(dialog, "Save")
    expect(row_of(page, "lab").get_by_role("cell", name="none", exact=True)).to_be_visible()
    press(page, "Edit lab")
    do(running, "custom-providers/lab", "PUT", base_url=f"{running.up.url}/open/v1", title="Theirs")
    fill(dialog, title="Mine")
    press(dialog, "Save")
    expect(said(dialog)).to_contain_text("was changed by somebody else meanwhile")
    press(dialog, "Cancel")
    (tmp_path / "custom-providers.json").write_text("{")
    press(page, "Add a custom provider")
    fill(dialog, name="new", address=f"{running.up.url}/open/v1")
    press(dialog, "Add")
    expect(said(dialog)).to_contain_text("repair it, or delete it and add the providers again")
    press(dialog, "Cancel")
    until(lambda: "custom-providers.json" in ask(running, "providers").text)  # it is read within a second
    press(page, "Refresh")
    expect(page.get_by_role("alert")).to_contain_text("custom-providers.json")
    drop_refusals(problems)


# ── who is signed in ──────────────────────────────────────────────────────────────────────────────


def test_a_user_does_not_get_in_and_a_viewer_looks_and_changes_nothing(
    page: Page, running: Inspected, problems: list[str], tmp_path: Path
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(running.url)))
    page.goto(f"{running.url}/#/keys")
    expect(page.get_by_label("Admin key")).to_be_focused()
    assert "/inspector/about" in asked
    assert [path for path in asked if path.startswith(("/inspector/turns", "/inspector/live", "/admin"))] == []
    page.goto("about:blank")
    page.goto(f"{running.url}/#key={USER}&to=keys")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("the key 'user' has the role user, and this needs viewer or admin")
    expect(page.get_by_text("the role viewer (to look) or admin (to change things too)")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_count(0)
    expect(page.get_by_label("Admin key")).to_be_focused()
    page.keyboard.type(SEER)
    page.keyboard.press("Enter")
    expect(page.get_by_text("you can look, and change nothing. To add, edit, test or remove something")).to_be_visible()
    do(running, "keys/user", "PATCH", limits={"day_requests": 10})
    page.reload()
    expect(page.get_by_text("Signed in with the key seer, which has the role viewer")).to_be_visible()
    expect(page.get_by_role("table", name="Keys")).to_contain_text("0 of 10 requests a day")
    main, good = page.locator("main"), f"{running.up.url}/open/v1"
    row = {"base_url": good, "like": "vllm", "title": "The Lab"}
    write_providers(tmp_path, {"lab": row, "odd": {**row, "base_url": "http://169.254.169.254", "title": "Odd"}})
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        page.get_by_role("region", name=tab).wait_for()
        names = set(main.get_by_role("button").all_inner_texts())
        assert names <= {"Sign out", "Refresh", "Check again", "Download"}, tab
    page.get_by_role("tab", name="Teams").click()
    expect(row_of(page, "The whole organisation")).to_be_visible()
    page.get_by_role("tab", name="Providers").click()
    expect(row_of(page, "Groq")).to_be_visible()
    while not row_of(page, "The Lab").count():  # another process has written the file: it is read within a second
        press(main, "Refresh")
        page.wait_for_load_state("networkidle")
    expect(row_of(page, "Odd")).to_contain_text("not used: base_url: 169.254.169.254 is link-local")
    assert main.get_by_role("button").all_inner_texts() == ["Sign out", "Refresh"]
    for method, path in (("POST", "providers"), ("POST", "providers/groq/test"), ("POST", "teams"),
                         ("PATCH", "organisation")):  # fmt: skip
        refused = ask(running, path, method, SEER, name="groq", key=GOOD)
        assert refused.status_code == 403
        assert "has the role viewer, and this needs admin" in refused.json()["error"]["message"]
    do(running, "keys/seer", "DELETE")
    press(main, "Refresh")
    expect(alert).to_contain_text("not valid any more")
    # An admin who becomes a viewer loses the buttons.
    do(running, "keys", "POST", name="second", role="admin")
    dialog = open_tab(page, running, ROOT, "Teams")
    press(page, "Add a team")
    fill(dialog, name="lab")
    do(running, "keys/root", "PATCH", role="viewer")
    press(dialog, "Add")
    expect(page.get_by_text("which has the role viewer")).to_be_visible()
    expect(page.get_by_role("button", name="Add a team")).to_have_count(0)
    drop_refusals(problems)


def ask_with_token(running: Inspected, method: str, path: str, token: str, **headers: str) -> int:
    given = {"x-penstock-session-token": token, **headers} if token else headers
    body = {"name": "groq", "key": GOOD}
    return CLIENT.request(method, f"{running.url}/admin/{path}", headers=given, json=body).status_code


def test_the_owner_of_a_gateway_without_keys_manages_providers(page: Page, unkeyed: Inspected) -> None:
    token = unkeyed.inspector.session_token
    page.goto(f"{unkeyed.url}/#session={token}")
    page.get_by_role("link", name="Manage").click()
    expect(page.get_by_text("This gateway has no keys: you are its owner")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_text(["Providers", "Configuration", "Audit log"])
    press(page, "Add key of Groq")
    dialog = page.get_by_role("dialog")
    fill(dialog, key=GOOD)
    press(dialog, "Store")
    expect(row_of(page, "Groq")).to_contain_text("stored …cdef")
    assert serious(page, "main") == []
    press(page, "Add a custom provider")
    fill(dialog, name="lab", address=f"{unkeyed.up.url}/open/v1")
    press(dialog, "Add")
    expect(row_of(page, "lab").get_by_role("cell", name="none", exact=True)).to_be_visible()
    for path in ("me", "providers", "check", "audit"):
        assert [ask_with_token(unkeyed, "GET", path, one) for one in ("", "x" * 32, token)] == [401, 401, 200]
    assert [ask_with_token(unkeyed, "POST", "providers", one) for one in ("", "x" * 32, token)] == [401, 401, 201]
    for method, path in (("GET", "keys"), ("POST", "keys"), ("GET", "teams"), ("POST", "teams"), ("GET", "usage"),
                         ("PATCH", "organisation"), ("GET", "nothing")):  # fmt: skip
        assert ask_with_token(unkeyed, method, path, token) == 401, path
    remove = ("DELETE", "providers/groq", token)
    assert ask_with_token(unkeyed, *remove, origin="http://evil.example") == 403
    assert ask_with_token(unkeyed, *remove, forwarded="for=1.2.3.4") == 401  # behind a proxy
    headers = {"x-penstock-session-token": token}
    rows = CLIENT.get(f"{unkeyed.url}/admin/audit", headers=headers).json()["data"]
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("session", f"provider.{action}") for action in ("add-key", "add", "add-key")
    ]


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_audit_log_is_read_and_downloaded_whole_and_usage_is_that_of_all(page: Page, running: Inspected) -> None:
    token = running.inspector.session_token  # with keys it is not enough
    assert [ask_with_token(running, "GET", path, token) for path in ("me", "providers", "check")] == [401, 401, 401]
    for number in range(120):
        do(running, "keys/user", "PATCH", limits={"day_cost": number + 1})
    open_tab(page, running, SEER, "Audit log")
    rows = page.get_by_role("table", name="Changes").locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("limits.day_cost: 119 → 120")
    with page.expect_download() as download:
        press(page, "Download")
    assert download.value.suggested_filename == "penstock-audit.jsonl"
    found = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [row["id"] for row in found] == list(range(1, 124))
    assert found[-3:] == do(running, "audit?limit=3")["data"][::-1]
    press(page, "Show older rows")
    expect(rows.nth(119)).to_be_visible()
    before = rows.count()
    do(running, "keys/user", "PATCH", limits={"day_cost": 999})
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(rows).to_have_count(before + 1)  # older rows stay when new ones come
    do(running, "teams", "POST", name="lab")
    do(running, "keys/root", "PATCH", team="lab")
    assert use(running, ROOT) == 200
    page.get_by_role("tab", name="Usage").click()
    keys = page.get_by_role("table", name="Usage by key")
    expect(keys.get_by_role("row").nth(1)).to_contain_text(re.compile(r"root\s*1\s*0\s*0"))
    expect(page.get_by_label("Period")).to_have_value("86400")
    page.get_by_label("Group by").select_option("team")
    expect(page.get_by_role("table", name="Usage by team").get_by_role("rowheader")).to_have_text("lab")
    assert serious(page, "main") == []


@appearances
def test_every_tab_and_form_fits(
    page: Page, running: Inspected, problems: list[str], theme: Literal["dark", "light"], width: int
) -> None:
    long = f"http://{'long-name-of-a-machine.' * 5}example.com:8000/v1/{'path/' * 12}"
    for name, url in (("lab", f"{running.up.url}/open/v1"), ("far", long)):
        do(running, "custom-providers", "POST", name=name, base_url=url, check=False, title=f"The {name} of us all")
    dialog = open_tab(page, running, ROOT, "Configuration")
    look(page, theme, width)
    page.get_by_role("list", name="Problems").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for tab, row in (("Teams", "The whole organisation"), ("Providers", "The far")):
        page.get_by_role("tab", name=tab).click()
        row_of(page, row).wait_for()
        expect_fit(page)
    shoot(page, f"custom-provider-{theme}-{width}")
    press(page, "Add a custom provider")
    fill(dialog, name="No", address="http://example.com/v1", models="a\nb")
    press(dialog, "Add")
    said(dialog).wait_for()
    shoot(page, f"custom-provider-form-{theme}-{width}")
    assert dialog.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert serious(page, "dialog[open]") == []
    drop_refusals(problems)
