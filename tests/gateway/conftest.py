"""A gateway before scripted upstreams, and a client of it, for the tests of a module that need no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.gateway import gateway
from tests.support.openresponses import FAST, asking, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Running, Upstream]]:
    with gateway(named, serve=FAST) as both:
        yield both


@pytest.fixture(scope="module")
def http(made: tuple[Running, Upstream]) -> Iterator[httpx.Client]:
    with asking(made[0].url) as client:
        yield client
