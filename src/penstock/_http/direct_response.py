"""Writes a response straight to the connection, past ASGI, when the gateway's own server runs the application.

The server puts a `ResponseChannel` in the request's scope. With it a chunk is written inside the callback that read it,
the head leaves together with the first chunk, and a disconnect is reported by a call instead of a waiting task. The
channel writes the head and the end of a stream itself and updates uvicorn's state. Without a channel, ASGI's `send`
does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._http.header_fields import encode_response_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

SCOPE_KEY = "penstock.line"
SMALL_BODY = 2**16  # bytes
_STATUS_LINE_START = b"HTTP/1.1 "
_INFORMATIONAL = b"HTTP/1.1 1"
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_CLOSE = b"connection: close\r\n"
# Attributes of uvicorn's RequestResponseCycle that a channel uses. `uvicorn_server` checks at start that they exist.
_CYCLE_NAMES = """access_log body chunked_encoding default_headers disconnected flow keep_alive message_event more_body
    on_response response_complete response_started scope transport waiting_for_100_continue"""
CYCLE_ATTRIBUTES = frozenset(_CYCLE_NAMES.split())


class ResponseChannel:
    """The channel of one request. Uvicorn's request cycle uses it as its transport."""

    __slots__ = ("_cycle", "_head", "_loop", "_transport", "flow", "lost", "on_disconnect")

    def __init__(self, cycle: Any, transport: Any, loop: Any) -> None:
        self._cycle, self._transport, self._loop = cycle, transport, loop
        self.flow: Any = cycle.flow
        self._head = b""  # a head that waits for the first chunk
        self.lost: bool = False
        self.on_disconnect: Callable[[], None] | None = None

    # ── used by the application ───────────────────────────────────────────────────────────────────

    def owns_send(self, send: Any) -> bool:
        """True if `send` is uvicorn's own. A wrapper around it must see the head and the end of the response."""
        return getattr(send, "__self__", None) is self._cycle

    def take_body(self, limit: int) -> bytes | None:
        """Returns the request's body if it is complete, small and within the limit; else None: use `receive`."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or len(cycle.body) > min(SMALL_BODY, limit):
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()  # as `receive` does
        return body

    def start_stream(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Prepares the head of a stream, to be written with the first chunk. False: use `send`."""
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_started or cycle.access_log:
            return False
        fields = encode_response_headers([*cycle.default_headers, *headers])
        cycle.response_started = cycle.chunked_encoding = True
        cycle.waiting_for_100_continue = False
        self._head = _OK + fields + (_CHUNKED if cycle.keep_alive else _CLOSE + _CHUNKED)
        self._loop.call_soon(self._flush_head)
        return True

    def end_stream(self, data: bytes) -> bool:
        """Writes the last chunk and the end of a stream. False: use `send`."""
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_complete or not cycle.chunked_encoding:
            return False
        head, self._head = self._head, b""
        self._transport.write(b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(data), data) if data else head + b"0\r\n\r\n")
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
        self.detach()
        return True

    def write_chunk(self, data: bytes) -> bool:
        """Writes a chunk of a stream now. False: the client does not read now, or has disconnected; use `send`.

        Empty data writes nothing: a chunk of size 0 would end the stream.
        """
        cycle = self._cycle
        if self.flow.write_paused or self.lost or cycle.response_complete or not cycle.chunked_encoding:
            return False
        if data:
            head, self._head = self._head, b""
            self._transport.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        return True

    def watch_disconnect(self, callback: Callable[[], None]) -> None:
        """Calls back when the client disconnects; soon, if it already has."""
        self.on_disconnect = callback
        self.flow.resume_reading()  # a paused transport does not notice a disconnect
        if self.lost:
            self._loop.call_soon(callback)

    def connection_lost(self) -> None:
        """Called by the server when the connection is lost."""
        self.lost = True
        if self.on_disconnect is not None:
            self.on_disconnect()

    @property
    def is_complete(self) -> bool:
        return bool(self._cycle.response_complete)

    def detach(self) -> None:
        """Removes the channel from the request. Only the garbage collector frees objects that refer to each other."""
        self._cycle.transport = self._transport
        self._cycle.scope.pop(SCOPE_KEY, None)

    # ── used by uvicorn as a transport ────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_STATUS_LINE_START) and not data.startswith(_INFORMATIONAL):
            self._head = data
            self._loop.call_soon(self._flush_head)
            return
        self._transport.write(data)

    def _flush_head(self) -> None:
        """Writes a head that no chunk followed at once."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self._flush_head()
        self._transport.close()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())


def find_channel(scope: MutableMapping[str, Any]) -> ResponseChannel | None:
    """Returns the channel of a request if its server gave it one."""
    found = scope.get(SCOPE_KEY)
    return found if isinstance(found, ResponseChannel) else None
