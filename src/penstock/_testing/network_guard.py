"""Refuses connections, datagrams and name lookups that leave this machine while a test runs. Loopback is allowed.

It covers Python's own sockets, and so asyncio, httpx, requests and aiohttp; not libraries with sockets in C.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_SENDING_METHODS: dict[str, Callable[..., Any]] = {  # of a socket: its arguments → the address; None: it is connected
    "connect": lambda *args: args[-1],
    "connect_ex": lambda *args: args[-1],
    "sendto": lambda *args: args[-1],
    "sendmsg": lambda *args: (*args, None, None, None)[3],
}
# Functions of `socket` that ask a resolver. `getnameinfo` and `gethostbyaddr` ask for the name of an address.
_LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")


class NetworkRefused(PenstockError, OSError):  # noqa: N818 — named like those of `penstock.errors`
    """A connection, datagram or name lookup that a test must not make."""


@contextmanager
def refuse_network() -> Generator[list[str]]:
    """Refuses what would leave this machine. Returns the list of what was tried: hosts with ports, or names."""
    refused: list[str] = []

    def refuse(what: str, target: str) -> None:
        refused.append(target)
        raise NetworkRefused(f"a test must not {what} {target}")

    with ExitStack() as stack:
        for name, address_of in _SENDING_METHODS.items():
            if hasattr(socket.socket, name):  # Windows has no `sendmsg`
                _replace(stack, socket.socket, name, _guarded_send(getattr(socket.socket, name), address_of, refuse))
        for name in _LOOKUPS:
            _replace(stack, socket, name, _guarded_lookup(getattr(socket, name), refuse))
        yield refused


def _guarded_send(original: Callable[..., Any], address_of: Callable[..., Any], refuse: Callable[..., None]) -> Any:
    what = "connect to" if original.__name__.startswith("connect") else "send to"

    def send(self: socket.socket, *args: Any) -> Any:
        address: Any = address_of(*args) if args else None
        if type(address) is tuple and not _is_local_address(self.family, address):
            refuse(what, f"{address[0]}:{address[1]}")
        return original(self, *args)

    return send


def _guarded_lookup(original: Callable[..., Any], refuse: Callable[..., None]) -> Any:
    def look_up(host: Any = None, *args: Any, **settings: Any) -> Any:
        # An address of another machine needs no resolver; what is sent to it is refused later.
        name = _host_name(host)
        if name and not _is_local_host(name) and (not _is_address(name) or original.__name__ in _REVERSE):
            refuse("look up", name)
        return original(host, *args, **settings)

    return look_up


def _host_name(host: Any) -> str:
    """Returns the host of a lookup, which may be a name, an address with a port, or nothing."""
    if isinstance(host, bytes):
        return host.decode("utf-8", "replace")
    return str(cast("Any", host)[0] if isinstance(host, tuple) else host or "")


_REVERSE = frozenset({"gethostbyaddr", "getnameinfo"})


def _replace(stack: ExitStack, owner: Any, name: str, guarded: Any) -> None:
    """Replaces an attribute until the stack is closed. One of a base class shows again then."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, guarded)


def _is_local_address(family: int, address: Any) -> bool:
    """True for addresses of this machine, and for sockets that are not of the Internet."""
    return family not in {socket.AF_INET, socket.AF_INET6} or _is_local_host(str(address[0]))


def _is_local_host(name: str) -> bool:
    host = name.partition("%")[0].rstrip(".").lower()
    if host in {"", "localhost", "localhost.localdomain", socket.gethostname().lower()} or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
