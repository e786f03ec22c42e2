"""Keeps crashes as files, and makes the table of figures."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.engine import Crash, Result

ROOT = Path(__file__).resolve().parent.parent
CRASHES = ROOT / "fuzz" / "crashes"
CASES = ROOT / "tests" / "fuzz_cases"
SHORT = 120


def save(result: Result) -> list[Path]:
    """Write each crash into fuzz/crashes/<target>/: the input, and beside it what happened."""
    return [_save(result.target, crash) for crash in result.crashes.values()]


def _save(target: str, crash: Crash) -> Path:
    folder = CRASHES / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(crash.signature.encode()).hexdigest()[:12]
    path.write_bytes(crash.data)
    path.with_suffix(".txt").write_text(f"{crash.signature}\n{crash.message}\n{crash.count} times\n\n{crash.traceback}")
    return path


def advice(target: str, crash: Crash, path: Path) -> str:
    """What happened, and how to look at it and keep it as a case."""
    shown = repr(crash.data) if len(crash.data) <= SHORT else f"{crash.data[:SHORT]!r}… ({len(crash.data)} bytes)"
    here = path.relative_to(ROOT)
    return (
        f"  {crash.signature} ({crash.count} times)\n    {crash.message[:200]}\n    input: {shown}\n"
        f"    look at it:  python -m fuzz --target {target} --replay {here}\n"
        f"    as a case:   mkdir -p tests/fuzz_cases/{target} && cp {here} tests/fuzz_cases/{target}/what-it-shows"
    )


def table(results: Sequence[Result], command: str, minutes: float) -> str:
    """The figures of a run."""
    inputs, past = sum(row.inputs for row in results), sum(row.past for row in results)
    crashes = sum(len(row.crashes) for row in results)
    rows = [f"| `{row.target}` | {row.inputs:,} | {row.past:,} | {len(row.crashes)} |" for row in results]
    head = f"`{command}`: {inputs:,} inputs to {len(results)} targets in {minutes:.0f} minutes, {past:,} of them past the first checks."
    found = f"{crashes} crashes were found." if crashes else "No crash was found."
    columns = ["| target | inputs | past the first checks | crashes |", "|---|---|---|---|"]
    return "\n".join([f"{head} {found}", "", *columns, *rows, f"| all | {inputs:,} | {past:,} | {crashes} |"])
