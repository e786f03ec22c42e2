"""Gateways with their inspector, one for all tests of a module, which serve the packaged streams at full speed.

A test that needs another says so to `inspected`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.inspector import Inspected, inspected
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


@pytest.fixture(scope="session")
def built() -> None:
    """The page is there to be looked at."""
    if not (PROJECT / "src/penstock/_inspector/static/index.html").exists():
        pytest.skip("the inspector's page is not built (make web builds it)")
