"""Cells on disk. A cell is valid for one version of the agent, of its settings, of the upstream and of the gateway.

Of the gateway counts what the cell can touch: a change in a protocol that stands on neither side leaves it valid.

Direct runs are baselines: they do not depend on the gateway, and `baselines.json` is part of the repository.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.agents.outcome import Outcome
from tools.agents.processes import PACKAGES
from tools.agents.programs import AGENTS
from tools.strict_upstream.conversation import PROTOCOLS

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Protocol

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / ".agents"
BASELINES = Path(__file__).resolve().parent / "baselines.json"


# The folder of each protocol. No protocol imports another, which `lint-imports` checks.
_FOLDERS = {"chat": "openai_chat", "responses": "responses", "messages": "anthropic", "gemini": "gemini"}
_UNUSED = frozenset(
    {"_inspector", "_aisdk", "_testing", "_cli/setup"}
    | {f"_protocols/{name}" for name in ("aisdk", "bedrock", "cohere", "completions", "ollama", "uistream", "vscode")}
)


@cache
def hash_tree(path: Path, unused: frozenset[str] = frozenset()) -> str:
    """A hash of every source file below a folder, but for folders and files that are not used."""
    made = hashlib.sha256()
    for place in sorted(path.rglob("*")):
        inside = place.relative_to(path)
        if unused & {str(one) for one in (inside, *inside.parents)}:
            continue
        if place.suffix in (".py", ".toml", ".json") and "static" not in place.parts:
            made.update(str(place.relative_to(path)).encode() + b"\0" + place.read_bytes())
    return made.hexdigest()[:16]


@cache
def read_version(package: str) -> str:
    """The installed version of an npm package, or nothing."""
    place = PACKAGES / package / "package.json"
    return str(json.loads(place.read_text())["version"]) if place.exists() else ""


def _other_protocols(strict: Path, protocol: Protocol) -> frozenset[str]:
    """The files of the strict upstream for protocols that it does not speak in a cell."""
    used = (protocol, "chat") if protocol == "responses" else (protocol,)  # they share a check
    others = tuple(name for name in PROTOCOLS if name not in used)
    return frozenset(place.name for place in strict.glob("*.py") if place.name.startswith(others))


def make_key(agent: str, upstream: Protocol | None) -> str:
    """What a cell depends on besides its name."""
    row = AGENTS[agent]
    settings = json.dumps([row.command, row.env, row.setup, row.files("B", "M")])
    strict = ROOT / "tools" / "strict_upstream"
    parts = [read_version(row.package), settings, hash_tree(strict, _other_protocols(strict, upstream or row.protocol))]
    if upstream:
        others = {f"_protocols/{name}" for kind, name in _FOLDERS.items() if kind not in (row.protocol, upstream)}
        parts.append(hash_tree(ROOT / "src" / "penstock", _UNUSED | others))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def read_revision() -> str:
    """The last commit that changed the gateway, with a `+` if there are changes since; nothing without git."""
    source = str(ROOT / "src" / "penstock")
    try:
        commit = _run_git("log", "-1", "--format=%h", "--", source)
        changed = _run_git("status", "--porcelain", "--", source)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}+" if changed else commit


def _run_git(*words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 — fixed words
    return done.stdout.strip()


class CellCache:
    """Reads and writes outcomes. `any_revision` accepts cells of other revisions."""

    def __init__(self, folder: Path = CELLS, baselines: Path = BASELINES, *, any_revision: bool = False) -> None:
        self._folder = folder
        self._baselines = baselines
        self._any = any_revision
        self._lock = threading.Lock()

    def load(self, agent: str, scenario: str, upstream: Protocol | None) -> Outcome | None:
        """A valid outcome, or None."""
        row = self._read(agent, scenario, upstream)
        if row is None or (not self._any and row["key"] != make_key(agent, upstream)):
            return None
        return Outcome(**row["outcome"])

    def load_revision(self, agent: str, scenario: str, upstream: Protocol) -> str:
        """The revision of the gateway that a cell ran on."""
        return str((self._read(agent, scenario, upstream) or {}).get("revision", ""))

    def save(self, agent: str, scenario: str, upstream: Protocol | None, outcome: Outcome) -> None:
        """Write an outcome at once: an interrupted run goes on from there."""
        row = {"key": make_key(agent, upstream), "version": read_version(AGENTS[agent].package)}
        if upstream:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({**row, "revision": read_revision(), "outcome": outcome.to_json()}, indent=1)
            self._place(agent, scenario, upstream).write_text(text)
            return
        outcome.output = ""  # it holds times and paths; --keep saves it
        with self._lock:
            rows = self._read_baselines()
            rows[f"{agent}: {scenario}"] = {**row, "outcome": outcome.to_json()}
            text = json.dumps(dict(sorted(rows.items())), indent=1) + "\n"
            draft = self._baselines.with_suffix(".part")
            draft.write_text(text)
            draft.replace(self._baselines)

    def _read(self, agent: str, scenario: str, upstream: Protocol | None) -> dict[str, Any] | None:
        if upstream is None:
            return self._read_baselines().get(f"{agent}: {scenario}")
        place = self._place(agent, scenario, upstream)
        return dict(json.loads(place.read_text())) if place.exists() else None

    def _read_baselines(self) -> dict[str, Any]:
        return dict(json.loads(self._baselines.read_text())) if self._baselines.exists() else {}

    def _place(self, agent: str, scenario: str, upstream: str) -> Path:
        return self._folder / f"{name_file(agent)}.{scenario}.{upstream}.json"


def name_file(agent: str) -> str:
    """`Codex, SSE` → `codex-sse`."""
    return agent.lower().replace(",", "").replace(" ", "-")
