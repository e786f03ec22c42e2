"""The process's environment, read anew for each request, at the price of a dictionary.

`os.environ` raises and catches two exceptions for every name that is not there, and most are not. Any other mapping is
taken as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any


class Surroundings(Mapping[str, str]):
    """A view of `os.environ`, as it is now."""

    def __init__(self) -> None:
        # Its dictionary has had this name since there is one; without it the slower way is taken.
        self._data: Mapping[Any, Any] | None = getattr(os.environ, "_data", None)

    def __getitem__(self, name: str) -> str:
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)

    def __contains__(self, name: object) -> bool:
        return self._data is None or (isinstance(name, str) and _key(name) in self._data)

    @property
    def plain(self) -> Mapping[Any, Any]:
        """What is quickest to compare with what it was."""
        return self if self._data is None else self._data

    def get(self, key: str, /, default: Any = None) -> Any:  # the overloads of Mapping's are too many to say again
        data = self._data
        return default if data is not None and _key(key) not in data else os.environ.get(key, default)


@lru_cache(1000)
def _key(name: str) -> Any:
    return os.environ.encodekey(name)


LIVE: Mapping[str, str] = Surroundings()


class Changes:
    """Whether an environment is as it was when that was last asked: a comparison, where reading it is a search.

    The process's own counts besides: it names the proxies.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        both = [LIVE] if env is LIVE else [env, LIVE]
        self._now: list[Mapping[Any, Any]] = [one.plain if isinstance(one, Surroundings) else one for one in both]
        self._seen: list[dict[Any, Any]] = []

    def any(self) -> bool:
        if self._seen == self._now:
            return False
        self._seen = [dict(one) for one in self._now]
        return True


def live(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """The mapping to read: the process's own where none was given, or that one was."""
    return LIVE if env is None or env is os.environ else env
