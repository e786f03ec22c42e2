"""What `useChat` posts: UI messages → canonical. `request_write.py` is the inverse.

An assistant's UI message holds all steps of its turn, with calls and results. Here every step is an assistant's
message, followed by its results and the user's answers to requests for approval. Parts that only the page needs (steps,
data, calls still streaming) are not content; they are kept with their positions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import OPAQUE_TYPE, SDK
from penstock._aisdk import request_parts as parts
from penstock._aisdk import request_settings as settings
from penstock._aisdk.request_settings import add_extra, read_extra_fields
from penstock._request_writer import split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._lenient_fields import Object

NAME = "uistream"
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant"}
ASIDE = "data"  # version 4's role for messages that no model gets
STEERING = "steering-message"
ORPHAN = (NAME, "result")  # opaque state that is a result without its call
HEAD = ("id", "metadata")  # of a message: what only pages care for
CHAT = ("id", "trigger", "messageId")  # and of a request
_TEXT = frozenset({"type", "text", "state"})
_SOURCE = frozenset({"type", "url", "title", "sourceId", "mediaType", "filename"})


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    tools = settings.read_tools(strict.as_object(body))
    reader = UiRequestReader(frozenset(tool.name for tool in tools if tool.kind == "custom"))
    system = strict.get_text(body, "system")
    messages = [*([rq.Message("system", [rq.Text(system)])] if system else []), *reader.read(body)]
    stream = strict.get_flag(body, "stream")
    chat = {key: body[key] for key in CHAT if key in body}
    marks = {"system": bool(system), "streamed": stream is True, "aside": reader.aside, "chat": chat}
    known = {"system", *CHAT}
    return settings.build_request(body, NAME, known, tools, messages, stream=stream is not False, **marks)


def _read_source(part: Object) -> rq.Source:
    made = rq.Source(
        strict.get_text(part, "url"),
        strict.get_text(part, "title"),
        id=strict.get_text(part, "sourceId"),
        media=strict.get_text(part, "mediaType"),
        filename=strict.get_text(part, "filename"),
    )
    read_extra_fields(made, part, _SOURCE, NAME)
    return made


def _read_opaque(part: Object) -> rq.Opaque | rq.Result:
    data = strict.get_object(part, "data")
    protocol, kind = strict.get_text(data, "protocol"), strict.get_text(data, "kind")
    if (protocol, kind) == ORPHAN:
        try:
            return msgspec.convert(data.get("data"), rq.Result)
        except msgspec.ValidationError:
            raise BadRequest("a result", data.get("data"), "data.data") from None
    return rq.Opaque(protocol or NAME, kind or OPAQUE_TYPE, data.get("data") if protocol and kind else part)


_read_file = partial(parts.read_file, field="url", default="application/octet-stream", protocol=NAME)
# part type → its reader; text and reasoning have other ones
_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "file": _read_file,
    "reasoning-file": _read_file,
    "source-url": _read_source,
    "source-document": _read_source,
    "custom": partial(parts.read_custom, protocol=NAME),
    OPAQUE_TYPE: _read_opaque,
}


class UiRequestReader:
    """Reads one request. State: free-text tools, the number of messages, messages without content."""

    def __init__(self, custom: frozenset[str]) -> None:
        self._custom = custom
        self._count = 0
        self._position = 0
        self.aside: list[list[Any]] = []

    def read(self, body: Object) -> list[rq.Message]:
        self._count = len(lenient.get_list(body, "messages"))
        return [message for row in strict.read_objects(body, "messages", self._message, need=True) for message in row]

    def _message(self, message: Object) -> list[rq.Message]:
        self._position += 1
        if message.get("role") == ASIDE:
            self.aside.append([self._position - 1, message])
            return []
        role = strict.get_choice(message, "role", ROLES)
        is_v4 = is_v4_message(message)
        parts = v4_message_parts(message, last=self._position == self._count) if is_v4 else None
        steps = _StepSplitter(role, self._custom)
        steps.read(message if parts is None else {"parts": parts})
        if not steps.made:
            self.aside.append([self._position - 1, message])
            return []
        first = steps.made[0]
        rest = strict.unknown_fields(message, {"role", "parts", *HEAD})
        head = {key: message[key] for key in HEAD if key in message}
        marks: Object = {"head": head, "hidden": steps.hidden, "done": steps.done, "count": len(steps.made)}
        if is_v4:
            marks, rest = {"raw": message, "count": len(steps.made)}, {}
        marks |= split_extra(first.extra, NAME)[1]
        marks = {key: value for key, value in marks.items() if value}
        first.extra = {NAME: {**({"rest": rest} if rest else {}), "_": marks}}
        for later in steps.made[1:]:
            add_extra(later, NAME, _={**split_extra(later.extra, NAME)[1], "more": True})
        return steps.made


class _StepSplitter:
    """Splits one message into steps. State: the parts, results and approval answers of the current step."""

    def __init__(self, role: rq.Role, custom: frozenset[str]) -> None:
        self._role: rq.Role = role
        self._custom = custom
        self.made: list[rq.Message] = []
        self.hidden: list[list[Any]] = []
        self.done = False
        self._position = 0
        self._begin()

    def _begin(self) -> None:
        self._content: list[rq.AnyPart] = []
        self._results: list[rq.AnyPart] = []
        self._answers: list[rq.AnyPart] = []

    def read(self, message: Object) -> None:
        texts = [part for part in lenient.get_objects(message, "parts") if part.get("type") in ("text", "reasoning")]
        self.done = bool(texts) and all(part.get("state") == "done" for part in texts)
        strict.read_objects(message, "parts", self._part, need=True)
        self._end()

    def _end(self) -> None:
        """Ends the step."""
        rows: tuple[tuple[rq.Role, list[rq.AnyPart]], ...] = (
            (self._role, self._content),
            ("tool", self._results),
            ("user", self._answers),
        )
        self.made += [rq.Message(role, parts) for role, parts in rows if parts]
        self._begin()

    def _part(self, part: Object) -> None:
        kind = strict.require_text(part, "type")
        self._position += 1
        if kind == "step-start":
            self._hide(part)
            self._end()
        elif kind == STEERING:
            self._steer(part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            self._tool(part)
        elif kind.startswith("data-") and kind != OPAQUE_TYPE:
            self._hide(part)
        else:
            made = self._read_part(kind, part)
            (self._results if type(made) is rq.Result else self._content).append(made)

    def _hide(self, part: Object) -> None:
        self.hidden.append([self._position - 1, part])

    def _steer(self, part: Object) -> None:
        """Reads a user's message between two steps."""
        self._end()
        inside = _StepSplitter("user", self._custom)
        inside.read(part)
        for message in inside.made:
            add_extra(message, NAME, _={"steering": strict.unknown_fields(part, {"parts"})})
        self.made += inside.made

    def _tool(self, part: Object) -> None:
        tool = ToolPart(part, self._custom)
        if not tool.whole:
            self._hide(part)
            return
        self._content += [tool.call, *tool.asks]
        self._answers += tool.answers
        (self._content if tool.call.by == "provider" else self._results).extend(tool.results)

    def _read_part(self, kind: str, part: Object) -> rq.AnyPart:
        state = "" if self.done else part.get("state")
        if kind == "text":
            return parts.read_text(part, _TEXT, NAME, state=state)
        if kind == "reasoning":
            return parts.read_reasoning(part, _TEXT, NAME, state=state)
        return _PARTS[kind](part) if kind in _PARTS else rq.Opaque(NAME, kind, part)


