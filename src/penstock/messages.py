"""Requests between formats: `convert_messages` for a VS Code host, `convert` for whole bodies of any protocol.

Each rule is a function from a canonical `Request` to another; the given request is not modified. msgspec
is the only dependency. docs/messages.md shows how to use it, docs/state.md what is stored between turns.
"""

from __future__ import annotations

from collections.abc import Iterable  # noqa: TC003 - an annotation of `MessageOptions`, which is read at run time
from typing import TYPE_CHECKING, Any, Unpack

from penstock._messages.carried_state import remember, restore
from penstock._messages.convert import Converted, Restore, convert, convert_request, state_keys
from penstock._messages.options import CHECKS, ConvertOptions
from penstock._messages.request_codecs import PROFILES, profile_of, reader, writer
from penstock._option_checks import ITERABLE, LOGGER, TEXT, check_options, options_of
from penstock._printable_text import printable
from penstock._request_profile import NINE, Profile
from penstock._strict_fields import to_json_values

if TYPE_CHECKING:
    from penstock._diagnostics import Diagnostic
    from penstock._request_writer import RequestDraft
    from penstock.request import Request

__all__ = [
    "NINE",
    "PROFILES",
    "ConvertOptions",
    "Converted",
    "MessageOptions",
    "Messages",
    "Profile",
    "Restore",
    "convert",
    "convert_messages",
    "convert_request",
    "profile_of",
    "read_request",
    "remember",
    "restore",
    "state_keys",
    "write_request",
]
_LISTS = ("messages", "input", "contents")  # the keys of messages in the protocols
_PROMPTS = ("system", "instructions", "systemInstruction")  # and of a separate system prompt


class MessageOptions(ConvertOptions, total=False):
    """The options of `convert`, the target protocol, the host's tools, and a logger for diagnostics."""

    target: str
    tools: Iterable[Any]
    logger: Any


OPTIONS = options_of(MessageOptions, {**CHECKS, "target": TEXT, "tools": ITERABLE, "logger": LOGGER})


class Messages(list[dict[str, Any]]):
    """The target's messages; `system`: its separate system prompt; `body`: the whole request.

    `protocol` is the target. `HybridTokenEstimator` counts and shortens the body.
    """

    def __init__(self, converted: Converted, protocol: str) -> None:
        super().__init__(next((converted.body[key] for key in _LISTS if key in converted.body), ()))
        self.body: dict[str, Any] = converted.body
        self.system: Any = next((converted.body[key] for key in _PROMPTS if key in converted.body), None)
        self.diagnostics: list[Diagnostic] = converted.diagnostics
        self.restore: Restore = converted.restore
        self.protocol: str = protocol


def read_request(body: dict[str, Any], protocol: str) -> Request:
    """Read a protocol's request, given as parsed JSON, into the canonical form.

    Examples:
        >>> request = read_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, "openai-chat")
        >>> request.messages[0].role, request.messages[0].parts[0].text
        ('user', 'Hi')
    """
    return reader(protocol)(body)


def write_request(request: Request, protocol: str, quirks: Any = None) -> RequestDraft:
    """Write a canonical request in a protocol. `quirks` are the Struct of that protocol's deviations, if any apply.

    Examples:
        >>> from penstock.request import Message, Request, Text
        >>> request = Request(model="m", messages=[Message("user", [Text(text="Hi")])])
        >>> write_request(request, "gemini").body
        {'contents': [{'role': 'user', 'parts': [{'text': 'Hi'}]}]}
    """
    return writer(protocol)(request, quirks)


def convert_messages(
    messages: Iterable[Any], options: MessageOptions | None = None, /, **more: Unpack[MessageOptions]
) -> Messages:
    """Converts the messages of a VS Code host (JSON, or objects of that shape) for a target, by default the AI SDK.

    Files in messages that may not hold them are replaced by a placeholder, unless `images` says otherwise.

    Examples:
        >>> convert_messages([{"role": 1, "content": [{"kind": "text", "value": "Hi"}]}], target="openai-chat")
        [{'role': 'user', 'content': 'Hi'}]
    """
    given: dict[str, Any] = {"images": "placeholder", **(options or {}), **more}
    check_options("convert_messages", given, OPTIONS)
    target: str = given.pop("target", "aisdk")
    logger: Any = given.pop("logger", None)
    body: dict[str, Any] = {"messages": [to_json_values(message) for message in messages]}
    if "tools" in given:
        body["tools"] = [to_json_values(tool) for tool in given.pop("tools")]
    converted = Messages(convert(body, "vscode", target, **given), target)
    write = getattr(logger, "warning", None) or getattr(logger, "warn", None)
    if callable(write):
        for found in converted.diagnostics:
            write(printable(f"penstock: {found.where}: {found.message} ({found.code}, {found.count} times)"))
    return converted
