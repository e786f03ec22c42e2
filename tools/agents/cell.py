"""One cell of the matrix: an agent, a scenario, and an upstream behind the gateway, or the agent's own vendor."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tools.agents.outcome import (
    Outcome,
    classify_errors,
    count_answers,
    count_prompt_words,
    count_reasoning,
    read_usage,
    summarize_history,
)
from tools.agents.processes import run_agent, start_gateway
from tools.agents.tap import tapped
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import FILES
from tools.strict_upstream.server import serve

if TYPE_CHECKING:
    from tools.agents.programs import Agent
    from tools.agents.tap import Tap
    from tools.strict_upstream.conversation import Protocol
    from tools.strict_upstream.scenario import Scenario
    from tools.strict_upstream.server import StrictUpstream

PROMPT = "read {files} with your shell tool, turn what they hold round with `rev`, and tell me what it printed"
_TAIL = 6000


def run_cell(
    agent: Agent, scenario: Scenario, upstream: Protocol | None, node: Path, limit: float, keep: Path | None = None
) -> Outcome:
    """Run the agent; without an upstream it speaks to its own vendor's protocol directly."""
    with TemporaryDirectory(prefix="penstock-agents-") as name:
        folder = Path(name)
        words = _write_files(folder / "work")
        log = folder / "upstream.jsonl"
        started = time.monotonic()
        with serve(scenario, log) as server:
            if upstream is None:
                code, printed, tap = _run(agent, scenario, server.url, folder, node, limit)
            else:
                model = DEFAULT_MODELS[agent.protocol]
                with start_gateway(folder / "gateway", server.url, upstream, (model,)) as base:
                    code, printed, tap = _run(agent, scenario, base, folder, node, limit)
        outcome = _judge(agent, scenario, server, tap, words, printed)
        outcome.exit_code, outcome.seconds = code, round(time.monotonic() - started, 1)
        if keep:
            _keep(keep, folder, printed, tap)
    return outcome


def _write_files(work: Path) -> list[str]:
    work.mkdir()
    words = [f"{name.partition('.')[0]}-{secrets.token_hex(6)}" for name in FILES]
    for name, word in zip(FILES, words, strict=True):
        (work / name).write_text(word + "\n")
    return words


def _run(agent: Agent, scenario: Scenario, url: str, folder: Path, node: Path, limit: float) -> tuple[int, str, Tap]:
    model = DEFAULT_MODELS[agent.protocol]
    files = " and ".join(f"`{name}`" for name in FILES[: 2 if scenario.parallel else 1])
    with tapped(url) as (base, tap):
        for path, text in agent.files(base, model).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        given = {
            "base": base, "model": model, "home": str(folder), "work": str(folder / "work"),
            "prompt": PROMPT.format(files=files),
        }  # fmt: skip
        code, printed = run_agent(agent, given, node, limit)
    return code, printed, tap


def _judge(
    agent: Agent, scenario: Scenario, server: StrictUpstream, tap: Tap, words: list[str], printed: str
) -> Outcome:
    answers = count_answers(printed, words[: 2 if scenario.parallel else 1])
    main = server.log.main()
    outcome = Outcome(said_word=answers > 0, answers=answers, calls=server.model.calls, output=printed[-_TAIL:])
    outcome.upstream_requests = len(server.log.exchanges)
    outcome.agent_requests = sum(head.startswith(agent.asks) for head in tap.asked)
    outcome.usage = read_usage(printed)
    accepted = [one for one in main if one.outcome != "refused"]
    outcome.history = summarize_history(accepted[-1].items) if accepted else []
    if accepted:
        outcome.prompt_words, outcome.tools = count_prompt_words(accepted[0]), accepted[0].tools
    outcome.reasoning = count_reasoning(server.log)
    outcome.refusals = sorted({f"{one.status} {one.message}" for one in server.log.refusals()})
    outcome.shown = [] if outcome.said_word else classify_errors(printed)
    if not outcome.agent_requests:
        outcome.transport.append(f"no {agent.asks}, but {sorted(set(tap.asked))}")
    if agent.never and scenario.name in ("one-call", "parallel-calls"):
        outcome.transport += [f"{head} as well" for head in tap.asked if head.startswith(agent.never)]
    return outcome


def _keep(keep: Path, folder: Path, printed: str, tap: Tap) -> None:
    """Save what helps to find a cause: the output, the gateway's log, the upstream's log."""
    keep.mkdir(parents=True, exist_ok=True)
    (keep / "output.txt").write_text(printed + "\n--- asked\n" + "\n".join(tap.asked))
    for place in (folder / "gateway" / "gateway.log", folder / "upstream.jsonl"):
        if place.exists():
            (keep / place.name).write_bytes(place.read_bytes())