CALL_METADATA, RESULT_METADATA = "callProviderMetadata", "resultProviderMetadata"
APPROVAL_STATES = ("approval-requested", "approval-responded", "output-denied")
_STATES = frozenset("input-streaming input-available output-available output-error".split()) | {*APPROVAL_STATES}
PAGE = ("title", "toolMetadata")  # what only pages care for
_TOOL_FIELDS = "type toolName toolCallId state input rawInput output errorText providerExecuted preliminary approval"
_TOOL = frozenset({*_TOOL_FIELDS.split(), RESULT_METADATA, *PAGE})
_ASK_FIELDS = {"requestReason": "reason"}  # a field of an approval in UI messages → in model messages


class ToolPart:
    """Reads one tool part. `whole`: its input is complete."""

    def __init__(self, part: Object, custom: frozenset[str]) -> None:
        self._part = part
        self._state = part.get("state")
        if not isinstance(self._state, str) or self._state not in _STATES:
            raise BadRequest(f"one of {', '.join(sorted(_STATES))}", self._state, "state")
        self.whole = self._state != "input-streaming"
        self.asks: list[rq.AnyPart] = []
        self.answers: list[rq.AnyPart] = []
        self.results: list[rq.AnyPart] = []
        self.call = self._call(custom)
        if part.get("approval") is not None:
            strict.read_object(part, "approval", self._approval)
        if self.whole:
            self._result()

    def _call(self, custom: frozenset[str]) -> rq.Call:
        part = self._part
        dynamic = part["type"] == "dynamic-tool"
        name = strict.require_text(part, "toolName") if dynamic else part["type"].removeprefix("tool-")
        made = rq.Call(strict.require_text(part, "toolCallId"), name)
        ran = strict.get_flag(part, "providerExecuted")
        word = "input" if part.get("input") is not None or "rawInput" not in part else "rawInput"
        marks: Object = {
            "dynamic": dynamic,
            "state": self._state if self._state in APPROVAL_STATES else "",
            "raw": word == "rawInput",
            "also": part["rawInput"] if "rawInput" in part and word == "input" else None,
            "silent": word not in part,
            "unrun": ran is False,
            "page": {key: part[key] for key in PAGE if key in part},
        }
        ours = read_extra_fields(made, part, _TOOL, NAME, (CALL_METADATA,), **marks)
        if ran:
            made.by = "provider"
            add_extra(made, SDK, ran=True)
        if word in part:
            parts.set_call_input(made, part[word], free=name in custom or ours.get("form") == "text", protocol=NAME)
        return made

    def _approval(self, given: Object) -> None:
        ask = rq.Ask(self.call.id, strict.require_text(given, "id"))
        rest = strict.unknown_fields(given, {"id", "approved", "reason"})
        rest = {_ASK_FIELDS.get(key, key): value for key, value in rest.items()}
        if rest:
            ask.extra = {SDK: {"rest": rest}}
        self.asks.append(ask)
        approved = strict.get_flag(given, "approved")
        if approved is not None:
            answer = rq.Ask(self.call.id, ask.id, approved)
            if given.get("reason") is not None:
                answer.extra = {SDK: {"rest": {"reason": strict.get_text(given, "reason")}}}
            self.answers.append(answer)

    def _result(self) -> None:
        part, made = self._part, rq.Result(self.call.id, self.call.name, by=self.call.by)
        options_read = settings.read_options(part, (RESULT_METADATA,))
        reason = lenient.get_text(lenient.get_object(part, "approval"), "reason")
        refused = any(type(answer) is rq.Ask and answer.approved is False for answer in self.answers)
        if self._state == "output-available":
            self._output(made, options_read.ours)
        elif self._state == "output-error":
            made.content, made.failed = [rq.Text(strict.get_text(part, "errorText"))], True
        elif self._state == "output-denied" or (self._state == "approval-responded" and refused):
            made.content, made.failed = [rq.Text(reason or parts.DENIED_TEXT)], True
        else:
            return
        made.extra = settings.build_part_extra(NAME, options_read, {}, flat=part.get("preliminary") is False)
        made.cache = options_read.cache
        if self._state in APPROVAL_STATES:
            add_extra(made, SDK, denied=True)
        elif made.by == "provider":
            add_extra(made, SDK, ran=True)
        self.results.append(made)

    def _output(self, made: rq.Result, ours: Object) -> None:
        made.partial = strict.get_flag(self._part, "preliminary") or False
        made.failed = bool(ours.get("failed"))
        if ours.get("content"):
            read = partial(strict.read_objects, key="value", read=parts.read_content, need=True)
            made.content = strict.read_object(self._part, "output", read)
        else:
            made.content = parts.value_as_content(self._part.get("output"))


