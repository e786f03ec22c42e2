"""A run through the gateway against the baseline: what an agent does otherwise than with its own vendor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.agents.processes import TIMED_OUT

if TYPE_CHECKING:
    from tools.agents.outcome import Outcome
    from tools.agents.programs import Agent
    from tools.strict_upstream.scenario import Scenario

_PLAIN = ("one-call", "parallel-calls")
_MORE_REQUESTS = 2  # a gateway may retry by itself, or spare the agent a retry
_REPEATED = re.compile(r"\A(.+?)(?: \1)+\Z")
_RETRIED = ("rate-limit", "overload")  # the gateway retries these itself, so that a task may do better than directly
_FAULT_CLASS = {"cut-text": "broken", "cut-text-frame": "broken", "cut-call": "broken", "cut-call-frame": "broken"}


def find_differences(scenario: Scenario, baseline: Outcome, outcome: Outcome, agent: Agent, upstream: str) -> list[str]:
    """One line for each thing that is worse, or other, than in the direct run."""
    found: list[str] = []
    if scenario.fault in _RETRIED and outcome.said_word and not baseline.said_word and not outcome.exit_code:
        return [f"refused: {one}" for one in outcome.refusals]
    if outcome.exit_code == TIMED_OUT != baseline.exit_code:
        found.append("it did not end in time")
    elif bool(outcome.exit_code) != bool(baseline.exit_code):
        found.append(f"exit code {outcome.exit_code}, directly {baseline.exit_code}")
    if outcome.said_word != baseline.said_word:
        found.append("it says the word, directly not" if outcome.said_word else "it does not say the word")
    found += [f"refused: {one}" for one in outcome.refusals if one not in baseline.refusals]
    found += outcome.transport
    found += _compare_history(baseline, outcome, loses_output=agent.loses_output)
    found += _compare_errors(scenario, baseline, outcome)
    if outcome.reasoning and upstream != agent.protocol and outcome.reasoning[0] < outcome.reasoning[1]:
        found.append(f"reasoning came back {outcome.reasoning[0]} times for {outcome.reasoning[1]} steps")
    if not agent.loses_output:
        found += _compare_requests(scenario, baseline, outcome)
    return found


def _compare_history(baseline: Outcome, outcome: Outcome, *, loses_output: bool) -> list[str]:
    own, mine = _normalize_texts(baseline.history), _normalize_texts(outcome.history)
    if mine == own:
        return []
    if loses_output:
        own, mine = _known_rows(own), _known_rows(mine)
        return [] if own == mine else [f"history: {mine}, directly {own}"]
    extra = [row for row in mine if row not in own]
    lacking = [row for row in own if row not in mine]
    if not extra and not lacking:
        return [f"history: {len(mine)} entries, directly {len(own)}, or another order"]
    rows = [f"history: has {row[0]} {row[1][:80]!r}" for row in extra]
    return rows + [f"history: lacks {row[0]} {row[1][:80]!r}" for row in lacking]


def _normalize_texts(history: list[list[str]]) -> list[list[str]]:
    """Texts as far as they are comparable between protocols.

    Neighbours that a protocol joins have a line break or a space between them. After a cut, an agent keeps a text that
    was complete and gets it again; Gemini does not tell that a text is complete before the call comes.
    """
    return [[kind, _REPEATED.sub(r"\1", " ".join(text.split()))] for kind, text in history]


def _known_rows(history: list[list[str]]) -> list[list[str]]:
    """What happened, without calls that were repeated because their output was lost."""
    rows: list[list[str]] = []
    for row in history:
        if row not in rows and (row[0] != "result" or "<" in row[1]):
            rows.append(row)
    return sorted(rows)


def _compare_errors(scenario: Scenario, baseline: Outcome, outcome: Outcome) -> list[str]:
    """A task that fails in both runs must show the same class of error."""
    kind = scenario.fault or _FAULT_CLASS.get(scenario.name, "")
    if kind in baseline.shown and not outcome.said_word and kind not in outcome.shown:
        return [f"shows {outcome.shown or 'no error'}, directly {baseline.shown}"]
    return []


def _compare_requests(scenario: Scenario, baseline: Outcome, outcome: Outcome) -> list[str]:
    mine, own = outcome.agent_requests, baseline.agent_requests
    allowed = 0 if scenario.name in _PLAIN else _MORE_REQUESTS
    return [f"{mine} requests, directly {own}"] if abs(mine - own) > allowed else []
