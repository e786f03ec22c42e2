"""A name that moved to `tests.support.proxy_server`."""

from __future__ import annotations

from tests.support.proxy_server import Proxy

__all__ = ["Proxy"]
