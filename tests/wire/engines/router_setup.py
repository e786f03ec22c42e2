"""Names that moved to `tests.support.routed_client`."""

from __future__ import annotations

from tests.support.routed_client import KEY, VENDORS, each_engine, quick, router, run

__all__ = ["KEY", "VENDORS", "each_engine", "quick", "router", "run"]
