"""What a target demands of a request, as data: one row per protocol, and `replace` for a provider that differs.

What a protocol has no field for is the writers' business; here is what makes a provider refuse a request outright.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.messages.images import Holding
from penstock.messages.mapping import PLAIN, Rule
from penstock.messages.roles import Empty, System
from penstock.shaping.namespace import PREFIX

USERS = frozenset({"user", "tool"})
ANYTHING = Rule()
# For calls that no Gemini model made. Google's two APIs document two values; this one works at both:
# https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures
UNSIGNED = "skip_thought_signature_validator"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A target's demands. `quirks` are handed to its writer; `provider` is the key of the options that are its own."""

    protocol: str
    provider: str = ""
    options: tuple[str, ...] = ()  # other keys of options that are its own
    ids: Rule = ANYTHING
    names: Rule = ANYTHING
    answers: bool = True  # results say the names of their tools
    custom: bool = False  # tools of free text
    namespaces: bool = False  # tools in groups
    system: System = "keep"  # what becomes of system messages inside the conversation
    alternate: bool = False  # no two messages of one role in a row
    opens: bool = False  # the user speaks first
    empty: Empty = "keep"  # what becomes of messages with nothing in them
    holding: Holding = Holding()
    addresses: bool = True  # it takes files by their http(s) address
    points: int = 0  # cache points that may be set; 0 where caching needs none
    min_output: int = 0
    inside: bool = False  # a budget for reasoning counts against the output limit
    trims: bool = False  # a last turn of the assistant must not end with white space
    signature: str = ""  # what stands for a thought signature that is not known, for models that insist on one
    thinking: tuple[str, ...] = ()  # forms of reasoning settings that can be written; none: the provider converts them
    quirks: Any = None
    # and what it does as a client
    prefills: bool = False  # by a last turn of the assistant it means the beginning of the answer
    leads: bool = False  # it has no system role, and lets the assistant say the system prompt
    prefix: str = ""  # what its call ids begin with
    reserved: str = ""  # what it appends to them


PROFILES: dict[str, Profile] = {
    row.protocol: row
    for row in (
        Profile(
            protocol="openai-chat", provider="openai", ids=Rule(limit=40), names=PLAIN, answers=False, custom=True,
            thinking=("effort", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="responses", provider="openai", ids=Rule(limit=64), names=PLAIN, answers=False, custom=True,
            namespaces=True, thinking=("effort", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="anthropic", provider="anthropic", ids=PLAIN, names=PLAIN, answers=False, opens=True, empty="drop",
            points=4, min_output=1, inside=True, thinking=("adaptive", "budget", "none"), holding=Holding(USERS),
            trims=True, prefills=True,
        ),
        Profile(
            protocol="gemini", provider="google", options=("gemini",), opens=True, empty="drop",
            names=Rule("A-Za-z0-9_.:-", limit=64, first="A-Za-z_"), thinking=("level", "budget", "none"),
            holding=Holding(USERS | {"assistant"}), prefills=True, signature=UNSIGNED,
        ),
        Profile(
            protocol="bedrock", provider="bedrock", options=("amazon-bedrock",), ids=PLAIN, names=PLAIN, answers=False,
            opens=True, alternate=True, empty="drop", points=4, inside=True,
            thinking=("adaptive", "budget", "effort", "none"), holding=Holding(USERS), addresses=False, trims=True,
            prefills=True,
        ),
        Profile(
            protocol="cohere", provider="cohere", names=Rule("A-Za-z0-9_", limit=64, first="A-Za-z_"), empty="drop",
            thinking=("budget", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="ollama", provider="ollama", thinking=("effort",), holding=Holding(USERS), addresses=False,
            prefills=True,
        ),
        Profile(protocol="aisdk", holding=Holding(USERS)),
        Profile(protocol="vscode", leads=True, prefix=PREFIX, reserved="__vscode"),
    )
}  # fmt: skip


def profile_of(protocol: str) -> Profile:
    """The row of a protocol; one that demands nothing where there is none."""
    name = protocol.partition("@")[0]
    return PROFILES.get(name) or Profile(protocol=name)
