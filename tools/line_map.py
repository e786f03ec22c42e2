"""A plugin of pytest for `tools.mutants map`: which test executes which line, and how long tests that pass take.

Coverage notes a row for each arc and test; with thousands of tests that is too much. Here a test has one bit for each
line of a file, and the arcs are kept once for all tests.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
from coverage.sqldata import CoverageData

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pytest

OUT = Path(os.environ.get("LINE_MAP", ""))
arcs: dict[str, set[tuple[int, int]]] = {}
lines: dict[str, dict[str, int]] = {}
times: dict[str, float] = {}
failed: set[str] = set()


def _add_arcs(data: Any, found: Mapping[str, Collection[tuple[int, int]]]) -> None:
    context = data._current_context or ""  # noqa: SLF001 — where coverage keeps it
    for file, pairs in found.items():
        arcs.setdefault(file, set()).update(pairs)
        bits = 0
        for pair in pairs:
            for line in pair:
                bits |= 1 << max(line, 0)
        row = lines.setdefault(file, {})
        row[context] = row.get(context, 0) | bits


CoverageData.add_arcs = _add_arcs  # type: ignore[method-assign,assignment]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Lines from here on are this test's."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up what set-up, call and tear-down of a test take."""
    times[report.nodeid] = times.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the lines of a worker, and the times of all."""
    running = coverage.Coverage.current()
    if hasattr(session.config, "workerinput") and running is not None:
        running.switch_context("")
        running.stop()
        packed = {
            file: {context: bits.to_bytes((bits.bit_length() + 7) // 8, "little") for context, bits in row.items()}
            for file, row in lines.items()
        }
        (OUT / f"map-{os.getpid()}.pickle").write_bytes(pickle.dumps((arcs, packed)))
    else:
        passed = {test: seconds for test, seconds in times.items() if test not in failed}
        (OUT / "times.pickle").write_bytes(pickle.dumps(passed))
