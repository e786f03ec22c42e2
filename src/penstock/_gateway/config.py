"""The gateway's configuration from `penstock.toml`. Providers, aliases and options are in the engines' `Config`.

Every error names the file, the line and the key (`toml_locations`).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock._client.costs import read_prices
from penstock._engines.config import Config, check_account, check_alias, check_amount
from penstock._engines.refreshed_facts import load_refreshed_facts
from penstock._gateway import HOST, PORT
from penstock._gateway.callers import TrustedProxies
from penstock._gateway.config_tables import (
    MIB,
    CacheTable,
    FetchTable,
    InspectorTable,
    PricesTable,
    RecordTable,
    ResumeTable,
)
from penstock._gateway.config_tables import ConfigTable as _ConfigTable
from penstock._gateway.config_trust import TrustStore, check_trust
from penstock._gateway.feature_defaults import default_features, with_default_features
from penstock._gateway.toml_locations import TomlLocations, locate_error
from penstock._http.request_options import RequestOptions
from penstock._input_limits import MAX_BODY_TOTAL_BYTES, MAX_WEBSOCKET_BYTES, MAX_WEBSOCKET_TOTAL_BYTES
from penstock._option_checks import read_toml
from penstock._providers.models import Model, Policy, max_input_tokens
from penstock._store.data_folder import data_folder
from penstock._store.key_records import UNLIMITED, Organisation, Team, check_name, check_patterns
from penstock._store.key_records import Key as Key  # noqa: PLC0414 — exported
from penstock._store.key_records import Limit as Limit  # noqa: PLC0414 — exported
from penstock._store.sqlite import IN_MEMORY
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "penstock.toml"
MAX_WORKERS = 256
_MAX_DEPTH = 64  # tables and lists within each other; the deepest setting needs six
_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


class Serve(_ConfigTable, frozen=True):
    """Where and how to listen. Sizes in bytes, times in seconds. With `pace` 0 packaged streams play at full speed."""

    host: str = HOST
    port: int = PORT
    pace: float = 0.02
    body: int = 32 * MIB
    body_total: int = MAX_BODY_TOTAL_BYTES  # of all requests over HTTP that are not answered yet
    headers: int = 64 * 1024
    read: float = 60.0  # for a request body to arrive
    idle: float = 75.0  # that a connection is kept open between two requests
    ping: float = 15.0  # idle time after which a stream gets a keep-alive
    write: float = 60.0  # that a client may read nothing of its stream
    drain: float = 30.0  # for streams to end when the server stops
    streams: int = 2_000  # open at once, for all callers
    websocket_bytes: int = MAX_WEBSOCKET_BYTES  # of requests in flight on one WebSocket
    websocket_total: int = MAX_WEBSOCKET_TOTAL_BYTES  # of requests and remembered turns of all WebSockets
    websocket_age: float = 86_400.0  # after which a WebSocket is closed between two requests; 0: never
    workers: int = 1  # processes that answer requests
    watch: bool | None = None  # reload this file when it changes; not set: if only this machine can ask, one process
    tls_cert: str = ""  # file of the certificate and those that signed it; empty: no TLS
    tls_key: str = ""  # file of its key; empty: in the same file
    access_log: Literal["off", "common", "json"] = "off"  # a line for each request, on standard output


class AccessTable(_ConfigTable, frozen=True):
    """Who may come in. `keys`: with "forward" the client's own key is passed on to the provider.

    `hosts`: names the server answers to besides this machine's own. `origins`: pages that may ask it from a browser.
    `proxy`: a reverse proxy is in front, so no caller counts as a program on this machine. `trusted_proxies`: addresses
    of reverse proxies whose X-Forwarded-For and Forwarded are believed; an empty list says that there is none.
    """

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    keys: Literal["own", "forward"] = "own"
    keys_file: str = ""  # where `penstock keys` keeps them; empty: with the data
    anonymous: bool = False  # other machines may ask without any key
    proxy: bool = False
    trusted_proxies: tuple[str, ...] | None = None
    metrics: Literal["local", "open", "key"] = "local"  # who sees /metrics without a key: this machine, all, nobody


class JournalTable(_ConfigTable, frozen=True):
    """`path` empty: with the data; "memory": gone with the process; "off": none. Bounded in age (days) and size."""

    path: str = ""
    days: float = 90.0
    size: int = 512 * MIB


class StateTable(_ConfigTable, frozen=True):
    """Reasoning state and stored responses. `path` as in the journal. Hours since a row was last used; bytes of all."""

    path: str = ""
    hours: float = 24.0 * 30
    size: int = 256 * MIB


class StoresTable(_ConfigTable, frozen=True):
    """Servers that several gateways share. Without them everything is in files and memory. Times in seconds.

    `postgres` (or PENSTOCK_POSTGRES_URL): keys, teams, journal, stored responses, state, factors. `redis` (or
    PENSTOCK_REDIS_URL): limits, circuit breakers, response cache, resumable streams. URLs may contain passwords.
    """

    postgres: str = ""
    postgres_connections: int = 8  # of one process, at most
    postgres_timeout: float = 10.0  # for one statement
    redis: str = ""
    redis_timeout: float = 1.0  # for one call to count limits, after which Redis counts as away
    limits: Literal["auto", "memory", "sqlite"] = "auto"  # without Redis; "auto": a file only for several processes
    outage: Literal["fail-closed", "fail-open"] = "fail-closed"  # what limits do while their store is away
    keys_hold: float = 60.0  # that known keys hold while PostgreSQL is away

    def __repr__(self) -> str:
        """Print no URL: it may contain a password."""
        return f"StoresTable(postgres={'[set]' if self.postgres else ''!r}, redis={'[set]' if self.redis else ''!r})"

    def __rich_repr__(self) -> Any:
        yield "postgres", bool(self.postgres)
        yield "redis", bool(self.redis)


class FeaturesTable(_ConfigTable, frozen=True):
    """Optional behaviour of the gateway."""

    prompt_caching: bool = False
    context_management: bool = False
    strict: bool = False  # refuse requests with 400 if a setting cannot be converted
    estimates: bool = True  # compare estimates with providers' counts for a sample of turns
    max_input: Policy = "reserve-output"  # how long a prompt may be, as lists of models say it
    clamp_output: bool = True  # send the output limit that was reserved to the provider
    assumed_context: int = 128_000  # of models whose window is unknown, for editors that need a number
    fast_path: bool = True  # text frames that match the last one are decoded without parsing JSON
    direct_http: bool = True  # upstream requests use our own HTTP/1.1 connections; false: aiohttp's
    direct_send: bool = True  # responses are written past ASGI; false: by uvicorn's `send`


class Log(_ConfigTable, frozen=True):
    """Lines on standard error. `json`: one object each. `content`: with gateway keys, "trace" may write content."""

    level: Literal["trace", "debug", "info", "warning", "error"] = "warning"
    content: bool = False
    form: Literal["text", "json"] = "text"
    blocked: float = 0.25  # seconds that the event loop may be blocked for before it is logged; 0: never


class ConfigFile(Config, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`penstock.toml`, all of it. Its JSON Schema is docs/penstock.schema.json."""

    serve: Serve = Serve()
    # "forward" is short for access.keys.
    keys: dict[str, Key] | Literal["forward"] = msgspec.field(default_factory=dict[str, Key])
    teams: dict[str, Team] = msgspec.field(default_factory=dict[str, Team])
    organisation: Organisation = Organisation()
    limits: Limit = UNLIMITED
    access: AccessTable = AccessTable()
    journal: JournalTable = JournalTable()
    record: RecordTable = RecordTable()
    state: StateTable = StateTable()
    stores: StoresTable = StoresTable()
    prices: PricesTable = PricesTable()
    features: FeaturesTable = FeaturesTable()
    fetch: FetchTable = FetchTable()
    resume: ResumeTable = ResumeTable()
    cache: CacheTable = CacheTable()
    inspector: InspectorTable = InspectorTable()
    log: Log = Log()

    def __repr__(self) -> str:
        return f"File(providers={sorted(self.providers)})"

    def __rich_repr__(self) -> Any:
        yield "providers", sorted(self.providers)


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gateway's configuration. `path`: the file it was read from; None without a file.

    `data`: the folder of files without a configured path; None keeps them in memory.
    """

    engine: Config = Config()
    serve: Serve = Serve()
    keys: dict[str, Key] = {}
    teams: dict[str, Team] = {}
    organisation: Organisation = Organisation()
    limits: Limit = UNLIMITED
    access: AccessTable = AccessTable()
    journal: JournalTable = JournalTable()
    record: RecordTable = RecordTable()
    state: StateTable = StateTable()
    stores: StoresTable = StoresTable()
    prices: PricesTable = PricesTable()
    features: FeaturesTable = FeaturesTable()
    fetch: FetchTable = FetchTable()
    resume: ResumeTable = ResumeTable()
    cache: CacheTable = CacheTable()
    inspector: InspectorTable = InspectorTable()
    log: Log = Log()
    path: Path | None = None
    data: Path | None = None

    def __repr__(self) -> str:
        """Print nothing: options may contain keys and passwords."""
        return f"GatewayConfig(path={str(self.path or '')!r}, providers={sorted(self.engine.providers)})"

    def __rich_repr__(self) -> Any:
        yield "path", self.path

    @property
    def forward(self) -> bool:
        """Whether the client's own provider key is forwarded."""
        return self.access.keys == "forward"

    @classmethod
    def from_file(cls, file: ConfigFile, path: Path | None = None) -> GatewayConfig:
        """Split a file into the engines' part and the gateway's part."""
        engine = Config(**{name: getattr(file, name) for name in Config.__struct_fields__})
        fields = {name: getattr(file, name) for name in cls.__struct_fields__ if name not in {"engine", "path", "data"}}
        if file.keys == "forward":
            fields["keys"] = {}
            fields["access"] = msgspec.structs.replace(file.access, keys="forward")
        return cls(engine=engine, path=path, **fields)


