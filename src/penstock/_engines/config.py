"""The configuration of a client or gateway: providers, aliases, fallbacks, engine, request options. Plain values.

[providers.mine]
base_url = "http://localhost:9000/v1"

[aliases]
fast = ["groq/llama-3.3-70b-versatile", "openai/gpt-5-mini"]

`PENSTOCK_ENGINE_<PROVIDER>` wins over `PENSTOCK_ENGINE`, and both win over the file.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._engines.failure_policy import BreakerPolicy
from penstock._http.header_fields import check_headers, check_key, check_text, check_url
from penstock._http.request_options import RequestOptions
from penstock._option_checks import read_toml
from penstock._providers.registry import (
    COMPATIBLE,
    ConfiguredModel,
    Provider,
    custom,
    find_provider,
    provider,
    providers,
)
from penstock._redaction import MARK
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

GATEWAY_TABLES = frozenset("serve keys limits access journal record state features fetch log".split())
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
    def read(cls, value: Config | Mapping[str, Any] | str | os.PathLike[str] | None) -> Config:
        """Reads a configuration from plain values or from a TOML file."""
        if isinstance(value, Config):
            return value
        source = os.fspath(value) if isinstance(value, str | os.PathLike) else "configuration"
        try:
            if isinstance(value, str | os.PathLike):
                _, tables = read_toml(Path(value).read_bytes(), source)
                value = {name: table for name, table in tables.items() if name not in GATEWAY_TABLES}
            config = msgspec.convert(value or {}, cls)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise InputError(f"{source}: {error}") from None
        config.check()
        return config

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
        return provider(name) if account is None else _configured_provider(name, account)

    def has(self, name: str) -> bool:
        """True if a provider has this name."""
        return name in self.providers or find_provider(name) is not None


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


def _configured_provider(name: str, account: Account) -> Provider:
    """Returns a custom provider, or a built-in one with the configured facts about its models.

    Cached: each request needs it several times, and building it is slow.
    """
    is_custom = bool(account.base_url and (account.like or name not in providers()))
    models = account.models if isinstance(account.models, dict) else {}
    if not is_custom and not models:
        return provider(name)
    facts = msgspec.json.encode([account.fields, models]) if account.fields or models else b""
    key = (name, account.base_url, account.like, facts)
    if key not in _provider_cache:
        if len(_provider_cache) >= _MAX_CACHED:
            _provider_cache.clear()
        like, base_url = account.like or COMPATIBLE, account.base_url
        row = custom(name, base_url, like=like, **account.fields) if is_custom else provider(name)
        _provider_cache[key] = replace(row, models=models) if models else row
    return _provider_cache[key]


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
    variable = engine_variable(provider)
    settings = (
        (requested, "the call"),
        (env.get(variable, ""), variable),
        (env.get(ENGINE_VARIABLE, ""), ENGINE_VARIABLE),
        (config.account(provider).engine, f"providers.{provider}.engine"),
        (config.engine, "engine"),
    )
    value, setting = next((row for row in settings if row[0]), (ENGINES[0], "the default"))
    if is_engine_name(value):
        return value.strip().lower(), setting
    if requested:
        raise InputError(f"the call: expected {' or '.join(ENGINES)}, found {requested!r}")
    _warn_once(setting, value)
    return ENGINES[0], f"the default, because {setting} is neither {' nor '.join(ENGINES)}"


def is_engine_name(value: str) -> bool:
    """True if the value names an engine."""
    return value.strip().lower() in ENGINES


@lru_cache(1000)
def _warn_once(setting: str, value: str) -> None:
    """Logs a wrong engine setting; each value once."""
    log.warning("%s: expected %s, found %r; native is used", setting, " or ".join(ENGINES), value)
