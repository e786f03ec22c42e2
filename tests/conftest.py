"""What every test shares: the Hypothesis profiles, the strict mode of codecs, the tables that tests print at the end, a
quick collection, and the rule that a continuous-integration run skips nothing.

A missing tool, package or host fails the run there, where it would otherwise hide a whole suite behind a green result.
Only the recorded corpus, which is not part of the repository, may be absent.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import hypothesis
import pytest

from penstock import _bridge as translation
from penstock import _codec as codec

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.support.servers import PostgresServer

CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}
ABSENT = "corpus absent"

hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if CI else "dev")

translation.DEFAULT_CLOCK = lambda: 0.0  # what is translated twice must be the same, at the turn of a second too


class NoSkips:
    """Collects the skips that have no excuse and fails the session for them; knows nothing of why they happened."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped too; xfail_strict keeps those honest.
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        where = report.longrepr
        reason = (where[2] if isinstance(where, tuple) else str(where)).removeprefix("Skipped: ")
        if not reason.startswith(ABSENT):
            self.found[report.nodeid] = reason

    pytest_runtest_logreport = note
    pytest_collectreport = note

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.found and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("skips that are failures here", red=True, bold=True)
            for nodeid, reason in sorted(self.found.items()):
                terminalreporter.line(f"{nodeid}: {reason}")


class Tables:
    """Shows what tests have recorded as `table` (`record_property`) once all is done, whichever process ran them."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tables = [str(text) for name, text in report.user_properties if name == "table"]
        if report.when == "call" and tables:
            self.found[report.nodeid] = "\n".join(tables)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("tables")
            for _, text in sorted(self.found.items()):
                terminalreporter.line(text)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, for all tests of this process. Who stops it starts it again."""
    from tests.support.servers import PostgresServer

    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a new database."""
    with new_database(postgres) as url:
        yield url


@contextmanager
def new_database(postgres: PostgresServer) -> Generator[str]:
    """Make a database, and drop it at the end. If the server is stopped then, it is started again."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield postgres.url.rpartition("/")[0] + f"/{name}"
    if not postgres.answers():
        postgres.start()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """For well-formed streams: what a decoder could not read to its end is an exception, not a diagnostic."""
    monkeypatch.setattr(codec, "STRICT", True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests in an editor. One editor runs at a time: at the end, two workers would wait for each other."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/surfaces/vscode/"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that the modules hold is garbage: do not look for it while they are imported, nor among them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def trust_one_authority(config: pytest.Config) -> None:
    """Let clients of this process trust the first authority of certifi only.

    Each client of httpx reads all of them, which takes a tenth of a second. The tests reach no host of the internet.
    """
    if sys.platform == "win32":  # no other reader can open a file there that is deleted when it is closed
        return
    bundle = Path(certifi.where()).read_text(encoding="ascii")
    end = "-----END CERTIFICATE-----\n"
    file = tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="ascii")  # noqa: SIM115 — closed with the session
    file.write(bundle[: bundle.index(end)] + end)
    file.flush()
    certifi.where = lambda: file.name
    config.add_cleanup(file.close)


def pytest_configure(config: pytest.Config) -> None:
    trust_one_authority(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tables(), "penstock-tables")
    # Workers report to the process that started them; only that one judges.
    if CI and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoSkips(), "penstock-no-skips")
