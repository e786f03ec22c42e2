"""The forms and words of the page Manage, in a real browser: what keys may do, wrong values, roles, tests, the logs."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from penstock._engines.environ import LIVE
from penstock._gateway.key_editor import KeyEditor
from penstock._store.postgres_keys import PostgresKeyStore
from penstock.gateway import App, Inspector
from penstock.testing import Reply, scripted
from tests.gateway.test_admin_api import ROOT, SEER, USER, bearer
from tests.gateway.test_custom_providers import add_keys, configured, lab
from tests.page.axe import serious
from tests.page.test_custom_provider_view import ask_model, fill
from tests.page.test_manage_view import drop_refusals, open_tab, row_of
from tests.support.gateway import LIMIT, events, hash_key
from tests.support.inspector import Inspected, inspected, run_inspector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from penstock.testing import ReceivedRequest

KEEP, SEE_ALL = "Keep this key's turns for the inspector", "May see every key's turns"


def odd_server(seen: ReceivedRequest) -> Reply:
    """`lab`, and beside it a page for people, an address that has moved, and a failure."""
    place = seen.path.split("/")[1]
    if place == "page":
        return Reply.body(b"<html><title>Log in</title></html>", headers={"content-type": "text/html"})
    if place == "moved":
        return Reply.body(b"", status=302, headers={"location": "https://login.example.com/"})
    if seen.path == "/bare/v1/messages":
        return Reply.of("anthropic", events(seen.json, seen.path), stream=False)
    return lab(seen)


@pytest.fixture(params=["file"])
def running(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspected]:
    """A gateway whose keys are in a file. With the parameter `postgres` they are in PostgreSQL."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("AZURE_RESOURCE_NAME", raising=False)
    stores = {}
    if request.param == "postgres":
        stores = {"postgres": request.getfixturevalue("postgres_url")}
        with closing(PostgresKeyStore(stores.postgres)) as store:
            KeyEditor(store, "test").add("root", {"hash": hash_key(ROOT), "role": "admin"})
    else:
        add_keys(tmp_path)
    with scripted(odd_server) as up:
        deep = {"base_url": f"{up.url}/open/deep/v1"}
        with run_inspector(
            Inspector(App(replace(configured(tmp_path, up, deep=deep), stores=stores), env=LIVE))
        ) as found:
            found.up = up
            yield found


def ask(running: Inspected, path: str, method: str = "GET", **body: Any) -> Any:
    reply = httpx.request(method, f"{running.url}/admin/{path}", json=body or None, headers=bearer(ROOT), timeout=LIMIT)
    return reply.raise_for_status().json()


# ── what a key may do ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("running", ["file", "postgres"], indirect=True)
def test_an_admin_sets_what_the_inspector_does_with_a_key(page: Page, running: Inspected) -> None:
    open_tab(page, running, ROOT, "Keys")
    page.get_by_role("button", name="Add a key").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    dialog.get_by_label("Name").fill(" ci ")
    dialog.get_by_label(KEEP).check()
    dialog.get_by_label(SEE_ALL).check()
    dialog.get_by_label("Tenant").fill("acme")
    assert serious(page) == []
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_role("button", name="Done").click()
    row = row_of(page, "ci")
    expect(row).to_contain_text(re.compile("ci tenant acme.*its turns are kept.*sees every key's turns", re.DOTALL))
    made = ask(running, "keys/ci")
    assert (made["inspect_keep"], made["inspect"], made["tenant"]) == (True, "all", "acme")
    page.get_by_role("button", name="Edit ci").click()
    expect(dialog.get_by_label(KEEP)).to_be_checked()
    dialog.get_by_label(SEE_ALL).uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(row).not_to_contain_text("sees every")
    made = ask(running, "keys/ci")
    assert (made["inspect_keep"], made["inspect"]) == (True, "own")
    page.get_by_role("tab", name="Audit log").click()
    newest = page.get_by_role("table", name="Changes").get_by_role("row").nth(1)
    expect(newest).to_contain_text(re.compile("key:root\\s*key[.]edit\\s*ci\\s*inspect: all → \N{EN DASH}"))


def test_a_time_that_has_passed_stops_a_key(page: Page, running: Inspected) -> None:
    assert ask_as(running, USER) == 200
    open_tab(page, running, ROOT, "Keys")
    page.get_by_role("button", name="Edit user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Expires").fill("2020-01-31T12:00")
    dialog.get_by_role("button", name="Save").click()
    expect(row_of(page, "user")).to_contain_text("expired")
    assert ask_as(running, USER) == 401
    page.get_by_role("button", name="Edit user").click()
    dialog.get_by_label("Expires").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(row_of(page, "user")).to_contain_text("never")
    assert ask_as(running, USER) == 200


