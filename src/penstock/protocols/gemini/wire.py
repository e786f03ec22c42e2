"""Gemini as sent: the chunks of generateContent, one of which is the whole body of a non-stream answer, and payloads of
the Interactions API, which share the top level because nothing but their keys tells them apart.

Everything may be missing or null. Only what is read is declared; what is echoed stays an object.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from penstock.jsontext import as_json, fit, loose

if TYPE_CHECKING:
    from penstock.events import Extra

# ── generateContent ───────────────────────────────────────────────────────────────────────────────


class PartialArg(Struct, rename="camel", gc=False):
    """One value of a call's arguments, or the next piece of a string."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: Any = None
    will_continue: bool | None = None


class FunctionCall(Struct, rename="camel", gc=False):
    id: str | None = None
    name: str | None = None
    args: Any = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Blob(Struct, rename="camel", gc=False):
    mime_type: str | None = None
    data: str | None = None


class FileData(Struct, rename="camel", gc=False):
    mime_type: str | None = None
    file_uri: str | None = None


class ExecutableCode(Struct, gc=False):
    id: str | None = None
    language: Any = None
    code: str | None = None


class CodeExecutionResult(Struct, gc=False):
    id: str | None = None
    outcome: Any = None
    output: str | None = None


class ToolCall(Struct, rename="camel", gc=False):
    """A tool of Google's own at work: `tool_type` says which."""

    id: str | None = None
    tool_type: str | None = None
    args: Any = None


class ToolResponse(Struct, rename="camel", gc=False):
    id: str | None = None
    tool_type: str | None = None
    response: Any = None


