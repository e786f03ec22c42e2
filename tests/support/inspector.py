"""A gateway with its inspector before a scripted upstream."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock._inspector.session_token import HEADER
from penstock._inspector.static_files import StaticFiles
from penstock.gateway import App, Inspector
from penstock.testing import scripted
from tests.support.gateway import Running, answer, config

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from penstock.testing import Upstream


class OwnInspector(Inspector):
    """An inspector whose callers have its session token, unless they send another."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        header = HEADER.encode()
        if scope["type"] == "http" and header not in dict(scope["headers"]):
            scope = {**scope, "headers": [*scope["headers"], (header, self.session_token.encode())]}
        await super().__call__(scope, receive, send)


class Inspected(Running):
    """A gateway that runs, its inspector before it. `up` is the upstream behind it."""

    up: Upstream
    app: Any

    @property
    def inspector(self) -> Inspector:
        found = self.app
        assert isinstance(found, Inspector)
        return found


@contextmanager
def inspected(
    *replies: Any, env: Mapping[str, str] | None = None, at: str = "", pages: Path | None = None, **more: Any
) -> Generator[Inspected]:
    """A gateway with these replies behind it, or another upstream (`at`); options are those of the configuration.

    Callers have the session token, unless it is `without_session`. `pages`: a folder with a page of the test's own.
    """
    with scripted(*(replies or (answer,))) as up:
        serve = more.pop("serve", {"pace": 0.0})
        make = Inspector if more.pop("without_session", False) else OwnInspector
        app = App(config(at or up.url, serve=serve, **more), env={} if env is None else env)
        with run_inspector(make(app, StaticFiles(pages) if pages else None)) as running:
            running.up = up
            yield running


@contextmanager
def run_inspector(inspector: Any) -> Generator[Inspected]:
    """Runs a gateway with its inspector before it, and stops it as the program does."""
    with Inspected(inspector) as running:
        try:
            yield running
        finally:
            running.call(_stop(running.inspector))


async def _stop(inspector: Inspector) -> None:
    inspector.stopping()
