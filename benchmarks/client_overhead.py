"""What a client library costs by itself: CPU per call, per delta and per step, beside LiteLLM and pydantic-ai.

`python -m benchmarks.client_overhead`, in an environment that has all three. One server in its own process answers all
of them over Chat Completions; they run in turn, each in its own event loop. The CPU time is that of the whole process,
because LiteLLM also works in threads. Each one is asked in the cheapest way it has. What asyncio itself needs to send
the request and to receive the answer is measured in turn with them: overhead is what a library adds to that.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import penstock
from benchmarks.timing import CALM, Section, Times, table
from penstock.events import TextDelta

if TYPE_CHECKING:
    from collections.abc import Generator

PEERS = {"litellm": "litellm", "pydantic-ai": "pydantic_ai"}
OURS, BARE = "penstock", "bare"
GOAL = 5.0  # times less CPU than each of them
MODEL, QUESTION = "gpt-4o", "How high is the water at the upper gate?"
SHORT, LONG, PACED, STEPS = 2, 1000, 200, 5
STREAMS = (("deltas", SHORT), ("deltas", LONG), ("paced", PACED))
ROUNDS = 12
CALLS = 50  # in a round; a multiple of STEPS


async def read_gauge(station: str) -> str:
    """Read the level of the water."""
    return f"{station}: 3.2 m"


class Contender(ABC):
    """A library, in its own event loop. `base` is the address of the server."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.runner = asyncio.Runner()

    def url(self, kind: str, number: int) -> str:
        return f"{self.base}/{kind}-{number}/v1"

    @abstractmethod
    async def chat(self) -> str:
        """One answer; its text."""

    @abstractmethod
    async def stream(self, kind: str, deltas: int) -> int:
        """One streamed answer; the number of its text deltas."""

    @abstractmethod
    async def run(self) -> str:
        """A loop of `STEPS` steps, all but the last with a tool; the last text."""

    async def close(self) -> None:  # noqa: B027 — not every library can be closed
        """Closes connections."""


class Penstock(Contender):
    """`client.chat`, `client.chat_stream` event by event, `client.run`."""

    def __init__(self, base: str) -> None:
        super().__init__(base)
        rows = {
            f"{kind}-{number}": {"like": "openai", "base_url": self.url(kind, number), "key": "none"}
            for kind, number in (*STREAMS, ("steps", STEPS))
        }
        self.client = penstock.Client({"providers": rows}, env={})
        self.tool = penstock.FunctionTool(read_gauge)  # once, as an agent of pydantic-ai reads its tools

    async def chat(self) -> str:
        return (await self.client.chat(f"deltas-{SHORT}/{MODEL}", QUESTION)).text

    async def stream(self, kind: str, deltas: int) -> int:
        count = 0
        async for event in self.client.chat_stream(f"{kind}-{deltas}/{MODEL}", QUESTION):
            if isinstance(event, TextDelta):
                count += 1
        return count

    async def run(self) -> str:
        return (await self.client.run(f"steps-{STEPS}/{MODEL}", QUESTION, tools=[self.tool])).output

    async def close(self) -> None:
        await self.client.aclose()


