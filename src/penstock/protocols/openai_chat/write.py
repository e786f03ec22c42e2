"""Canonical requests → Chat Completions: the messages. What the dialects differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.carrying import stowed
from penstock.jsontext import as_json
from penstock.protocols.openai_chat.google_state import merged_content, without_state, write_state
from penstock.protocols.openai_chat.request_parts import cached
from penstock.protocols.openai_chat.request_settings import MARKED
from penstock.protocols.openai_chat.request_thoughts import NAME
from penstock.protocols.openai_chat.write_parts import LACKS, LOSSES, Parts, Quirks
from penstock.protocols.openai_chat.write_settings import write_settings
from penstock.protocols.openai_chat.write_tools import write_choice, write_tools
from penstock.writing import Draft, add, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.pick import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
_SILENT = frozenset({"role", "content", "name"})
_RANKS: dict[type, int] = {rq.Reasoning: 0, rq.Call: 2}  # text and all else stand between them


class Writer(Parts):
    """One request being written."""

    def write(self, request: rq.Request) -> Object:
        own, marks = self.own(request.extra)
        made: list[Object] = []
        for message in stowed(request.messages, self.holds, self.carry, self.lose):
            self.roles[message.role](self, message, made)
        body: Object = {"model": request.model} if request.model else {}
        body["messages"] = made
        if request.stream:
            body["stream"] = True
        write_tools(self, request.tools, body)
        write_choice(self, request.choice, body)
        write_settings(self, request.settings, own, marks, body)
        body.update({key: value for key, value in own.items() if key not in MARKED})
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **own.get("stream_options", {})}
        add(body, marks.get("also"))
        return body

    def _plain(self, message: rq.Message, made: list[Object]) -> None:
        """A system or user message."""
        role: str = message.role
        if role == "system" and self.quirks.system:
            role = self.quirks.system
        if message.extra is None:
            body: Object = {"role": role, "content": self.content(message.parts) or ""}
        else:
            own, marks = self.own(message.extra)
            body = {"role": self.quirks.system or marks.get("role", role) if role == "system" else role}
            self._content(message.parts, marks, "", body)
            body.update(own)
            self._about(body, marks, message.parts)
        if message.name:
            body["name"] = message.name
        made.append(body)

    def _content(self, parts: list[rq.AnyPart], marks: Object, default: Any, body: Object) -> None:
        content = self.content(parts, listed="listed" in marks, hinted=_hinted(parts, marks)) if parts else ""
        if content:
            body["content"] = content
        elif "bare" not in marks and "content" not in (marks.get("also") or ()):
            body["content"] = default

    def _about(self, body: Object, marks: Object, parts: list[rq.AnyPart]) -> None:
        if _hinted(parts, marks):
            body.update(marks["hint"])
        add(body, marks.get("also"))

    # ── the model ─────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, message: rq.Message, made: list[Object]) -> None:
        body: Object = {"role": "assistant"}
        said: list[rq.AnyPart] = []
        rank = 0
        state, parts = self._state(message)
        for part in parts:
            kind = type(part)
            if kind is rq.Call:
                self._call(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            elif kind is rq.Reasoning and not self.spoken(part):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                self.thought(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            else:
                said.append(part)
            now = _RANKS.get(kind, 1)
            if now < rank and kind is not rq.Source:
                self.lose("order")
            rank = now
        own, marks = self.own(message.extra)
        self._declined(said, body)
        self._content(said, marks, None, body)
        body.update(merged_content(own, state))
        if message.name:
            body["name"] = message.name
        self._about(body, marks, message.parts)
        if not body.get("content") and body.keys() <= _SILENT and NAME not in (message.extra or ()):
            self.lose("empty")  # what it said has no place here, and a message without content is refused
            return
        made.append(body)

    def _state(self, message: rq.Message) -> tuple[Object, list[rq.AnyPart]]:
        """The field for a text's thought signature, where it may be sent, and the parts without it."""
        if "signed" not in split(message.extra, NAME)[1] and not self.quirks.signatures:
            return {}, message.parts
        found: Object = {}
        for part in message.parts:
            found = (write_state(part.extra) if type(part) is rq.Text else None) or found
        return found, [_unsigned(part) if type(part) is rq.Text else part for part in message.parts]

    def _declined(self, said: list[rq.AnyPart], body: Object) -> None:
        """A refusal is a field where there is nothing else, or where it was one; else a part like the others."""
        for place in range(len(said) - 1, -1, -1):
            part = said[place]
            if type(part) is not rq.Text or not part.refusal:
                continue
            marks = self.own(part.extra)[1]
            if "field" in marks or (len(said) == 1 and NAME not in (part.extra or ())):
                body["refusal"] = part.text
                del said[place]
                return

    def _call(self, call: rq.Call, body: Object) -> None:
        if call.cut:
            self.lose("cut-call")
            return
        text = call.form == "text"
        kind = "custom" if text else "function"
        said: Object = {"name": call.name, "input" if text else "arguments": call.json}
        made: Object = {"id": call.id, "type": kind, kind: said}
        if call.extra is not None:
            signed = "signed" in split(call.extra, NAME)[1] or self.quirks.signatures
            state = write_state(call.extra) if signed else {}
            own, marks = self.own((_unsigned(call) if state else call).extra)
            own = merged_content(own, state)
            if "legacy" in marks:
                body["function_call"] = said
                return
            self._odd_call(made, said, own, marks)
        if not call.json and not text and call.extra is None:
            said["arguments"] = "{}"
        if call.cache:
            self.hint(call, made, self.own(call.extra)[1])
        body.setdefault("tool_calls", []).append(made)

    def _odd_call(self, made: Object, said: Object, own: Object, marks: Object) -> None:
        if "untyped" in marks:
            del made["type"]
        if "unnamed" in marks and not made["id"]:
            del made["id"]
        given = marks.get("given", {}).get("as")
        if "given" in marks and said["arguments"] == ("" if given is None else as_json(given)):
            said["arguments"] = given
        made.update({key: value for key, value in own.items() if key != "function"})
        said.update(own.get("function", {}))

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tool(self, message: rq.Message, made: list[Object]) -> None:
        for part in message.parts:
            if type(part) is rq.Result:
                made.append(self._result(part))
            elif blocks := self.part(part):
                made.append({"role": "user", "content": blocks})

    def _result(self, result: rq.Result) -> Object:
        if result.extra is None and not result.cache:
            return {"role": "tool", "tool_call_id": result.call, "content": self.answer(result.content, listed=False)}
        own, marks = self.own(result.extra)
        body: Object = {"role": marks.get("role", "tool")}
        if body["role"] == "tool" and "unnamed" not in marks:
            body["tool_call_id"] = result.call
        if "named" in marks:
            body["name"] = result.name
        if result.content or not ("content" in marks.get("also", ()) or "bare" in marks):
            body["content"] = self.answer(result.content, listed="listed" in marks)
        body.update(own)
        self._about(body, marks, [result])
        if result.cache and not _hinted([result], marks):
            self.hint(result, body, own)
        return body

    roles: dict[str, Callable[[Any, rq.Message, list[Object]], None]] = {  # noqa: RUF012 — a table
        "system": _plain, "user": _plain, "assistant": _assistant, "tool": _tool,
    }  # fmt: skip


def _unsigned(part: Any) -> Any:
    """A part without its thought signature."""
    return replace(part, extra=without_state(part.extra)) if write_state(part.extra) else part


def _hinted(parts: Sequence[rq.Part], marks: Object) -> bool:
    """Whether the cache point behind the last part is the message's own."""
    return "hint" in marks and bool(parts) and cached(marks["hint"]) == parts[-1].cache


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Chat Completions call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
