"""Calls of built-in tools, and what the client answers → their items again: as they were, but for what was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import plain_or_raw
from penstock.pick import as_object
from penstock.protocols.responses.request_builtin import read_output
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.tools import ANSWERS, LATE, given

if TYPE_CHECKING:
    from penstock.pick import Object


def undrawn(messages: list[rq.Message]) -> list[rq.Message]:
    """The messages without pictures that a tool drew: they are in the items of its calls."""
    made: list[rq.Message] | None = None
    for place, message in enumerate(messages):
        if message.role == "assistant" and any(type(part) is rq.File and _drawn(part) for part in message.parts):
            parts = [part for part in message.parts if type(part) is not rq.File or not _drawn(part)]
            made = made or list(messages)
            made[place] = replace(message, parts=parts)
    return made or messages


def _drawn(file: rq.File) -> bool:
    return (file.extra or {}).get(NAME, {}).get("type") == "image_generation_call"


def call_item(call: rq.Call, item: Object) -> Object:
    """The item of a call that the client runs."""
    tool = LATE.get(item.get("type", ""))
    if tool is not None and given(item, tool) != call.json:
        try:
            item = {**item, **as_object(plain_or_raw(call.json))}
        except (msgspec.DecodeError, UnicodeEncodeError):
            return _named(item, call.id)
    return _named(item, call.id)


def _named(item: Object, call: str) -> Object:
    """The item with the id of its call, which may have been mapped. One kind has it under another name."""
    key = "id" if item.get("type") == "local_shell_call_output" and not item.get("call_id") else "call_id"
    if not call or item.get(key) == call or (key not in item and item.get("id") == call):
        return item
    return {**item, key: call}


def output_item(result: rq.Result, item: Object) -> Object:
    """The item of what the client answered. Words that were changed are put in place of the old ones."""
    if item.get("type") in ANSWERS and read_output(item) != result.content:
        words = "\n".join(_words(part) for part in result.content)
        output: Any = words
        if item["type"] == "shell_call_output":
            outcome = {"type": "exit", "exit_code": int(result.failed)}
            output = [{"stdout": words, "stderr": "", "outcome": outcome}]
        if isinstance(item.get("output"), str | list):
            item = {**item, "output": output}
    return _named(item, result.call)


def _words(part: rq.ResultPart) -> str:
    return part.text if type(part) is rq.Text else part.json if type(part) is rq.Json else ""
