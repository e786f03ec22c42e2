"""Canonical requests → what `useChat` posts: UI messages.

An assistant's message, the results of its calls and the assistant's next message are the steps of one UI message,
unless a user's message comes between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import request as rq
from penstock._aisdk import OPAQUE_TYPE, SDK
from penstock._aisdk import request_parts as parts
from penstock._aisdk.request_settings import report_foreign_fields, write_extra_fields, write_request_fields
from penstock._diagnostics import read_losses
from penstock._protocols.uistream import request_read
from penstock._protocols.uistream.request_read import APPROVAL_STATES, NAME, ORPHAN, STEP
from penstock._request_writer import RequestDraft, drop_empty, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
_VERSION = 7  # lists of content are written as this version does


class Quirks(msgspec.Struct, frozen=True):
    """`id` is the prefix of the ids of messages that have none."""

    id: str = "msg-"


class UiRequestWriter(RequestDraft):
    """Writes one request. State: the messages so far, the parts of all calls."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._id = quirks.id
        self._custom: frozenset[str] = frozenset()
        self._messages: list[Object] = []
        self._calls: dict[str, Object] = {}
        self._hidden: list[Any] = []
        self._role = ""  # of the message before
        self._step: set[str] = set()  # the calls of the step that is under way
        self._done = False
        self._skip = 0

    def write(self, request: rq.Request) -> Object:
        own, marks = split_extra(request.extra, NAME)
        self._custom = frozenset(tool.name for tool in request.tools if tool.kind == "custom")
        messages = [row for message in request.messages for row in parts.split_sdk_runs(message)]
        body: Object = {**marks.get("chat", {}), **own.get("rest", {}), **drop_empty(model=request.model)}
        if marks.get("system") and messages and messages[0].role == "system":
            body["system"] = "".join(part.text for part in messages[0].parts if type(part) is rq.Text)
            messages = messages[1:]
        for message in messages:
            self._message(message)
        self._insert_hidden()
        for place, message in marks.get("aside", ()):
            self._messages.insert(place, message)
        body["messages"] = self._messages
        with_stream = bool(not request.stream or marks.get("streamed"))
        return {**body, **write_request_fields(request, self, marks, with_stream=with_stream)}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: rq.Message) -> None:
        own, marks = self.split_extra(message.extra)
        before, self._role = self._role, message.role
        if message.name:
            self.report_loss("name")
        if self._skip and marks.get("more"):
            self._skip -= 1
            self._role = ""  # nothing goes on after a message that is given back as it was
            return
        self._skip = 0
        if message.role == "tool":
            self._add_results(message)
        elif marks.get("more"):
            self._continue_message(message, marks)
        elif message.role == "assistant" and before == "tool" and not marks.get("count") and self._messages:
            self._messages[-1]["parts"].append(STEP)
            self._add_parts(message.parts)
        else:
            self._begin_message(message, own, marks)

    def _begin_message(self, message: rq.Message, own: Object, marks: Object) -> None:
        """Starts a UI message."""
        if "raw" in marks:
            self._insert_hidden()
            self._messages.append(marks["raw"])
            self._skip, self._role = marks["count"] - 1, ""
            return
        content = message.parts
        if message.role == "user" and not marks.get("count"):  # answers of another protocol's go to their calls
            for ask in (part for part in message.parts if type(part) is rq.Ask):
                self._ask(ask)
            content = [part for part in message.parts if type(part) is not rq.Ask]
            if message.parts and not content:
                return
        self._insert_hidden()
        self._hidden, self._done = marks.get("hidden", []), bool(marks.get("done"))
        head = marks.get("head") or ({} if marks.get("count") else {"id": f"{self._id}{len(self._messages) + 1}"})
        self._messages.append({**head, **own.get("rest", {}), "role": message.role, "parts": []})
        if message.role == "assistant" and not marks.get("count"):
            self._messages[-1]["parts"].append(STEP)
        self._add_parts(content)

    def _continue_message(self, message: rq.Message, marks: Object) -> None:
        """Continues the UI message before."""
        if "steering" not in marks:
            self._add_parts(message.parts)
            return
        inside = UiRequestWriter(Quirks(self._id))
        inside._messages.append({"parts": []})
        inside._add_parts(message.parts)
        steering = {**marks["steering"], **inside._messages[0], "type": request_read.STEERING}
        self._messages[-1]["parts"].append(steering)

    def _insert_hidden(self) -> None:
        """Inserts the parts that only the page needs at their positions."""
        for place, part in self._hidden:
            self._messages[-1]["parts"].insert(place, part)
        self._hidden = []

    def _add_results(self, message: rq.Message) -> None:
        orphans = [made for part in message.parts if type(part) is rq.Result for made in self._result(part)]
        if orphans:
            self._insert_hidden()
            self._messages.append({"id": f"{self._id}{len(self._messages) + 1}", "role": "assistant", "parts": orphans})

    def _add_parts(self, content: list[rq.AnyPart]) -> None:
        self._step = {part.id for part in content if type(part) is rq.Call} or self._step
        to = self._messages[-1]["parts"]
        for part in content:
            if not isinstance(part, rq.Opaque) and part.extra is not None:
                report_foreign_fields(self, part.extra)
            to += self.kinds[type(part)](self, part)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            self.report_loss("refusal")
        rest, _, marks = write_extra_fields(part, NAME, refusal=part.refusal)
        return [{**rest, "type": "text", "text": part.text, **self._state(marks)}]

    def _state(self, marks: Object) -> Object:
        return drop_empty(state="done" if self._done else marks.get("state"))

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        rest, _, marks = write_extra_fields(part, NAME, **parts.reasoning_fields(part))
        return [{**rest, "type": "reasoning", "text": part.text, **self._state(marks)}]

    def _call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        self._calls[call.id] = _write_call(call, free=call.form == "text" and call.name not in self._custom)
        return [self._calls[call.id]]

    def _result(self, result: rq.Result) -> list[Object]:
        if result.call not in self._calls:
            protocol, kind = ORPHAN
            return self._opaque(rq.Opaque(protocol, kind, msgspec.to_builtins(result)))
        part = self._calls[result.call]
        near = self._messages[-1]["parts"][-1:] == [part] if result.by == "provider" else result.call in self._step
        if not near:
            self.report_loss("moved")
        report_foreign_fields(self, result.extra)
        _write_result(result, part, self)
        return []

    def _ask(self, ask: rq.Ask) -> list[Object]:
        """Writes a request for approval, or its answer, into its call's part."""
        asked = (part for part in self._calls.values() if lenient.get_object(part, "approval").get("id") == ask.id)
        part = self._calls.get(ask.call) or next(asked, None)
        if part is None:
            self.report_loss("approval")
        else:
            _write_ask(ask, part)
        return []

    def _file(self, file: rq.File) -> list[Object]:
        return [parts.write_file(file, "url", NAME)]

    def _source(self, source: rq.Source) -> list[Object]:
        rest = write_extra_fields(source, NAME)[0]
        named = {"sourceId": source.id or source.url or source.title, **drop_empty(title=source.title)}
        if source.url:
            return [{**rest, "type": "source-url", **named, "url": source.url}]
        file = drop_empty(mediaType=source.media or "text/plain", filename=source.filename)
        return [{**rest, "type": "source-document", **named, "title": source.title, **file}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and (part.protocol, part.kind) != ORPHAN:
            return [part.data]
        if part.protocol == SDK and part.kind == "custom":
            return [parts.write_custom(part, NAME)]
        return [{"type": OPAQUE_TYPE, "data": {"protocol": part.protocol, "kind": part.kind, "data": part.data}}]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text,
        rq.Reasoning: _reasoning,
        rq.Call: _call,
        rq.Result: _result,
        rq.File: _file,
        rq.Ask: _ask,
        rq.Opaque: _opaque,
        rq.Source: _source,
    }


