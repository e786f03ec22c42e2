"""A scripted Anthropic upstream that insists on the signed thinking before each of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply

if TYPE_CHECKING:
    from penstock.testing.upstream import Seen

PROTOCOL = "anthropic"


def reply(seen: Seen) -> Reply:
    """By the model asked for: one that is slow, one that refuses, and one that calls and insists."""
    body = seen.json
    if body["model"].endswith("slow"):
        return Reply.of(PROTOCOL, [ev.Start(), *_text(0, "drop by drop " * 200), ev.Finish("stop")]).slow(0.05)
    if body["model"].endswith("bad"):
        return Reply.refusing(PROTOCOL, 400, "max_tokens is too large")
    return insisting(body)


def insisting(body: dict[str, Any]) -> Reply:
    calls, last = 0, body["messages"][-1]
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        signatures = [block.get("signature") for block in blocks if block["type"] == "thinking"]
        for block in blocks:
            if block["type"] == "tool_use":
                calls += 1
                if block["id"].replace("toolu", "sig") not in signatures:
                    return Reply.refusing(PROTOCOL, 400, f"{block['id']} came without its signed thinking")
    usage = ev.Usage(input=100 + calls, output=20)
    if any(block["type"] == "tool_result" for block in last["content"] if isinstance(block, dict)):
        return Reply.of(PROTOCOL, [ev.Start("m", "claude-script"), *_text(0, "It is 3.2 m."), usage, ev.Finish("stop")])
    number = calls + 1
    thought: list[ev.AnyEvent] = [
        ev.ReasoningStart(0), ev.ReasoningDelta(0, "Which gauge? The one asked for."),
        ev.ReasoningEnd(0, extra={PROTOCOL: {"signature": f"sig_{number}"}}),
    ]  # fmt: skip
    call: list[ev.AnyEvent] = [
        ev.CallStart(1, f"toolu_{number}", "read_gauge"), ev.CallDelta(1, "{}"),
        ev.CallEnd(1, f"toolu_{number}", "read_gauge", "{}"),
    ]  # fmt: skip
    return Reply.of(PROTOCOL, [ev.Start("m", "claude-script"), *thought, *call, usage, ev.Finish("calls")])


def _text(index: int, text: str) -> list[ev.AnyEvent]:
    words = text.split(" ")
    deltas: list[ev.AnyEvent] = [ev.TextDelta(index, f"{word} ") for word in words[:-1]]
    return [ev.TextStart(index), *deltas, ev.TextDelta(index, words[-1]), ev.TextEnd(index)]
