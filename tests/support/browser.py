"""The machine's own Chromium, driven by Playwright.

Its headless shell is preferred, as by Playwright itself: the same engine without windows opens a page in half the time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser

PAGE = PROJECT / "src/penstock/_inspector/static"  # as `make web` builds it
SHOTS = os.environ.get("PENSTOCK_SHOTS", "")  # a folder: pictures are kept there, else nowhere
LIMIT = 30_000  # milliseconds that a step in the browser may take
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = "Chromium is missing (Debian: apt-get install chromium-headless-shell; Ubuntu: apt-get install chromium)"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"]


@contextmanager
def chromium(limit: int = LIMIT) -> Generator[Browser]:
    """A Chromium without a window. Playwright holds an event loop in this thread as long as it runs."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=limit)
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, headless=True, args=FLAGS, timeout=120_000)
        try:
            yield made
        finally:
            made.close()


@contextmanager
def shared_chromium() -> Generator[Callable[[], AbstractContextManager[Browser]]]:
    """A Chromium for several modules: each takes it for a time.

    Meanwhile, Playwright's event loop runs in this thread. At other times the thread has none, so that tests elsewhere
    can run their own.
    """
    with chromium() as made:
        loop = asyncio.get_running_loop()

        @contextmanager
        def taken() -> Generator[Browser]:
            asyncio._set_running_loop(loop)
            try:
                yield made
            finally:
                asyncio._set_running_loop(None)

        asyncio._set_running_loop(None)
        try:
            yield taken
        finally:
            asyncio._set_running_loop(loop)
