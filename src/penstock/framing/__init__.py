"""Framing: bytes off the network to frames and back. One module for each framing, each a pair of stages.

Imports only `penstock.errors`. Knows neither protocols nor events: a frame's data is opaque here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.framing.auto import DETECTED, AutoParser, detect, named_framing
from penstock.framing.eventstream import (
    BedrockChunks,
    EventStreamParser,
    EventStreamWriter,
    SageMakerParser,
    SageMakerWriter,
)
from penstock.framing.frame import LIMIT, Frame, FrameRun, Parser, WebSocketParser, WebSocketWriter, Writer
from penstock.framing.jsonarray import JsonArrayParser, JsonArrayWriter
from penstock.framing.ndjson import NdjsonParser, NdjsonWriter
from penstock.framing.sse import BLANK_LINES, ERROR, KEEP_ALIVE, GoogleSseWriter, SseParser, SseWriter, split_bare_error

if TYPE_CHECKING:
    from collections.abc import Mapping

PARSERS: Mapping[str, type[Parser]] = {
    **DETECTED,
    "auto": AutoParser,
    "eventstream+sse": SageMakerParser,
    "sse+json": SseParser,
    "websocket": WebSocketParser,
}
WRITERS: Mapping[str, type[Writer]] = {
    "eventstream": EventStreamWriter,
    "eventstream+sse": SageMakerWriter,
    "jsonarray": JsonArrayWriter,
    "ndjson": NdjsonWriter,
    "sse": SseWriter,
    "sse+json": GoogleSseWriter,
    "websocket": WebSocketWriter,
}

__all__ = [
    "BLANK_LINES",
    "ERROR",
    "KEEP_ALIVE",
    "LIMIT",
    "PARSERS",
    "WRITERS",
    "AutoParser",
    "BedrockChunks",
    "EventStreamParser",
    "EventStreamWriter",
    "Frame",
    "FrameRun",
    "GoogleSseWriter",
    "JsonArrayParser",
    "JsonArrayWriter",
    "NdjsonParser",
    "NdjsonWriter",
    "Parser",
    "SageMakerParser",
    "SageMakerWriter",
    "SseParser",
    "SseWriter",
    "WebSocketParser",
    "WebSocketWriter",
    "Writer",
    "detect",
    "named_framing",
    "split_bare_error",
]
