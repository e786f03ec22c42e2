"""The matrix of `make agents`: which cells there are, when a cell differs from its baseline, and when it is valid."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tools.agents import cell_cache
from tools.agents.cell_cache import CellCache
from tools.agents.comparison import find_differences
from tools.agents.matrix import BEGIN, END, Cell, Result, judge_cell, list_cells, update_page, write_table
from tools.agents.outcome import Outcome, classify_errors, count_answers, read_usage, summarize_history
from tools.agents.processes import TIMED_OUT
from tools.agents.programs import AGENTS
from tools.strict_upstream.conversation import PROTOCOLS, Item
from tools.strict_upstream.scenario import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

    from tools.strict_upstream.conversation import Protocol

CLAUDE = AGENTS["Claude Code"]
HISTORY = [["text", "I will read."], ["call", "cat first.txt"], ["result", "<first>"]]
BASELINE = Outcome(
    said_word=True, answers=1, agent_requests=3, upstream_requests=3, calls=2, history=HISTORY, prompt_words=1000,
    tools=["Bash", "Edit"], usage=[300, 60], seconds=5.0,
)  # fmt: skip


def differences(scenario: str, **changes: Any) -> list[str]:
    """What differs from the baseline after a change."""
    outcome = replace(copy.deepcopy(BASELINE), **changes)
    return find_differences(SCENARIOS[scenario], BASELINE, outcome, CLAUDE, "chat")


def test_the_matrix_has_the_cells_of_the_issue() -> None:
    cells = list_cells()
    assert len(cells) == len(set(cells))
    for name, agent in AGENTS.items():
        for scenario in SCENARIOS:
            upstreams = {cell.upstream for cell in cells if (cell.agent, cell.scenario) == (name, scenario)}
            every = scenario == "parallel-calls" or name.startswith(("Claude Code", "Codex"))
            assert upstreams == (set(PROTOCOLS) if every else {agent.foreign})
    assert all(agent.foreign != agent.protocol for agent in AGENTS.values())


def test_an_equal_run_does_not_differ() -> None:
    assert differences("one-call") == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"said_word": False}, "it does not say the word"),
        ({"exit_code": 1}, "exit code 1, directly 0"),
        ({"exit_code": TIMED_OUT}, "it did not end in time"),
        ({"refusals": ["400 Unknown parameter: 'x'."]}, "refused: 400 Unknown parameter: 'x'."),
        ({"history": HISTORY[1:]}, "history: lacks text 'I will read.'"),
        ({"history": [*HISTORY, ["call", "not JSON: {"]]}, "history: has call 'not JSON: {'"),
        ({"history": [*HISTORY, HISTORY[1]]}, "history: 4 entries, directly 3, or another order"),
        ({"agent_requests": 4}, "4 requests, directly 3"),
        ({"reasoning": [1, 2]}, "reasoning came back 1 times for 2 steps"),
        ({"answers": 2}, "prints the answer 2 times, directly 1"),
        ({"tools": ["Bash"]}, "tool Edit is not on offer"),
        ({"tools": ["Bash", "Edit", "Edit_2"]}, "tool Edit_2 is on offer, directly not"),
        ({"prompt_words": 600}, "a prompt of 600 words, directly 1000"),
        ({"usage": [100, 20]}, "counts [100, 20] tokens, directly [300, 60]"),
        ({"usage": []}, "counts [] tokens, directly [300, 60]"),
        ({"seconds": 100.0}, "takes 100 s, directly 5 s"),
        ({"history": [["text", "I will read. I will read."], *HISTORY[1:]]}, "history: lacks text 'I will read.'"),
        ({"transport": ["POST /v1/responses as well"]}, "POST /v1/responses as well"),
    ],
)
def test_a_difference_is_found(changes: dict[str, Any], words: str) -> None:
    assert words in differences("one-call", **changes)


def test_small_differences_are_noise() -> None:
    """A path in the prompt, a busy machine, and a text that was complete before the cut."""
    assert differences("one-call", prompt_words=1030, seconds=40.0) == []
    assert differences("cut-text", history=[["text", "I will read. I will read."], *HISTORY[1:]]) == []


def test_the_mark_of_a_failed_call_is_no_difference() -> None:
    """Only in a result, and only the mark: what the result says must be the same."""
    marked = [*HISTORY[:2], ["result", "<ps:tool-failed# <first>"]]
    assert differences("cut-call", history=marked) == []
    other = [*HISTORY[:2], ["result", "<ps:tool-failed# aborted"]]
    assert "history: has result 'aborted'" in differences("cut-call", history=other)
    spoken = [["text", "<ps:tool-failed# I will read."], *HISTORY[1:]]
    assert "history: lacks text 'I will read.'" in differences("cut-call", history=spoken)


def test_a_run_that_does_better_is_compared_with_one_without_a_fault(tmp_path: Path) -> None:
    """The gateway retries after a rate limit, which spares the agent a failure; the history must still be whole."""
    cache = CellCache(tmp_path / "cells", tmp_path / "baselines.json")
    cell = Cell("Claude Code", "rate-limit", "chat")
    cache.save(cell.agent, "one-call", None, copy.deepcopy(BASELINE))
    cache.save(cell.agent, "rate-limit", None, Outcome(exit_code=1, agent_requests=2, shown=["rate-limit"]))
    cache.save(cell.agent, cell.scenario, cell.upstream, copy.deepcopy(BASELINE))
    assert judge_cell(cell, cache).differences == []
    cache.save(cell.agent, cell.scenario, cell.upstream, replace(BASELINE, history=HISTORY[1:]))
    assert judge_cell(cell, cache).differences == ["history: lacks text 'I will read.'"]


def test_a_request_that_the_gateway_mends_does_not_differ(tmp_path: Path) -> None:
    """An empty message after a cut, as opencode sends it, is refused by the vendor."""
    cache = CellCache(tmp_path / "cells", tmp_path / "baselines.json")
    cell = Cell("opencode, Chat", "cut-text", "messages")
    cache.save(cell.agent, "one-call", None, copy.deepcopy(BASELINE))
    cache.save(cell.agent, "cut-text", None, Outcome(exit_code=1, agent_requests=4, refusals=["400 empty"]))
    cache.save(cell.agent, cell.scenario, cell.upstream, copy.deepcopy(BASELINE))
    assert judge_cell(cell, cache).differences == []
    cache.save(cell.agent, cell.scenario, cell.upstream, replace(BASELINE, refusals=["400 empty"]))
    assert "it says the word, directly not" in judge_cell(cell, cache).differences


def test_reasoning_is_asked_for_and_comes_back() -> None:
    baseline = replace(BASELINE, reasoning=[2, 2])
    for upstream, reasoning, wrong in (
        ("responses", [], 1), ("responses", [2, 2], 0), ("chat", [], 0), ("gemini", [1, 2], 1), ("messages", [1, 2], 1),
    ):  # fmt: skip
        outcome = replace(copy.deepcopy(baseline), reasoning=reasoning)
        found = find_differences(SCENARIOS["one-call"], baseline, outcome, CLAUDE, upstream)
        assert len(found) == wrong, (upstream, reasoning, found)


def test_the_result_of_a_tool_is_no_answer() -> None:
    """Agents that print JSON lines print the word with the results of their tools."""
    assert count_answers('{"tool_result": "ba9876543210-tsrif"}', ["first-0123456789ab"]) == 0
    assert count_answers("The shell\n printed: ba9876543210-tsrif", ["first-0123456789ab"]) == 1


def test_the_last_usage_counts() -> None:
    printed = '{"usage": {"input_tokens": 1, "output_tokens": 2}}\n{"usage":{"inputTokens":300,"outputTokens":60}}'
    assert read_usage(printed) == [300, 60]
    assert read_usage("300 in, 60 out") == []


def test_an_error_of_another_class_differs() -> None:
    baseline = Outcome(exit_code=1, agent_requests=1, shown=["quota"])
    for shown, wrong in ((["quota"], 0), (["rate-limit"], 1), (["rate-limit", "quota"], 1), ([], 1)):
        outcome = Outcome(exit_code=1, agent_requests=1, shown=shown)
        assert len(find_differences(SCENARIOS["quota"], baseline, outcome, CLAUDE, "chat")) == wrong


def test_a_gateway_may_retry_by_itself() -> None:
    assert differences("rate-limit", agent_requests=2) == []
    assert differences("rate-limit", agent_requests=9) == ["9 requests, directly 3"]


def test_histories_of_two_protocols_are_comparable() -> None:
    """Ids, wall times and the order of parallel results do not count; words are masked."""
    first, second = "first-0123456789ab", "second-0123456789ab"
    calls = [Item("call", '{"command": "cat first.txt"}'), Item("call", '{"cmd": ["bash", "-lc", "cat second.txt"]}')]
    one = [Item("assistant", "Look."), *calls, Item("result", first), Item("result", f"Wall time 0.1: {second}")]
    two = [Item("assistant", "Look."), *calls, Item("result", second), Item("result", f'{{"output": "{first}"}}')]
    assert summarize_history(one) == summarize_history(two)
    assert summarize_history(one)[1:3] == [["call", "cat first.txt"], ["call", "cat second.txt"]]


def test_errors_have_classes() -> None:
    assert classify_errors("Your credit balance is too low") == ["quota"]
    assert classify_errors("prompt is too long: 5 tokens > 4 maximum") == ["overflow"]
    assert classify_errors("all is well") == []


def test_a_cell_is_valid_for_one_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CellCache(tmp_path / "cells", tmp_path / "baselines.json")
    cell = Cell("Claude Code", "one-call", "chat")
    assert judge_cell(cell, cache).state == "not run"
    cache.save(cell.agent, cell.scenario, None, BASELINE)
    cache.save(cell.agent, cell.scenario, cell.upstream, replace(BASELINE, said_word=False))
    assert judge_cell(cell, cache).differences == ["it does not say the word"]
    cache.save(cell.agent, cell.scenario, cell.upstream, BASELINE)
    assert judge_cell(cell, cache).state == "ok"
    monkeypatch.setattr(cell_cache, "hash_tree", lambda path, _=None: "other" if path.name == "penstock" else "same")
    assert cache.load(cell.agent, cell.scenario, cell.upstream) is None
    assert CellCache(tmp_path / "cells", any_revision=True).load(cell.agent, cell.scenario, cell.upstream) == BASELINE


def test_a_cell_depends_on_its_own_protocols_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("src/penstock/_protocols/gemini/a.py", "src/penstock/_protocols/anthropic/a.py", "src/penstock/a.py"):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
    monkeypatch.setattr(cell_cache, "ROOT", tmp_path)

    upstreams: tuple[Protocol | None, ...] = ("chat", "gemini", None)

    def changes(name: str) -> list[bool]:
        cell_cache.hash_tree.cache_clear()
        before = [cell_cache.make_key("Claude Code", upstream) for upstream in upstreams]
        (tmp_path / "src/penstock" / name).write_text("changed")
        cell_cache.hash_tree.cache_clear()
        return [
            old != cell_cache.make_key("Claude Code", upstream) for old, upstream in zip(before, upstreams, strict=True)
        ]

    assert changes("_protocols/gemini/a.py") == [False, True, False]
    assert changes("_protocols/anthropic/a.py") == [True, True, False]
    assert changes("a.py") == [True, True, False]
    cell_cache.hash_tree.cache_clear()


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    update_page(page, write_table([Result(Cell("Goose", "one-call", "messages"), state="ok", revision="1a2b3c4")]))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| one-call |  |  | ok |  |" in text
    assert "1 ok, 0 differs, 0 not run. Cells by the revision of penstock they ran at: 1 at 1a2b3c4." in text
