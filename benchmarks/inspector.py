"""The inspector's page in a real Chromium: how long a turn of 10,000 events takes to open, and how it scrolls.

`python -m benchmarks.inspector`, exit 1 where a limit is broken. Wall time from the press to the drawn page, the
gateway's share of it included, the best of some tries. Leans on the tests' gateway, streams and browser.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Section, table
from tests.inspector.conftest import inspected
from tests.inspector.sample_turns import send, wired
from tests.support.browser import BROWSERS, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.inspector.conftest import Inspected

TRIES = 7
TURNS = {
    "10,000 events": "anthropic/many",
    "the same with 2 MB in one frame, and markup": "anthropic/hostile",
}
LIMIT = 1000  # ms until it is open
FRAME = 100  # ms that a reader may wait while scrolling, at the worst moment but one in twenty
ROWS = ".list-rows [role=row]"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# By the page's own clock: a driver's press and its waiting take longer than a person's.
OPEN = """async () => {
    const begun = performance.now();
    document.querySelector(".list-rows [role=row]").click();
    while (!document.querySelector(".ledger .cell")) await new Promise(requestAnimationFrame);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begun;
}"""
SCROLL = """async () => {
    const list = document.querySelector(".ledger");
    const gaps = [];
    let last = performance.now();
    for (let step = 0; step < 120; step++) {
        list.scrollTop += step % 2 ? 90 : 1500;
        await new Promise(requestAnimationFrame);
        gaps.push(performance.now() - last);
        last = performance.now();
    }
    gaps.sort((a, b) => a - b);
    return [gaps[60], gaps[113], gaps[119]];
}"""


class Worked:
    """CPU time of the page's main thread, which a busy machine changes little."""

    def __init__(self, page: Page) -> None:
        self._line: Any = page.context.new_cdp_session(page)
        self._line.send("Performance.enable", {"timeDomain": "threadTicks"})

    def __call__(self) -> float:
        """Milliseconds so far."""
        rows: list[dict[str, Any]] = self._line.send("Performance.getMetrics")["metrics"]
        return 1000 * float(next(row["value"] for row in rows if row["name"] == "TaskDuration"))


def opened(page: Page, running: Inspected, worked: Worked) -> tuple[float, float]:
    """Milliseconds from the press on the newest row to the drawn turn, and those that the page worked of them."""
    page.goto(f"{running.url}/#/streams")
    row = page.locator(ROWS).first
    row.wait_for()
    page.evaluate(DRAWN)
    before = worked()
    took: float = page.evaluate(OPEN)
    return took, worked() - before


def scrolled(page: Page) -> list[float]:
    """Milliseconds of a frame while scrolling: the median, 95 in 100, the longest."""
    gaps: list[float] = page.evaluate(SCROLL)
    return gaps


def report(tries: int = TRIES) -> Section:
    import shutil

    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)))
    rows, broken = list[list[str]](), list[str]()
    with inspected(wired) as running, sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=found, args=FLAGS).new_page(
            viewport={"width": 1440, "height": 900}
        )
        page.goto(f"{running.url}/")
        page.locator(".live.open").wait_for()
        worked = Worked(page)
        for name, model in TURNS.items():
            page.goto(f"{running.url}/#/streams")
            send(running, model, "openai-chat")
            page.locator(ROWS).filter(has_text=model.partition("/")[2]).first.wait_for()
            tried = [opened(page, running, worked) for _ in range(tries)]
            took, work = sorted(one[0] for one in tried), sorted(one[1] for one in tried)
            gaps = min(scrolled(page) for _ in range(3))
            drawn = page.locator(".ledger-rows > [role=row]").count()
            figures = [took[0], took[tries // 2], work[0], *gaps, drawn]
            rows.append([name, *(f"{figure:.0f}" for figure in figures)])
            broken += [f"{name}: {took[0]:.0f} ms until open, at most {LIMIT}"] if took[0] > LIMIT else []
            broken += [f"{name}: {gaps[1]:.0f} ms for a frame, at most {FRAME}"] if gaps[1] > FRAME else []
    head = ["", "ms to open", "median", "CPU of the page", "ms a frame", "95 in 100", "longest", "rows drawn"]
    text = f"""## The inspector's page

From the press on a row to the drawn turn, tracing by the gateway included: the best of {tries}, and their median; of it
the page's own work, at its least. Then 120 jumps through the list: how long a frame of the screen took.
`python -m benchmarks.inspector`.

{table(head, rows)}"""
    return Section(text, broken)


def main() -> int:
    section = report()
    print(section.text)
    for limit in section.broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    return 1 if section.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
