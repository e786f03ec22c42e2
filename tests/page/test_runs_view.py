"""The page of sessions: the list, one session as a timeline, and a turn's place in its session."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock._inspector import session_findings, tenant_sessions
from tests.page.agent_runs import NO_ESTIMATES, Agent, plays_agent, set_times
from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.paused_upstream import going, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

FIRST, SECOND = (f"pk-penstock-{word}0123456789" for word in ("first", "second"))
LONG = "Mend the parser."
LOOP = "Start the server."


@pytest.fixture(scope="module")
def agents() -> Iterator[tuple[Inspected, dict[str, list[str]]]]:
    """Three sessions: one with stalls, one with a loop, one of a user who goes on."""
    with inspected(plays_agent, features=NO_ESTIMATES) as running, watching(running.url):
        ids = {LONG: Agent(running, LONG).run(), LOOP: Agent(running, LOOP).run(["port 3000 is in use"] * 4)}
        chat = Agent(running, "Say hello.", {"user-agent": "OpenAI/Python 2.1"})
        chat.step()
        chat.add_user_message("Once more.")
        chat.step()
        ids["chat"] = chat.ids
        ended(running, chat.ids[-1])
        now = time.time()
        set_times(running, ids[LONG], [(0, 3), (1, 2), (95, 3), (1, 60), (2, 4)], now - 900)
        set_times(running, ids[LOOP], [(0, 2), (5, 2), (5, 3), (5, 2), (5, 2)], now - 600)
        set_times(running, ids["chat"], [(0, 2), (300, 2)], now - 400)
        yield running, ids


def texts(row: Locator) -> list[str]:
    return [text.strip() for text in row.locator("th, td").all_inner_texts()]


def test_the_list_of_sessions(agents: tuple[Inspected, dict[str, list[str]]], page: Page) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    rows = page.get_by_role("table", name="Sessions").get_by_role("row")
    expect(rows).to_have_count(4)
    chat, loop, long = (texts(row) for row in rows.all()[1:])
    assert (long[1].splitlines()[0], long[2], long[3], long[4]) == (LONG, "claude-code", "5", "2 min 51 s")
    assert long[9] == "2 stalls"
    assert loop[9] == "1 loop"
    assert (chat[3], chat[9]) == ("2", "")
    assert re.fullmatch(r"\d+%", long[6])
    assert serious(page) == []
    page.get_by_role("link", name=LONG).click()
    expect(page).to_have_url(re.compile(f"#/runs/{ids[LONG][0]}$"))


def test_one_session(
    agents: tuple[Inspected, dict[str, list[str]]], page: Page, shot: Callable[[Page, str], None]
) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/runs/{ids[LONG][0]}")
    expect(page.get_by_role("heading", name=LONG)).to_be_visible()
    findings = page.get_by_role("list", name="Stalls and loops").get_by_role("listitem")
    expect(findings).to_have_text([
        "Stall before turn 3: bash, read_file took 95.0 s: 63 times the usual gap of 1.5 s.",
        "Stall turn 4: the turn took 60.0 s: 20 times the usual 3.0 s.",
    ])  # fmt: skip
    table = page.get_by_role("table", name="Turns of the session")
    gaps = table.locator("tr.gap-line")
    expect(gaps).to_have_text([
        re.compile(r"running read_file, 1\.00 s"), re.compile(r"running bash, read_file, 95\.0 s together.*stall"),
        re.compile(r"running edit, 1\.00 s"), re.compile(r"running bash, 2\.00 s"),
    ])  # fmt: skip
    turns = table.locator("tr:has(th[scope=row])")
    expect(turns).to_have_count(5)
    costs = [texts(row)[-1] for row in turns.all()]
    assert costs == sorted(costs)
    assert [texts(row)[2] for row in turns.all()] == ["3.00 s", "2.00 s", "3.00 s", "60.0 s", "4.00 s"]
    widths = [row.locator(".bars .bar-part").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
              for row in turns.all()]  # fmt: skip
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


def test_a_loop_is_marked(agents: tuple[Inspected, dict[str, list[str]]], page: Page) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/runs/{ids[LOOP][0]}")
    expect(page.get_by_role("list", name="Stalls and loops")).to_contain_text(
        "Loop turns 1 to 4: bash was called 4 times in a row with the same arguments; "
        "the results were the same each time."
    )
    table = page.get_by_role("table", name="Turns of the session")
    expect(table.locator("tr.loop")).to_have_count(4)
    expect(table.locator("tr.gap-line").first.locator("span[title]").last).to_have_attribute(
        "title", 'bash {"command":"npm start"}'
    )


def test_a_turn_knows_its_session(agents: tuple[Inspected, dict[str, list[str]]], page: Page) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/turn/{ids[LONG][1]}")
    place = page.get_by_role("navigation", name="Session")
    expect(place).to_contain_text("Turn 2 of 5")
    place.get_by_role("link", name="Next turn in the session").click()
    expect(page).to_have_url(re.compile(f"#/turn/{ids[LONG][2]}"))
    expect(place).to_contain_text("Turn 3 of 5")
    page.keyboard.press("[")
    expect(place).to_contain_text("Turn 2 of 5")
    page.keyboard.press("[")
    expect(place).to_contain_text("Turn 1 of 5")
    expect(place.get_by_role("link", name="Turn before in the session")).to_have_count(0)
    assert serious(page) == []
    place.get_by_role("link", name="Turn 1 of 5").click()
    expect(page.get_by_role("heading", name=LONG)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_a_turn_knows_the_turns_that_come_after_it_was_opened(page: Page) -> None:
    with inspected(plays_agent) as running:
        agent = Agent(running, LONG)
        agent.step()
        page.goto(f"{running.url}/#/turn/{agent.ids[0]}")
        place = page.get_by_role("navigation", name="Session")
        expect(place).to_contain_text("Turn 1 of 1")
        agent.step()
        expect(place).to_contain_text("Turn 1 of 2")
        page.keyboard.press("]")
        expect(page).to_have_url(re.compile(f"#/turn/{agent.ids[1]}"))
        expect(place).to_contain_text("Turn 2 of 2")
        agent.step()
        expect(place).to_contain_text("Turn 2 of 3")


def test_the_user_is_named_in_a_gap(agents: tuple[Inspected, dict[str, list[str]]], page: Page) -> None:
    running, ids = agents
    page.goto(f"{running.url}/#/runs/{ids['chat'][1]}")  # any of its turns names the session
    expect(page.locator("tr.gap-line")).to_have_text("waiting for the user, 5 min 0 s")
    expect(page.get_by_role("list", name="Stalls and loops")).to_have_count(0)


def test_waiting_for_the_client_is_not_drawn_as_tools(page: Page) -> None:
    """It has its own colour and its own words; what is not known is not counted as nothing."""
    with inspected(plays_agent, features=NO_ESTIMATES) as running, watching(running.url):
        agent = Agent(running, LONG, {"user-agent": "my-agent/1.4.2 (linux)"})
        agent.step()
        agent.add_user_message("FAIL")
        agent.step()
        agent.step()
        ended(running, agent.ids[-1])
        set_times(running, agent.ids, [(0, 3), (1, 2), (9, 2)], time.time() - 60)
        page.goto(f"{running.url}/#/runs")
        line = page.get_by_role("table", name="Sessions").get_by_role("row").nth(1)
        expect(line).to_contain_text("my-agent")
        expect(line).to_contain_text("≥ $0.00")
        page.goto(f"{running.url}/#/runs/{agent.ids[0]}")
        expect(page.locator(".runs-head")).to_contain_text("my-agent · claude-sonnet-4-5")
        gaps = page.locator("tr.gap-line")
        expect(gaps).to_have_text(["running read_file, 1.00 s", "waiting for the client, 9.00 s"])
        tools, client = (gaps.nth(place).locator(".bar-part") for place in (0, 1))
        look = "one => getComputedStyle(one).background"
        assert tools.evaluate(look) != client.evaluate(look)
        assert "gradient" in client.evaluate(look)
        legend = page.locator(".overview-legend li")
        expect(legend).to_have_text([
            "waiting for the first token", "streaming", "running tools", "waiting for the client",
        ])  # fmt: skip
        totals = [texts(row)[-1] for row in page.locator("tr:has(th[scope=row])").all()]
        assert [total[0] for total in totals] == ["$", "≥", "≥"]
        expect(page.locator(".figures")).to_contain_text("at least: not known of 2 turns")
        assert serious(page) == []


def test_a_stall_of_a_running_turn_is_shown_while_it_lasts(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_findings, "SILENT_SECONDS", 0.5)
    with waiting() as (running, gate), watching(running.url) as reader, going(running, gate, reader) as row:
        page.goto(f"{running.url}/#/runs/{row['id']}")
        stall = page.get_by_role("list", name="Stalls and loops")
        expect(stall).to_contain_text("no bytes have come for")
        first = stall.inner_text()
        expect(stall).not_to_have_text(first)  # nothing has happened since, and still it is told anew
        expect(stall).to_contain_text("no bytes have come for")


def test_new_turns_appear(page: Page) -> None:
    with inspected(plays_agent) as running:
        page.goto(f"{running.url}/#/runs")
        expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
        agent = Agent(running, LONG)
        agent.step()
        rows = page.get_by_role("table", name="Sessions").get_by_role("row")
        expect(rows).to_have_count(2)
        page.get_by_role("link", name=LONG).click()
        turns = page.get_by_role("table", name="Turns of the session").locator("tr:has(th[scope=row])")
        expect(turns).to_have_count(1)
        agent.step()
        expect(turns).to_have_count(2)


def test_new_turns_appear_also_while_the_list_of_requests_is_paused(page: Page) -> None:
    with inspected(plays_agent) as running:
        page.goto(f"{running.url}/#/streams")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
        page.get_by_role("link", name="Runs").click()
        expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
        agent = Agent(running, LONG)
        for count in (1, 2):
            agent.step()
            ended(running, agent.ids[-1])
            session = page.get_by_role("table", name="Sessions").get_by_role("row").nth(1)
            expect(session.locator("td").nth(2)).to_have_text(str(count))


def test_a_key_sees_its_own_sessions(page: Page, problems: list[str]) -> None:
    keys = {name: {"hash": hash_key(key)} for name, key in (("first", FIRST), ("second", SECOND))}
    with inspected(plays_agent, keys=keys) as running, watching(running.url, bearer(SECOND)):
        other = Agent(running, LONG, bearer(SECOND)).run()
        ended(running, other[-1])
        page.goto(f"{running.url}/#key={FIRST}")
        page.goto(f"{running.url}/#/runs")
        expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
        page.goto(f"{running.url}/#/runs/{other[0]}")
        expect(page.get_by_role("heading", name="This session cannot be shown")).to_be_visible()
        problems[:] = [one for one in problems if "404" not in one]


@pytest.mark.parametrize("scheme", THEMES)
def test_at_a_phones_width(agents: tuple[Inspected, dict[str, list[str]]], page: Page, scheme: str) -> None:
    running, ids = agents
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    for width in (390, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        for address in ("#/runs", f"#/runs/{ids[LONG][0]}"):
            page.goto(f"{running.url}/{address}")
            page.get_by_role("table").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.locator(".scrolling").evaluate("one => one.scrollWidth <= one.clientWidth")
            if address == "#/runs":  # nothing of a session is beside the screen
                right = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
                assert page.locator(".runs-list :is(td, th):visible").evaluate_all(right) <= width
            assert serious(page) == []


def test_turns_on_disk_that_are_not_read_are_counted(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_sessions, "MAX_DISK_TURNS", 1)
    options: dict[str, Any] = {"features": NO_ESTIMATES, "data": tmp_path, "inspector": {"keep": True}}
    with inspected(plays_agent, **options) as running:
        for words in ("One.", "Two.", "Three."):
            Agent(running, words).step()
        running.inspector.watch.disk.flush()
    with inspected(plays_agent, **options) as running:
        page.goto(f"{running.url}/#/runs")
        expect(page.get_by_role("link", name="Three.")).to_be_visible()
        expect(page.get_by_text("2 older turns on disk are not grouped here")).to_be_visible()
