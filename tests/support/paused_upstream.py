"""An upstream that pauses in the middle of a turn until the test lets it continue."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import ask
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.event_feed import Reader
    from tests.support.inspector import Inspected

LIMIT = 60.0  # seconds that a test may take before it opens the gate
SSE = {"content-type": "text/event-stream"}
TEXT: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, f"word{n} ") for n in range(40)), ev.TextEnd(0),
    ev.Usage(input=11, output=40), ev.Finish("stop"),
]  # fmt: skip


class PausedUpstream:
    """A server that waits at gates. `answer` responds to a request."""

    def __init__(self, *gates: threading.Event) -> None:
        self._gates = gates
        upstream = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                upstream.answer(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def open_all(self) -> None:
        for gate in self._gates:
            gate.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open_all()
        self._server.shutdown()
        self._server.server_close()


def stream_halves(request: BaseHTTPRequestHandler, protocol: str, gate: threading.Event) -> None:
    """Answers with the first half of `TEXT`, and with the second when the gate is open."""
    data = b"".join(Reply.of(protocol, TEXT).chunks)
    cut = data.rindex(b"\n\n", 0, data.index(b"word20")) + 2
    request.send_response(200)
    request.send_header("content-type", "text/event-stream")
    request.end_headers()
    request.wfile.write(data[:cut])
    gate.wait(LIMIT)
    request.wfile.write(data[cut:])


class Gate(PausedUpstream):
    """An upstream that says its first words, and the rest when it is told to. `silent`: nothing before that."""

    def __init__(self, *, silent: bool = False) -> None:
        self.open, self._silent = threading.Event(), silent
        super().__init__(self.open)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self._silent:
            self.open.wait(LIMIT)
        stream_halves(request, "openai-chat", self.open)


@contextmanager
def waiting(*, silent: bool = False) -> Iterator[tuple[Inspected, Gate]]:
    """A gateway before a gate."""
    with Gate(silent=silent) as gate, inspected(at=gate.url) as running:
        yield running, gate


@contextmanager
def going(gateway: Inspected, gate: Gate, reader: Reader) -> Iterator[dict[str, Any]]:
    """A turn that goes on, as a row; it is over when this is left."""
    asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
    asking.start()
    (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["state"] == "streaming"])
    try:
        yield row
    finally:
        gate.open.set()
        asking.join(20)
    assert not asking.is_alive()
