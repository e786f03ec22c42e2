"""The scripted model: it has the client's shell read a word from a file and turn it round, then says the result.

A scenario adds one fault. Only a client that returns every result, with the state that belongs to it, says the word.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.strict_upstream.conversation import Answer, Call, Conversation, Protocol, Tool
from tools.strict_upstream.model_facts import openai_reasons
from tools.strict_upstream.vendor_faults import make_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.strict_upstream.frames import Holds
    from tools.strict_upstream.vendor_faults import FaultName

WORD = re.compile(r"(?:first|second)-[0-9a-f]{12}")
FILES = ("first.txt", "second.txt")
SENTENCE = "The shell printed: {turned}"  # the last answer
_SHELLS = ("bash", "exec_command", "run_shell_command", "shell", "execute_command", "run_commands", "developer__shell")
_COMMANDS = ("command", "cmd", "commands", "script")
_LIMIT = 6  # results without the word before the model gives up
# How agents ask for a summary of the conversation, with their tools still on offer.
_COMPACT = re.compile(r"respond with text only|do not call any tools|checkpoint compaction", re.IGNORECASE)
_SUMMARY = "<analysis>Short.</analysis>\n<summary>The user wants to read the words in two files.</summary>"


@dataclass(frozen=True)
class Scenario:
    """What happens. A fault hits the answer to the first results, or every request if `always`."""

    name: str
    parallel: bool = False
    fault: FaultName | None = None
    always: bool = False
    cut: Holds = ""  # the connection is reset inside a text or a call
    inside_frame: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("one-call"),
        Scenario("parallel-calls", parallel=True),
        Scenario("rate-limit", fault="rate-limit"),
        Scenario("overload", fault="overload"),
        Scenario("overflow", fault="overflow"),
        Scenario("quota", fault="quota", always=True),
        Scenario("auth", fault="auth", always=True),
        Scenario("cut-text", cut="text"),
        Scenario("cut-text-frame", cut="text", inside_frame=True),
        Scenario("cut-call", cut="call"),
        Scenario("cut-call-frame", cut="call", inside_frame=True),
    )
}


@dataclass(frozen=True)
class Reply:
    """An answer, and where its stream is cut."""

    answer: Answer
    cut: Holds = ""
    inside_frame: bool = False


class ScriptedModel:
    """Answers conversations. `calls` counts the calls it made, `faults` the faults it played."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.calls = 0
        self.faults = 0
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def check_fault(self, protocol: Protocol) -> None:
        """Raise the fault that hits every request."""
        if self.scenario.fault and self.scenario.always:
            self.faults += 1
            raise make_refusal(protocol, self.scenario.fault)

    def reply(self, conversation: Conversation, protocol: Protocol) -> Reply:
        """The next answer; raises `Refusal`."""
        with self._lock:
            self.check_fault(protocol)
            number = next(self._numbers)
            shell = find_shell(conversation.tools)
            if shell is None or _COMPACT.search(_instruction(conversation)):
                return Reply(self._make(conversation, number, text=_SUMMARY))
            if conversation.results() and not self.faults and conversation.stream:
                cut = self._play_fault(protocol)
            else:
                cut = ""
            answer = self._next_step(conversation, shell, protocol, number)
            return Reply(answer, cut if answer.calls else "", self.scenario.inside_frame)

    def _play_fault(self, protocol: Protocol) -> Holds:
        if self.scenario.fault:
            self.faults += 1
            raise make_refusal(protocol, self.scenario.fault)
        if self.scenario.cut:
            self.faults += 1
        return self.scenario.cut

    def _next_step(self, conversation: Conversation, shell: Tool, protocol: Protocol, number: int) -> Answer:
        results = [item.text for item in conversation.results()]
        wanted = 2 if self.scenario.parallel else 1
        words = sorted(set(WORD.findall("\n".join(results))))[:wanted]
        turned = " ".join(words)[::-1]
        if len(words) == wanted and any(turned in text for text in results):
            return self._make(conversation, number, text=SENTENCE.format(turned=turned))
        if len(results) >= _LIMIT and len(words) < wanted:
            return self._make(conversation, number, text="I give up.")
        if len(words) == wanted:
            commands, text = [f"echo {' '.join(words)} | rev"], "Now I turn what I read round with one more command."
        else:
            missing = [name for name in FILES[:wanted] if not any(name[:5] in word for word in words)]
            commands, text = [f"cat {name}" for name in missing], "I will read what the shell can tell me."
        calls = tuple(self._call(shell, command, protocol, number, at) for at, command in enumerate(commands))
        self.calls += len(calls)
        return self._make(conversation, number, f"Step {len(results) + 1}: {commands[0]}.", text, calls)

    def _make(
        self, conversation: Conversation, number: int, thought: str = "", text: str = "", calls: tuple[Call, ...] = ()
    ) -> Answer:
        thought = "" if openai_reasons(conversation.model) is False else thought
        return Answer(f"{number:06}a1b2c3d4e5f6a7b8", conversation.model, thought, text, calls)

    def _call(self, shell: Tool, command: str, protocol: Protocol, number: int, at: int) -> Call:
        prefix = "toolu_01" if protocol == "messages" else "call_"
        known = f"{prefix}{number:04}{at:02}Zy8x7W6v5U4t3S2r"
        return Call(known, shell, json.dumps(fill_arguments(shell.schema, command)))


def _instruction(conversation: Conversation) -> str:
    """The last message, if it is the user's: a request to summarise stands there."""
    if conversation.items and conversation.items[-1].kind == "user":
        return conversation.items[-1].text[:2000]
    return ""


def find_shell(tools: list[Tool]) -> Tool | None:
    """The tool that runs a command."""
    for name in _SHELLS:
        for tool in tools:
            fits = any(word in (tool.schema.get("properties") or {}) for word in _COMMANDS)
            if tool.name.lower() == name and fits and not tool.freeform:
                return tool
    return None


def fill_arguments(schema: dict[str, Any], command: str) -> dict[str, Any]:
    """Arguments that the schema accepts: the command, and something for everything else that is required."""
    fields = schema.get("properties") or {}
    filled = {name: _fill(name, fields.get(name) or {}) for name in schema.get("required") or []}
    place = next(name for name in _COMMANDS if name in fields)
    if str(_type(fields[place])).lower() == "array":
        items = fields[place].get("items") or {}
        filled[place] = [command] if place == "commands" else ["bash", "-lc", command]
        if "object" in str(_type(items)).lower():
            filled[place] = [{"command": command}]
    else:
        filled[place] = command
    return filled


def _type(schema: dict[str, Any]) -> Any:
    options = schema.get("anyOf") or schema.get("any_of") or [schema]
    return next((one.get("type") for one in options if str(one.get("type")).lower() != "null"), "string")


def _fill(name: str, schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    match str(_type(schema)).lower():
        case "boolean":
            return False
        case "integer" | "number":
            return max(int(schema.get("minimum") or 10), 10)
        case "array":
            return []
        case "object":
            return {}
        case _:
            return f"Reads a word ({name})"
