"""The process's environment, as it is at each request, and the keys that `penstock setup` stored.

Stored keys have names that no variable has (`stored_name`). Any other mapping can take the environment's place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from penstock._providers.registry import STORED
from penstock._store.provider_keys import StoredKeyWatcher


class ProcessEnvironment(Mapping[str, str]):
    """A view of `os.environ` as it is now, and of the stored keys of providers.

    `unchanging`: no code of this process changes the variables, so that they need not be compared at each request.
    """

    unchanging: bool = False

    def __init__(self) -> None:
        self._watch = StoredKeyWatcher()

    @property
    def stored(self) -> Mapping[str, str]:
        """Stored keys by provider. Always the same object."""
        self._watch.refresh(self)
        return self._watch.keys

    def origin(self, provider: str) -> str:
        """Returns the origin that a stored key is for; empty if it is unknown."""
        self._watch.refresh(self)
        return self._watch.origins.get(provider, "")

    def refresh_stored_keys(self) -> None:
        """Reads the stored keys again if their file has changed. It is checked at most once an interval."""
        self._watch.look(self)

    def __getitem__(self, name: str) -> str:
        return self.stored[name.removeprefix(STORED)] if name.startswith(STORED) else os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)

    def get(self, key: str, /, default: Any = None) -> Any:  # Mapping's overloads are too many to repeat
        if key.startswith(STORED):
            return self.stored.get(key.removeprefix(STORED), default)
        return os.environ.get(key, default)


LIVE = ProcessEnvironment()


class EnvironmentChanges:
    """Detects changes of an environment. The process's own always counts, because it names the proxies."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._given: Mapping[str, str] = {} if env is LIVE else env
        self._stored = LIVE.stored
        # As bytes where possible, which saves decoding them.
        self._process: Any = os.environb if os.supports_bytes_environ else os.environ
        self._names: list[Any] = []
        self._values: list[Any] = []
        self._seen: tuple[Any, ...] = ()

    def any(self) -> bool:
        """Returns True if something changed since the last call."""
        LIVE.refresh_stored_keys()
        if self._same_variables() and self._seen == (self._given, self._stored):
            return False
        _ = LIVE.stored  # reads the keys again if the data folder is another one
        variables = dict(self._process)
        self._names, self._values = list(variables), list(variables.values())
        self._seen = (dict(self._given), dict(self._stored))
        return True

    def _same_variables(self) -> bool:
        """Returns True if there are as many variables as before, and all of them are there with their values."""
        if LIVE.unchanging and self._names:
            return True
        if len(self._process) != len(self._names):
            return False
        try:
            process = self._process
            return [process[name] for name in self._names] == self._values
        except KeyError:
            return False


def live(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the mapping to read: `LIVE` if none is given or it is `os.environ`."""
    return LIVE if env is None or env is os.environ else env


def stored_keys(env: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the stored keys by provider. Only the process's environment has them."""
    return env.stored if isinstance(env, ProcessEnvironment) else {}


def stored_origin(env: Mapping[str, str], provider: str) -> str:
    """Returns the origin that a provider's stored key is for; empty if it is unknown."""
    return env.origin(provider) if isinstance(env, ProcessEnvironment) else ""
