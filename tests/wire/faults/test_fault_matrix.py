"""Every client dialect before every upstream dialect while something goes wrong at every frame; see `cells` for what.

A seeded sample runs with the other tests, in two ways for each cell; `make nightly` runs every cell in every way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.wire.faults.cells import CLIENTS, ENGINES, FAULTS, UPSTREAMS, cells, sample
from tests.wire.faults.harness import matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.wire.faults.cells import Cell
    from tests.wire.faults.harness import Found

SEED, SHARE = 14, 0.04
BY_SLICE = [
    pytest.mark.parametrize("engine", ENGINES),
    pytest.mark.parametrize("client", CLIENTS),
    pytest.mark.filterwarnings("default"),  # the SDKs have warnings of their own
]
pytestmark = BY_SLICE


def run(client: str, engine: str, chosen: Iterable[Cell], *, all_ways: bool = False) -> Found:
    async def main() -> Found:
        async with matrix(client, engine) as made:
            return await made.run(chosen, all_ways=all_ways)

    return asyncio.run(main())


def test_a_sample_of_the_fault_matrix(client: str, engine: str, record_property: Callable[[str, object], None]) -> None:
    chosen = sample(client, engine, SHARE, SEED)
    assert {(cell.upstream, cell.fault) for cell in chosen} == {(up, fault) for up in UPSTREAMS for fault in FAULTS}
    found = run(client, engine, chosen)
    record_property("table", found.table(f"fault matrix, sample, {client}, {engine}"))
    assert not found.wrong, found.describe()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_whole_fault_matrix(client: str, engine: str, record_property: Callable[[str, object], None]) -> None:
    found = run(client, engine, cells(client, engine), all_ways=True)
    record_property("table", found.table(f"fault matrix, {client}, {engine}"))
    assert not found.wrong, found.describe()
