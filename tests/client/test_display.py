"""Displays of answers, runs and streams: what they show, and that hostile content stays text and stays small."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from penstock import events as ev
from penstock import fold_all
from penstock import request as rq
from penstock.testing import play, scripts
from tests.page.axe import serious
from tests.support.browser import SHOTS, chromium
from tests.support.client_parts import (
    PICTURE_CHARACTERS,
    TEXT_CHARACTERS,
    Timeline,
    build_answer_timeline,
    format_cost,
    format_seconds,
    format_usage,
    render_html,
    render_line,
    render_rich,
    reveal_controls,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

ALLOWED_TAGS = {"div", "span", "b", "style", "details", "summary", "img"}
ALLOWED_ATTRIBUTES = {"class", "style", "role", "title", "aria-label", "src", "alt"}
CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
MARK = "hostile"
HOSTILE = {
    "script": "<script>window.hostile = 1</script>",
    "handler": '"><img src=x onerror="window.hostile = 1">',
    "attribute": "' onmouseover='window.hostile = 1' class='",
    "style": "</style></div><style>@import 'http://evil.example/hostile.css'</style>",
    "link": "<a href='javascript:window.hostile=1'>hostile</a>",
    "address": "javascript:window.hostile=1//https://evil.example/hostile.png",
    "entity": "&lt;script&gt;hostile&#x3c;/script>",
    "comment": "<!-- --><iframe srcdoc='hostile'></iframe><svg onload='window.hostile=1'>",
    "template": "{{constructor.constructor('hostile')()}} ${hostile} $$hostile$$",
    "terminal": "\x1b]8;;http://evil.example\x07hostile\x1b]8;;\x07\x1b[2J\x1b[31m\x9b31m",
    "title": "\x1b]0;hostile\x07\x08\x08\x7f\r\rhidden",
    "bidi": "hostile\u202egpj.exe\u202c \u2066x\u2069 \u200f \u061c",
    "invisible": "hostile\u200b\u2060\ufeff\U000e0068\U000e0069",
    "surrogate": "hostile\ud800\udfff",
    "markup": "[bold red]hostile[/bold red] [link=http://evil.example]x[/link] :smile: [/]",
    "separators": "hostile\u2028line\u2029x\x85y",
}  # fmt: skip


def hostile_turn(text: str) -> rq.Turn:
    """A turn that says this text wherever it can."""
    return rq.Turn(
        text,
        text,
        parts=[
            rq.Reasoning(text, form="summary"),
            rq.Text(text),
            rq.Text(text, refusal=True),
            rq.Call("c", text, text),
            rq.Result("c", text, [rq.Text(text)], failed=True),
            rq.Call("d", text, text, by="provider"),
            rq.Ask("d", text),
            rq.File(text, url=text),
            rq.File("image/png", data=text),
            rq.File(f"image/png{text}", data="aGk="),
            rq.Source(text, text),
        ],
        usage=ev.Usage(1, 2),
        fault=ev.Fault("server", text, code=text, request_id=text),
    )


class Checker(HTMLParser):
    """Collects the text of a view. Fails for any element or attribute that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._in_style = False
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED_TAGS, tag
        self.depth += tag != "img"
        self._in_style = tag == "style"
        for name, value in attrs:
            assert name in ALLOWED_ATTRIBUTES, (tag, name)
            if name == "style":
                assert re.fullmatch(r"width:\d+%", value or ""), value
            if name == "src":
                assert re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+", value or ""), value

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1
        self._in_style = False

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        if self._in_style:
            assert MARK not in data
            assert not re.search(r"url\(|@import|expression|http", data)
        else:
            self.text += data


def checked(html: str) -> str:
    """The text of a view that is safe."""
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.depth == 0, "every element is closed"
    assert not CONTROLS.search(html)
    html.encode()  # a notebook sends UTF-8
    return checker.text


