"""Amazon Bedrock's Converse, whatever the model behind it. Read only: no client speaks it."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.bedrock.decode import KINDS, BedrockDecoder
from penstock.request_profile import PLAIN, USER_FILES, Profile

BARE = frozenset(kind.decode() for kind in KINDS if kind != b"metadata")


def looks(name: str, payload: dict[str, Any]) -> bool:
    """A frame named after a kind of event, an event under its kind, or a whole answer."""
    if name in BARE or (name.endswith("Exception") and "message" in payload):
        return True
    if "stopReason" in payload and "output" in payload:
        return True
    return any(isinstance(payload.get(kind), dict) for kind in BARE) or (
        name == "metadata" and bool({"usage", "metrics"} & set(payload))
    )


PROTOCOL = Protocol(
    "bedrock",
    looks,
    BedrockDecoder,
    reads="eventstream",
    disables_thinking=True,
    profile=Profile(
        protocol="bedrock",
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
