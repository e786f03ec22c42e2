"""What a request says, in words that all four protocols share. The validators write it, the scripted model reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Protocol = Literal["chat", "responses", "messages", "gemini"]
PROTOCOLS: tuple[Protocol, ...] = ("chat", "responses", "messages", "gemini")


@dataclass(frozen=True)
class Tool:
    """A tool on offer. `freeform` tools take text instead of JSON; `namespace` groups tools of the Responses API."""

    name: str
    schema: dict[str, Any]
    freeform: bool = False
    namespace: str = ""


@dataclass(frozen=True)
class Item:
    """One element of the history."""

    kind: Literal["user", "assistant", "call", "result", "reasoning"]
    text: str = ""  # the text, the arguments of a call, the output of a result
    name: str = ""  # the tool of a call
    id: str = ""


@dataclass
class Conversation:
    """A request that was accepted."""

    model: str
    stream: bool
    tools: list[Tool] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    system: str = ""  # the instructions, wherever the protocol holds them
    wants_reasoning: bool = False  # the client asked for thinking, or for its summary
    wants_sealed_reasoning: bool = False  # the client asked for encrypted reasoning (Responses)
    wants_usage: bool = True
    options: dict[str, Any] = field(default_factory=dict)  # fields that the answer repeats

    def results(self) -> list[Item]:
        """The tool results, oldest first."""
        return [item for item in self.items if item.kind == "result"]

    def last_user_text(self) -> str:
        """The text of the last user message."""
        return next((item.text for item in reversed(self.items) if item.kind == "user"), "")


@dataclass(frozen=True)
class Call:
    """A tool call of an answer."""

    id: str
    tool: Tool
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What the scripted model says: a thought, a text, calls; each may be empty."""

    id: str
    model: str
    thought: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    input_tokens: int = 100
    output_tokens: int = 20


def join_text(content: Any) -> str:
    """The text of a content field: a string, or a list of parts that hold `text`."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return join_text(content.get("text") or content.get("content") or content.get("output") or "")
    if isinstance(content, list):
        return "\n".join(filter(None, map(join_text, content)))
    return ""
