"""Bodies of Chat responses without a stream: a completion folded from its chunks, and an error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import _openai_errors as openai_errors
from penstock._jsontext import GrowingText, grow_text, is_json
from penstock._openai_chunks import fold_chunks
from penstock._protocols.openai_chat.wire import EXTRA_CONTENT, NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.frame import Frame

_LISTS = ("annotations", "images")
ERRORS = openai_errors.errors_with_prompt("messages")
error_body = partial(openai_errors.error_body, protocol=NAME, errors=ERRORS)


def body(frames: Sequence[Frame]) -> bytes:
    """Folds the encoder's frames into one completion."""
    return fold_chunks(frames, _add_delta, _finish_body)


def _finish_body(completion: dict[str, Any]) -> None:
    completion["object"] = "chat.completion"
    for choice in completion["choices"]:
        _finish_message(choice["message"], cut=choice["finish_reason"] in ("length", "content_filter"))


def _add_delta(choices: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    empty = {"role": "assistant", "content": None, "refusal": None}
    new = {"index": more["index"], "message": empty, "logprobs": None, "finish_reason": None}
    choice = choices.setdefault(more["index"], new)
    message: dict[str, Any] = choice["message"]
    for key, value in more["delta"].items():
        if key == "tool_calls":
            _add_call(message.setdefault("tool_calls", {}), value[0])
        elif key == "reasoning_details":
            _join_details(message.setdefault(key, []), value)
        elif key in _LISTS:
            message.setdefault(key, []).extend(value)
        elif key == "audio":
            grow_text(message.setdefault("audio", {}), "data", value["data"])
        elif key == "extra_content":
            message[key] = value
        elif key == "content" and (isinstance(value, list) or isinstance(message["content"], list)):
            message[key] = _join_content(message[key], value)
        elif key != "role":
            grow_text(message, key, value)
    if more["logprobs"]:
        known: dict[str, Any] = {**dict.fromkeys(more["logprobs"]), **(choice["logprobs"] or {})}
        choice["logprobs"] = {key: _join_lists(known[key], more["logprobs"].get(key)) for key in known}
    choice["finish_reason"] = more["finish_reason"] or choice["finish_reason"]


def _join_content(before: Any, more: Any) -> list[dict[str, Any]]:
    """Joins content in a list: consecutive items of one type become one."""
    chunks: list[Any] = [] if isinstance(before, GrowingText | None) else before
    rows: list[Any] = [{"type": "text", "text": more}] if isinstance(more, str) else more
    for one in rows:
        if not chunks or chunks[-1]["type"] != one["type"]:
            chunks.append(one)
        elif one["type"] == "text":
            grow_text(chunks[-1], "text", one["text"])
        else:
            grow_text(chunks[-1]["thinking"][0], "text", one["thinking"][0]["text"])
    return chunks


def _join_lists(before: list[Any] | None, more: list[Any] | None) -> list[Any] | None:
    if before is None:
        return more
    before.extend(more or ())
    return before


def _join_details(details: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    """Joins the text of details that continue each other."""
    for one in more:
        last = details[-1] if details else {}
        if details and all(last.get(key) == one.get(key) for key in ("type", "index", "id")):
            for key in ("text", "summary"):
                if isinstance(one.get(key), str) and isinstance(last.get(key, ""), str | GrowingText):
                    grow_text(last, key, one.pop(key))
            last.update(one)
        else:
            details.append(one)


def _add_call(calls: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    index = more.pop("index")
    if index not in calls:
        calls[index] = more
        return
    if EXTRA_CONTENT in more:
        calls[index][EXTRA_CONTENT] = more[EXTRA_CONTENT]
    for kind, field in (("function", "arguments"), ("custom", "input")):
        if kind in more:
            grow_text(calls[index][kind], field, more[kind][field])


def _finish_message(message: dict[str, Any], *, cut: bool) -> None:
    """Lists the calls of a message, without those that were cut: a body cannot mark them."""
    is_blank = isinstance(message["content"], GrowingText) and not str(message["content"])
    if is_blank and (message.get("tool_calls") or message["refusal"]):
        message["content"] = None
    if "tool_calls" in message:
        complete = [call for call in message.pop("tool_calls").values() if _is_complete(call, cut=cut)]
        message.update({"tool_calls": complete} if complete else {})


def _is_complete(call: dict[str, Any], *, cut: bool) -> bool:
    if "custom" in call:
        return not cut
    arguments = str(call["function"]["arguments"])
    return is_json(arguments) if arguments else not cut
