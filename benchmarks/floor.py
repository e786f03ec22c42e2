"""The floor that translation is measured against: cut SSE apart, decode typed, encode, and nothing else.

No parser for odd frames, no state, no grammar, no second part kind: nobody can translate with less than this, so
the ratio to it says what correctness costs. Bytes in and bytes out are those of a long run of text deltas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

_encode = msgspec.json.Encoder().encode


class ChatDelta(msgspec.Struct, gc=False):
    """As sent."""

    content: str | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """As sent."""

    delta: ChatDelta


class ChatChunk(msgspec.Struct, gc=False):
    """As sent."""

    choices: list[ChatChoice] = []


class TextDelta(msgspec.Struct, gc=False, tag_field="type", tag="text_delta"):
    """As sent."""

    text: str


class BlockDelta(msgspec.Struct, gc=False, tag_field="type", tag="content_block_delta"):
    """As sent."""

    index: int
    delta: TextDelta


class OutputDelta(msgspec.Struct, gc=False, tag_field="type", tag="response.output_text.delta"):
    """As sent."""

    item_id: str
    output_index: int
    content_index: int
    sequence_number: int
    delta: str


class PartLine(msgspec.Struct, gc=False, tag_field="kind", tag="text"):
    """As sent."""

    value: str


class UiDelta(msgspec.Struct, gc=False, tag_field="type", tag="text-delta"):
    """As sent."""

    id: str
    delta: str


class Pair(NamedTuple):
    """A source's frame, what stands before its JSON, how it is decoded, and how the target's bytes are made."""

    source: str
    target: str
    frame: bytes
    head: bytes
    shape: type
    build: Callable[[Any], bytes]

    @property
    def name(self) -> str:
        return f"{self.source} → {self.target}"


CHAT = (
    b'data: {"id":"chatcmpl-Bq8Zt","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-mini",'
    b'"system_fingerprint":"fp_44709d","choices":[{"index":0,"delta":{"content":" drop%d"},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)
MESSAGES = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" drop%d"}}\n\n'
)
RESPONSES = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","item_id":"msg_68f0","output_index":0,"content_index":0,'
    b'"sequence_number":7,"delta":" drop%d"}\n\n'
)


def _to_messages(chunk: ChatChunk) -> bytes:
    delta = BlockDelta(0, TextDelta(chunk.choices[0].delta.content or ""))
    return b"event: content_block_delta\ndata: %b\n\n" % _encode(delta)


def _to_part(delta: BlockDelta) -> bytes:
    return _encode(PartLine(delta.delta.text)) + b"\n"


def _to_ui(delta: OutputDelta) -> bytes:
    return b"data: %b\n\n" % _encode(UiDelta(delta.item_id, delta.delta))


PAIRS = (
    Pair("openai-chat", "anthropic", CHAT, b"data: ", ChatChunk, _to_messages),
    Pair("anthropic", "vscode", MESSAGES, b"event: content_block_delta\ndata: ", BlockDelta, _to_part),
    Pair("responses", "uistream", RESPONSES, b"event: response.output_text.delta\ndata: ", OutputDelta, _to_ui),
)


def frames(pair: Pair, events: int) -> list[bytes]:
    """That many deltas, each a chunk of its own."""
    return [pair.frame % number for number in range(events)]


def stream(pair: Pair, events: int, size: int = 4096) -> list[bytes]:
    """A body of that many deltas in chunks of that size."""
    body = b"".join(frames(pair, events))
    return [body[at : at + size] for at in range(0, len(body), size)]


def run(pair: Pair, chunks: list[bytes]) -> int:
    """Translate by the shortest way; gives the number of bytes made."""
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(pair.shape).decode
    at, build = len(pair.head), pair.build
    rest, made = b"", 0
    for chunk in chunks:
        whole = (rest + chunk).split(b"\n\n")
        rest = whole.pop()
        made += len(b"".join([build(decode(frame[at:])) for frame in whole]))
    return made
