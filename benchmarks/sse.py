"""SSE parsing: ours beside httpx-sse and beside a bare split, which is no parser but the floor of one.

`python benchmarks/sse.py` prints µs per event, best of interleaved rounds, and how flat the cost stays with the length of
the stream and the size of the chunks. `--check` exits with 1 if ours is not twice as fast as httpx-sse. Needs httpx-sse.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from httpx_sse._decoders import SSEDecoder, SSELineDecoder

from penstock.framing import SseParser

if TYPE_CHECKING:
    from collections.abc import Callable

KIB = 1024
EVENTS = 2000
ROUNDS = 30
TARGET = 2.0

CHAT = b'data: {"id":"c-1","object":"chat.completion.chunk","created":1700000000,"model":"m-1","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}\n\n'  # noqa: E501 — as it would be sent
NAMED = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}\n\n'  # noqa: E501 — the same
SHAPES: dict[str, bytes] = {
    "data, LF": CHAT,
    "data, CRLF": CHAT.replace(b"\n", b"\r\n"),
    "event + data, LF": NAMED,
    "event + data, CRLF": NAMED.replace(b"\n", b"\r\n"),
    "comment + data, LF": b": working\n\n" + CHAT,
    "id + event + data, LF": b"id: 17\n" + NAMED,  # for our line parser
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
    """Split at the blank lines and cut the field name off: knows one shape and one line end, and checks nothing."""
    held, count = b"", 0
    end = b"\r\n\r\n" if b"\r" in chunks[0] else b"\n\n"
    for chunk in chunks:
        frames = (held + chunk).split(end)
        held = frames.pop()
        count += len([frame[6:] for frame in frames])
    return count


def best(runs: dict[str, Callable[[], int]], events: int, rounds: int = ROUNDS) -> dict[str, float]:
    """µs per event, the best of several rounds, taking turns so that a busy machine is busy for all."""
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            count = run()
            times[name] = min(times[name], time.perf_counter() - start)
            assert count >= events, (name, count)
    return {name: spent / events * 1e6 for name, spent in times.items()}


def compare(size: int | None) -> float:
    """Print one table; a size of None means one frame a chunk, as live streams come. Return the smallest ratio."""
    print(f"\nµs/event, {EVENTS} events, chunks of {f'{size // KIB} KiB' if size else 'one frame'}")
    print(f"{'':24}{'floor':>8}{'ours':>8}{'httpx-sse':>11}{'faster':>9}")
    worst = float("inf")
    for shape, frame in SHAPES.items():
        chunks = cut(stream(frame), size) if size else [frame % number for number in range(EVENTS)]
        spent = best(
            {
                "floor": lambda chunks=chunks: floor(chunks),
                "ours": lambda chunks=chunks: ours(chunks),
                "httpx-sse": lambda chunks=chunks: httpx_sse(chunks),
            },
            EVENTS,
        )
        ratio = spent["httpx-sse"] / spent["ours"]
        worst = min(worst, ratio)
        print(f"{shape:24}{spent['floor']:8.2f}{spent['ours']:8.2f}{spent['httpx-sse']:11.2f}{ratio:8.1f}x")
    return worst


def flatness() -> None:
    print("\nlength of the stream, 4 KiB chunks")
    runs = {events: cut(stream(CHAT, events), 4 * KIB) for events in (100, 1000, 10_000, 100_000)}
    for events, chunks in runs.items():
        rounds = max(3, 100_000 // events // 4)
        print(f"{events:>10} events {best({'': lambda chunks=chunks: ours(chunks)}, events, rounds)['']:8.2f} µs/event")

    print("\nsize of the chunks, 2000 events")
    body = stream(CHAT)
    for size in (1, 16, 256, 4 * KIB, 64 * KIB):
        chunks = cut(body, size)
        spent = best({"": lambda chunks=chunks: ours(chunks)}, EVENTS, 5)[""]
        print(f"{size:>10} bytes  {spent:8.2f} µs/event {spent * EVENTS / len(chunks):8.2f} µs/chunk")

    print("\nsize of one frame, chunks of 1 byte")
    for size in (64 * KIB, 256 * KIB, 1024 * KIB):
        chunks = cut(b"data: " + b"x" * size + b"\n\n", 1)
        spent = best({"": lambda chunks=chunks: ours(chunks)}, 1, 3)[""]
        print(f"{size // KIB:>10} KiB    {spent / size * 1000:8.0f} ns/byte")


def main() -> int:
    worst = min(compare(4 * KIB), compare(None))
    flatness()
    print(f"\nat least {worst:.1f} times as fast as httpx-sse; the target is {TARGET}")
    return 1 if "--check" in sys.argv[1:] and worst < TARGET else 0


if __name__ == "__main__":
    raise SystemExit(main())
