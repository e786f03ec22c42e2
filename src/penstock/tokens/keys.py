"""Names for content: what a message is, byte for byte, and which messages came before it.

A digest covers the whole content: arguments, results, files. Only marks that ask for caching are left out: they wander
along a conversation and cost nothing. Leans on msgspec's encoder and hashlib.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.json_depth import NestingError, decode_bounded
from penstock.jsontext import as_json
from penstock.request import Call, Message, Request, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SIZE = 16
_encode = msgspec.json.Encoder().encode


def packed(value: Any) -> bytes:
    """Any value of ours as bytes, the same for the same."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON cannot hold
        return as_json(msgspec.to_builtins(value)).encode()


def digest(message: Message) -> bytes:
    """The content of a message."""
    for part in message.parts:
        if part.cache:
            parts = [msgspec.structs.replace(one, cache="") for one in message.parts]
            return blake2b(packed(msgspec.structs.replace(message, parts=parts)), digest_size=SIZE).digest()
    return blake2b(packed(message), digest_size=SIZE).digest()


def frame_digest(request: Request, name: str) -> bytes:
    """What stands around the messages, and who is asked."""
    tools: Iterable[Any] = request.tools
    if any(tool.cache for tool in request.tools):
        tools = [msgspec.structs.replace(tool, cache="") for tool in request.tools]
    around = (name, list(tools), request.choice, request.settings.format)
    return blake2b(packed(around), digest_size=SIZE).digest()


def chain(first: bytes, digests: Sequence[bytes]) -> list[bytes]:
    """A name for every beginning of a conversation, the empty one first."""
    names = [first]
    for one in digests:
        first = blake2b(first + one, digest_size=SIZE).digest()
        names.append(first)
    return names


def said(parts: Iterable[Any]) -> bytes:
    """What a turn said, so that it is known again in the next request, whatever ids and spaces it comes back with."""
    text, calls = "", list[tuple[str, Any]]()
    for part in parts:
        if isinstance(part, Text):
            text += part.text
        elif isinstance(part, Call):
            calls.append((part.name, _value(part.json)))
    return blake2b(packed((text.strip(), calls)), digest_size=SIZE).digest()


def _value(text: str) -> Any:
    try:
        return decode_bounded(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, NestingError):
        return text
