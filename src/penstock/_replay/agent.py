"""A model that plays an agent: it calls a tool that the client offers, and then repeats the tool's result.

It is not a language model. The command for a shell is the text in backticks in the user's last message: in the part
that the user typed, if the client marks it with tags (listed in `scripts.toml`), else outside of all tags.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from functools import cache
from typing import TYPE_CHECKING

from penstock import request as rq
from penstock._replay.scripts import scripts
from penstock._replay.tool_choice import choose_tool, write_example_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.request import Request

_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*+)[^<>]*+>")
_BACKTICKS = re.compile(r"```[a-z]*\n(.+?)\n?```|`([^`\n]+)`", re.DOTALL)
_COMMAND = "echo 'hello from penstock'"
_LIMIT = 8000  # characters of a result that are repeated
_SEARCHED = 20_000  # characters of a message that are searched for a command


def latest_results(request: Request) -> list[rq.Result]:
    """Returns the results after the last assistant message."""
    found: list[rq.Result] = []
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        found[:0] = [part for part in message.parts if isinstance(part, rq.Result)]
    return found


def reply_parts(request: Request, results: list[rq.Result], id: str) -> list[rq.AnyPart]:
    """Returns the reply: the results, else a tool call. Without a tool it repeats the messages, for people to see."""
    parts = _reasoning_parts(request)
    if results:
        return [*parts, rq.Text("\n\n".join(_describe_result(request, result) for result in results))]
    tool = choose_tool(request)
    if tool is None:
        return [*parts, rq.Text("\n\n".join([scripts()["agent"]["parts"][0]["text"], *_quote_messages(request)]))]
    command = next(_commands(request), _COMMAND)
    is_free_text = tool.kind == "custom"
    json = command if is_free_text else write_example_input(tool.schema or {}, command)
    call = rq.Call(f"call_{id}_1", tool.name, json, form="text" if is_free_text else "json")
    return [*parts, rq.Text("I will look. "), call]


def _reasoning_parts(request: Request) -> list[rq.AnyPart]:
    """Returns a line of reasoning if the request asks for reasoning."""
    if request.settings.effort in ("", "none") and not request.settings.budget:
        return []
    return [rq.Reasoning(f"There are {len(request.messages)} messages and {len(request.tools)} tools to look at.")]


def _quote_messages(request: Request) -> Iterator[str]:
    """Yields the role and the text of each message, up to a limit."""
    room = _LIMIT
    for message in request.messages:
        text = _message_text(message)[:room]
        room -= len(text)
        if text:
            yield f"{message.role}: {text}"


def _message_text(message: rq.Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, rq.Text))


def _describe_result(request: Request, result: rq.Result) -> str:
    calls = (part for message in request.messages for part in message.parts if isinstance(part, rq.Call))
    name = result.name or {call.id: call.name for call in calls}.get(result.call, "the tool")
    text = "\n".join(_result_text(part) for part in result.content)[:_LIMIT].strip() or "(nothing)"
    return f"{name} {'failed with' if result.failed else 'gave'}:\n\n{text}"


def _result_text(part: rq.ResultPart) -> str:
    if isinstance(part, rq.Text):
        return part.text
    if isinstance(part, rq.Json):
        return part.json
    return f"({part.media or 'a file'})" if isinstance(part, rq.File) else ""


def _commands(request: Request) -> Iterator[str]:
    """Yields the texts in backticks of user messages, the last message first."""
    for message in reversed(request.messages):
        if message.role != "user":
            continue
        text = _message_text(message)[-_SEARCHED:]
        typed = [text[first:last] for _, first, last, _ in _elements(text, _user_text_tags())]
        for found in _BACKTICKS.finditer(_without_elements("\n".join(typed) if typed else text)):
            yield (found[1] or found[2]).strip()


@cache
def _user_text_tags() -> frozenset[str]:
    """Returns the names of tags around the text that a user typed."""
    return frozenset(name.lower() for name in scripts()["agent"]["typed"])


def _without_elements(text: str) -> str:
    """Returns the text without tags and their content, which clients add."""
    chunks: list[str] = []
    position = 0
    for start, _, _, end in _elements(text):
        chunks.append(text[position:start])
        position = end
    return "".join([*chunks, text[position:]])


def _elements(text: str, names: frozenset[str] | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Yields the elements: start of the tag, start of the content, end of the content, end of the closing tag.

    An element ends at the next closing tag of its name. Linear: every tag is looked at once.
    """
    tags = [(tag[2].lower(), bool(tag[1]), *tag.span()) for tag in _TAG.finditer(text)]
    closing: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for name, closes, first, last in tags:
        if closes:
            closing[name].append((first, last))
    position = 0
    for name, closes, first, last in tags:
        if closes or first < position or (names is not None and name not in names):
            continue
        ends = closing[name]
        while ends and ends[0][0] < last:
            ends.popleft()
        if ends:
            yield first, last, *ends[0]
            position = ends[0][1]
