"""The calls of one choice: functions for the client to run, whole or in partial arguments, and tools that Google ran.

Ids are kept; where there are none they are minted from the turn (its id, else the ledger's seed), the choice and a
number, never from the name. Results without an id answer the calls of their kind in order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.jsontext import as_json
from penstock.protocols.gemini.wire import own

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ledger import Ledger
    from penstock.protocols.gemini import wire

CODE = "code_execution"
TOOLS: dict[str, str] = {
    "GOOGLE_SEARCH_WEB": "google_search", "GOOGLE_SEARCH_IMAGE": "google_image_search", "URL_CONTEXT": "url_context",
    "GOOGLE_MAPS": "google_maps", "FILE_SEARCH": "file_search", "MEDIA_PROCESSING": "media_processing",
}  # fmt: skip
TRACES = "metadata"  # where a run that left nothing but traces is written: no part of its own
_OPEN = "partial call"  # the ledger's key for the one call that may be open


class Calls:
    """State: the call whose arguments still arrive, and the provider's calls that wait for their results."""

    def __init__(self, ledger: Ledger, choice: int, mint: Callable[[str, int], str]) -> None:
        self._ledger = ledger
        self._choice = choice
        self._mint = mint
        self._key = (choice, _OPEN)
        self._arguments: Arguments | None = None  # of the call that is open
        self._id = ""
        self._given: set[tuple[str, str, str]] = set()
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)
        self.count = 0
        self.delivered = 0
        self.names: set[str] = set()  # of the provider's tools that ran

    # ── the client's ──────────────────────────────────────────────────────────────────────────────

    def add(self, call: wire.FunctionCall, signature: str | None) -> None:
        if self._arguments is not None and (not call.name or (call.id and call.id == self._id)):
            self._grow(call, self._arguments)
            return
        self.settle(whole=False)
        if not call.name and not call.args and not call.partial_args:
            return  # the end mark of a call that has ended
        self._begin(call, signature)

    def _begin(self, call: wire.FunctionCall, signature: str | None) -> None:
        partial = bool(call.partial_args) or bool(call.will_continue)
        name, text = call.name or "", "" if partial else _text(call.args)
        self._id = self._unique(call.id or "", name, text)
        extra = own(thoughtSignature=signature or None, minted=not call.id)
        self._ledger.open_call(self._key, self._id, name, choice=self._choice, extra=extra)
        if not partial and name:
            self._end(text, whole=True)
            return
        self._arguments = Arguments(call.args)
        self._arguments.broken = not name
        self._grow(call, self._arguments)

    def _grow(self, call: wire.FunctionCall, arguments: Arguments) -> None:
        for arg in call.partial_args or ():
            if not arguments.put(arg):
                self._ledger.diagnostics.add("partial-args", f"call {self._id!r}: an argument cannot be placed")
        if not call.will_continue:
            self.settle(whole=True)

    def settle(self, *, whole: bool) -> None:
        """End the open call: delivered if its end mark came and nothing is missing, otherwise cut."""
        arguments, self._arguments = self._arguments, None
        if arguments is None:
            return
        good = whole and arguments.whole
        self._end(arguments.text() if good else arguments.so_far(), whole=good)

    def _end(self, text: str, *, whole: bool) -> None:
        self._ledger.end_call(self._key, text, whole=whole)
        self.delivered += bool(self._ledger.out) and type(self._ledger.out[-1]) is ev.CallEnd

    def finish(self, *, normally: bool) -> None:
        """The choice ended: a call without its end mark is whole only if the model stopped by itself."""
        self.settle(whole=normally and self._arguments is not None and bool(self._arguments.root))

    def _unique(self, id: str, name: str, text: str) -> str:
        number, self.count = self.count, self.count + 1
        if not id:
            return self._mint("call", number)
        if self._ledger.has_call(id, self._choice) and (id, name, text) not in self._given:
            self._ledger.diagnostics.add("id-twice", f"another call has the id {id!r}, too")
            return f"{id}-{number}"
        self._given.add((id, name, text))
        return id

    # ── the provider's ────────────────────────────────────────────────────────────────────────────

    def ran_code(self, said: wire.ExecutableCode, signature: str | None) -> None:
        given = {"language": said.language, "code": said.code or ""}
        self._run(CODE, said.id, as_json(given), part="executableCode", thoughtSignature=signature)

    def code_result(self, said: wire.CodeExecutionResult, signature: str | None) -> None:
        found = {"outcome": said.outcome, "output": said.output or ""}
        failed = said.outcome not in ("OUTCOME_OK", 1)
        self._result(CODE, said.id, as_json(found), failed, part="codeExecutionResult", thoughtSignature=signature)

    def ran_tool(self, said: wire.ToolCall, signature: str | None) -> None:
        kind = said.tool_type or ""
        self._run(
            tool_name(kind), said.id, _text(said.args), part="toolCall", toolType=kind, thoughtSignature=signature
        )

    def tool_result(self, said: wire.ToolResponse, signature: str | None) -> None:
        kind, found = said.tool_type or "", _text(said.response)
        extra = {"part": "toolResponse", "toolType": kind, "thoughtSignature": signature}
        self._result(tool_name(kind), said.id, found, failed=False, **extra)

    def _run(self, name: str, id: str | None, text: str, **extra: Any) -> None:
        self.names.add(name)
        number, self.count = self.count, self.count + 1
        call = id or self._mint("run", number)
        key = (self._choice, name, number)
        if not self._ledger.has_call(call, self._choice):
            self._waiting[name].append(call)
        self._ledger.open_call(
            key, call, name, by="provider", choice=self._choice, extra=own(**extra, minted=not id)
        )  # fmt: skip
        self._ledger.end_call(key, text)

    def _result(self, name: str, id: str | None, text: str, failed: bool, **extra: Any) -> None:  # noqa: FBT001
        waiting = self._waiting[name]
        if id and id in waiting:
            waiting.remove(id)
        call = id or (waiting.popleft() if waiting else "")
        if not call:
            self._ledger.diagnostics.add("no-call", f"a result of {name!r} belongs to no call")
        extra = {**extra, "minted": not id, "choice": self._choice or None}
        self._ledger.add_whole_part(ev.Result, call, name, text, failed, False, own(**extra))  # noqa: FBT003

    def note(self, name: str, given: Any, found: Any, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """A tool that ran, told only by its traces; it is written back as those traces, not as a part."""
        if name not in self.names:
            self._run(name, None, as_json(given), part=TRACES)
            self._result(name, None, as_json(found), failed, part=TRACES)


def tool_name(kind: str) -> str:
    """Our name for one of Google's tool types."""
    return TOOLS.get(kind) or kind.lower() or "tool"


def _text(args: Any) -> str:
    """Arguments as compact JSON text; some proxies send that text itself."""
    return args if isinstance(args, str) else "{}" if args is None else as_json(args)


_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_DEEPEST = 64
_GAP = 64  # how far past its end a list may be written: what lies between would be invented


class Arguments:
    """The object so far. `broken` says that a value could not be placed: such a call must not be run."""

    def __init__(self, given: Any = None) -> None:
        self.root: dict[str, Any] = dict(given) if isinstance(given, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        self.broken = False
        self.unfinished = ""  # the path of a string whose next piece is to come

    def put(self, arg: wire.PartialArg) -> bool:
        """Place a value, or the next piece of one. False if there is no such place."""
        self.unfinished = (arg.json_path or "") if arg.will_continue else ""
        steps = _steps(arg.json_path or "")
        placed = bool(steps) and self._place(steps, arg)
        self.broken = self.broken or not placed
        return placed

    @property
    def whole(self) -> bool:
        """Nothing is known to be missing; only an end mark, or a normal finish, makes it certain."""
        return not self.broken and not self.unfinished

    def text(self) -> str:
        return as_json(self.root)

    def so_far(self) -> str:
        """The text of a call that was cut: without its last bracket, so that no reader takes it for whole."""
        return self.text()[:-1] if self.root else ""

    def _place(self, steps: list[str | int], arg: wire.PartialArg) -> bool:
        node: Any = self.root
        for step, following in pairwise(steps):
            node = _enter(node, step, [] if isinstance(following, int) else {})
            if node is None:
                return False
        before = _get(node, steps[-1])
        if arg.string_value is not None and isinstance(before, str):
            return _set(node, steps[-1], before + arg.string_value)
        return _set(node, steps[-1], _value(arg))


def _steps(path: str) -> list[str | int]:
    """`$.a[0]['b.c']` → `["a", 0, "b.c"]`; nothing at all for what is no path of an object."""
    steps: list[str | int] = []
    at = 1
    while path[:1] == "$" and at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(steps) >= _DEEPEST:
            return []
        name, number, quoted, double = match.groups()
        steps.append(int(number) if number else name or quoted or double or "")
        at = match.end()
    return steps if steps and isinstance(steps[0], str) else []


def _value(arg: wire.PartialArg) -> Any:
    said = (arg.string_value, arg.number_value, arg.bool_value)
    return next((value for value in said if value is not None), None)


def _get(node: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return node[step] if isinstance(node, list) and step < len(node) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return node.get(step) if isinstance(node, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _set(node: Any, step: str | int, value: Any) -> bool:
    if isinstance(step, str) and isinstance(node, dict):
        node[step] = value
        return True
    if isinstance(step, str) or not isinstance(node, list) or step > len(node) + _GAP:  # pyright: ignore[reportUnknownArgumentType]
        return False
    node.extend([None] * (step + 1 - len(node)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    node[step] = value
    return True


def _enter(node: Any, step: str | int, empty: Any) -> Any:
    """The container below a node, made if there is none yet; None where something else is in its place."""
    inner = _get(node, step)
    if inner is None:
        return empty if _set(node, step, empty) else None
    return inner if isinstance(inner, type(empty)) else None
