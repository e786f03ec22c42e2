"""Gemini as sent: the chunks of generateContent, one of which is the whole body of a non-stream answer, and payloads of
the Interactions API, which share the top level because nothing but their keys tells them apart.

Everything may be missing or null. Only what is read is declared; what is echoed stays an object.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

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
