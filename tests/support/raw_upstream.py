"""An upstream that logs every byte it is sent, and the requests that h11 reads in them. Also a client of raw bytes."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import h11

from penstock.testing import Reply, play

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 20.0
JSON = [("content-type", "application/json")]
PROTOCOLS = (("/messages", "anthropic"), ("enerateContent", "gemini"), ("/converse", "bedrock"))


class Request(NamedTuple):
    """A request as h11 reads it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes


class RawUpstream:
    """Answers each request that it finds in the bytes, and keeps connections open. As a proxy it answers by itself."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections: list[bytearray] = []
        self.errors: list[str] = []
        self.closed = threading.Semaphore(0)  # released once for each connection that has ended
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._bodies = {
            name: Reply.of(name, play("text"), stream=False).data for name in ("openai-chat", "anthropic", "gemini")
        }
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def raw(self) -> bytes:
        return b"".join(map(bytes, self.connections))

    def close(self) -> None:
        """Wake every thread, which closes its own socket, and wait for it."""
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIMIT)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(made)
            log = bytearray()
            self.connections.append(log)
            self._threads.append(threading.Thread(target=self._serve, args=(made, log), daemon=True))
            self._threads[-1].start()

    def _serve(self, made: socket.socket, log: bytearray) -> None:
        parser = h11.Connection(h11.SERVER)
        try:
            while (request := self._read(parser, made, log)) is not None:
                with self._lock:
                    self.requests.append(request)
                made.sendall(self._answer(parser, request))
                parser.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self.errors.append(str(error))
        except OSError:
            pass  # the gateway has left
        finally:
            made.close()
            self.closed.release()

    def _read(self, parser: h11.Connection, made: socket.socket, log: bytearray) -> Request | None:
        head: h11.Request | None = None
        body = b""
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                data = made.recv(65536)
                log += data
                parser.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
                return Request(head.method.decode(), head.target.decode(), headers, body)
            else:
                return None

    def _answer(self, parser: h11.Connection, request: Request) -> bytes:
        protocol = next((name for end, name in PROTOCOLS if end in request.target), "openai-chat")
        body = self._bodies.get(protocol, b"{}")
        head = h11.Response(status_code=200, headers=[*JSON, ("content-length", str(len(body)))])
        parts = [parser.send(head), parser.send(h11.Data(data=body)), parser.send(h11.EndOfMessage())]
        return b"".join(part or b"" for part in parts)


@contextmanager
def raw_upstream() -> Iterator[RawUpstream]:
    up = RawUpstream()
    try:
        yield up
    finally:
        up.close()


def exchange(url: str, data: bytes) -> bytes:
    """Send bytes to a server and read all that it answers until it closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as made:
        made.sendall(data)
        answer = b""
        while piece := made.recv(65536):
            answer += piece
    return answer


def request(
    path: bytes, body: bytes = b"", *headers: tuple[bytes, bytes], method: bytes = b"POST", host: bytes = b"localhost"
) -> bytes:
    """A request that asks for the connection to be closed; `headers` are written as they are given."""
    lines = [b"%b %b HTTP/1.1" % (method, path), b"host: %b" % host] if host else [b"%b %b HTTP/1.1" % (method, path)]
    lines += [b"%b: %b" % pair for pair in headers]
    lines += [b"content-length: %d" % len(body), b"connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    """The status of the only response in an answer; 0 where there is none."""
    assert answer.count(b"HTTP/1.1 ") <= 1, answer
    return int(answer.split(b" ", 2)[1]) if answer else 0
