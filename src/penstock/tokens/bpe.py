"""Real vocabularies, for those who have the extra: exact counts of text for the families that use them.

`counters()` goes to the estimator. A vocabulary is loaded when it first has to count something, since it takes about
150 MB and half a second. Long texts are cut at spaces: the package refuses them whole, and no token reaches over a cut
of that kind by more than one. Leans on `bpe-openai`, which carries its vocabularies with it and asks no network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = {"o200k": "o200k_base", "cl100k": "cl100k_base"}
PIECE = 100_000  # characters
NEAR = 2_000  # characters before the end of a piece in which a space is looked for


def counters() -> dict[str, Callable[[str], float]]:
    """What `HybridTokenEstimator(counters=…)` takes; nothing is loaded yet."""
    return {name: Vocabulary(its) for name, its in NAMES.items()}


class Vocabulary:
    """Counts by one encoding, loaded on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._encode: Callable[[str], Any] | None = None

    def __call__(self, text: str) -> float:
        encode = self._encode or self._load()
        clean = text.encode("utf-8", "replace").decode() if not text.isascii() else text
        return float(sum(len(encode(piece)) for piece in pieces(clean)))

    def _load(self) -> Callable[[str], Any]:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # the package opens its own files in an old way
            try:
                package: Any = import_module("bpe_openai")
            except ImportError:
                raise MissingExtra("bpe-openai", "bpe") from None
            made: Callable[[str], Any] = package.get_encoding(self._name).encode_ordinary
        self._encode = made
        return made


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """The text in pieces of at most this many characters, cut before a space where there is one near."""
    start = 0
    while len(text) - start > size:
        space = text.rfind(" ", start + max(1, size - NEAR), start + size)
        end = space if space > start else start + size
        yield text[start:end]
        start = end
    yield text[start:]
