"""OpenAI Chat Completions as sent, with the dialects of those who imitate it: chunks, and whole completions.

Everything may be missing or null somewhere in the wild, so everything has a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from penstock.lenient_fields import as_object, get_object, get_text

if TYPE_CHECKING:
    from penstock.codec import Losses
    from penstock.events import Extra, Reason
    from penstock.lenient_fields import Object


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # an object in some dialects


class Custom(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class ToolCall(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, behind its OpenAI face


class Audio(Struct, gc=False):
    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class Delta(Struct, gc=False):
    """What a choice adds; in a whole completion its `message` has the same fields."""

    content: str | list[dict[str, Any]] | dict[str, Any] | None = None  # an object where JSON was asked for
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None  # before there were tools
    annotations: list[dict[str, Any]] | None = None
    audio: Audio | None = None
    images: list[dict[str, Any]] | None = None
    executed_tools: list[dict[str, Any]] | None = None  # run by the provider (Groq)
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, as in calls


class Choice(Struct, gc=False):
    """In the order in which they are usually sent, which is read fastest."""

    index: int | None = None
    delta: Delta | None = None
    logprobs: Any = None
    finish_reason: str | None = None
    message: Delta | None = None
    content_filter_results: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class More(Struct, gc=False):
    """A payload inside a turn, as far as it matters there: what names the turn is not read again."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | str | None = None
    citations: list[Any] | None = None
    search_results: list[dict[str, Any]] | None = None
    x_groq: dict[str, Any] | None = None


class Chunk(More, gc=False):
    """Any payload: the one that begins a turn, one without choices, a whole completion, an error."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    type: str | None = None  # keep-alives of some gateways, and errors without an `error`
    message: Any = None
    detail: Any = None
    prompt_filter_results: list[Any] | None = None


class Usage(Struct, gc=False):
    """Token counts under every name they go by."""

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


REASONS: dict[str, Reason] = {
    "stop": "stop", "end_turn": "stop", "eos": "stop", "eos_token": "stop", "complete": "stop", "stop_sequence": "stop",
    "length": "length", "max_tokens": "length", "model_length": "length", "max_output_tokens": "length",
    "tool_calls": "calls", "function_call": "calls", "tool_use": "calls", "tool_call": "calls",
    "content_filter": "filter", "safety": "filter", "sensitive": "filter", "recitation": "filter",
    "refusal": "refusal",
}  # fmt: skip
FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})


NAME = "openai-chat"
FIELD, GOOGLE, SIGNATURE = "extra_content", "google", "thought_signature"
_PROTOCOL, _STATE = "gemini", "thoughtSignature"  # where canonical extra data keep it


def read_state(content: Any) -> Extra:
    """What `extra_content` holds, as state of the protocol whose state it is; nothing where it holds none."""
    signature = get_text(get_object(as_object(content), GOOGLE), SIGNATURE)
    return {_PROTOCOL: {_STATE: signature}} if signature else {}


def read_extra(content: Any) -> Extra | None:
    """All of `extra_content`: the state, and what else it holds as a field of this protocol."""
    state, rest = read_state(content), rest_of(content)
    made: Extra = {**({NAME: {FIELD: rest}} if rest else {}), **state}
    return made or None


def rest_of(content: Any) -> Object:
    """What else `extra_content` holds."""
    given = as_object(content)
    google = {key: value for key, value in as_object(given.get(GOOGLE)).items() if key != SIGNATURE}
    rest = {key: value for key, value in given.items() if key != GOOGLE}
    return {**rest, GOOGLE: google} if google else rest


def merged_content(own: Object, state: Object) -> Object:
    """A protocol's own fields with the field for state: what else stands in that field stays."""
    if not state or FIELD not in own:
        return {**own, **state}
    given = as_object(own[FIELD])
    return {**own, FIELD: {**given, GOOGLE: {**as_object(given.get(GOOGLE)), **state[FIELD][GOOGLE]}}}


def write_state(extra: Extra | None) -> Object:
    """The field for the state in canonical extra data; nothing where there is none."""
    signature = (extra or {}).get(_PROTOCOL, {}).get(_STATE)
    return {FIELD: {GOOGLE: {SIGNATURE: signature}}} if signature else {}


def without_state(extra: Extra | None) -> Extra | None:
    """Extra data without that state."""
    own = {key: value for key, value in (extra or {}).get(_PROTOCOL, {}).items() if key != _STATE}
    made: Extra = {key: value for key, value in (extra or {}).items() if key != _PROTOCOL}
    return {**made, **({_PROTOCOL: own} if own else {})} or None


# Whose state a detail's format says it is, and under which names that protocol keeps (signature, sealed data).
FORMATS: dict[str, tuple[str, str, str]] = {
    "anthropic-claude-v1": ("anthropic", "signature", "redacted"),
    "openai-responses-v1": ("responses", "", "encrypted_content"),
}


def state_of(detail: Object) -> Extra:
    """The state in a detail, as the protocol keeps it whose state it is."""
    form = detail.get("format")
    if not isinstance(form, str) or form not in FORMATS:
        return {}
    protocol, signed, sealed = FORMATS[form]
    found = {signed: detail.get("signature"), sealed: detail.get("data")}
    state = {name: value for name, value in found.items() if name and isinstance(value, str) and value}
    return {protocol: state} if state else {}


def has_more(extra: Extra | None) -> bool:
    """Whether state of another protocol is more than a detail can hold."""
    held = {word for _, signed, sealed in FORMATS.values() for word in (signed, sealed)}
    return any(own.keys() - held for own in (extra or {}).values())


def write_details(extra: Extra | None, **more: Any) -> list[Object]:
    """State of another protocol as a detail: sealed, or the signature of words that stand in a field beside it."""
    for form, (protocol, signed, sealed) in FORMATS.items():
        own = (extra or {}).get(protocol, {})
        if own.get(sealed):
            return [{"type": "reasoning.encrypted", "data": own[sealed], "format": form, **more}]
        if signed and own.get(signed):
            return [{"type": "reasoning.text", "text": "", "signature": own[signed], "format": form, **more}]
    return []


LOSSES: Losses = {
    "free-text": "free text is written as a function's argument `input`, unless the client offered custom tools",
    "cut-file": "a picture that a fault broke off is not written",
    "data": "an application's own data has no field",
    "provider-call": "a tool run by the provider has no field; its words are in the text that follows",
    "approval": "a request for approval has no field",
    "opaque": "opaque state of another protocol has no field",
    "file": "a file that is neither image nor audio has no field",
    "cut-call": "a call that was cut is left out; where its input was sent whole, it cannot be taken back",
    "media": "a sound has no type here: it is just audio",
    "order": "calls come in the order in which their input began",
    "overlap": "the words of parts that are open at once come in the order they were said",
    "span": "a citation is placed in all of the text: texts with something between them are one",
    "steps": "the usage of single steps is not written, only that of the turn",
    "text-state": "what another protocol keeps with a text is not written",
    "pause": "a paused turn is written as stopped",
    "reason": "a finish reason without a word here is written as the nearest",
    "unknown": "another protocol's unknown payload is not written",
}
