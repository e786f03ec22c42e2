"""Every code block of every page is run, loaded, parsed or type-checked; those that are not say why."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.surfaces.docs.page_runner import ROOT, PageRun, map_ports, start_stores
from tools.code_blocks import CHECKS, CodeBlock, list_pages, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGES = {page: read_blocks(page) for page in list_pages()}
BLOCKS = [block for blocks in PAGES.values() for block in blocks]


@pytest.fixture(scope="session")
def shared_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], int]]:
    """The port of one gateway for all pages that start none; it is started when the first of them asks."""
    with ExitStack() as stack:
        started: list[int] = []

        def start() -> int:
            if not started:
                run = PageRun(tmp_path_factory.mktemp("shared") / "page", map_ports([START], lambda: 0, {}))
                stack.callback(run.close)
                run.run_block(START)
                started.append(int(run.ports["4480"]))
            return started[0]

        yield start


@pytest.fixture
def stores() -> Iterator[dict[str, Callable[[], int]]]:
    """Redis and PostgreSQL for pages that name their usual ports."""
    with ExitStack() as stack:
        yield start_stores(stack)


START = CodeBlock(ROOT / "README.md", 0, "sh", "", "penstock serve\n", {})


RUNNABLE = [page for page, blocks in PAGES.items() if any(block.reason is None for block in blocks)]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page(
    page: Path, tmp_path: Path, shared_port: Callable[[], int], stores: dict[str, Callable[[], int]]
) -> None:
    blocks = [block for block in PAGES[page] if block.reason is None]
    run = PageRun(tmp_path / "page", map_ports(blocks, shared_port, stores))
    try:
        for block in blocks:
            run.run_block(block)
    finally:
        run.close()


def test_every_block_has_a_language_that_is_checked() -> None:
    assert [block.place for block in BLOCKS if block.language not in CHECKS] == []
