"""Canonical messages → Responses input items: who speaks, calls and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import request as rq
from penstock.protocols.responses.request_content import CONTENT
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.write_builtin import call_item, output_item
from penstock.protocols.responses.write_said import Said
from penstock.writing import add

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.pick import Object
    from penstock.protocols.responses.write_content import Quirks


class Items(Said):
    """Input being written. State, beside that of what is said: which calls have free text as their input."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._free: set[str] = set()

    def input(self, messages: Iterable[rq.Message]) -> list[Object]:
        """All messages as items."""
        before = ""
        for message in messages:
            if message.name:
                self.lose("name")
            if message.role == "assistant":
                self.turn(apart=before == "assistant" and not self.native)
            self.roles[message.role](self, message)
            before = message.role
        return self.items

    # ── who speaks ────────────────────────────────────────────────────────────────────────────────

    def _plain(self, message: rq.Message) -> None:
        """The system or the user; approvals, and what only this protocol understands, are items beside."""
        own, marks = self.own(message.extra)
        inside: list[rq.AnyPart] = []
        for part in message.parts:
            if type(part) is rq.Ask:
                self._ask(part, 0)
            elif type(part) is rq.Opaque and part.protocol == NAME and not part.kind.startswith(CONTENT):
                self.put(part.data)
            else:
                inside.append(part)
        if not inside and message.parts:
            return
        item: Object = {} if "bare" in marks else {"type": "message"}
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        item["role"] = self._role(message, marks)
        item["content"] = self.content(inside, listed="listed" in marks)
        item.update(own)
        add(item, marks.get("also"))
        self.put(item)

    def _role(self, message: rq.Message, marks: Object) -> str:
        if message.role == "user":
            return "user"
        return marks.get("role") or ("system" if self.native else self.quirks.system)

    def _assistant(self, message: rq.Message) -> None:
        if not message.parts:
            self.nothing(message)
            return
        for place, part in enumerate(message.parts):
            self.spoken[type(part)](self, part, place)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call, _: int) -> None:
        own, marks = self.own(call.extra)
        if "item" in own:
            self.put(own["item"] if call.by == "provider" else call_item(call, own["item"]))
        elif call.cut and "status" not in marks:
            self.lose("cut-call")
        elif call.by == "client":  # what a provider ran is in the item of its result
            self.put(self._called(call, own, marks))

    def _called(self, call: rq.Call, own: Object, marks: Object) -> Object:
        text = call.form == "text"
        if text:
            self._free.add(call.id)
        item: Object = {"type": "custom_tool_call" if text else "function_call"}
        if call.item and (self.native or NAME in (call.extra or ())):
            item["id"] = call.item
        elif self.apart:
            item["id"] = self.mint("ctc" if text else "fc")
        if "loose" not in marks or call.id != call.item:
            item["call_id"] = call.id
        item["name"] = call.name
        item["input" if text else "arguments"] = call.json or ("" if text or marks else "{}")
        if "status" in marks:
            item["status"] = marks["status"]
        item.update({key: value for key, value in own.items() if key != "id"})
        add(item, marks.get("also"))
        self.hint(call, item, fits=False)
        return item

    def _ask(self, ask: rq.Ask, _: int) -> None:
        own = self.own(ask.extra)[0]
        if "item" in own:
            self.put(own["item"])
        else:
            self.lose("approval")

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def _ran(self, result: rq.Result, _: int) -> None:
        """A provider's result: the item of its call, which holds it. What a later one replaced is not told."""
        own = self.own(result.extra)[0]
        if "item" not in own:
            self.lose("provider-call")
        elif not result.partial:
            self.put(own["item"])

    def _results(self, message: rq.Message) -> None:
        self.own(message.extra)
        for part in message.parts:
            if type(part) is rq.Result:
                self.put(self._answered(part))
            elif made := self.part(part):
                self.put({"type": "message", "role": "user", "content": made})

    def _answered(self, result: rq.Result) -> Object:
        own, marks = self.own(result.extra)
        if "item" in own:
            return output_item(result, own["item"])
        text = result.form == "text" or result.call in self._free or "kind" in marks
        item: Object = {"type": "custom_tool_call_output" if text else "function_call_output"}
        if result.call or "loose" not in marks:
            item["call_id"] = result.call
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        if "named" in marks:
            item["name"] = result.name
        item["output"] = self.content(result.content, listed="listed" in marks)
        item.update(own)
        add(item, marks.get("also"))
        self.hint(result, item, fits=False)
        return item

    roles: ClassVar[Mapping[str, Callable[[Any, rq.Message], None]]] = {
        "system": _plain, "user": _plain, "assistant": _assistant, "tool": _results,
    }  # fmt: skip
    spoken: ClassVar[Mapping[type, Callable[[Any, Any, int], None]]] = {
        rq.Text: Said.say, rq.File: Said.picture, rq.Source: Said.cite, rq.Opaque: Said.state,
        rq.Reasoning: Said.think, rq.Call: _call, rq.Result: _ran, rq.Ask: _ask,
    }  # fmt: skip
