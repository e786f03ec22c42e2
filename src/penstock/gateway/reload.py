"""A new configuration without a new process: on SIGHUP, where there is one. What is running keeps what it began with.

A file that cannot be read changes nothing, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.gateway.config import GatewayConfig, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Apply = Callable[[GatewayConfig], None]

log = logging.getLogger("penstock.reload")


class Reloader:
    """Reads the file again and hands it to whoever must know. `overrides` puts what the command line said on top."""

    def __init__(
        self, path: Path | None, env: Mapping[str, str], apply: Apply,
        overrides: Callable[[GatewayConfig], GatewayConfig] = lambda config: config,
    ) -> None:  # fmt: skip
        self._path, self._env, self._apply, self._overrides = path, env, apply, overrides
        self.count = 0  # reloads that took effect

    def now(self) -> bool:
        """Reload; False where the file is no good, and the old configuration stays."""
        try:
            config = self._overrides(load(self._path, self._env))
            self._apply(config)
        except (PenstockError, OSError) as error:
            log.error("the configuration was not reloaded, the old one stays: %s", error)  # noqa: TRY400
            return False
        self.count += 1
        log.warning("the configuration was reloaded from %s", config.path or "nowhere: there is no file")
        return True

    def listen(self, on_signal: Callable[[], object] | None = None) -> bool:
        """Reload on SIGHUP, or do what is given; False where the system has none."""
        number = getattr(signal, "SIGHUP", None)
        if number is None:
            return False
        try:
            asyncio.get_running_loop().add_signal_handler(number, on_signal or self.now)
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        return True
