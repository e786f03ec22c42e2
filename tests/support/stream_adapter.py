"""What the tests of the stream adapter share: streams in, parts and outcome out, a logger that remembers."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from penstock import events as ev
from penstock.vscode import Outcome, VSCodeStreamAdapter

PNG = b"\x89PNG\r\n\x1a\n and so on"
PNG64 = base64.b64encode(PNG).decode()
FINISH = {
    "type": "finish",
    "finishReason": "stop",
    "totalUsage": {"inputTokens": 30, "outputTokens": 4, "totalTokens": 34},
}
CITATION = "application/vnd.vscode.citation+json"


class Log:
    """A logger that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, message: str) -> None:
        self.lines.append(("debug", message))

    def warning(self, message: str) -> None:
        self.lines.append(("warning", message))


def outcome(stream: Any, **options: Any) -> tuple[list[Any], Outcome]:
    parts: list[Any] = []
    adapter = VSCodeStreamAdapter(**options)
    asyncio.run(adapter.process_stream(stream, parts.append))
    return parts, adapter.last


def parts_of(*chunks: Any, end: bool = True, **options: Any) -> list[Any]:
    return outcome([*chunks, *([FINISH] if end else [])], **options)[0]


def event_parts(*events: Any, **options: Any) -> list[Any]:
    return outcome([ev.Start(), *events, ev.Finish("stop")], source="events", **options)[0]
