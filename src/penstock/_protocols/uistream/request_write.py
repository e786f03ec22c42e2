"""Canonical requests → what `useChat` posts: UI messages.

An assistant's message, the results of its calls and the assistant's next message are the steps of one UI message,
unless a user's message comes between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import request as rq
from penstock._aisdk import OPAQUE_TYPE, PENSTOCK, SDK, request_settings
from penstock._aisdk.request_parts import reasoning_fields, split_sdk_runs, write_custom, write_file
from penstock._aisdk.request_settings import METADATA, report_foreign_fields, write_extra_fields, write_options
from penstock._diagnostics import read_losses
from penstock._protocols.uistream.request_read import ORPHAN, STEERING, STEP
from penstock._protocols.uistream.request_tools import NAME, write_ask, write_call, write_result
from penstock._request_writer import RequestDraft, drop_empty, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")


class Quirks(msgspec.Struct, frozen=True):
    """`id` is the prefix of the ids of messages that have none."""

    id: str = "msg-"


class Writer(RequestDraft):
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
        messages = split_sdk_runs(request.messages)
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
        body.update(request_settings.write_tools(request, self, named=bool(marks.get("named"))))
        body.update(request_settings.write_choice(request.choice))
        if not request.stream or marks.get("streamed"):
            body["stream"] = request.stream
        asked, left = request_settings.write_settings(request.settings, marks)
        body.update(asked)
        report_foreign_fields(self, request.extra)
        ours = write_options(request.extra, {}, own=NAME, settings=left, usage=request.usage).get("providerOptions", {})
        found = {**request.options, **({PENSTOCK: ours[PENSTOCK]} if PENSTOCK in ours else {})}
        return {**body, **({marks.get("word") or "providerOptions": found} if found else {})}

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
        parts = message.parts
        if message.role == "user" and not marks.get("count"):  # answers of another protocol's go to their calls
            parts = [part for part in parts if type(part) is not rq.Ask or not self._ask(part)]
            if not parts and message.parts:
                return
        self._insert_hidden()
        self._hidden, self._done = marks.get("hidden", []), bool(marks.get("done"))
        head = marks.get("head") or ({} if marks.get("count") else {"id": f"{self._id}{len(self._messages) + 1}"})
        self._messages.append({**head, **own.get("rest", {}), "role": message.role, "parts": []})
        if message.role == "assistant" and not marks.get("count"):
            self._messages[-1]["parts"].append(STEP)
        self._add_parts(parts)

    def _continue_message(self, message: rq.Message, marks: Object) -> None:
        """Continues the UI message before."""
        if "steering" not in marks:
            self._add_parts(message.parts)
            return
        parts, inside = self._messages[-1]["parts"], Writer(Quirks(self._id))
        inside._messages.append({"parts": []})
        inside._add_parts(message.parts)
        parts.append({**marks["steering"], "parts": inside._messages[0]["parts"], "type": STEERING})

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

    def _add_parts(self, parts: list[rq.AnyPart]) -> None:
        self._step = {part.id for part in parts if type(part) is rq.Call} or self._step
        to = self._messages[-1]["parts"]
        for part in parts:
            if not isinstance(part, rq.Opaque) and part.extra is not None:
                report_foreign_fields(self, part.extra)
            to += self.kinds[type(part)](self, part)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            self.report_loss("refusal")
        rest, _, marks = write_extra_fields(part, word=METADATA, protocol=NAME, refusal=part.refusal)
        return [{**rest, "type": "text", "text": part.text, **self._state(marks)}]

    def _state(self, marks: Object) -> Object:
        return drop_empty(state="done" if self._done else marks.get("state"))

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        rest, _, marks = write_extra_fields(part, word=METADATA, protocol=NAME, **reasoning_fields(part))
        return [{**rest, "type": "reasoning", "text": part.text, **self._state(marks)}]

    def _call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        self._calls[call.id] = write_call(call, free=call.form == "text" and call.name not in self._custom)
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
        write_result(result, part, self)
        return []

    def _ask(self, ask: rq.Ask) -> bool:
        """Writes a request for approval, or its answer, into its call's part. Always True."""
        part = self._calls.get(ask.call) or next(
            (part for part in self._calls.values() if lenient.get_object(part, "approval").get("id") == ask.id), None
        )
        if part is None:
            self.report_loss("approval")
            return True
        write_ask(ask, part)
        return True

    def _write_ask(self, ask: rq.Ask) -> list[Object]:
        self._ask(ask)
        return []

    def _file(self, file: rq.File) -> list[Object]:
        return [write_file(file, "url", NAME)]

    def _source(self, source: rq.Source) -> list[Object]:
        rest = write_extra_fields(source, word=METADATA, protocol=NAME)[0]
        named = {"sourceId": source.id or source.url or source.title, **drop_empty(title=source.title)}
        if source.url:
            return [{**rest, "type": "source-url", **named, "url": source.url}]
        file = drop_empty(mediaType=source.media or "text/plain", filename=source.filename)
        return [{**rest, "type": "source-document", **named, "title": source.title, **file}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and (part.protocol, part.kind) != ORPHAN:
            return [part.data]
        if part.protocol == SDK and part.kind == "custom":
            return [write_custom(part, NAME)]
        return [{"type": OPAQUE_TYPE, "data": {"protocol": part.protocol, "kind": part.kind, "data": part.data}}]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text,
        rq.Reasoning: _reasoning,
        rq.Call: _call,
        rq.Result: _result,
        rq.File: _file,
        rq.Ask: _write_ask,
        rq.Opaque: _opaque,
        rq.Source: _source,
    }


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body that a page posts."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
