"""Calls of tools that take free text, read by a protocol that can only say them as an object of one string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock.carrying.inputs import INPUT
from penstock.jsontext import plain_or_raw

if TYPE_CHECKING:
    from collections.abc import Iterable


def free_calls(messages: Iterable[rq.Message], tools: Iterable[rq.Tool]) -> None:
    """Give such calls their text again, in messages that the reader has just made."""
    names = {tool.name for tool in tools if tool.kind == "custom"}
    if not names:
        return
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if type(part) is rq.Call and part.name in names and part.by == "client":
                    _free(part)


def _free(call: rq.Call) -> None:
    try:
        given: Any = plain_or_raw(call.json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return
    if isinstance(given, dict) and given.keys() == {INPUT} and isinstance(given[INPUT], str):
        call.json, call.form = given[INPUT], "text"
