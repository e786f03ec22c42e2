"""Wire format of OpenAI Chat Completions and its dialects: chunks, finish reasons, state of other protocols, bodies.

Some servers leave out or send null for any field, so every field has a default.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from penstock import _vendor_errors as vendor_errors
from penstock._lenient_fields import Object, as_object, get_object, get_text
from penstock._lenient_json import GrowingText, grow_text, is_json
from penstock._openai_chunk_encoding import fold_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.base import Frame
    from penstock.events import Extra, Reason


class FunctionCall(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # an object in some dialects


class CustomCall(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class ToolCall(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, in its OpenAI-compatible API


class ChatAudio(Struct, gc=False):
    id: str | None = None
    data: str | None = None
    transcript: str | None = None


class ChatDelta(Struct, gc=False):
    """What a chunk adds to a choice; the `message` of a whole completion has the same fields."""

    content: str | list[dict[str, Any]] | dict[str, Any] | None = None  # an object if JSON was requested
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: FunctionCall | None = None  # the API before tools
    annotations: list[dict[str, Any]] | None = None
    audio: ChatAudio | None = None
    images: list[dict[str, Any]] | None = None
    executed_tools: list[dict[str, Any]] | None = None  # run by the provider (Groq)
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature


class ChatChoice(Struct, gc=False):
    """Fields are in the usual order on the wire, which msgspec reads fastest."""

    index: int | None = None
    delta: ChatDelta | None = None
    logprobs: Any = None
    finish_reason: str | None = None
    message: ChatDelta | None = None
    content_filter_results: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class LaterChunk(Struct, gc=False):
    """A payload inside a turn. Fields that describe the turn are not decoded again."""

    choices: list[ChatChoice] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | str | None = None
    citations: list[Any] | None = None
    search_results: list[dict[str, Any]] | None = None
    x_groq: dict[str, Any] | None = None


class ChatChunk(LaterChunk, gc=False):
    """Any payload: the first chunk, a chunk without choices, a whole completion, an error."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    type: str | None = None  # keep-alives of some gateways, and errors without `error`
    message: Any = None
    detail: Any = None
    prompt_filter_results: list[Any] | None = None


class ChatUsage(Struct, gc=False):
    """Token counts under all their names."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class TokenDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


_REASON_NAMES: dict[Reason, str] = {  # canonical reason → what it is called in the dialects
    "stop": "stop end_turn eos eos_token complete stop_sequence",
    "length": "length max_tokens model_length max_output_tokens",
    "calls": "tool_calls function_call tool_use tool_call",
    "filter": "content_filter safety sensitive recitation",
    "refusal": "refusal",
}
FINISH_REASONS: dict[str, Reason] = {name: reason for reason, names in _REASON_NAMES.items() for name in names.split()}
# What an encoder writes for each canonical reason.
WIRE_REASONS: dict[Reason, str] = {
    **dict.fromkeys(("stop", "pause", "other"), "stop"),
    **dict.fromkeys(("filter", "refusal"), "content_filter"),
    "length": "length",
    "calls": "tool_calls",
}
FAILURE_REASONS = frozenset({"error", "network_error", "insufficient_system_resource"})


NAME = "openai-chat"
EXTRA_CONTENT, GOOGLE, SIGNATURE = "extra_content", "google", "thought_signature"
# https://ai.google.dev/gemini-api/docs/thought-signatures: Gemini 3 refuses a history whose calls lack signatures.
_GEMINI, _GEMINI_FIELD = "gemini", "thoughtSignature"  # where canonical extra data has it


def read_signature(content: Any) -> Extra:
    """Returns Gemini's signature in `extra_content`, as canonical state of Gemini; empty if there is none."""
    signature = get_text(get_object(as_object(content), GOOGLE), SIGNATURE)
    return {_GEMINI: {_GEMINI_FIELD: signature}} if signature else {}


def read_extra_content(content: Any) -> Extra | None:
    """Returns all of `extra_content`: the signature as state of Gemini, the rest as a field of Chat."""
    state, rest = read_signature(content), drop_content_signature(content)
    merged: Extra = {**({NAME: {EXTRA_CONTENT: rest}} if rest else {}), **state}
    return merged or None


def drop_content_signature(content: Any) -> Object:
    """Returns `extra_content` without the signature."""
    content_fields = as_object(content)
    google = {key: value for key, value in as_object(content_fields.get(GOOGLE)).items() if key != SIGNATURE}
    rest = {key: value for key, value in content_fields.items() if key != GOOGLE}
    return {**rest, GOOGLE: google} if google else rest


def merge_extra_content(fields: Object, state: Object) -> Object:
    """Returns the fields with `extra_content` merged with the signature field."""
    if not state or EXTRA_CONTENT not in fields:
        return {**fields, **state}
    content_fields = as_object(fields[EXTRA_CONTENT])
    google = {**as_object(content_fields.get(GOOGLE)), **state[EXTRA_CONTENT][GOOGLE]}
    return {**fields, EXTRA_CONTENT: {**content_fields, GOOGLE: google}}


def write_signature(extra: Extra | None) -> Object:
    """Returns the `extra_content` field for a canonical signature of Gemini; empty if there is none."""
    signature = (extra or {}).get(_GEMINI, {}).get(_GEMINI_FIELD)
    return {EXTRA_CONTENT: {GOOGLE: {SIGNATURE: signature}}} if signature else {}


