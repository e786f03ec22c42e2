"""A line: what one request of a connection may do beyond ASGI, where our own server runs the application.

It is put in the scope. With it a chunk is written from within the callback that read it, the head of an answer leaves
with its first chunk, and a client's leaving is told at once: no task waits for it. A stream's head and end are written
without uvicorn's help, which is told of them. Elsewhere ASGI does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.http.header_fields import encode_response_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

NAME = "penstock.line"  # in the scope
SMALL = 2**16  # bytes of a body
_HEAD = b"HTTP/1.1 "
_INFORMING = b"HTTP/1.1 1"  # is no head of an answer
_FINE = b"HTTP/1.1 200 OK\r\n"
_PIECES = b"transfer-encoding: chunked\r\n\r\n"
_LAST = b"connection: close\r\n"


class Line:
    """One request. To uvicorn's cycle, which writes the answer, it is the transport."""

    __slots__ = ("_cycle", "_head", "_loop", "_transport", "bare", "flow", "leaving", "lost")

    def __init__(self, cycle: Any, transport: Any, loop: Any) -> None:
        self._cycle, self._transport, self._loop = cycle, transport, loop
        # For whoever writes a frame at a time, and is sure that a stream is going on: the connection's own `write`,
        # and where it says that nothing more can be taken now.
        self.bare, self.flow = transport.write, cycle.flow
        self._head = b""
        self.lost = False
        self.leaving: Callable[[], None] | None = None  # called once the client has gone

    # ── what a turn does with it ──────────────────────────────────────────────────────────────────

    def speaks(self, send: Any) -> bool:
        """Whether a `send` is uvicorn's own: what somebody has put around it must see the head and the end."""
        return getattr(send, "__self__", None) is self._cycle

    def take_body(self, limit: int) -> bytes | None:
        """The body, where it has come whole, is small, and not over a limit; else None: `receive` it."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or len(cycle.body) > min(SMALL, limit):
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()  # as `receive` does
        return body

    def begin(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """The head of a stream, which leaves with what follows it. False: `send` it."""
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_started or cycle.access_log:
            return False
        made = encode_response_headers([*cycle.default_headers, *headers])
        cycle.response_started = cycle.chunked_encoding = True
        cycle.waiting_for_100_continue = False
        self._head = _FINE + made + (_PIECES if cycle.keep_alive else _LAST + _PIECES)
        self._loop.call_soon(self._alone)
        return True

    def end(self, data: bytes) -> bool:
        """The last chunk of a stream, and its end. False: `send` it."""
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_complete or not cycle.chunked_encoding:
            return False
        head, self._head = self._head, b""
        framed = b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(data), data) if data else head + b"0\r\n\r\n"
        self._transport.write(framed)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
        self.part()
        return True

    def push(self, data: bytes) -> bool:
        """Write a chunk of a stream now. False: the client cannot take it now, or has gone; then `send` it."""
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_complete or not cycle.chunked_encoding:
            return False
        head = self._head
        if head:
            self._head = b""
            self._transport.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        else:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def watch(self, leaving: Callable[[], None]) -> None:
        """Be told when the client goes; soon, if it has gone."""
        self.leaving = leaving
        self.flow.resume_reading()  # else nobody would notice
        if self.lost:
            self._loop.call_soon(leaving)

    def left(self) -> None:
        """The connection was lost."""
        self.lost = True
        if self.leaving is not None:
            self.leaving()

    @property
    def over(self) -> bool:
        return bool(self._cycle.response_complete)

    def part(self) -> None:
        """Let go of the request, which holds this line: what holds each other is only freed by the collector."""
        self._cycle.transport = self._transport
        self._cycle.scope.pop(NAME, None)

    # ── what uvicorn asks of a transport ──────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD) and not data.startswith(_INFORMING):
            self._head = data
            self._loop.call_soon(self._alone)
            return
        self._transport.write(data)

    def _alone(self) -> None:
        """A head that nothing has followed at once."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self._alone()
        self._transport.close()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())


def line_of(scope: MutableMapping[str, Any]) -> Line | None:
    """The line of a request, where its server gives it one."""
    found = scope.get(NAME)
    return found if isinstance(found, Line) else None
