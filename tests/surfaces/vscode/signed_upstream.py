"""A scripted upstream that rejects requests without the signed thinking before calls and text, and that can be slow.

Anthropic's dialect where it is asked at `/v1/messages`, an application's at `/panel`, OpenAI's elsewhere; what it does
is in the model's name.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._replay.tool_choice import write_example_input
from penstock.testing import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.testing import ReceivedRequest

PROTOCOL = "anthropic"
TITLES = {"540 litres": "Filling a tank", "the turbine": "A turbine's speed", "there room": "Room to spare"}
REDACTED = {PROTOCOL: {"redacted": "c2VhbGVk"}}


class Provider:
    """Answers by the last word of the model's name."""

    def __init__(self) -> None:
        self._limited: set[str] = set()

    def __call__(self, seen: ReceivedRequest) -> Reply:
        protocol = PROTOCOL if seen.path.endswith("/messages") else "openai-chat"
        body = seen.json
        if seen.path.endswith("/panel"):
            return files()
        if "GenerateContent" in seen.path or "generateContent" in seen.path:
            return said("gemini", "Understood.")
        word = str(body["model"]).rpartition("-")[2]
        if protocol != PROTOCOL:
            asked = str(body["messages"][-1]).lower()
            return said("openai-chat", titled(asked) if "brief title" in asked else "Understood.")
        return self._limiting(body) if word == "limited" else WORDS.get(word, insisting)(body)

    def _limiting(self, body: dict[str, Any]) -> Reply:
        """The first time that something is asked it is too much."""
        question = str(body["messages"][-1])
        if question in self._limited:
            return said(PROTOCOL, "Now there is room.")
        self._limited.add(question)
        return Reply.rate_limit(PROTOCOL, retry_after=3)


def titled(asked: str) -> str:
    """What a conversation that begins so is called."""
    return next((title for words, title in TITLES.items() if words in asked), "The water at the gate")


def insisting(body: dict[str, Any], prompt: int = 100) -> Reply:
    """Signed thinking and a call; once it has the call's result, an answer. `prompt`: tokens of the first prompt."""
    calls, last = 0, body["messages"][-1]
    for message in body["messages"]:
        blocks = _blocks(message)
        signatures = [block.get("signature") for block in blocks if block["type"] == "thinking"]
        for block in blocks:
            if block["type"] == "tool_use":
                calls += 1
                if block["id"].replace("toolu", "sig") not in signatures:
                    return Reply.error(PROTOCOL, 400, f"{block['id']} came without its signed thinking")
    usage = ev.Usage(input=prompt + calls, output=20)
    if any(block["type"] == "tool_result" for block in _blocks(last)):
        return Reply.of(PROTOCOL, [ev.Start("m", "claude-script"), *_text(0, "It is 3.2 m."), usage, ev.Finish("stop")])
    number, tool = calls + 1, _tool(body)
    events = [*_thought(0, "Which gauge? The one asked for.", f"sig_{number}"), *_call(1, f"toolu_{number}", *tool)]
    return Reply.of(PROTOCOL, [ev.Start("m", "claude-script"), *events, usage, ev.Finish("calls")])


def insisting_on_words(body: dict[str, Any]) -> Reply:
    """Signed thinking before words alone, which must come back with them; its words are never the same."""
    turns = [_blocks(message) for message in body["messages"] if message["role"] == "assistant"]
    for number, blocks in enumerate(turns, start=1):
        if [block.get("signature") for block in blocks if block["type"] == "thinking"] != [f"said_{number}"]:
            return Reply.error(PROTOCOL, 400, f"answer {number} came without its signed thinking")
    number = len(turns) + 1
    events = [*_thought(0, "Nothing to look up.", f"said_{number}"), *_text(1, f"Answer number {number}.")]
    return Reply.of(PROTOCOL, [ev.Start("m", "claude-words"), *events, ev.Finish("stop")])


