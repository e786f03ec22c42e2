"""The wire languages, one folder each. They are found by name and imported when first used."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock import _codec
from penstock import _lenient_fields as lenient
from penstock import request as rq
from penstock._codec import ILL_SHAPED
from penstock._diagnostics import read_tables
from penstock._option_checks import check_options, keywords_of
from penstock._vendor_errors import PARAM, is_from_protocol, provider_body, vendor_error
from penstock.errors import BadRequest, InputError, PenstockError, TooDeep, UnknownProtocol
from penstock.events import Fault, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._codec import Decoder, Encoder, Protocol
    from penstock._lenient_fields import Object
    from penstock._request_writer import RequestDraft

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
    """Returns a new decoder of a protocol.

    Examples:
        >>> frames = [(b"", b'{"id":"c1","model":"m","choices":[{"delta":{"content":"Hi"}}]}')]
        >>> [type(event).__name__ for event in decoder("openai-chat").feed(frames)]
        ['Start', 'TextStart', 'TextDelta']
    """
    make = protocol(name).decoder
    if make is None:
        raise UnknownProtocol(name, [known for known in MODULES if protocol(known).decoder], "source")
    return _create_codec(make, f"the decoder of {name}", name, options)


def encoder(name: str, **options: Any) -> Encoder:
    """Returns a new encoder of a protocol.

    Examples:
        >>> from penstock import events as ev
        >>> encoder("anthropic").feed([ev.Start("m1", "m")])[0][0]
        b'message_start'
    """
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


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def reader(name: str) -> Callable[[Object], rq.Request]:
    """Returns the function that reads a protocol's requests."""
    read: Callable[[Object], rq.Request] = getattr(import_request_module(name, "read"), "read_request")  # noqa: B009 — of Any

    def read_guarded(body: Object) -> rq.Request:
        with typed_errors:
            return read(body)

    return read_guarded


def writer(name: str) -> Callable[[rq.Request, Any], RequestDraft]:
    """Returns the function that writes a protocol's requests."""
    write: Callable[[rq.Request, Any], RequestDraft] = getattr(import_request_module(name, "write"), "write_request")  # noqa: B009 — of Any
    return write


@lru_cache(maxsize=64)
def import_request_module(name: str, direction: str) -> Any:
    bare = name.partition("@")[0]
    module = request_module(bare, direction) if bare in MODULES else None
    if module is None:
        known = [known for known in MODULES if request_module(known, direction)]
        raise UnknownProtocol(name, known, "protocol of requests")
    return import_module(module)


class _TypedErrors:
    """Raises an `InputError` for exceptions that a request of an unexpected shape causes."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ILL_SHAPED) or isinstance(error, PenstockError) or _codec.STRICT:
            return
        if isinstance(error, RecursionError):  # objects, whose depth is not checked before
            raise TooDeep from error
        raise InputError("the request could not be converted: something in it has an unexpected shape") from error


typed_errors = _TypedErrors()  # has no state, so that one serves all


# ── whose request it is ───────────────────────────────────────────────────────────────────────────────────────────────


class RequestShapes(msgspec.Struct, frozen=True):
    """Keys that tell the protocol of a request; request_shapes.toml describes them."""

    decisive: dict[str, str]
    message: dict[str, str]
    block: dict[str, str]
    bare_block: dict[str, str]
    tool: dict[str, str]
    likely: dict[str, str]
    integer_role: str
    typed_message: str
    typed_parts: str
    untyped_parts: str
    parsed_arguments: str
    default: str
    telling_tools: list[str]
    tool_forms: dict[str, str]
    tools_inside: dict[str, str]


@cache
def request_shapes() -> RequestShapes:
    """Returns the table of request shapes."""
    return msgspec.convert(read_tables(__name__, "request_shapes.toml"), RequestShapes)


def detect_protocol(body: Object) -> str:
    """Returns the protocol of a request body, by its keys and by the shapes of its messages and tools."""
    shapes = request_shapes()
    messages, tools = lenient.get_objects(body, "messages"), lenient.get_objects(body, "tools")
    found = (
        _find_by_keys(body, shapes.decisive)
        or next((name for message in messages if (name := _detect_in_message(message, shapes))), "")
        or next((name for tool in tools if (name := _find_by_keys(tool, shapes.tool))), "")
        or _find_by_keys(body, shapes.likely)
    )
    if not found:
        raise InputError("cannot tell whose request this is: it has no messages, contents, input or prompt")
    return found


def _find_by_keys(source: Object, table: dict[str, str]) -> str:
    """Returns the first row whose keys are all there."""
    return next((name for keys, name in table.items() if all(key in source for key in keys.split())), "")


def _detect_in_message(message: Object, shapes: RequestShapes) -> str:
    """Returns the protocol that a message must be of; an empty string if it could be of several."""
    if isinstance(message.get("role"), int):
        return shapes.integer_role
    if "parts" in message:
        typed = any("type" in part for part in lenient.get_objects(message, "parts"))
        return shapes.typed_parts if typed else shapes.untyped_parts
    if isinstance(message.get("type"), str):
        return shapes.typed_message
    if found := _find_by_keys(message, shapes.message):
        return found
    functions = (lenient.get_object(call, "function") for call in lenient.get_objects(message, "tool_calls"))
    if any(isinstance(function.get("arguments"), dict) for function in functions):
        return shapes.parsed_arguments
    blocks = lenient.get_objects(message, "content")
    return next((name for block in blocks if (name := _detect_in_block(block, shapes))), "")


def _detect_in_block(block: Object, shapes: RequestShapes) -> str:
    kind = block.get("type")
    if kind is None:
        return next((name for key, name in shapes.bare_block.items() if key in block), "")
    found = (shapes.block.get(f"{kind} {key}".rstrip()) for key in ("", *block))
    return next((name for name in found if name), "")
