"""Decodes the calls of one candidate: functions for the client, with complete or partial arguments, and Google's tools.

Ids from the provider are kept. A missing id is built from the turn (its id, else the ledger's seed), the candidate and
a counter, never from the name. A result without an id answers the oldest open call of the same tool.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._lenient_json import as_json
from penstock._protocols.gemini.wire import ENUMS, build_gemini_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._ledger import Ledger
    from penstock._protocols.gemini import wire

CODE_EXECUTION = "code_execution"
METADATA_ONLY = "metadata"  # `part` of a tool run that the response shows only in its metadata
_MAX_DEPTH = 64
_MAX_GAP = 64  # how far past its end a list may be written; a larger gap would have to be invented
_PATH_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")


class CallDecoder:
    """State: the call whose arguments still arrive, and the provider's calls without a result."""

    def __init__(self, ledger: Ledger, choice: int, mint_id: Callable[[str, int], str]) -> None:
        self._ledger = ledger
        self._choice = choice
        self._mint_id = mint_id
        self._key = (choice, "partial call")  # at most one call is open
        self._arguments: PartialArguments | None = None  # of the open call
        self._id = ""
        self._delivered_calls: set[tuple[str, str, str]] = set()
        self._unanswered: defaultdict[str, deque[str]] = defaultdict(deque)
        self._count = 0
        self.delivered = 0
        self._provider_tools: set[str] = set()  # names of the provider's tools that ran

    # ── calls for the client ──────────────────────────────────────────────────────────────────────

    def add_call(self, call: wire.FunctionCall, signature: str | None) -> None:
        if self._arguments is not None and (not call.name or (call.id and call.id == self._id)):
            self._continue_call(call, self._arguments)
            return
        self._end_open_call(complete=False)
        if call.name or call.args or call.partial_args:  # otherwise the end mark of a call that has already ended
            self._start_call(call, signature)

    def _start_call(self, call: wire.FunctionCall, signature: str | None) -> None:
        partial = bool(call.partial_args) or bool(call.will_continue)
        name, text = call.name or "", "" if partial else _encode_arguments(call.args)
        self._id = self._make_unique_id(call.id or "", name, text)
        extra = build_gemini_extra(thoughtSignature=signature or None, minted=not call.id)
        self._ledger.open_call(self._key, self._id, name, choice=self._choice, extra=extra)
        if not partial and name:
            self._end_call(text, complete=True)
            return
        self._arguments = PartialArguments(call.args)
        self._arguments.broken = not name
        self._continue_call(call, self._arguments)

    def _continue_call(self, call: wire.FunctionCall, arguments: PartialArguments) -> None:
        for arg in call.partial_args or ():
            if not arguments.add_argument(arg):
                self._ledger.diagnostics.add("partial-args", f"call {self._id!r}: an argument cannot be placed")
        if not call.will_continue:
            self._end_open_call(complete=True)

    def _end_open_call(self, *, complete: bool) -> None:
        """Ends the open call. It is delivered if its end mark came and nothing is missing; otherwise it is cut."""
        arguments, self._arguments = self._arguments, None
        if arguments is not None:
            usable = complete and not arguments.broken and not arguments.unfinished
            self._end_call(as_json(arguments.root) if usable else arguments.encode_truncated(), complete=usable)

    def _end_call(self, text: str, *, complete: bool) -> None:
        self._ledger.end_call(self._key, text, whole=complete)
        self.delivered += bool(self._ledger.out) and type(self._ledger.out[-1]) is ev.CallEnd

    def finish_calls(self, *, stopped: bool) -> None:
        """Ends the candidate. A call without its end mark is complete only if the model stopped normally."""
        self._end_open_call(complete=stopped and self._arguments is not None and bool(self._arguments.root))

    def _make_unique_id(self, id: str, name: str, text: str) -> str:
        number, self._count = self._count, self._count + 1
        if not id:
            return self._mint_id("call", number)
        if self._ledger.has_call(id, self._choice) and (id, name, text) not in self._delivered_calls:
            self._ledger.diagnostics.add("id-twice", f"another call has the id {id!r}, too")
            return f"{id}-{number}"
        self._delivered_calls.add((id, name, text))
        return id

    # ── calls that the provider ran ───────────────────────────────────────────────────────────────

    def add_code(self, code: wire.ToolRun, signature: str | None) -> None:
        text = as_json({"language": code.language, "code": code.code or ""})
        self._add_run(CODE_EXECUTION, code.id, text, part="executableCode", thoughtSignature=signature)

    def add_code_result(self, result: wire.ToolRun, signature: str | None) -> None:
        text = as_json({"outcome": result.outcome, "output": result.output or ""})
        fields = {"part": "codeExecutionResult", "thoughtSignature": signature}
        self._add_result(CODE_EXECUTION, result.id, text, failed=result.outcome not in ("OUTCOME_OK", 1), **fields)

    def add_tool_call(self, call: wire.ToolRun, signature: str | None) -> None:
        kind, text = call.tool_type or "", _encode_arguments(call.args)
        self._add_run(get_tool_name(kind), call.id, text, part="toolCall", toolType=kind, thoughtSignature=signature)

    def add_tool_result(self, result: wire.ToolRun, signature: str | None) -> None:
        kind, text = result.tool_type or "", _encode_arguments(result.response)
        extra = {"part": "toolResponse", "toolType": kind, "thoughtSignature": signature}
        self._add_result(get_tool_name(kind), result.id, text, failed=False, **extra)

    def add_run_from_metadata(self, name: str, arguments: Any, result: Any, *, failed: bool = False) -> None:
        """Adds a tool run that only the metadata shows. It is written back as metadata, not as a part."""
        if name not in self._provider_tools:
            self._add_run(name, None, as_json(arguments), part=METADATA_ONLY)
            self._add_result(name, None, as_json(result), failed=failed, part=METADATA_ONLY)

    def _add_run(self, name: str, id: str | None, text: str, **fields: Any) -> None:
        self._provider_tools.add(name)
        number, self._count = self._count, self._count + 1
        call, key = id or self._mint_id("run", number), (self._choice, name, number)
        if not self._ledger.has_call(call, self._choice):
            self._unanswered[name].append(call)
        extra = build_gemini_extra(**fields, minted=not id)
        self._ledger.open_call(key, call, name, by="provider", choice=self._choice, extra=extra)
        self._ledger.end_call(key, text)

    def _add_result(self, name: str, id: str | None, text: str, *, failed: bool, **fields: Any) -> None:
        unanswered = self._unanswered[name]
        if id and id in unanswered:
            unanswered.remove(id)
        call = id or (unanswered.popleft() if unanswered else "")
        if not call:
            self._ledger.diagnostics.add("no-call", f"a result of {name!r} belongs to no call")
        extra = build_gemini_extra(**fields, minted=not id, choice=self._choice or None)
        self._ledger.add_whole_part(ev.Result, call, name, text, failed, False, extra)  # noqa: FBT003


