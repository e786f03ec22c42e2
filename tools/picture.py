"""Draws `penstock inspect` of an example as SVG: `python tools/picture.py > docs/pictures/inspect.svg`.

Needs rich. The fonts that rich would load from elsewhere are left out: the picture must open without a network.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

WIDTH = 148
COMMAND = ["penstock", "inspect", "examples/tides.sse"]


def main() -> None:
    """Run the command in colour and write its screen as SVG."""
    environment = {**os.environ, "FORCE_COLOR": "1", "NO_COLOR": ""}
    environment.pop("NO_COLOR")
    words = [sys.executable, "-m", *COMMAND, "--width", str(WIDTH)]
    shown = subprocess.run(  # noqa: S603 — our own command
        words, env=environment, capture_output=True, text=True, check=True
    ).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown))
    svg = console.export_svg(title=" ".join(COMMAND))
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace", svg)
    print(re.sub(r"[ \t]+\n", "\n", svg))


if __name__ == "__main__":
    main()
