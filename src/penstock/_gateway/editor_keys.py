"""Provider keys and own servers that the windows of an editor hand to the gateway they share. Kept in memory only.

A window sends all it has each time. The keys of all windows count together: a key is gone when the last window that
gave it takes it away. `SWITCH` in the environment turns this on; the VS Code extension sets it for its own gateway.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._engines.config import Account, check_account
from penstock._engines.credentials import address_origin
from penstock._http.header_fields import check_text
from penstock._providers.registry import ConfiguredModel, find_provider
from penstock._redaction import MARK
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.config import Config
    from penstock._providers.registry import Provider

SWITCH = "PENSTOCK_EDITOR_KEYS"
WINDOW_LIFETIME = 600.0  # seconds without a word after which a window counts as closed; it reports every minute
MAX_WINDOWS = 64
MAX_PROVIDERS = 200  # of one window
MAX_KEYS = 32  # of one provider
MAX_MODELS = 2_000  # of one provider
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_WINDOW_NAME_SIZE = 100


class EditorProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A provider of the table with its keys, or an OpenAI-compatible server by its `base_url`.

    `origin`: scheme and host that the keys are for; empty: those of the provider itself. `title`: the label of an own
    server. `models`: facts about models, as in `penstock.toml`.
    """

    name: str
    keys: tuple[str, ...] = ()
    base_url: str = ""
    origin: str = ""
    title: str = ""
    settings: dict[str, str] = {}
    models: dict[str, ConfiguredModel] = {}

    def __repr__(self) -> str:
        return f"EditorProvider(name={self.name!r}, keys={MARK if self.keys else ''!r})"

    def __rich_repr__(self) -> Any:
        yield "name", self.name

    @property
    def row(self) -> Provider | None:
        """The provider of the table; None for an own server."""
        return find_provider(self.name)

    def check(self) -> None:
        """Raises if it cannot be used. The message never contains a key."""
        if self.row is None and not _NAME.fullmatch(self.name):
            raise InputError("expected a name of lower-case letters, digits, dots and hyphens, at most 64")
        if self.row is None and not self.base_url:
            raise InputError(f"no provider is called {self.name!r}: an own server needs base_url")
        if len(self.keys) > MAX_KEYS or len(self.models) > MAX_MODELS:
            raise InputError(f"expected at most {MAX_KEYS} keys and {MAX_MODELS} models")
        check_text(self.title, "title", ascii_only=False)
        account = self.account(Account())
        row = self.row or _own_server(self.name, account)
        check_account(account, row)

    def account(self, base: Account) -> Account:
        """Returns the provider's account: that of the configuration with what the editor adds. Its keys go first."""
        result = replace(base, settings={**base.settings, **self.settings}, base_url=self.base_url or base.base_url)
        if self.models:
            facts = base.models if isinstance(base.models, dict) else {}
            result = replace(result, models={**facts, **self.models})
        if self.row is None and self.title:
            result = replace(result, fields={**base.fields, "title": self.title})
        if self.keys:
            return replace(result, key="", keys=self.keys, key_file="", env="")
        return result if not self.base_url or self.base_url == base.base_url else without_keys(result, self.row)


def without_keys(account: Account, row: Provider | None) -> Account:
    """Return an account with another address: no key that was configured, or that a variable holds, is sent there."""
    title = {"title": row.title} if row is not None else {}
    like = row.name if row is not None else account.like
    return replace(account, key="", keys=(), key_file="", env="", like=like, fields={**title, **account.fields})


def _own_server(name: str, account: Account) -> Provider:
    from penstock._engines.config import Config  # noqa: PLC0415 — only to build one row

    return Config(providers={name: account}).provider(name)


class EditorKeys:
    """What the windows of an editor have handed over."""

    def __init__(self, env: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled: bool = env.get(SWITCH) == "1"
        self.problems: dict[str, str] = {}  # provider → why what the editor gave is not used
        self._env, self._clock = env, clock
        self._windows: dict[str, tuple[float, tuple[EditorProvider, ...]]] = {}  # window → when it last reported

    def set_window(self, window: str, providers: tuple[EditorProvider, ...]) -> bool:
        """Replace what a window gives. Returns whether anything changed. Raises if something in it is invalid."""
        if not window or len(window) > _WINDOW_NAME_SIZE:
            raise InputError(f"window: expected a name of 1 to {_WINDOW_NAME_SIZE} characters")
        if len(providers) > MAX_PROVIDERS:
            raise InputError(f"providers: expected at most {MAX_PROVIDERS}, found {len(providers)}")
        for place, one in enumerate(providers):
            try:
                one.check()
            except InputError as error:
                raise InputError(f"providers[{place}]: {error}") from None
        before = self.merged()
        now = self._clock()
        self._windows = {
            name: (seen, given) for name, (seen, given) in self._windows.items() if now - seen < WINDOW_LIFETIME
        }
        if window not in self._windows and len(self._windows) >= MAX_WINDOWS:
            raise InputError(f"more than {MAX_WINDOWS} windows: close some")
        self._windows.pop(window, None)  # the window that reports last comes last: its settings count
        self._windows[window] = (now, providers)
        return self.merged() != before

    def remove(self, window: str) -> bool:
        """Forget a window. Returns whether anything changed."""
        before = self.merged()
        self._windows.pop(window, None)
        return self.merged() != before

    def merged(self) -> dict[str, EditorProvider]:
        """Return what all windows give together, by provider. Of two addresses or settings the last one counts."""
        result: dict[str, EditorProvider] = {}
        for _, providers in self._windows.values():
            for one in providers:
                name = one.row.name if one.row is not None else one.name
                known = result.get(name)
                # Keys belong to an address: those for another one are not mixed in.
                same = known is not None and (known.base_url, known.origin) == (one.base_url, one.origin)
                keys = dict.fromkeys((*(known.keys if known is not None and same else ()), *one.keys))
                result[name] = replace(one, name=name, keys=tuple(keys))
        return result

    def apply(self, config: Config, file: Config) -> Config:
        """Return the configuration with what the editor gives. A key for one host is never sent to another.

        `file`: the part of `config` that is from `penstock.toml`.
        """
        self.problems = {}
        merged = self.merged()
        if not merged:
            return config
        accounts = dict(config.providers)
        for name, one in merged.items():
            account = self._account(one, config, file)
            if account is not None:
                accounts[name] = account
        return replace(config, providers=accounts)

    def _account(self, one: EditorProvider, config: Config, file: Config) -> Account | None:
        row, base = one.row, config.account(one.name)
        if row is None:
            if one.name in config.providers:
                where = "penstock.toml" if one.name in file.providers else "the gateway's page Manage"
                self.problems[one.name] = f"{where} has another provider {one.name!r}: rename one of them"
                return None
            return one.account(base)
        account = one.account(base)
        own = Account(base_url=one.base_url, settings=one.settings)
        bound = one.origin or address_origin(row, own, self._env)
        now = address_origin(config.provider(one.name), account, self._env)
        if one.keys and bound != now:
            self.problems[one.name] = f"the key is for {bound}, and penstock.toml sends requests to {now}: add it again"
            return None
        return account
