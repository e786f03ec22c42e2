"""The table of providers: protocol, address, credentials, endpoints and quirks of each.

The rows are in `providers.toml`; a row may be `like` another. `clients.toml` has the clients. The environment is passed
in as a mapping.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from penstock._diagnostics import read_tables
from penstock._lazy_patterns import lazy_pattern
from penstock._protocols import DEFAULT
from penstock._providers.rebase import rebase_url
from penstock.errors import InputError, closest_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# `loaded`: which models a server of one's own has loaded; `show`: what it knows of one model.
Operation: TypeAlias = Literal[
    "chat", "responses", "completions", "fim", "embeddings", "rerank", "models", "count", "loaded", "show"
]
Scheme: TypeAlias = Literal["none", "bearer", "header", "query", "aws", "google", "ibm"]
Object: TypeAlias = dict[str, Any]
COMPATIBLE = "openai-compatible"  # the row that a custom provider is like
STORED = "stored key: "  # before a provider's name: where an environment has the key that `penstock setup` stored
_COMPARED = 64  # characters that are compared with the names of providers
_FIELD = lazy_pattern(r"\{([a-z_]+)\}")
_TRANSIENT = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of one operation. `{model}` and the provider's settings are filled in; `{+model}` keeps its slashes.

    `protocol` is the wire language: a penstock protocol for chat, responses, completions and fim; for the others the
    word for a shape (`openai-embeddings`, `cohere-rerank`, `openai-models` …).
    """

    path: str
    protocol: str
    answer: str = ""  # the protocol of the answer, if it is another
    stream: str = ""  # the path for streams, if it is another
    method: Literal["POST", "GET"] = "POST"
    base_url: str = ""  # if not the provider's
    root: bool = False  # the path stands beside the `/v1` of the base URL, not below it
    framing: str = "auto"  # of a stream
    drop: tuple[str, ...] = ()  # fields of the body that are not sent, such as the model
    body: Object = {}  # fields that are always sent
    headers: dict[str, str] = {}


