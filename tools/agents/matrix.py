"""The matrix: which cells there are, and its tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.agents.cell_cache import read_version
from tools.agents.comparison import does_better, find_differences
from tools.agents.programs import AGENTS
from tools.strict_upstream.conversation import PROTOCOLS, Protocol
from tools.strict_upstream.scenario import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.agents.cell_cache import CellCache

BEGIN, END = "<!-- agents: begin -->", "<!-- agents: end -->"
_TITLES = {"chat": "Chat", "responses": "Responses", "messages": "Messages", "gemini": "Gemini"}


@dataclass(frozen=True)
class Cell:
    """An agent, a scenario, an upstream."""

    agent: str
    scenario: str
    upstream: Protocol

    def __str__(self) -> str:
        return f"{self.agent}, {self.scenario}, {_TITLES[self.upstream]} behind"


def list_cells() -> list[Cell]:
    """All scenarios before all upstreams for the agents marked `full`; parallel calls for every agent; one foreign
    upstream for the rest. What finds most comes first.
    """
    cells: list[Cell] = []
    order = ["parallel-calls", *(name for name in SCENARIOS if name != "parallel-calls")]
    for scenario in order:
        for name, agent in AGENTS.items():
            every = agent.full or scenario == "parallel-calls"
            cells += [Cell(name, scenario, one) for one in PROTOCOLS if every or one == agent.foreign]
    return cells


@dataclass
class Result:
    """How a cell stands: `ok`, `differs`, or `not run`."""

    cell: Cell
    differences: list[str] = field(default_factory=list)
    state: str = "not run"
    revision: str = ""  # of the gateway


def judge_cell(cell: Cell, cache: CellCache) -> Result:
    """Compare a cell with its baseline, as far as both are there."""
    outcome = cache.load(cell.agent, cell.scenario, cell.upstream)
    baseline = cache.load(cell.agent, cell.scenario, None)
    if outcome is None or baseline is None:
        return Result(cell)
    scenario, agent = SCENARIOS[cell.scenario], AGENTS[cell.agent]
    if does_better(scenario, baseline, outcome):
        baseline = cache.load(cell.agent, "one-call", None) or baseline
    found = find_differences(scenario, baseline, outcome, agent, cell.upstream)
    revision = cache.load_revision(cell.agent, cell.scenario, cell.upstream)
    return Result(cell, found, "differs" if found else "ok", revision)


def write_table(results: Iterable[Result]) -> str:
    """A Markdown table: agents and scenarios, one column for each upstream."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    states: Counter[str] = Counter()
    revisions: Counter[str] = Counter()
    for one in results:
        states[one.state] += 1
        revisions[one.revision] += one.state != "not run"
        rows.setdefault((one.cell.agent, one.cell.scenario), {})[one.cell.upstream] = one.state
    heads = " | ".join(_TITLES[name] for name in PROTOCOLS)
    lines = [f"| agent | scenario | {heads} |", f"|---|---|{'---|' * len(PROTOCOLS)}"]
    for agent in AGENTS:
        version = read_version(AGENTS[agent].package)
        for scenario in SCENARIOS:
            row = rows.get((agent, scenario))
            if row:
                cells = " | ".join(row.get(name, "") for name in PROTOCOLS)
                lines.append(f"| {agent} {version} | {scenario} | {cells} |")
    counts = ", ".join(f"{states[name]} {name}" for name in ("ok", "differs", "not run"))
    ran = ", ".join(f"{count} at {name or 'an unknown one'}" for name, count in revisions.most_common() if count)
    return "\n".join([*lines, "", f"{counts}. Cells by the revision of penstock they ran at: {ran or 'none'}."])


def update_page(page: Path, table: str) -> None:
    """Put the table between its marks."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
