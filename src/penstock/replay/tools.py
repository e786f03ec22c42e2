"""Which of the client's tools an agent would call: one that must be called, one that runs commands, else the first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.request import Request, Tool

COMMANDS = ("command", "cmd", "commands", "script", "shell_command", "code")  # fields that hold what is to be run
_SHELLS = (  # words of a name, from the surest on
    frozenset({"bash", "shell", "terminal", "powershell", "sh"}),
    frozenset({"exec", "execute", "command", "commands", "cmd"}),
    frozenset({"run"}),
)
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_CALLABLE = frozenset({"function", "custom"})


def chosen(request: Request) -> Tool | None:
    """The tool to call; None where there is none, or none may be called."""
    choice = request.choice
    if choice is not None and choice.mode == "none":
        return None
    offered = [tool for tool in request.tools if tool.kind in _CALLABLE]
    allowed = [tool for tool in offered if choice is not None and tool.name in choice.names] or offered
    # The order of what is equally likely is the client's.
    return min(allowed, key=_rank, default=None)


def _rank(tool: Tool) -> tuple[bool, int, bool]:
    words = {word.lower() for word in _WORDS.findall(tool.name)}
    sure = next((place for place, known in enumerate(_SHELLS) if words & known), len(_SHELLS))
    runs = runs_commands(tool)
    return not runs or sure == len(_SHELLS), sure if runs else len(_SHELLS), bool(tool.namespace)


def runs_commands(tool: Tool) -> bool:
    """Whether there is a field for a command; a tool of free text takes anything."""
    fields = (tool.schema or {}).get("properties")
    return tool.kind == "custom" or (isinstance(fields, dict) and any(name in fields for name in COMMANDS))
