"""The inspector's page in a real Chromium: how long a turn takes to open, how it scrolls, what a live turn costs, and
how large its files are.

`python -m benchmarks.inspector`; with `--check` it exits with 1 where a limit is broken. Wall time from the press to
the drawn page, the gateway's share of it included, the best of some tries. Leans on the tests' gateway, streams and
browser.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Section, table
from penstock._inspector.file_inspector import export_html
from penstock._inspector.static_files import StaticFiles
from penstock._inspector.stream_traces import source_from_file
from penstock.testing import Reply
from tests.support import sample_streams
from tests.support.browser import BROWSERS, FLAGS
from tests.support.inspector import inspected
from tests.support.sample_turns import SSE, send, sending, wired

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

TRIES = 5
TURNS = {
    "10,000 events": ("anthropic/many", 10_000),
    "the same with 2 MB in one frame, and markup": ("anthropic/hostile", 10_000),
    "50,000 events": ("anthropic/fifty", 50_000),
}
WHOLE_LIMIT = 1000  # ms until all of 10,000 events are there
FIRST_LIMIT = 1000  # ms until the first page of any turn is drawn
FRAME = 100  # ms that a reader may wait while scrolling, at the worst moment but one in twenty
LIVE_LIMIT = 15.0  # percent of a core for a live turn: script, style and layout
EXPORT_LIMIT = 3_000_000  # bytes of a file with 10,000 events
LIVE_RATE = 50  # tokens a second
LIVE_SECONDS = 8.0
LIVE_BEFORE = 2000  # events that have come before
ROWS = ".list-rows [role=row]"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# By the page's own clock: a driver's press and its waiting take longer than a person's.
OPEN = """async (events) => {
    const begun = performance.now();
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    document.querySelector(".list-rows [role=row]").click();
    while (!document.querySelector(".ledger .cell")) await new Promise(requestAnimationFrame);
    await drawn();
    const first = performance.now() - begun;
    const count = () => Number(document.querySelectorAll(".ledger-title .count")[1].textContent.replaceAll(",", ""));
    while (count() < events || document.querySelector(".turn-progress")) {
        if (performance.now() - begun > 60_000) throw new Error(`${count()} of ${events} events after a minute`);
        await new Promise(requestAnimationFrame);
    }
    await drawn();
    return [first, performance.now() - begun];
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


class PageCost:
    """CPU time of the page's main thread, which a busy machine changes little."""

    def __init__(self, page: Page) -> None:
        self._session: Any = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self) -> dict[str, float]:
        """Seconds so far: `script`, `layout` (with style), and `all`, with painting."""
        rows: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        found = {str(row["name"]): float(row["value"]) for row in rows}
        layout = found["LayoutDuration"] + found["RecalcStyleDuration"]
        return {"script": found["ScriptDuration"], "layout": layout, "all": found["TaskDuration"]}


def upstream(seen: ReceivedRequest) -> Reply:
    model = str(seen.json.get("model", "")) if seen.body else ""
    if model == "live":
        words = sample_streams.PIECES.findall(sample_streams.ANSWER) * 100
        parts = [sample_streams.grown(0, type="text_delta", text=word) for word in words]
        begun = b"".join((sample_streams.begin(), sample_streams.opened(0, type="text", text=""), *parts[:LIVE_BEFORE]))
        tokens = parts[LIVE_BEFORE : LIVE_BEFORE + int(LIVE_RATE * (LIVE_SECONDS + 4))]
        end = (sample_streams.closed(0), *sample_streams.ended("end_turn"))
        return Reply((begun, *tokens, *end), headers=SSE, pace=1 / LIVE_RATE)
    return wired(seen)


def open_turn(page: Page, running: Inspected, events: int, cost: PageCost) -> tuple[float, float, float]:
    """Milliseconds from the press on the newest row to the first page of the turn and to all of it, and CPU of them."""
    page.goto(f"{running.url}/#/streams")
    page.locator(ROWS).first.wait_for()
    page.evaluate(DRAWN)
    before = cost.read()["all"]
    first, whole = page.evaluate(OPEN, events)
    return first, whole, 1000 * (cost.read()["all"] - before)


