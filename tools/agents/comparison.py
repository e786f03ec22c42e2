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
_FAILED = re.compile(r"\A<ps:tool-failed\S* ")  # Chat has no flag for a failed call: docs/requests.md, `failed`
_RETRIED = ("rate-limit", "overload")  # the gateway retries these itself, so that a task may do better than directly
_THINKING = ("messages", "responses")  # upstreams whose reasoning must be asked for
_SLOWER = (3, 30)  # times the direct run, and so many seconds more
_OTHER_WORDS = (40, 0.02)  # so many words, or this share of them: dates, paths and what a translation adds


def find_differences(scenario: Scenario, baseline: Outcome, outcome: Outcome, agent: Agent, upstream: str) -> list[str]:
    """One line for each thing that is worse, or other, than in the direct run."""
    found: list[str] = []
    if outcome.exit_code == TIMED_OUT != baseline.exit_code:
        found.append("it did not end in time")
    elif bool(outcome.exit_code) != bool(baseline.exit_code):
        found.append(f"exit code {outcome.exit_code}, directly {baseline.exit_code}")
    if outcome.said_word != baseline.said_word:
        found.append("it says the word, directly not" if outcome.said_word else "it does not say the word")
    found += [f"refused: {one}" for one in outcome.refusals if one not in baseline.refusals]
    found += outcome.transport
    found += _compare_history(scenario, baseline, outcome, loses_output=agent.loses_output)
    found += _compare_errors(baseline, outcome)
    found += _compare_reasoning(baseline, outcome, agent, upstream)
    found += _compare_offer(baseline, outcome)
    if not agent.loses_output:
        found += _compare_requests(scenario, baseline, outcome)
        found += _compare_answer(scenario, baseline, outcome)
    return found


def does_better(scenario: Scenario, baseline: Outcome, outcome: Outcome) -> bool:
    """Whether the gateway spared the agent a failure: by a retry, or because it mended what the vendor refuses.

    The run must then be as one without a fault.
    """
    mends = bool(baseline.refusals) and not outcome.refusals
    better = outcome.said_word and not baseline.said_word and not outcome.exit_code
    return better and (scenario.fault in _RETRIED or mends)


def _compare_history(scenario: Scenario, baseline: Outcome, outcome: Outcome, *, loses_output: bool) -> list[str]:
    once = bool(scenario.cut)
    own, mine = _normalize_texts(baseline.history, once=once), _normalize_texts(outcome.history, once=once)
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


def _normalize_texts(history: list[list[str]], *, once: bool) -> list[list[str]]:
    """Texts as far as they are comparable between protocols.

    Neighbours that a protocol joins have a line break or a space between them. After a cut, an agent keeps a text that
    was complete and gets it again; Gemini does not tell that a text is complete before the call comes. The mark of a
    failed call stands for a flag that a history does not hold.
    """
    rows = [[kind, " ".join(text.split())] for kind, text in history]
    rows = [[kind, _FAILED.sub("", text) if kind == "result" else text] for kind, text in rows]
    return [[kind, _REPEATED.sub(r"\1", text)] for kind, text in rows] if once else rows


def _known_rows(history: list[list[str]]) -> list[list[str]]:
    """What happened, without calls that were repeated because their output was lost."""
    rows: list[list[str]] = []
    for row in history:
        if row not in rows and (row[0] != "result" or "<" in row[1]):
            rows.append(row)
    return sorted(rows)


def _compare_errors(baseline: Outcome, outcome: Outcome) -> list[str]:
    """A task that fails in both runs must show the same classes of errors."""
    if baseline.said_word or outcome.said_word or outcome.shown == baseline.shown:
        return []
    return [f"shows {outcome.shown or 'no error'}, directly {baseline.shown or 'none'}"]


def _compare_reasoning(baseline: Outcome, outcome: Outcome, agent: Agent, upstream: str) -> list[str]:
    """Reasoning is asked for if the agent asks for it, and comes back as often as the agent or the rules want it."""
    if not outcome.reasoning:
        return ["no reasoning was asked for"] if baseline.reasoning and upstream in _THINKING else []
    returned, steps = outcome.reasoning
    if upstream == agent.protocol and baseline.reasoning:
        steps = min(steps, baseline.reasoning[0])
    return [f"reasoning came back {returned} times for {steps} steps"] if returned < steps else []


def _compare_offer(baseline: Outcome, outcome: Outcome) -> list[str]:
    """The model gets the same tools, and the same instructions but for some words."""
    if not baseline.prompt_words or not outcome.prompt_words:
        return []
    own, mine = _bare_names(baseline.tools), _bare_names(outcome.tools)
    found = [f"tool {name} is not on offer" for name in own if name not in mine]
    found += [f"tool {name} is on offer, directly not" for name in mine if name not in own]
    least, share = _OTHER_WORDS
    if abs(outcome.prompt_words - baseline.prompt_words) > max(least, share * baseline.prompt_words):
        found.append(f"a prompt of {outcome.prompt_words} words, directly {baseline.prompt_words}")
    return found


def _bare_names(tools: list[str]) -> list[str]:
    """Names without a namespace: only Responses has them, and elsewhere they stand before the name."""
    return sorted(name.rpartition("__")[2] or name for name in tools)


def _compare_answer(scenario: Scenario, baseline: Outcome, outcome: Outcome) -> list[str]:
    """The last answer is printed as often, its tokens are counted, and it comes in time."""
    found: list[str] = []
    if baseline.said_word and outcome.said_word and baseline.answers != outcome.answers:
        found.append(f"prints the answer {outcome.answers} times, directly {baseline.answers}")
    if scenario.name in _PLAIN and baseline.usage != outcome.usage:
        found.append(f"counts {outcome.usage} tokens, directly {baseline.usage}")
    times, more = _SLOWER
    if outcome.exit_code != TIMED_OUT and outcome.seconds > times * baseline.seconds + more:
        found.append(f"takes {outcome.seconds:.0f} s, directly {baseline.seconds:.0f} s")
    return found


def _compare_requests(scenario: Scenario, baseline: Outcome, outcome: Outcome) -> list[str]:
    mine, own = outcome.agent_requests, baseline.agent_requests
    allowed = 0 if scenario.name in _PLAIN else _MORE_REQUESTS
    return [f"{mine} requests, directly {own}"] if abs(mine - own) > allowed else []
