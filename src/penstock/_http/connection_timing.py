"""When the phases of connecting to an upstream server ended. Measured only for requests whose observer asks for it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Iterable

    from penstock._http.connection import UpstreamConnection

_now = time.monotonic


class ConnectionTiming(msgspec.Struct, eq=False, kw_only=True):
    """Times by the monotonic clock; 0 for what did not happen. `reused`: an idle connection was used."""

    reused: bool = False
    connect_start: float = 0.0
    resolved: float = 0.0  # the host name is resolved
    connected: float = 0.0  # TCP is connected
    secured: float = 0.0  # the TLS handshake is complete


async def connect_timed(
    connection: UpstreamConnection, host: str, port: int, tls: ssl.SSLContext | None, timing: ConnectionTiming
) -> None:
    """Connects as `loop.create_connection` does, address after address, and notes when each phase ended."""
    loop = connection.loop
    timing.reused, timing.connected, timing.secured = False, 0.0, 0.0
    timing.connect_start = _now()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    timing.resolved = _now()
    opened = await _connect_socket(loop, addresses)
    timing.connected = _now()
    options: dict[str, Any] = {} if tls is None else {"ssl": tls, "server_hostname": host}
    try:
        await loop.create_connection(lambda: connection, sock=opened, **options)
    except BaseException:
        opened.close()
        raise
    timing.secured = _now() if tls is not None else 0.0


async def _connect_socket(loop: asyncio.AbstractEventLoop, addresses: Iterable[tuple[Any, ...]]) -> socket.socket:
    """Returns a socket that is connected to the first address that answers."""
    failed: OSError = OSError("the host has no address")
    for family, kind, protocol, _, address in addresses:
        opened: socket.socket | None = None
        try:
            opened = socket.socket(family, kind, protocol)
            opened.setblocking(False)  # noqa: FBT003 — as the standard library has it
            await loop.sock_connect(opened, address)
        except BaseException as error:
            if opened is not None:
                opened.close()
            if not isinstance(error, OSError):
                raise
            failed = error.with_traceback(None)
        else:
            return opened
    raise failed