def terminal_text(timeline: Timeline, *, color: bool = False) -> str:
    """What rich prints."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=color, width=100, color_system="standard" if color else None)
    for line in render_rich(timeline):
        console.print(line)
    return out.getvalue()


# ── hostile content ───────────────────────────────────────────────────────────────────────────────


@each("name", HOSTILE)
def test_hostile_content_stays_text_in_html(name: str) -> None:
    text = HOSTILE[name]
    timeline = build_answer_timeline(hostile_turn(text))
    timeline.provider = text
    shown = checked(render_html(timeline))
    assert shown.count(reveal_controls(text)) >= 6  # reasoning, text, refusal, input, result, error


@each("name", HOSTILE)
def test_hostile_content_stays_text_in_a_terminal(name: str) -> None:
    timeline = build_answer_timeline(hostile_turn(HOSTILE[name]))
    timeline.provider = HOSTILE[name]
    printed = terminal_text(timeline)
    assert not CONTROLS.search(printed)
    assert MARK in printed
    if name == "markup":
        assert "[bold red]" in printed
        assert ":smile:" in printed
    colored = re.sub(r"\x1b\[[\d;]*m", "", terminal_text(timeline, color=True))  # our own colours
    assert not CONTROLS.search(colored)


@each("name", HOSTILE)
def test_hostile_content_stays_on_one_line_of_a_repr(name: str) -> None:
    timeline = build_answer_timeline(hostile_turn(HOSTILE[name]))
    timeline.provider = HOSTILE[name]
    line = render_line(timeline)
    assert not CONTROLS.search(line)
    assert "\n" not in line
    assert len(line) < 600


def test_words_that_need_joiners_stay_as_they_are() -> None:
    text = "👩‍👩‍👧 می‌خواهم مرحبا 日本語 é\tx\ny"
    assert reveal_controls(text) == text
    assert reveal_controls("a\r\nb\rc") == "a\nb⟨U+000D⟩c"


# ── in a browser ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_nothing_happens_in_a_browser(browser: Browser) -> None:
    """A real Chromium runs nothing of it and asks nobody."""
    views = "".join(render_html(build_answer_timeline(hostile_turn(text))) for text in HOSTILE.values())
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    page.set_content(f"<body>{views}</body>")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    touch = "(one) => { one.click?.(); one.dispatchEvent(new Event('mouseover')) }"
    page.evaluate(f"document.querySelectorAll('*').forEach({touch})")
    assert page.evaluate("window.hostile") is None
    assert page.evaluate("document.querySelectorAll('a, script, iframe, link, object, embed').length") == 0
    assert page.evaluate("document.querySelectorAll('.penstock').length") == len(HOSTILE)
    page.close()
    assert [url for url in asked if not url.startswith("data:image/png;base64,")] == []


def call(index: int, id: str, name: str, json: str) -> list[ev.AnyEvent]:
    return [ev.CallStart(index, id, name), ev.CallEnd(index, id, name, json)]


def sample_run() -> Timeline:
    """The run of the docs' picture."""
    timeline = Timeline("Run")
    timeline.provider = "anthropic"
    thought = "Both gates are asked for, so both gauges have to be read before anything is opened. "
    timeline.feed([
        ev.Start(model="claude-sonnet-4-5"), ev.ReasoningStart(0), ev.ReasoningDelta(0, thought * 4), ev.ReasoningEnd(0),
        ev.TextStart(1), ev.TextDelta(1, "Let me look at both gauges."), ev.TextEnd(1),
        *call(2, "a", "read_gauge", '{"station": "upper gate", "unit": "m"}'),
        *call(3, "b", "read_gauge", '{"station": "lower gate", "unit": "m"}'),
    ])  # fmt: skip
    timeline.add_result("a", '{"level": 3.2, "at": "2026-11-16T21:00:00Z"}', seconds=0.31)
    timeline.add_result("b", "read_gauge did not finish within 2 seconds.", failed=True, seconds=2.0)
    steps = [timeline.steps[0], timeline.begin_step(2)]
    timeline.feed(call(0, "c", "open_gate", '{"gate": "lower", "percent": 40}'))
    timeline.add_result("c", '"opened"', seconds=1.2)
    steps.append(timeline.begin_step(3))
    said = "The upper gauge reads 3.2 m. The lower gauge did not answer, so I opened the lower gate to 40 %."
    timeline.feed([
        ev.TextStart(0), ev.TextDelta(0, said), ev.TextEnd(0),
        ev.Source(1, "https://example.org/gates/manual", "Manual of the lower gate"), ev.Finish("stop"),
    ])  # fmt: skip
    usages = ev.Usage(812, 64, 600, reasoning=40), ev.Usage(910, 41, 812), ev.Usage(1020, 120)
    for step, usage, cost, seconds in zip(steps, usages, (0.0031, 0.0022, 0.0043), (3.4, 1.9, 2.1), strict=True):
        step.usage, step.cost, step.seconds = usage, cost, seconds
    timeline.usage, timeline.cost, timeline.seconds = ev.Usage(2742, 225, 1412, reasoning=40), 0.0096, 7.4
    return timeline


