"""Refuses connections to other machines while a test runs. Connections on this machine are allowed.

It covers Python's own sockets, and so asyncio, httpx, requests and aiohttp; not libraries with sockets in C.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Generator


class NetworkRefused(PenstockError, OSError):  # noqa: N818 — named like those of `penstock.errors`
    """A connection to another machine that a test must not make."""


@contextmanager
def refuse_network() -> Generator[list[str]]:
    """Refuses connections to other machines. Returns the list of those that were tried."""
    refused: list[str] = []
    methods = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}
    earlier = {name: one for name, one in vars(socket.socket).items() if name in methods}  # of another guard

    def guard(name: str) -> Any:
        def connect(self: socket.socket, address: Any) -> Any:
            if not _is_local(self.family, address):
                refused.append(f"{address[0]}:{address[1]}")
                raise NetworkRefused(f"a test must not connect to {refused[-1]}")
            return methods[name](self, address)

        return connect

    for name in methods:
        setattr(socket.socket, name, guard(name))
    try:
        yield refused
    finally:
        for name in methods:
            if name in earlier:
                setattr(socket.socket, name, earlier[name])
            else:
                delattr(socket.socket, name)  # the method of the class below it shows again


def _is_local(family: int, address: Any) -> bool:
    """True for addresses of this machine, and for sockets that are not of the Internet."""
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return True
    host = str(address[0]).partition("%")[0]
    if host in {"", "localhost"}:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