def load_config(path: Path | None, env: Mapping[str, str]) -> GatewayConfig:
    """Load the configuration from the given file, from PENSTOCK_CONFIG, or from ./penstock.toml, if there is one.

    A file that was named is trusted. One that was found in the current folder is not: see `config_trust`.
    """
    data, features = data_folder(env), default_features(env)
    load_refreshed_facts(data)
    named = path or (Path(env["PENSTOCK_CONFIG"]).expanduser() if env.get("PENSTOCK_CONFIG") else None)
    if named is not None:
        result = _build_config(named.read_bytes(), named, features=features)
    elif Path(FILE).is_file():
        result = _build_config(Path(FILE).read_bytes(), Path(FILE), TrustStore(data), features=features)
    else:
        result = GatewayConfig(features=FeaturesTable(**features))
    return msgspec.structs.replace(result, data=data, stores=_with_environment(result.stores, env))


def _with_environment(stores: StoresTable, env: Mapping[str, str]) -> StoresTable:
    """Return the stores with URLs from the environment where the file has none."""
    postgres = stores.postgres or env.get("PENSTOCK_POSTGRES_URL", "")
    redis = stores.redis or env.get("PENSTOCK_REDIS_URL", "")
    _check_stores(postgres, redis)
    return msgspec.structs.replace(stores, postgres=postgres, redis=redis)