class Part(Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None


class Content(Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    index: int | None = None
    content: Content | None = None
    finish_reason: str | int | None = None  # a number where protobuf enums were not spelled out
    finish_message: Any = None
    safety_ratings: Any = None
    citation_metadata: dict[str, Any] | None = None
    grounding_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None
    avg_logprobs: Any = None
    logprobs_result: dict[str, Any] | None = None
    token_count: Any = None


class Error(Struct, gc=False):
    code: int | str | None = None
    message: Any = None
    status: str | None = None
    details: list[Any] | None = None


class Chunk(Struct, rename="camel", gc=False):
    """One payload of either API, or an error in its place."""

    candidates: list[Candidate] | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    prompt_feedback: dict[str, Any] | None = None
    error: Error | str | None = None
    response: Chunk | None = None  # Code Assist wraps every payload
    # the same in snake case, as some proxies spell it: only to notice that all of the payload is
    snake_usage: Any = field(default=None, name="usage_metadata")
    snake_model: Any = field(default=None, name="model_version")
    snake_id: Any = field(default=None, name="response_id")
    # Interactions: an event ...
    event_type: str | None = field(default=None, name="event_type")
    interaction: Interaction | None = None
    index: int | None = None
    step: Step | None = None
    delta: StepDelta | None = None
    # ... or a whole interaction
    object: str | None = None
    id: str | None = None
    model: str | None = None
    agent: str | None = None
    created: str | None = None
    status: Any = None
    steps: list[Step] | None = None
    usage: dict[str, Any] | None = None
    errors: list[Error] | None = None


class Usage(Struct, rename="camel", gc=False):
    """Thoughts are not among the candidates' tokens, and what tools read is not among the prompt's."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    total_token_count: int | None = None


# ── grounding ─────────────────────────────────────────────────────────────────────────────────────


class Origin(Struct, rename="camel", gc=False):
    """Where a grounding chunk comes from: every kind's fields in one shape."""

    uri: str | None = None
    source_uri: str | None = None
    title: str | None = None
    text: str | None = None
    document_name: str | None = None
    place_id: str | None = None


class GroundingChunk(Struct, rename="camel", gc=False):
    web: Origin | None = None
    retrieved_context: Origin | None = None
    maps: Origin | None = None
    image: Origin | None = None


class Segment(Struct, rename="camel", gc=False):
    """A stretch of the answer, in UTF-8 bytes; zero is left out."""

    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None


class GroundingSupport(Struct, rename="camel", gc=False):
    segment: Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class GroundingMetadata(Struct, rename="camel", gc=False):
    grounding_chunks: list[GroundingChunk] | None = None
    grounding_supports: list[GroundingSupport] | None = None
    web_search_queries: list[str] | None = None
    image_search_queries: list[str] | None = None
    retrieval_queries: list[str] | None = None


class Citation(Struct, rename="camel", gc=False):
    uri: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class CitationMetadata(Struct, rename="camel", gc=False):
    citations: list[Citation] | None = None  # Vertex
    citation_sources: list[Citation] | None = None  # the Gemini API


class UrlMetadata(Struct, rename="camel", gc=False):
    retrieved_url: str | None = None
    url_retrieval_status: Any = None


class UrlContextMetadata(Struct, rename="camel", gc=False):
    url_metadata: list[UrlMetadata] | None = None


# ── Interactions ──────────────────────────────────────────────────────────────────────────────────


class StepContent(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    annotations: list[Annotation] | None = None
    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None


class Annotation(Struct, gc=False):
    type: str | None = None
    url: str | None = None
    title: str | None = None
    name: str | None = None
    document_uri: str | None = None
    file_name: str | None = None
    source: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class Step(Struct, gc=False):
    """A step as it begins, or whole. `arguments` and `result` hold what a tool was given and gave."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    server_name: str | None = None
    signature: str | None = None
    arguments: Any = None
    result: Any = None
    is_error: bool | None = None
    summary: list[StepContent] | None = None
    content: list[StepContent] | None = None
    error: Error | None = None


class StepDelta(Struct, gc=False):
    """Every kind of delta in one shape; `type` says which fields count."""

    type: str | None = None
    text: str | None = None
    content: StepContent | None = None
    signature: str | None = None
    arguments: Any = None
    result: Any = None
    is_error: bool | None = None
    name: str | None = None
    annotations: list[Annotation] | None = None
    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None


class Interaction(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    agent: str | None = None
    created: str | None = None
    status: str | None = None
    steps: list[Step] | None = None
    usage: dict[str, Any] | None = None
    errors: list[Error] | None = None


class InteractionUsage(Struct, gc=False):
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    total_thought_tokens: int | None = None
    total_tool_use_tokens: int | None = None
    total_cached_tokens: int | None = None


NAME = "gemini"
SEAL: Extra = {NAME: {"partMetadata": {"penstock": "system"}}}  # on marks that we have written: no text can hold it


def own(**fields: Any) -> Extra | None:
    """Extra data of this protocol, without the fields that say nothing."""
    told = {key: value for key, value in fields.items() if value is not None and value is not False}
    return {NAME: told} if told else None


def said(**fields: Any) -> dict[str, Any]:
    """An object without the fields that are unknown."""
    return {key: value for key, value in fields.items() if value is not None}


def owned(extra: Extra | None) -> dict[str, Any]:
    """This protocol's corner of an event's extra data."""
    return extra.get(NAME, {}) if extra else {}


def shaped(value: dict[str, Any], shape: Any) -> Any:
    """An object that is kept as it was, read as a Struct; what does not fit is left out of the Struct alone."""
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass
    try:
        return fit(msgspec.json.decode(as_json(value)), shape)[0]
    except msgspec.ValidationError:
        return shape()


_HUMP = re.compile(r"_([a-z0-9])")
_DATA = frozenset({"args", "response", "custom_metadata", "part_metadata"})  # the keys below are the application's
_KNOWN = frozenset({"thought", "thoughtSignature", "thought_signature", "text"})
_QUIET = frozenset({"thought", "thought_signature", "text"})


def camel(value: Any) -> Any:
    """The value with its keys in camel case."""
    if isinstance(value, list):
        return [camel(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_HUMP.sub(lambda match: match[1].upper(), str(key)): _inner(key, one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def keys(source: dict[str, Any]) -> dict[str, Any]:
    """The object with its own keys in camel case, whatever is below them; itself where they are."""
    for key in source:
        if "_" in key:
            return {_HUMP.sub(lambda match: match[1].upper(), name): value for name, value in source.items()}
    return source


def _inner(key: str, value: Any) -> Any:
    if key not in _DATA or (isinstance(value, dict) and "candidates" in value):  # Code Assist's `response` is no tool's
        return camel(value)
    return value  # pyright: ignore[reportUnknownVariableType]


def camel_chunk(data: bytes) -> Chunk:
    """A payload read once more, in camel case."""
    try:
        chunk: Chunk = fit(camel(loose(data)), Chunk)[0]
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return Chunk()
    return chunk


def camel_part(data: bytes, candidate: int, number: int) -> tuple[dict[str, Any], Part | None]:
    """A part read once more: as it was sent, less the keys that say nothing, and in camel case if that says more."""
    try:
        body: Any = loose(data)
        raw: dict[str, Any] = body.get("response", body)["candidates"][candidate]["content"]["parts"][number]
        told = {key: value for key, value in raw.items() if key not in _KNOWN and value is not None}
        part: Part = fit(camel(raw), Part)[0]
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError, RecursionError):
        return {}, None
    said = any(getattr(part, name) is not None for name in Part.__struct_fields__ if name not in _QUIET)
    return (raw if told else {}), part if said and told else None


def created(time: str | None) -> int | None:
    """Seconds of a time such as `2025-06-01T10:00:00.123456Z`."""
    try:
        return int(datetime.fromisoformat(time).timestamp()) if time else None
    except (ValueError, OverflowError):
        return None
