"""What a client or gateway is told once: providers of one's own, aliases, fallbacks, engines, options. Plain values.

[providers.mine]
base_url = "http://localhost:9000/v1"

[aliases]
fast = ["groq/llama-3.3-70b-versatile", "openai/gpt-5-mini"]
"""

from __future__ import annotations

import logging
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock.engines.options import RequestOptions
from penstock.engines.retries import Policy
from penstock.errors import InputError
from penstock.http.header_fields import check_headers, check_key, check_text, check_url
from penstock.option_checks import read_toml
from penstock.providers.registry import COMPATIBLE, ConfiguredModel, Provider, custom, provider, providers
from penstock.redaction import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GATEWAY = frozenset({"serve", "keys", "limits", "access", "journal", "record", "state", "features", "fetch", "log"})
"""Tables of `penstock.toml` that only a gateway reads: one file does for all."""


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One's own terms with a provider; with `base_url` and a new name, a provider of one's own.

    `key` is the key itself; `env` a variable that holds it. `models`: a list of names means exactly these; a table
    gives facts about some, beside those that the provider lists.
    """

    key: str = ""
    env: str = ""
    base_url: str = ""
    like: str = ""
    settings: dict[str, str] = {}
    models: tuple[str, ...] | dict[str, ConfiguredModel] = ()
    engine: str = ""
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {}  # of the provider's row, for one of one's own

    @property
    def only_facts(self) -> bool:
        """Whether it gives facts about models and nothing else: no terms with the provider."""
        return isinstance(self.models, dict) and replace(self, models=()) == Account()

    def __repr__(self) -> str:
        return f"Account(base_url={self.base_url!r}, key={MARK if self.key else ''!r}, engine={self.engine!r})"

    def __rich_repr__(self) -> Any:
        yield "base_url", self.base_url


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All of it. `aliases`: a name → a model or several, tried in order. `fallbacks`: a model → who is asked next."""

    providers: dict[str, Account] = {}
    aliases: dict[str, str | list[str]] = {}
    fallbacks: dict[str, list[str]] = {}
    engine: str = ""
    retries: int | None = None  # per provider; None: as its row says
    breaker: Policy = Policy()
    options: dict[str, Any] = {}

    @classmethod
    def read(cls, value: Config | Mapping[str, Any] | str | Path | None) -> Config:
        """A configuration from plain values, or from a TOML file."""
        if isinstance(value, Config):
            return value
        where = "configuration"
        if isinstance(value, str | Path):
            where = str(value)
            try:
                _, read = read_toml(Path(value).read_bytes(), where)
                value = {name: table for name, table in read.items() if name not in GATEWAY}
            except tomllib.TOMLDecodeError as error:
                raise InputError(f"{where}: {error}") from None
        try:
            made = msgspec.convert(value or {}, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: {error}") from None
        made.check()
        return made

    def check(self) -> None:
        """Raise what would otherwise only be found out by the first request."""
        RequestOptions.read(self.options)
        for name, account in self.providers.items():
            try:
                check_account(account, self.provider(name))
                RequestOptions.read(account.options)
            except InputError as error:
                raise InputError(f"providers.{name}: {error}") from None

    def account(self, name: str) -> Account:
        return self.providers.get(name, _NOBODY)

    def provider(self, name: str) -> Provider:
        """A provider by name: one's own, or one of the table."""
        own = self.providers.get(name)
        if own is None:
            return provider(name)
        if own.base_url and (own.like or name not in providers()):
            return _own(name, own)
        return _with_models(provider(name), own.models) if isinstance(own.models, dict) else provider(name)

    def has(self, name: str) -> bool:
        """Whether that is the name of a provider at all."""
        try:
            self.provider(name)
        except InputError:
            return name in self.providers
        return True


def check_account(account: Account, row: Provider) -> None:
    """Raise if a setting could not become part of a request's address or headers. The message names the setting."""
    check_key(account.key, "key")
    if account.base_url:
        check_template_url(account.base_url, "base_url")
    for name, value in account.settings.items():
        check_text(value, f"settings.{name}", ascii_only=False)
    for headers in (row.headers, *(endpoint.headers for endpoint in row.endpoints.values())):
        check_headers(headers, "fields.headers")
    for credential in row.credentials:
        check_headers({credential.header: f"{credential.prefix}key"}, "fields.credentials")


def check_template_url(url: str, where: str) -> None:
    """Raise unless an address is valid once its settings (`{region}`) are filled in."""
    check_text(url, where, ascii_only=False)
    if not url.startswith("{"):  # a setting that holds the whole address: checked when it is known
        check_url(_SETTING.sub("x", url), where)


_SETTING = re.compile(r"\{\+?[a-z_]+\}")
_NOBODY = Account()
_made: dict[tuple[str, str, str, bytes], Provider] = {}  # providers of one's own, by what makes them
_MOST = 1000


def _own(name: str, own: Account) -> Provider:
    """A provider of one's own. It is asked for several times in every request, and dear to make."""
    models = own.models if isinstance(own.models, dict) else {}
    fields = {**own.fields, "models": models} if models else own.fields
    key = (name, own.base_url, own.like, msgspec.json.encode(fields) if fields else b"")

    def make() -> Provider:
        made = custom(name, own.base_url, like=own.like or COMPATIBLE, **own.fields)
        return replace(made, models=models) if models else made

    return _remembered(key, make)


def _with_models(row: Provider, models: dict[str, ConfiguredModel]) -> Provider:
    """A provider of the table with facts of one's own about its models."""
    return _remembered((row.name, "", "", msgspec.json.encode(models)), lambda: replace(row, models=models))


def _remembered(key: tuple[str, str, str, bytes], make: Callable[[], Provider]) -> Provider:
    found = _made.get(key)
    if found is None:
        if len(_made) >= _MOST:
            _made.clear()
        found = _made[key] = make()
    return found


ENGINES = ("native", "sdk")
FLAG = "PENSTOCK_ENGINE"
log = logging.getLogger("penstock.engines")


@lru_cache(1000)
def variable(provider: str) -> str:
    """The name of a provider's own flag."""
    return f"{FLAG}_{re.sub('[^A-Z0-9]+', '_', provider.upper())}"


def wished(provider: str, config: Config, env: Mapping[str, str], said: str = "") -> tuple[str, str]:
    """The engine, and who wished for it.

    A wrong value in a call is the caller's error. A wrong flag is not: it is logged, and native is used.
    """
    if said:
        return _checked(said, "the call"), "the call"
    for value, who in _wishes(provider, config, env):
        if value:
            if not valid(value):
                _warn(who, value)
                return ENGINES[0], f"the default, because {who} is neither {' nor '.join(ENGINES)}"
            return _cleaned(value), who
    return ENGINES[0], "the default"


def valid(value: str) -> bool:
    """Whether a flag names an engine."""
    return _cleaned(value) in ENGINES


def _checked(value: str, who: str) -> str:
    if not valid(value):
        raise InputError(f"{who}: expected {' or '.join(ENGINES)}, found {value!r}")
    return _cleaned(value)


def _cleaned(value: str) -> str:
    return value.strip().lower()


@lru_cache(1000)
def _warn(who: str, value: str) -> None:
    """Log a wrong flag, each value once."""
    log.warning("%s: expected %s, found %r; native is used", who, " or ".join(ENGINES), value)


def _wishes(provider: str, config: Config, env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    yield env.get(variable(provider), ""), variable(provider)
    yield env.get(FLAG, ""), FLAG
    yield config.account(provider).engine, f"providers.{provider}.engine"
    yield config.engine, "engine"
