"""What `penstock setup` proposes for `penstock.toml`: the settings that a coding agent profits from, each explained.

All of them are harmless (see `gateway.config_trust`): the file needs no trust for them.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from penstock.cli.setup.config_files import Edited, FileEdit, edit

if TYPE_CHECKING:
    from pathlib import Path

EXPLAINED: dict[tuple[Any, ...], str] = {
    ("features", "prompt_caching"): "The conversation so far is cached by the provider: long sessions cost a fraction.",
    ("features", "context_management"): "Near the limit of a model's window old tool results go first, then old turns.",
    ("limits", "day_cost"): "Dollars a day and key; above it requests are refused until midnight UTC. 0 is no limit.",
}


def propose(path: Path, budget: float = 0.0) -> tuple[FileEdit, Edited]:
    """The settings that are missing in a file, or a whole new file. What the user has decided stays."""
    features = {"prompt_caching": True, "context_management": True}
    limits = {"limits": {"day_cost": budget}} if budget else {}
    if not path.is_file():
        one = FileEdit(path, "toml", {"features": features, **limits})
        return one, Edited(None, _explained(budget), edit(one).changes)
    had = tomllib.loads(path.read_text(encoding="utf-8"))
    missing = {name: value for name, value in features.items() if name not in had.get("features", {})}
    one = FileEdit(path, "toml", limits, {"features": missing} if missing else {})
    return one, edit(one)


def _explained(budget: float) -> str:
    lines = ["# The settings of `penstock serve` in this folder. All of them: docs/configuration.md"]
    values = {
        "features": {"prompt_caching": "true", "context_management": "true"},
        "limits": {"day_cost": f"{budget:g}"},
    }
    for table, rows in values.items():
        off = "# " if table == "limits" and not budget else ""
        lines += ["", f"{off}[{table}]"]
        for name, value in rows.items():
            shown = value if budget or table != "limits" else "5"
            lines += [f"# {EXPLAINED[table, name]}", f"{off}{name} = {shown}"]
    return "\n".join(lines) + "\n"
