"""Gemini payloads as sent: chunks of generateContent (a non-stream body is one chunk) and Interactions events.

Both APIs share the type `Chunk`, because only the keys tell them apart. Every field may be missing or null. Only fields
that are read are declared; echoed fields stay plain objects. Helpers for extra data and snake case follow below.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from penstock._diagnostics import read_tables
from penstock._lenient_json import as_json, convert_pruned, parse_lenient

if TYPE_CHECKING:
    from penstock.events import Extra

NAME = "gemini"
# Marks parts that we wrote. Text cannot contain it.
SYSTEM_SEAL: Extra = {NAME: {"partMetadata": {"penstock": "system"}}}
ENUMS = read_tables(__name__.rpartition(".")[0], "enums.toml")

# ── generateContent ───────────────────────────────────────────────────────────────────────────────


class PartialArg(Struct, rename="camel", gc=False):
    """One value of a call's arguments, or the next fragment of a string."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    will_continue: bool | None = None


class FunctionCall(Struct, rename="camel", gc=False):
    id: str | None = None
    name: str | None = None
    args: Any = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class FileData(Struct, rename="camel", gc=False):
    """A file: its Base64 data, or its URI."""

    mime_type: str | None = None
    data: str | None = None
    file_uri: str | None = None


class ToolRun(Struct, rename="camel", gc=False):
    """A call or a result of a tool that Google runs. One type has the fields of every kind of run."""

    id: str | None = None
    language: Any = None  # of executable code
    code: str | None = None
    outcome: Any = None  # of executed code
    output: str | None = None
    tool_type: str | None = None  # the name of another tool
    args: Any = None
    response: Any = None