class Bare(Contender):
    """No library: prepared bytes are sent over a kept connection, and bytes are counted. What everybody needs."""

    def __init__(self, base: str) -> None:
        super().__init__(base)
        self.connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, kind: str, number: int, results: int = 0, *, stream: bool = False) -> bytes:
        """Sends a request and returns the answer."""
        host, port = self.base.removeprefix("http://").split(":")
        if self.connection is None:
            self.connection = await asyncio.open_connection(host, int(port))
        reader, writer = self.connection
        messages = [{"role": "user", "content": QUESTION}, *[{"role": "tool"}] * results]
        body = json.dumps({"model": MODEL, "stream": stream, "messages": messages})
        path = f"/{kind}-{number}/v1/chat/completions"
        writer.write(f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        data, end = b"", b"\r\n0\r\n\r\n" if stream else b"}"
        while not data.endswith(end) or (not stream and b"\r\n\r\n{" not in data):
            data += await reader.read(1 << 16)
        return data

    async def chat(self) -> str:
        return (await self.exchange("deltas", SHORT)).decode()

    async def stream(self, kind: str, deltas: int) -> int:
        return (await self.exchange(kind, deltas, stream=True)).count(b" drop")

    async def run(self) -> str:
        for results in range(STEPS):
            await self.exchange("steps", STEPS, results, stream=True)
        return "read"

    async def close(self) -> None:
        if self.connection is not None:
            self.connection[1].close()


class LiteLlm(Contender):
    """`acompletion`. It has no tool loop: the loop is the one that its documentation shows."""

    TOOL: ClassVar[dict[str, Any]] = {
        "type": "function",
        "function": {
            "name": "read_gauge",
            "description": "Read the level of the water.",
            "parameters": {"type": "object", "properties": {"station": {"type": "string"}}, "required": ["station"]},
        },
    }

    def __init__(self, base: str) -> None:
        super().__init__(base)
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched otherwise
        litellm: Any = import_module("litellm")
        litellm.suppress_debug_info = True
        self.complete: Any = litellm.acompletion

    async def ask(self, kind: str, number: int, messages: list[Any], **more: Any) -> Any:
        return await self.complete(f"openai/{MODEL}", messages, api_base=self.url(kind, number), api_key="none", **more)

    async def chat(self) -> str:
        reply = await self.ask("deltas", SHORT, [{"role": "user", "content": QUESTION}])
        return str(reply.choices[0].message.content)

    async def stream(self, kind: str, deltas: int) -> int:
        count = 0
        async for chunk in await self.ask(kind, deltas, [{"role": "user", "content": QUESTION}], stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                count += 1
        return count

    async def run(self) -> str:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        while True:
            message = (await self.ask("steps", STEPS, messages, tools=[self.TOOL])).choices[0].message
            if not message.tool_calls:
                return str(message.content)
            messages.append(message)
            for call in message.tool_calls:
                text = await read_gauge(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


class PydanticAi(Contender):
    """`model_request` and `model_request_stream`, which are cheaper than an agent, and an agent for the loop."""

    def __init__(self, base: str) -> None:
        super().__init__(base)
        ai, direct = import_module("pydantic_ai"), import_module("pydantic_ai.direct")
        openai, providers = import_module("pydantic_ai.models.openai"), import_module("pydantic_ai.providers.openai")

        def model(kind: str, number: int) -> Any:
            provider = providers.OpenAIProvider(base_url=self.url(kind, number), api_key="none")
            return openai.OpenAIChatModel(MODEL, provider=provider)

        self.models = {job: model(*job) for job in STREAMS}
        self.agent: Any = ai.Agent(model("steps", STEPS), tools=[read_gauge])
        self.request, self.open_stream, self.prompt = (
            direct.model_request, direct.model_request_stream, ai.ModelRequest.user_text_prompt,
        )  # fmt: skip
        self.starts, self.deltas = (ai.PartStartEvent, ai.TextPart), (ai.PartDeltaEvent, ai.TextPartDelta)

    async def chat(self) -> str:
        reply = await self.request(self.models["deltas", SHORT], [self.prompt(QUESTION)])
        return str(reply.parts[0].content)

    async def stream(self, kind: str, deltas: int) -> int:
        count = 0
        async with self.open_stream(self.models[kind, deltas], [self.prompt(QUESTION)]) as stream:
            async for event in stream:
                if isinstance(event, self.deltas[0]):
                    count += isinstance(event.delta, self.deltas[1])
                elif isinstance(event, self.starts[0]):
                    count += isinstance(event.part, self.starts[1])
        return count

    async def run(self) -> str:
        return str((await self.agent.run(QUESTION)).output)


CONTENDERS: dict[str, type[Contender]] = {BARE: Bare, OURS: Penstock, "litellm": LiteLlm, "pydantic-ai": PydanticAi}


async def many_chats(one: Contender) -> int:
    return sum([bool(await one.chat()) for _ in range(CALLS)])


async def many_streams(one: Contender) -> int:
    return sum([bool(await one.stream("deltas", SHORT)) for _ in range(CALLS)])


async def long_stream(one: Contender) -> int:
    return await one.stream("deltas", LONG)


async def paced_stream(one: Contender) -> int:
    return await one.stream("paced", PACED)


async def loops(one: Contender) -> int:
    return sum([bool(await one.run()) for _ in range(CALLS // STEPS)]) * STEPS


# What is measured → one round of it; how many calls, deltas or steps a round has, which it also returns.
JOBS = {
    "call, whole answer": (many_chats, CALLS),
    f"call, streamed, {SHORT} deltas": (many_streams, CALLS),
    "delta, many in one read": (long_stream, LONG),
    "delta, one in a read": (paced_stream, PACED),
    f"step of a tool loop, {STEPS} steps": (loops, CALLS // STEPS * STEPS),
}


@contextmanager
def server() -> Generator[str]:
    """The server's address; it runs as long as the block."""
    command = [sys.executable, "-m", "benchmarks.overhead_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def measure(contenders: dict[str, Contender], job: str, rounds: int) -> Times:
    """The CPU seconds of every contender in every round of a job."""
    work, size = JOBS[job]
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):  # the first one warms up
        for name, one in contenders.items():
            gc.collect()
            start = time.process_time()
            count = one.runner.run(work(one))
            if number:
                spent[name].append(time.process_time() - start)
            assert count == size, f"{name} did {count} of {size}: {job}"
    return Times(spent)


def missing() -> list[str]:
    """The contenders that are not installed."""
    return [name for name, module in PEERS.items() if find_spec(module) is None]


def overhead(times: Times, name: str, size: int) -> float:
    """µs that a library adds to the bare exchange: the median of the calmest rounds."""
    rounds = sorted(zip(times.spent[name], times.spent[BARE], strict=True), key=sum)
    return median([mine - bare for mine, bare in rounds[: -(-len(rounds) // CALM)]]) / size * 1e6


def build_row(job: str, times: Times) -> tuple[list[str], list[str]]:
    """The figures of a job, and the goals that are missed."""
    size = JOBS[job][1]
    ours = overhead(times, OURS, size)
    row, broken = [job, f"{times.micros(BARE, size):.0f}", f"{ours:.0f}"], list[str]()
    for name in PEERS:
        if name not in times.spent:
            row += ["", ""]
            continue
        theirs = overhead(times, name, size)
        row += [f"{theirs:.0f}", f"**{theirs / ours:.1f}** ({times.ratio(name, OURS):.1f})"]
        if theirs < GOAL * ours:
            broken.append(f"{job}: {name} adds only {theirs / ours:.1f} times the CPU that {OURS} adds")
    return row, broken


def _version(name: str) -> str:
    """The version of a package, or of the one that has only its core."""
    try:
        return version(name)
    except PackageNotFoundError:
        return version(f"{name}-slim")


def report(rounds: int = ROUNDS) -> Section:
    warnings.simplefilter("ignore")  # printing them is not measured
    rows, broken = list[list[str]](), list[str]()
    with server() as base:
        contenders = {name: kind(base) for name, kind in CONTENDERS.items() if name not in missing()}
        for job in JOBS:
            row, missed = build_row(job, measure(contenders, job, rounds))
            rows.append(row)
            broken += missed
        for one in contenders.values():
            one.runner.run(one.close())
            one.runner.close()
    names = [f"{name} {_version(name)}" if name not in missing() else f"{name}: not installed" for name in PEERS]
    head = ["µs of CPU per", "bare exchange", f"{OURS} adds", f"{names[0]} adds", "times ours"]
    text = f"""## Client overhead

What a library adds to a bare exchange of the same answer by asyncio; in brackets the ratio with that exchange included.
One server, {rounds} rounds, contenders in turn. Per delta and per step the call itself is included.

{table([*head, f"{names[1]} adds", "times ours"], rows)}"""
    return Section(text, broken)


if __name__ == "__main__":
    found = report()
    print(found.text)
    for line in found.broken:
        print(f"Goal missed: {line}.", file=sys.stderr)
