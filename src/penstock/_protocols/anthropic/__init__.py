"""Anthropic Messages, as Claude and compatible providers send it."""

from typing import Any

from msgspec.structs import replace

from penstock._codec import Protocol
from penstock._lenient_fields import get_integer, get_object
from penstock._protocols.anthropic.decode import AnthropicDecoder
from penstock._protocols.anthropic.encode import AnthropicEncoder
from penstock._protocols.anthropic.wire import ERRORS, NAME, build_body, build_error_body
from penstock._request_profile import CLAUDE_PROFILE

_EVENT_TYPES = frozenset({"message_start", "content_block_start", "content_block_delta", "message_delta", "message"})


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """Returns True if a payload belongs to this protocol."""
    kind = payload.get("type")
    return kind in _EVENT_TYPES and not (kind == "message" and "content" not in payload)


def read_priced_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens of cache entries that are kept for an hour: they have a price of their own."""
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching#tracking-cache-performance
    count = get_integer(get_object(usage, "cache_creation"), "ephemeral_1h_input_tokens")
    return {"written_1h": count or 0}


PROTOCOL = Protocol(
    NAME,
    matches_payload,
    AnthropicDecoder,
    AnthropicEncoder,
    sequential=True,
    body=build_body,
    end_marks=(b'"message_stop"',),
    end_frame=b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    errors=ERRORS,
    error_body=build_error_body,
    priced_tokens=read_priced_tokens,
    requires_limit=True,  # max_tokens: https://docs.claude.com/en/api/messages
    snake_case=True,
    disables_thinking=True,
    stop_sequence_field="stop_sequence",
    profile=replace(
        CLAUDE_PROFILE, protocol=NAME, provider="anthropic", min_output=1, thinking=("adaptive", "budget", "none")
    ),
)
