"""llmprobe, an independent suite, against the gateway and its packaged agent: what it says of each protocol.

Only what it calls a MUST counts here. How clever a model is it measures too, and there is none.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tools.agents.processes import BIN, private_environment, start_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "replay/agent"
NEEDED = frozenset({"models", "chat", "responses", "messages", "count-tokens", "completions"})


def probe(node: Path, limit: float) -> tuple[list[str], bool]:
    """Lines to print, and whether all is well."""
    with TemporaryDirectory(prefix="penstock-agents-") as name:
        folder = Path(name)
        with start_gateway(folder) as base:
            command = [str(BIN / "llmprobe"), f"{base}/v1", "-m", MODEL, "-k", "none", "--no-bench", "--no-save",
                       "--no-color", "--save", f"{name}/report.json"]  # fmt: skip
            subprocess.run(  # noqa: S603 — as with the agents
                command,
                cwd=folder,
                env=private_environment(folder, node),
                timeout=limit,
                check=False,
                capture_output=True,
            )
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())["conformance"]
    rows = {row["surface"]: row for row in report["bySurface"]}
    lacking = sorted(NEEDED - set(rows))
    lines = [*_lines(report), *(f"  {name} was not found" for name in lacking)]
    return lines, not lacking and report["passed"] == report["total"]


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"llmprobe, {MODEL}: {report['passed']} of {report['total']}"
    for row in report["bySurface"]:
        yield f"  {row['surface']:<16}{row['passed']}/{row['total']}"
    for row in report["inconclusive"]:
        yield f"  not seen: {row['name']} ({row['reason'][:80]})"
