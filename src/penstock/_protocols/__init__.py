"""The wire languages, one folder each. They are found by name and imported when first used."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock._option_checks import check_options, keywords_of
from penstock._vendor_errors import PARAM, is_from_protocol, provider_body, vendor_error
from penstock.errors import BadRequest, UnknownProtocol
from penstock.events import Fault, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._codec import Decoder, Encoder, Protocol

T = TypeVar("T")
# name → folder; the order is the one in which a guess asks them, the most particular first
MODULES: dict[str, str] = {
    "events": "events",
    "vscode": "vscode",
    "responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
    "cohere": "cohere",
    "ollama": "ollama",
    "openai-chat": "openai_chat",
    "completions": "completions",
    "uistream": "uistream",
    "aisdk": "aisdk",
}

DEFAULT = "openai-chat"  # what a provider or a client speaks that names no other

# What people call protocols, beside the names that are used here.
OTHER_NAMES = {
    "openai": "openai-chat", "chat": "openai-chat", "chat-completions": "openai-chat", "openai_chat": "openai-chat",
    "openai-responses": "responses", "open-responses": "responses", "claude": "anthropic", "messages": "anthropic",
    "anthropic-messages": "anthropic", "google": "gemini", "generatecontent": "gemini", "vertex": "gemini",
    "converse": "bedrock", "bedrock-converse": "bedrock", "openai-completions": "completions", "ai-sdk": "uistream",
    "usechat": "uistream", "ui-message-stream": "uistream", "fullstream": "aisdk", "vs-code": "vscode",
}  # fmt: skip


@lru_cache(maxsize=64)
def protocol(name: str) -> Protocol:
    """The row of a protocol; a version behind an @ is looked up without it."""
    bare, _, version = name.partition("@")
    if bare not in MODULES:
        raise UnknownProtocol(name, MODULES, meant=OTHER_NAMES.get(bare.lower(), ""))
    row: Protocol = import_module(f"penstock._protocols.{MODULES[bare]}").PROTOCOL
    if version and version not in row.versions:
        raise UnknownProtocol(name, [f"{bare}@{known}" for known in row.versions] or [bare])
    return row


def request_module(name: str, direction: str) -> str | None:
    """Returns the dotted name of the module that reads (`read`) or writes (`write`) a protocol's requests, if any."""
    package = f"penstock._protocols.{MODULES[name]}"
    names = (f"request_{direction}", "request" if direction == "read" else "write")
    return next((f"{package}.{file}" for file in names if find_spec(f"{package}.{file}")), None)


def decoder(name: str, **options: Any) -> Decoder:
    """A new decoder of that protocol."""
    row = protocol(name)
    if row.decoder is None:
        raise UnknownProtocol(name, [known for known in MODULES if protocol(known).decoder], "source")
    return _create_codec(row.decoder, f"the decoder of {name}", _versioned(name, options))


def encoder(name: str, **options: Any) -> Encoder:
    """A new encoder of that protocol."""
    row = protocol(name)
    if row.encoder is None:
        raise UnknownProtocol(name, [known for known in MODULES if protocol(known).encoder], "target")
    return _create_codec(row.encoder, f"the encoder of {name}", _versioned(name, options))


def error_body(name: str, error: Fault | BadRequest) -> bytes:
    """An error as the body that a client of this protocol expects in place of an answer."""
    fault = _fault(error, name.partition("@")[0]) if isinstance(error, BadRequest) else error
    row = protocol(name)
    if row.error_body is not None:
        return msgspec.json.encode(provider_body(fault, row.name) or row.error_body(fault))
    encode = encoder(name)
    frames = [*encode.feed([Start(), fault]), *encode.finish()]
    return b"".join(data for _, data in frames) if row.body is None else row.body(frames)


def error_status(name: str, fault: Fault) -> int | None:
    """The HTTP status that the vendor of a protocol sends for a fault; None where the protocol has no vendor."""
    row = protocol(name)
    return vendor_error(row.errors, fault).status if row.errors is not None else None


def is_error_in_stream(name: str, fault: Fault) -> bool:
    """Whether the vendor tells this error inside a stream. A provider of the same protocol is quoted as it refused."""
    row = protocol(name)
    if row.errors is None or not vendor_error(row.errors, fault).in_stream:
        return False
    return fault.status is None or not is_from_protocol(
        fault, row.name
    )  # a provider that refused with a status is quoted so


def _fault(error: BadRequest, name: str) -> Fault:
    """Where it is wrong is told apart, for protocols that have a field for it."""
    return Fault("invalid", str(error), status=400, extra={name: {PARAM: error.path}} if error.path else None)


def _create_codec(make: Callable[..., T], owner: str, options: dict[str, Any]) -> T:
    """A codec with these options. One that it does not have, or of the wrong kind, is refused."""
    if options:
        check_options(owner, options, keywords_of(make))
    return make(**options)


def _versioned(name: str, options: dict[str, Any]) -> dict[str, Any]:
    _, _, version = name.partition("@")
    return {**options, "version": version} if version else options