V4_KINDS = frozenset({"tool-invocation", "source"})
STEP: Object = {"type": "step-start"}
_V4_STATES = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}


def is_v4_message(message: Object) -> bool:
    """True if only version 4 writes a message like this."""
    if not isinstance(message.get("parts"), list) or message.get("experimental_attachments"):
        return True
    return any(_is_v4_part(part) for part in lenient.get_objects(message, "parts"))


def _is_v4_part(part: Object) -> bool:
    kind = lenient.get_text(part, "type")
    return kind in V4_KINDS or (kind == "reasoning" and "details" in part) or (kind == "file" and "data" in part)


def v4_message_parts(message: Object, *, last: bool) -> list[Object]:
    """Returns the parts of a version 4 message. In the last message (`last`) the text comes before the calls."""
    attached = strict.read_objects(message, "experimental_attachments", _v4_attachment)
    if message.get("parts") is not None:
        return [*_insert_steps(strict.read_objects(message, "parts", _v4_part)), *attached]
    content = message.get("content")
    if not isinstance(content, str | None):
        raise BadRequest("a string", content, "content")
    text: list[Object] = [{"type": "text", "text": content}] if content else []
    calls = [part for row in strict.read_objects(message, "toolInvocations", _v4_tool_part) for part in row]
    if last or not calls:
        return [*text, *_insert_steps([calls]), *attached]
    return [*_insert_steps([calls]), STEP, *text, *attached]


