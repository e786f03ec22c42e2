"""What a gateway writes to its log: set up as `penstock serve` does, but to a file in memory."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock._gateway.log_setup import TRACE_NEEDS_CONTENT, TRACE_WRITES_CONTENT, setup_logging

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.gateway import Running

__all__ = ["TRACE_NEEDS_CONTENT", "TRACE_WRITES_CONTENT", "logged"]


@contextmanager
def logged(running: Running) -> Generator[io.StringIO]:
    """The log of a gateway, from here to the end of the block; then the loggers are as they were."""
    one, file, services = logging.getLogger("penstock"), io.StringIO(), running.app.services
    was = (one.level, one.propagate, list(one.handlers))
    setup_logging(services.config.log, lambda: services.secrets, file)
    try:
        yield file
    finally:
        one.level, one.propagate, one.handlers = was[0], was[1], was[2]
