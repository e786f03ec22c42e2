"""Custom providers on the page Manage, in a real browser: added, tested, edited and removed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from penstock._engines.environ import LIVE
from penstock._store.custom_providers import CustomProvider, CustomProvidersFile
from penstock.gateway import App, Inspector
from penstock.testing import scripted
from tests.gateway.test_admin_api import ROOT, SEER, bearer
from tests.gateway.test_custom_providers import BAD, GOOD, add_keys, configured, lab
from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.page.test_manage_view import drop_refusals, open_tab, row_of
from tests.support.browser import SHOTS
from tests.support.gateway import LIMIT
from tests.support.inspector import Inspected, run_inspector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page


@pytest.fixture(params=[True])
def running(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspected]:
    """A gateway before a server that can be added. With the parameter False it has no keys."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    if request.param:
        add_keys(tmp_path)
    with scripted(lab) as up, run_inspector(Inspector(App(configured(tmp_path, up), env=LIVE))) as found:
        found.up = up
        yield found


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png")


def fill(dialog: Locator, **values: str) -> None:
    for label, value in values.items():
        dialog.get_by_label(re.compile(f"^{label}", re.IGNORECASE)).fill(value)


def ask_model(running: Inspected, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    return httpx.post(f"{running.url}/v1/chat/completions", json=body, headers=bearer(ROOT), timeout=LIMIT).status_code


def test_a_custom_provider_is_added_tested_edited_and_removed(
    page: Page, running: Inspected, problems: list[str]
) -> None:
    sent: list[str] = []
    page.on("response", lambda reply: sent.append(reply.text()) if "/admin/" in reply.url and reply.ok else None)
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog", name="Add a custom provider")
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    assert dialog.get_by_label("Key").get_attribute("type") == "password"
    assert serious(page) == []
    fill(dialog, name="lab", address=f"{running.up.url}/lab/v1", title="The Lab", key=BAD)
    expect(dialog).to_contain_text("Its models are asked for as lab/model.")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The Lab refused the key")
    expect(dialog.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    shoot(page, "custom-provider-refused")
    assert serious(page) == []
    fill(dialog, key=GOOD)
    page.keyboard.press("Enter")  # the form is sent with the keyboard
    expect(page.get_by_role("status").filter(has_text="The Lab is added.")).to_be_visible()
    row = row_of(page, "The Lab")
    expect(row).to_contain_text(f"{running.up.url}/lab/v1")
    expect(row).to_contain_text("stored …cdef")
    assert ask_model(running, "lab/text") == 200
    page.get_by_role("button", name="Test The Lab").click()
    expect(row).to_contain_text("The Lab answers: 2 models.")
    shoot(page, "custom-provider-list")
    assert serious(page) == []
    edit_lab(page, running)
    remove_lab(page)
    page.get_by_role("tab", name="Audit log").click()
    actions = page.get_by_role("table", name="Changes").get_by_role("rowheader")
    for place, action in enumerate(("remove-key", "remove", "edit", "add-key", "add")):
        expect(actions.nth(place)).to_have_text(f"provider.{action}")
    assert GOOD not in "".join(sent) + page.content()
    drop_refusals(problems)


def edit_lab(page: Page, running: Inspected) -> None:
    page.get_by_role("button", name="Edit The Lab").click()
    dialog = page.get_by_role("dialog", name="Edit The Lab")
    expect(dialog.get_by_label("Address")).to_have_value(f"{running.up.url}/lab/v1")
    expect(dialog).to_contain_text("Empty: the stored one stays.")
    fill(dialog, title="Our Lab", models="tide-2\n\ntide-3\n")
    dialog.get_by_role("button", name="Save").click()
    expect(row_of(page, "Our Lab")).to_contain_text("stored …cdef")
    expect(row_of(page, "Our Lab")).not_to_contain_text("answers")  # what was tested is not this any more
    listed = httpx.get(f"{running.url}/v1/models", headers=bearer(ROOT), timeout=LIMIT).json()["data"]
    assert [one["id"] for one in listed if one["id"].startswith("lab/")] == ["lab/tide-2", "lab/tide-3"]


def remove_lab(page: Page) -> None:
    row = row_of(page, "Our Lab")
    page.get_by_role("button", name="Remove Our Lab").click()
    question = page.get_by_role("dialog", name="Remove Our Lab")
    expect(question).to_contain_text("forgets this provider and its key at once")
    shoot(page, "custom-provider-remove")
    assert serious(page) == []
    question.get_by_role("button", name="Cancel").click()
    expect(row).to_be_visible()
    page.get_by_role("button", name="Remove Our Lab").click()
    question.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


@pytest.mark.parametrize(
    ("label", "value", "words"),
    [
        ("Name", "My Lab", "Expected 1 to 64 lower-case letters"), ("Name", "openai", "is OpenAI, which penstock knows"),
        ("Address", "localhost:8000", "oes not begin with http:// or https://"),
        ("Address", "http://169.254.169.254/v1", "only penstock.toml may name it"),
        ("Address", "http://127.0.0.1:1/v1", "could not be asked"),
        ("Title", "t" * 101, "too long"), ("Models", "m" * 1_025, "too long"),
    ],
)  # fmt: skip
def test_an_error_stands_at_its_field(
    page: Page, running: Inspected, problems: list[str], label: str, value: str, words: str
) -> None:
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    values = {"name": "lab", "address": f"{running.up.url}/open/v1", label.lower(): value}
    fill(dialog, **values)
    dialog.get_by_role("button", name="Add").click()
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text(words)
    field = dialog.get_by_label(re.compile(f"^{label}"))
    expect(field).to_have_attribute("aria-invalid", "true")
    described = (field.get_attribute("aria-describedby") or "").split()
    assert alert.get_attribute("id") in described
    assert not re.match(r"[a-z_]+: ", alert.inner_text())  # no name of a JSON field
    drop_refusals(problems)


def test_what_is_not_safe_is_pointed_out_before_and_after(page: Page, running: Inspected) -> None:
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    words = "the key and all prompts and answers are sent unencrypted"
    fill(dialog, name="far", address="https://8.8.8.8:1/v1")
    expect(dialog.get_by_text(words)).to_have_count(0)
    fill(dialog, address="http://8.8.8.8:1/v1")
    expect(dialog.get_by_text(words)).to_be_visible()
    dialog.get_by_label("Test it with one request").uncheck()
    dialog.get_by_role("button", name="Add").click()
    expect(row_of(page, "far")).to_contain_text(words)


def test_another_address_says_what_becomes_of_the_key(page: Page, running: Inspected) -> None:
    body = {"name": "lab", "base_url": f"{running.up.url}/lab/v1", "key": GOOD}
    httpx.post(
        f"{running.url}/admin/custom-providers", json=body, headers=bearer(ROOT), timeout=LIMIT
    ).raise_for_status()
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Edit lab").click()
    dialog = page.get_by_role("dialog")
    fill(dialog, address="http://127.0.0.1:1/v1")
    expect(dialog).to_contain_text(f"The stored one is for {running.up.url} only, and is removed.")
    dialog.get_by_label("Test it with one request").uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(row_of(page, "lab").get_by_role("cell", name="none", exact=True)).to_be_visible()


def test_two_people_at_once(page: Page, running: Inspected, problems: list[str]) -> None:
    body = {"base_url": f"{running.up.url}/open/v1"}
    http = httpx.Client(base_url=f"{running.url}/admin/custom-providers", headers=bearer(ROOT), timeout=LIMIT)
    http.post("", json={"name": "lab", **body}).raise_for_status()
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Edit lab").click()
    http.put("/lab", json={**body, "title": "Theirs"}).raise_for_status()
    http.close()
    dialog = page.get_by_role("dialog")
    fill(dialog, title="Mine")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("was changed by somebody else meanwhile")
    drop_refusals(problems)


def test_a_viewer_sees_servers_and_cannot_change_them(page: Page, running: Inspected, tmp_path: Path) -> None:
    good = CustomProvider(base_url=f"{running.up.url}/open/v1", like="vllm", title="The Lab")
    bad = replace(good, base_url="http://169.254.169.254", title="Odd")
    CustomProvidersFile(tmp_path).change(lambda _: {"lab": good, "odd": bad})
    open_tab(page, running, SEER, "Providers")
    lab, main = row_of(page, "The Lab"), page.locator("main")
    while not lab.count():  # another process has written the file: it is read within a second
        main.get_by_role("button", name="Refresh").click()
        page.wait_for_load_state("networkidle")
    expect(row_of(page, "Odd")).to_contain_text("not used: base_url: 169.254.169.254 is link-local")
    assert main.get_by_role("button").all_inner_texts() == ["Sign out", "Refresh"]


@pytest.mark.parametrize("running", [False], indirect=True)
def test_the_owner_of_a_gateway_without_keys(page: Page, running: Inspected) -> None:
    page.goto(f"{running.url}/#session={running.inspector.session_token}")
    page.get_by_role("link", name="Manage").click()
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    fill(dialog, name="lab", address=f"{running.up.url}/open/v1")
    dialog.get_by_role("button", name="Add").click()
    expect(row_of(page, "lab").get_by_role("cell", name="none", exact=True)).to_be_visible()


def test_a_damaged_file_is_said(page: Page, running: Inspected, tmp_path: Path, problems: list[str]) -> None:
    (tmp_path / "custom-providers.json").write_text("{")
    open_tab(page, running, ROOT, "Providers")
    page.get_by_role("button", name="Add a custom provider").click()
    dialog = page.get_by_role("dialog")
    fill(dialog, name="lab", address=f"{running.up.url}/open/v1")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("repair it, or delete it and add the providers again")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("alert")).to_contain_text("custom-providers.json")
    drop_refusals(problems)


@pytest.mark.parametrize("scheme", THEMES)
def test_widths_and_themes(page: Page, running: Inspected, scheme: str, problems: list[str]) -> None:
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    long = f"http://{'long-name-of-a-machine.' * 5}example.com:8000/v1/{'path/' * 12}"
    for name, url in (("lab", f"{running.up.url}/open/v1"), ("far", long)):
        body = {"name": name, "base_url": url, "check": False, "title": f"The {name} of us all"}
        httpx.post(f"{running.url}/admin/custom-providers", json=body, headers=bearer(ROOT), timeout=LIMIT)
    open_tab(page, running, ROOT, "Providers")
    for width in (390, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        row_of(page, "The far").wait_for()
        shoot(page, f"custom-provider-{scheme}-{width}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []
        page.get_by_role("button", name="Add a custom provider").click()
        dialog = page.get_by_role("dialog")
        fill(dialog, name="No", address="http://example.com/v1", models="a\nb")
        dialog.get_by_role("button", name="Add").click()
        dialog.get_by_role("alert").wait_for()
        shoot(page, f"custom-provider-form-{scheme}-{width}")
        assert dialog.evaluate("box => box.scrollWidth <= box.clientWidth")
        assert serious(page) == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    drop_refusals(problems)
