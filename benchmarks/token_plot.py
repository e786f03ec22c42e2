"""Estimate against actual as an SVG: a dot for each request, both axes by powers of ten. Leans on nothing."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.token_score import Guess

SIZE, LEFT, TOP, LEAST, MOST = 560, 64, 40, 1.0, 4.8
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#9c6b4e", "#97bbf5", "#9498a0")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}.g{stroke:#8c959f;stroke-opacity:.35}.d{stroke:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#adbac7}.d{stroke:#adbac7}}"
)


def _at(value: float) -> float:
    return (log10(max(value, 10**LEAST)) - LEAST) / (MOST - LEAST) * SIZE


def _x(value: float) -> str:
    return f"{LEFT + _at(value):.1f}"


def _y(value: float) -> str:
    return f"{TOP + SIZE - _at(value):.1f}"


def picture(guesses: Sequence[Guess], caption: str) -> str:
    """The whole drawing."""
    names = sorted(
        {guess.sample.family for guess in guesses}, key=lambda name: -sum(g.sample.family == name for g in guesses)
    )
    colour = {name: COLOURS[min(place, len(COLOURS) - 1)] for place, name in enumerate(names)}
    width, height = LEFT + SIZE + 130, TOP + SIZE + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{caption}">',
        f"<style>{STYLE}</style>", f'<text x="{LEFT}" y="22">{caption}</text>',
    ]  # fmt: skip
    for power in range(1, 5):
        value = 10**power
        lines.append(f'<path class="g" d="M{_x(value)} {TOP}V{TOP + SIZE}M{LEFT} {_y(value)}H{LEFT + SIZE}"/>')
        lines.append(f'<text x="{_x(value)}" y="{TOP + SIZE + 18}" text-anchor="middle">{value:,}</text>')
        lines.append(f'<text x="{LEFT - 8}" y="{float(_y(value)) + 4:.1f}" text-anchor="end">{value:,}</text>')
    far = 10**MOST
    lines.append(f'<path class="d" fill="none" d="M{_x(10)} {_y(10)}L{_x(far)} {_y(far)}"/>')
    lines.append(f'<text x="{LEFT + SIZE / 2}" y="{TOP + SIZE + 40}" text-anchor="middle">actual input tokens</text>')
    lines.append(f'<text transform="translate(14 {TOP + SIZE / 2})rotate(-90)" text-anchor="middle">estimate</text>')
    for name in names:
        dots = "".join(
            f'<circle cx="{_x(g.sample.actual)}" cy="{_y(g.tokens)}" r="3"/>'
            for g in guesses
            if g.sample.family == name
        )
        lines.append(f'<g fill="{colour[name]}" fill-opacity=".7">{dots}</g>')
    for place, name in enumerate(names[: len(COLOURS)]):
        last = place == len(COLOURS) - 1 and len(names) > len(COLOURS)
        y = TOP + 12 + 18 * place
        lines.append(f'<circle cx="{LEFT + SIZE + 16}" cy="{y - 4}" r="4" fill="{COLOURS[place]}"/>')
        lines.append(f'<text x="{LEFT + SIZE + 26}" y="{y}">{"others" if last else name}</text>')
    return "\n".join([*lines, "</svg>", ""])
