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
from penstock._aisdk import PENSTOCK, SDK
from penstock._aisdk import request_parts as parts
from penstock._aisdk import request_settings as settings
from penstock._aisdk.request_settings import add_extra, read_extra_fields
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
    made = rq.Reasoning(form="redacted")
    read_extra_fields(made, part, {"type", "data"}, kind="redacted-reasoning")
    add_extra(made, "anthropic", redacted=strict.require_text(part, "data"))
    return made


def _read_reasoning(part: Object) -> rq.Reasoning:
    signature = strict.get_text(part, "signature")  # version 4
    made = parts.read_reasoning(part, _SIGNED, NAME, signed=bool(signature))
    if signature:
        add_extra(made, "anthropic", signature=signature)
    return made


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
        messages, marks = self._prompt(body)
        prompt = body.get("prompt")
        word = "messages" if prompt is None or isinstance(prompt, str) else "prompt"
        if isinstance(prompt, str):
            messages.append(rq.Message("user", [rq.Text(prompt)]))
        if prompt is not None:
            marks["prompt"] = "text" if isinstance(prompt, str) else "list"
        for row in strict.read_objects(body, word, self._message, need=prompt is None):
            messages += row
        return messages, marks

    def _prompt(self, body: Object) -> tuple[list[rq.Message], Object]:
        """Reads the system prompt: text, a message, or a list of messages."""
        word = next((word for word in SYSTEM if body.get(word) is not None), "")
        given = body.get(word)
        if given is None:
            return [], {}
        if isinstance(given, str):
            return [rq.Message("system", _text(given))], {"system": [word, "text", 1]}
        if isinstance(given, dict):
            return strict.read_object(body, word, self._message), {"system": [word, "message", 1]}
        rows = [message for row in strict.read_objects(body, word, self._message) for message in row]
        return rows, {"system": [word, "list", len(rows)]}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: Object) -> list[rq.Message]:
        role = strict.get_choice(message, "role", ROLES)
        content = message.get("content")
        parts = self._content(content)
        # a list with one text, or none, must not become a string
        listed = isinstance(content, list) and (not parts or (len(parts) == 1 and type(parts[0]) is rq.Text))
        # results move out of other messages, and everything else moves out of tool messages
        away = [place for place, part in enumerate(parts) if (type(part) is rq.Result) is not (role == "tool")]
        away = [place for place in away if getattr(parts[place], "by", "client") == "client"]
        made = rq.Message(role, [part for place, part in enumerate(parts) if place not in away])
        _read_message_fields(made, message, listed=listed)
        if not away:
            return [made]
        apart = rq.Message("user" if role == "tool" else "tool", [parts[place] for place in away])
        if made.parts:
            add_extra(apart, NAME, _={"joined": away})
            return [made, apart]
        apart.extra = made.extra
        add_extra(apart, NAME, _={**split_extra(made.extra, NAME)[1], "role": role})
        return [apart]

    def _content(self, content: Any) -> list[rq.AnyPart]:
        if isinstance(content, str):
            return _text(content)
        if not isinstance(content, list):
            raise BadRequest("a string or a list of parts", content, "content")
        return strict.read_each(content, self._part, "content")  # pyright: ignore[reportUnknownArgumentType]

    def _part(self, part: Object) -> rq.AnyPart:
        kind = strict.require_text(part, "type")
        if kind in self.methods:
            return self.methods[kind](self, part)
        return _PARTS[kind](part) if kind in _PARTS else rq.Opaque(NAME, kind, part)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call(self, part: Object) -> rq.Call:
        made = rq.Call(strict.require_text(part, "toolCallId"), strict.require_text(part, "toolName"))
        old = "input" not in part and "args" in part
        word = "args" if old else "input"
        ran = strict.get_flag(part, "providerExecuted")
        ours = read_extra_fields(made, part, _CALL, old=old, silent=word not in part, unrun=ran is False)
        if ran:
            self._ran.add(made.id)
            made.by = "provider"
            add_extra(made, NAME, ran=True)
        if word in part:
            free = made.name in self._custom or ours.get("form") == "text"
            parts.set_call_input(made, part[word], free=free, protocol=NAME)
        return made

    def _result(self, part: Object) -> rq.Result:
        made = rq.Result(strict.require_text(part, "toolCallId"), strict.get_text(part, "toolName"))
        output = strict.read_object(part, "output", parts.read_output) if "output" in part else _read_v4_output(part)
        ours = read_extra_fields(made, part, _RESULT, **(output.marks or {}))
        made.content, made.failed = output.content, output.failed or bool(ours.get("failed"))
        made.by = "provider" if made.call in self._ran or ours.get("ran") else "client"
        made.partial = bool(ours.get("partial"))
        if output.denied or made.by == "provider":
            add_extra(made, NAME, **({"denied": True} if output.denied else {"ran": True}))
        return made

    def _ask(self, part: Object) -> rq.Ask:
        made = rq.Ask(strict.get_text(part, "toolCallId"), strict.require_text(part, "approvalId"))
        self._asks[made.id] = made.call
        read_extra_fields(made, part, {"type", "toolCallId", "approvalId"})
        return made

    def _answer(self, part: Object) -> rq.Ask:
        id = strict.require_text(part, "approvalId")  # noqa: A001
        made = rq.Ask(self._asks.get(id, ""), id, strict.get_flag(part, "approved") or False)
        read_extra_fields(made, part, {"type", "approvalId", "approved"})
        return made

    methods: ClassVar[dict[str, Callable[[Any, Object], rq.AnyPart]]] = {
        "tool-call": _call,
        "tool-result": _result,
        "tool-approval-request": _ask,
        "tool-approval-response": _answer,
    }


def _text(content: str) -> list[rq.AnyPart]:
    return [rq.Text(content)] if content else []


def _read_message_fields(made: rq.Message, message: Object, *, listed: bool) -> None:
    """Reads the other fields of a message. A cache hint of the message belongs to its last part."""
    if message.keys() <= {"role", "content"} and not listed:
        return
    options_read = settings.read_options(message)
    made.name = lenient.get_text(options_read.ours, "name")
    cached = bool(options_read.cache and made.parts and not made.parts[-1].cache)
    if cached:
        made.parts[-1].cache = options_read.cache
    rest = {key: value for key, value in message.items() if key not in ("role", "content", *settings.OPTION_KEYS[NAME])}
    made.extra = settings.build_part_extra(NAME, options_read, rest, listed=listed, cached=cached)
    sizes = lenient.get_list(options_read.ours, "sizes")
    only = made.parts[0] if sizes and len(made.parts) == 1 else None
    if type(only) is rq.Text:
        made.parts = _split_text(only, sizes)
    for held in lenient.get_list(options_read.ours, "opaques"):
        try:
            place, part = msgspec.convert(held, tuple[int, rq.Opaque])
        except msgspec.ValidationError:
            raise BadRequest("a place and a part", held, f"{settings.OPTIONS}.{PENSTOCK}.opaques") from None
        made.parts.insert(place, part)


def _split_text(text: rq.Text, sizes: list[Any]) -> list[rq.AnyPart]:
    """Splits a system prompt that was joined from several texts, because the SDK has only one."""
    pieces: list[rq.AnyPart] = []
    at = 0
    for size in sizes:
        if not isinstance(size, int) or not 0 <= size <= len(text.text) - at:
            return [text]
        pieces.append(rq.Text(text.text[at : at + size]))
        at += size + len(SYSTEM_SEPARATOR)
    if not pieces or at - len(SYSTEM_SEPARATOR) != len(text.text):
        return [text]
    pieces[-1].cache = text.cache
    return pieces


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
