"""The secrets that a gateway knows by value, also those that were replaced or removed since it was started.

Turns in memory hold the bytes that were sent, and are redacted when they are shown or written. So a secret that was
in use when a turn was made is still one after it has been replaced.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock._engines.environ import KEY_FILES, stored_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_FORMER = 100  # secrets that are no longer in use: the newest are kept


class KnownSecrets:
    """Caches the secrets that `list_current` returns: the environment is large, and a row is written for every turn."""

    def __init__(self, env: Mapping[str, str], list_current: Callable[[], Iterable[str]]) -> None:
        self._env, self._list_current = env, list_current
        self._lock = threading.Lock()  # not held while secrets are listed: that may log, and the log reads them
        self._listing = threading.local()
        self._changes = 0
        self._own: tuple[str, ...] = ()  # of this process, as long as it runs
        self._current: tuple[str, ...] = ()
        self._former: dict[str, None] = {}  # from the oldest to the newest
        self._all: tuple[str, ...] = ()
        self._seen: tuple[object, ...] = ()  # the state of what is listed when it was listed last

    def add(self, secret: str) -> None:
        """Adds a secret that is one as long as the process runs."""
        self._own = (*self._own, secret)
        self.refresh()

    def refresh(self) -> None:
        """Lists the secrets anew when they are next read."""
        self._changes += 1

    def values(self) -> tuple[str, ...]:
        """Returns the secrets in use, then former ones."""
        stored = stored_keys(self._env)
        if self._seen != (stored, KEY_FILES.version, self._changes) and not getattr(self._listing, "active", False):
            self._listing.active = True
            try:
                self._list_secrets((dict(stored), KEY_FILES.version, self._changes))
            finally:
                self._listing.active = False
        return self._all

    def _list_secrets(self, seen: tuple[object, ...]) -> None:
        current = tuple(dict.fromkeys((*self._own, *self._list_current())))
        with self._lock:
            for secret in self._current:
                self._former.pop(secret, None)
                self._former[secret] = None
            for secret in current:
                self._former.pop(secret, None)
            for secret in list(self._former)[:-MAX_FORMER]:
                del self._former[secret]
            self._current, self._seen = current, seen
            self._all = (*current, *self._former)