def get_tool_name(kind: str) -> str:
    """Returns our name for one of Google's tool types."""
    return ENUMS["tools"].get(kind) or kind.lower() or "tool"


def _encode_arguments(args: Any) -> str:
    """Returns arguments as JSON text. Some proxies already send text."""
    return args if isinstance(args, str) else "{}" if args is None else as_json(args)


# ── partial arguments ─────────────────────────────────────────────────────────────────────────────


class PartialArguments:
    """Builds one object from values that arrive under JSON paths, such as `$.steps[1].text` and part of a string.

    The values are collected and not streamed, because a later path may lead back into an object that looked complete.
    `broken`: a value could not be placed, so the call must not run.
    """

    def __init__(self, args: Any = None) -> None:
        self.root: dict[str, Any] = dict(args) if isinstance(args, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        self.broken = False
        self.unfinished = ""  # the path of a string that continues

    def add_argument(self, arg: wire.PartialArg) -> bool:
        """Places a value, or the next fragment of a string. Returns False if the path does not fit."""
        self.unfinished = (arg.json_path or "") if arg.will_continue else ""
        path = _parse_path(arg.json_path or "")
        placed = bool(path) and self._set_value(path, arg)
        self.broken = self.broken or not placed
        return placed

    def encode_truncated(self) -> str:
        """Returns the text of a cut call without its last bracket, so that no reader takes it for complete."""
        return as_json(self.root)[:-1] if self.root else ""

    def _set_value(self, path: list[str | int], arg: wire.PartialArg) -> bool:
        node: Any = self.root
        for step, following in pairwise(path):
            if not _ensure_slot(node, step):
                return False
            container: Any = list if isinstance(following, int) else dict
            inner = node.get(step) if isinstance(step, str) else node[step]
            if inner is None:
                inner = node[step] = container()
            elif not isinstance(inner, container):
                return False
            node = inner
        step = path[-1]
        if not _ensure_slot(node, step):
            return False
        before = node.get(step) if isinstance(step, str) else node[step]
        values = (arg.string_value, arg.number_value, arg.bool_value)
        value = next((value for value in values if value is not None), None)
        node[step] = before + value if isinstance(before, str) and isinstance(value, str) else value
        return True


def _parse_path(path: str) -> list[str | int]:
    """`$.a[0]['b.c']` → `["a", 0, "b.c"]`; an empty list if it is not a path into an object."""
    steps: list[str | int] = []
    position = 1
    while path[:1] == "$" and position < len(path):
        match = _PATH_STEP.match(path, position)
        if match is None or len(steps) >= _MAX_DEPTH:
            return []
        name, number, single_quoted, double_quoted = match.groups()
        steps.append(int(number) if number else name or single_quoted or double_quoted or "")
        position = match.end()
    return steps if steps and isinstance(steps[0], str) else []


def _ensure_slot(node: Any, step: str | int) -> bool:
    """Extends a list up to the step. Returns False if the node cannot have the step."""
    if isinstance(step, str):
        return isinstance(node, dict)
    if not isinstance(node, list) or step > len(node) + _MAX_GAP:  # pyright: ignore[reportUnknownArgumentType]
        return False
    node.extend([None] * (step + 1 - len(node)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return True
