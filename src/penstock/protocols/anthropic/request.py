"""Anthropic Messages requests → canonical: the messages. `write.py` is the way back.

Tool results come inside user messages; here they are messages of role `tool`, and what stood beside them follows in a
user message marked as joined. The top-level system prompt is the first message; those further down stay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.carrying import restored
from penstock.carrying.free import free_calls
from penstock.errors import BadRequest
from penstock.protocols.anthropic.request_blocks import NAME, read_content
from penstock.protocols.anthropic.request_tools import SETTINGS, read_choice, read_settings, read_tool, spelled
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

__all__ = ["NAME", "read_message", "read_request", "read_tool"]
_REQUEST = SETTINGS | {"model", "messages", "system", "tools", "tool_choice", "stream"}
_ROLES = frozenset({"user", "assistant", "system"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    reading.as_object(body)
    messages = _system(body.get("system"))
    for row in reading.rows(body, "messages", read_message, need=True):
        messages += row
    tools = reading.rows(body, "tools", read_tool)
    free_calls(messages, tools)
    also = unsaid(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        reading.text(body, "model"),
        restored(messages),
        tools,
        read_choice(body),
        read_settings(body),
        stream=reading.flag(body, "stream") or False,
        extra=keep(NAME, rest(body, _REQUEST), also=also, **spelled(body)),
    )


def _system(given: Any) -> list[rq.Message]:
    if given in (None, "", []):
        return []
    parts = read_content(given, "system", "system")
    return [rq.Message("system", parts, extra=keep(NAME, {}, listed=isinstance(given, list)))]


def read_message(message: Object) -> list[rq.Message]:
    """One message: two where tool results and other content share it."""
    role: Any = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise BadRequest("user, assistant or system", role, "role")
    content = message.get("content")
    parts = read_content(content, "content", role)
    listed = type(content) is list and len(content) == 1  # pyright: ignore[reportUnknownArgumentType]
    marks: Object = {}
    if listed and type(parts[0]) is rq.Text:
        marks["listed"] = True
    elif not parts:
        marks["also"] = {"content": content}
    if role == "system":
        marks["inside"] = True
    unknown = rest(message, {"role", "content"}) if len(message) > 2 else {}  # noqa: PLR2004
    extra = keep(NAME, unknown, **marks) if marks or unknown else None
    if role == "user" and any(type(part) is rq.Result for part in parts):
        return _parted(parts, unknown)
    return [rq.Message(cast("rq.Role", role), parts, "", extra)]


def _parted(parts: list[rq.AnyPart], unknown: Object) -> list[rq.Message]:
    """Results first, then the rest; where they stood otherwise, their places are kept."""
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    extra = keep(NAME, unknown) if unknown else None
    if len(results) == len(parts):
        return [rq.Message("tool", results, "", extra)]
    others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
    places = [place for place, part in enumerate(parts) if type(part) is not rq.Result]
    mixed = places if places[0] < len(results) else None
    joined = rq.Message("user", others, extra=keep(NAME, {}, joined=True, places=mixed))
    return [rq.Message("tool", results, "", extra), joined]
