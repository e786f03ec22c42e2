"""What stands in a request body, by each protocol's own rules and without our readers: who speaks, which calls, which results.

An oracle for conversions. `turns(protocol, body)` gives the conversation as rows, `broken(protocol, body)` says what a
provider would refuse: results away from their calls, wrong names, roles out of turn, nothing said.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Body = dict[str, Any]


class Turn(NamedTuple):
    """One message as the wire has it. Calls are (id, name, input), results (id, name or nothing)."""

    role: str
    calls: list[tuple[str, str, Any]]
    results: list[tuple[str, str]]
    empty: bool = False


def value(text: Any) -> Any:
    try:
        return json.loads(text or "{}") if isinstance(text, str) else text
    except ValueError:
        return text


def _chat(body: Body) -> Iterator[Turn]:
    for message in body["messages"]:
        calls = []
        for call in message.get("tool_calls") or ():
            said = call.get("function") or call["custom"]
            calls.append((call["id"], said["name"], value(said.get("arguments", said.get("input")))))
        results = [(message["tool_call_id"], "")] if message["role"] == "tool" else []
        yield Turn(message["role"], calls, results)


def _ollama(body: Body) -> Iterator[Turn]:
    for message in body["messages"]:
        calls = [
            (call.get("id", ""), call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        answer = [(message.get("tool_call_id", ""), message.get("tool_name", ""))]
        yield Turn(message["role"], calls, answer if message["role"] == "tool" else [])


def _responses(body: Body) -> Iterator[Turn]:
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            said = value(item["arguments"]) if kind == "function_call" else item["input"]
            yield Turn("assistant", [(item["call_id"], item["name"], said)], [])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield Turn("tool", [], [(item["call_id"], "")])
        elif kind == "message":
            yield Turn(item["role"], [], [])


def _anthropic(body: Body) -> Iterator[Turn]:
    for message in body["messages"]:
        content = message["content"]
        blocks: list[Body] = content if isinstance(content, list) else []
        calls = [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
        results = [(block["tool_use_id"], "") for block in blocks if block["type"] == "tool_result"]
        blank = any(block["type"] == "text" and not block["text"] for block in blocks)
        first = [block["type"] for block in blocks[: len(results)]]
        yield Turn(message["role"], calls, results, not content or blank or first != ["tool_result"] * len(results))


def _gemini(body: Body) -> Iterator[Turn]:
    for content in body["contents"]:
        parts = content["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        yield Turn(
            {"model": "assistant"}.get(content["role"], content["role"]),
            [(call.get("id", ""), call["name"], call.get("args")) for call in calls],
            [(result.get("id", ""), result["name"]) for result in results],
            not parts or any(part == {"text": ""} for part in parts),
        )


def _bedrock(body: Body) -> Iterator[Turn]:
    for message in body["messages"]:
        blocks = message["content"]
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        results = [(block["toolResult"]["toolUseId"], "") for block in blocks if "toolResult" in block]
        rows = [(call["toolUseId"], call["name"], call["input"]) for call in calls]
        yield Turn(message["role"], rows, results, not blocks or any(block == {"text": ""} for block in blocks))


def _aisdk(body: Body) -> Iterator[Turn]:
    for message in body["messages"]:
        content = message["content"]
        parts: list[Body] = content if isinstance(content, list) else []
        ours = [part for part in parts if not part.get("providerExecuted")]
        calls = [(p["toolCallId"], p["toolName"], p.get("input")) for p in ours if p["type"] == "tool-call"]
        results = [(p["toolCallId"], p["toolName"]) for p in parts if p["type"] == "tool-result"]
        yield Turn(message["role"], calls, results if message["role"] == "tool" else [])


READ: dict[str, Callable[[Body], Iterator[Turn]]] = {
    "openai-chat": _chat, "cohere": _chat, "ollama": _ollama, "responses": _responses, "anthropic": _anthropic,
    "gemini": _gemini, "bedrock": _bedrock, "aisdk": _aisdk,
}  # fmt: skip
TOGETHER = frozenset({"anthropic", "gemini", "bedrock"})
"""Where all results of a round stand in the one message behind the calls."""
OPENING = frozenset({"anthropic", "gemini", "bedrock"})
"""Where the user speaks first."""


def turns(protocol: str, body: Body) -> list[Turn]:
    return list(READ[protocol](body))


def broken(protocol: str, body: Body) -> list[str]:
    """What a provider would refuse."""
    rows = turns(protocol, body)
    found = [f"message {place} is empty" for place, row in enumerate(rows) if row.empty]
    spoken = [row.role for row in rows if row.role not in ("system", "developer")]
    if protocol in OPENING and spoken and spoken[0] != "user":
        found.append(f"{spoken[0]} speaks first")
    if protocol == "bedrock":
        found += [f"{one} speaks twice in a row" for one, two in pairwise(spoken) if one == two]
    return found + _unpaired(protocol, rows)


def _unpaired(protocol: str, rows: list[Turn]) -> list[str]:
    found: list[str] = []
    waiting: dict[str, str] = {}
    for place, row in enumerate(rows):
        for id, name in row.results:  # noqa: A001 — as everybody calls it
            if id not in waiting:
                found.append(f"message {place} answers {id!r}, which is not open")
            elif name not in ("", waiting.pop(id)):
                found.append(f"message {place} answers {id!r} by the name {name!r}")
        if waiting and (not row.results or protocol in TOGETHER) and not _goes_on(protocol, row):
            found.append(f"message {place} comes before the results of {sorted(waiting)}")
            waiting = {}
        waiting |= {call: name for call, name, _ in row.calls}
    return [*found, f"nobody answers {sorted(waiting)}"] if waiting else found


def _goes_on(protocol: str, row: Turn) -> bool:
    """Calls of one round are items of their own."""
    return protocol == "responses" and row.role == "assistant"
