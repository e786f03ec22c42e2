"""The cells of the fault matrix: who asks whom, what goes wrong and where, and what the client must then see.

What must be seen depends on how much of the answer the upstream has sent before the fault:

| fault | before the finish reason | between finish reason and last frame | after the last frame |
|---|---|---|---|
| fin, half, clean, rst, stall, error | error | error, or the complete answer | complete answer |
| garbage | complete answer (sdk engine: or error) | the same | complete answer |
| duplicate | see `DUPLICATES` | the same | none |

A cut before the finish reason is always an error, because the answer could have continued. Between the finish reason
and the last frame ([DONE], message_stop, usage) nothing of the content is missing, so both are true. Gemini has no last
frame of its own: only the end of the body ends its streams, so for all but that the middle column holds. A garbage frame is
withheld; the vendors' SDKs, which read the upstream in the sdk engine, cannot skip it and raise. Whichever of two
permitted ends a client sees, the journal must tell the same one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.wire.faults.answers import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.wire.faults.answers import Kind

Expected: TypeAlias = Literal["error", "complete", "either", "duplicate"]
CLIENTS = ("openai-chat", "responses", "anthropic", "gemini", "uistream")
UPSTREAMS = ("openai-chat", "responses", "anthropic", "gemini")
ENGINES = ("native", "sdk")
CUTS = ("fin", "half", "clean", "rst", "stall", "error")
FAULTS = (*CUTS, "garbage", "duplicate")
HEAD = -1  # the position before the head of the response
BODY_CUTS = 9  # positions in a whole answer, its two ends included
NO_HEAD = frozenset({"fin", "half", "rst", "stall", "error"})  # faults that can happen before the head

# A frame that comes twice, where the stream is translated. Passed-through streams are handed on as they came.
DUPLICATES: dict[Kind, str] = {
    "structure": "complete answer or error: a second start or end of a part adds nothing",
    "reasoning": "the reasoning holds the piece once or twice: deltas carry no identity",
    "text": "the text holds the piece once or twice, for the same reason",
    "call": "exactly one call, or error: ids make the second one known",
    "arguments": "one call with the right arguments, or none that a client could run: what comes twice is not JSON",
    "finish": "complete answer",
    "usage": "complete answer, usage counted once",
    "end": "complete answer",
}


@dataclass(frozen=True, order=True)
class Cell:
    """One cell. `position`: frames sent before the fault; of a whole answer, bytes; HEAD: not even the head."""

    client: str
    upstream: str
    engine: str
    stream: bool
    fault: str
    position: int

    @property
    def title(self) -> str:
        """The cell without its position."""
        form = "streamed" if self.stream else "whole"
        return f"{self.upstream} -> {self.client}, {self.engine}, {form}, {self.fault}"

    @property
    def passthrough(self) -> bool:
        """Whether the bytes of the upstream are handed on: the same dialect on both sides of the native engine."""
        return self.client == self.upstream and self.engine == "native"

    @property
    def kind(self) -> Kind:
        """What the frame at the position is."""
        return ANSWERS[self.upstream].kinds[self.position]

    @property
    def expected(self) -> Expected:
        if self.fault.startswith("none"):
            return "complete"
        return self._streamed() if self.stream else self._whole()

    def _streamed(self) -> Expected:
        answer = ANSWERS[self.upstream]
        if self.fault == "duplicate":
            return "duplicate"
        if self.fault == "garbage":
            # The last frame ends the answer for every reader: what follows it is not read.
            return "complete" if self.engine == "native" or self.position > answer.end else "either"
        if self.position <= answer.finish:
            return "error"
        over = self.position > answer.end and (answer.marked or self.fault == "clean")
        return "complete" if over else "either"

    def _whole(self) -> Expected:
        if self.fault in {"garbage", "duplicate"}:
            # Bytes behind a complete JSON value may be refused or ignored; within it they break it.
            return "either" if self.fault == "duplicate" or self.position == len(self.body) else "error"
        return "complete" if self.position == len(self.body) else "error"

    @property
    def body(self) -> bytes:
        return ANSWERS[self.upstream].body


def cells(client: str, engine: str) -> Iterator[Cell]:
    """Every cell of one client and one engine."""
    for upstream in UPSTREAMS:
        for fault in FAULTS:
            for stream in (True, False):
                for position in positions(upstream, fault, stream=stream):
                    yield Cell(client, upstream, engine, stream, fault, position)


def positions(upstream: str, fault: str, *, stream: bool) -> list[int]:
    """Every frame of a stream; so many byte positions of a whole answer."""
    answer = ANSWERS[upstream]
    before = [HEAD] if fault in NO_HEAD else []
    if stream:
        last = 0 if fault in {"half", "duplicate"} else 1  # there is no half of what follows the last frame
        return [*before, *range(len(answer.frames) + last)]
    if fault in {"error", "duplicate"}:
        return [*before, 0]
    size = len(answer.body)
    cuts = [size * part // (BODY_CUTS - 1) for part in range(BODY_CUTS)]
    if fault == "half":
        return [*before, *cuts[:-1]]
    return [*before, *cuts[:-1], size - 1, size]


def sample(client: str, engine: str, share: float, seed: int) -> list[Cell]:
    """A seeded share of the cells, at least one of every upstream, form and fault."""
    dice = random.Random(f"{seed} {client} {engine}")
    groups: dict[tuple[str, str, bool], list[Cell]] = {}
    for cell in cells(client, engine):
        groups.setdefault((cell.upstream, cell.fault, cell.stream), []).append(cell)
    return [
        cell for group in groups.values() for cell in dice.sample(group, max(1, round(len(group) * share)))
    ]  # fmt: skip
