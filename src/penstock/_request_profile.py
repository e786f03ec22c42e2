"""Profiles: what a provider requires of requests, as data. `replace` makes the profile of a provider that differs.

A profile is a field of the protocol's row; its field names are configuration keys. Request writers know what a
protocol has no field for.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection

System: TypeAlias = Literal["keep", "hoist", "user"]
Empty: TypeAlias = Literal["keep", "drop", "placeholder"]


class IdentifierRule(msgspec.Struct, frozen=True):
    """Which ids or names a target accepts. `chars` and `first` are the inside of a regular expression's brackets; an
    empty string allows everything.

    Letters and digits are always allowed, and the underscore in names: mapped identifiers are made of them.
    """

    chars: str = ""
    limit: int = 0
    exact: int = 0
    first: str = ""

    @property
    def strict(self) -> bool:
        """True if the rule refuses anything at all."""
        return bool(self.chars or self.limit or self.exact or self.first)

    def fits(self, identifier: str) -> bool:
        return identifier_pattern(self).fullmatch(identifier) is not None

    def fits_all(self, identifiers: Collection[str]) -> bool:
        """True if all identifiers fit. Cheaper than asking for each one."""
        if not self.strict or not identifiers:
            return True
        if self.exact or self.first:
            return all(map(identifier_pattern(self).fullmatch, identifiers))
        if self.limit and (max(map(len, identifiers)) > self.limit or "" in identifiers):
            return False
        return not self.chars or forbidden_character(self).search("".join(identifiers)) is None


ANYTHING = IdentifierRule()
PLAIN = IdentifierRule("A-Za-z0-9_-", limit=64)  # what most targets take as the name of a tool
NINE = IdentifierRule("A-Za-z0-9", exact=9)  # what Mistral takes as the id of a call


@cache
def identifier_pattern(rule: IdentifierRule) -> re.Pattern[str]:
    """Returns the pattern that an identifier must match from end to end."""
    size = f"{{{rule.exact}}}" if rule.exact else f"{{1,{rule.limit}}}" if rule.limit else "+"
    first = f"(?=[{rule.first}])" if rule.first else ""
    return re.compile(f"{first}(?s:[{rule.chars}]{size})" if rule.chars else f"{first}(?s:.{size})")


@cache
def forbidden_character(rule: IdentifierRule) -> re.Pattern[str]:
    """Returns the pattern of one character that the rule forbids."""
    return re.compile(f"[^{rule.chars}]")


class FileSupport(msgspec.Struct, frozen=True):
    """Which files a target accepts. `roles`: in messages of these roles; `results`: in tool results; `limit`: bytes."""

    roles: frozenset[str] = frozenset({"system", "user", "assistant", "tool"})
    results: bool = True
    limit: int = 0
    media: tuple[str, ...] = ("image/", "audio/", "video/", "application/", "text/")


USER_FILES = FileSupport(frozenset({"user", "tool"}))


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a target. `quirks` go to its request writer; `provider` is the key of its options."""

    protocol: str
    provider: str = ""
    options: tuple[str, ...] = ()  # other keys of its own provider options
    ids: IdentifierRule = ANYTHING
    names: IdentifierRule = ANYTHING
    answers: bool = True  # results carry the names of their tools
    custom: bool = False  # free-text tools
    namespaces: bool = False  # tools in groups
    system: System = "keep"  # what happens to system messages inside the conversation
    alternate: bool = False  # no two messages of one role in a row
    opens: bool = False  # the first message is the user's
    empty: Empty = "keep"  # what happens to empty messages
    holding: FileSupport = FileSupport()
    addresses: bool = True  # accepts files by their http(s) address
    points: int = 0  # the most cache points a request may have; 0 if caching needs none
    min_output: int = 0
    inside: bool = False  # a reasoning budget counts against the output limit
    trims: bool = False  # a last assistant message must not end with white space
    signature: str = ""  # sent for an unknown thought signature, to models that require one
    thinking: tuple[str, ...] = ()  # forms of reasoning settings that can be written; empty: the provider converts them
    quirks: Any = None
    # as a client
    prefills: bool = False  # a last assistant message is the beginning of the answer
    leads: bool = False  # has no system role: assistant messages at the front are the system prompt
    prefix: str = ""  # what its call ids begin with
    reserved: str = ""  # what it appends to them


# What Anthropic Messages and Amazon Bedrock Converse share: most models behind the latter are Claude.
CLAUDE_PROFILE = Profile(
    protocol="",
    ids=PLAIN,
    names=PLAIN,
    answers=False,
    opens=True,
    empty="drop",
    points=4,
    inside=True,
    holding=USER_FILES,
    trims=True,
    prefills=True,
)
