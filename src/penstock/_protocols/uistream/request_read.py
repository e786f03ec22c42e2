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
from penstock._aisdk import OPAQUE_TYPE, SDK, provider_options
from penstock._aisdk import request_parts as parts
from penstock._aisdk import request_settings as settings
from penstock._aisdk.provider_options import add_extra, read_extra_fields
from penstock._request_writer import split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._lenient_fields import Object

NAME = "uistream"
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant"}
DATA_ROLE = "data"  # version 4's role of messages that no model gets
STEERING = "steering-message"
ORPHAN = (NAME, "result")  # opaque state that is a result without its call
HEAD = ("id", "metadata")  # fields of a message that only pages use
CHAT = ("id", "trigger", "messageId")  # fields of a request that only pages use
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
    marks = {"system": bool(system), "streamed": stream is True, "aside": reader.skipped_messages, "chat": chat}
    known = {"system", *CHAT}
    return settings.build_request(body, NAME, known, tools, messages, stream=stream is not False, **marks)


def _read_source(part: Object) -> rq.Source:
    source = rq.Source(
        strict.get_text(part, "url"),
        strict.get_text(part, "title"),
        id=strict.get_text(part, "sourceId"),
        media=strict.get_text(part, "mediaType"),
        filename=strict.get_text(part, "filename"),
    )
    read_extra_fields(source, part, _SOURCE, NAME)
    return source


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
        self.skipped_messages: list[list[Any]] = []

    def read(self, body: Object) -> list[rq.Message]:
        self._count = len(lenient.get_list(body, "messages"))
        rows = strict.read_objects(body, "messages", self._read_message, need=True)
        return [message for row in rows for message in row]

    def _read_message(self, message: Object) -> list[rq.Message]:
        self._position += 1
        if message.get("role") == DATA_ROLE:
            self.skipped_messages.append([self._position - 1, message])
            return []
        role = strict.get_choice(message, "role", ROLES)
        is_v4 = is_v4_message(message)
        parts = v4_message_parts(message, last=self._position == self._count) if is_v4 else None
        steps = _StepSplitter(role, self._custom)
        steps.read(message if parts is None else {"parts": parts})
        if not steps.messages:
            self.skipped_messages.append([self._position - 1, message])
            return []
        first = steps.messages[0]
        unknown = strict.unknown_fields(message, {"role", "parts", *HEAD})
        head = {key: message[key] for key in HEAD if key in message}
        marks: Object = {"head": head, "hidden": steps.hidden_parts, "done": steps.is_done}
        if is_v4:
            marks, unknown = {"raw": message}, {}
        marks["count"] = len(steps.messages)
        marks |= split_extra(first.extra, NAME)[1]
        marks = {key: value for key, value in marks.items() if value}
        first.extra = {NAME: {**({"rest": unknown} if unknown else {}), "_": marks}}
        for message_after in steps.messages[1:]:
            add_extra(message_after, NAME, _={**split_extra(message_after.extra, NAME)[1], "more": True})
        return steps.messages


