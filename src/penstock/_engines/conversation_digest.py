"""Recognises the turns of one conversation by the prefix that they share: system prompt, tools, first message.

Providers cache prompts by their prefix, so turns with the same prefix belong to the same target. Cache marks and opaque
data are left out: clients move and add them from turn to turn.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock.request import Call, File, Json, Message, Request, Result, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 16  # bytes of a digest
_MAX_DATA = 4096  # characters of a file that are hashed, with its length
_encode = msgspec.json.Encoder(order="deterministic").encode


class ConversationDigest(NamedTuple):
    """The digest of a conversation's prefix; and with the first answer, which later turns repeat, if there is one."""

    prefix: bytes
    answered: bytes = b""

    @property
    def is_first_turn(self) -> bool:
        return not self.answered

    @property
    def key(self) -> bytes:
        """What the conversation is remembered by."""
        return self.answered or self.prefix


def identify_conversation(request: Request, tenant: str, pool: str) -> ConversationDigest:
    """Returns the digests of a request's conversation, for one tenant and one pool of targets."""
    first = next((number for number, one in enumerate(request.messages) if one.role == "user"), len(request.messages))
    digest = hashlib.blake2b(digest_size=_SIZE)
    tools = [(tool.name, tool.description, tool.schema) for tool in request.tools]
    digest.update(_encode([tenant, pool, request.settings.cache_key, tools]))
    for message in request.messages[: first + 1]:
        digest.update(_encode([message.role, *_contents(message)]))
    prefix = digest.digest()
    answer = next((one for one in request.messages[first + 1 :] if one.role == "assistant"), None)
    if answer is None:
        return ConversationDigest(prefix)
    digest.update(_encode(list(_contents(answer))))
    return ConversationDigest(prefix, digest.digest())


def _contents(message: Message) -> Iterator[Any]:
    """Yields what the model reads of a message."""
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, Call):
            yield part.name, part.json
        elif isinstance(part, File):
            yield part.media, part.url, part.id, len(part.data), part.data[:_MAX_DATA]
        elif isinstance(part, Json):
            yield part.json
        elif isinstance(part, Result):
            yield part.call
