"""A provider whose answer waits in the middle until the test lets it go on."""

from __future__ import annotations

import json
import select
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

LIMIT = 120.0
_LOOK = 0.05  # seconds between two looks at the client


class HeldUpstream:
    """Sends the pieces of a stream: the first at once, each other one after a call of `release`.

    `requests` are the bodies received, `outcomes` how their answers ended: "finished", or "disconnected".
    """

    def __init__(self) -> None:
        self.pieces: Sequence[bytes] = ()
        self.requests: list[Any] = []
        self.outcomes: list[str] = []
        self.url = ""
        self._released = threading.Semaphore(0)

    def hold(self, *pieces: bytes) -> None:
        """Sets the next answers, and forgets what was received."""
        self.pieces, self._released = pieces, threading.Semaphore(0)
        self.requests, self.outcomes = [], []

    def release(self) -> None:
        """Sends the next piece."""
        self._released.release()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        size = int(request.headers["content-length"])
        self.requests.append(json.loads(request.rfile.read(size)))
        outcomes, released = self.outcomes, self._released
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.end_headers()
        for number, piece in enumerate(self.pieces):
            if number and not _wait(released, request.connection):
                outcomes.append("disconnected")
                return
            request.wfile.write(piece)
        outcomes.append("finished")


def _wait(released: threading.Semaphore, client: socket.socket) -> bool:
    """Waits for the test; False if the client leaves first."""
    for _ in range(int(LIMIT / _LOOK)):
        if released.acquire(timeout=_LOOK):
            return True
        if select.select([client], [], [], 0)[0] and not client.recv(1, socket.MSG_PEEK):
            return False
    return False


@contextmanager
def held_upstream() -> Generator[HeldUpstream]:
    up = HeldUpstream()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.close_connection = True
            up.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        up.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield up
        finally:
            server.shutdown()
            thread.join()