class Part(Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: FileData | None = None
    file_data: FileData | None = None
    executable_code: ToolRun | None = None
    code_execution_result: ToolRun | None = None
    tool_call: ToolRun | None = None
    tool_response: ToolRun | None = None


class Content(Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    index: int | None = None
    content: Content | None = None
    finish_reason: str | int | None = None  # a number if protobuf enums were sent without names
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


class Interaction(Struct, gc=False):
    """An interaction, complete or inside an event."""

    id: str | None = None
    model: str | None = None
    agent: str | None = None
    created: str | None = None
    status: Any = None
    steps: list[Step] | None = None
    usage: dict[str, Any] | None = None
    errors: list[Error] | None = None


class Chunk(Interaction, rename="camel", gc=False):
    """One payload of either API, or an error object. A complete interaction has `object`."""

    candidates: list[Candidate] | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    prompt_feedback: dict[str, Any] | None = None
    error: Error | str | None = None
    response: Chunk | None = None  # Code Assist wraps every payload
    # Snake-case keys, as some proxies send them. They only show that the whole payload uses snake case.
    snake_usage: Any = field(default=None, name="usage_metadata")
    snake_model: Any = field(default=None, name="model_version")
    snake_id: Any = field(default=None, name="response_id")
    # Interactions API: an event
    event_type: str | None = field(default=None, name="event_type")
    interaction: Interaction | None = None
    index: int | None = None
    step: Step | None = None
    delta: StepDelta | None = None
    object: str | None = None


# ── grounding ─────────────────────────────────────────────────────────────────────────────────────


class Origin(Struct, rename="camel", gc=False):
    """The source of a grounding chunk. One type has the fields of every kind of source."""

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
    """A range of the answer in UTF-8 bytes, or its citation. Protobuf omits zero."""

    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None
    uri: str | None = None
    title: str | None = None


class GroundingSupport(Struct, rename="camel", gc=False):
    segment: Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class UrlMetadata(Struct, rename="camel", gc=False):
    retrieved_url: str | None = None
    url_retrieval_status: Any = None


class GroundingMetadata(Struct, rename="camel", gc=False):
    """Grounding, citation or URL context metadata. One type has the fields of the three objects."""

    grounding_chunks: list[GroundingChunk] | None = None
    grounding_supports: list[GroundingSupport] | None = None
    web_search_queries: list[str] | None = None
    image_search_queries: list[str] | None = None
    retrieval_queries: list[str] | None = None
    citations: list[Segment] | None = None  # Vertex AI
    citation_sources: list[Segment] | None = None  # Gemini API
    url_metadata: list[UrlMetadata] | None = None


# ── Interactions ──────────────────────────────────────────────────────────────────────────────────


class StepContent(Struct, gc=False):
    """A content, and the fields that steps and their deltas share."""

    type: str | None = None
    name: str | None = None
    signature: str | None = None
    arguments: Any = None
    result: Any = None
    is_error: bool | None = None
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


class Step(StepContent, gc=False):
    """The start of a step, or a complete step. `arguments` and `result` are a tool's input and output."""

    id: str | None = None
    call_id: str | None = None
    server_name: str | None = None
    summary: list[StepContent] | None = None
    content: list[StepContent] | None = None
    error: Error | None = None


class StepDelta(StepContent, gc=False):
    """All kinds of delta; `type` says which fields are set."""

    content: StepContent | None = None


# ── extra data ────────────────────────────────────────────────────────────────────────────────────


def build_gemini_extra(**fields: Any) -> Extra | None:
    """Builds this protocol's extra data from the fields that are neither None nor False."""
    present = {key: value for key, value in fields.items() if value is not None and value is not False}
    return {NAME: present} if present else None


def get_gemini_fields(extra: Extra | None) -> dict[str, Any]:
    """Returns this protocol's fields of an event's extra data."""
    return extra.get(NAME, {}) if extra else {}


def drop_none(**fields: Any) -> dict[str, Any]:
    """Builds an object from the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def sum_counts(counts: dict[str, Any], *names: str) -> int | None:
    """Returns the sum of the known counts; None if none is known."""
    known = [count for name in names if (count := _convert_count(counts.get(name))) is not None]
    return sum(known) if known else None


def _convert_count(value: Any) -> int | None:
    if value is None or type(value) is int:
        return value
    try:
        return msgspec.convert(value, int, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def convert_leniently(value: dict[str, Any], struct: Any) -> Any:
    """Converts an object to a Struct; fields of a wrong type get their default."""
    try:
        return msgspec.convert(value, struct, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass
    try:
        return convert_pruned(msgspec.json.decode(as_json(value)), struct)[0]
    except msgspec.ValidationError:
        return struct()


# ── snake case and times ──────────────────────────────────────────────────────────────────────────

_UNDERSCORE = re.compile(r"_([a-z0-9])")
_APPLICATION_DATA = frozenset({"args", "response", "custom_metadata", "part_metadata"})  # keys below belong to the user
_TEXT_KEYS = frozenset({"thought", "thoughtSignature", "thought_signature", "text"})


def to_camel_case(name: str) -> str:
    """`web_search` → `webSearch`."""
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


def to_camel_keys(source: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with its top-level keys in camel case; the same object if they already are."""
    for key in source:
        if "_" in key:
            return {to_camel_case(name): value for name, value in source.items()}
    return source


def to_camel_keys_deep(value: Any) -> Any:
    """Returns the value with the keys of all levels in camel case, except inside the application's own data."""
    if isinstance(value, list):
        return [to_camel_keys_deep(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return to_camel_keys(
            {
                str(key): one if key in _APPLICATION_DATA and not _is_wrapped_chunk(one) else to_camel_keys_deep(one)  # pyright: ignore[reportUnknownArgumentType]
                for key, one in value.items()  # pyright: ignore[reportUnknownVariableType]
            }
        )
    return value


def _is_wrapped_chunk(value: Any) -> bool:
    """True for the `response` that Code Assist wraps around a chunk; other responses belong to a tool."""
    return isinstance(value, dict) and "candidates" in value


def reread_chunk(data: bytes) -> Chunk:
    """Parses a snake-case payload."""
    try:
        chunk: Chunk = convert_pruned(to_camel_keys_deep(parse_lenient(data)), Chunk)[0]
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return Chunk()
    return chunk


def reread_part(data: bytes, candidate: int, number: int) -> tuple[dict[str, Any], Part | None]:
    """Parses one part again. Returns it as sent if it has unknown keys, and as a Struct if snake case explains them."""
    try:
        body: Any = parse_lenient(data)
        raw: dict[str, Any] = body.get("response", body)["candidates"][candidate]["content"]["parts"][number]
        has_other_keys = any(key not in _TEXT_KEYS and value is not None for key, value in raw.items())
        part: Part = convert_pruned(to_camel_keys_deep(raw), Part)[0]
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError, RecursionError):
        return {}, None
    if not has_other_keys:
        return {}, None
    known = any(getattr(part, name) is not None for name in Part.__struct_fields__ if name not in _TEXT_KEYS)
    return raw, part if known else None


def parse_time(time: str | None) -> int | None:
    """Converts a time such as `2025-06-01T10:00:00.123456Z` to seconds."""
    try:
        return int(datetime.fromisoformat(time).timestamp()) if time else None
    except (ValueError, OverflowError):
        return None
