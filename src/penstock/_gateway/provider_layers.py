"""The providers of a gateway: those of `penstock.toml`, then servers that an admin added, then what an editor gives.

The file goes first: a server of the same name that was added elsewhere is not used, and the list of providers says so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
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
log = logging.getLogger("penstock.providers")


class CustomProviders:
    """The rows of `custom-providers.json` that this process uses. A damaged file changes nothing, and is logged once.

    `rows`: as the file has them; `error`: why the file as it is now is not used. `problems`: by server, why it is not.
    """

    def __init__(self, data: Path | None) -> None:
        self.file: CustomProvidersFile | None = CustomProvidersFile(data) if data is not None else None
        self.rows: dict[str, CustomProvider] = {}
        self.problems: dict[str, str] = {}
        self.error: str = ""
        self.version: int = 0  # grows with each change of `rows`
        self._stamp: tuple[int, ...] = ()
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
                    self._stamp = ()  # the file may become readable without a change
                if str(error) != self.error:
                    log.warning("servers that were added on the page or through the admin API: %s", error)
                self.error = str(error)
                return
            if rows != self.rows:
                self.rows = rows
                self.version += 1

    def apply(self, config: Config) -> Config:
        """Return the configuration with the servers that can be used."""
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
                log.warning("the server %s, which was added on the page or through the admin API, is %s", name, problem)
        return replace(config, providers=accounts) if self.rows else config


def merge_providers(file: Config, custom: CustomProviders, editor: EditorKeys) -> Config:
    """Return the providers of all layers."""
    return editor.apply(custom.apply(file), file)


def with_custom_providers(config: GatewayConfig) -> GatewayConfig:
    """Return the configuration with the servers of the data folder, for commands."""
    return replace(config, engine=CustomProviders(config.data).apply(config.engine))


class CustomProvidersWatcher:
    """Reads the servers again when another process has changed the file, and has them used."""

    def __init__(self, custom: CustomProviders, apply: Callable[[], object]) -> None:
        self._own, self._apply = custom, apply
        self._used = custom.version
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, on the running loop."""
        loop = asyncio.get_running_loop()
        if self._own.file is not None and (self._task is None or self._task.get_loop() is not loop):
            self._task = loop.create_task(self._watch())

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def use(self) -> None:
        """Have the servers used as they are known now."""
        self._used = self._own.version
        self._apply()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            try:
                await asyncio.to_thread(self._own.refresh)
                if self._own.version != self._used:
                    self.use()
            except Exception:
                log.exception("servers that were added could not be read again")
