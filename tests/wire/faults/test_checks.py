"""The checks of the fault matrix can fail: without a gateway in between, or with a leak, they say what is wrong."""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock._store.journal import JournalEntry
from tests.wire.faults.answers import ANSWERS, USAGE
from tests.wire.faults.cells import CLIENTS, CUTS, ENGINES, FAULTS, UPSTREAMS, Cell, cells, sample
from tests.wire.faults.checks import wrong_outcome, wrong_row
from tests.wire.faults.harness import LEFT, good_cells, matrix, two_ways, ways
from tests.wire.faults.readers import Outcome, Raw, read
from tests.wire.faults.upstream import script_of

GOOD = {"protocol": "anthropic", "upstream": "anthropic", "engine": "native", "stream": True, "http": 200}


def direct(cell: Cell) -> Outcome:
    """What a client sees that talks to the upstream itself."""
    return read(cell.client, Raw(b"".join(script_of(cell).writes)), stream=cell.stream)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", UPSTREAMS)
def test_a_good_answer_is_read_and_found_right(dialect: str, stream: bool) -> None:
    cell = Cell(dialect, dialect, "native", stream, "none", 0)
    assert wrong_outcome(cell, direct(cell), raw=True) == ""


@pytest.mark.parametrize("fault", ["fin", "half", "clean", "rst", "stall", "garbage"])
@pytest.mark.parametrize("dialect", UPSTREAMS)
def test_a_fault_that_nobody_handles_is_found_wrong_at_every_frame(dialect: str, fault: str) -> None:
    for position in range(ANSWERS[dialect].finish + 1):
        cell = Cell(dialect, dialect, "native", True, fault, position)
        assert wrong_outcome(cell, direct(cell), raw=True).startswith("ended in"), cell


def test_a_false_success_is_found() -> None:
    cell = Cell("openai-chat", "openai-chat", "native", True, "fin", 3)
    good = direct(Cell("openai-chat", "openai-chat", "native", True, "none", 0))
    assert wrong_outcome(cell, good, raw=True).startswith("false success")
    lost = Outcome(**{**vars(good), "calls": []})
    assert "the answer is" in wrong_outcome(Cell("openai-chat", "gemini", "native", True, "none", 0), lost, raw=True)


def test_a_call_that_comes_twice_is_found() -> None:
    cell = Cell("openai-chat", "anthropic", "native", True, "duplicate", ANSWERS["anthropic"].kinds.index("call"))
    good = direct(Cell("openai-chat", "openai-chat", "native", True, "none", 0))
    assert wrong_outcome(cell, good, raw=True) == ""
    twice = Outcome(**{**vars(good), "calls": good.calls * 2})
    assert wrong_outcome(cell, twice, raw=True).startswith("calls")


def test_an_error_without_the_message_of_the_upstream_is_found() -> None:
    cell = Cell("openai-chat", "anthropic", "native", True, "error", 2)
    assert wrong_outcome(cell, Outcome(error="it failed"), raw=True)
    assert not wrong_outcome(cell, Outcome(error="it failed: upstream exploded"), raw=True)


def test_a_journal_that_disagrees_is_found() -> None:
    cell = Cell("anthropic", "anthropic", "native", True, "none", 0)
    good, failed = Outcome(finish="tool_use"), Outcome(error="no")
    row = JournalEntry(time=0.0, status="finish", finish="calls", input=USAGE[0], output=USAGE[1], **GOOD)  # type: ignore[arg-type]
    fault = JournalEntry(time=0.0, status="fault", fault="network", **GOOD)  # type: ignore[arg-type]
    assert wrong_row(cell, good, [row]) == ""
    assert wrong_row(cell, good, []) == "0 rows in the journal"
    assert wrong_row(cell, good, [row, row]) == "2 rows in the journal"
    assert "the client saw" in wrong_row(cell, good, [fault])
    assert "the client saw" in wrong_row(cell, failed, [row])
    unpaid = JournalEntry(time=0.0, status="finish", finish="calls", **GOOD)  # type: ignore[arg-type]
    assert "usage" in wrong_row(cell, good, [unpaid])
    stalled = Cell("anthropic", "anthropic", "native", True, "stall", 2)
    assert "network" in wrong_row(stalled, failed, [fault])


def test_a_sample_has_every_pair_and_fault_and_is_the_same_each_time() -> None:
    chosen = sample("gemini", "sdk", 0.05, seed=1)
    assert chosen == sample("gemini", "sdk", 0.05, seed=1)
    assert chosen != sample("gemini", "sdk", 0.05, seed=2)
    assert {(cell.upstream, cell.fault, cell.stream) for cell in chosen} == {
        (upstream, fault, stream) for upstream in UPSTREAMS for fault in FAULTS for stream in (True, False)
    }


def test_the_matrix_has_every_frame() -> None:
    every = {cell for client in CLIENTS for engine in ENGINES for cell in cells(client, engine)}
    for upstream in UPSTREAMS:
        for fault in CUTS:
            found = {
                cell.position for cell in every if (cell.upstream, cell.fault, cell.stream) == (upstream, fault, True)
            }
            assert found >= set(range(len(ANSWERS[upstream].frames)))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_sample_is_asked_in_every_way(client: str) -> None:
    chosen = [two_ways(client, number) for number in range(2)]
    assert {way for two in chosen for way in two} == set(ways(client))
    assert all(one.paced != other.paced for one, other in chosen)


@pytest.mark.filterwarnings("default")
def test_what_is_left_behind_is_found() -> None:
    async def main() -> list[str]:
        async with matrix("openai-chat", "native") as made:
            running = good_cells("openai-chat", "native")
            assert (await made.run(running)).wrong == {}
            made.settle = 0.5
            with socket.socket():
                asking = asyncio.ensure_future(made.run(running))
                await asyncio.sleep(0)
                while not made.upstream.connections:  # noqa: ASYNC110 — the run has begun, and has counted
                    await asyncio.sleep(0.005)
                left = [socket.socket() for _ in range(3)]
                found = await asking
            for one in left:
                one.close()
            return list(found.wrong)

    [sentence] = asyncio.run(main())
    assert sentence.startswith(LEFT)
