"""A model that plays an agent: it calls a tool that the client offers, and then says what the tool gave.

No model thinks here. The command for a shell is what stands in backticks in the user's last message: in what the user
typed, where the client says which words those are (the tags are data, in `scripts.toml`), else outside of all tags.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from functools import cache
from typing import TYPE_CHECKING

from penstock import request as rq
from penstock._replay.scripts import scripts
from penstock._replay.tools import choose_tool, write_example_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.request import Request

_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*+)[^<>]*+>")
_QUOTED = re.compile(r"```[a-z]*\n(.+?)\n?```|`([^`\n]+)`", re.DOTALL)
_NO_EFFORT = frozenset({"", "none"})
_COMMAND = "echo 'hello from penstock'"
_LIMIT = 8000  # characters of a result that are repeated
_SEARCHED = 20_000  # characters of a message that are searched for a command


def results(request: Request) -> list[rq.Result]:
    """The results that came after the model last spoke."""
    found: list[rq.Result] = []
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        found[:0] = [part for part in message.parts if isinstance(part, rq.Result)]
    return found


def reply(request: Request, given: list[rq.Result], id: str) -> list[rq.AnyPart]:
    """What it says or calls. Where there is nothing to call, it says what it was told, for people to see."""
    thought = _thoughts(request)
    if given:
        return [*thought, rq.Text("\n\n".join(_told(request, result) for result in given))]
    tool = choose_tool(request)
    if tool is None:
        return [*thought, rq.Text("\n\n".join([scripts()["agent"]["parts"][0]["text"], *_heard(request)]))]
    command = next(_commands(request), _COMMAND)
    free = tool.kind == "custom"
    json = command if free else write_example_input(tool.schema or {}, command)
    return [
        *thought,
        rq.Text("I will look. "),
        rq.Call(f"call_{id}_1", tool.name, json, form="text" if free else "json"),
    ]


def _thoughts(request: Request) -> list[rq.AnyPart]:
    """It thinks if it is told to, and then not much."""
    asked = request.settings
    if asked.effort in _NO_EFFORT and not asked.budget:
        return []
    return [rq.Reasoning(f"There are {len(request.messages)} messages and {len(request.tools)} tools to look at.")]


def _heard(request: Request) -> Iterator[str]:
    """Who said what, as far as it fits."""
    left = _LIMIT
    for message in request.messages:
        said = "\n".join(part.text for part in message.parts if isinstance(part, rq.Text))[:left]
        left -= len(said)
        if said:
            yield f"{message.role}: {said}"


def _told(request: Request, result: rq.Result) -> str:
    name = result.name or _names(request).get(result.call, "the tool")
    said = "failed with" if result.failed else "gave"
    text = "\n".join(_text(part) for part in result.content)[:_LIMIT].strip() or "(nothing)"
    return f"{name} {said}:\n\n{text}"


def _text(part: rq.ResultPart) -> str:
    if isinstance(part, rq.Text):
        return part.text
    if isinstance(part, rq.Json):
        return part.json
    return f"({part.media or 'a file'})" if isinstance(part, rq.File) else ""


def _names(request: Request) -> dict[str, str]:
    calls = (part for message in request.messages for part in message.parts if isinstance(part, rq.Call))
    return {call.id: call.name for call in calls}


def _commands(request: Request) -> Iterator[str]:
    """What users said in backticks, the last of them first."""
    for message in reversed(request.messages):
        if message.role != "user":
            continue
        said = "\n".join(part.text for part in message.parts if isinstance(part, rq.Text))[-_SEARCHED:]
        typed = [said[first:last] for _, first, last, _ in _elements(said, _typed())]
        for found in _QUOTED.finditer(_without_elements("\n".join(typed) if typed else said)):
            yield (found[1] or found[2]).strip()


@cache
def _typed() -> frozenset[str]:
    """Names of the tags that stand around what a user typed."""
    return frozenset(name.lower() for name in scripts()["agent"]["typed"])


def _without_elements(text: str) -> str:
    """The text without what clients add to what a user said, which stands between tags."""
    pieces: list[str] = []
    place = 0
    for start, _, _, end in _elements(text):
        pieces.append(text[place:start])
        place = end
    return "".join([*pieces, text[place:]])


def _elements(text: str, names: frozenset[str] | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Tags with what they enclose: where each begins, where its content does, and where both end.

    An element ends at the next closing tag of its name. Every tag is looked at once, whatever the text.
    """
    tags = [(tag[2].lower(), bool(tag[1]), *tag.span()) for tag in _TAG.finditer(text)]
    closing: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for name, closes, first, last in tags:
        if closes:
            closing[name].append((first, last))
    place = 0
    for name, closes, first, last in tags:
        if closes or first < place or (names is not None and name not in names):
            continue
        ends = closing[name]
        while ends and ends[0][0] < last:
            ends.popleft()
        if ends:
            yield first, last, *ends[0]
            place = ends[0][1]
