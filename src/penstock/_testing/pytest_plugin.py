"""The pytest plugin: fixtures for tests of programs that use models. pytest loads it by its entry point.

It imports nothing of penstock until a fixture is used, has no automatic fixtures, and all its names begin with
`penstock`. docs/testing-your-app.md describes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from penstock._client.api import Client
    from penstock._client.sync_client import SyncClient
    from penstock._testing.cassettes import Cassette
    from penstock._testing.upstream import Upstream

_MARKER = "penstock_recording"
_MODES = ("none", "once", "new", "all")
_UNSAFE = re.compile(r"[^\w.=-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--penstock-record` and two settings."""
    group = parser.getgroup("penstock", "recorded exchanges with models (penstock)")
    group.addoption(
        "--penstock-record",
        choices=_MODES,
        default=None,
        help="what penstock_recording does: none (replay only), once (record if there is no file), new (record what is "
        "not in the file), all (record everything anew)",
    )
    parser.addini("penstock_record", "the default of --penstock-record", default="none")
    parser.addini("penstock_recordings", "the folder of recordings beside a test's file", default="recordings")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "penstock_recording(path, mode, match, ignore, normalize, repeat, timing, secrets): the file of recorded "
        "exchanges of the fixture penstock_recording, and how requests are matched; all are optional",
    )


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
def penstock_recording(request: pytest.FixtureRequest) -> Generator[Cassette]:
    """Recorded exchanges with providers, replayed without a network: `client()`, `sync_client()`, `base_url(…)`.

    The mark `penstock_recording` names the file; without it the file is named after the test. The test fails if a
    request was not in the file, also if the program hides the error.
    """
    from penstock._testing.cassettes import Cassette  # noqa: PLC0415 — the plugin must load fast

    options = _marked_options(request)
    path, failures = _recording_path(request, options.pop("path", "")), request.session.testsfailed
    marked_mode = options.pop("mode", "")
    mode = request.config.getoption("--penstock-record") or marked_mode or request.config.getini("penstock_record")
    with Cassette(path, mode, **options) as cassette:
        again = "new" if path.exists() else "once"
        cassette.hint = f"record it: pytest --penstock-record={again} '{request.node.nodeid}'"
        yield cassette
    if cassette.missing and request.session.testsfailed == failures:
        pytest.fail("\n".join(cassette.missing), pytrace=False)


def _marked_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Returns the arguments of the closest mark. The first may be given by position."""
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        return {}
    return {**dict(zip(("path", "mode"), marker.args, strict=False)), **marker.kwargs}


def _recording_path(request: pytest.FixtureRequest, given: str) -> Path:
    folder = request.path.parent
    if given:
        return folder / given
    name = request.node.nodeid.partition("::")[2] or request.node.name
    safe = _UNSAFE.sub("-", name.replace("::", ".")).strip("-")
    return folder / str(request.config.getini("penstock_recordings")) / request.path.stem / f"{safe}.json"


def _provider(request: pytest.FixtureRequest) -> Upstream | Cassette:
    """Returns what answers a test's clients: the recording if the test is marked with one, else the upstream."""
    marked = request.node.get_closest_marker(_MARKER) is not None
    found: Upstream | Cassette = request.getfixturevalue(_MARKER if marked else "penstock_upstream")
    return found


@pytest.fixture
def penstock_config() -> Any:
    """The configuration of `penstock_client` and `penstock_sync_client`. Override it in a test module."""
    return None


@pytest.fixture
def penstock_client(request: pytest.FixtureRequest, penstock_config: Any) -> Client:
    """A `penstock.Client`. Every provider is `penstock_upstream`, or the recording that the test is marked with.

    No key is needed and no retry waits, except to record.
    """
    return _provider(request).client(penstock_config)


@pytest.fixture
def penstock_sync_client(request: pytest.FixtureRequest, penstock_config: Any) -> Generator[SyncClient]:
    """The same without async."""
    with _provider(request).sync_client(penstock_config) as client:
        yield client


@pytest.fixture
def penstock_sdk_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sets the variables that point the vendors' SDKs at the upstream or the recording, such as `OPENAI_BASE_URL`."""
    variables = _provider(request).sdk_environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture
def penstock_no_network() -> Generator[None]:
    """Refuses connections, datagrams and lookups that leave this machine. The test fails if one was tried."""
    from penstock._testing.network_guard import refuse_network  # noqa: PLC0415 — the plugin must load fast

    with refuse_network() as refused:
        yield
    if refused:
        pytest.fail(f"the test tried to reach {', '.join(dict.fromkeys(refused))}", pytrace=False)
