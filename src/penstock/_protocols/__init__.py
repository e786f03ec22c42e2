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
# The protocols in the order in which `guess` asks them, the most specific first.
NAMES = "events vscode responses anthropic gemini bedrock cohere ollama openai-chat completions uistream aisdk".split()
MODULES = {name: name.replace("-", "_") for name in NAMES}  # name → folder
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
    """Returns a new decoder of a protocol."""
    make = protocol(name).decoder
    if make is None:
        raise UnknownProtocol(name, [known for known in MODULES if protocol(known).decoder], "source")
    return _create_codec(make, f"the decoder of {name}", name, options)


def encoder(name: str, **options: Any) -> Encoder:
    """Returns a new encoder of a protocol."""
    make = protocol(name).encoder
    if make is None:
        raise UnknownProtocol(name, [known for known in MODULES if protocol(known).encoder], "target")
    return _create_codec(make, f"the encoder of {name}", name, options)


def _create_codec(make: Callable[..., T], owner: str, name: str, options: dict[str, Any]) -> T:
    """Returns a codec with these options and the version in its name. An unknown or wrong option is refused."""
    version = name.partition("@")[2]
    if version:
        options["version"] = version
    if options:
        check_options(owner, options, keywords_of(make))
    return make(**options)


def error_body(name: str, error: Fault | BadRequest) -> bytes:
    """An error as the body that a client of this protocol expects in place of an answer."""
    row = protocol(name)
    if isinstance(error, BadRequest):  # some protocols have a field for the path
        param = {row.name: {PARAM: error.path}} if error.path else None
        fault = Fault("invalid", str(error), status=400, extra=param)
    else:
        fault = error
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
    """True if the vendor sends this error inside a stream."""
    row = protocol(name)
    if row.errors is None or not vendor_error(row.errors, fault).in_stream:
        return False
    # An error of a provider of the same protocol is sent with the status that it had.
    return fault.status is None or not is_from_protocol(fault, row.name)
