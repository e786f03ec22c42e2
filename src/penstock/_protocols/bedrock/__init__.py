"""Amazon Bedrock Converse, for all models behind it. It is only decoded: no client uses it."""

from typing import Any

from msgspec.structs import replace

from penstock._codec import Protocol
from penstock._lenient_fields import get_integer, get_objects
from penstock._protocols.bedrock.decode import FRAME_TEMPLATES, BedrockDecoder
from penstock._protocols.bedrock.wire import NAME
from penstock._request_profile import CLAUDE_PROFILE

_EVENT_NAMES = frozenset(name.decode() for name in FRAME_TEMPLATES if name != b"metadata")


def matches_payload(name: str, payload: dict[str, Any]) -> bool:
    """Returns True for a frame named after an event, a payload under an event's name, or a non-stream answer."""
    if name in _EVENT_NAMES or (name.endswith("Exception") and "message" in payload):
        return True
    if "stopReason" in payload and "output" in payload:
        return True
    return any(isinstance(payload.get(kind), dict) for kind in _EVENT_NAMES) or (
        name == "metadata" and bool({"usage", "metrics"} & set(payload))
    )


def read_priced_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens of cache entries that are kept for an hour: they have a price of their own."""
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CacheDetail.html
    rows = [row for row in get_objects(usage, "cacheDetails") if row.get("ttl") == "1h"]
    return {"written_1h": sum(get_integer(row, "inputTokens") or 0 for row in rows)}


PROTOCOL = Protocol(
    NAME,
    matches_payload,
    BedrockDecoder,
    reads="eventstream",
    disables_thinking=True,
    priced_tokens=read_priced_tokens,
    profile=replace(
        CLAUDE_PROFILE,
        protocol=NAME,
        provider="bedrock",
        options=("amazon-bedrock",),
        alternate=True,
        thinking=("adaptive", "budget", "effort", "none"),
        addresses=False,
    ),
)
