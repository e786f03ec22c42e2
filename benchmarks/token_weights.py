"""Fits the weights of a vocabulary: what each count of `penstock.tokens.classes` is worth, by a real tokeniser.

`python -m benchmarks.token_weights --texts DIR… NAME=tokenizer.json…` prints the tables for fitted.toml. Each folder of
texts is one kind (prose, code, a language); kinds of which there is little count more. Needs the package `tokenizers`;
the numbers of recorded usage play no part in it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.ridge import Belief, Row, solve
from penstock.tokens.classes import COUNTS, PLAIN, counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES, LEAST, MOST = (60, 150, 300, 600, 1200), 20, 400_000
NOISE, TOKENS, USUAL = 0.08, 5.0, 300
BELIEFS = [Belief(0.5 if name in PLAIN else 1.0, 1.0 if name in PLAIN else 0.5) for name in COUNTS]


def pieces(folder: Path) -> Iterator[str]:
    """The texts of a folder in pieces of several lengths, up to a fair amount."""
    taken = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_text("utf-8", "ignore")
        place = 0
        while place < len(text) and taken < MOST:
            size = SIZES[(place + taken) % len(SIZES)]
            piece = text[place : place + size]
            place, taken = place + size, taken + len(piece)
            if len(piece) > LEAST:
                yield piece


def fitted(count: Callable[[str], int], kinds: dict[str, list[str]]) -> tuple[list[float], float]:
    """The weights, and the median error they leave."""
    rows: list[Row] = []
    for texts in kinds.values():
        share = (USUAL / len(texts)) ** 0.5
        for text in texts:
            found = counts(text)
            given = [float(value) for value in found] + [0.0] * (len(COUNTS) - len(found))
            total = float(count(text))
            rows.append(Row(given, total, share / ((total + TOKENS) * NOISE) ** 2))
    weights = solve(rows, BELIEFS)
    errors = [abs(sum(map(float.__mul__, weights, row.given)) / row.total - 1) for row in rows if row.total]
    return weights, median(errors)


def _number(tokeniser: Any, text: str) -> int:
    return len(tokeniser.encode(text, add_special_tokens=False).ids)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.token_weights", description=__doc__)
    options.add_argument("--texts", type=Path, nargs="+", required=True, metavar="DIR")
    options.add_argument("vocabularies", nargs="+", metavar="NAME=FILE")
    chosen = options.parse_args()
    from tokenizers import Tokenizer  # type: ignore[import-not-found]

    kinds = {folder.name: texts for folder in chosen.texts if (texts := list(pieces(folder)))}
    for given in chosen.vocabularies:
        name, _, file = given.partition("=")
        weights, error = fitted(partial(_number, Tokenizer.from_file(file)), kinds)
        told = ", ".join(f"{weight:.3f}" for weight in weights)
        print(f"[vocabularies.{name}]  # median error {error:.1%}\nweights = [{told}]\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
