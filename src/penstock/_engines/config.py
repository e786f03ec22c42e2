"""The configuration of a client or gateway: providers, aliases, fallbacks, engine, request options. Plain values.

[providers.mine]
base_url = "http://localhost:9000/v1"

[aliases]
fast = ["groq/llama-3.3-70b-versatile", "openai/gpt-5-mini"]

`PENSTOCK_ENGINE_<PROVIDER>` wins over `PENSTOCK_ENGINE`, and both win over the file.
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

from penstock._engines.options import RequestOptions
from penstock._engines.retries import BreakerPolicy
from penstock._http.header_fields import check_headers, check_key, check_text, check_url
from penstock._option_checks import read_toml
from penstock._providers.registry import COMPATIBLE, ConfiguredModel, Provider, custom, provider, providers
from penstock._redaction import MARK
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GATEWAY_TABLES = frozenset(
    {"serve", "keys", "limits", "access", "journal", "record", "state", "features", "fetch", "log"}
)
"""Tables of `penstock.toml` that only the gateway reads. Clients read the same file and ignore them."""


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of a provider; with `base_url` and a new name, a custom provider.

    `key` is the key itself; `env` names a variable that holds it. `models`: a list replaces the models that the
    provider lists; a table adds facts about some of them.
    """

    key: str = ""
    env: str = ""
    base_url: str = ""
    like: str = ""
    settings: dict[str, str] = {}
    models: tuple[str, ...] | dict[str, ConfiguredModel] = ()
    engine: str = ""
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {}  # of the provider's row, for a custom provider

    @property
    def only_facts(self) -> bool:
        """True if only facts about models are given: the provider itself is not configured."""
        return isinstance(self.models, dict) and replace(self, models=()) == Account()

    def __repr__(self) -> str:
        return f"Account(base_url={self.base_url!r}, key={MARK if self.key else ''!r}, engine={self.engine!r})"

    def __rich_repr__(self) -> Any:
        yield "base_url", self.base_url


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole configuration. `aliases`: name → model or models, tried in order. `fallbacks`: model → next models."""

    providers: dict[str, Account] = {}
    aliases: dict[str, str | list[str]] = {}
    fallbacks: dict[str, list[str]] = {}
    engine: str = ""
    retries: int | None = None  # per provider; None: as its row says
    breaker: BreakerPolicy = BreakerPolicy()
    options: dict[str, Any] = {}

    @classmethod
    def read(cls, value: Config | Mapping[str, Any] | str | Path | None) -> Config:
        """Reads a configuration from plain values or from a TOML file."""
        if isinstance(value, Config):
            return value
        where = "configuration"
        if isinstance(value, str | Path):
            where = str(value)
            try:
                _, read = read_toml(Path(value).read_bytes(), where)
                value = {name: table for name, table in read.items() if name not in GATEWAY_TABLES}
            except tomllib.TOMLDecodeError as error:
                raise InputError(f"{where}: {error}") from None
        try:
            made = msgspec.convert(value or {}, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: {error}") from None
        made.check()
        return made

    def check(self) -> None:
        """Raises errors that otherwise only the first request would show."""
        RequestOptions.read(self.options)
        for name, account in self.providers.items():
            try:
                check_account(account, self.provider(name))
                RequestOptions.read(account.options)
            except InputError as error:
                raise InputError(f"providers.{name}: {error}") from None

    def account(self, name: str) -> Account:
        return self.providers.get(name, _DEFAULT_ACCOUNT)

    def provider(self, name: str) -> Provider:
        """Returns a provider by name: a custom one, or one of the built-in table."""
        account = self.providers.get(name)
        if account is None:
            return provider(name)
        if account.base_url and (account.like or name not in providers()):
            return _build_custom(name, account)
        return _with_models(provider(name), account.models) if isinstance(account.models, dict) else provider(name)

    def has(self, name: str) -> bool:
        """True if a provider has this name."""
        try:
            self.provider(name)
        except InputError:
            return name in self.providers
        return True


def check_account(account: Account, row: Provider) -> None:
    """Raises if a setting is not valid in a URL or header. The message names the setting."""
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
    """Raises unless a URL is valid once its settings (`{region}`) are filled in."""
    check_text(url, where, ascii_only=False)
    if not url.startswith("{"):  # a setting that holds the whole URL: checked when it is known
        check_url(_SETTING.sub("x", url), where)


_SETTING = re.compile(r"\{\+?[a-z_]+\}")
_DEFAULT_ACCOUNT = Account()
_provider_cache: dict[tuple[str, str, str, bytes], Provider] = {}  # custom providers, by their configuration
_MAX_CACHED = 1000


def _build_custom(name: str, own: Account) -> Provider:
    """Returns a custom provider. Cached: each request needs it several times, and building it is slow."""
    models = own.models if isinstance(own.models, dict) else {}
    fields = {**own.fields, "models": models} if models else own.fields
    key = (name, own.base_url, own.like, msgspec.json.encode(fields) if fields else b"")

    def make() -> Provider:
        made = custom(name, own.base_url, like=own.like or COMPATIBLE, **own.fields)
        return replace(made, models=models) if models else made

    return _get_cached(key, make)


def _with_models(row: Provider, models: dict[str, ConfiguredModel]) -> Provider:
    """Returns a built-in provider with the configured facts about its models."""
    return _get_cached((row.name, "", "", msgspec.json.encode(models)), lambda: replace(row, models=models))


def _get_cached(key: tuple[str, str, str, bytes], make: Callable[[], Provider]) -> Provider:
    found = _provider_cache.get(key)
    if found is None:
        if len(_provider_cache) >= _MAX_CACHED:
            _provider_cache.clear()
        found = _provider_cache[key] = make()
    return found


ENGINES = ("native", "sdk")
ENGINE_VARIABLE = "PENSTOCK_ENGINE"
log = logging.getLogger("penstock.engines")


@lru_cache(1000)
def engine_variable(provider: str) -> str:
    """Returns the environment variable that sets a provider's engine."""
    return f"{ENGINE_VARIABLE}_{re.sub('[^A-Z0-9]+', '_', provider.upper())}"


def choose_engine(provider: str, config: Config, env: Mapping[str, str], requested: str = "") -> tuple[str, str]:
    """Returns the engine, and the setting that selects it.

    A wrong value in a call raises. A wrong variable or setting is logged, and native is used.
    """
    if requested:
        if not is_engine_name(requested):
            raise InputError(f"the call: expected {' or '.join(ENGINES)}, found {requested!r}")
        return _normalize(requested), "the call"
    for value, setting in _engine_settings(provider, config, env):
        if value:
            if not is_engine_name(value):
                _warn_once(setting, value)
                return ENGINES[0], f"the default, because {setting} is neither {' nor '.join(ENGINES)}"
            return _normalize(value), setting
    return ENGINES[0], "the default"


def is_engine_name(value: str) -> bool:
    """True if the value names an engine."""
    return _normalize(value) in ENGINES


def _normalize(value: str) -> str:
    return value.strip().lower()


@lru_cache(1000)
def _warn_once(setting: str, value: str) -> None:
    """Logs a wrong engine setting; each value once."""
    log.warning("%s: expected %s, found %r; native is used", setting, " or ".join(ENGINES), value)


def _engine_settings(provider: str, config: Config, env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    yield env.get(engine_variable(provider), ""), engine_variable(provider)
    yield env.get(ENGINE_VARIABLE, ""), ENGINE_VARIABLE
    yield config.account(provider).engine, f"providers.{provider}.engine"
    yield config.engine, "engine"