def _insert_steps(rows: Iterable[list[Object]]) -> list[Object]:
    """Inserts the starts of steps. Version 4 has none: a step ends where text follows a call, or where `step` grows."""
    made: list[Object] = []
    step, called = 0, False
    for part in (part for row in rows for part in row):
        tool = "toolCallId" in part
        given = part.get("step", step)  # parts of the newer form have none
        at = given if isinstance(given, int) else step
        if (tool and at != step) or (called and part.get("type") == "text"):
            made.append(STEP)
            called = False
            step = at if tool else step + 1
        called = called or tool
        made.append(strict.unknown_fields(part, {"step"}) if tool else part)
    return made


def _v4_part(part: Object) -> list[Object]:
    kind = part.get("type")
    if kind == "tool-invocation":
        return strict.read_object(part, "toolInvocation", _v4_tool_part)
    if kind == "reasoning" and "details" in part:
        return strict.read_objects(part, "details", _v4_reasoning)
    if kind == "source":
        source = strict.get_object(part, "source")
        beside = strict.unknown_fields(source, {"sourceType", "id", "url"})
        return [{"type": "source-url", "sourceId": source.get("id"), "url": source.get("url"), **beside}]
    if kind == "file" and "data" in part:
        media = strict.get_text(part, "mimeType")
        return [{"type": "file", "mediaType": media, "url": f"data:{media};base64,{strict.require_text(part, 'data')}"}]
    return [part]


def _v4_tool_part(given: Object) -> list[Object]:
    state = _V4_STATES.get(
        strict.get_text(given, "state"), "output-available" if "result" in given else "input-available"
    )
    part: Object = {
        "type": f"tool-{strict.require_text(given, 'toolName')}",
        "toolCallId": strict.require_text(given, "toolCallId"),
        "state": state,
        "step": strict.get_integer(given, "step") or 0,
        **({"input": given["args"]} if "args" in given else {}),
    }
    return [{**part, "output": given.get("result")} if state == "output-available" else part]


def _v4_reasoning(detail: Object) -> Object:
    if detail.get("type") == "redacted":
        state: Object = {"redactedData": strict.require_text(detail, "data")}
    else:
        signature = strict.get_text(detail, "signature")
        state = {"signature": signature} if signature else {}
    metadata = {"providerMetadata": {"anthropic": state}} if state else {}
    return {"type": "reasoning", "text": strict.get_text(detail, "text"), **metadata}


def _v4_attachment(given: Object) -> Object:
    media = strict.get_text(given, "contentType")
    name = {"filename": given["name"]} if given.get("name") else {}
    return {"type": "file", "url": strict.require_text(given, "url"), **({"mediaType": media} if media else {}), **name}
