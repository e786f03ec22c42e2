"""Names that moved to `tests.support.certificates`."""

from __future__ import annotations

from tests.support.certificates import Papers, certified

__all__ = ["Papers", "certified"]
