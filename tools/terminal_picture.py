"""Draws `penstock demo` as an animated SVG and puts its output into the tour: python -m tools.terminal_picture.

Runs the command in a pseudo-terminal at its real speed and writes docs/pictures/demo.svg: CSS only, no script, colours
for light and dark pages. It plays once and ends with the whole output; where motion is reduced, it does not move.
Then the blocks of docs/tour.md are replaced by what the commands print today.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/demo.svg"
STILL = ROOT / "docs/pictures/demo-still.svg"  # for pages that ask for reduced motion themselves
TOUR = ROOT / "docs/tour.md"
COMMAND = ("penstock", "demo", "--no-serve")
COLUMN, ROW, MARGIN = 8.4, 19, 16  # pixels
_STEP = 0.1  # seconds: pieces that arrive closer together appear together
_TYPED = 0.8  # seconds before the output begins
_LIMIT = 120.0  # seconds
_CODE = re.compile(r"\x1b\[([0-9;]*)m")
_BLOCK = re.compile(r"(<!-- output: ([^\n]*?) -->\n```text\n)(.*?)(```)", re.DOTALL)
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}  # SGR codes → classes
# Colours of each class, and of text and background, on a light and on a dark page.
LIGHT = {
    "text": "#1f2328",
    "back": "#f6f8fa",
    "d": "#59636e",
    "r": "#b3261e",
    "g": "#116329",
    "y": "#7a5200",
    "c": "#0b5f83",
}
DARK = {
    "text": "#e6edf3",
    "back": "#0d1117",
    "d": "#9198a1",
    "r": "#ff7b72",
    "g": "#56d364",
    "y": "#e3b341",
    "c": "#56c7e8",
}


class Piece(NamedTuple):
    """Text that appears at once: where, when and in which style."""

    row: int
    column: int
    seconds: float
    text: str
    style: str


def main() -> None:
    """Write the picture and the tour."""
    pieces = read_pieces(record_output())
    PICTURE.write_text(draw_picture(pieces), encoding="utf-8")
    STILL.write_text(draw_picture(pieces, animated=False), encoding="utf-8")
    TOUR.write_text(fill_tour(TOUR.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes; {TOUR.relative_to(ROOT)}")


def record_output() -> list[tuple[float, bytes]]:
    """Run the command in a terminal. Return what it wrote, and when."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**_environment(), "TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-m", *COMMAND], environment)  # noqa: S606 — our own command
    begin, found = time.monotonic(), list[tuple[float, bytes]]()
    while select.select([terminal], [], [], _LIMIT)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        found.append((time.monotonic() - begin, data))
    os.close(terminal)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{' '.join(COMMAND)} ended with {code}")
    return [(seconds - found[0][0], data) for seconds, data in found]


def run_plain(*command: str) -> str:
    """Return what a command prints into a pipe."""
    words = [sys.executable, "-m", *command]
    return subprocess.run(words, env=_environment(), capture_output=True, text=True, check=True, timeout=_LIMIT).stdout  # noqa: S603


def _environment() -> dict[str, str]:
    """Return an environment in which the command prints the same everywhere."""
    hidden = {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}", "PYTHONIOENCODING": "utf-8"}


def read_pieces(writes: list[tuple[float, bytes]]) -> list[Piece]:
    """Split what was written into pieces of one line, one style and one moment. Row 0 is the command."""
    pieces = [Piece(0, 0, 0.0, f"$ {' '.join(COMMAND)}", "b")]
    row, column, style, pending = 1, 0, "", b""
    for seconds, data in writes:
        text, pending = _decode(pending + data)
        for part in re.split(r"(\x1b\[[0-9;]*m|\r?\n)", text):
            if code := _CODE.fullmatch(part):
                style = STYLES.get(code[1], "")
            elif part.endswith("\n"):
                row, column = row + 1, 0
            elif part:
                pieces.append(Piece(row, column, _TYPED + seconds, part, style))
                column += len(part)
    return _join_pieces(pieces)


def _decode(data: bytes) -> tuple[str, bytes]:
    """Return the text, and bytes at the end that are the beginning of a character."""
    for end in range(len(data), max(len(data) - 4, -1), -1):
        try:
            return data[:end].decode(), data[end:]
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace"), b""


def _join_pieces(pieces: list[Piece]) -> list[Piece]:
    """Join neighbours of the same style that appear almost together, and drop those that are only spaces."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.row, last.style) == (piece.row, piece.style) and _is_soon(last, piece):
            joined[-1] = last._replace(text=last.text + piece.text)
        else:
            joined.append(piece)
    return [piece for piece in joined if piece.text.strip()]


def _is_soon(first: Piece, second: Piece) -> bool:
    return first.column + len(first.text) == second.column and second.seconds - first.seconds < _STEP


def draw_picture(pieces: list[Piece], *, animated: bool = True) -> str:
    """Return the SVG. One that is not animated has the whole output from the beginning."""
    if not animated:
        pieces = _join_pieces([piece._replace(seconds=0.0) for piece in pieces])
    width = round(max(piece.column + len(piece.text) for piece in pieces) * COLUMN + 2 * MARGIN)
    height = (pieces[-1].row + 1) * ROW + 2 * MARGIN
    title = " ".join(COMMAND)
    return "\n".join([
        (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        'aria-labelledby="t" xml:space="preserve">'),
        f'<title id="t">The output of {title}</title>',
        f"<style>{_style_sheet(animated=animated)}</style>",
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
        *(_draw_piece(piece, animated=animated) for piece in pieces),
        "</svg>\n",
    ])  # fmt: skip


def _style_sheet(*, animated: bool) -> str:
    def colours(palette: dict[str, str]) -> str:
        return "".join(f".{name}{{fill:{value}}}" for name, value in palette.items())

    font = "14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    motion = "@media(prefers-reduced-motion:no-preference){text{animation:show .01s backwards}}"
    return (
        f"text{{font:{font};white-space:pre}}.b{{font-weight:700}}"
        f"{colours(LIGHT)}@media(prefers-color-scheme:dark){{{colours(DARK)}}}"
        + (f"@keyframes show{{from{{visibility:hidden}}}}{motion}" if animated else "")
    )


def _draw_piece(piece: Piece, *, animated: bool) -> str:
    x, y = MARGIN + piece.column * COLUMN, MARGIN + (piece.row + 0.75) * ROW
    length = round(len(piece.text) * COLUMN, 1)
    classes = {"": "text", "b": "text b"}.get(piece.style, piece.style)
    delay = f' style="animation-delay:{piece.seconds:.1f}s"' if animated else ""
    text = escape(piece.text, quote=False)
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}" textLength="{length}"{delay}>{text}</text>'


def fill_tour(page: str) -> str:
    """Return the tour with the output of its commands. `part N` takes one numbered part of the output."""

    def replace(block: re.Match[str]) -> str:
        command, _, part = block[2].partition(", part ")
        return f"{block[1]}{_cut_part(run_plain(*command.split()), part)}{block[4]}"

    return _BLOCK.sub(replace, page)


def _cut_part(output: str, number: str) -> str:
    if not number:
        return output
    parts = [part for part in output.split("\n\n") if part.startswith(f"{number} ")]
    return parts[0].rstrip("\n") + "\n"


if __name__ == "__main__":
    main()
