"""Every client protocol with every upstream protocol: CPU per stream, and streams/s beside a bare pass-through.

`python -m benchmarks.gateway --matrix`. Six clients, four upstreams, three sizes of request, three kinds of stream.
The pass-through hands the same upstream's bytes on without reading them. All take turns; medians of the rounds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import provider_streams
from benchmarks.against import CONFIG, cpu, own_core, pin
from benchmarks.against_traffic import HOST, Pair, ask, chat_body, run
from benchmarks.gateway import Process, port
from benchmarks.timing import Section, table
from penstock import convert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS, STREAMS = 5, 60
SIZES = {"plain": (0, 1), "agent": (10, 22), "large agent": (40, 218)}  # tools, messages
UPSTREAMS = ("chat", "anthropic", "responses", "gemini")
SHAPES = (*provider_streams.SHAPES, provider_streams.GOLDEN)
GOALS = {"same": 0.22, "across": 0.14}
LEAST_AGENT = 0.15
MOST_CPU = 2.0  # times the cheapest pair, for Chat, Messages and Responses upstreams
USAGE_LIMIT = 0.10  # between a plain Chat request with `stream_options` and one without


class ClientProtocol(NamedTuple):
    """How a client asks: its protocol, its path, its own upstream, and what its streams end with."""

    protocol: str
    path: str
    own: str
    end: bytes


CLIENTS = {
    "chat": ClientProtocol("openai-chat", "/v1/chat/completions", "chat", b"[DONE]"),
    "messages": ClientProtocol("anthropic", "/v1/messages", "anthropic", b"message_stop"),
    "responses": ClientProtocol("responses", "/v1/responses", "responses", b'"total_tokens"'),
    "gemini": ClientProtocol("gemini", "/v1beta/models/{model}:streamGenerateContent?alt=sse", "gemini", b"STOP"),
    "uistream": ClientProtocol("uistream", "/api/chat", "", b"[DONE]"),
    "vscode": ClientProtocol("vscode", "/vscode/chat", "", b'"usage"'),
}


class MatrixPair(Pair):
    """A client's request of one size to one upstream."""

    def request(self, at: int, shape: str) -> bytes:
        body = dict(self.body)
        if "{model}" in self.path:
            body.pop("model", None)
        else:
            body["model"] = f"{self.provider}/{self.provider}-{shape}"
        path = self.path.format(model=f"{self.provider}/{self.provider}-{shape}")
        data = json.dumps(body, separators=(",", ":")).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}:{at}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def create_pair(client: str, upstream: str, size: str, **more: Any) -> MatrixPair:
    """Return the pair, its body written by `convert` in the client's protocol."""
    row = CLIENTS[client]
    body = {**chat_body(*SIZES[size]), **more}
    if row.protocol != "openai-chat":
        body = convert(body, "openai-chat", row.protocol).body
    if client == "responses":
        body["store"] = False
    if client == "uistream":
        body["id"] = "1"
    return MatrixPair(f"{client} → {upstream}, {size}", upstream, row.path, body, row.end)


class Measured(NamedTuple):
    """CPU seconds for a stream, and streams a second."""

    cpu: float
    rate: float


class Matrix:
    """The upstream, the pass-through and the gateway, running."""

    def __init__(self, gateway: tuple[Process, int], passing: tuple[Process, int]) -> None:
        self._gateway, self._passing = gateway, passing

    def measure(self, pair: Pair, shape: str, *, through: bool, streams: int = STREAMS) -> Measured:
        """Run one round of load on the gateway, or on the pass-through."""
        process, at = self._passing if through else self._gateway
        if shape == provider_streams.GOLDEN:
            pair = replace(pair, end=b"")  # cases end in their own ways
        before, start = cpu(process.pid), time.perf_counter()
        run(ask(at, pair, shape, streams))
        return Measured((cpu(process.pid) - before) / streams, streams / (time.perf_counter() - start))


