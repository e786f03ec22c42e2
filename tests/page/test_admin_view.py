"""The view of keys, in a real browser: a key is added, used, rotated and revoked; a viewer only looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from tests.gateway.test_keys import KeyFile, key_file
from tests.page.axe import serious
from tests.support.client_requests import ASKING
from tests.support.gateway import LIMIT, hash_key
from tests.support.inspector import inspected
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected

ROOT, SEER, USER = "pk-penstock-of-root", "pk-penstock-of-seer", "pk-penstock-of-user"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Inspected]:
    keys = key_file(tmp_path)
    keys.add("root", {"hash": hash_key(ROOT), "role": "admin"})
    keys.add("seer", {"hash": hash_key(SEER), "role": "viewer"})
    keys.add("user", {"hash": hash_key(USER), "limits": {"day_requests": 10}})
    with inspected(data=tmp_path, teams={"lab": {"limits": {"week_requests": 500}}}) as running:
        yield running


def use(running: Inspected, key: str) -> int:
    path, body = ASKING["openai-chat"]("openai-chat/text", False)
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(running.url + path, json=body, headers=headers, timeout=LIMIT).status_code


def sign_in(page: Page, running: Inspected, key: str) -> None:
    page.goto(f"{running.url}/#/keys")
    page.get_by_label("Admin key").fill(key)
    page.keyboard.press("Enter")


def take_secret(page: Page) -> str:
    secret = page.get_by_label("Secret", exact=True).input_value()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_label("Secret", exact=True)).to_have_count(0)
    assert secret not in page.content()
    return secret


def drop_refusals(problems: list[str]) -> None:
    """The console names refused requests, which these tests ask for."""
    problems[:] = [one for one in problems if "Failed to load resource" not in one]


def test_an_admin_adds_uses_edits_rotates_and_revokes_a_key(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    sign_in(page, running, ROOT)
    expect(page.get_by_text("Signed in with the key root, which has the role admin")).to_be_visible()
    page.get_by_role("button", name="Add a key").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("a/b")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not allowed in a name")
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    assert serious(page) == []
    dialog.get_by_label("Name").fill("ci")
    dialog.get_by_label("Team").select_option("lab")
    dialog.get_by_label("Requests a day").fill("5")
    page.keyboard.press("Enter")
    secret = take_secret(page)
    assert use(running, secret) == 200
    page.get_by_role("button", name="Refresh").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="ci", exact=True))
    expect(row).to_contain_text("1 of 5 requests a day")
    assert serious(page) == []
    page.get_by_role("button", name="Edit ci").click()
    dialog.get_by_label("Requests a day").fill("-1")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Requests a day: Expected a number of at least 0")
    dialog.get_by_label("Requests a day").fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("1 of 7 requests a day")
    page.get_by_role("button", name="Rotate ci").click()
    dialog.get_by_role("button", name="Rotate").click()
    fresh = take_secret(page)
    assert [use(running, secret), use(running, fresh)] == [401, 200]
    page.get_by_role("button", name="Revoke ci").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert use(running, fresh) == 401
    page.get_by_role("tab", name="Teams").click()
    expect(page.get_by_role("table", name="Teams")).to_contain_text("2 of 500 requests a week")
    page.get_by_role("tab", name="Audit log").click()
    expect(page.get_by_role("table", name="Changes").get_by_role("row").nth(1)).to_contain_text("key:root")
    assert serious(page) == []
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin key")).to_be_visible()
    assert page.evaluate("Object.values(sessionStorage).concat(Object.values(localStorage)).join()").find(ROOT) < 0
    drop_refusals(problems)


def test_a_viewer_sees_and_changes_nothing_and_a_user_does_not_get_in(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    sign_in(page, running, USER)
    expect(page.get_by_role("alert")).to_contain_text("has the role user")
    page.get_by_label("Admin key").fill(SEER)
    page.keyboard.press("Enter")
    expect(page.get_by_text("you can look, and change nothing. To add, edit, test or remove something")).to_be_visible()
    expect(page.get_by_role("table", name="Keys")).to_contain_text("0 of 10 requests a day")
    assert page.locator("main").get_by_role("button").all_inner_texts() == ["Sign out", "Refresh"]
    page.reload()
    expect(page.get_by_text("Signed in with the key seer, which has the role viewer")).to_be_visible()
    expect(page.get_by_role("table", name="Keys")).to_contain_text("0 of 10 requests a day")  # it has asked for all
    key_file_of(running).revoke("seer")
    until(lambda: use(running, SEER) == 401)  # the gateway has seen it
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid any more")
    drop_refusals(problems)


def key_file_of(running: Inspected) -> KeyFile:
    folder = running.app.app.services.config.data
    assert folder is not None
    return key_file(folder)
