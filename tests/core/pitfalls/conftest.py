"""The streams here are small and well formed: what a codec cannot take is an exception."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _strictly(strict: None) -> None:
    """The same as asking for `strict` in every test."""
