"""Calls that the SDK answered itself: a stream tells them inside of the turn, messages as calls and results.

Canonical messages in and out, for the writers of requests; those that were read from requests have none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock import request as rq
from penstock.aisdk.words import SDK, own

if TYPE_CHECKING:
    from collections.abc import Iterable


def served(messages: Iterable[rq.Message]) -> list[rq.Message]:
    """The messages with such calls as the client's, and each turn ended where their results come in."""
    return [row for message in messages for row in _rows(message)]


def _rows(message: rq.Message) -> list[rq.Message]:
    ran = {part.id for part in message.parts if type(part) is rq.Call and own(part.extra).get("sdk")}
    if not ran:
        return [message]
    rows = [replace(message, parts=[])]
    for part in message.parts:
        answer = type(part) is rq.Result and part.call in ran
        role: rq.Role = "tool" if answer else "assistant"
        if rows[-1].role != role:
            rows.append(rq.Message(role, []))
        rows[-1].parts.append(_clients(part) if answer or (type(part) is rq.Call and part.id in ran) else part)
    return rows


def _clients(part: rq.AnyPart) -> rq.AnyPart:
    if not isinstance(part, rq.Call | rq.Result):
        return part
    left = {key: value for key, value in own(part.extra).items() if key != "sdk"}
    others = {protocol: fields for protocol, fields in (part.extra or {}).items() if protocol != SDK}
    return replace(part, by="client", extra={**others, **({SDK: left} if left else {})} or None)
