"""The messages of a run: answers to requests for approval are taken out, and the answer of each step is added."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._aisdk import SDK, UI_STREAM
from penstock._client.run_events import EventMerger, is_denied
from penstock._client.run_tools import DENIED
from penstock._lenient_fields import as_object, get_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CALL_WORDS = re.compile("tool|function", re.IGNORECASE)  # in a provider's finish reason


def split_approvals(messages: Sequence[rq.Message]) -> tuple[list[rq.Message], list[rq.Call], list[rq.Result]]:
    """Returns the messages without answers to requests of a run, the approved calls, and results of denied ones.

    Only calls of the last assistant message without a result count: an answer is used once. The reader of UI messages
    adds a result to a denied call. It counts as none if the page continues that message, because the page must be told.
    """
    answers = {
        part.call: part.approved
        for message in messages
        for part in message.parts
        if isinstance(part, rq.Ask) and part.approved is not None
    }
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    if not answers or last < 0:
        return list(messages), [], []
    refusals = _refusals(messages[last + 1 :])
    answered = {part.call for message in messages for part in message.parts if isinstance(part, rq.Result)}
    waiting = [call for call in _client_calls([messages[last]]) if call.id in answers]
    waiting = [call for call in waiting if call.id not in answered or call.id in refusals]
    calls = {call.id for call in _client_calls(messages)}
    kept = [_without_asks(message, calls, refusals) for message in messages]
    approved = [call for call in waiting if answers[call.id]]
    denied = [refusals.get(call.id) or _refusal(call) for call in waiting if not answers[call.id]]
    return [message for message in kept if message.parts], approved, denied


def _refusals(messages: Sequence[rq.Message]) -> dict[str, rq.Result]:
    """Returns the results of denied calls by the calls' ids, if nothing but answers and results follows the calls."""
    parts = [part for message in messages for part in message.parts]
    if not all(isinstance(part, rq.Ask | rq.Result) for part in parts):
        return {}
    return {part.call: part for part in parts if isinstance(part, rq.Result) and is_denied(part)}


def _refusal(call: rq.Call) -> rq.Result:
    return rq.Result(call.id, call.name, [rq.Text(DENIED)], failed=True, extra={SDK: {"denied": True}})


def _client_calls(messages: Sequence[rq.Message]) -> list[rq.Call]:
    parts = (part for message in messages for part in message.parts)
    return [part for part in parts if isinstance(part, rq.Call) and part.by == "client"]


def _without_asks(message: rq.Message, calls: set[str], refusals: Mapping[str, rq.Result]) -> rq.Message:
    parts = [
        part
        for part in message.parts
        if not (isinstance(part, rq.Ask) and part.call in calls)
        and not (isinstance(part, rq.Result) and refusals.get(part.call) is part)
    ]
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def insert_results(messages: list[rq.Message], results: list[rq.AnyPart]) -> list[rq.Message]:
    """Adds results behind the last assistant message and the results that follow it."""
    at = max(number for number, message in enumerate(messages) if message.role == "assistant") + 1
    while at < len(messages) and messages[at].role == "tool":
        at += 1
    return [*messages[:at], rq.Message("tool", results), *messages[at:]]


def last_message_id(messages: Sequence[rq.Message]) -> str:
    """Returns the id that a page gave the assistant's last message; empty if none is known."""
    marked = (_ui_marks(message) for message in reversed(messages))
    heads = (as_object(marks.get("head")) for marks in marked if marks.get("count"))
    return get_text(next(heads, dict[str, Any]()), "id")


def _ui_marks(message: rq.Message) -> dict[str, Any]:
    return as_object((message.extra or {}).get(UI_STREAM, {}).get("_"))


def assistant_message(answer: rq.Turn, merger: EventMerger) -> rq.Message:
    """Returns the message of an answer. Calls have the ids of the run; a call with invalid JSON becomes valid."""
    parts = [_history_part(part, merger) for part in answer.parts if not getattr(part, "choice", 0)]
    return rq.Message("assistant", parts)


def client_calls(answer: rq.Turn, merger: EventMerger) -> list[rq.Call]:
    """Returns the calls of an answer that the client must run, with the ids of the run; cut ones, too."""
    found = [part for part in answer.parts if isinstance(part, rq.Call) and part.by == "client" and not part.choice]
    return [replace(part, id=merger.renamed(part.id)) for part in found]


def reached_limit(answer: rq.Turn) -> bool:
    """True if the output limit ended the answer. A provider that ends a call with invalid JSON says "tool_calls"."""
    finish = answer.finish
    return finish is not None and finish.reason == "length" and not _CALL_WORDS.search(finish.raw)


def _history_part(part: rq.AnyPart, merger: EventMerger) -> rq.AnyPart:
    if isinstance(part, rq.Call):
        json = msgspec.json.encode({"invalid_json": part.json}).decode() if part.cut else part.json
        return replace(part, id=merger.renamed(part.id), json=json, cut=False)
    if isinstance(part, rq.Result):
        return replace(part, call=merger.renamed(part.call))
    return part


def without_output_calls(messages: Sequence[rq.Message], tool: str) -> list[rq.Message]:
    """Returns the messages with calls of the output tool as text, so that they can be sent without that tool."""
    ids = {
        part.id
        for message in messages
        for part in message.parts
        if isinstance(part, rq.Call) and tool and part.name == tool
    }
    if not ids:
        return list(messages)
    found: list[rq.Message] = []
    for message in messages:
        found += _rewrite(message, ids)
    return found


def _rewrite(message: rq.Message, ids: set[str]) -> list[rq.Message]:
    parts: list[rq.AnyPart] = []
    errors: list[rq.AnyPart] = []
    for part in message.parts:
        if isinstance(part, rq.Call) and part.id in ids:
            parts.append(rq.Text(part.json))
        elif isinstance(part, rq.Result) and part.call in ids:
            errors += [one for one in part.content if isinstance(one, rq.Text)] if part.failed else []
        else:
            parts.append(part)
    rows = [replace(message, parts=parts)] if parts else []
    return [*rows, rq.Message("user", errors)] if errors else rows
