"""Reading a stream, bytes to events: ours beside the official SDKs' stream parsers, and beside the AI SDK in Node.

The SDKs read the same bytes through their own clients, from a transport that answers without a network. The AI SDK
runs in a process of its own, so it cannot take turns. Whoever is not installed gets a line that says so.
"""

from __future__ import annotations

import json
import subprocess
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import floor
from benchmarks.timing import Section, interleaved, table
from penstock import _protocols as protocols
from penstock._bridge import parser
from penstock._grammar import Guard
from penstock._pipeline import Pipe
from penstock.events import TextDelta

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS, ROUNDS = 2000, 15
HERE = Path(__file__).parent
SCRIPT = HERE / "node" / "aisdk.mjs"
NODE = HERE.parent / "tests" / "node"
CHAT_END = (
    b'data: {"id":"chatcmpl-Bq8Zt","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def ours(source: str, chunks: list[bytes]) -> int:
    """Events of text, with the grammar guard on."""
    pipe = Pipe(parser("auto"), protocols.decoder(source), Guard())
    count = 0
    for chunk in chunks:
        count += sum([type(event) is TextDelta for event in pipe.feed([chunk])])
    return count


def transport(client_class: type, chunks: list[bytes]) -> Any:
    """A client that answers everything with these chunks, of whichever httpx an SDK is built on."""
    roots = [base.__module__.partition(".")[0] for base in client_class.__mro__]
    httpx = import_module(next(root for root in roots if root.startswith("httpx")))

    def answer(_: Any) -> Any:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=iter(chunks))

    return httpx.Client(transport=httpx.MockTransport(answer), trust_env=False)


def openai_sdk(chunks: list[bytes]) -> Callable[[], int]:
    """`chat.completions.create(stream=True)`, each chunk a typed object."""
    import openai

    http = transport(openai.DefaultHttpxClient, chunks)
    client = openai.OpenAI(api_key="none", base_url="http://upstream.test/v1", http_client=http, max_retries=0)

    def read() -> int:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
        return sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in stream)

    return read


def anthropic_sdk(chunks: list[bytes]) -> Callable[[], int]:
    """`messages.create(stream=True)`, each event a typed object."""
    import anthropic

    http = transport(anthropic.DefaultHttpxClient, chunks)
    client = anthropic.Anthropic(api_key="none", base_url="http://upstream.test", http_client=http, max_retries=0)

    def read() -> int:
        question: Any = [{"role": "user", "content": "?"}]
        stream = client.messages.create(model="m", max_tokens=1, messages=question, stream=True)
        return sum(event.type == "content_block_delta" for event in stream)

    return read


SDKS: dict[str, tuple[floor.Pair, Callable[[list[bytes]], Callable[[], int]]]] = {
    "openai": (floor.PAIRS[0], openai_sdk),
    "anthropic": (floor.PAIRS[1], anthropic_sdk),
}


def sdk_row(name: str) -> list[str]:
    """An official SDK, in turn with ours over the same chunks."""
    pair, make = SDKS[name]
    chunks = floor.stream(pair, EVENTS)
    if find_spec(name) is None:
        return [f"{name} SDK: not installed", "", "", ""]
    sdk, mine = make(chunks), partial(ours, pair.source, chunks)
    assert sdk() == mine() == EVENTS
    times = interleaved({"sdk": sdk, "ours": mine}, ROUNDS)
    micros = [f"{times.micros(who, EVENTS):.1f}" for who in ("sdk", "ours")]
    return [f"{name} SDK {version(name)}, {pair.source}", *micros, f"**{times.ratio('sdk', 'ours'):.0f}**"]


def node_row() -> list[str]:
    """The AI SDK's `streamText`, by the CPU time of its process once it is warm."""
    node = NODE / ".node" / "bin" / "node"
    if not node.exists() or not (NODE / "ai7" / "node_modules" / "ai").exists():
        return ["AI SDK in Node: not installed (`sh tests/oracles/node/setup.sh`)", "", "", ""]
    pair = floor.PAIRS[0]
    chunks = floor.stream(pair, EVENTS)
    mine = interleaved({"ours": partial(ours, pair.source, chunks)}, ROUNDS).micros("ours", EVENTS)
    done = subprocess.run(
        [node, SCRIPT], input=b"".join(chunks) + CHAT_END, stdout=subprocess.PIPE, check=True, timeout=300
    )
    said = json.loads(done.stdout)
    assert said["deltas"] == EVENTS
    name = f"AI SDK {said['ai']}, Node {said['node']}, `fullStream` of {pair.source}"
    return [name, f"{said['micros']:.1f}", f"{mine:.1f}", f"**{said['micros'] / mine:.0f}**"]


def report() -> Section:
    """The section for the results."""
    rows = [*map(sdk_row, SDKS), node_row()]
    return Section(
        f"""## Reading, bytes to events, beside others

µs of CPU per text delta, {EVENTS:,} deltas in chunks of 4 KiB, {ROUNDS} rounds. The SDKs read through their own clients
from a transport without a network, in turn with ours (parser, decoder, grammar guard). The AI SDK runs in a process of
its own: its figure is the best of its rounds by `process.cpuUsage`, compiler and collector threads included.

{table(["reader", "theirs", "penstock", "times ours"], rows)}""",
        [],
    )


if __name__ == "__main__":
    print(report().text)