def ask_as(running: Inspected, key: str) -> int:
    return httpx.get(f"{running.url}/v1/models", headers=bearer(key), timeout=LIMIT).status_code


def test_one_key_of_many_is_found(page: Page, running: Inspected) -> None:
    for number in range(9):
        ask(running, "keys", "POST", name=f"k{number}", note="the build" if number == 4 else "")
    open_tab(page, running, ROOT, "Keys")
    page.get_by_label("Find a key").fill("BUILD")
    expect(page.get_by_role("table", name="Keys").get_by_role("rowheader")).to_have_text("k4")
    expect(page.get_by_text("1 of 12")).to_be_visible()


# ── wrong values ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("label", "typed", "words"),
    [
        ("Maximum tokens", "5e", "This is not a number"),  # a browser gives an empty text for these: no limit, never
        ("Expires", "12", "Enter the whole date and time"), ("Tokens a week", "1.5", "Expected a whole number"),
        ("Dollars in total", "1e12", "Expected a number of at most 1,000,000,000"), ("Name", "user", "There is a key"),
        ("Tenant", "t" * 129, "Expected at most 128 printable characters"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_not_stored_and_has_the_focus(
    page: Page, running: Inspected, problems: list[str], label: str, typed: str, words: str
) -> None:
    open_tab(page, running, ROOT, "Keys")
    page.get_by_role("button", name="Add a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("new")
    field = dialog.get_by_label(re.compile(f"^{label}"))
    field.focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(typed) if len(typed) > 9 else page.keyboard.type(typed)
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text(words)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    assert [key["name"] for key in ask(running, "keys")["data"]] == ["root", "seer", "user"]
    drop_refusals(problems)


def test_a_server_that_is_none_says_what_to_do(page: Page, running: Inspected, problems: list[str]) -> None:
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    for place, words in (("page", "the answer is no JSON"), ("moved", "has moved to https://login.example.com/")):
        fill(dialog, name="lab", address=f"{running.up.url}/{place}/v1")
        dialog.get_by_role("button", name="Add").click()
        expect(dialog.get_by_role("alert")).to_contain_text(words)
        expect(dialog.get_by_role("alert")).to_contain_text(
            "Check that its API begins at this address. To store it all the same, leave out the test."
        )
        expect(dialog.get_by_role("alert")).to_contain_text(re.compile("^lab could not be asked"))
    page.route("**/admin/**", lambda route: route.abort())
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_have_text("The gateway does not answer.")
    expect(dialog.get_by_role("alert")).to_be_focused()
    page.unroute("**/admin/**")
    dialog.get_by_label("Test it with one request").uncheck()
    dialog.get_by_role("button", name="Add").click()
    expect(row_of(page, "lab")).to_contain_text(f"{running.up.url}/moved/v1")
    problems[:] = [one for one in problems if "net::ERR_FAILED" not in one]
    drop_refusals(problems)


def test_a_key_is_not_blamed_for_a_missing_setting(page: Page, running: Inspected, problems: list[str]) -> None:
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a key of a provider").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Provider").select_option("azure")
    dialog.get_by_label("Key").fill("azure-key-0123456789")
    dialog.get_by_role("button", name="Store").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Settings of a provider stand in penstock.toml. To store it")
    expect(dialog.get_by_label("Provider")).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "false")
    drop_refusals(problems)


# ── tests of servers ──────────────────────────────────────────────────────────────────────────────


def test_a_model_is_asked_only_if_somebody_agrees(page: Page, running: Inspected, problems: list[str]) -> None:
    open_tab(page, running, ROOT, "Providers")
    expect(row_of(page, "deep")).to_contain_text(f"{running.up.url}/open/deep/v1")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    fill(dialog, name="bare", address=f"{running.up.url}/bare/v1")
    dialog.get_by_label("Behaves like").select_option("anthropic")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("If the address is right, name one of its models")
    expect(dialog.get_by_label("Models")).to_be_focused()
    expect(dialog).to_contain_text("it asks the first model that is named above for an answer of at most 16 tokens")
    fill(dialog, models="text")
    dialog.get_by_role("button", name="Add").click()
    row = row_of(page, "bare")
    expect(row).to_be_visible()
    assert ask_model(running, "bare/text") == 200
    running.up.requests.clear()
    page.get_by_role("button", name="Test bare").click()
    expect(row).to_contain_text("it lists no models (404). To test it, ask text for an answer of at most 16 tokens.")
    assert [seen.method for seen in running.up.requests] == ["GET"]
    row.get_by_role("button", name="Ask text").click()
    expect(row).to_contain_text("bare answers: text answered.")
    assert serious(page) == []
    drop_refusals(problems)


# ── who is signed in ──────────────────────────────────────────────────────────────────────────────


def test_a_key_without_a_role_is_named_with_what_it_lacks(page: Page, running: Inspected, problems: list[str]) -> None:
    page.goto(f"{running.url}/#key={USER}&to=keys")
    expect(page.get_by_role("alert")).to_contain_text(
        "the key 'user' has the role user, and this needs viewer or admin"
    )
    expect(page.get_by_text("the role viewer (to look) or admin (to change things too)")).to_be_visible()
    expect(page.get_by_label("Admin key")).to_be_focused()
    page.keyboard.type(SEER)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Signed in with the key seer, which has the role viewer")).to_be_visible()
    for tab in ("Keys", "Teams", "Providers", "Usage", "Configuration", "Audit log"):
        page.get_by_role("tab", name=tab).click()
        page.get_by_role("region", name=tab).wait_for()
        names = set(page.locator("main").get_by_role("button").all_inner_texts())
        assert names <= {"Sign out", "Refresh", "Check again", "Download"}, tab
    drop_refusals(problems)


def test_an_admin_who_becomes_a_viewer_loses_the_buttons(page: Page, running: Inspected, problems: list[str]) -> None:
    ask(running, "keys", "POST", name="second")
    open_tab(page, running, ROOT, "Teams")
    page.get_by_role("button", name="Add a team").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("lab")
    ask(running, "keys/root", "PATCH", role="viewer")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_text("which has the role viewer")).to_be_visible()
    expect(page.get_by_role("button", name="Add a team")).to_have_count(0)
    drop_refusals(problems)


