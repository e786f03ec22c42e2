"""What stands in for a network: a transport that keeps what is written, and an event loop."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class FakeTransport:
    """Takes what is written, and says whether it was closed."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, chunks: Sequence[bytes]) -> None:
        self.written += b"".join(chunks)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 50000), "sockname": ("127.0.0.1", 4480)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def _nothing(self, *_: object, **__: object) -> None: ...

    pause_reading = resume_reading = set_write_buffer_limits = write_eof = _nothing


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """One loop for all inputs of a process."""
    return asyncio.new_event_loop()
