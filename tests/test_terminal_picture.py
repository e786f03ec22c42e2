"""docs/pictures/demo.svg and docs/tour.md show what `penstock demo` prints today, legibly and without a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.cli.command_runner import inside
from tests.support.browser import chromium
from tools import terminal_picture as tool

if TYPE_CHECKING:
    from pathlib import Path

MIN_CONTRAST = 4.5  # https://www.w3.org/TR/WCAG22/#contrast-minimum
PICTURES = pytest.mark.parametrize("path", [tool.PICTURE, tool.STILL], ids=lambda path: path.name)


def read_screen(path: Path) -> list[str]:
    """The lines of a picture, put together from the places of its texts."""
    lines: dict[int, str] = {}
    for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 — our own file
        row = round((float(element.attrib["y"]) - tool.MARGIN) / tool.ROW - 0.75)
        column = round((float(element.attrib["x"]) - tool.MARGIN) / tool.COLUMN)
        lines[row] = lines.get(row, "").ljust(column) + (element.text or "")
    return [lines.get(row, "").rstrip() for row in range(max(lines) + 1)]


@PICTURES
def test_the_picture_shows_what_is_printed(path: Path) -> None:
    printed = inside(*tool.COMMAND[1:]).stdout.decode().splitlines()
    assert read_screen(path) == [f"$ {' '.join(tool.COMMAND)}", *(line.rstrip() for line in printed)]


@pytest.mark.slow
def test_the_tour_shows_what_is_printed() -> None:
    page = tool.TOUR.read_text(encoding="utf-8")
    assert page.count("<!-- output: ") == 3
    assert tool.fill_tour(page) == page


@PICTURES
def test_the_picture_is_small_and_stands_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 30_000
    assert not re.search(r"<script|<image|<use|url\(|@import|\bon\w+=|href", text)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_the_picture_moves_once_and_not_where_motion_is_reduced() -> None:
    text = tool.PICTURE.read_text(encoding="utf-8")
    assert "@media(prefers-reduced-motion:no-preference){text{animation:" in text
    assert "infinite" not in text
    assert "animation" not in tool.STILL.read_text(encoding="utf-8")
    delays = [float(delay) for delay in re.findall(r"animation-delay:([0-9.]+)s", text)]
    assert delays == sorted(delays)
    assert 10 < delays[-1] < 60


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [tool.LIGHT, tool.DARK], ids=["light", "dark"])
def test_every_colour_is_legible(palette: dict[str, str]) -> None:
    back = luminance(palette["back"])
    for name in palette.keys() - {"back"}:
        bright, dark = max(back, luminance(palette[name])), min(back, luminance(palette[name]))
        assert (bright + 0.05) / (dark + 0.05) >= MIN_CONTRAST, name


@pytest.mark.slow
def test_a_browser_shows_all_of_it_where_motion_is_reduced() -> None:
    with chromium() as browser:
        shown = {}
        for motion in ("reduce", "no-preference"):
            page = browser.new_context(reduced_motion=motion).new_page()
            page.goto(tool.PICTURE.as_uri())
            count = (
                "[...document.querySelectorAll('text')].filter(e => getComputedStyle(e).visibility == 'visible').length"
            )
            shown[motion] = page.evaluate(count)
    texts = tool.PICTURE.read_text(encoding="utf-8").count("<text")
    assert shown["reduce"] == texts
    assert shown["no-preference"] < texts


def test_pieces_are_read_as_a_terminal_shows_them() -> None:
    arrow = "→".encode()
    writes = [(0.0, b"\x1b[1mTi"), (0.01, b"tle\x1b[0m\r\n"), (0.5, b"a " + arrow[:1]), (0.9, arrow[1:] + b" b")]
    assert tool.read_pieces(writes)[1:] == [
        tool.Piece(1, 0, 0.8, "Title", "b"),
        tool.Piece(2, 0, 1.3, "a ", ""),
        tool.Piece(2, 2, 0.8 + 0.9, "→ b", ""),
    ]