class Special(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models (glob patterns) that have another endpoint for one operation."""

    models: tuple[str, ...]
    operation: Operation
    endpoint: Endpoint


class Credential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to authenticate. `env`: variables that hold the key, the first that is set wins."""

    scheme: Scheme = "bearer"
    env: tuple[str, ...] = ()
    header: str = "authorization"
    prefix: str = ""  # of the header's value
    query: str = ""  # the name of the key in the address
    service: str = ""  # what AWS signs for
    scope: str = ""  # what Google is asked for
    token_url: str = ""  # where a key is exchanged for a token
    ambient: bool = False  # credentials may come from elsewhere: a profile, a role of the machine
    optional: bool = False  # requests without a key are answered


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named value in an address: from the caller, else the environment, else the default (also a template).

    `of` and `cases`: the value follows from another setting's, where that is one of the cases.
    """

    env: tuple[str, ...] = ()
    default: str = ""
    about: str = ""
    of: str = ""
    cases: dict[str, str] = {}


class Retry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to retry, and which headers tell how long to wait."""

    attempts: int = 3
    statuses: tuple[int, ...] = _TRANSIENT
    after: tuple[str, ...] = ("retry-after-ms", "retry-after", "x-ratelimit-reset-after")
    limit: float = 60.0  # seconds; no retry if the provider asks for a longer wait


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider. `profile`: fields of `penstock.messages.Profile`; `quirks`: by protocol, its writer's."""

    name: str
    title: str
    protocol: str = DEFAULT
    base_url: str
    credentials: tuple[Credential, ...] = (Credential(),)  # in order of preference
    headers: dict[str, str] = {}
    passes: tuple[str, ...] = ()  # headers of clients that are passed on, in lower case
    endpoints: dict[str, Endpoint] = {}
    special: tuple[Special, ...] = ()
    settings: dict[str, Setting] = {}
    profile: Object = {}
    quirks: dict[str, Object] = {}
    refuses: tuple[str, ...] = ()  # fields of a chat body that it answers with an error
    responses_only: tuple[str, ...] = ()  # patterns of models that have no chat completions
    fim_models: tuple[str, ...] = ()  # patterns of models that fill in the middle
    fim_prompt: bool = False  # its servers take no `suffix`: prefix and suffix are written into the prompt
    stream_options: bool = True  # a stream may be asked for its usage
    engine: Literal["native", "replay"] = "native"  # the default engine
    sdk: str = ""  # the vendor's SDK that can serve it
    strip: tuple[str, ...] = ()  # prefixes of a model's id that are not sent
    repair: bool = False  # its frames must be repaired, so there is no passthrough
    retry: Retry = Retry()
    local: bool = False  # runs on the user's machine
    facts: str = ""  # its name in the table of models, if it is another
    similar_to: str = ""  # the provider of the table that a custom one is like
    names: tuple[str, ...] = ()  # its other names
    models: dict[str, ConfiguredModel] = {}  # facts of models that the configuration gives
    keys_url: str = ""  # the page where keys are created
    telemetry_name: str = ""  # its name in OpenTelemetry's conventions, if it is another
    open_models: bool = False  # its list of models needs no key, so it does not check one

    def __hash__(self) -> int:
        """Hashes name and address, because a row has tables, which cannot be hashed."""
        return hash((self.name, self.base_url))

    @property
    def auth(self) -> Scheme:
        """The scheme it prefers."""
        return self.credentials[0].scheme

    @property
    def env(self) -> tuple[str, ...]:
        """Every variable that may hold a key."""
        return tuple(dict.fromkeys(name for one in self.credentials for name in one.env))

    def endpoint(self, operation: str, model: str = "") -> Endpoint | None:
        """Returns the endpoint for an operation of a model; None if it has none."""
        for row in self.special:
            if row.operation == operation and matches(model, row.models):
                return row.endpoint
        return self.endpoints.get(operation)

    def only_responses(self, model: str) -> bool:
        """True if the model can only be used by Responses."""
        return matches(model, self.responses_only)

    def key(self, env: Mapping[str, str]) -> str:
        """Returns the key of a variable, else the stored one, else nothing."""
        return next((env[name] for name in (*self.env, self.stored_name) if env.get(name)), "")

    @property
    def stored_name(self) -> str:
        """The name of its stored key in an environment. No variable has such a name."""
        return STORED + self.name

    def configured(self, env: Mapping[str, str]) -> bool:
        """True if the environment has a key and all settings of the address."""
        return bool(self.key(env)) and not self._lacks_setting(self.base_url, env)

    def _lacks_setting(self, text: str, env: Mapping[str, str], depth: int = 4) -> bool:
        """True if a setting in a template has neither a value nor a default."""
        for name in _FIELD.findall(text):
            row = self.settings.get(name)
            if row is None or not depth:
                return True
            if any(env.get(one) for one in row.env):
                continue
            if not row.default or self._lacks_setting(row.default, env, depth - 1):
                return True
        return False


def matches(model: str, patterns: tuple[str, ...]) -> bool:
    """True if a model's name matches a pattern, with or without what is before its last slash."""
    bare = model.rpartition("/")[2]
    return any(fnmatchcase(model, pattern) or fnmatchcase(bare, pattern) for pattern in patterns)


@cache
def providers() -> Mapping[str, Provider]:
    """Returns all providers by name."""
    return MappingProxyType(
        {name: _build_provider(_merged_row(name)) for name, row in _rows().items() if "title" in row}
    )


def provider(name: str) -> Provider:
    """Returns a provider by its name or by one of its other names.

    Examples:
        >>> row = provider("anthropic")
        >>> row.protocol, row.base_url
        ('anthropic', 'https://api.anthropic.com/v1')
    """
    found = find_provider(name)
    if found is None:
        raise InputError(f"unknown provider {name!r}; {_suggest_provider(name)}")
    return found


def find_provider(name: str) -> Provider | None:
    """Returns a provider by its name or by one of its other names; None if there is none."""
    return providers().get(name) or providers().get(_other_names().get(name, ""))


def _suggest_provider(name: str) -> str:
    """Returns a hint for a name that no provider has: the closest one, or where all are listed."""
    near = closest_name(name[:_COMPARED].lower(), [*providers(), *_other_names()])
    hint = f"did you mean {near!r}? " if near else ""
    return f"{hint}`penstock providers` lists the {len(providers())} known ones; for any other give its URL"


def custom(name: str, base_url: str, *, like: str = COMPATIBLE, **fields: Any) -> Provider:
    """Returns a provider that is not in the table, by its URL. `fields` are those of `Provider`, as in TOML."""
    base: Object = {**_rebased_row(_merged_row(like), base_url), "settings": {}, "names": (), "keys_url": ""}
    row: Object = {"name": name, "title": name, "base_url": base_url.rstrip("/"), "env": [], "optional": True}
    row["similar_to"] = like
    try:
        return _build_provider(_merge_rows(base, {**row, **fields}))
    except msgspec.ValidationError as error:
        raise InputError(f"provider {name!r}: {error}") from error


def _rebased_row(row: Object, base_url: str) -> Object:
    """Returns a row whose endpoints are all at this base URL: none at the vendor's own host."""

    def rebase(endpoint: Object) -> Object:
        url = endpoint.get("base_url")
        return {**endpoint, "base_url": rebase_url(url, row.get("base_url", ""), base_url)} if url else endpoint

    endpoints = {name: rebase(endpoint) for name, endpoint in row.get("endpoints", {}).items()}
    special = [{**one, "endpoint": rebase(one["endpoint"])} for one in row.get("special", ())]
    return {**row, "endpoints": endpoints, "special": special}


@cache
def _rows() -> dict[str, Object]:
    return read_tables("penstock._providers", "providers.toml")


@cache
def _other_names() -> dict[str, str]:
    return {other: name for name, row in providers().items() for other in row.names}


def _merged_row(name: str) -> Object:
    """Returns a row merged over the one that it is `like`."""
    if name not in _rows():
        raise InputError(f"no row {name!r} to be like")
    row = _rows()[name]
    base = _merged_row(row["like"]) if "like" in row else {}
    return _merge_rows({**base, "names": (), "facts": "", "keys_url": "", "open_models": False}, {**row, "name": name})


def _merge_rows(base: Object, row: Object) -> Object:
    """Merges one row over another. Tables are merged a level deep. `has` names the endpoints of the provider."""
    merged = {**base, **{key: value for key, value in row.items() if key not in {"like", "env", "optional"}}}
    for key in ("headers", "settings", "profile", "quirks"):
        merged[key] = {**base.get(key, {}), **row.get(key, {})}
    inherited, added = base.get("endpoints", {}), row.get("endpoints", {})
    merged["endpoints"] = {**inherited, **{name: {**inherited.get(name, {}), **added[name]} for name in added}}
    has: list[str] = row.get("has") or base.get("has") or []
    merged["has"] = [*has, *added]
    if "env" in row and "credentials" not in row:
        first = base.get("credentials", [{}])[0]
        merged["credentials"] = [{**first, "env": row["env"], "optional": row.get("optional", False)}]
    return merged


def _build_provider(row: Object) -> Provider:
    has = set(row.pop("has"))
    row["endpoints"] = {name: endpoint for name, endpoint in row["endpoints"].items() if name in has}
    return msgspec.convert(row, Provider)


Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
# The form in which a model takes reasoning settings. `adaptive`: it decides, guided by an effort; `budget`: a number of
# tokens; `effort`: a word; `level`: a word of Gemini's `thinkingLevel`; `switch`: on or off; `none`: it takes none.
Form: TypeAlias = Literal["adaptive", "budget", "effort", "level", "switch", "none"]


class PriceTier(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Prices of requests whose prompt is longer than `above` tokens. A price that is None stays as it was."""

    above: Tokens
    input: Dollars | None = None
    output: Dollars | None = None
    cached: Dollars | None = None
    written: Dollars | None = None


class Prices(msgspec.Struct, frozen=True, omit_defaults=True):
    """Dollars for a million tokens; None is unknown. `cached` and `written`: read from the cache, and written to it.

    `written_1h`: written for an hour instead of five minutes. `reasoning`, `audio_input` and `audio_output`: where they
    differ from `input` and `output`.
    """

    input: Dollars | None = None
    output: Dollars | None = None
    cached: Dollars | None = None
    written: Dollars | None = None
    written_1h: Dollars | None = None
    reasoning: Dollars | None = None
    audio_input: Dollars | None = None
    audio_output: Dollars | None = None
    tiers: tuple[PriceTier, ...] = ()


class ConfiguredPrices(Prices, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Prices as a configuration gives them: a misspelt one is an error."""


class ConfiguredModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One model. What is left out is taken from the provider's list and the table of facts."""

    name: str = ""
    context: Tokens = 0  # the window: prompt and answer together
    max_input: Tokens = 0
    max_output: Tokens = 0
    vision: bool | None = None
    tools: bool | None = None
    fim: bool | None = None  # it fills in the middle
    thinking: Form | Literal[""] = ""
    prices: ConfiguredPrices | None = None


class ClientProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a client needs. `headers`: name → pattern, all of which must be found for it to be this one."""

    name: str
    title: str
    headers: dict[str, str] = {}
    agents: str = ""  # a pattern: a program with another `User-Agent` is served the same, but has its own name
    models: Literal["openai", "anthropic", "mistral", "gemini", "ollama"] = "openai"  # the shape of the list of models
    whole_calls: bool = False  # a tool call is one chunk
    thinking: bool = False  # reasoning is part of the content of a chat, as in Mistral's API
    tool_index: bool = True  # every call in a chunk has its index
    websockets: bool = False  # it may ask for Responses over a WebSocket
    reads_reasoning: bool = True  # it shows reasoning, if its protocol can carry it
    unknown_chunks: bool = True  # it ignores unknown chunks; others end its stream
    comments: bool = True  # a keepalive may be an SSE comment
    crlf: bool = True  # it reads frames that end in CR LF
    repeats_whole: bool = False  # after a fault in mid-stream it repeats the request without streaming
    dangling_usage: bool = True  # a last chunk may hold usage and no choice
    embedding_id: bool = False  # an answer of embeddings has an id
    notes: str = ""


PLAIN = ClientProfile(name="", title="any client")


def client(headers: Mapping[str, str]) -> ClientProfile:
    """Returns the client that sends these headers; `PLAIN` if no row matches."""
    values = {name.lower(): value for name, value in headers.items()}
    for row in clients().values():
        if row.headers and all(re.search(pattern, values.get(name, "")) for name, pattern in row.headers.items()):
            return row
    return PLAIN


def is_own_agent(agents: str, sent: str) -> bool:
    """True if a `User-Agent` matches the pattern of a client's own agents."""
    return re.search(agents, sent) is not None


@cache
def clients() -> Mapping[str, ClientProfile]:
    """Returns all clients by name, in the order in which they are tried."""
    rows = read_tables("penstock._providers", "clients.toml")
    return {name: msgspec.convert({**row, "name": name}, ClientProfile) for name, row in rows.items()}