def insisting_on_all(body: dict[str, Any]) -> Reply:
    """Two thoughts and one that is sealed between them, before two calls: all come back, in their places."""
    kinds = ["thinking", "redacted_thinking", "thinking", "tool_use", "tool_use"]
    for message in body["messages"]:
        blocks = [block for block in _blocks(message) if block["type"] in kinds]
        if message["role"] != "assistant" or not any(block["type"] == "tool_use" for block in blocks):
            continue
        found = [(block["type"], block.get("signature", "")) for block in blocks]
        if found != list(zip(kinds, ["first", "", "second", "", ""], strict=True)):
            return Reply.error(PROTOCOL, 400, f"this is not how it was: {found}")
    if any(block["type"] == "tool_result" for block in _blocks(body["messages"][-1])):
        return said(PROTOCOL, "Both were read.")
    number = len(body["messages"])
    events = [
        *_thought(0, "The upper one first.", "first"),
        ev.ReasoningStart(1, form="redacted"), ev.ReasoningEnd(1, extra=REDACTED),
        *_thought(2, "Then the lower one.", "second"),
        *_call(3, f"toolu_{number}a", "read_gauge", "{}"), *_call(4, f"toolu_{number}b", "read_gauge", "{}"),
    ]  # fmt: skip
    return Reply.of(PROTOCOL, [ev.Start("m", "claude-twice"), *events, ev.Finish("calls")])


def said(protocol: str, text: str) -> Reply:
    """Words, and what they cost."""
    usage = ev.Usage(input=900, output=20)
    return Reply.of(protocol, [ev.Start("m", "script"), *_text(0, text), usage, ev.Finish("stop")])


FILES = {"application/json": b'{"level": 3.2}', "text/plain": b"3.2 m", "application/octet-stream": b"\x00\x01"}


def files() -> Reply:
    """Words, files, what an application says beside them, and no count of anything."""
    events = [ev.Start("m", "panel"), *_text(0, "Here they are.")]
    for index, (media, content) in enumerate(FILES.items(), start=1):
        data = base64.b64encode(content).decode()
        events += [ev.FileStart(index, media), ev.FileDelta(index, data), ev.FileEnd(index)]
    return Reply.of("uistream", [*events, ev.Data("gauge", '{"level": 3.2}'), ev.Finish("stop")])


def _tool(body: dict[str, Any]) -> tuple[str, str]:
    """The tool that is called, and with what: the shell where there is one."""
    tools = {tool["name"]: tool["input_schema"] for tool in body.get("tools", [])}
    shell = tools.get("run_in_terminal")
    return ("run_in_terminal", write_example_input(shell, "echo 3.2 m")) if shell else ("read_gauge", "{}")


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in message["content"] if isinstance(block, dict)]


def _thought(index: int, text: str, signature: str) -> list[ev.AnyEvent]:
    return [
        ev.ReasoningStart(index), ev.ReasoningDelta(index, text),
        ev.ReasoningEnd(index, extra={PROTOCOL: {"signature": signature}}),
    ]  # fmt: skip


def _call(index: int, id: str, name: str, given: str) -> list[ev.AnyEvent]:
    return [ev.CallStart(index, id, name), ev.CallDelta(index, given), ev.CallEnd(index, id, name, given)]


def _text(index: int, text: str) -> list[ev.AnyEvent]:
    words = text.split(" ")
    deltas: list[ev.AnyEvent] = [ev.TextDelta(index, f"{word} ") for word in words[:-1]]
    return [ev.TextStart(index), *deltas, ev.TextDelta(index, words[-1]), ev.TextEnd(index)]


WORDS: dict[str, Callable[[dict[str, Any]], Reply]] = {
    "slow": lambda _: said(PROTOCOL, "drop by drop " * 200).slow(0.05),
    "bad": lambda _: Reply.error(PROTOCOL, 400, "max_tokens is too large"),
    "never": lambda _: Reply.rate_limit(PROTOCOL, retry_after=40),
    "locked": lambda _: Reply.error(PROTOCOL, 401, "invalid x-api-key"),
    "words": insisting_on_words,
    "twice": insisting_on_all,
}
