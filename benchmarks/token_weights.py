"""Fits the weights of a vocabulary: what each count of `penstock._tokens.text_features` is worth, by a real tokeniser.

`python -m benchmarks.token_weights NAME=VOCABULARY… --texts PLACE…` prints the tables for fitted.toml. A place is a
file or a folder and one kind of text (prose, code, a language); kinds of which there is little count more. A vocabulary
is a tokenizer.json (package `tokenizers`), a tekken JSON (`mistral-common`) or a name that `bpe-openai` knows. What
recorded usage says plays no part in it. docs/tokens.md tells the places of the shipped weights.
"""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from operator import mul
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.ridge import Belief, Row, solve
from penstock._tokens.bpe import Vocabulary
from penstock._tokens.families import ASCII_FEATURES, TEXT_FEATURES, count_text_features, load_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SIZES, LEAST, MOST = (60, 150, 300, 600, 1200), 20, 400_000
NOISE, TOKENS, USUAL = 0.08, 5.0, 300
BELIEFS = [
    Belief(0.5 if name in ASCII_FEATURES else 1.0, 1.0 if name in ASCII_FEATURES else 0.5) for name in TEXT_FEATURES
]


KINDS = (".html", ".json", ".md", ".py", ".txt")
_TAGS, _GAPS = re.compile(r"<[^>]*>"), re.compile(r"\s*\n\s*")


def _read(path: Path) -> str:
    text = path.read_text("utf-8", "ignore")
    return _GAPS.sub("\n", _TAGS.sub("", text)) if path.suffix == ".html" else text


def pieces(source: Path) -> Iterator[str]:
    """The texts of a file or a folder in pieces of several lengths, up to a fair amount."""
    taken = 0
    paths = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.suffix in KINDS)
    for path in paths:
        text, place = _read(path), 0
        while place < len(text) and taken < MOST:
            size = SIZES[(place + taken) % len(SIZES)]
            piece = text[place : place + size]
            place, taken = place + size, taken + len(piece)
            if len(piece) > LEAST:
                yield piece


def fitted(
    count: Callable[[str], float], kinds: dict[str, list[str]], shipped: Sequence[float] = ()
) -> tuple[list[float], float, float]:
    """The weights, the median error they leave, and that of the shipped ones."""
    rows: list[Row] = []
    for texts in kinds.values():
        share = (USUAL / len(texts)) ** 0.5
        for text in texts:
            found = count_text_features(text)
            given = [float(value) for value in found] + [0.0] * (len(TEXT_FEATURES) - len(found))
            total = float(count(text))
            rows.append(Row(given, total, share / ((total + TOKENS) * NOISE) ** 2))
    weights = solve(rows, BELIEFS)
    return weights, off(weights, rows), off(shipped, rows) if shipped else 0.0


def off(weights: Sequence[float], rows: Sequence[Row]) -> float:
    """The median error."""
    return float(median([abs(sum(map(mul, weights, row.given)) / row.total - 1) for row in rows if row.total]))


def counter(vocabulary: str) -> Callable[[str], float]:
    """How many tokens a vocabulary makes of a text."""
    if not Path(vocabulary).is_file():
        return Vocabulary(vocabulary)
    if "tekken" in Path(vocabulary).name:
        tekken: Any = import_module("mistral_common.tokens.tokenizers.tekken").Tekkenizer.from_file(vocabulary)
        return lambda text: len(tekken.encode(text, bos=False, eos=False))
    plain: Any = import_module("tokenizers").Tokenizer.from_file(vocabulary)
    return lambda text: len(plain.encode(text, add_special_tokens=False).ids)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.token_weights", description=__doc__)
    options.add_argument("vocabularies", nargs="+", metavar="NAME=VOCABULARY")
    options.add_argument("--texts", type=Path, nargs="+", required=True, metavar="PLACE")
    chosen = options.parse_args()
    kinds = {str(source): texts for source in chosen.texts if (texts := list(pieces(source)))}
    print(f"# {len(kinds)} kinds, {sum(map(len, kinds.values()))} pieces")
    shipped = {family.vocabulary: family.weights for family in load_tables().families.values()}
    for given in chosen.vocabularies:
        name, _, vocabulary = given.partition("=")
        weights, error, before = fitted(counter(vocabulary), kinds, shipped.get(name, ()))
        lines = (weights[: len(ASCII_FEATURES)], weights[len(ASCII_FEATURES) :])
        told = "".join("    " + ", ".join(f"{weight:.3f}" for weight in line) + ",\n" for line in lines)
        print(f"[vocabularies.{name}]  # median error {error:.1%}, as shipped {before:.1%}\nweights = [\n{told}]\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
