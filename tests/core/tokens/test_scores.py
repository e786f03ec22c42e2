"""The published figures: the benchmark over recorded usage, as `python benchmarks/tokens.py` runs it."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import token_corpus, token_fit, token_score, token_splits, token_turns, tokens
from benchmarks.ridge import Belief, Row, solve
from penstock._tokens.families import load_tables
from tests.support import corpus

if TYPE_CHECKING:
    from pathlib import Path


def test_estimates_are_as_near_as_they_are_said_to_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = corpus.corpus_or_skip()
    if not (folder / "tokens.json").is_file():
        pytest.skip("corpus absent: it holds no tokens.json")
    assert tokens.main(["--corpus", str(folder), "--plot", str(tmp_path / "plot.svg")]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("- **missed**")] == []
    assert (tmp_path / "plot.svg").read_text().count("<circle") > 500


def folder_of(tmp_path: Path, number: int = 12) -> Path:
    """A corpus of our own: conversations in two turns, whose actual counts are some way above the text's length."""
    rows: list[dict[str, Any]] = []
    for place in range(number):
        said = f"Question {place}: " + "how high is the water today? " * (place % 7 + 1)
        messages = [{"role": "user", "content": said}]
        for turn in (0, 1):
            name = f"chat-{place}.{turn}"
            actual = 12 + sum(len(str(one["content"])) for one in messages) // 4
            answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Three metres."},
                      "finish_reason": "stop"}], "usage": {"prompt_tokens": actual, "completion_tokens": 4}}  # fmt: skip
            (tmp_path / f"{name}.json").write_text(json.dumps(answer))
            meta = {"request": {"model": "gpt-4o", "messages": messages}, "data_file": f"{name}.json", "wire": None}
            (tmp_path / f"{name}.meta.json").write_text(json.dumps(meta))
            rows.append({"meta": f"{name}.meta.json", "protocol": "openai-chat", "provider": "openai", "model": "gpt-4o",
                         "family": "gpt", "input_tokens": actual, "tools": 0, "media": False, "group": f"g{place}"})  # fmt: skip
            messages = [
                *messages,
                {"role": "assistant", "content": "Three metres."},
                {"role": "user", "content": "Why?"},
            ]
    (tmp_path / "tokens.json").write_text(json.dumps(rows))
    return tmp_path


def test_any_folder_laid_out_alike_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokens.main(["--corpus", str(folder_of(tmp_path))]) == 0
    told = capsys.readouterr().out
    assert "# Token estimates on 24 requests" in told
    assert "from the numbers as shipped, which were fitted elsewhere" in told
    assert "12 requests that go on from another one" in told
    assert "| chars / 4 |" in told


def test_conversations_are_never_on_both_sides(tmp_path: Path) -> None:
    samples = token_corpus.load(folder_of(tmp_path))
    for fitted in token_score.fits(samples, load_tables()):
        held = {guess.sample.group for guess in fitted.guesses}
        inside = [guess for guess in fitted.guesses if guess.sample.group in held]
        assert len(inside) == 2 * len(held), "both turns of a conversation are on one side"


@pytest.mark.parametrize("by", ["conversation", "source"])
def test_splits_are_repeatable_and_keep_what_belongs_together(tmp_path: Path, by: str) -> None:
    samples = token_corpus.load(folder_of(tmp_path))
    halves = token_splits.split_samples(samples, 1, by)
    assert halves == token_splits.split_samples(samples, 1, by)
    assert sum(map(len, halves)) == len(samples)
    assert abs(len(halves[0]) - len(halves[1])) <= 2
    groups = [{sample.group for sample in half} for half in halves]
    assert not groups[0] & groups[1]


def test_splits_tell_which_targets_are_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokens.main(["--corpus", str(folder_of(tmp_path)), "--splits", "1"]) == 0
    told = capsys.readouterr().out
    for name in ("conversation 1a, unseen: ", "source 1b, refitted: ", "| gpt: median | 6.0% |", "| in bounds: |"):
        assert name in told


def test_a_second_turn_is_the_first_and_its_answer_and_the_rest(tmp_path: Path) -> None:
    rows = token_turns.seconds(token_corpus.load(folder_of(tmp_path, 3)), load_tables())
    assert len(rows) == 3
    assert {row.estimate.method for row in rows} == {"hybrid"}


def test_a_fit_finds_what_was_put_in_and_stays_near_its_beliefs() -> None:
    rows = [Row((1.0, float(place)), 7.0 + 3.0 * place, 1.0) for place in range(20)]
    assert solve(rows, [Belief(0, 100), Belief(0, 100)]) == pytest.approx([7, 3], rel=0.01)
    assert solve([], [Belief(5, 1), Belief(2, 1)]) == [5, 2]
    assert solve([Row((1.0,), -50.0, 1.0)], [Belief(3, 10)]) == [0.0], "never below the floor"


def test_the_shipped_numbers_can_be_written_again() -> None:
    head = token_fit.FITTED_FILE.read_text().partition("[families.")[0]
    found = {name: family.constants for name, family in load_tables().families.items()}
    text = token_fit.written(found, head, 48, "abc")
    assert text.count("\nof = ") == text.count("\nsamples = ") == 1
    again, shipped = tomllib.loads(text), tomllib.loads(token_fit.FITTED_FILE.read_text())
    assert (again["families"], again["vocabularies"]) == (shipped["families"], shipped["vocabularies"])
