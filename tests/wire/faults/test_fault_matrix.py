"""Every client dialect before every upstream dialect while something goes wrong at every frame; see `cells` for what.

A seeded sample runs with the other tests, each cell in one way; `make nightly` runs every cell in every way.
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
pytestmark = [
    pytest.mark.parametrize("engine", ENGINES),
    pytest.mark.filterwarnings("default"),  # the SDKs have warnings of their own
]


def run(engine: str, clients: Iterable[str], chosen: Iterable[Cell], *, all_ways: bool = False) -> Found:
    async def main() -> Found:
        async with matrix(engine, *clients) as made:
            return await made.run(chosen, all_ways=all_ways)

    return asyncio.run(main())


def test_a_sample_of_the_fault_matrix(engine: str, record_property: Callable[[str, object], None]) -> None:
    chosen = [cell for client in CLIENTS for cell in sample(client, engine, SHARE, SEED)]
    assert len({(cell.client, cell.upstream, cell.fault, cell.stream) for cell in chosen}) == (
        len(CLIENTS) * len(UPSTREAMS) * len(FAULTS) * 2
    )
    found = run(engine, CLIENTS, chosen)
    record_property("table", found.table(f"fault matrix, sample, {engine}"))
    assert not found.wrong, found.describe()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_whole_fault_matrix(client: str, engine: str, record_property: Callable[[str, object], None]) -> None:
    found = run(engine, [client], cells(client, engine), all_ways=True)
    record_property("table", found.table(f"fault matrix, {client}, {engine}"))
    assert not found.wrong, found.describe()
