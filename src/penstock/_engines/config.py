"""The configuration of a client or gateway: providers, aliases, fallbacks, engine, request options. Plain values.

[providers.mine]
base_url = "http://localhost:9000/v1"

[aliases]
fast = ["groq/llama-3.3-70b-versatile", "openai/gpt-5-mini"]
wide = { targets = [{ model = "openai/gpt-5", weight = 3 }, "azure/gpt-5"], strategy = "weighted" }

`PENSTOCK_ENGINE_<PROVIDER>` wins over `PENSTOCK_ENGINE`, and both win over the file.
"""

from __future__ import annotations

import logging
import math
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from penstock._engines.failure_policy import BreakerPolicy
from penstock._http.header_fields import check_headers, check_key, check_text, check_url
from penstock._http.request_options import RequestOptions
from penstock._lazy_patterns import lazy_pattern
from penstock._option_checks import describe_value, read_toml
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

GATEWAY_TABLES = frozenset(
    (
        "serve keys teams organisation limits access journal record state stores prices features fetch resume cache "
        "inspector log"
    ).split()
)
"""Tables of `penstock.toml` that only the gateway reads. Clients read the same file and ignore them."""


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of a provider; with `base_url` and a new name, a custom provider.

    `key` is the key itself; `env` names a variable that holds it, `key_file` a file. `keys`, or several names in `env`
    or `key_file`, are used in turn.
    `models`: a list replaces the models that the provider lists; a table adds facts about some of them.
    """

    key: str = ""
    keys: tuple[str, ...] = ()
    key_file: str | tuple[str, ...] = ""
    env: str | tuple[str, ...] = ""
    base_url: str = ""
    like: str = ""
    settings: dict[str, str] = {}
    models: tuple[str, ...] | dict[str, ConfiguredModel] = ()
    engine: str = ""
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {}  # of the provider's row, for a custom provider

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in `env`."""
        return (self.env,) * bool(self.env) if isinstance(self.env, str) else self.env

    @property
    def key_files(self) -> tuple[str, ...]:
        """The paths in `key_file`."""
        return (self.key_file,) * bool(self.key_file) if isinstance(self.key_file, str) else self.key_file

    def configured_keys(self, env: Mapping[str, str]) -> list[tuple[str, str]]:
        """Returns where each configured key stands, which is no secret, and the key. Each key once."""
        found = [("key", self.key), *((f"keys[{number}]", key) for number, key in enumerate(self.keys))]
        found += [(name, _read_key_file(path)) for name, path in _number_places("key_file", self.key_files)]
        found += [(name, env.get(name, "")) for name in self.variables]
        by_key = {key: place for place, key in reversed(found) if key}
        return [(place, key) for place, key in found if by_key.get(key) == place]

    @property
    def only_facts(self) -> bool:
        """True if only facts about models are given: the provider itself is not configured."""
        return isinstance(self.models, dict) and replace(self, models=()) == Account()

    def __repr__(self) -> str:
        key = MARK if self.key or self.keys else ""
        return f"Account(base_url={self.base_url!r}, key={key!r}, engine={self.engine!r})"

    def __rich_repr__(self) -> Any:
        yield "base_url", self.base_url


class AliasTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A target of an alias. With weight 0 it is asked only if the others cannot answer."""

    model: str
    weight: float = 1.0


class Alias(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An alias with several targets. `sticky`: the turns of a conversation stay with one target; not with "order"."""

    targets: tuple[str | AliasTarget, ...]
    strategy: Literal["order", "weighted", "least-busy", "fastest"] = "order"
    sticky: bool = True

    def members(self) -> list[AliasTarget]:
        """Returns the targets, each with its weight."""
        return [AliasTarget(model=one) if isinstance(one, str) else one for one in self.targets]

    def check(self) -> None:
        """Raises if no target could be chosen."""
        weights = [one.weight for one in self.members()]
        if not weights:
            raise InputError("targets: expected at least one model, found none")
        wrong = next((weight for weight in weights if not 0 <= weight < math.inf), None)  # nan is neither
        if wrong is not None:
            raise InputError(f"targets: expected weights of at least 0, found {wrong:g}")
        if not any(weights):
            raise InputError("targets: all weights are 0; give at least one target a weight")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole configuration. `fallbacks`: model → next models.

    `aliases`: name → model, models that are tried in order, or targets with a strategy that chooses among them.
    """

    providers: dict[str, Account] = {}
    aliases: dict[str, str | list[str] | Alias] = {}
    fallbacks: dict[str, list[str]] = {}
    engine: str = ""
    retries: int | None = None  # per provider; None: as its row says
    breaker: BreakerPolicy = BreakerPolicy()
    options: dict[str, Any] = {}

    @classmethod
    def read(cls, value: Config | Mapping[str, Any] | str | os.PathLike[str] | None) -> Config:
        """Reads a configuration from plain values or from a TOML file."""
        if isinstance(value, Config):
            value.check_amounts()
            return value
        source = "configuration"
        if isinstance(value, str | os.PathLike):
            source = os.fspath(value)
            value = _read_file(source)
        try:
            config = msgspec.convert(value or {}, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{source}: {error}") from None
        config.check()
        return config

    def check(self) -> None:
        """Raises errors that otherwise only the first request would show."""
        self.check_amounts()
        RequestOptions.read(self.options)
        for name, alias in self.aliases.items():
            try:
                check_alias(alias)
            except InputError as error:
                raise InputError(f"aliases.{name}: {error}") from None
        for name, account in self.providers.items():
            try:
                check_account(account, self.provider(name))
                RequestOptions.read(account.options)
            except InputError as error:
                raise InputError(f"providers.{name}: {error}") from None

    def amounts(self) -> dict[tuple[str, ...], float | None]:
        """Returns the settings that are numbers, by their keys."""
        return {("retries",): self.retries, **{("breaker", name): one for name, one in asdict(self.breaker).items()}}

    def check_amounts(self) -> None:
        """Raises if a number is negative or not finite. The message names the setting."""
        for keys, value in self.amounts().items():
            try:
                check_amount(value)
            except InputError as error:
                raise InputError(f"{'.'.join(keys)}: {error}") from None

    def account(self, name: str) -> Account:
        return self.providers.get(name, _DEFAULT_ACCOUNT)

    def provider(self, name: str) -> Provider:
        """Returns a provider by name: a custom one, or one of the built-in table."""
        account = self.providers.get(name)
        return provider(name) if account is None else _configured_provider(name, account)

    def has(self, name: str) -> bool:
        """True if a provider has this name."""
        return name in self.providers or find_provider(name) is not None


def _read_file(path: str) -> dict[str, Any]:
    """Returns the tables of a TOML file, without those of the gateway."""
    import tomllib  # noqa: PLC0415 — most clients have no file
    from pathlib import Path  # noqa: PLC0415

    try:
        _, tables = read_toml(Path(path).read_bytes(), path)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None
    return {name: table for name, table in tables.items() if name not in GATEWAY_TABLES}


def check_amount(value: float | None) -> None:
    """Raises for a number that is negative or not finite. None means: not set."""
    if value is not None and not 0 <= value < math.inf:  # nan is neither
        raise InputError(f"expected a number of at least 0, found {describe_value(value)}")


def check_alias(alias: str | list[str] | Alias) -> None:
    """Raises if an alias has no target that can be chosen."""
    if isinstance(alias, Alias):
        alias.check()


def check_account(account: Account, row: Provider) -> None:
    """Raises if a setting is not valid in a URL or header. The message names the setting."""
    check_key(account.key, "key")
    for place, path in _number_places("key_file", account.key_files):
        _check_absolute(path, place)
    for number, key in enumerate(account.keys):
        check_key(key, f"keys[{number}]")
        if not key:
            raise InputError(f"keys[{number}]: expected a key, found nothing")
    if account.base_url:
        check_template_url(account.base_url, "base_url")
    for name, value in account.settings.items():
        check_text(value, f"settings.{name}", ascii_only=False)
    for headers in (row.headers, *(endpoint.headers for endpoint in row.endpoints.values())):
        check_headers(headers, "fields.headers")
    for credential in row.credentials:
        check_headers({credential.header: f"{credential.prefix}key"}, "fields.credentials")


def _check_absolute(path: str, where: str) -> None:
    from pathlib import Path  # noqa: PLC0415 — few accounts name a file

    if not Path(path).expanduser().is_absolute():
        raise InputError(f"{where}: expected an absolute path, found {path!r}")


def _read_key_file(path: str) -> str:
    from penstock._engines.environ import KEY_FILES  # noqa: PLC0415 — few accounts name a file

    return KEY_FILES.read(path)


def _number_places(name: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns where each value of a setting stands: `key_file`, or `key_file[0]` and so on if there are several."""
    return [(f"{name}[{number}]" if len(values) > 1 else name, value) for number, value in enumerate(values)]


def check_template_url(url: str, where: str) -> None:
    """Raises unless a URL is valid once its settings (`{region}`) are filled in."""
    check_text(url, where, ascii_only=False)
    if not url.startswith("{"):  # a setting that holds the whole URL: checked when it is known
        check_url(_SETTING.sub("x", url), where)


_SETTING = lazy_pattern(r"\{\+?[a-z_]+\}")
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
