"""The pytest plugin: fixtures for tests of programs that use models. pytest loads it by its entry point.

It imports nothing of penstock until a fixture is used, has no automatic fixtures, and all its names begin with
`penstock`. docs/testing-your-app.md describes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._client.api import Client
    from penstock._client.sync_client import SyncClient
    from penstock._testing.upstream import Upstream


@pytest.fixture
def penstock_upstream() -> Generator[Upstream]:
    """A scripted provider on this machine: `script` sets its replies, `requests` are what it received.

    The test fails if it received a request that it had no reply for.
    """
    from penstock._testing.upstream import scripted  # noqa: PLC0415 — the plugin must load fast

    with scripted(keep_alive=False) as up:
        yield up
    if up.problems:
        pytest.fail("\n".join(up.problems), pytrace=False)


@pytest.fixture
def penstock_config() -> Any:
    """The configuration of `penstock_client` and `penstock_sync_client`. Override it in a test module."""
    return None


@pytest.fixture
def penstock_client(request: pytest.FixtureRequest, penstock_config: Any) -> Client:
    """A `penstock.Client`. Every provider is `penstock_upstream`; no key is needed and no retry waits."""
    up: Upstream = request.getfixturevalue("penstock_upstream")
    return up.client(penstock_config)


@pytest.fixture
def penstock_sync_client(request: pytest.FixtureRequest, penstock_config: Any) -> Generator[SyncClient]:
    """The same without async."""
    up: Upstream = request.getfixturevalue("penstock_upstream")
    with up.sync_client(penstock_config) as client:
        yield client


@pytest.fixture
def penstock_sdk_environment(penstock_upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sets the variables that point the vendors' SDKs at `penstock_upstream`, such as `OPENAI_BASE_URL`."""
    variables = penstock_upstream.sdk_environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables
