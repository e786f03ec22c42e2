"""Fixtures of the tests of engines."""

from __future__ import annotations

from tests.support.certificates import certified

__all__ = ["certified"]