@each("width", [860, 390])
@each("theme, colors", [("light", "#fff;color:#212121"), ("dark", "#111;color:#e0e0e0")])
def test_the_view_fits_its_page_in_any_theme(browser: Browser, theme: str, colors: str, width: int) -> None:
    failed = build_answer_timeline(fold_all(play("error"))[0])
    views = "".join(map(render_html, (sample_run(), failed, build_answer_timeline(fold_all(play("refusal"))[0]))))
    page = browser.new_page(viewport={"width": width, "height": 700}, device_scale_factor=2)
    page.set_content(
        f"<html lang=en><title>x</title><body style='background:{colors};margin:12px'><main>{views}</main></body>"
    )
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(page) == []  # contrast, too
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = false))")
    if SHOTS and width > 500 and theme == "light":
        page.locator(".penstock").first.screenshot(path=f"{SHOTS}/notebook.png")
    page.close()


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────

MANY = 3000
HUGE: dict[str, Callable[[], Timeline]] = {
    "text": lambda: build_answer_timeline(rq.Turn(parts=[rq.Text("word " * 10**7)])),
    "escapes": lambda: build_answer_timeline(rq.Turn(parts=[rq.Text("\x1b<&" * 10**6)])),
    "one word": lambda: build_answer_timeline(rq.Turn("x" * 10**6, "y" * 10**6, parts=[rq.Text("z" * 10**7)])),
    "reasoning": lambda: build_answer_timeline(rq.Turn(parts=[rq.Reasoning("hm " * 10**6)])),
    "calls": lambda: build_answer_timeline(
        rq.Turn(parts=[part for n in range(MANY) for part in (rq.Call(str(n), "n" * 9999, "1" * 9999), rq.Result(str(n), "", [rq.Text("r" * 9999)]))])
    ),
    "parts": lambda: build_answer_timeline(rq.Turn(parts=[rq.Text(str(n)) for n in range(MANY)])),
    "sources": lambda: build_answer_timeline(rq.Turn(parts=[rq.Source("u" * 9999, "t" * 9999) for _ in range(MANY)])),
    "pictures": lambda: build_answer_timeline(rq.Turn(parts=[rq.File("image/png", data="A" * 10**6) for _ in range(20)])),
    "a fault": lambda: build_answer_timeline(rq.Turn(fault=ev.Fault("server", "m" * 10**7, code="c" * 10**6))),
    "steps": lambda: many_steps(MANY),
}  # fmt: skip


def many_steps(count: int) -> Timeline:
    timeline = Timeline("Run")
    for number in range(1, count):
        timeline.begin_step(number)
        timeline.feed([ev.TextStart(0), ev.TextDelta(0, f"step {number} of many"), ev.TextEnd(0)])
    return timeline


@each("name", HUGE)
def test_huge_content_is_cut(name: str) -> None:
    timeline = HUGE[name]()
    html = render_html(timeline)
    checked(html)
    assert len(html) < (PICTURE_CHARACTERS if name == "pictures" else 1_200_000)
    assert len(terminal_text(timeline)) < 250_000
    assert len(render_line(timeline)) < 600
    if name in ("text", "one word"):
        assert "more characters" in html
        assert len(html) < 30_000
    if name in ("calls", "parts", "sources", "steps"):
        assert "not shown" in html
        assert "not shown" in terminal_text(timeline)


def test_a_text_that_grows_is_cut_while_it_grows() -> None:
    timeline = Timeline("Stream")
    timeline.feed([ev.TextStart(0)])
    for _ in range(10_000):
        timeline.feed([ev.TextDelta(0, "x" * 100)])
    (row,) = timeline.steps[0].rows
    assert len(row.body.text) == TEXT_CHARACTERS
    assert row.body.omitted == 10_000 * 100 - TEXT_CHARACTERS


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


@each("name", sorted(set(scripts()) - {"agent"}))
def test_a_packaged_answer_is_shown_whole(name: str) -> None:
    turn = fold_all(play(name))[0]
    timeline = build_answer_timeline(turn)
    for shown in (checked(render_html(timeline)), terminal_text(timeline).replace("\n", " ")):
        words = " ".join([turn.text, turn.refusal, *(call.name for call in turn.calls)]).split()
        assert [word for word in words if word not in shown] == []
        assert all(source.url in shown for source in turn.sources)
        if turn.fault is not None:
            assert turn.fault.message.split()[0] in shown
            assert turn.fault.kind in shown


def test_a_picture_is_shown_from_its_own_bytes() -> None:
    html = render_html(build_answer_timeline(fold_all(play("image"))[0]))
    checked(html)
    assert html.count("<img ") == 1
    data = next(part.data for part in fold_all(play("image"))[0].parts if isinstance(part, rq.File))
    assert f'src="data:image/png;base64,{data}"' in html


