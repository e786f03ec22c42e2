"""Runs the code blocks of some pages, and shows all that is wrong with them: `python -m tests.surfaces.docs docs/web.md`.

Each page has a gateway of its own if it needs one. `--show` prints what each block prints.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.surfaces.docs.page_runner import PageRun, map_ports, start_stores
from tools.code_blocks import CodeBlock, read_blocks


def run_page(page: Path, *, show: bool) -> int:
    """Runs all blocks of a page. Returns how many are wrong."""
    blocks = [block for block in read_blocks(page) if block.reason is None]
    wrong = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        start = CodeBlock(page, 0, "sh", "", "penstock serve\n", {})

        def start_gateway() -> int:
            other = PageRun(folder / "gateway", map_ports([start], lambda: 0, {}))
            stack.callback(other.close)
            other.run_block(start)
            return int(other.ports["4480"])

        run = PageRun(folder / "page", map_ports(blocks, start_gateway, start_stores(stack)))
        stack.callback(run.close)
        for block in blocks:
            began, run.output = time.monotonic(), run.output if block.language == "text" else ""
            try:
                run.run_block(block)
            except Exception as error:  # noqa: BLE001 — all that is wrong with a page is shown
                wrong += 1
                sys.stdout.write(f"WRONG {block.place}: {error}\n\n")
            if show and block.language != "text":
                sys.stdout.write(f"{block.place} ({block.language}, {time.monotonic() - began:.1f} s)\n{run.output}\n")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the code blocks of some pages.")
    parser.add_argument("pages", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--show", action="store_true", help="print what each block prints")
    options = parser.parse_args()
    return 1 if sum(run_page(page, show=options.show) for page in options.pages) else 0


if __name__ == "__main__":
    sys.exit(main())
