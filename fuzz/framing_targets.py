"""Targets for framings: bytes to frames, and which framing and protocol some bytes have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fuzz.mutation import BytesMutator, StreamMutator
from fuzz.target import Target, Verdict, cut, pick, promise
from penstock._detect import guess
from penstock._framing import detect
from penstock.errors import InputError
from penstock.framing import PARSERS, WRITERS
from tests.support import run_streams as running
from tests.support.stream_cases import WHOLE, cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check
    from penstock.framing import Frame

LONGEST_SEED = 4_000


def check_framing(data: bytes, *, name: str) -> Verdict:
    """The same frames in any cutting, and a written frame can be read again."""
    try:
        parser = PARSERS[name]()
        frames = [*parser.feed([data]), *parser.finish()]
    except InputError as error:
        return False, type(error).__name__
    if name != "websocket":  # there a chunk is a message
        other = PARSERS[name]()
        again = [frame for chunk in cut(data) for frame in other.feed([chunk])]
        promise([*again, *other.finish()] == frames, "cut in pieces it gives other frames")
    promise(
        sum(len(label) + len(payload) for label, payload in frames) <= 2 * len(data) + 64, "more came out than went in"
    )
    _check_written(frames)
    return bool(frames), (min(len(frames), 5), len({label for label, _ in frames}))


def _check_written(frames: list[Frame]) -> None:
    """Payloads of one line survive being written as server-sent events and as lines."""
    plain = [(b"", payload) for _, payload in frames if payload.strip() and not set(payload) & {0x0A, 0x0D}]
    writer, parser = WRITERS["sse"](), PARSERS["sse"]()
    data = b"".join([*writer.feed(plain), *writer.finish()])
    promise([*parser.feed([data]), *parser.finish()] == plain, "frames that were written are read as others")


def check_detection(data: bytes) -> Verdict:
    """A framing and a protocol are found, or there is a typed error; more bytes do not change a framing once found."""
    place = pick(data, range(len(data) + 1), 3)
    early, found = detect(data[:place]), detect(data)
    promise(early is None or early == found, f"{early} became {found} with more bytes")
    try:
        return True, (found, guess(data))
    except InputError as error:
        return found is not None, (found, type(error).__name__)


def framing_seeds(name: str) -> list[bytes]:
    if name == "eventstream+sse":
        writer = WRITERS[name]()
        chat = [running.batches([case.body], case.framing) for case in cases("openai-chat")[:6] if case.streamed]
        return [b"".join(writer.feed([frame for batch in batches for frame in batch])) for batches in chat]
    read = "sse" if name == "sse+json" else name  # the same parser: only writers differ
    found = [case for case in cases() if case.framing != WHOLE and read in {case.framing, "auto", "websocket"}]
    return [case.body for case in found if len(case.body) <= LONGEST_SEED][:200]


def load_framing(name: str) -> tuple[Sequence[bytes], Mutator, Check]:
    words = (
        b"data: ",
        b"event: x\n",
        b"id: 1\n",
        b"retry: 1\n",
        b"\n\n",
        b"\r\n\r\n",
        b":\n",
        b"[",
        b"]",
        b",",
        b"\x00\x00\x00\x10",
    )
    seeds = framing_seeds(name)
    made: Mutator = StreamMutator(seeds, name) if name.startswith("eventstream") else BytesMutator(words)
    return seeds, made, partial(check_framing, name=name)


def load_detection() -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = [case.body for case in cases() if case.streamed and len(case.body) <= LONGEST_SEED]
    return seeds, StreamMutator(seeds), check_detection


def targets() -> list[Target]:
    """All targets of this module."""
    made = [Target(f"framing-{name}", "a frame comes out", partial(load_framing, name)) for name in PARSERS]
    return [*made, Target("framing-detection", "a framing is found", load_detection)]
