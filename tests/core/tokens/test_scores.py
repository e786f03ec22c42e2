"""The published figures: the benchmark over recorded usage, as `python benchmarks/tokens.py` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import tokens
from tests.support import corpus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.nightly
def test_estimates_are_as_near_as_they_are_said_to_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = corpus.corpus_or_skip()
    if not (folder / "tokens.json").is_file():
        pytest.skip("corpus absent: it holds no tokens.json")
    assert tokens.main(["--corpus", str(folder), "--plot", str(tmp_path / "plot.svg")]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("- **missed**")] == []
    assert (tmp_path / "plot.svg").read_text().count("<circle") > 500
