"""Watches the configuration file and reloads it when it changes. Running requests keep the configuration they have.

The file is looked at every second, in a thread. A change counts once two looks in a row find the same file, so that a
file that is being written is not read. A broken file changes nothing; the log and `/vscode/status` say why.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from penstock._gateway.callers import is_loopback
from penstock._store.provider_keys import file_stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._gateway.config import GatewayConfig

WATCH_INTERVAL = 1.0  # seconds between two looks at the file
_STARTUP_TABLES = ("journal", "record", "state", "stores")
_STARTUP_SERVE = ("host", "port", "workers", "tls_cert", "tls_key", "access_log", "headers", "read", "idle", "drain")
_RELOADED = frozenset({"stores.outage"})
log = logging.getLogger("penstock.reload")
Loaded = TypeVar("Loaded")


class ConfigStatus(msgspec.Struct, frozen=True):
    """The result of the last reload. `error`: why the file was not accepted; the old configuration is still used."""

    error: str = ""
    restart_needed: tuple[str, ...] = ()  # settings that changed, and take effect with a restart


def watches_file(config: GatewayConfig) -> bool:
    """Return whether the gateway reloads its file when it changes. Several workers are told by SIGHUP only."""
    serve = config.serve
    return is_loopback(serve.host) if serve.watch is None else serve.watch


def restart_settings(running: GatewayConfig, config: GatewayConfig) -> tuple[str, ...]:
    """Return the settings that differ from the running gateway's, and that only a restart can change."""
    changed = [f"serve.{name}" for name in _STARTUP_SERVE if _differs(running.serve, config.serve, name)]
    if running.serve.tls_cert and config.serve.tls_cert:  # a certificate is reloaded with the file
        changed = [name for name in changed if not name.startswith("serve.tls_")]
    for table in _STARTUP_TABLES:
        old, new = getattr(running, table), getattr(config, table)
        names = [name for name in old.__struct_fields__ if f"{table}.{name}" not in _RELOADED]
        changed += [f"{table}.{name}" for name in names if _differs(old, new, name)]
    return tuple(changed)


def _differs(old: Any, new: Any, name: str) -> bool:
    return bool(getattr(old, name) != getattr(new, name))


class ConfigWatcher(Generic[Loaded]):
    """Loads the configuration in a thread when the file at `path` changes, and applies it on the event loop."""

    def __init__(self, path: Path, load: Callable[[], Loaded], apply: Callable[[Loaded], object]) -> None:
        self._path, self._load, self._apply = path, load, apply
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, on the running loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch(file_stamp(self._path)))

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, used: tuple[int, ...]) -> None:
        seen = used
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            found = await asyncio.to_thread(file_stamp, self._path)
            stable, seen = found == seen, found
            if not stable or found == used:
                continue
            used = found
            try:
                self._apply(await asyncio.to_thread(self._load))
            except Exception:
                log.exception("the configuration could not be reloaded")
