"""The providers of a gateway: those of `penstock.toml`, then custom providers of admins, then what an editor gives.

The file goes first: a custom provider of the same name is not used, and the list of providers says so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent import futures
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._gateway.custom_provider_validation import check_custom_provider, make_account
from penstock._store.custom_providers import CustomProvidersFile
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engines.config import Config
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.editor_keys import EditorKeys
    from penstock._store.custom_providers import CustomProvider

WATCH_INTERVAL = 0.5  # seconds between two looks at the file
APPLY_TIMEOUT = 10.0  # seconds for the event loop to use changed providers
log = logging.getLogger("penstock.providers")


class CustomProviders:
    """The rows of `custom-providers.json` that this process uses. A damaged file changes nothing, and is logged once.

    `rows`: as the file has them; `error`: why the file as it is now is not used. `problems`: why providers are not.
    """

    def __init__(self, data: Path | None) -> None:
        self.file: CustomProvidersFile | None = CustomProvidersFile(data) if data is not None else None
        self.rows: dict[str, CustomProvider] = {}
        self.problems: dict[str, str] = {}
        self.error: str = ""
        self.version: int = 0  # grows with each change of `rows`
        self._stamp: tuple[int, ...] | None = None  # of the file that was read; None: it must be read again
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        if self.file is None:
            return
        with self._lock:
            stamp = self.file.stamp()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                rows, self.error = self.file.read(), ""
            except (InputError, OSError) as error:
                if isinstance(error, OSError):
                    self._stamp = None  # the file may become readable without a change
                if str(error) != self.error:
                    log.warning("custom providers: %s", error)
                self.error = str(error)
                return
            if rows != self.rows:
                self.rows = rows
                self.version += 1

    def apply(self, config: Config) -> Config:
        """Return the configuration with the custom providers that can be used."""
        before, self.problems = self.problems, {}
        accounts = dict(config.providers)
        for name, custom in self.rows.items():
            if name in config.providers:
                fix = "rename one of them, or remove this one"
                self.problems[name] = f"not used: penstock.toml has a provider {name!r}, which goes first; {fix}"
                continue
            try:
                check_custom_provider(name, custom)
            except InputError as error:
                self.problems[name] = f"not used: {error}"
            else:
                accounts[name] = make_account(custom)
        for name, problem in self.problems.items():
            if before.get(name) != problem:
                log.warning("the custom provider %s is %s", name, problem)
        return replace(config, providers=accounts) if self.rows else config


def merge_providers(file: Config, custom: CustomProviders, editor: EditorKeys) -> Config:
    """Return the providers of all layers."""
    return editor.apply(custom.apply(file), file)


def add_custom_providers(config: GatewayConfig) -> GatewayConfig:
    """Return the configuration with the custom providers of the data folder, for commands."""
    return replace(config, engine=CustomProviders(config.data).apply(config.engine))


class CustomProvidersWatcher:
    """Reads the custom providers again when another process has changed the file, and has them used."""

    def __init__(self, custom: CustomProviders, apply: Callable[[], object]) -> None:
        self._custom, self._apply = custom, apply
        self._used = custom.version  # the version that was applied last
        self._error = ""  # that was logged last
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, on the running loop."""
        loop = asyncio.get_running_loop()
        if self._custom.file is not None and (self._task is None or self._task.get_loop() is not loop):
            self._task = loop.create_task(self._watch())

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def apply(self) -> None:
        """Have the custom providers used as they are known now. If that fails, it is tried again."""
        version = self._custom.version
        self._apply()
        self._used, self._error = version, ""

    def apply_on_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the same from a thread. If the loop is busy for longer than `APPLY_TIMEOUT`, it applies them later."""

        async def apply() -> None:
            self.apply()

        applied = asyncio.run_coroutine_threadsafe(apply(), loop)
        if futures.wait([applied], APPLY_TIMEOUT).done:
            applied.result()
        else:
            log.warning("the event loop is busy: it uses the changed providers later")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            try:
                await asyncio.to_thread(self._custom.refresh)
                if self._custom.version != self._used:
                    self.apply()
            except Exception as error:
                if repr(error) != self._error:  # else it would be logged with every look
                    self._error = repr(error)
                    log.exception("custom providers that were changed could not be used")
