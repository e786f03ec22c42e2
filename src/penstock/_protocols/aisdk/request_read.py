"""AI SDK calls with model messages (`ModelMessage[]`, version 4's `CoreMessage[]`) → canonical.

Tool results have their own messages. Answers to requests for approval stand among them; here they follow as a user's
message, marked as joined with their positions. Provider-run calls and results stay in the assistant's message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import PENSTOCK, SDK, provider_options
from penstock._aisdk import request_parts as parts
from penstock._aisdk import request_settings as settings
from penstock._aisdk.provider_options import add_extra, read_extra_fields
from penstock._request_writer import split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._lenient_fields import Object

NAME = SDK
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
SYSTEM = ("system", "instructions")  # the prompt's field, before version 7 and since
_SIGNED = frozenset({"type", "text", "signature"})
_CALL = frozenset({"type", "toolCallId", "toolName", "input", "args", "providerExecuted"})
_RESULT = frozenset({"type", "toolCallId", "toolName", "output", "result", "experimental_content", "isError"})
SYSTEM_SEPARATOR = "\n\n"


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    tools = settings.read_tools(strict.as_object(body))
    reader = AisdkRequestReader(frozenset(tool.name for tool in tools if tool.kind == "custom"))
    messages, marks = reader.read(body)
    stream = strict.get_flag(body, "stream")
    marks |= {"read": True, "still": stream is False}
    return settings.build_request(body, NAME, {"prompt", *SYSTEM}, tools, messages, stream=bool(stream), **marks)


def _read_redacted(part: Object) -> rq.Reasoning:
    reasoning = rq.Reasoning(form="redacted")
    read_extra_fields(reasoning, part, {"type", "data"}, kind="redacted-reasoning")
    add_extra(reasoning, "anthropic", redacted=strict.require_text(part, "data"))
    return reasoning


def _read_reasoning(part: Object) -> rq.Reasoning:
    signature = strict.get_text(part, "signature")  # version 4
    reasoning = parts.read_reasoning(part, _SIGNED, NAME, signed=bool(signature))
    if signature:
        add_extra(reasoning, "anthropic", signature=signature)
    return reasoning


_read_file = partial(parts.read_file, field="data", default="application/octet-stream")
# part type → its reader
_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": partial(parts.read_text, known=frozenset({"type", "text"}), protocol=NAME),
    "reasoning": _read_reasoning,
    "redacted-reasoning": _read_redacted,
    "image": partial(parts.read_file, field="image", default="image/*"),
    "file": _read_file,
    "reasoning-file": _read_file,
    "custom": parts.read_custom,
}


class AisdkRequestReader:
    """Reads one request. State: free-text tools, provider-run calls, the call of each approval."""

    def __init__(self, custom: frozenset[str]) -> None:
        self._custom = custom
        self._ran: set[str] = set()
        self._asks: dict[str, str] = {}

    def read(self, body: Object) -> tuple[list[rq.Message], Object]:
        """Reads all messages; also returns how they were spelled."""
        messages, marks = self._read_system(body)
        prompt = body.get("prompt")
        field = "messages" if prompt is None or isinstance(prompt, str) else "prompt"
        if isinstance(prompt, str):
            messages.append(rq.Message("user", [rq.Text(prompt)]))
        if prompt is not None:
            marks["prompt"] = "text" if isinstance(prompt, str) else "list"
        for row in strict.read_objects(body, field, self._read_message, need=prompt is None):
            messages += row
        return messages, marks

    def _read_system(self, body: Object) -> tuple[list[rq.Message], Object]:
        """Reads the system prompt: text, a message, or a list of messages."""
        field = next((field for field in SYSTEM if body.get(field) is not None), "")
        value = body.get(field)
        if value is None:
            return [], {}
        if isinstance(value, str):
            return [rq.Message("system", _text_parts(value))], {"system": [field, "text", 1]}
        if isinstance(value, dict):
            return strict.read_object(body, field, self._read_message), {"system": [field, "message", 1]}
        messages = [message for row in strict.read_objects(body, field, self._read_message) for message in row]
        return messages, {"system": [field, "list", len(messages)]}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _read_message(self, message: Object) -> list[rq.Message]:
        role = strict.get_choice(message, "role", ROLES)
        content = message.get("content")
        content_parts = self._read_content(content)
        # a list with one text, or none, must not become a string
        is_list = isinstance(content, list) and (
            not content_parts or (len(content_parts) == 1 and type(content_parts[0]) is rq.Text)
        )
        # results move out of other messages, and everything else moves out of tool messages
        moved = [
            position for position, part in enumerate(content_parts) if (type(part) is rq.Result) is not (role == "tool")
        ]
        moved = [position for position in moved if getattr(content_parts[position], "by", "client") == "client"]
        parsed = rq.Message(role, [part for position, part in enumerate(content_parts) if position not in moved])
        _read_message_fields(parsed, message, is_list=is_list)
        if not moved:
            return [parsed]
        other = rq.Message("user" if role == "tool" else "tool", [content_parts[position] for position in moved])
        if parsed.parts:
            add_extra(other, NAME, _={"joined": moved})
            return [parsed, other]
        other.extra = parsed.extra
        add_extra(other, NAME, _={**split_extra(parsed.extra, NAME)[1], "role": role})
        return [other]

    def _read_content(self, content: Any) -> list[rq.AnyPart]:
        if isinstance(content, str):
            return _text_parts(content)
        if not isinstance(content, list):
            raise BadRequest("a string or a list of parts", content, "content")
        return strict.read_each(content, self._read_part, "content")  # pyright: ignore[reportUnknownArgumentType]

    def _read_part(self, part: Object) -> rq.AnyPart:
        kind = strict.require_text(part, "type")
        if kind in self.methods:
            return self.methods[kind](self, part)
        return _PARTS[kind](part) if kind in _PARTS else rq.Opaque(NAME, kind, part)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _read_call(self, part: Object) -> rq.Call:
        call = rq.Call(strict.require_text(part, "toolCallId"), strict.require_text(part, "toolName"))
        is_v4 = "input" not in part and "args" in part
        input_key = "args" if is_v4 else "input"
        ran = strict.get_flag(part, "providerExecuted")
        ours = read_extra_fields(call, part, _CALL, old=is_v4, silent=input_key not in part, unrun=ran is False)
        if ran:
            self._ran.add(call.id)
            call.by = "provider"
            add_extra(call, NAME, ran=True)
        if input_key in part:
            is_free_text = call.name in self._custom or ours.get("form") == "text"
            parts.set_call_input(call, part[input_key], is_free_text=is_free_text, protocol=NAME)
        return call

    def _read_result(self, part: Object) -> rq.Result:
        result = rq.Result(strict.require_text(part, "toolCallId"), strict.get_text(part, "toolName"))
        output = strict.read_object(part, "output", parts.read_output) if "output" in part else _read_v4_output(part)
        ours = read_extra_fields(result, part, _RESULT, **(output.marks or {}))
        result.content, result.failed = output.content, output.failed or bool(ours.get("failed"))
        result.by = "provider" if result.call in self._ran or ours.get("ran") else "client"
        result.partial = bool(ours.get("partial"))
        if output.denied or result.by == "provider":
            add_extra(result, NAME, **({"denied": True} if output.denied else {"ran": True}))
        return result

    def _read_ask(self, part: Object) -> rq.Ask:
        ask = rq.Ask(strict.get_text(part, "toolCallId"), strict.require_text(part, "approvalId"))
        self._asks[ask.id] = ask.call
        read_extra_fields(ask, part, {"type", "toolCallId", "approvalId"})
        return ask

    def _read_answer(self, part: Object) -> rq.Ask:
        id = strict.require_text(part, "approvalId")  # noqa: A001
        answer = rq.Ask(self._asks.get(id, ""), id, strict.get_flag(part, "approved") or False)
        read_extra_fields(answer, part, {"type", "approvalId", "approved"})
        return answer

    methods: ClassVar[dict[str, Callable[[Any, Object], rq.AnyPart]]] = {
        "tool-call": _read_call,
        "tool-result": _read_result,
        "tool-approval-request": _read_ask,
        "tool-approval-response": _read_answer,
    }


def _text_parts(content: str) -> list[rq.AnyPart]:
    return [rq.Text(content)] if content else []


def _read_message_fields(target: rq.Message, message: Object, *, is_list: bool) -> None:
    """Reads the other fields of a message. A cache hint of the message belongs to its last part."""
    if message.keys() <= {"role", "content"} and not is_list:
        return
    options = provider_options.read_options(message)
    target.name = lenient.get_text(options.ours, "name")
    has_cache = bool(options.cache and target.parts and not target.parts[-1].cache)
    if has_cache:
        target.parts[-1].cache = options.cache
    rest = {
        key: value
        for key, value in message.items()
        if key not in ("role", "content", *provider_options.OPTION_KEYS[NAME])
    }
    target.extra = provider_options.build_part_extra(NAME, options, rest, listed=is_list, cached=has_cache)
    sizes = lenient.get_list(options.ours, "sizes")
    first = target.parts[0] if sizes and len(target.parts) == 1 else None
    if type(first) is rq.Text:
        target.parts = _split_text(first, sizes)
    for opaque in lenient.get_list(options.ours, "opaques"):
        try:
            position, part = msgspec.convert(opaque, tuple[int, rq.Opaque])
        except msgspec.ValidationError:
            raise BadRequest(
                "a position and a part", opaque, f"{provider_options.OPTIONS}.{PENSTOCK}.opaques"
            ) from None
        target.parts.insert(position, part)


def _split_text(text: rq.Text, sizes: list[Any]) -> list[rq.AnyPart]:
    """Splits a system prompt that was joined from several texts, because the SDK has only one."""
    texts: list[rq.AnyPart] = []
    at = 0
    for size in sizes:
        if not isinstance(size, int) or not 0 <= size <= len(text.text) - at:
            return [text]
        texts.append(rq.Text(text.text[at : at + size]))
        at += size + len(SYSTEM_SEPARATOR)
    if not texts or at - len(SYSTEM_SEPARATOR) != len(text.text):
        return [text]
    texts[-1].cache = text.cache
    return texts


def _read_v4_output(part: Object) -> parts.ToolOutput:
    """Reads version 4's result: a bare value, and perhaps the content that it stands for."""
    if "result" not in part:
        raise BadRequest("an output", None, "output")
    failed = strict.get_flag(part, "isError")
    marks: Object = {"old": True, "unfailed": failed is False}
    content = parts.value_as_content(part["result"])
    if part.get("experimental_content") is not None:
        content = strict.read_objects(part, "experimental_content", parts.read_content)
        marks["result"] = {"value": part["result"]}
    return parts.ToolOutput(content, failed or False, marks=marks)
