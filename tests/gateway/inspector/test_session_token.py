"""On a gateway without keys the content of turns needs the session token; models need none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock._cli.serve import welcome_text
from penstock._inspector.session_token import FILE, HEADER, open_session_token
from penstock.testing import Reply
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import bearer, ended
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Inspected]:
    """A gateway whose callers do not have its token."""
    with inspected(without_session=True, data=tmp_path) as running:
        yield running


@pytest.fixture(autouse=True)
def forgotten() -> None:
    open_session_token.cache_clear()


def test_nothing_about_turns_is_shown_without_the_token(closed: Inspected, tmp_path: Path) -> None:
    reply = ask(closed.url, "openai-chat", "openai-chat/text")
    assert reply.status_code == 200, "models need no token"
    name = reply.headers["x-request-id"]
    ended(closed, name)
    token = (tmp_path / FILE).read_text().strip()
    assert closed.inspector.session_token == token
    turn = f"turns/{name}"
    for path in ("live", "turns", turn, f"{turn}/follow", f"{turn}/export", f"{turn}/frames/0", "usage", "tokens",
                 "recordings", "keeping", "sessions"):  # fmt: skip
        for sent in ({}, {HEADER: ""}, {HEADER: token[:-1]}, {HEADER: f"{token}x"}, bearer(token), {HEADER: "é"}):
            headers = {header: value.encode() for header, value in sent.items()}
            refused = get(f"{closed.url}/inspector/{path}", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "session_needed"), (path, sent)
            assert "penstock serve" in refused.json()["error"]["message"]
    assert get(f"{closed.url}/inspector/turns/{name}", headers={HEADER: token}).json()["frames"]
    assert get(f"{closed.url}/inspector/about").json()["key"] == "session"
    assert get(f"{closed.url}/inspector/about").json()["models"] == []
    assert get(f"{closed.url}/inspector/about", headers={HEADER: token}).json()["key"] == "none"


def test_a_file_needs_no_token(closed: Inspected) -> None:
    stream = b"".join(Reply.of("openai-chat", []).chunks) or b'data: {"choices":[]}\n\n'
    assert post(f"{closed.url}/inspector/trace?protocol=openai-chat", content=stream).status_code == 200


def test_a_key_is_enough() -> None:
    keys = {"owner": {"env": "OWNER", "inspect": "all"}}
    with inspected(without_session=True, env={"OWNER": "pk-penstock-owner"}, keys=keys) as gateway:
        assert get(f"{gateway.url}/inspector/turns", headers=bearer("pk-penstock-owner")).status_code == 200
        assert get(f"{gateway.url}/inspector/about").json()["key"] == "needed"


def test_the_token_is_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    token = open_session_token(tmp_path)
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 32
    open_session_token.cache_clear()
    assert open_session_token(tmp_path) == token, "a restart keeps it"
    path.chmod(0o644)
    open_session_token.cache_clear()
    assert open_session_token(tmp_path) != token, "others have seen it"
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("x" * 40)
    open_session_token.cache_clear()
    assert open_session_token(tmp_path) != "x" * 40


def test_the_welcome_text_has_the_link(tmp_path: Path) -> None:
    from msgspec.structs import replace

    from penstock.gateway import GatewayConfig

    config = replace(GatewayConfig(), data=tmp_path)
    text = welcome_text(config, 4480, ["replay/text"], keyed=False)
    assert f"http://127.0.0.1:4480/#session={open_session_token(tmp_path)}" in text
    assert "#session" not in welcome_text(config, 4480, ["replay/text"], keyed=True)


def test_the_page_takes_the_token_from_its_link(closed: Inspected, page: Page, problems: list[str]) -> None:
    page.goto(f"{closed.url}/")
    expect(page.get_by_role("heading", name="Open the link that penstock serve printed")).to_be_visible()
    token = closed.inspector.session_token
    page.goto(f"{closed.url}/#session=wrong")
    expect(page.get_by_text("is not this gateway's")).to_be_visible()
    page.goto(f"{closed.url}/#session={token}")
    expect(page.locator(".live.open")).to_be_visible()
    assert page.url == f"{closed.url}/#/"
    page.reload()
    expect(page.locator(".live.open")).to_be_visible()
    stored = page.evaluate("JSON.stringify([localStorage.length, document.cookie])")
    assert re.fullmatch(r'\[\d+,""\]', stored)
    assert token not in page.evaluate("JSON.stringify({...localStorage})")
    problems[:] = [
        problem for problem in problems if "401" not in problem
    ]  # of the wrong token, before the page loaded anew
