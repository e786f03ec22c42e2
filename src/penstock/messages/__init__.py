"""Requests between formats: `convert_messages` for a VS Code host, `convert` for whole bodies of any protocol.

Each rule is a module of its own: a function from a canonical `Request` to another, which leaves the one given as it
is. msgspec is the only dependency. docs/messages.md shows how to use it, docs/state.md what is kept between turns.
"""

from penstock.messages.convert import Converted, Restore, convert, convert_request
from penstock.messages.convert_options import ConvertOptions
from penstock.messages.face import MessageOptions, Messages, convert_messages
from penstock.messages.profile import PROFILES, Profile, profile_of
from penstock.messages.state import remember, restore

__all__ = [
    "PROFILES", "ConvertOptions", "Converted", "MessageOptions", "Messages", "Profile", "Restore", "convert",
    "convert_messages", "convert_request", "profile_of", "remember", "restore",
]  # fmt: skip