def read_config(text: str, path: Path) -> GatewayConfig:
    """Read the configuration from a text. Errors name the file, the line and the key."""
    return _build_config(text.encode("utf-8"), path)


def _build_config(
    data: bytes, path: Path, store: TrustStore | None = None, *, features: Mapping[str, bool] = MappingProxyType({})
) -> GatewayConfig:
    """Read the configuration from bytes. With a `store`, the file must be harmless or trusted."""
    text, raw = parse_config(data, path)
    if store is not None:
        check_trust(raw, data, path, store)
    try:
        file = msgspec.convert(with_default_features(raw, features), ConfigFile)
    except msgspec.ValidationError as error:
        raise InputError(locate_error(text, path, error, ConfigFile)) from None
    result = GatewayConfig.from_file(file, path)
    _check_config(result, TomlLocations(text, path))
    return result


def parse_config(data: bytes, path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a file, and its tables."""
    try:
        text, tables = read_toml(data, str(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(locate_error(data.decode("utf-8"), path, error)) from None
    if _is_nested_too_deep(tables, _MAX_DEPTH):
        raise InputError(f"{path}: not a configuration: it nests deeper than {_MAX_DEPTH} tables")
    return text, tables


def _is_nested_too_deep(tables: Any, most: int) -> bool:
    """Return whether tables are nested too deep. Iterative, because dotted keys can nest to any depth."""
    level = [tables]
    for _ in range(most):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def data_path(configured: str, data: Path | None, name: str) -> Path:
    """Return the path of a file: as configured, else by its name in the data folder, else in memory."""
    if configured == "memory" or (not configured and data is None):
        return IN_MEMORY
    return Path(configured).expanduser() if configured or data is None else data / name


def _check_keys(config: GatewayConfig, place: TomlLocations) -> None:
    for table, records in (("keys", config.keys), ("teams", config.teams)):
        for name, record in records.items():
            with place.locate_errors(table, name):
                check_name(name)
                check_patterns(record.models)
    for name, key in config.keys.items():
        with place.locate_errors("keys", name):
            if bool(key.hash) == bool(key.env):
                raise InputError("expected either `hash`, as `penstock keys add` makes it, or `env`, a variable's name")
        for hashed in (key.hash, *(one.hash for one in key.previous)):
            with place.locate_errors("keys", name, "hash"):
                if hashed and not _HASH.fullmatch(hashed):
                    raise InputError("expected sha256: and 64 hexadecimal digits, never the key itself")


def _check_stores(postgres: str, redis: str) -> None:
    """Raise for a URL of another kind. The message does not show it: it may contain a password."""
    if postgres and not postgres.startswith(_POSTGRES_SCHEMES):
        raise InputError("stores.postgres or PENSTOCK_POSTGRES_URL: expected a URL such as postgresql://user@host/name")
    if redis and not redis.startswith(_REDIS_SCHEMES):
        raise InputError("stores.redis or PENSTOCK_REDIS_URL: expected a URL such as redis://host:6379/0")


def check_workers(count: int) -> None:
    """Raise if a gateway cannot have so many workers."""
    if not 1 <= count <= MAX_WORKERS:
        raise InputError(f"expected a number of workers from 1 to {MAX_WORKERS}, found {count}")


def _check_engine(engine: Config, place: TomlLocations) -> None:
    """Raise for errors in the tables that clients read, too."""
    with place.locate_errors("options"):
        RequestOptions.read(engine.options)
    for name, alias in engine.aliases.items():
        with place.locate_errors("aliases", name):
            check_alias(alias)
    for name, account in engine.providers.items():
        with place.locate_errors("providers", name):
            check_account(account, engine.provider(name))
        with place.locate_errors("providers", name, "options"):
            RequestOptions.read(account.options)
    for keys, amount in engine.amounts().items():
        with place.locate_errors(*keys):
            check_amount(amount)


def _check_config(config: GatewayConfig, place: TomlLocations) -> None:
    """Raise for errors that the first request would otherwise find."""
    _check_engine(config.engine, place)
    with place.locate_errors("features", "max_input"):
        max_input_tokens(Model(id="", provider=""), config.features.max_input)
    _check_keys(config, place)
    with place.locate_errors("prices", "models"):
        read_prices(msgspec.to_builtins(config.prices.models))
    with place.locate_errors("prices", "flat"):
        read_prices({"flat": msgspec.to_builtins(config.prices.flat)} if config.prices.flat is not None else {})
    with place.locate_errors("prices", "unknown"):
        if config.prices.unknown == "flat" and config.prices.flat is None:
            raise InputError('"flat" needs `prices.flat`, for example { input = 5, output = 15 }')
    with place.locate_errors("access", "trusted_proxies"):
        TrustedProxies(config.access.trusted_proxies or ())
    with place.locate_errors("serve", "port"):
        if not 0 <= config.serve.port <= 65_535:  # noqa: PLR2004
            raise InputError(f"expected a port from 0 to 65535, found {config.serve.port}")
    with place.locate_errors("serve", "tls_key"):
        if config.serve.tls_key and not config.serve.tls_cert:
            raise InputError("expected serve.tls_cert beside it: the file of the certificate")
    with place.locate_errors("serve", "workers"):
        check_workers(config.serve.workers)
    with place.locate_errors("stores"):
        _check_stores(config.stores.postgres, config.stores.redis)
        if config.stores.postgres_connections < 1 or not config.stores.redis_timeout:
            raise InputError("expected postgres_connections of at least 1, and a redis_timeout above 0")
    for table in ("serve", "journal", "record", "state", "stores", "features", "fetch", "resume", "cache", "log"):
        for name, value in msgspec.structs.asdict(getattr(config, table)).items():
            with place.locate_errors(table, name):
                if isinstance(value, int | float):
                    check_amount(value)