class _StepSplitter:
    """Splits one message into steps. State: the parts, results and approval answers of the current step."""

    def __init__(self, role: rq.Role, custom: frozenset[str]) -> None:
        self._role: rq.Role = role
        self._custom = custom
        self.messages: list[rq.Message] = []
        self.hidden_parts: list[list[Any]] = []
        self.is_done = False
        self._position = 0
        self._begin_step()

    def _begin_step(self) -> None:
        self._content: list[rq.AnyPart] = []
        self._results: list[rq.AnyPart] = []
        self._answers: list[rq.AnyPart] = []

    def read(self, message: Object) -> None:
        texts = [part for part in lenient.get_objects(message, "parts") if part.get("type") in ("text", "reasoning")]
        self.is_done = bool(texts) and all(part.get("state") == "done" for part in texts)
        strict.read_objects(message, "parts", self._read_element, need=True)
        self._end_step()

    def _end_step(self) -> None:
        """Ends the step."""
        rows: tuple[tuple[rq.Role, list[rq.AnyPart]], ...] = (
            (self._role, self._content),
            ("tool", self._results),
            ("user", self._answers),
        )
        self.messages += [rq.Message(role, parts) for role, parts in rows if parts]
        self._begin_step()

    def _read_element(self, part: Object) -> None:
        kind = strict.require_text(part, "type")
        self._position += 1
        if kind == "step-start":
            self._hide_part(part)
            self._end_step()
        elif kind == STEERING:
            self._read_steering(part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            self._read_tool(part)
        elif kind.startswith("data-") and kind != OPAQUE_TYPE:
            self._hide_part(part)
        else:
            content = self._read_part(kind, part)
            (self._results if type(content) is rq.Result else self._content).append(content)

    def _hide_part(self, part: Object) -> None:
        self.hidden_parts.append([self._position - 1, part])

    def _read_steering(self, part: Object) -> None:
        """Reads a user's message between two steps."""
        self._end_step()
        splitter = _StepSplitter("user", self._custom)
        splitter.read(part)
        for message in splitter.messages:
            add_extra(message, NAME, _={"steering": strict.unknown_fields(part, {"parts"})})
        self.messages += splitter.messages

    def _read_tool(self, part: Object) -> None:
        tool = ToolPart(part, self._custom)
        if not tool.is_complete:
            self._hide_part(part)
            return
        self._content += [tool.call, *tool.asks]
        self._answers += tool.answers
        (self._content if tool.call.by == "provider" else self._results).extend(tool.results)

    def _read_part(self, kind: str, part: Object) -> rq.AnyPart:
        state = "" if self.is_done else part.get("state")
        if kind == "text":
            return parts.read_text(part, _TEXT, NAME, state=state)
        if kind == "reasoning":
            return parts.read_reasoning(part, _TEXT, NAME, state=state)
        return _PARTS[kind](part) if kind in _PARTS else rq.Opaque(NAME, kind, part)


CALL_METADATA, RESULT_METADATA = "callProviderMetadata", "resultProviderMetadata"
APPROVAL_STATES = ("approval-requested", "approval-responded", "output-denied")
_STATES = frozenset("input-streaming input-available output-available output-error".split()) | {*APPROVAL_STATES}
PAGE_FIELDS = ("title", "toolMetadata")  # fields that only pages use
_TOOL_FIELDS = "type toolName toolCallId state input rawInput output errorText providerExecuted preliminary approval"
_TOOL = frozenset({*_TOOL_FIELDS.split(), RESULT_METADATA, *PAGE_FIELDS})
_ASK_FIELDS = {"requestReason": "reason"}  # a field of an approval in UI messages → in model messages


class ToolPart:
    """Reads one tool part. `is_complete`: its input does not stream any more."""

    def __init__(self, part: Object, custom: frozenset[str]) -> None:
        self._part = part
        self._state = part.get("state")
        if not isinstance(self._state, str) or self._state not in _STATES:
            raise BadRequest(f"one of {', '.join(sorted(_STATES))}", self._state, "state")
        self.is_complete = self._state != "input-streaming"
        self.asks: list[rq.AnyPart] = []
        self.answers: list[rq.AnyPart] = []
        self.results: list[rq.AnyPart] = []
        self.call = self._read_call(custom)
        if part.get("approval") is not None:
            strict.read_object(part, "approval", self._read_approval)
        if self.is_complete:
            self._read_result()

    def _read_call(self, free_text_tools: frozenset[str]) -> rq.Call:
        part = self._part
        dynamic = part["type"] == "dynamic-tool"
        name = strict.require_text(part, "toolName") if dynamic else part["type"].removeprefix("tool-")
        call = rq.Call(strict.require_text(part, "toolCallId"), name)
        by_provider = strict.get_flag(part, "providerExecuted")
        input_key = "input" if part.get("input") is not None or "rawInput" not in part else "rawInput"
        marks: Object = {
            "dynamic": dynamic,
            "state": self._state if self._state in APPROVAL_STATES else "",
            "raw": input_key == "rawInput",
            "also": part["rawInput"] if "rawInput" in part and input_key == "input" else None,
            "silent": input_key not in part,
            "unrun": by_provider is False,
            "page": {key: part[key] for key in PAGE_FIELDS if key in part},
        }
        ours = read_extra_fields(call, part, _TOOL, NAME, (CALL_METADATA,), **marks)
        if by_provider:
            call.by = "provider"
            add_extra(call, SDK, ran=True)
        if input_key in part:
            is_free_text = name in free_text_tools or ours.get("form") == "text"
            parts.set_call_input(call, part[input_key], is_free_text=is_free_text, protocol=NAME)
        return call

    def _read_approval(self, approval: Object) -> None:
        ask = rq.Ask(self.call.id, strict.require_text(approval, "id"))
        rest_fields = strict.unknown_fields(approval, {"id", "approved", "reason"})
        rest_fields = {_ASK_FIELDS.get(key, key): value for key, value in rest_fields.items()}
        if rest_fields:
            ask.extra = {SDK: {"rest": rest_fields}}
        self.asks.append(ask)
        approved = strict.get_flag(approval, "approved")
        if approved is not None:
            answer = rq.Ask(self.call.id, ask.id, approved)
            if approval.get("reason") is not None:
                answer.extra = {SDK: {"rest": {"reason": strict.get_text(approval, "reason")}}}
            self.answers.append(answer)

    def _read_result(self) -> None:
        part, result = self._part, rq.Result(self.call.id, self.call.name, by=self.call.by)
        options = provider_options.read_options(part, (RESULT_METADATA,))
        reason = lenient.get_text(lenient.get_object(part, "approval"), "reason")
        is_refused = any(type(answer) is rq.Ask and answer.approved is False for answer in self.answers)
        if self._state == "output-available":
            self._read_output(result, options.ours)
        elif self._state == "output-error":
            result.content, result.failed = [rq.Text(strict.get_text(part, "errorText"))], True
        elif self._state == "output-denied" or (self._state == "approval-responded" and is_refused):
            result.content, result.failed = [rq.Text(reason or parts.DENIED_TEXT)], True
        else:
            return
        result.extra = provider_options.build_part_extra(NAME, options, {}, flat=part.get("preliminary") is False)
        result.cache = options.cache
        if self._state in APPROVAL_STATES:
            add_extra(result, SDK, denied=True)
        elif result.by == "provider":
            add_extra(result, SDK, ran=True)
        self.results.append(result)

    def _read_output(self, result: rq.Result, ours: Object) -> None:
        result.partial = strict.get_flag(self._part, "preliminary") or False
        result.failed = bool(ours.get("failed"))
        if ours.get("content"):
            read = partial(strict.read_objects, key="value", read=parts.read_content, need=True)
            result.content = strict.read_object(self._part, "output", read)
        else:
            result.content = parts.value_as_content(self._part.get("output"))


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
    attachments = strict.read_objects(message, "experimental_attachments", _convert_v4_attachment)
    if message.get("parts") is not None:
        return [*_insert_steps(strict.read_objects(message, "parts", _convert_v4_part)), *attachments]
    content = message.get("content")
    if not isinstance(content, str | None):
        raise BadRequest("a string", content, "content")
    text: list[Object] = [{"type": "text", "text": content}] if content else []
    calls = [part for row in strict.read_objects(message, "toolInvocations", _convert_v4_call) for part in row]
    if last or not calls:
        return [*text, *_insert_steps([calls]), *attachments]
    return [*_insert_steps([calls]), STEP, *text, *attachments]


def _insert_steps(rows: Iterable[list[Object]]) -> list[Object]:
    """Inserts the starts of steps. Version 4 has none: a step ends where text follows a call, or where `step` grows."""
    parts_with_steps: list[Object] = []
    step, has_calls = 0, False
    for part in (part for row in rows for part in row):
        is_tool = "toolCallId" in part
        part_step = part.get("step", step)  # parts of the newer form have none
        number = part_step if isinstance(part_step, int) else step
        if (is_tool and number != step) or (has_calls and part.get("type") == "text"):
            parts_with_steps.append(STEP)
            has_calls = False
            step = number if is_tool else step + 1
        has_calls = has_calls or is_tool
        parts_with_steps.append(strict.unknown_fields(part, {"step"}) if is_tool else part)
    return parts_with_steps


def _convert_v4_part(part: Object) -> list[Object]:
    kind = part.get("type")
    if kind == "tool-invocation":
        return strict.read_object(part, "toolInvocation", _convert_v4_call)
    if kind == "reasoning" and "details" in part:
        return strict.read_objects(part, "details", _convert_v4_reasoning)
    if kind == "source":
        source = strict.get_object(part, "source")
        beside = strict.unknown_fields(source, {"sourceType", "id", "url"})
        return [{"type": "source-url", "sourceId": source.get("id"), "url": source.get("url"), **beside}]
    if kind == "file" and "data" in part:
        media = strict.get_text(part, "mimeType")
        return [{"type": "file", "mediaType": media, "url": f"data:{media};base64,{strict.require_text(part, 'data')}"}]
    return [part]


def _convert_v4_call(invocation: Object) -> list[Object]:
    state = _V4_STATES.get(
        strict.get_text(invocation, "state"), "output-available" if "result" in invocation else "input-available"
    )
    part: Object = {
        "type": f"tool-{strict.require_text(invocation, 'toolName')}",
        "toolCallId": strict.require_text(invocation, "toolCallId"),
        "state": state,
        "step": strict.get_integer(invocation, "step") or 0,
        **({"input": invocation["args"]} if "args" in invocation else {}),
    }
    return [{**part, "output": invocation.get("result")} if state == "output-available" else part]


def _convert_v4_reasoning(detail: Object) -> Object:
    if detail.get("type") == "redacted":
        state: Object = {"redactedData": strict.require_text(detail, "data")}
    else:
        signature = strict.get_text(detail, "signature")
        state = {"signature": signature} if signature else {}
    metadata = {"providerMetadata": {"anthropic": state}} if state else {}
    return {"type": "reasoning", "text": strict.get_text(detail, "text"), **metadata}


def _convert_v4_attachment(attachment: Object) -> Object:
    media = strict.get_text(attachment, "contentType")
    name = {"filename": attachment["name"]} if attachment.get("name") else {}
    label = {"mediaType": media} if media else {}
    return {"type": "file", "url": strict.require_text(attachment, "url"), **label, **name}
