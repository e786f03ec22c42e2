"""A fuzz target: seeds, a mutator, and a check that raises where something that must hold does not.

A check is given bytes and nothing else, so that a file holds all of a crash. Where it has a choice (which option, where to
cut), it takes it from a checksum of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from fuzz.mutation import Mutator

T = TypeVar("T")
Verdict: TypeAlias = tuple[bool, Hashable]
"""Whether the input got past the first checks, and a short summary of what came of it: a new one is worth keeping."""
Check: TypeAlias = Callable[[bytes], Verdict]


class BrokenPromiseError(AssertionError):
    """Something that must hold for every input does not."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed. `load` gives the seeds, the mutator and the check: importing and set-up wait until it runs."""

    name: str
    past: str  # what "past the first checks" means here
    load: Callable[[], tuple[Sequence[bytes], Mutator, Check]]


def pick(data: bytes, choices: Sequence[T], salt: int = 0) -> T:
    """One of the choices, always the same for the same bytes."""
    return choices[(crc32(data) >> salt) % len(choices)]


def cut(data: bytes, most: int = 4) -> list[bytes]:
    """The bytes in a few pieces, always the same for the same bytes."""
    number = crc32(data)
    places = sorted({(number >> (7 * turn)) % (len(data) + 1) for turn in range(1 + number % most)})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def promise(holds: object, what: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise BrokenPromiseError(what)
