"""Parsers and writers of the framings: SSE, NDJSON, JSON arrays, the AWS event stream, WebSocket messages.

A parser takes bytes as they arrive and returns frames. A writer does the reverse. Both are stages of a `penstock.Pipe`.
docs/framing.md lists them.
"""

from penstock._framing import PARSERS, WRITERS, AutoParser
from penstock._framing.aws_eventstream import (
    BedrockChunks,
    EventStreamParser,
    EventStreamWriter,
    SageMakerParser,
    SageMakerWriter,
)
from penstock._framing.base import Frame, Parser, WebSocketParser, WebSocketWriter, Writer
from penstock._framing.json_frames import JsonArrayParser, JsonArrayWriter, NdjsonParser, NdjsonWriter
from penstock._framing.sse import GoogleSseWriter, SseParser, SseWriter

__all__ = [
    "PARSERS",
    "WRITERS",
    "AutoParser",
    "BedrockChunks",
    "EventStreamParser",
    "EventStreamWriter",
    "Frame",
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
]