def measure_opening(page: Page, running: Inspected, cost: PageCost, tries: int) -> tuple[list[list[str]], list[str]]:
    rows, broken = list[list[str]](), list[str]()
    for name, (model, events) in TURNS.items():
        page.goto(f"{running.url}/#/streams")
        send(running, model, "openai-chat")
        page.locator(ROWS).filter(has_text=model.partition("/")[2]).first.wait_for()
        tried = [open_turn(page, running, events, cost) for _ in range(tries)]
        first, whole, work = (min(one[place] for one in tried) for place in range(3))
        gaps: list[float] = min(page.evaluate(SCROLL) for _ in range(3))
        drawn = page.locator(".ledger-rows > [role=row]").count()
        rows.append([name, *(f"{figure:.0f}" for figure in (first, whole, work, *gaps, drawn))])
        if first > FIRST_LIMIT:
            broken.append(f"{name}: {first:.0f} ms until the first page, at most {FIRST_LIMIT}")
        if events == 10_000 and model.endswith("many") and whole > WHOLE_LIMIT:
            broken.append(f"{name}: {whole:.0f} ms until all is there, at most {WHOLE_LIMIT}")
        if gaps[1] > FRAME:
            broken.append(f"{name}: {gaps[1]:.0f} ms for a frame, at most {FRAME}")
    return rows, broken


def measure_live(page: Page, running: Inspected, cost: PageCost) -> tuple[list[str], list[str]]:
    """Percent of a core while a turn grows before somebody who looks at it."""
    page.goto(f"{running.url}/#/streams")
    thread = sending(running, "anthropic/live", "openai-chat")
    page.locator(ROWS).filter(has_text="live").first.click()
    page.locator(".ledger .cell").first.wait_for()
    page.locator(".turn-progress").wait_for(state="detached")
    before, began = cost.read(), time.perf_counter()
    page.wait_for_timeout(LIVE_SECONDS * 1000)
    after, seconds = cost.read(), time.perf_counter() - began
    streaming = page.locator(".turn-head .state").inner_text()
    thread.join()
    script, layout, everything = (100 * (after[name] - before[name]) / seconds for name in ("script", "layout", "all"))
    broken = [] if script + layout <= LIVE_LIMIT else [f"a live turn: {script + layout:.1f}%, at most {LIVE_LIMIT:.0f}"]
    broken += [] if streaming == "streaming" else ["the live turn was over before it was measured"]
    figures = (script, layout, script + layout, everything - script - layout)
    return [f"{figure:.1f}" for figure in figures], broken


def measure_files() -> tuple[list[list[str]], list[str]]:
    pages = StaticFiles()
    script, style = (pages.find_name(start) for start in ("assets/index-", "assets/style-"))
    rows = list[list[str]]()
    for name, kinds in {"as built": "", "gzip": "gzip", "brotli": "br"}.items():
        sizes = [len(found[0]) for asset in (script, style) if (found := pages.get(asset, kinds))]
        rows.append([f"the page's script and style, {name}", f"{sum(sizes) / 1000:,.0f}"])
    source = source_from_file(b"".join(sample_streams.many(10_000)), "many.sse")
    began = time.perf_counter()
    one = export_html(source, pages, consumer="openai-chat", others=[])
    seconds = time.perf_counter() - began
    everyone = export_html(source, pages, consumer="openai-chat")
    rows.append([f"download of 10,000 events, one client ({seconds:.1f} s)", f"{len(one) / 1000:,.0f}"])
    rows.append(["the same, all nine clients", f"{len(everyone) / 1000:,.0f}"])
    large = [size for size in (len(one), len(everyone)) if size > EXPORT_LIMIT]
    return rows, [f"a download of 10,000 events: {size:,} bytes, at most {EXPORT_LIMIT:,}" for size in large]


def report(tries: int = TRIES) -> Section:
    import shutil

    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)))
    with inspected(upstream) as running, sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=found, args=FLAGS).new_page(
            viewport={"width": 1440, "height": 900}
        )
        page.goto(f"{running.url}/")
        page.locator(".live.open").wait_for()
        cost = PageCost(page)
        opening, broken = measure_opening(page, running, cost, tries)
        live, too_much = measure_live(page, running, cost)
    files, too_large = measure_files()
    head = [
        "",
        "ms to the first page",
        "ms to all",
        "CPU of the page",
        "ms a frame",
        "95 in 100",
        "longest",
        "rows drawn",
    ]
    parts = ["script", "style and layout", "together", "painting and the rest"]
    text = f"""## The inspector's page

From the press on a row to the drawn turn, tracing by the gateway included: the best of {tries}; of it the page's own
work. Then 120 jumps through the list: how long a frame of the screen took. `python -m benchmarks.inspector`.

{table(head, opening)}

A live turn at {LIVE_RATE} tokens a second, after {LIVE_BEFORE:,} events, in percent of a core:

{table(["", *parts], [["a live turn", *live]])}

{table(["", "kB"], files)}"""
    return Section(text, broken + too_much + too_large)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is broken")
    parser.add_argument("--tries", type=int, default=TRIES)
    options = parser.parse_args()
    section = report(options.tries)
    print(section.text)
    for limit in section.broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    return 1 if section.broken and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
