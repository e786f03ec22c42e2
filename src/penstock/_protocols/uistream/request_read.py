"""What `useChat` posts: UI messages → canonical. `request_write.py` is the inverse.

An assistant's UI message holds all steps of its turn, with calls and results. Here every step is an assistant's
message, followed by its results and the user's answers to requests for approval. Parts that only the page needs (steps,
data, calls still streaming) are not content; they are kept with their positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import OPAQUE_TYPE, PENSTOCK, request_settings
from penstock._aisdk.request_parts import read_custom, read_file, read_reasoning, read_text
from penstock._aisdk.request_settings import (
    METADATA,
    OPTIONS,
    add_extra,
    build_part_extra,
    read_extra_fields,
    read_options,
)
from penstock._protocols.uistream.request_tools import NAME, ToolPart
from penstock._request_writer import split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._lenient_fields import Object

ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant"}
ASIDE = "data"  # version 4's role for messages that no model gets
STEERING = "steering-message"
ORPHAN = (NAME, "result")  # opaque state that is a result without its call
HEAD = ("id", "metadata")  # of a message: what only pages care for
CHAT = ("id", "trigger", "messageId")  # and of a request
_KNOWN = request_settings.KNOWN_FIELDS | {"system", *CHAT}
_SAID = frozenset({"type", "text", "state"})
_WORDS = (METADATA,)


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    tools = request_settings.read_tools(strict.as_object(body))
    reader = _RequestReader(frozenset(tool.name for tool in tools if tool.kind == "custom"))
    system = strict.get_text(body, "system")
    messages = [rq.Message("system", [rq.Text(system)])] if system else []
    messages += reader.read(body)
    asked, spelled = request_settings.read_settings(body)
    options, ours, word = request_settings.read_request_options(body)
    unknown = {key: value for key, value in body.items() if key not in _KNOWN or value is None}
    streamed = strict.get_flag(body, "stream")
    return rq.Request(
        strict.get_text(body, "model"),
        messages,
        tools,
        request_settings.read_choice(body),
        asked,
        stream=streamed is not False,
        usage=strict.get_flag(ours, "usage"),
        options=options,
        extra=build_part_extra(
            NAME,
            read_options({OPTIONS: {PENSTOCK: ours}} if ours else {}),
            unknown,
            **spelled,
            **word,
            system=bool(system),
            named=isinstance(body.get("tools"), dict),
            streamed=streamed is True,
            aside=reader.aside,
            chat={key: body[key] for key in CHAT if key in body},
        ),
    )


class _RequestReader:
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
        first.extra = {
            NAME: {**({"rest": rest} if rest else {}), "_": {key: said for key, said in marks.items() if said}}
        }
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
        states = [
            part.get("state")
            for part in lenient.get_objects(message, "parts")
            if part.get("type") in ("text", "reasoning")
        ]
        self.done = bool(states) and all(state == "done" for state in states)
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
            made = self.kinds.get(kind, _StepSplitter._other)(self, part)
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

    def _text(self, part: Object) -> rq.Text:
        return read_text(part, _SAID, NAME, state="" if self.done else part.get("state"))

    def _reasoning(self, part: Object) -> rq.Reasoning:
        return read_reasoning(part, _SAID, NAME, state="" if self.done else part.get("state"))

    def _file(self, part: Object) -> rq.File:
        return read_file(part, "url", "application/octet-stream", NAME)

    def _source(self, part: Object) -> rq.Source:
        made = rq.Source(
            strict.get_text(part, "url"),
            strict.get_text(part, "title"),
            id=strict.get_text(part, "sourceId"),
            media=strict.get_text(part, "mediaType"),
            filename=strict.get_text(part, "filename"),
        )
        known = {"type", "url", "title", "sourceId", "mediaType", "filename"}
        read_extra_fields(made, part, known, _WORDS, NAME)
        return made

    def _opaque(self, part: Object) -> rq.Opaque | rq.Result:
        data = strict.get_object(part, "data")
        protocol, kind = strict.get_text(data, "protocol"), strict.get_text(data, "kind")
        if (protocol, kind) == ORPHAN:
            try:
                return msgspec.convert(data.get("data"), rq.Result)
            except msgspec.ValidationError:
                raise BadRequest("a result", data.get("data"), "data.data") from None
        return rq.Opaque(protocol or NAME, kind or OPAQUE_TYPE, data.get("data") if protocol and kind else part)

    def _custom_part(self, part: Object) -> rq.Opaque:
        return read_custom(part, NAME)

    def _other(self, part: Object) -> rq.Opaque:
        return rq.Opaque(NAME, part["type"], part)

    kinds: dict[str, Callable[[Any, Object], rq.AnyPart]] = {  # noqa: RUF012 — a table
        "text": _text,
        "reasoning": _reasoning,
        "file": _file,
        "reasoning-file": _file,
        "source-url": _source,
        "source-document": _source,
        "custom": _custom_part,
        OPAQUE_TYPE: _opaque,
    }


V4_KINDS = frozenset({"tool-invocation", "source"})
STEP: Object = {"type": "step-start"}
_STATES = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}


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
    return (
        [*text, *_insert_steps([calls]), *attached]
        if last or not calls
        else [*_insert_steps([calls]), STEP, *text, *attached]
    )


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
        known = {"sourceType", "id", "url", "title", "providerMetadata"}
        beside = {key: source[key] for key in ("title", "providerMetadata") if key in source} | strict.unknown_fields(
            source, known
        )
        return [{"type": "source-url", "sourceId": source.get("id"), "url": source.get("url"), **beside}]
    if kind == "file" and "data" in part:
        media = strict.get_text(part, "mimeType")
        return [{"type": "file", "mediaType": media, "url": f"data:{media};base64,{strict.require_text(part, 'data')}"}]
    return [part]


def _v4_tool_part(given: Object) -> list[Object]:
    state = _STATES.get(strict.get_text(given, "state"), "output-available" if "result" in given else "input-available")
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
