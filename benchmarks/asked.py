"""The same protocol on both sides, for requests from one line to a coding agent's: what a longer one costs.

`python -m benchmarks.gateway --asked`. Leans on `gateway`; there is no limit to break.
"""

from __future__ import annotations

from typing import Any

from benchmarks import gateway
from benchmarks.timing import Section, table

ROUNDS = 10
TALK: list[Any] = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wie groß ist er?"},
    {"role": "assistant", "content": "Zwölf Meter."}, {"role": "user", "content": "Und jetzt?"},
]  # fmt: skip
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}", "description": "does a thing",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for number in range(10)
]  # fmt: skip
CALLS: list[Any] = [
    message
    for number in range(10)
    for message in (
        {
            "role": "assistant", "content": None,
            "tool_calls": [
                {"id": f"call_{number}", "type": "function", "function": {"name": "tool_1", "arguments": '{"of":"a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": "ok " * 50},
    )
]  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "one line": {"messages": gateway.ASK},
    "one question, not in ASCII": {"messages": TALK[:2]},
    "a talk of four messages": {"messages": TALK},
    "an agent's: 10 tools, 22 messages": {"messages": [*TALK[:2], *CALLS], "tools": TOOLS},
}


def report() -> Section:
    """Each kind beside the pass-through, as Markdown."""
    rows: list[list[str]] = []
    with gateway.bench() as made:
        for kind, asked in KINDS.items():
            made.asked = asked
            seen: dict[str, list[dict[str, float]]] = {"pass-through": [], "same": []}
            for _ in range(ROUNDS):
                for name, rounds in seen.items():
                    rounds.append(made.run(name, f"n{gateway.DELTAS}", gateway.STREAMS, 1.0))
            bare, ours = (gateway.middle(rounds) for rounds in seen.values())
            rows.append(
                [kind, f"{ours['rate']:.0f}", f"{ours['rate'] / bare['rate']:.3f}", f"{ours['each'] * 1e6:.0f}"]
            )
    text = f"""## The gateway, by what is asked

{gateway.STREAMS} streams at once of {gateway.DELTAS} deltas, Chat to Chat, medians of {ROUNDS} rounds in turn with the
pass-through. `python -m benchmarks.gateway --asked`.

{table(["request", "streams/s", "of the pass-through's", "CPU µs/stream"], rows)}"""
    return Section(text, [])
