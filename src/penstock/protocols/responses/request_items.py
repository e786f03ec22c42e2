"""Responses input items → canonical messages.

Items of the assistant that follow each other (reasoning, messages, calls …) are one message, until somebody else
speaks. A part knows the item it came from: by `item`, which is its id, and by the marks `head` (the first part of an
item) and `more` (a further one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.jsontext import is_json
from penstock.protocols.responses import request_builtin as built
from penstock.protocols.responses.request_content import read_content
from penstock.protocols.responses.request_said import MESSAGE, NEXT, read_said, read_thoughts
from penstock.protocols.responses.request_tools import read_tools
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.tools import ANSWERS, EARLY, LATE
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import By, CallForm, Extra
    from penstock.pick import Object

ROLES: dict[str, rq.Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_SAID = MESSAGE - {"content"}
_PLAIN = frozenset({"type", "role", "content"})
_SPELLED: dict[tuple[bool, bool], Extra | None] = {  # by: the content is a list, the type is said
    (listed, typed): keep(NAME, {}, listed=listed, bare=not typed)
    for listed in (True, False)
    for typed in (True, False)
}
_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status"})
_OUTPUT = frozenset({"type", "id", "call_id", "name", "output", "status"})
_ANSWERED = _OUTPUT - {"output"}


class Items:
    """Input being read. State: the messages so far, tools that came as input, and who runs the calls of built-ins."""

    def __init__(self) -> None:
        self.messages: list[rq.Message] = []
        self.tools: list[rq.Tool] = []
        self._runs: dict[str, By] = {}

    def read(self, item: Object) -> None:
        """One item of any type."""
        kind = item.get("type")
        if kind is None:
            kind = "message" if "role" in item else "item_reference"
        read = self.kinds.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, item)
        else:
            self._strange(item, str(kind))

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────

    def _speak(self, parts: list[rq.AnyPart], id: str = "") -> None:
        """The assistant says more, in the same message unless the item's id says otherwise."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or id.partition("_")[2].startswith(NEXT[1:]):
            self.messages.append(rq.Message("assistant", parts))
            return
        for part in parts:
            if type(part) is rq.Source and part.of is not None:
                part.of += len(last.parts)
        last.parts += parts

    def _answer(self, result: rq.Result) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "tool":
            last.parts.append(result)
        else:
            self.messages.append(rq.Message("tool", [result]))

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, item: Object) -> None:
        role, content = reading.word(item, "role", ROLES), item.get("content")
        if role == "assistant":
            self._speak(read_said(item), reading.text(item, "id"))
            return
        made = rq.Message(role, read_content(content, "content"))
        if item.keys() <= _PLAIN and item["role"] != "developer":  # nothing but who speaks and what
            made.extra = _SPELLED[type(content) is list, "type" in item]
        else:
            made.extra = keep(
                NAME, rest(item, MESSAGE), role=item["role"] if item["role"] == "developer" else "",
                bare="type" not in item, listed=isinstance(content, list), id=item.get("id"), status=item.get("status"),
                also=unsaid(item, _SAID),
            )  # fmt: skip
        self.messages.append(made)

    def _reasoning(self, item: Object) -> None:
        self._speak(read_thoughts(item))

    def done(self) -> list[rq.Message]:
        """All messages. One in which the assistant says nothing at all has no parts."""
        for message in self.messages:
            only = message.parts[0] if len(message.parts) == 1 else None
            if type(only) is rq.Text and not only.text and message.role == "assistant" and only.extra:
                marks = only.extra.get(NAME, {}).get("_", {})
                if "blank" in marks:
                    message.parts, message.extra = [], keep(NAME, {}, **marks, id=only.item)
        return self.messages

    # ── calls and answers ─────────────────────────────────────────────────────────────────────────

    def _call(self, item: Object) -> None:
        custom = item["type"] == "custom_tool_call"
        given = item.get("input" if custom else "arguments")
        if not isinstance(given, str | None):
            raise BadRequest("a string" if custom else "a string of JSON", given, "input" if custom else "arguments")
        call = reading.text(item, "call_id") or reading.text(item, "id")
        if custom and call.startswith("xs_"):  # a step of xAI's own search
            self._speak(
                [rq.Call(call, reading.text(item, "name"), given or "", "provider", extra={NAME: {"item": item}})]
            )
            return
        form: CallForm = "text" if custom else "json"
        status = item.get("status")
        cut = status == "incomplete" and (custom or not is_json(given or ""))
        name, id = reading.needed(item, "name"), reading.text(item, "id")  # noqa: A001 — as the part calls it
        made = rq.Call(call, name, given or "", "client", form, cut, item=id)
        if item.keys() <= _CALL and all(item.values()):
            made.extra = {NAME: {"_": {"status": status}}} if status else None
        else:
            about = {"status": status, "also": unsaid(item, _CALL), "loose": not item.get("call_id")}
            made.extra = keep(NAME, rest(item, _CALL), **about)
        self._speak([made], id)

    def _output(self, item: Object) -> None:
        output = item.get("output")
        custom = item["type"] == "custom_tool_call_output"
        call, name = reading.text(item, "call_id"), reading.text(item, "name")
        if type(output) is str and output and call and len(item) == 3 and not custom:  # noqa: PLR2004 — type, call and words
            self._answer(rq.Result(call, "", [rq.Text(output)]))
            return
        inside: list[rq.ResultPart] = [
            part for part in read_content(output, "output") if isinstance(part, rq.ResultPart)
        ]
        extra = keep(
            NAME, rest(item, _OUTPUT), id=item.get("id"), status=item.get("status"), listed=isinstance(output, list),
            named=bool(name), loose=not call, also=unsaid(item, _ANSWERED), kind=item["type"] if custom else "",
        )  # fmt: skip
        form: CallForm = "text" if custom else "json"
        self._answer(rq.Result(call, name, inside, form=form, extra=extra))

    def _built_call(self, item: Object) -> None:
        call = built.read_call(item)
        self._runs[call.id] = call.by
        self._speak([call])

    def _built_answer(self, item: Object) -> None:
        call = reading.text(item, "call_id") or reading.text(item, "id")
        by = self._runs.get(call, "client")
        if item.get("execution") == "server" or item["type"] == "program_output":
            by = "provider"
        result = built.read_answer(item, by)
        if item["type"] == "tool_search_output":
            self._learn(item)
        if by == "provider":
            self._speak([result])
        else:
            self._answer(result)

    def _run(self, item: Object) -> None:
        self._speak(built.read_run(item))

    def _question(self, item: Object) -> None:
        self._speak(built.read_question(item))

    def _permission(self, item: Object) -> None:
        self.messages.append(rq.Message("user", [built.read_permission(item)]))

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def _learn(self, item: Object) -> None:
        """Tools that came as input: other protocols must offer them like any other."""
        for tool in read_tools(item):
            own = (tool.extra or {}).get(NAME, {})
            tool.extra = {NAME: {**own, "_": {**own.get("_", {}), "elsewhere": True}}}
            self.tools.append(tool)

    def _more_tools(self, item: Object) -> None:
        self._learn(item)
        self._rule(item)

    def _rule(self, item: Object) -> None:
        """What a developer says to the API rather than to the model."""
        self.messages.append(rq.Message("system", [rq.Opaque(NAME, item["type"], item)]))

    def _strange(self, item: Object, kind: str) -> None:
        """An item without a word: of the model, unless its name says that it answers something."""
        part = rq.Opaque(NAME, kind, item)
        if kind.endswith(("_output", "_response")):
            self.messages.append(rq.Message("user", [part]))
        else:
            self._speak([part])

    kinds: ClassVar[Mapping[str, Callable[[Any, Object], None]]] = {
        **dict.fromkeys(EARLY, _run), **dict.fromkeys(LATE, _built_call),
        **dict.fromkeys(ANSWERS, _built_answer),
        "message": _message, "reasoning": _reasoning, "function_call": _call,
        "custom_tool_call": _call, "function_call_output": _output, "custom_tool_call_output": _output,
        "mcp_call": _run, "mcp_approval_request": _question, "mcp_approval_response": _permission,
        "additional_tools": _more_tools, "configuration_update": _rule,
    }  # fmt: skip
