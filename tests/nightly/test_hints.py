"""The start-up hints: each one is run with the real agent, where its program is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._cli.setup.agents import AGENTS
from tools.agents import hints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAYS = [(name, how) for name, agent in AGENTS.items() for how in (("hint", "setup") if agent.hint else ("setup",))]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What `penstock serve` prints."""
    home: Path = tmp_path_factory.mktemp("gateway")
    with hints.gateway(home) as printed:
        yield printed


def test_every_agent_that_has_a_hint_is_run() -> None:
    assert {name: row.title for name, row in hints.AGENTS.items()} == {name: row.title for name, row in AGENTS.items()}


def test_every_hint_that_is_printed_is_run(lines: list[str]) -> None:
    assert [(name, how) for name in hints.AGENTS for how in hints.ways(name, lines)] == WAYS


@pytest.mark.nightly
@pytest.mark.parametrize(("agent", "how"), WAYS)
def test_a_hint_starts_the_agent(agent: str, how: str, lines: list[str]) -> None:
    """The agent reads a random word and the answer holds it. `make agents` installs the programs."""
    if hints.find_program(agent) is None:
        pytest.skip(f"{hints.AGENTS[agent].program} is not installed, or not made for this system: `make agents`")
    assert hints.attempt(agent, how, lines) == ""
