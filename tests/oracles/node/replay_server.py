"""A server on loopback that answers every request with the recorded body that was set last."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Player:
    """`play` a body, then let a client ask."""

    def __init__(self) -> None:
        self._body, self._media = b"", ""
        player = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", player._media)
                self.send_header("content-length", str(len(player._body)))
                self.end_headers()
                self.wfile.write(player._body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the tests' output is for the tests."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def play(self, body: bytes, media: str) -> None:
        self._body, self._media = body, media

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()
