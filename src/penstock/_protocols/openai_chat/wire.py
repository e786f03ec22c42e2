"""The wire format of OpenAI Chat Completions and its dialects: shapes of chunks and completions, finish reasons, fields
for the state of other protocols, and what cannot be expressed.

Some servers leave out or send null for any field, so every field has a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from penstock._lenient_fields import Object, as_object, get_object, get_text

if TYPE_CHECKING:
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
    type: str | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, in its OpenAI-compatible API


class ChatAudio(Struct, gc=False):
    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


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
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
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
    "stop": "stop",
    "length": "length",
    "calls": "tool_calls",
    "filter": "content_filter",
    "refusal": "content_filter",
    "pause": "stop",
    "other": "stop",
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
    state, rest = read_signature(content), other_extra_content(content)
    merged: Extra = {**({NAME: {EXTRA_CONTENT: rest}} if rest else {}), **state}
    return merged or None


def other_extra_content(content: Any) -> Object:
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


def write_details(extra: Extra | None, text: str = "", **more: Any) -> list[Object]:
    """Returns state of another protocol as a reasoning detail: encrypted data, or the signature of a text."""
    for format_name, (protocol, signature_field, encrypted_field) in DETAIL_FORMATS.items():
        fields = (extra or {}).get(protocol, {})
        if fields.get(encrypted_field):
            return [{"type": "reasoning.encrypted", "data": fields[encrypted_field], "format": format_name, **more}]
        if signature_field and fields.get(signature_field):
            signed = {"type": "reasoning.text", "text": text, "signature": fields[signature_field]}
            return [{**signed, "format": format_name, **more}]
    return []
