"""A long conversation from Chat to Anthropic: what reading, mending and writing cost, as it grows, and beside others.

Whoever is not installed gets a line that says so. LiteLLM writes into what it is given, so it gets a copy for each
round, made before the clock runs.
"""

from __future__ import annotations

import copy
import os
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.timing import Section, interleaved, table
from penstock._messages.convert import convert
from penstock._protocols.anthropic.request_write import write_request
from penstock._protocols.openai_chat.request_read import read_request

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES, TOOLS, ROUNDS = 218, 40, 300
OBJECTS, BYTES = 1.0, 2.0  # ms
SIZES = (50, 218, 1_000, 4_000)
GROWTH, GROWTH_ROUNDS = 1.6, 7  # a message of the longest conversation beside one of the usual; generous, for noise
PEERS = {"litellm": "LiteLLM", "llm_rosetta": "llm-rosetta"}
WORDS = "The build fails because the path of the header is wrong; I have changed it and run the tests again. "


def conversation(messages: int, tools: int) -> dict[str, Any]:
    """An agent at work: a question, two calls at once, their results, an answer, and so on."""
    rows: list[dict[str, Any]] = [{"role": "system", "content": "You are a coding agent. " * 40}]
    rounds, few = divmod(messages - 1, 5)
    rows += [{"role": ("user", "assistant")[place % 2], "content": WORDS} for place in range(few)]
    for number in range(rounds):
        calls = [
            {"id": f"call_{number}_{place}", "type": "function", "function": {"name": name, "arguments": given}}
            for place, (name, given) in enumerate(
                [
                    (f"tool_{number % tools}", '{"path": "src/app/main.c", "limit": 200, "offset": 0}'),
                    (f"tool_{(number + 1) % tools}", '{"command": "make -j2 test", "timeout": 60}'),
                ]
            )
        ]
        rows.append({"role": "user", "content": f"{number}: {WORDS}"})
        rows.append({"role": "assistant", "content": WORDS, "tool_calls": calls})
        rows += [{"role": "tool", "tool_call_id": call["id"], "content": WORDS * 8} for call in calls]
        rows.append({"role": "assistant", "content": WORDS * 2})
    return {
        "model": "some-model", "messages": rows, "tools": [tool(place) for place in range(tools)],
        "tool_choice": "auto", "max_tokens": 4096, "temperature": 0.2, "stream": True,
    }  # fmt: skip


def tool(place: int) -> dict[str, Any]:
    fields = {
        name: {"type": "string", "description": f"The {name} to work on."} for name in ("path", "command", "text")
    }
    schema = {"type": "object", "properties": fields, "required": ["path"], "additionalProperties": False}
    described = {"name": f"tool_{place}", "description": "Does one thing to a file.", "parameters": schema}
    return {"type": "function", "function": described}


# ── contenders ────────────────────────────────────────────────────────────────────────────────────


def bare(body: dict[str, Any]) -> dict[str, Any]:
    """Reading and writing alone."""
    return write_request(read_request(body)).body


def ours(body: dict[str, Any]) -> dict[str, Any]:
    """The real thing: with all that the profile of the target demands."""
    return convert(body, "openai-chat", "anthropic").body


def ours_bytes(data: bytes) -> bytes:
    return msgspec.json.encode(convert(data, "openai-chat", "anthropic").body)


def litellm(body: dict[str, Any], rounds: int) -> Callable[[], dict[str, Any]]:
    """Its Anthropic transformation, as its completion call runs it."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig  # type: ignore[import-not-found]

    config = AnthropicConfig()
    copies = [copy.deepcopy(body) for _ in range(rounds + 2)]
    model = "claude-sonnet-4-5"

    def run() -> dict[str, Any]:
        given = copies.pop()
        wanted = {key: given[key] for key in ("tools", "tool_choice", "max_tokens", "temperature", "stream")}
        options = config.map_openai_params(wanted, {}, model, drop_params=True)
        made: dict[str, Any] = config.transform_request(model, given["messages"], options, {}, {})
        return made

    return run


def llm_rosetta(body: dict[str, Any], _: int) -> Callable[[], dict[str, Any]]:
    from llm_rosetta import convert as other  # type: ignore[import-not-found]

    return partial(other, body, "anthropic", "openai_chat")


def blocks(body: dict[str, Any]) -> int:
    """Calls and results in a body: what every contender must have carried."""
    content = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    return sum(block["type"] in ("tool_use", "tool_result") for block in content)


# ── sections ──────────────────────────────────────────────────────────────────────────────────────


def beside_others() -> Section:
    body = conversation(MESSAGES, TOOLS)
    data = msgspec.json.encode(body)
    runs: dict[str, Callable[[], Any]] = {
        "penstock": partial(ours, body), "penstock, reading and writing alone": partial(bare, body),
        "penstock, bytes to bytes": partial(ours_bytes, data),
    }  # fmt: skip
    makers = {"litellm": litellm, "llm_rosetta": llm_rosetta}
    here = [name for name in PEERS if find_spec(name)]
    runs |= {PEERS[name]: makers[name](body, ROUNDS) for name in here}
    expected = blocks(ours(body))
    for name, run in runs.items():
        made = run()
        assert blocks(msgspec.json.decode(made) if isinstance(made, bytes) else made) == expected, name
    times = interleaved(runs, ROUNDS)
    rows = [[name, f"{times.micros(name, 1000):.2f}", f"{times.ratio(name, 'penstock'):.2f}"] for name in runs]
    limits = {"penstock": OBJECTS, "penstock, bytes to bytes": BYTES}
    broken = [
        f"{name}: {MESSAGES} messages and {TOOLS} tools take {times.micros(name, 1000):.2f} ms; the limit is {most}"
        for name, most in limits.items()
        if times.micros(name, 1000) > most
    ]
    absent = "".join(f"\n\n{PEERS[name]} is not installed here." for name in PEERS if name not in here)
    found = ", ".join(f"{PEERS[name]} {version(name.replace('_', '-'))}" for name in here)
    return Section(table(["who", "ms", "times ours"], rows) + (f"\n\n{found}." if found else "") + absent, broken)


def growth() -> Section:
    """µs per message as the conversation grows; every size gets the same number of messages in all."""
    most = SIZES[-1]

    def run(body: dict[str, Any], times: int) -> None:
        for _ in range(times):
            ours(body)

    runs = {str(size): partial(run, conversation(size, TOOLS), most // size) for size in SIZES}
    times = interleaved(runs, GROWTH_ROUNDS)
    grown = times.ratio(str(most), "1000")
    broken = [f"a message of {most:,} costs {grown:.2f} times one of 1,000"] if grown > GROWTH else []
    figures = [f"{times.micros(str(size), most // size * size):.2f}" for size in SIZES]
    return Section(table([*(f"{size:,}" for size in SIZES), "growth"], [[*figures, f"{grown:.2f}"]]), broken)


def report() -> Section:
    """The section for the results."""
    others, grown = beside_others(), growth()
    return Section(
        f"""## Requests, Chat to Anthropic

ms of CPU for {MESSAGES} messages with {TOOLS} tools, {ROUNDS} rounds in turn.
At most {OBJECTS:.0f} ms from objects to objects and {BYTES:.0f} ms from bytes to bytes.

{others.text}

µs per message as the conversation grows, the tools included. Growth is that from 1,000 messages to {SIZES[-1]:,}.

{grown.text}""",
        others.broken + grown.broken,
    )


if __name__ == "__main__":
    print(report().text)
