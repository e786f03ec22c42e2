"""The process's environment, read anew for each request, at the price of a dictionary.

`os.environ` raises and catches two exceptions for every name that is not there, and most are not. Keys that `penstock
setup` stored stand behind it, under names that no variable has (`stored_name`). Any other mapping is taken as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from penstock.providers.registry import STORED
from penstock.store.provider_keys import KeyWatch


class Surroundings(Mapping[str, str]):
    """A view of `os.environ`, as it is now, and of the stored keys of providers."""

    def __init__(self) -> None:
        # Its dictionary has had this name since there is one; without it the slower way is taken.
        self._data: Mapping[Any, Any] | None = getattr(os.environ, "_data", None)
        self._watch = KeyWatch()

    @property
    def stored(self) -> Mapping[str, str]:
        """Stored keys by provider. One object, whatever changes in it."""
        self._watch.refresh(self)
        return self._watch.keys

    def origin(self, provider: str) -> str:
        """The origin that a stored key is for; empty where none is known."""
        self._watch.refresh(self)
        return self._watch.origins.get(provider, "")

    def look(self) -> None:
        """Notice stored keys that have changed, in the same data folder."""
        self._watch.look(self)

    def __getitem__(self, name: str) -> str:
        return self.stored[name.removeprefix(STORED)] if name.startswith(STORED) else os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name.startswith(STORED):
            return name.removeprefix(STORED) in self.stored
        return self._data is None or (isinstance(name, str) and _key(name) in self._data)

    @property
    def plain(self) -> Mapping[Any, Any]:
        """What is quickest to compare with what it was."""
        return self if self._data is None else self._data

    def get(self, key: str, /, default: Any = None) -> Any:  # the overloads of Mapping's are too many to say again
        if key.startswith(STORED):
            return self.stored.get(key.removeprefix(STORED), default)
        data = self._data
        return default if data is not None and _key(key) not in data else os.environ.get(key, default)


@lru_cache(1000)
def _key(name: str) -> Any:
    return os.environ.encodekey(name)


LIVE = Surroundings()


class Changes:
    """Whether an environment is as it was when that was last asked: a comparison, where reading it is a search.

    The process's own counts besides: it names the proxies.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        both = [LIVE] if env is LIVE else [env, LIVE]
        self._now: list[Mapping[Any, Any]] = [one.plain if isinstance(one, Surroundings) else one for one in both]
        self._now.append(LIVE.stored)
        self._seen: list[dict[Any, Any]] = []

    def any(self) -> bool:
        LIVE.look()
        if self._seen == self._now:
            return False
        _ = LIVE.stored  # the data folder may be another one now
        self._seen = [dict(one) for one in self._now]
        return True


def live(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """The mapping to read: the process's own where none was given, or that one was."""
    return LIVE if env is None or env is os.environ else env


def stored_keys(env: Mapping[str, str]) -> Mapping[str, str]:
    """The stored keys that an environment stands before, by provider: the process's own has them, others have none."""
    return env.stored if isinstance(env, Surroundings) else {}


def stored_origin(env: Mapping[str, str], provider: str) -> str:
    """The origin that a provider's stored key is for; empty where none is known."""
    return env.origin(provider) if isinstance(env, Surroundings) else ""
