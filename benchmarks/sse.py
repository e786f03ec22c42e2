"""SSE parsing: ours beside httpx-sse and beside a bare split, which is no parser but the floor of one.

`python benchmarks/sse.py` prints µs per event, best of interleaved rounds, and how flat the cost stays as streams grow
and chunks shrink. `--check` exits with 1 if ours is not twice as fast as httpx-sse over 4 KiB chunks. Needs httpx-sse.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from httpx_sse._decoders import SSEDecoder, SSELineDecoder

from penstock.framing import SseParser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KIB = 1024
EVENTS = 2000
ROUNDS = 30
TARGET = 2.0

CHAT = b'data: {"id":"c-1","object":"chat.completion.chunk","created":1700000000,"model":"m-1","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}\n\n'  # noqa: E501 — as it would be sent
NAMED = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}\n\n'  # noqa: E501 — the same
COMMON: dict[str, bytes] = {
    "data, LF": CHAT,
    "data, CRLF": CHAT.replace(b"\n", b"\r\n"),
    "event + data, LF": NAMED,
    "event + data, CRLF": NAMED.replace(b"\n", b"\r\n"),
}
SHAPES: dict[str, bytes] = {
    **COMMON,
    "comment + data, LF": b": working\n\n" + CHAT,
    "id + event + data, LF": b"id: 17\n" + NAMED,
    "retry + data, LF": b"retry: 9\n" + CHAT,  # rare, so left to our line parser
}


def stream(frame: bytes, events: int = EVENTS) -> bytes:
    return b"".join([frame % number for number in range(events)])


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def ours(chunks: list[bytes]) -> int:
    parser, count = SseParser(), 0
    for chunk in chunks:
        count += len(parser.feed([chunk]))
    return count + len(parser.finish())


def httpx_sse(chunks: list[bytes]) -> int:
    """As its `iter_sse` works: text, lines, events. The text decoder is left out, in its favour."""
    lines, decoder, count = SSELineDecoder(), SSEDecoder(), 0
    for chunk in chunks:
        for line in lines.decode(chunk.decode()):
            event = decoder.decode(line)
            if event is not None and event.data:
                count += 1
    return count


def floor(chunks: list[bytes]) -> int:
    """Split at the blank lines and cut a field name off: knows one shape and one line end, and checks nothing."""
    held, count = b"", 0
    end = b"\r\n\r\n" if b"\r" in chunks[0] else b"\n\n"
    for chunk in chunks:
        frames = (held + chunk).split(end)
        held = frames.pop()
        count += len([frame[6:] for frame in frames])
    return count


def best(runs: Mapping[str, Callable[[], int]], rounds: int = ROUNDS) -> dict[str, float]:
    """µs per event, the best of several rounds, taking turns so that a busy machine is busy for all."""
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            events = run()
            times[name] = min(times[name], (time.perf_counter() - start) / events * 1e6)
    return times


def again(chunks: list[bytes], times: int) -> int:
    return sum(ours(chunks) for _ in range(times))


def compare(size: int | None) -> dict[str, float]:
    """Print one table and return the ratios. A size of None means one frame a chunk, as live streams mostly come."""
    print(f"\nµs/event, {EVENTS} events, chunks of {f'{size // KIB} KiB' if size else 'one frame'}")
    print(f"{'':24}{'floor':>8}{'ours':>8}{'httpx-sse':>11}{'faster':>9}")
    ratios: dict[str, float] = {}
    for shape, frame in SHAPES.items():
        chunks = cut(stream(frame), size) if size else [frame % number for number in range(EVENTS)]
        runs = {"floor": partial(floor, chunks), "ours": partial(ours, chunks), "httpx-sse": partial(httpx_sse, chunks)}
        assert ours(chunks) == httpx_sse(chunks) == EVENTS
        spent = best(runs)
        spent["floor"] *= floor(chunks) / EVENTS  # it takes a comment for a frame
        ratios[shape] = spent["httpx-sse"] / spent["ours"]
        print(f"{shape:24}{spent['floor']:8.2f}{spent['ours']:8.2f}{spent['httpx-sse']:11.2f}{ratios[shape]:8.1f}x")
    return ratios


def flatness() -> None:
    print("\nlength of the stream, 4 KiB chunks")
    lengths = (100, 1000, 10_000, 100_000)
    streams = {
        f"{events:>10} events": (cut(stream(CHAT, events), 4 * KIB), max(lengths) // events) for events in lengths
    }
    for name, spent in best({name: partial(again, *run) for name, run in streams.items()}, 10).items():
        print(f"{name} {spent:8.2f} µs/event")

    print(f"\nsize of the chunks, {EVENTS} events")
    body = stream(CHAT)
    cuttings = {f"{size:>10} bytes": cut(body, size) for size in (1, 16, 256, 4 * KIB, 64 * KIB)}
    for name, spent in best({name: partial(ours, chunks) for name, chunks in cuttings.items()}, 10).items():
        print(f"{name}  {spent:8.2f} µs/event {spent * EVENTS / len(cuttings[name]):8.2f} µs/chunk")

    print("\nsize of one frame, chunks of 1 byte")
    frames = {size: cut(b"data: " + b"x" * size * KIB + b"\n\n", 1) for size in (64, 256, 1024)}
    for name, spent in best({str(size): partial(ours, chunks) for size, chunks in frames.items()}, 10).items():
        print(f"{name:>10} KiB    {spent / len(frames[int(name)]) * 1000:8.0f} ns/byte")


def main() -> int:
    ratios = compare(4 * KIB)
    compare(None)
    flatness()
    worst = min(ratios[shape] for shape in COMMON)
    print(f"\ncommon shapes, 4 KiB chunks: at least {worst:.1f} times as fast as httpx-sse; the target is {TARGET:.0f}")
    return 1 if "--check" in sys.argv[1:] and worst < TARGET else 0


if __name__ == "__main__":
    raise SystemExit(main())
