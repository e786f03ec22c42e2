"""What requests of Cohere Chat cannot say, and what its versions differ in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import as_json, is_object, plain_or_raw
from penstock.markers import EMPTY, Holds, input_of, stowed
from penstock.protocols.cohere.decode_v1 import NAME
from penstock.protocols.cohere.request_read import taken
from penstock.protocols.cohere.request_settings import write_settings
from penstock.protocols.cohere.request_v1 import write_request1
from penstock.request_writer import (
    RequestDraft,
    add_missing,
    describe_file,
    drop_empty,
    omit_with_loss,
    write_foreign_state,
    write_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.lenient_fields import Object
    from penstock.request_writer import Losses

LOSSES: Losses = {
    "allowed": "which tools may or must be called is left out, but not that one must",
    "approval": "an approval is left out",
    "auto": "that tools may be called is not said: it is the default",
    "cache": "a cache point is left out",
    "choice": "version 1 has no choice of tools: it is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "effort": "an effort is sent as a budget of reasoning tokens",
    "empty": "an empty text, and a message without content, is left out",
    "file": "a file of a kind or at a place that cannot be sent is told as a line of text: {}",
    "form": "that reasoning is a summary is not said",
    "format": "of an answer's schema only the schema is sent",
    "ids": "version 1 has no ids of calls: results answer them by name and order",
    "json-result": "a JSON value that is no object is sent as its text",
    "namespace": "which group a tool is of is left out",
    "name": "the name of who speaks is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "a text is told before the calls; version 1 joins texts",
    "reasoning": "version 1 has no place for reasoning: it is left out",
    "reasoning-state": "signed or encrypted reasoning of another protocol is sent as its words alone",
    "schema": "version 1 knows a parameter's type and description: the rest of its schema is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "strict": "that a single tool's input must follow its schema is not said",
    "tool": "a tool that another provider runs is left out: {}",
}
HOLDS = Holds(NAME, failed=False, refusals=False, result_files=False, assistant_files=False)


class Quirks(msgspec.Struct, frozen=True):
    """What APIs of this protocol differ in."""

    version: Literal[0, 1, 2] = 0  # which version to write; 0: the one that was read, and 2 for all others


__all__ = ["LOSSES", "Quirks", "Writer", "write_request"]
_CHOICES = {"required": "REQUIRED", "tool": "REQUIRED", "none": "NONE"}


class Writer(RequestDraft):
    """One request being written."""

    protocol = NAME
    losses = LOSSES

    def write(self, request: rq.Request, quirks: Quirks) -> Object:
        own, marks = self.split_extra(request.extra)
        talk, documents = taken(request.messages)
        messages = stowed([self._sendable(message) for message in talk], HOLDS, self.report_carried, self.report_loss)
        if (quirks.version or marks.get("version")) == 1:
            return {**write_request1(request, messages, self), **drop_empty(documents=documents)}
        body: Object = {"model": request.model} if request.model else {}
        body["messages"] = [made for message in messages for made in self._message(message)]
        if request.stream:
            body["stream"] = True
        tools = [made for tool in request.tools for made in self._tool(tool)]
        if tools:
            body["tools"] = tools
        if request.choice is not None:
            self._choice(request.choice, body)
        write_settings(request.settings, marks, self, body)
        body.update(drop_empty(documents=documents), **own)
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _sendable(self, message: rq.Message) -> rq.Message:
        """Files that have no place anywhere are told where they stand, before the others are moved."""
        if message.role == "tool":
            return replace(message, parts=[self._told(part) for part in message.parts])
        if message.role == "assistant" and any(type(part) is rq.File and not _is_image(part) for part in message.parts):
            parts = [self._line(part) if type(part) is rq.File else part for part in message.parts]
            return replace(message, parts=parts)
        return message

    def _told(self, part: rq.AnyPart) -> rq.AnyPart:
        if type(part) is not rq.Result or all(type(one) is not rq.File or _is_image(one) for one in part.content):
            return part
        return replace(part, content=[self._line(one) if type(one) is rq.File else one for one in part.content])

    def _line(self, file: rq.File) -> rq.File | rq.Text:
        if _is_image(file):
            return file
        self.report_loss("file", file.media)
        return rq.Text(describe_file(file))

    def _message(self, message: rq.Message) -> list[Object]:
        own, marks = self.split_extra(message.extra)
        if message.name:
            self.report_loss("name")
        if message.role == "tool":
            made = [{**self._result(part), **own} for part in message.parts if type(part) is rq.Result]
        elif message.role == "assistant":
            turn = {**self._turn(message.parts, marks), **own}
            made = [turn] if len(turn) > 1 or marks else []
            if not made:
                self.report_loss("empty")
        else:
            content = self._content(message.parts, listed=bool(marks.get("listed"))) or self._silence(message)
            made = [{"role": message.role, "content": content, **own}] if content else []
        for one in made:
            add_missing(one, marks.get("also"))
        return made

    def _silence(self, message: rq.Message) -> str:
        """A user's message keeps its place, because turns alternate around it."""
        if message.role == "user":
            self.report_carried("empty")
            return EMPTY
        self.report_loss("empty")
        return ""

    def _turn(self, parts: list[rq.AnyPart], marks: Object) -> Object:
        made: Object = {"role": "assistant"}
        said: list[rq.AnyPart] = []
        for part in parts:
            if type(part) is rq.Call:
                self._call(part, made)
            elif type(part) is rq.Reasoning and (part.extra or {}).get(NAME, {}).get("kind") == "tool_plan":
                made["tool_plan"] = made.get("tool_plan", "") + part.text
            else:
                if "tool_calls" in made:
                    self.report_loss("order")
                said.append(part)
        content = self._content(said, listed=bool(marks.get("listed")))
        if content:
            made["content"] = content
        return made

    def _content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool) -> str | list[Object]:
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not only.cache and (only.extra is None or self.is_foreign(only.extra)):
                return only.text
        made: list[Object] = []
        for part in parts:
            if part.cache:
                self.report_loss("cache")
            made += self.kinds[type(part)](self, part)
        return made

    def _call(self, call: rq.Call, made: Object) -> None:
        own, marks = self.split_extra(call.extra)
        if call.cut:
            self.report_loss("cut-call")
            return
        given, carried = input_of(call)
        if carried:
            self.report_carried(carried)
        json = as_json(given) if carried or not call.json else call.json
        function = {"name": call.name, "arguments": json, **own.get("function", {})}
        typed = {} if marks.get("untyped") else {"type": "function"}
        more = {key: value for key, value in own.items() if key != "function"}
        made.setdefault("tool_calls", []).append({"id": call.id, **typed, "function": function, **more})

    def _result(self, result: rq.Result) -> Object:
        _, marks = self.split_extra(result.extra)
        if result.cache:
            self.report_loss("cache")
        content = self._content(result.content, listed=bool(marks.get("listed")))
        return {"role": "tool", "tool_call_id": result.call, "content": content or ""}

    def _text(self, part: rq.Text) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if marks.get("is_document"):
            return [{"type": "document", "document": {**marks.get("document", {}), "data": part.text}}]
        if not part.text and not marks.get("empty"):
            self.report_loss("empty")
            return []
        return [{"type": "text", "text": part.text, **own}]

    def _json(self, part: rq.Json) -> list[Object]:
        """An object is a document, which the answer can cite."""
        own, marks = self.split_extra(part.extra)
        try:
            value = plain_or_raw(part.json)
        except (msgspec.DecodeError, UnicodeEncodeError):
            value = None
        if is_object(value) or marks.get("is_document"):
            return [{"type": "document", "document": {**marks.get("document", {}), "data": value}, **own}]
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, _ = self.split_extra(part.extra)
        if part.extra is not None and NAME not in part.extra:
            self.report_loss("reasoning-state")
        if part.form == "summary":
            self.report_loss("form")
        return [{"type": "thinking", "thinking": part.text, **own}] if part.text or own else []

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if not _is_image(part):
            self.report_loss("file", part.media)
            return [{"type": "text", "text": describe_file(part)}]
        url = part.url or f"data:{part.media};base64,{part.data}"
        bare = marks.get("bare") and not part.detail
        return [
            {"type": "image_url", "image_url": url if bare else {"url": url, **drop_empty(detail=part.detail), **own}}
        ]

    def _stray(self, _: rq.Call | rq.Result) -> list[Object]:
        """Where nobody calls and nothing is answered."""
        self.report_loss("opaque")
        return []

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, marks = self.split_extra(tool.extra)
        if tool.cache:
            self.report_loss("cache")
        if "tool" in own:
            return [own["tool"]]
        function = write_function(self, tool, own, marks)
        if function is None:
            return []
        return [{"type": "function", "function": function, **own.get("beside", {})}]

    def _choice(self, choice: rq.ToolChoice, body: Object) -> None:
        self.split_extra(choice.extra)
        if choice.names:
            self.report_loss("allowed")
        if choice.mode == "auto":
            self.report_loss("auto")
        else:
            body["tool_choice"] = _CHOICES[choice.mode]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text,
        rq.Json: _json,
        rq.Reasoning: _reasoning,
        rq.File: _file,
        rq.Opaque: write_foreign_state(type="text"),
        rq.Source: omit_with_loss("source"),
        rq.Ask: omit_with_loss("approval"),
        rq.Call: _stray,
        rq.Result: _stray,
    }


def _is_image(file: rq.File) -> bool:
    return file.media.startswith("image/") and bool(file.url or file.data)


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a Chat call."""
    writer = Writer()
    writer.body = writer.write(request, quirks or Quirks())
    return writer
