"""The page of sessions: the list, one session as a timeline, a turn's place in it; and the three stories of the docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.page.agent_runs import NO_ESTIMATES, Agent, plays_agent, set_times
from tests.page.axe import serious
from tests.page.steps import appearances, drop_problems, expect_fit, leaving, look
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.page_gateway import flush
from tests.support.paths import PROJECT
from tests.support.paused_upstream import going, waiting
from tests.support.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Literal

    from playwright.sync_api import Locator, Page

FIRST, SECOND = (f"pk-penstock-{word}0123456789" for word in ("first", "second"))
LONG, LOOP = "Mend the parser.", "Start the server."
EXAMPLES = PROJECT / "examples"
LINK = re.compile(r"inspector +(http://\S+)")
Agents = tuple[Inspected, dict[str, list[str]]]


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    """Four sessions: one with stalls, one with a loop, one of a user who goes on, one of a client that waits."""
    with inspected(plays_agent, features=NO_ESTIMATES) as running, watching(running.url):
        ids = {LONG: Agent(running, LONG).run(), LOOP: Agent(running, LOOP).run(["port 3000 is in use"] * 4)}
        chat = Agent(running, "Say hello.", {"user-agent": "OpenAI/Python 2.1"})
        chat.step()
        chat.add_user_message("Once more.")
        chat.step()
        client = Agent(running, "Make it pass.", {"user-agent": "my-agent/1.4.2 (linux)"})
        client.step()
        client.add_user_message("FAIL")
        client.step()
        client.step()
        ids |= {"chat": chat.ids, "client": client.ids}
        ended(running, client.ids[-1])
        now = time.time()
        set_times(running, ids[LONG], [(0, 3), (1, 2), (95, 3), (1, 60), (2, 4)], now - 900)
        set_times(running, ids[LOOP], [(0, 2), (5, 2), (5, 3), (5, 2), (5, 2)], now - 600)
        set_times(running, ids["chat"], [(0, 2), (300, 2)], now - 400)
        set_times(running, ids["client"], [(0, 3), (1, 2), (9, 2)], now - 60)
        yield running, ids


def texts(row: Locator) -> list[str]:
    return [text.strip() for text in row.locator("th, td").all_inner_texts()]


def sessions(page: Page) -> Locator:
    return page.get_by_role("table", name="Sessions").get_by_role("row")


def turns(page: Page) -> Locator:
    return page.get_by_role("table", name="Turns of the session").locator("tr:has(th[scope=row])")


def test_sessions_show_what_was_slow_and_what_went_in_circles(
    agents: Agents, page: Page, shot: Callable[[Page, str], None]
) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(sessions(page)).to_have_count(5)
    client, chat, loop, long = (texts(row) for row in sessions(page).all()[1:])
    assert (long[1].splitlines()[0], long[2], long[3], long[4]) == (LONG, "claude-code", "5", "2 min 51 s")
    assert [long[9], loop[9], chat[9]] == ["2 stalls", "1 loop", ""]
    assert chat[3] == "2"
    assert re.fullmatch(r"\d+%", long[6])
    assert "my-agent" in client[2]
    assert "≥ $0.00" in " ".join(client)
    assert serious(page) == []
    page.get_by_role("link", name=LONG).click()
    expect(page).to_have_url(re.compile(f"#/runs/{ids[LONG][0]}$"))
    expect(page.get_by_role("heading", name=LONG)).to_be_visible()
    findings = page.get_by_role("list", name="Stalls and loops").get_by_role("listitem")
    expect(findings).to_have_text([
        "Stall before turn 3: bash, read_file took 95.0 s: 63 times the usual gap of 1.5 s.",
        "Stall turn 4: the turn took 60.0 s: 20 times the usual 3.0 s.",
    ])  # fmt: skip
    gaps = page.locator("tr.gap-line")
    expect(gaps).to_have_text([
        re.compile(r"running read_file, 1\.00 s"), re.compile(r"running bash, read_file, 95\.0 s together.*stall"),
        re.compile(r"running edit, 1\.00 s"), re.compile(r"running bash, 2\.00 s"),
    ])  # fmt: skip
    expect(turns(page)).to_have_count(5)
    costs = [texts(row)[-1] for row in turns(page).all()]
    assert costs == sorted(costs)
    assert [texts(row)[2] for row in turns(page).all()] == ["3.00 s", "2.00 s", "3.00 s", "60.0 s", "4.00 s"]
    widths = [row.locator(".bars .bar-part").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
              for row in turns(page).all()]  # fmt: skip
    assert sum(widths[3]) > 3 * sum(widths[0])
    assert widths[0][1] == pytest.approx(3 * widths[0][0], rel=0.1)  # a quarter is spent on the first token
    expect(page.get_by_role("region", name="Context").locator("canvas")).to_have_count(1)
    expect(page.get_by_role("region", name="Context")).to_contain_text("of the model's window of 200.0k")
    marked = page.locator(".overview g:has(rect.mark-stall) rect[class^=part]").evaluate_all(
        "all => all.map(one => one.getAttribute('class'))"
    )
    assert marked == ["part-tools", "part-waiting", "part-streaming"]
    assert serious(page) == []
    shot(page, "inspector-run")
    findings.nth(1).get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"#/turn/{ids[LONG][3]}"))
    page.goto(f"{running.url}/#/runs/{ids[LOOP][0]}")
    said = "bash was called 4 times in a row with the same arguments; the results were the same each time."
    expect(findings).to_contain_text([f"Loop turns 1 to 4: {said}"])
    expect(page.locator("tr.loop")).to_have_count(4)
    tool = gaps.first.locator("span[title]").last
    expect(tool).to_have_attribute("title", 'bash {"command":"npm start"}')
    page.goto(f"{running.url}/#/runs/{ids['chat'][1]}")  # any of its turns names the session
    expect(gaps).to_have_text("waiting for the user, 5 min 0 s")
    expect(findings).to_have_count(0)


def test_waiting_for_the_client_is_not_drawn_as_tools(agents: Agents, page: Page) -> None:
    """It has its own colour and its own words; what is not known is not counted as nothing."""
    running, ids = agents
    page.goto(f"{running.url}/#/runs/{ids['client'][0]}")
    expect(page.locator(".runs-head")).to_contain_text("my-agent · claude-sonnet-4-5")
    gaps = page.locator("tr.gap-line")
    expect(gaps).to_have_text(["running bash, 1.00 s", "waiting for the client, 9.00 s"])
    tools, client = (gaps.nth(place).locator(".bar-part") for place in (0, 1))
    background = "one => getComputedStyle(one).background"
    assert tools.evaluate(background) != client.evaluate(background)
    assert "gradient" in client.evaluate(background)
    expect(page.locator(".overview-legend li")).to_have_text([
        "waiting for the first token", "streaming", "running tools", "waiting for the client",
    ])  # fmt: skip
    assert [texts(row)[-1][0] for row in turns(page).all()] == ["$", "≥", "≥"]
    expect(page.locator(".figures")).to_contain_text("at least: not known of 2 turns")
    assert serious(page, ".overview, .overview-legend") == []


@appearances
def test_sessions_fit(agents: Agents, page: Page, theme: Literal["dark", "light"], width: int) -> None:
    running, ids = agents
    for address in ("#/runs", f"#/runs/{ids[LONG][0]}"):
        page.goto(f"{running.url}/{address}")
        look(page, theme, width)
        page.get_by_role("table").first.wait_for()
        expect_fit(page)
        assert page.locator(".scrolling").evaluate("one => one.scrollWidth <= one.clientWidth")
        if address == "#/runs":  # nothing of a session is beside the screen
            right = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
            assert page.locator(".runs-list :is(td, th):visible").evaluate_all(right) <= width


def test_turns_of_a_session_come_while_it_is_looked_at(page: Page) -> None:
    with inspected(plays_agent) as running, leaving(page):
        page.goto(f"{running.url}/#/streams")
        page.get_by_role("button", name="Pause", exact=True).click()  # the list of requests alone
        expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
        page.get_by_role("link", name="Runs").click()
        expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
        agent = Agent(running, LONG)
        for count in (1, 2):
            agent.step()
            ended(running, agent.ids[-1])
            expect(sessions(page).nth(1).locator("td").nth(2)).to_have_text(str(count))
        page.get_by_role("link", name=LONG).click()
        expect(turns(page)).to_have_count(2)
        agent.step()
        expect(turns(page)).to_have_count(3)
        page.goto(f"{running.url}/#/turn/{agent.ids[1]}")
        place = page.get_by_role("navigation", name="Session")
        expect(place).to_contain_text("Turn 2 of 3")
        place.get_by_role("link", name="Next turn in the session").click()
        expect(page).to_have_url(re.compile(f"#/turn/{agent.ids[2]}"))
        expect(place).to_contain_text("Turn 3 of 3")
        agent.step()
        expect(place).to_contain_text("Turn 3 of 4")
        page.keyboard.press("]")
        expect(page).to_have_url(re.compile(f"#/turn/{agent.ids[3]}"))
        expect(place).to_contain_text("Turn 4 of 4")
        for number in (3, 2, 1):
            page.keyboard.press("[")
            expect(place).to_contain_text(f"Turn {number} of 4")
        expect(place.get_by_role("link", name="Turn before in the session")).to_have_count(0)
        assert serious(page, ".session-place") == []
        place.get_by_role("link", name="Turn 1 of 4").click()
        expect(page.get_by_role("heading", name=LONG)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_a_stall_of_a_running_turn_is_shown_while_it_lasts(page: Page) -> None:
    with (
        bounds(silent=0.5),
        waiting() as (running, gate),
        watching(running.url) as reader,
        going(running, gate, reader) as row,
        leaving(page),
    ):
        page.goto(f"{running.url}/#/runs/{row['id']}")
        stall = page.get_by_role("list", name="Stalls and loops")
        expect(stall).to_contain_text("no bytes have come for")
        first = stall.inner_text()
        expect(stall).not_to_have_text(first)  # nothing has happened since, and still it is told anew
        expect(stall).to_contain_text("no bytes have come for")


def test_sessions_of_others_are_not_shown_and_those_that_are_not_read_are_counted(
    page: Page, problems: list[str], tmp_path: Path
) -> None:
    keys = {name: {"hash": hash_key(key)} for name, key in (("first", FIRST), ("second", SECOND))}
    with inspected(plays_agent, keys=keys) as running, watching(running.url, bearer(SECOND)), leaving(page):
        other = Agent(running, LONG, bearer(SECOND)).run()
        ended(running, other[-1])
        page.goto(f"{running.url}/#key={FIRST}")
        page.goto(f"{running.url}/#/runs")
        expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
        page.goto(f"{running.url}/#/runs/{other[0]}")
        expect(page.get_by_role("heading", name="This session cannot be shown")).to_be_visible()
    drop_problems(problems, "404")
    options: dict[str, Any] = {"features": NO_ESTIMATES, "data": tmp_path, "inspector": {"keep": True}}
    with inspected(plays_agent, **options) as running:
        for words in ("One.", "Two.", "Three."):
            Agent(running, words).step()
        flush(running)
    with bounds(disk_sessions=1), inspected(plays_agent, **options) as running, leaving(page):
        page.goto(f"{running.url}/#/runs")
        expect(page.get_by_role("link", name="Three.")).to_be_visible()
        expect(page.get_by_text("2 older turns on disk are not grouped here")).to_be_visible()


def test_the_stories_of_the_docs(page: Page, tmp_path: Path, shot: Callable[[Page, str], None]) -> None:
    """Their script, a real gateway as a process, and what the page then says."""
    port, lab = free_port(), free_port()
    config = (EXAMPLES / "inspector_stories.toml").read_text().replace(":4481", f":{lab}")
    (tmp_path / "stories.toml").write_text(config)
    command = [sys.executable, "-m", "penstock", "serve", "--port", str(port), "--config", "stories.toml"]
    env = {**os.environ, "PENSTOCK_DATA": str(tmp_path / "data")}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as gateway:
        try:
            assert gateway.stderr is not None
            link = next(found[1] for line in gateway.stderr if (found := LINK.search(line)))
            script = [sys.executable, str(EXAMPLES / "inspector_stories.py"), f"http://127.0.0.1:{port}", str(lab)]
            said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
            lost, loop, cache = re.findall(r"http://\S+", said)
            page.goto(link)  # as the gateway prints it
            row = page.locator(".list-rows [data-id]").filter(has_text="lab")
            expect(row.filter(has_text="refused").locator(".col-http")).to_have_text("400")
            expect(row.filter(has_not_text="refused")).to_have_count(1)  # with its signature it is answered
            page.goto(lost)
            tree = page.get_by_role("tree")
            expect(tree.locator('[data-place="/messages/1/content/0/signature"]')).to_contain_text('""')
            shot(page, "inspector-story-signature")
            page.get_by_role("tab", name="Tries").click()
            panel = page.get_by_role("tabpanel")
            expect(panel).to_contain_text("messages.1.content.0: Invalid `signature` in `thinking` block")
            page.get_by_role("tab", name="Client request").click()
            expect(tree.locator('[data-place="/messages/1/content/0/thinking"]')).to_be_visible()
            expect(tree.locator('[data-place="/messages/1/content/0/signature"]')).to_have_count(0)
            page.goto(loop)
            findings = page.get_by_role("list", name="Stalls and loops")
            expect(findings).to_contain_text("shell was called 3 times in a row with the same arguments")
            shot(page, "inspector-story-loop")
            page.goto(cache)
            expect(panel).to_contain_text("No message is as before.")
            expect(panel).to_contain_text("Message 1 differs from character 11 on")
            expect(panel.locator("q")).to_have_text([re.compile(r"^It is 12:02\."), re.compile(r"^It is 12:03\.")])
            expect(panel).to_contain_text("cache point")
            shot(page, "inspector-story-cache")
            page.goto("about:blank")
        finally:
            gateway.kill()
