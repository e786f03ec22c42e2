"""`python -m benchmarks`: every section in one run, as Markdown.

`--write` also stores it as benchmarks/results.md, unless a limit is broken; `--check` exits with 1 if one is.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import cancel, client_overhead, peers, requests, sse, stages, start, tokens, translate

RESULTS = Path(__file__).parent / "results.md"
SECTIONS = {
    "translate": translate.report, "stages": stages.report, "sse": sse.report, "requests": requests.report,
    "start": start.report, "cancel": cancel.report, "tokens": tokens.report, "peers": peers.report,
}  # fmt: skip
if not client_overhead.missing():  # LiteLLM and pydantic-ai are no part of the development environment
    SECTIONS["client"] = client_overhead.report


def processor() -> str:
    """The CPU by its own name, where the system tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def heading() -> str:
    today = datetime.now(UTC).date().isoformat()
    python = f"{platform.python_implementation()} {platform.python_version()}, msgspec {version('msgspec')}"
    return f"""# What penstock costs

`make bench` (`python -m benchmarks --write`), {today}.
{python}; {processor()}, {os.cpu_count()} cores, {platform.system()}.
CPU time, contenders in turn; ratios are those of the calmest rounds. [How it is measured](../docs/performance.md)."""


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--write", action="store_true", help="store the results, if every limit holds")
    options.add_argument("--check", action="store_true", help="exit with 1 if a limit is broken")
    options.add_argument("sections", nargs="*", help=f"only these: {', '.join(SECTIONS)}")
    chosen = options.parse_args()
    if unknown := set(chosen.sections) - set(SECTIONS):
        options.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    texts, broken = [heading()], list[str]()
    print(texts[0], flush=True)
    for name in chosen.sections or SECTIONS:
        section = SECTIONS[name]()
        print(f"\n{section.text}", flush=True)
        texts.append(section.text)
        broken += section.broken
    for limit in broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    if chosen.write and not broken and not chosen.sections:
        RESULTS.write_text("\n\n".join(texts) + "\n")
    return 1 if broken and (chosen.check or chosen.write) else 0


if __name__ == "__main__":
    raise SystemExit(main())