def _write_call(call: rq.Call, *, free: bool) -> Object:
    """Writes a call without a result."""
    rest, _, marks = write_extra_fields(call, NAME, request_read.CALL_METADATA, form="text" if free else "")
    part: Object = {"type": f"tool-{call.name}"}
    if marks.get("dynamic"):
        part = {"type": "dynamic-tool", "toolName": call.name}
    part |= {"toolCallId": call.id, "state": marks.get("state") or "input-available", **marks.get("page", {})}
    if call.json or not (marks.get("silent") or marks.get("raw")):
        part["rawInput" if marks.get("raw") else "input"] = parts.call_input_value(call, marks)
    if "also" in marks:
        part["rawInput"] = marks["also"]
    if call.by == "provider" or marks.get("unrun"):
        part["providerExecuted"] = call.by == "provider"
    return {**rest, **part}


def _write_ask(ask: rq.Ask, part: Object) -> None:
    """Writes a request for approval, or its answer, into its call's part."""
    given: Object = part.setdefault("approval", {"id": ask.id})
    rest: Object = split_extra(ask.extra, SDK)[0].get("rest", {})
    if ask.approved is None:
        given.update({"requestReason" if key == "reason" else key: value for key, value in rest.items()})
        before, after = {"input-available"}, "approval-requested"
    else:
        given.update({"approved": ask.approved, **({"reason": rest["reason"]} if "reason" in rest else {})})
        before, after = {"input-available", "approval-requested"}, "approval-responded"
    if part["state"] in before:
        part["state"] = after


def _write_result(result: rq.Result, part: Object, draft: RequestDraft) -> None:
    """Writes a result into its call's part."""
    if split_extra(result.extra, SDK)[0].get("denied") and part["state"] in APPROVAL_STATES:
        return  # the answer to the request says so
    only = parts.single_value(result)
    value: Any = only.text if type(only) is rq.Text else None
    if type(only) is rq.Json:
        value = parts.parse_json_or_text(only.json)
    failed = result.failed and not isinstance(value, str)
    if result.failed and not failed:
        part |= {"state": "output-error", "errorText": value}
    elif only is None:
        content = parts.write_content(result.content, draft, _VERSION)
        part |= {"state": "output-available", "output": {"type": "content", "value": content}}
    else:
        part |= {"state": "output-available", "output": value}
    if failed:
        draft.report_loss("failure")
    if result.partial or split_extra(result.extra, NAME)[1].get("flat"):
        part["preliminary"] = result.partial
    part.update(write_extra_fields(result, NAME, request_read.RESULT_METADATA, content=only is None, failed=failed)[0])


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body that a page posts."""
    writer = UiRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
