"""A gateway newer than the extension: it sends unknown kinds, fields and parts besides all known ones."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

MODEL = {
    "id": "later/one", "name": "Later one", "family": "later", "version": "2", "maxInputTokens": 9000,
    "maxOutputTokens": 1000, "capabilities": {"toolCalling": True, "smelling": True}, "detail": "Later",
    "isDefault": True, "requiresAuthorization": True, "flavour": "mint",
}  # fmt: skip


def data(content: bytes, kind: str) -> dict[str, str]:
    return {"kind": "data", "data": base64.b64encode(content).decode(), "mimeType": kind}


LINES: list[dict[str, Any]] = [
    {"kind": "start", "version": 2, "id": "later", "model": "later/one"},
    {"kind": "hologram", "value": "?"},
    {"kind": "text", "value": "Later.", "shade": "blue"},
    data(b'{"level": 3.2}', "application/vnd.vercel.gauge+json"),
    data(b"plain", "text/plain"),
    data(b'{"a": 1}', "application/json"),
    data(b"\x00\x01", "application/octet-stream"),
    {"kind": "end", "reason": "serendipity"},
]


class Later(BaseHTTPRequestHandler):
    """Three addresses."""

    def do_GET(self) -> None:
        self._answer({"version": 2, "models": [MODEL, {"id": "half"}]} if "models" in self.path else {"status": "ok"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(*LINES)

    def _answer(self, *rows: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    def log_message(self, *_: object) -> None: ...