@contextmanager
def start_matrix() -> Iterator[Matrix]:
    """Start everything, and stop it."""
    with ExitStack() as stack:

        def started(*words: str, **more: Any) -> Process:
            process = Process(*words, **more)
            stack.callback(process.stop)
            return process

        up, bare, gate = port(), port(), port()
        data = stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(data, "penstock.toml")
        file.write_text(CONFIG.format(base=f"http://{HOST}:{up}/v1"))
        pin(started("-m", "benchmarks.against_traffic", str(up)).pid, 1)
        passing = started("-m", "benchmarks.wires", "passing", str(bare), str(up))
        words = ("-m", "penstock", "serve", "--config", str(file), "--port", str(gate))
        gateway = started(*words, said="listening", env={"PENSTOCK_DATA": data})
        for process in (passing, gateway):
            pin(process.pid, 0)
        yield Matrix((gateway, gate), (passing, bare))


def measure_cell(matrix: Matrix, pair: Pair, shape: str, rounds: int) -> tuple[Measured, float]:
    """Return the medians of a pair, and its share of the pass-through's streams a second."""
    bare_pair = create_pair(_client_of(pair.provider), pair.provider, "plain")
    ours: list[Measured] = []
    shares: list[float] = []
    matrix.measure(pair, shape, through=False, streams=STREAMS // 2)  # warm
    for _ in range(rounds):
        bare = matrix.measure(bare_pair, shape, through=True)
        ours.append(matrix.measure(pair, shape, through=False))
        shares.append(ours[-1].rate / bare.rate)
    return Measured(median(one.cpu for one in ours), median(one.rate for one in ours)), median(shares)


def _client_of(upstream: str) -> str:
    return next(name for name, row in CLIENTS.items() if row.own == upstream)


def report(*, rounds: int = ROUNDS, clients: Sequence[str] = (), sizes: Sequence[str] = ()) -> Section:
    """Return the matrix as Markdown, and the limits that it breaks."""
    rows, broken = list[list[str]](), list[str]()
    cheapest: dict[str, float] = {}
    with own_core(), start_matrix() as matrix:
        for size in sizes or SIZES:
            for client in clients or CLIENTS:
                for upstream in UPSTREAMS:
                    pair = create_pair(client, upstream, size)
                    figures = [measure_cell(matrix, pair, shape, rounds) for shape in SHAPES]
                    cells = [f"{one.cpu * 1e6:.0f} ({share:.3f})" for one, share in figures]
                    rows.append([client, upstream, size, *cells])
                    print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
                    broken += _broken(client, upstream, size, figures[0][1])
                    if size == "plain" and upstream != "gemini":
                        cheapest[f"{client} → {upstream}"] = figures[0][0].cpu
        plain = matrix.measure(create_pair("chat", "chat", "plain"), "synthetic", through=False).cpu
        usage = {"stream_options": {"include_usage": True}}
        counted = matrix.measure(create_pair("chat", "chat", "plain", **usage), "synthetic", through=False).cpu
    least = min(cheapest.values(), default=0.0)
    broken += [
        f"{name} takes {spent / least:.2f} times the CPU of the cheapest pair, at most {MOST_CPU}"
        for name, spent in cheapest.items()
        if spent > least * MOST_CPU
    ]
    if abs(plain / counted - 1) > USAGE_LIMIT:
        broken.append(f"Chat without stream_options takes {plain / counted:.2f} times the CPU of Chat with it")
    head = ["client", "upstream", "request", *(f"{shape}: CPU µs (share)" for shape in SHAPES)]
    text = f"""## The gateway, every pair of protocols

CPU µs for a stream, and its share of the streams a second of a bare pass-through, medians of {rounds} rounds of
{STREAMS} streams in turn. Requests: plain (one message), agent (10 tools, 22 messages), large agent (40 tools, 218
messages). Streams: synthetic and recorded of {provider_streams.DELTAS} deltas, and golden cases of `tests/streams`.
`python -m benchmarks.gateway --matrix`.

{table(head, rows)}"""
    return Section(text, broken)


def _broken(client: str, upstream: str, size: str, share: float) -> list[str]:
    same = CLIENTS[client].own == upstream
    least = {"plain": GOALS["same" if same else "across"], "agent": LEAST_AGENT if same else 0.0}.get(size, 0.0)
    if share >= least:
        return []
    kind = "limit" if size == "agent" else "goal"
    return [f"{kind}, {client} → {upstream}, {size}: {share:.3f} of the pass-through's streams/s, at least {least}"]
