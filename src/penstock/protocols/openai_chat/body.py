"""Error objects of Chat and its dialects → a fault, and a fault → the error object that OpenAI would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import openai_errors
from penstock.jsontext import GrowingText, decode_own, encode, grow, is_json
from penstock.lenient_fields import as_object
from penstock.protocols.openai_chat.wire import FIELD, NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Fault
    from penstock.framing import Frame

ERRORS = openai_errors.errors_with_prompt("messages")


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}


_LISTS = ("annotations", "images")


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = as_object(decode_own(data))
        if "error" in chunk:
            return data
        if "choices" not in chunk:
            continue  # an unknown payload, which a body has no place for
        for choice in chunk.pop("choices"):
            _grow(choices, choice)
        whole.update(chunk)
    whole.update(object="chat.completion", choices=[choices[index] for index in sorted(choices)])
    for choice in choices.values():
        _settle(choice["message"], cut=choice["finish_reason"] in ("length", "content_filter"))
    return encode(whole)


def _grow(choices: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    choice = choices.setdefault(more["index"], {
        "index": more["index"], "message": {"role": "assistant", "content": None, "refusal": None}, "logprobs": None,
        "finish_reason": None,
    })  # fmt: skip
    message: dict[str, Any] = choice["message"]
    for key, value in more["delta"].items():
        if key == "tool_calls":
            _call(message.setdefault("tool_calls", {}), value[0])
        elif key == "reasoning_details":
            _details(message.setdefault(key, []), value)
        elif key in _LISTS:
            message.setdefault(key, []).extend(value)
        elif key == "audio":
            grow(message.setdefault("audio", {}), "data", value["data"])
        elif key == "extra_content":
            message[key] = value
        elif key == "content" and (isinstance(value, list) or isinstance(message["content"], list)):
            message[key] = _content(message[key], value)
        elif key != "role":
            grow(message, key, value)
    if more["logprobs"]:
        said: dict[str, Any] = choice["logprobs"] or {}
        known = {**dict.fromkeys(more["logprobs"]), **said}
        choice["logprobs"] = {key: _joined(known[key], more["logprobs"].get(key)) for key in known}
    choice["finish_reason"] = more["finish_reason"] or choice["finish_reason"]


def _content(before: Any, more: Any) -> list[dict[str, Any]]:
    """Thoughts and text in a row, each put together again."""
    chunks: list[Any] = [] if isinstance(before, GrowingText | None) else before
    rows: list[Any] = [{"type": "text", "text": more}] if isinstance(more, str) else more
    for one in rows:
        if not chunks or chunks[-1]["type"] != one["type"]:
            chunks.append(one)
        elif one["type"] == "text":
            grow(chunks[-1], "text", one["text"])
        else:
            grow(chunks[-1]["thinking"][0], "text", one["thinking"][0]["text"])
    return chunks


def _joined(before: list[Any] | None, more: list[Any] | None) -> list[Any] | None:
    if before is None:
        return more
    before.extend(more or ())
    return before


def _details(details: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    """Put the words of a detail together again."""
    for one in more:
        last = details[-1] if details else {}
        if details and all(last.get(key) == one.get(key) for key in ("type", "index", "id")):
            for key in ("text", "summary"):
                if isinstance(one.get(key), str) and isinstance(last.get(key, ""), str | GrowingText):
                    grow(last, key, one.pop(key))
            last.update(one)
        else:
            details.append(one)


def _call(calls: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    index = more.pop("index")
    if index not in calls:
        calls[index] = more
        return
    if FIELD in more:
        calls[index][FIELD] = more[FIELD]
    for kind, field in (("function", "arguments"), ("custom", "input")):
        if kind in more:
            grow(calls[index][kind], field, more[kind][field])


def _settle(message: dict[str, Any], *, cut: bool) -> None:
    """Calls in a row; those cut off are left out, because a body has no way to say that they are not whole."""
    silent = isinstance(message["content"], GrowingText) and not str(message["content"])
    if silent and (message.get("tool_calls") or message["refusal"]):
        message["content"] = None
    if "tool_calls" in message:
        kept = [call for call in message.pop("tool_calls").values() if _whole(call, cut=cut)]
        message.update({"tool_calls": kept} if kept else {})


def _whole(call: dict[str, Any], *, cut: bool) -> bool:
    if "custom" in call:
        return not cut
    given = str(call["function"]["arguments"])
    return is_json(given) if given else not cut