def remove_signature(extra: Extra | None) -> Extra | None:
    """Returns extra data without the signature."""
    fields = {key: value for key, value in (extra or {}).get(_GEMINI, {}).items() if key != _GEMINI_FIELD}
    merged: Extra = {key: value for key, value in (extra or {}).items() if key != _GEMINI}
    return {**merged, **({_GEMINI: fields} if fields else {})} or None


# Format of a reasoning detail → (protocol, its field for the signature, its field for encrypted data).
DETAIL_FORMATS: dict[str, tuple[str, str, str]] = {
    "anthropic-claude-v1": ("anthropic", "signature", "redacted"),
    "openai-responses-v1": ("responses", "", "encrypted_content"),
}


def read_detail_state(detail: Object) -> Extra:
    """Returns the state in a reasoning detail, in the fields of the protocol it belongs to."""
    format_name = detail.get("format")
    if not isinstance(format_name, str) or format_name not in DETAIL_FORMATS:
        return {}
    protocol, signature_field, encrypted_field = DETAIL_FORMATS[format_name]
    values = {signature_field: detail.get("signature"), encrypted_field: detail.get("data")}
    state = {name: value for name, value in values.items() if name and isinstance(value, str) and value}
    return {protocol: state} if state else {}


def exceeds_details(extra: Extra | None) -> bool:
    """True if state of another protocol has fields that a detail cannot hold."""
    known = {field for _, *names in DETAIL_FORMATS.values() for field in names}
    return any(fields.keys() - known for fields in (extra or {}).values())


def write_details(extra: Extra | None, text: str = "", **other_fields: Any) -> list[Object]:
    """Returns state of another protocol as a reasoning detail: encrypted data, or the signature of a text."""
    for format_name, (protocol, signature_field, encrypted_field) in DETAIL_FORMATS.items():
        fields = (extra or {}).get(protocol, {})
        if fields.get(encrypted_field):
            return [
                {"type": "reasoning.encrypted", "data": fields[encrypted_field], "format": format_name, **other_fields}
            ]
        if signature_field and fields.get(signature_field):
            signed = {"type": "reasoning.text", "text": text, "signature": fields[signature_field]}
            return [{**signed, "format": format_name, **other_fields}]
    return []


# ── the body of an answer without a stream ────────────────────────────────────────────────────────

_LISTS = ("annotations", "images")
ERRORS = vendor_errors.openai_errors("messages")
build_error_body = partial(vendor_errors.build_openai_error_body, protocol=NAME, errors=ERRORS)


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Folds the encoder's frames into one completion."""
    return fold_chunks(frames, _add_delta, _finish_body)


def _finish_body(completion: dict[str, Any]) -> None:
    completion["object"] = "chat.completion"
    for choice in completion["choices"]:
        _finish_message(choice["message"], cut=choice["finish_reason"] in ("length", "content_filter"))


def _add_delta(choices: dict[int, dict[str, Any]], fragment: dict[str, Any]) -> None:
    empty = {"role": "assistant", "content": None, "refusal": None}
    new = {"index": fragment["index"], "message": empty, "logprobs": None, "finish_reason": None}
    choice = choices.setdefault(fragment["index"], new)
    message: dict[str, Any] = choice["message"]
    for key, value in fragment["delta"].items():
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
    if fragment["logprobs"]:
        known: dict[str, Any] = {**dict.fromkeys(fragment["logprobs"]), **(choice["logprobs"] or {})}
        choice["logprobs"] = {key: _join_lists(known[key], fragment["logprobs"].get(key)) for key in known}
    choice["finish_reason"] = fragment["finish_reason"] or choice["finish_reason"]


def _join_content(before: Any, fragment: Any) -> list[dict[str, Any]]:
    """Joins content in a list: consecutive items of the same type become one."""
    items: list[Any] = [] if isinstance(before, GrowingText | None) else before
    rows: list[Any] = [{"type": "text", "text": fragment}] if isinstance(fragment, str) else fragment
    for item in rows:
        if not items or items[-1]["type"] != item["type"]:
            items.append(item)
        elif item["type"] == "text":
            grow_text(items[-1], "text", item["text"])
        else:
            grow_text(items[-1]["thinking"][0], "text", item["thinking"][0]["text"])
    return items


def _join_lists(before: list[Any] | None, fragment: list[Any] | None) -> list[Any] | None:
    if before is None:
        return fragment
    before.extend(fragment or ())
    return before


def _join_details(details: list[dict[str, Any]], fragments: list[dict[str, Any]]) -> None:
    """Joins the text of details that continue each other."""
    for fragment in fragments:
        last = details[-1] if details else {}
        if details and all(last.get(key) == fragment.get(key) for key in ("type", "index", "id")):
            for key in ("text", "summary"):
                if isinstance(fragment.get(key), str) and isinstance(last.get(key, ""), str | GrowingText):
                    grow_text(last, key, fragment.pop(key))
            last.update(fragment)
        else:
            details.append(fragment)


def _add_call(calls: dict[int, dict[str, Any]], fragment: dict[str, Any]) -> None:
    index = fragment.pop("index")
    if index not in calls:
        calls[index] = fragment
        return
    if EXTRA_CONTENT in fragment:
        calls[index][EXTRA_CONTENT] = fragment[EXTRA_CONTENT]
    for kind, field in (("function", "arguments"), ("custom", "input")):
        if kind in fragment:
            grow_text(calls[index][kind], field, fragment[kind][field])


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
