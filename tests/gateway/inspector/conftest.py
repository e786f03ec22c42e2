"""Gateways with their inspector, one for all tests of a module.

`gateway` serves the packaged streams at full speed and every protocol of the upstream; `slow_gateway` plays streams as a
model would speak. A test that needs another says so to `inspected`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._inspector import keeping_policy
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


@pytest.fixture
def keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are kept while somebody watches only, as with team keys."""
    monkeypatch.setattr(keeping_policy, "is_loopback", lambda _host: False)


@pytest.fixture(scope="module")
def slow_gateway() -> Iterator[Inspected]:
    with inspected(serve={"pace": 0.02}) as running:
        yield running
