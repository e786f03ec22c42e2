"""llmprobe, an independent conformance suite, against the gateway: on packaged streams, and through a second gateway.

Only what it calls a MUST counts. It also measures how clever a model is, and there is none here.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tools.agents.processes import BIN, private_environment, start_gateway

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tools.strict_upstream.conversation import Protocol

MODEL = "replay/agent"
NEEDED = frozenset({"models", "chat", "responses", "messages", "count-tokens", "completions"})
# A second gateway behind the first one, as this upstream. `None`: the first one answers by itself.
UPSTREAMS: tuple[Protocol | None, ...] = (None, "chat", "messages", "gemini")
# What a protocol has no field for, so that a translation cannot give it: docs/losses.md.
LOSSES: dict[Protocol | None, frozenset[str]] = {
    # JSON mode is asked for in words, which the packaged model does not read.
    "messages": frozenset({"chat-logprobs", "chat-json-mode", "responses-json-mode"}),
    "gemini": frozenset({"chat-logprobs"}),
}


def probe(node: Path, limit: float, upstream: Protocol | None = None) -> tuple[list[str], bool]:
    """Lines to print, and whether all is well."""
    with TemporaryDirectory(prefix="penstock-agents-") as name:
        folder = Path(name)
        with _gateways(folder, upstream) as (base, model):
            command = [str(BIN / "llmprobe"), f"{base}/v1", "-m", model, "-k", "none", "--no-bench", "--no-save",
                       "--no-color", "--save", f"{name}/report.json"]  # fmt: skip
            env = private_environment(folder, node)
            subprocess.run(  # noqa: S603 — as with the agents
                command, cwd=folder, env=env, timeout=limit, check=False, capture_output=True
            )
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())["conformance"]
    rows = {row["surface"]: row for row in report["bySurface"]}
    lacking = sorted(NEEDED - set(rows)) if upstream is None else []
    lines = [*_lines(report, upstream), *(f"  {name} was not found" for name in lacking)]
    failed = {row["id"] for row in report["results"] if row["outcome"] == "fail"}
    return lines, not lacking and failed <= LOSSES.get(upstream, frozenset())


@contextmanager
def _gateways(folder: Path, upstream: Protocol | None) -> Generator[tuple[str, str]]:
    """The address to probe, and the model to name."""
    with start_gateway(folder / "second") as second:
        if upstream is None:
            yield second, MODEL
            return
        with start_gateway(folder / "first", second, upstream, model=MODEL) as first:
            yield first, f"up/{MODEL}"


def _lines(report: dict[str, Any], upstream: Protocol | None) -> Iterator[str]:
    behind = f" through a second gateway ({upstream})" if upstream else ""
    yield f"llmprobe, {MODEL}{behind}: {report['passed']} of {report['total']}"
    for row in report["bySurface"]:
        yield f"  {row['surface']:<16}{row['passed']}/{row['total']}"
    for row in report["results"]:
        if row["outcome"] == "fail":
            known = ", a known loss" if row["id"] in LOSSES.get(upstream, ()) else ""
            yield f"  failed{known}: {row['name']} ({row['failures'][0]['message'][:80]})"
    for row in report["inconclusive"]:
        yield f"  not seen: {row['name']} ({row['reason'][:80]})"
