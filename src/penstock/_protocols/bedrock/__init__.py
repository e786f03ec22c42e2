"""Amazon Bedrock Converse, for all models behind it. It is only decoded: no client uses it."""

from typing import Any

from penstock._codec import Protocol
from penstock._protocols.bedrock.decode import FRAME_TEMPLATES, BedrockDecoder
from penstock._protocols.bedrock.wire import NAME
from penstock._request_profile import PLAIN, USER_FILES, Profile

_EVENT_NAMES = frozenset(name.decode() for name in FRAME_TEMPLATES if name != b"metadata")


def matches(name: str, payload: dict[str, Any]) -> bool:
    """Returns True for a frame named after an event, a payload under an event's name, or a non-stream answer."""
    if name in _EVENT_NAMES or (name.endswith("Exception") and "message" in payload):
        return True
    if "stopReason" in payload and "output" in payload:
        return True
    return any(isinstance(payload.get(kind), dict) for kind in _EVENT_NAMES) or (
        name == "metadata" and bool({"usage", "metrics"} & set(payload))
    )


PROTOCOL = Protocol(
    NAME,
    matches,
    BedrockDecoder,
    reads="eventstream",
    disables_thinking=True,
    profile=Profile(
        protocol=NAME,
        provider="bedrock",
        options=("amazon-bedrock",),
        ids=PLAIN,
        names=PLAIN,
        answers=False,
        opens=True,
        alternate=True,
        empty="drop",
        points=4,
        inside=True,
        thinking=("adaptive", "budget", "effort", "none"),
        holding=USER_FILES,
        addresses=False,
        trims=True,
        prefills=True,
    ),
)
