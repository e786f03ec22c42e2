"""The minutes in which a journal notes only the first refusals of a kind, and counts the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock._gateway import journal

if TYPE_CHECKING:
    import pytest

    from tests.support.gateway import Running


def write_counts(running: Running, *, later: float = 0.0) -> None:
    """Write what was only counted, and have its clock be `later` by so many seconds."""

    async def write() -> None:
        throttle = running.app.services.telemetry.throttle
        throttle.flush()
        throttle._clock = lambda: time.monotonic() + later

    running.call(write())


def short_minutes(patch: pytest.MonkeyPatch) -> None:
    """Have what was only counted be written at once by the clock."""
    patch.setattr(journal, "MINUTE", 0.05)
