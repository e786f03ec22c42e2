"""SSE parsing: ours beside httpx-sse and beside a bare split, which is no parser but the floor of one.

`python -m benchmarks.sse` prints µs per event, and how flat the cost stays as streams grow and chunks shrink.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

from benchmarks.timing import Section, interleaved, table
from penstock.framing import SseParser

KIB = 1024
EVENTS, ROUNDS = 2000, 60
TARGET = 2.0  # times as fast as httpx-sse

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
    "two names in turn, LF": NAMED.replace(b"%d", b"") + NAMED.replace(b"_delta", b"_piece"),
    "retry + data, LF": b"retry: 9\n" + CHAT,  # rare, so left to our line parser
}


def pieces(frame: bytes, events: int = EVENTS) -> list[bytes]:
    return [frame % number for number in range(events // frame.count(b"data: "))]


def stream(frame: bytes, events: int = EVENTS) -> bytes:
    return b"".join(pieces(frame, events))


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def ours(chunks: list[bytes], times: int = 1) -> int:
    count = 0
    for _ in range(times):
        parser = SseParser()
        for chunk in chunks:
            count += len(parser.feed([chunk]))
        count += len(parser.finish())
    return count


def httpx_sse(chunks: list[bytes]) -> int:
    """As its `iter_sse` works: text, lines, events. The text decoder is left out, in its favour."""
    from httpx_sse._decoders import SSEDecoder, SSELineDecoder

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


def compare(size: int | None) -> tuple[str, dict[str, float]]:
    """A table and its ratios. A size of None means one frame a chunk, as live streams mostly come."""
    rows: list[list[str]] = []
    ratios: dict[str, float] = {}
    for shape, frame in SHAPES.items():
        chunks = cut(stream(frame), size) if size else pieces(frame)
        assert ours(chunks) == httpx_sse(chunks) == EVENTS
        contenders = {"floor": floor, "ours": ours, "httpx-sse": httpx_sse}
        times = interleaved({name: partial(run, chunks) for name, run in contenders.items()}, ROUNDS)
        ratios[shape] = times.ratio("httpx-sse", "ours")
        rows.append([shape, *(f"{times.micros(name, EVENTS):.2f}" for name in contenders), f"**{ratios[shape]:.1f}**"])
    return table(["shape", "split", "penstock", "httpx-sse", "times as fast"], rows), ratios


def lengths() -> str:
    sizes = (100, 1_000, 10_000, 100_000)
    runs = {str(size): partial(ours, cut(stream(CHAT, size), 4 * KIB), sizes[-1] // size) for size in sizes}
    times = interleaved(runs, 7)
    return table(
        ["events in the stream", *(f"{size:,}" for size in sizes)],
        [["µs per event", *(f"{times.micros(str(size), sizes[-1]):.2f}" for size in sizes)]],
    )


def cuttings() -> str:
    sizes = (1, 16, 256, 4 * KIB, 64 * KIB)
    chunks = {str(size): cut(stream(CHAT), size) for size in sizes}
    times = interleaved({name: partial(ours, parts) for name, parts in chunks.items()}, 10)
    return table(
        ["bytes in a chunk", *(f"{size:,}" for size in sizes)],
        [
            ["µs per event", *(f"{times.micros(name, EVENTS):.2f}" for name in chunks)],
            ["µs per chunk", *(f"{times.micros(name, len(parts)):.2f}" for name, parts in chunks.items())],
        ],
    )


def frame_sizes() -> str:
    chunks = {size: cut(b"data: " + b"x" * size * KIB + b"\n\n", 1) for size in (64, 256, 1024)}
    times = interleaved({str(size): partial(ours, parts) for size, parts in chunks.items()}, 5)
    return table(
        ["KiB in one frame, byte by byte", *(f"{size:,}" for size in chunks)],
        [["ns per byte", *(f"{times.micros(str(size), len(chunks[size])) * 1000:.0f}" for size in chunks)]],
    )


def report() -> Section:
    """The section for the results."""
    growth = f"As streams grow, as chunks shrink, as one frame grows:\n\n{lengths()}\n\n{cuttings()}\n\n{frame_sizes()}"
    if find_spec("httpx_sse") is None:
        return Section(f"## SSE parsing\n\nhttpx-sse is not installed, so there is nothing beside it.\n\n{growth}", [])
    batches, ratios = compare(4 * KIB)
    singles, _ = compare(None)
    slow = [f"{shape}: {ratios[shape]:.1f} times as fast as httpx-sse" for shape in COMMON if ratios[shape] < TARGET]
    return Section(
        f"""## SSE parsing

µs of CPU per event, {EVENTS:,} events, {ROUNDS} rounds in turn with httpx-sse {version("httpx-sse")} and a bare split.
In chunks of 4 KiB, where the first {len(COMMON)} shapes are to be at least {TARGET:.0f} times as fast:

{batches}

One frame a chunk, as live streams mostly come:

{singles}

{growth}""",
        slow,
    )


if __name__ == "__main__":
    print(report().text)
