"""Where in a JSON body the setting or part is that a diagnostic of a request is about, as JSON Pointers (RFC 6901).

Protocols spell settings differently, so all their names are searched for. Not found: the place is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._diagnostics import Diagnostic

MAX_PLACES = 5  # of one diagnostic in one body
MAX_SEARCHED = 50_000  # values of a body that are searched
_MAX_DEPTH = 12
_SETTING_DEPTH = 3  # of fields that are settings
_DEEP = frozenset({"cache", "detail", "strict", "namespace", "options"})  # settings of messages and tools
LOSS, CARRIED = "loss-", "carried-"
# Canonical setting, or the end of a diagnostic's code → names of the field in the protocols' bodies.
_FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "max_output": "max_tokens max_completion_tokens max_output_tokens maxOutputTokens maxTokens num_predict",
        "temperature": "temperature",
        "top_p": "top_p topP",
        "top_k": "top_k topK k",
        "stop": "stop stop_sequences stopSequences",
        "seed": "seed",
        "frequency_penalty": "frequency_penalty frequencyPenalty",
        "presence_penalty": "presence_penalty presencePenalty",
        "choices": "n candidateCount",
        "logprobs": "logprobs responseLogprobs",
        "top_logprobs": "top_logprobs",
        "format": "response_format responseSchema responseJsonSchema output_format output_config responseFormat",
        "parallel_calls": "parallel_tool_calls disable_parallel_tool_use",
        "effort": "reasoning_effort effort thinkingLevel reasoningEffort",
        "budget": "budget_tokens thinkingBudget reasoning_effort effort",
        "thoughts": "includeThoughts summary",
        "verbosity": "verbosity",
        "tier": "service_tier serviceTier",
        "user": "user user_id safety_identifier",
        "metadata": "metadata",
        "cache_key": "prompt_cache_key promptCacheKey",
        "store": "store",
        "options": "providerOptions provider_options",
        "choice": "tool_choice toolChoice toolConfig",
        "allowed": "tool_choice toolChoice toolConfig",
        "cache": "cache_control cachePoint cacheControl",
        "detail": "detail",
        "strict": "strict",
        "namespace": "namespace",
    }.items()
}
_ALIASES = {
    "output-limit": "max_output", "max-output": "max_output", "reasoning-budget": "budget", "top-k": "top_k",
    "any-json": "format", "cache-points": "cache",
}  # fmt: skip
# End of a diagnostic's code → types of the parts that it is about.
_TYPES: dict[str, frozenset[str]] = {
    name: frozenset(types.split())
    for name, types in {
        "reasoning": "thinking redacted_thinking reasoning",
        "reasoning-state": "thinking redacted_thinking reasoning",
        "reasoning-only": "thinking redacted_thinking reasoning",
        "unsigned": "thinking redacted_thinking reasoning",
        "encrypted-content": "reasoning",
        "file": "document file input_file image_url image input_image",
        "file-id": "document file input_file image input_image",
        "media": "document file input_file image input_image",
        "orphan-result": "tool_result function_call_output",
        "json-result": "tool_result function_call_output",
    }.items()
}
_SCHEMAS = frozenset({"input_schema", "parameters", "inputSchema", "schema", "input", "arguments", "properties"})


def loss_kind(code: str) -> str:
    """Returns whether something was `lost`, is `carried` in another way, or was `repaired`."""
    if code.startswith(LOSS):
        return "lost"
    return "carried" if code.startswith(CARRIED) else "repaired"


def find_places(row: Diagnostic, body: Any) -> list[str]:
    """Returns the places in a body that a diagnostic is about; none if they are not known."""
    subject = row.name or row.code.removeprefix(LOSS).removeprefix(CARRIED)
    subject = _ALIASES.get(subject, subject)
    fields = _FIELDS.get(subject, frozenset({row.name} if row.name else ()))
    types = _TYPES.get(subject, frozenset())
    if not fields and not types:
        return []
    places: list[str] = []
    for place, name, value in _walk(body):
        if place.startswith("/metadata/") and subject != "user":
            continue  # names that the client has chosen
        if (name in fields and _can_be_setting(subject, place)) or (
            types and isinstance(value, dict) and value.get("type") in types  # pyright: ignore[reportUnknownMemberType]
        ):
            places.append(place)
            if len(places) == MAX_PLACES:
                break
    return places


def _can_be_setting(subject: str, place: str) -> bool:
    """Returns whether a field at a place is what a setting is: cache points are in messages, others are not."""
    return subject in _DEEP or (place.count("/") <= _SETTING_DEPTH and not place.startswith("/input/"))


def _walk(body: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields each value of a body, in order: its pointer, its name, the value. Schemas and inputs are left out."""
    waiting: list[tuple[str, str, Any, int]] = [("", "", body, 0)]
    for _ in range(MAX_SEARCHED):
        if not waiting:
            return
        place, name, value, depth = waiting.pop()
        if place:
            yield place, name, value
        is_input = name == "input" and depth == 1  # the messages of a Responses request
        if depth >= _MAX_DEPTH or (name in _SCHEMAS and not is_input):
            continue
        pairs: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            pairs = [(str(key), inner) for key, inner in value.items()]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        elif isinstance(value, list):
            pairs = [(str(number), inner) for number, inner in enumerate(value)]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        waiting += [(f"{place}/{_escape(key)}", key, inner, depth + 1) for key, inner in reversed(pairs)]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
