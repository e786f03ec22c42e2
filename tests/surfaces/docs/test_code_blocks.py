"""Every code block of every page is run, loaded, parsed or type-checked; those that are not say why, and are counted."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.surfaces.docs.page_runner import ROOT, BlockError, PageRun, map_ports, start_stores
from tools.code_blocks import BEGIN, CHECKS, END, TABLE_PAGE, CodeBlock, list_pages, read_blocks, render_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGES = {page: read_blocks(page) for page in list_pages()}
BLOCKS = [block for blocks in PAGES.values() for block in blocks]
# How many blocks are not run, by reason. These numbers may only fall.
NOT_RUN = {
    "asks in a terminal": 2,
    "changes the repository": 3,
    "changes the system": 2,
    "needs Claude Code": 4,
    "needs Codex": 1,
    "needs Docker": 4,
    "needs LiteLLM": 1,
    "needs VS Code": 2,
    "needs a cluster": 2,
    "needs a provider's key": 5,
    "needs npm packages": 3,
    "needs the download": 1,
    "needs the network": 2,
    "takes minutes": 2,
    "tests run the example itself": 23,  # tests/surfaces/test_examples.py and others
}


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


def marked_page(page: Path) -> object:
    """The page as a parameter, marked with what it proves."""
    return pytest.param(page, id=str(page.relative_to(ROOT)))


RUNNABLE = [page for page, blocks in PAGES.items() if any(block.reason is None for block in blocks)]


@pytest.mark.parametrize("page", [marked_page(page) for page in RUNNABLE])
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


def test_reasons_of_blocks_that_are_not_run() -> None:
    assert Counter(block.reason for block in BLOCKS if block.reason is not None) == NOT_RUN


def test_the_table_of_the_page_is_up_to_date() -> None:
    table = TABLE_PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert table.strip() == render_table(BLOCKS), "run: python -m tools.code_blocks --write"


@pytest.mark.parametrize(
    ("language", "text", "marks", "words"),
    [
        ("python", "1 / 0\n", {}, "ZeroDivisionError"),
        ("python", "import warnings\nwarnings.warn('old')\n", {}, "UserWarning"),
        ("python", "x = 1\n", {"fails": ""}, "did not fail"),
        ("sh", "penstock serv\n", {}, "did you mean serve"),
        ("sh", "false | true\n", {}, "failed"),
        ("sh", "pip install 'penstock[gone]'\n", {}, "no extra gone"),
        ("sh", "make gone\n", {}, "No rule to make target"),
        ("console", "$ echo one\ntwo\n", {}, "'two' is not printed"),
        ("text", "two\n", {"prints": ""}, "'two' is not printed"),
        ("sh", "echo one\n", {"prints": "two"}, "'two' is not printed"),
        ("toml", "[serve]\nprot = 1\n", {}, "prot"),
        ("toml", "[mine]\nbase_url = 'http://x'\ngone = 1\n", {"reader": "provider"}, "gone"),
        ("json", "{'a': 1}\n", {}, "Expecting"),
        ("yaml", "a: [1\n", {}, "expected"),
    ],
)
def test_a_wrong_block_is_found(language: str, text: str, marks: dict[str, str], words: str, tmp_path: Path) -> None:
    run = PageRun(tmp_path / "page", {})
    try:
        with pytest.raises(Exception, match=words) as caught:
            run.run_block(CodeBlock(ROOT / "README.md", 1, language, "", text, marks))
    finally:
        run.close()
    assert isinstance(caught.value, BlockError) or language in {"toml", "json", "yaml"}


PAGE = """Text.

<!-- setup: a = 1 -->
<!-- continues -->
```python
a
```

1. In a list:

   <!-- not run: needs a key -->
   ```sh title="~/run.sh"
   two
     three
   ```

<!-- setup:
b = 2
c = 3
-->
```python title="app.py"
b
```

<!-- fails -->

```text
no mark: a blank line is between
```
"""


def test_reading_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    first, second, third, fourth = read_blocks(page)
    assert (first.language, first.text, first.marks) == ("python", "a\n", {"setup": "a = 1", "continues": ""})
    assert (second.title, second.text, second.reason) == ("~/run.sh", "two\n  three\n", "needs a key")
    assert (third.title, third.marks) == ("app.py", {"setup": "b = 2\nc = 3"})
    assert (fourth.language, fourth.line, fourth.marks) == ("text", 27, {})
