"""The three stories of docs/inspector.md: their script, a real gateway as a process, and what the page then says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import expect

from penstock._inspector.session_token import HEADER
from tests.support.client_requests import get
from tests.support.paths import PROJECT
from tests.support.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

EXAMPLES = PROJECT / "examples"
LINK = re.compile(r"inspector +(http://\S+)")


class Stories(NamedTuple):
    """The address of the inspector, and of each story."""

    inspector: str
    signature: str
    loop: str
    cache: str


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    folder, port, lab = tmp_path_factory.mktemp("stories"), free_port(), free_port()
    config = (EXAMPLES / "inspector_stories.toml").read_text().replace(":4481", f":{lab}")
    (folder / "stories.toml").write_text(config)
    command = [sys.executable, "-m", "penstock", "serve", "--port", str(port), "--config", str(folder / "stories.toml")]
    env = {**os.environ, "PENSTOCK_DATA": str(folder / "data")}
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as gateway:
        try:
            assert gateway.stderr is not None
            link = next(found[1] for line in gateway.stderr if (found := LINK.search(line)))
            script = [sys.executable, str(EXAMPLES / "inspector_stories.py"), f"http://127.0.0.1:{port}", str(lab)]
            said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
            yield Stories(link, *re.findall(r"http://\S+", said))
        finally:
            gateway.kill()


@pytest.fixture
def session(page: Page, stories: Stories) -> Page:
    """A page that came by the link that the gateway printed."""
    page.goto(stories.inspector)
    page.get_by_role("link", name="Runs").wait_for()
    return page


def test_a_lost_signature(session: Page, stories: Stories, shot: Callable[[Page, str], None]) -> None:
    session.goto(stories.signature)
    upstream = session.get_by_role("tree")
    expect(upstream.locator('[data-place="/messages/1/content/0/signature"]')).to_contain_text('""')
    shot(session, "inspector-story-signature")
    session.get_by_role("tab", name="Tries").click()
    expect(session.get_by_role("tabpanel")).to_contain_text(
        "messages.1.content.0: Invalid `signature` in `thinking` block"
    )
    session.get_by_role("tab", name="Client request").click()
    expect(session.get_by_role("tree").locator('[data-place="/messages/1/content/0/thinking"]')).to_be_visible()
    expect(session.get_by_role("tree").locator('[data-place="/messages/1/content/0/signature"]')).to_have_count(0)

    base, _, token = stories.inspector.partition("/#session=")
    rows = get(f"{base}/inspector/turns", headers={HEADER: token}).json()["rows"]
    states = [(row["state"], row["http"]) for row in rows if row["provider"] == "lab"]
    assert states == [("refused", 400), ("finish", 200)], "the request with its signature is answered"


def test_a_loop_of_an_agent(session: Page, stories: Stories, shot: Callable[[Page, str], None]) -> None:
    session.goto(stories.loop)
    findings = session.get_by_role("list", name="Stalls and loops")
    expect(findings).to_contain_text("shell was called 3 times in a row with the same arguments")
    shot(session, "inspector-story-loop")


def test_a_cache_that_misses(session: Page, stories: Stories, shot: Callable[[Page, str], None]) -> None:
    session.goto(stories.cache)
    prompt = session.get_by_role("tabpanel")
    expect(prompt).to_contain_text("No message is as before.")
    expect(prompt).to_contain_text("Message 1 differs from character 11 on")
    expect(prompt.locator("q")).to_have_text([re.compile(r"^It is 12:02\."), re.compile(r"^It is 12:03\.")])
    expect(prompt).to_contain_text("cache point")
    shot(session, "inspector-story-cache")
