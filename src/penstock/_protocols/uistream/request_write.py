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
from penstock._aisdk.provider_options import report_foreign_fields, write_extra_fields
from penstock._aisdk.request_settings import write_request_fields
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
            self._write_message(message)
        self._insert_hidden()
        for position, message in marks.get("aside", ()):
            self._messages.insert(position, message)
        body["messages"] = self._messages
        with_stream = bool(not request.stream or marks.get("streamed"))
        return {**body, **write_request_fields(request, self, marks, with_stream=with_stream)}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_message(self, message: rq.Message) -> None:
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

    def _begin_message(self, message: rq.Message, own_fields: Object, marks: Object) -> None:
        """Starts a UI message."""
        if "raw" in marks:
            self._insert_hidden()
            self._messages.append(marks["raw"])
            self._skip, self._role = marks["count"] - 1, ""
            return
        content = message.parts
        if message.role == "user" and not marks.get("count"):  # answers of another protocol's go to their calls
            for ask in (part for part in message.parts if type(part) is rq.Ask):
                self._write_ask(ask)
            content = [part for part in message.parts if type(part) is not rq.Ask]
            if message.parts and not content:
                return
        self._insert_hidden()
        self._hidden, self._done = marks.get("hidden", []), bool(marks.get("done"))
        head = marks.get("head") or ({} if marks.get("count") else {"id": f"{self._id}{len(self._messages) + 1}"})
        self._messages.append({**head, **own_fields.get("rest", {}), "role": message.role, "parts": []})
        if message.role == "assistant" and not marks.get("count"):
            self._messages[-1]["parts"].append(STEP)
        self._add_parts(content)

    def _continue_message(self, message: rq.Message, marks: Object) -> None:
        """Continues the UI message before."""
        if "steering" not in marks:
            self._add_parts(message.parts)
            return
        writer = UiRequestWriter(Quirks(self._id))
        writer._messages.append({"parts": []})
        writer._add_parts(message.parts)
        steering = {**marks["steering"], **writer._messages[0], "type": request_read.STEERING}
        self._messages[-1]["parts"].append(steering)

    def _insert_hidden(self) -> None:
        """Inserts the parts that only the page needs at their positions."""
        for position, part in self._hidden:
            self._messages[-1]["parts"].insert(position, part)
        self._hidden = []

    def _add_results(self, message: rq.Message) -> None:
        results = [part for part in message.parts if type(part) is rq.Result]
        orphans = [orphan for result in results for orphan in self._write_result(result)]
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

    def _write_text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            self.report_loss("refusal")
        rest, _, marks = write_extra_fields(part, NAME, refusal=part.refusal)
        return [{**rest, "type": "text", "text": part.text, **self._state_field(marks)}]

    def _state_field(self, marks: Object) -> Object:
        return drop_empty(state="done" if self._done else marks.get("state"))

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
        rest, _, marks = write_extra_fields(part, NAME, **parts.reasoning_fields(part))
        return [{**rest, "type": "reasoning", "text": part.text, **self._state_field(marks)}]

    def _write_call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        is_free_text = call.form == "text" and call.name not in self._custom
        self._calls[call.id] = _write_call_part(call, is_free_text=is_free_text)
        return [self._calls[call.id]]

    def _write_result(self, result: rq.Result) -> list[Object]:
        if result.call not in self._calls:
            protocol, kind = ORPHAN
            return self._write_opaque(rq.Opaque(protocol, kind, msgspec.to_builtins(result)))
        part = self._calls[result.call]
        is_last = self._messages[-1]["parts"][-1:] == [part]
        if not (is_last if result.by == "provider" else result.call in self._step):
            self.report_loss("moved")
        report_foreign_fields(self, result.extra)
        _write_output(result, part, self)
        return []

    def _write_ask(self, ask: rq.Ask) -> list[Object]:
        """Writes a request for approval, or its answer, into its call's part."""
        candidates = (part for part in self._calls.values() if lenient.get_object(part, "approval").get("id") == ask.id)
        part = self._calls.get(ask.call) or next(candidates, None)
        if part is None:
            self.report_loss("approval")
        else:
            _write_approval(ask, part)
        return []

    def _write_file(self, file: rq.File) -> list[Object]:
        return [parts.write_file(file, "url", NAME)]

    def _write_source(self, source: rq.Source) -> list[Object]:
        rest = write_extra_fields(source, NAME)[0]
        id_fields = {"sourceId": source.id or source.url or source.title, **drop_empty(title=source.title)}
        if source.url:
            return [{**rest, "type": "source-url", **id_fields, "url": source.url}]
        file_fields = drop_empty(mediaType=source.media or "text/plain", filename=source.filename)
        return [{**rest, "type": "source-document", **id_fields, "title": source.title, **file_fields}]

    def _write_opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and (part.protocol, part.kind) != ORPHAN:
            return [part.data]
        if part.protocol == SDK and part.kind == "custom":
            return [parts.write_custom(part, NAME)]
        return [{"type": OPAQUE_TYPE, "data": {"protocol": part.protocol, "kind": part.kind, "data": part.data}}]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Ask: _write_ask,
        rq.Opaque: _write_opaque,
        rq.Source: _write_source,
    }


def _write_call_part(call: rq.Call, *, is_free_text: bool) -> Object:
    """Writes a call without a result."""
    rest, _, marks = write_extra_fields(call, NAME, request_read.CALL_METADATA, form="text" if is_free_text else "")
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


def _write_approval(ask: rq.Ask, part: Object) -> None:
    """Writes a request for approval, or its answer, into its call's part."""
    approval: Object = part.setdefault("approval", {"id": ask.id})
    rest: Object = split_extra(ask.extra, SDK)[0].get("rest", {})
    if ask.approved is None:
        approval.update({"requestReason" if key == "reason" else key: value for key, value in rest.items()})
        states_before, state_after = {"input-available"}, "approval-requested"
    else:
        approval.update({"approved": ask.approved, **({"reason": rest["reason"]} if "reason" in rest else {})})
        states_before, state_after = {"input-available", "approval-requested"}, "approval-responded"
    if part["state"] in states_before:
        part["state"] = state_after


def _write_output(result: rq.Result, part: Object, draft: RequestDraft) -> None:
    """Writes a result into its call's part."""
    if split_extra(result.extra, SDK)[0].get("denied") and part["state"] in APPROVAL_STATES:
        return  # the answer to the request says so
    single = parts.single_value(result)
    value: Any = single.text if type(single) is rq.Text else None
    if type(single) is rq.Json:
        value = parts.parse_json_or_text(single.json)
    failed = result.failed and not isinstance(value, str)
    if result.failed and not failed:
        part |= {"state": "output-error", "errorText": value}
    elif single is None:
        content = parts.write_content(result.content, draft, _VERSION)
        part |= {"state": "output-available", "output": {"type": "content", "value": content}}
    else:
        part |= {"state": "output-available", "output": value}
    if failed:
        draft.report_loss("failure")
    if result.partial or split_extra(result.extra, NAME)[1].get("flat"):
        part["preliminary"] = result.partial
    ours = {"content": single is None, "failed": failed}
    part.update(write_extra_fields(result, NAME, request_read.RESULT_METADATA, **ours)[0])


def write_content_output(result: rq.Result) -> str:
    """Returns a result of several parts as the JSON of an output. `content` among our metadata says that it is one."""
    content = parts.write_content(result.content, UiRequestWriter(Quirks()), _VERSION)
    return msgspec.json.encode({"type": "content", "value": content}).decode()


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body that a page posts."""
    writer = UiRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