def test_the_field_for_a_key_has_the_focus(page: Page, running: Inspected, problems: list[str]) -> None:
    page.goto(f"{running.url}/#/streams")
    expect(page.get_by_role("textbox", name="Key")).to_be_focused()
    with inspected(without_session=True) as open_gateway:
        page.goto(f"{open_gateway.url}/#/streams")
        expect(page.get_by_role("textbox", name="Link or token")).to_be_focused()
    drop_refusals(problems)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────


def test_older_rows_of_the_audit_log_stay_when_new_ones_come(page: Page, running: Inspected) -> None:
    for number in range(120):
        ask(running, "keys/user", "PATCH", limits={"day_cost": number + 1})
    open_tab(page, running, SEER, "Audit log")
    rows = page.get_by_role("table", name="Changes").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show older rows").click()
    expect(rows.nth(119)).to_be_visible()
    before = rows.count()
    ask(running, "keys/user", "PATCH", limits={"day_cost": 999})
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(rows).to_have_count(before + 1)


def test_the_audit_log_is_downloaded_whole(page: Page, running: Inspected) -> None:
    for number in range(3):
        ask(running, "keys/user", "PATCH", limits={"day_cost": number + 1})
    open_tab(page, running, SEER, "Audit log")
    newest = page.get_by_role("table", name="Changes").get_by_role("row").nth(1)
    expect(newest).to_contain_text("limits.day_cost: 2 → 3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "penstock-audit.jsonl"
    rows = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows == ask(running, "audit")["data"][::-1]


def test_usage_of_all_keys_and_teams(page: Page, running: Inspected) -> None:
    ask(running, "teams", "POST", name="lab")
    ask(running, "keys/root", "PATCH", team="lab")
    assert ask_model(running, "openai-chat/text") == 200
    open_tab(page, running, SEER, "Usage")
    keys = page.get_by_role("table", name="Usage by key")
    expect(keys.get_by_role("row").nth(1)).to_contain_text(re.compile(r"root\s*1\s*0\s*0"))
    expect(page.get_by_label("Period")).to_have_value("86400")
    page.get_by_label("Group by").select_option("team")
    expect(page.get_by_role("table", name="Usage by team").get_by_role("rowheader")).to_have_text("lab")
    assert serious(page) == []
