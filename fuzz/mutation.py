"""Makes inputs from seeds: each mutator knows one form of input and keeps most of its changes inside that form.

`prepare` takes a seed apart once; `mutate` makes a new input of it. `Inputs` chooses among the seeds and those inputs that
led to something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fuzz import json_values
from fuzz.json_values import ValuePool
from penstock.errors import PenstockError
from penstock.framing import PARSERS, WRITERS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from penstock.framing import Frame

TOKENS: tuple[bytes, ...] = (
    b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b":", b",", b"=",
    b'"', b"\\", b"\\ud800", b"{", b"}", b"[", b"]", b"data:", b"event:", b"0", b"-1", b"1e999", b"99999999999999999999", b"null",
)  # fmt: skip
LARGEST = 64 * 1024
GARBAGE: tuple[Frame, ...] = (
    (b"", b""), (b"", b"{"), (b"", b"null"), (b"", b"[]"), (b"", b"{}"), (b"", b'"x"'), (b"", b"[DONE]"), (b"error", b"oops"),
    (b"", b'{"type":"error"}'), (b"", b'{"error":{}}'), (b"", b"\xff\xfe"), (b"x", b'{"type":"never-heard-of"}'),
    (b"fooException", b'{"message":"no"}'), (b"", b'{"error":{"message":"x","code":500}}'), (b"ping", b"{}"),
)  # fmt: skip


class Mutator(Protocol):
    """Inputs of one form."""

    def prepare(self, data: bytes) -> Any: ...
    def mutate(self, rng: random.Random, one: Any, other: Any) -> bytes: ...


class BytesMutator:
    """Any bytes: cut, put in, exchanged, spliced with another seed, with the words of the format."""

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        self._words = (*TOKENS, *words, *words)

    def prepare(self, data: bytes) -> bytes:
        return data[:LARGEST]

    def mutate(self, rng: random.Random, one: bytes, other: bytes) -> bytes:
        for _ in range(_times(rng)):
            one = rng.choice(self._changes)(self, rng, one, other)
        return one[:LARGEST]

    def _put_in(self, rng: random.Random, one: bytes, _: bytes) -> bytes:
        at = rng.randrange(len(one) + 1)
        return one[:at] + rng.choice(self._words) + one[at + rng.choice((0, 0, 1, 2)) :]

    def _cut_out(self, rng: random.Random, one: bytes, _: bytes) -> bytes:
        at = rng.randrange(len(one) + 1)
        return one[:at] + one[at + rng.choice((1, 1, 2, 8, 64)) :]

    def _flip(self, rng: random.Random, one: bytes, _: bytes) -> bytes:
        if not one:
            return b"x"
        at = rng.randrange(len(one))
        return one[:at] + bytes([one[at] ^ (1 << rng.randrange(8))]) + one[at + 1 :]

    def _truncate(self, rng: random.Random, one: bytes, _: bytes) -> bytes:
        return one[: rng.randrange(len(one) + 1)]

    def _splice(self, rng: random.Random, one: bytes, other: bytes) -> bytes:
        return one[: rng.randrange(len(one) + 1)] + other[rng.randrange(len(other) + 1) :]

    def _repeat(self, rng: random.Random, one: bytes, _: bytes) -> bytes:
        at = rng.randrange(len(one) + 1)
        piece = one[at : at + rng.choice((1, 4, 32))]
        return one[:at] + piece * rng.choice((1, 2, 50)) + one[at:]

    _changes: tuple[Callable[..., bytes], ...] = (
        _put_in,
        _put_in,
        _put_in,
        _cut_out,
        _flip,
        _truncate,
        _splice,
        _repeat,
    )


class LinesMutator(BytesMutator):
    """Lines, such as those of a TOML file or of an HTTP head: whole ones are moved, then bytes are changed."""

    def __init__(self, words: Sequence[bytes] = (), ending: bytes = b"\n") -> None:
        super().__init__(words)
        self._ending = ending

    def mutate(self, rng: random.Random, one: bytes, other: bytes) -> bytes:
        lines, more = one.split(self._ending), other.split(self._ending)
        for _ in range(_times(rng)):
            at = rng.randrange(len(lines) + 1)
            change = rng.random()
            if change < 0.3:
                lines.insert(at, rng.choice(more))
            elif change < 0.5:
                del lines[at : at + 1]
            elif change < 0.6:
                lines[at:at] = lines[at : at + 1]
            elif lines:
                at = min(at, len(lines) - 1)
                lines[at] = super().mutate(rng, lines[at], rng.choice(more))
        return self._ending.join(lines)[:LARGEST]


class JsonMutator:
    """One JSON value, such as a request or a whole answer."""

    def __init__(self, seeds: Sequence[bytes]) -> None:
        self._pool = ValuePool.of(json_values.parse(seed) for seed in seeds)
        self._bytes = BytesMutator()

    def prepare(self, data: bytes) -> bytes:
        return data[:LARGEST]

    def mutate(self, rng: random.Random, one: bytes, other: bytes) -> bytes:
        value = json_values.parse(one)
        if value is None:
            return self._bytes.mutate(rng, one, other)
        for _ in range(_times(rng)):
            value = json_values.mutate(rng, value, self._pool)
        data = json_values.dump(value)
        return self._bytes.mutate(rng, data, other) if rng.random() < 0.05 else data


class StreamMutator:
    """A stream as its frames: some are dropped, doubled, moved or foreign, and the JSON of others is changed."""

    def __init__(self, seeds: Sequence[bytes], framing: str = "auto") -> None:
        self._framing = framing
        self._bytes = BytesMutator()
        self._pool = ValuePool()
        for seed in seeds:
            for _, data in self.prepare(seed)[1]:
                self._pool.add(json_values.parse(data))

    def prepare(self, data: bytes) -> tuple[str, list[Frame]]:
        parser: Any = PARSERS[self._framing]()
        try:
            frames = [*parser.feed([data]), *parser.finish()]
        except PenstockError:
            frames = []
        return (parser.framing or "sse") if self._framing == "auto" else self._framing, frames

    def mutate(self, rng: random.Random, one: tuple[str, list[Frame]], other: tuple[str, list[Frame]]) -> bytes:
        framing, frames = one[0], list(one[1])
        if rng.random() < 0.1:
            frames[rng.randrange(len(frames) + 1) :] = other[1][rng.randrange(len(other[1]) + 1) :]
        for _ in range(_times(rng)):
            self._change(rng, frames)
        writer = WRITERS[framing]()
        data = b"".join([*writer.feed(frames), *writer.finish()])
        return (self._bytes.mutate(rng, data, b"") if rng.random() < 0.08 else data)[:LARGEST]

    def _change(self, rng: random.Random, frames: list[Frame]) -> None:
        if not frames or rng.random() < 0.05:
            frames.insert(rng.randrange(len(frames) + 1), rng.choice(GARBAGE))
            return
        at, to = rng.randrange(len(frames)), rng.randrange(len(frames))
        change = rng.random()
        if change < 0.7:
            frames[at] = self._mutated(rng, frames[at])
        elif change < 0.78:
            del frames[at]
        elif change < 0.86:
            frames.insert(to, frames[at])
        elif change < 0.92:
            frames[at], frames[to] = frames[to], frames[at]
        elif change < 0.96:
            frames[at] = frames[to][0], frames[at][1]
        else:
            del frames[at:]

    def _mutated(self, rng: random.Random, frame: Frame) -> Frame:
        name, data = frame
        value = json_values.parse(data)
        if value is None:
            return name, self._bytes.mutate(rng, data, b"").replace(b"\n", b" ")
        return name, json_values.dump(json_values.mutate(rng, value, self._pool))


def _times(rng: random.Random) -> int:
    return rng.choice((1, 1, 1, 2, 2, 3, 5))


class Inputs:
    """The seeds, and whatever led to something new. Newer ones are chosen as often as all older ones together."""

    MOST = 2_000

    def __init__(self, mutator: Mutator, seeds: Sequence[bytes]) -> None:
        self._mutator = mutator
        self._seeds = list(seeds)
        self._prepared: list[Any] = [mutator.prepare(seed) for seed in seeds]
        self._first = len(self._prepared)
        self._largest = 2 * max(map(len, seeds)) + 1_000

    def next(self, rng: random.Random, number: int) -> bytes:
        """The seeds come first, unchanged."""
        if number < self._first:
            return self._seeds[number]
        known = self._prepared
        later = len(known) - self._first
        at = rng.randrange(self._first, len(known)) if later and rng.random() < 0.5 else rng.randrange(self._first)
        return self._mutator.mutate(rng, known[at], known[rng.randrange(len(known))])

    def keep(self, data: bytes) -> None:
        """Take an input for further changes, unless it is much larger than any seed: small ones are faster."""
        if len(self._prepared) < self._first + self.MOST and len(data) <= self._largest:
            self._prepared.append(self._mutator.prepare(data))
