"""Framing: bytes off the network to frames and back. One module for each framing, each a pair of stages.

Imports only `penstock.errors`. Knows neither protocols nor events: a frame's data is opaque here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._framing.auto import DETECTED, AutoParser
from penstock._framing.eventstream import EventStreamWriter, SageMakerParser, SageMakerWriter
from penstock._framing.frame import Parser, WebSocketParser, WebSocketWriter, Writer
from penstock._framing.jsonarray import JsonArrayWriter
from penstock._framing.ndjson import NdjsonWriter
from penstock._framing.sse import GoogleSseWriter, SseParser, SseWriter

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