@each("media", ["image/svg+xml", "text/html", "IMAGE/PNG", "image/png;x=y", "image/png\n"])
def test_other_files_are_named_only(media: str) -> None:
    html = render_html(build_answer_timeline(rq.Turn(parts=[rq.File(media, data="PHN2Zz4=")])))
    assert "<img" not in html
    assert "PHN2Zz4=" not in html


def test_a_timeline_of_steps() -> None:
    ticks = iter(range(100))
    timeline = Timeline("Run", clock=lambda: float(next(ticks)))
    timeline.feed([
        ev.Start(model="m"), ev.CallStart(0, "a", "read_gauge"), ev.CallEnd(0, "a", "read_gauge", '{"gate":1}'),
        ev.Result(1, "a", "read_gauge", '"3.2 m"'), ev.Usage(10, 5, step=1), ev.Step(2),
        ev.CallStart(2, "b", "open_gate"), ev.CallEnd(2, "b", "open_gate", "{}"), ev.Ask(3, "b", "approval"),
        ev.Result(4, "b", "open_gate", '"no key"', failed=True), ev.CallStart(5, "c", "close_gate"),
        ev.CallEnd(5, "c", "close_gate", "{}"), ev.Ask(6, "c", "other"), ev.Step(3),
        ev.TextStart(7), ev.TextDelta(7, "Done."), ev.TextEnd(7), ev.Usage(30, 9, 4, summed=True), ev.Finish("stop"),
    ])  # fmt: skip
    assert [step.number for step in timeline.steps] == [1, 2, 3]
    first, second, third = (step.rows for step in timeline.steps)
    assert [(row.title, row.failed, row.seconds) for row in (*first, *second)] == [
        ("read_gauge", False, 1.0),
        ("open_gate", True, 1.0),
        ("close_gate", False, None),
    ]
    assert first[0].result is not None
    assert (first[0].result.text, timeline.steps[0].usage) == ('"3.2 m"', ev.Usage(10, 5, step=1))
    assert ([row.notes for row in second], [row.body.text for row in third]) == (
        [[], ["waits for approval"]],
        ["Done."],
    )
    assert all(step.seconds for step in timeline.steps)
    assert timeline.seconds == sum(step.seconds or 0 for step in timeline.steps) + 1
    html = checked(render_html(timeline))
    assert re.findall(r"Step \d", html) == ["Step 1", "Step 2", "Step 3"]
    assert render_line(timeline) == "<Run m: 'Done.', 3 steps, 3 calls, stop, 30 in (4 cached), 9 out>"
    assert '⚙ open_gate({}) ✗ "no key"' in terminal_text(timeline)


def test_reasoning_is_folded() -> None:
    html = render_html(build_answer_timeline(fold_all(play("reasoning"))[0]))
    assert re.search(r"<details [^>]*><summary>Reasoning · \d+ characters</summary>", html)
    assert " open" not in html


def test_a_cut_call_says_that_it_is_not_run() -> None:
    html = render_html(build_answer_timeline(rq.Turn(parts=[rq.Call("c", "rm", '{"path": "/', cut=True)])))
    assert "incomplete, not run" in checked(html)


@each(
    "usage, text",
    [
        (None, ""),
        (ev.Usage(), ""),
        (ev.Usage(0, 3), "0 in · 3 out"),
        (ev.Usage(12345, 67, 800, 20, 9), "12,345 in (800 cached, 20 written) · 67 out (9 reasoning)"),
    ],
)
def test_usage_in_words(usage: ev.Usage | None, text: str) -> None:
    assert format_usage(usage) == text


def test_cost_and_time_in_words() -> None:
    costs = {None: "", 0.0: "$0.0000", 0.01234: "$0.0123", 0.000012: "$1.2e-05", 3.5: "$3.5000"}
    assert {cost: format_cost(cost) for cost in costs} == costs
    times = {None: "", 0.0314: "31 ms", 4.24: "4.2 s", 125.0: "2 min 5 s"}
    assert {time: format_seconds(time) for time in times} == times


def test_the_colours_come_from_the_surrounding_text() -> None:
    """One view fits light and dark themes: it sets no background and no text colour of its own."""
    style = render_html(Timeline("Stream")).partition("</style>")[0]
    assert "color:inherit" in style
    assert "currentColor" in style
    assert not re.search(r"background:#|background:white|prefers-color-scheme", style)
