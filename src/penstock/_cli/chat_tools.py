"""Tools of `penstock chat`: Python functions, named as `module:function`. The user is asked before each call."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock._cli.event_printer import format_call, style_text
from penstock._cli.suggestions import suggest
from penstock._cli.terminal import wants_color
from penstock._client.function_tools import FunctionTool
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from penstock._client.run_tools import PendingToolCall

QUESTION = "Run it? [y]es, [n]o, [a]lways this tool: "
STOPPED = "The user stopped the conversation here."


def load_tools(names: Sequence[str], *, yes: bool) -> list[FunctionTool[..., Any]]:
    """Returns the named functions as tools. Without `yes`, each call needs approval, for which a terminal is needed."""
    if names and not yes and not (sys.stdin is not None and sys.stdin.isatty()):
        raise InputError("--tool: there is no terminal to ask before a tool is run; --yes runs tools without asking")
    return [_load_tool(name, yes=yes) for name in names]


def _load_tool(name: str, *, yes: bool) -> FunctionTool[..., Any]:
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise InputError(f"--tool: expected module:function, such as weather:forecast, found {name!r}")
    if (folder := os.getcwd()) not in sys.path:  # noqa: PTH109 — an entry of sys.path is a string
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"--tool {name}: {error}") from None
    for part in path.split("."):
        if not hasattr(found, part):
            known = [other for other in dir(found) if not other.startswith("_")]
            raise InputError(f"--tool {name}: {module_name} has no {part!r}{suggest(part, known)}")
        found = getattr(found, part)
    if isinstance(found, FunctionTool):
        return _copy_tool(cast("FunctionTool[..., Any]", found), needs_approval=not yes)
    if not callable(found):
        raise InputError(f"--tool {name}: expected a function, found {type(found).__name__}")
    return FunctionTool(found, needs_approval=not yes)


def _copy_tool(tool: FunctionTool[..., Any], *, needs_approval: bool) -> FunctionTool[..., Any]:
    about, seconds = tool.definition.description, tool.timeout
    return FunctionTool(
        tool.function, name=tool.name, description=about, timeout=seconds, needs_approval=needs_approval
    )


class ToolApproval:
    """Shows a call and asks whether to run it. `abort` ends the run if the user presses Ctrl-C."""

    def __init__(self) -> None:
        self._always: set[str] = set()
        self.abort: Callable[[], None] = lambda: None
        self.before: Callable[[], None] = lambda: None  # called before something is printed
        self.interrupted = False

    def __call__(self, call: PendingToolCall) -> bool | str:
        """Returns True if the call may be run; else what the model is told."""
        self.before()
        shown = format_call(call.name, msgspec.json.encode(call.arguments, enc_hook=str).decode())
        print(style_text(f"tool {shown}", "cyan", on=wants_color(sys.stderr)), file=sys.stderr)
        if self.interrupted:
            return STOPPED
        if call.name in self._always:
            return True
        try:
            with _default_interrupt():
                print(QUESTION, end="", file=sys.stderr, flush=True)
                answer = sys.stdin.readline()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            self.interrupted = True
            self.abort()
            return STOPPED
        word = answer.strip().lower()
        if word in {"a", "always"}:
            self._always.add(call.name)
        return word in {"y", "yes", "a", "always"}


@contextmanager
def _default_interrupt() -> Generator[None]:
    """Lets Ctrl-C raise at once. The event loop would only note it, and the question would stay."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
