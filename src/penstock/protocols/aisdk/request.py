"""AI SDK calls with model messages (`ModelMessage[]`, version 4's `CoreMessage[]` too) → canonical. `write.py` goes back.

Tool results have messages of their own; answers to requests for approval, which stand among them, follow as a user's
message that is marked as joined, with the places they stood at. What a provider ran stays in the assistant's message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.aisdk import settings
from penstock.aisdk.documents import first_id, read_data
from penstock.aisdk.options import Noted, dressed, kept, read_options
from penstock.aisdk.outputs import plain, read_content, read_output, value_of
from penstock.aisdk.words import SDK, encoded
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

NAME = SDK
ROLES = frozenset({"system", "user", "assistant", "tool"})
SYSTEM = ("system", "instructions")  # the prompt's field, before version 7 and since
_KNOWN = settings.KNOWN | {"prompt", *SYSTEM}


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    tools = settings.read_tools(body)
    reader = _Reader({tool.name for tool in tools if tool.kind == "custom"})
    messages, marks = reader.read(body)
    asked, spelled = settings.read_settings(body)
    options, ours, word = settings.read_request_options(body)
    marks = {
        "read": True, **marks, **spelled, **word, "named": isinstance(body.get("tools"), dict),
        "stream": body.get("stream") is False,
    }  # fmt: skip
    noted = read_options({"": {"penstock": ours}} if ours else {}, ("",))
    unknown = {key: value for key, value in body.items() if key not in _KNOWN or value is None}
    return rq.Request(
        reading.text(body, "model"),
        messages,
        tools,
        settings.read_choice(body),
        asked,
        stream=reading.flag(body, "stream") or False,
        options=options,
        extra=kept(NAME, noted._replace(marks={}), unknown, **marks),
    )


class _Reader:
    """One request being read. State: tools of free text, calls that a provider ran, which call an approval is about."""

    def __init__(self, custom: set[str]) -> None:
        self._custom = custom
        self._ran: set[str] = set()
        self._asks: dict[str, str] = {}

    def read(self, body: Object) -> tuple[list[rq.Message], Object]:
        """All messages, and how they were spelled."""
        messages, marks = self._prompt(body)
        given = body.get("messages")
        word = "messages" if given is not None or isinstance(body.get("prompt"), str) else "prompt"
        if isinstance(body.get("prompt"), str):
            messages.append(rq.Message("user", [rq.Text(body["prompt"])]))
            marks["prompt"] = "text"
        elif word == "prompt" and body.get("prompt") is not None:
            marks["prompt"] = "list"
        for row in reading.rows(body, word, self._message):
            messages += row
        return messages, marks

    def _prompt(self, body: Object) -> tuple[list[rq.Message], Object]:
        """The system prompt beside the messages: text, a message, or some."""
        word = next((word for word in SYSTEM if body.get(word) is not None), "")
        if not word:
            return [], {}
        given = body[word]
        if isinstance(given, str):
            return [rq.Message("system", [rq.Text(given)])], {"system": (word, "text", 1)}
        if isinstance(given, dict):
            return reading.inside(body, word, self._message), {"system": (word, "message", 1)}
        rows = [message for row in reading.rows(body, word, self._message) for message in row]
        return rows, {"system": (word, "list", len(rows))}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: Object) -> list[rq.Message]:
        role: Any = message.get("role")
        if role not in ROLES:
            raise BadRequest(f"one of {', '.join(sorted(ROLES))}", role, "role")
        content = message.get("content")
        if role == "system" and isinstance(content, str):
            return [_whole(rq.Message("system", _said(content)), message)]
        parts = self._content(content)
        listed = isinstance(content, list) and (not parts or (len(parts) == 1 and type(parts[0]) is rq.Text))
        apart = self._apart(role, parts)
        if not apart:
            return [_whole(rq.Message(role, parts), message, listed=listed)]
        return _split(role, parts, apart, message)

    def _apart(self, role: str, parts: list[rq.AnyPart]) -> list[int]:
        """The places of what goes into a message of its own: all but results from tools, client's results from others."""
        if role == "tool":
            return [place for place, part in enumerate(parts) if type(part) is not rq.Result]
        return [
            place for place, part in enumerate(parts) if type(part) is rq.Result and part.by == "client"
        ]  # fmt: skip

    def _content(self, content: Any) -> list[rq.AnyPart]:
        if isinstance(content, str):
            return _said(content)
        if not isinstance(content, list):
            raise BadRequest("a string or a list of parts", content, "content")
        return reading.each(content, self._part, "content")  # pyright: ignore[reportUnknownArgumentType]

    def _part(self, part: Object) -> rq.AnyPart:
        read = self.kinds.get(part.get("type", ""))
        if read is None:
            return rq.Opaque(NAME, reading.text(part, "type"), part)
        return read(self, part)

    def _text(self, part: Object) -> rq.Text:
        made = dressed(rq.Text(reading.needed(part, "text")), part, _TEXT)
        if made.extra is not None:
            made.refusal = bool(read_options(part).ours.get("refusal"))
        return made

    def _reasoning(self, part: Object) -> rq.Reasoning:
        made = dressed(rq.Reasoning(reading.needed(part, "text")), part, _REASONING)
        signature = reading.text(part, "signature")  # version 4's place for it
        if signature:
            made.extra = {**(made.extra or {}), "anthropic": {"signature": signature}}
            made.extra[NAME] = {**made.extra.get(NAME, {}), "_": {"signature": True}}
        return thought(made, read_options(part).ours)

    def _redacted(self, part: Object) -> rq.Reasoning:
        made = dressed(rq.Reasoning(form="redacted"), part, {"type", "data"}, kind="redacted-reasoning")
        made.extra = {**(made.extra or {}), "anthropic": {"redacted": reading.needed(part, "data")}}
        return made

    def _image(self, part: Object) -> rq.File:
        return read_file(part, "image", "image/*")

    def _file(self, part: Object) -> rq.File:
        return read_file(part, "data", "application/octet-stream")

    def _custom_part(self, part: Object) -> rq.Opaque:
        return read_custom(part)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call(self, part: Object) -> rq.Call:
        id, name = reading.needed(part, "toolCallId"), reading.needed(part, "toolName")  # noqa: A001 — as the part calls it
        word = "args" if "input" not in part and "args" in part else "input"
        made = rq.Call(id, name)
        dressed(made, part, _CALL, word="args" if word == "args" else "", silent=word not in part)
        if reading.flag(part, "providerExecuted"):
            self._ran.add(id)
            made.by, made.extra = "provider", {**(made.extra or {}), NAME: {**(made.extra or {}).get(NAME, {}), "ran": True}}
        free = name in self._custom or read_options(part).ours.get("form") == "text"
        return with_input(made, part.get(word), free=free, silent=word not in part)

    def _result(self, part: Object) -> rq.Result:
        made = rq.Result(reading.needed(part, "toolCallId"), reading.text(part, "toolName"))
        made.by = "provider" if made.call in self._ran else "client"
        if "output" in part:
            output = reading.inside(part, "output", read_output)
            made.content, made.failed = output.content, output.failed
            dressed(made, part, _RESULT, **(output.marks or {}))
            if output.denied:
                made.extra = {**(made.extra or {}), NAME: {**(made.extra or {}).get(NAME, {}), "denied": True}}
        else:
            made.content, made.failed = _old_content(part), reading.flag(part, "isError") or False
            beside = {key: part[key] for key in ("result", "experimental_content") if key in part}
            dressed(made, part, _RESULT | beside.keys() | {"isError"}, old=_old_marks(part))
        made.failed = made.failed or bool(read_options(part).ours.get("failed"))
        return made

    def _ask(self, part: Object) -> rq.Ask:
        made = rq.Ask(reading.text(part, "toolCallId"), reading.needed(part, "approvalId"))
        self._asks[made.id] = made.call
        return dressed(made, part, {"type", "toolCallId", "approvalId"})

    def _answer(self, part: Object) -> rq.Ask:
        id = reading.needed(part, "approvalId")  # noqa: A001 — as the part calls it
        made = rq.Ask(self._asks.get(id, ""), id, reading.flag(part, "approved") or False)
        return dressed(made, part, {"type", "approvalId", "approved"})

    kinds: dict[Any, Callable[[Any, Object], rq.AnyPart]] = {  # noqa: RUF012 — a table
        "text": _text, "reasoning": _reasoning, "redacted-reasoning": _redacted, "image": _image, "file": _file,
        "reasoning-file": _file, "custom": _custom_part, "tool-call": _call, "tool-result": _result,
        "tool-approval-request": _ask, "tool-approval-response": _answer,
    }  # fmt: skip
