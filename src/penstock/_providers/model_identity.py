"""Reads provider, maker, family and version from a model's id, such as `openai/gpt-4o-2024-11-20`.

Only the spelling of ids is handled here; `models` has the capabilities. Makers are in `makers.toml`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, lru_cache

import msgspec

from penstock._diagnostics import read_tables
from penstock._lazy_patterns import lazy_pattern
from penstock._providers.registry import providers

_WRAPPED = lazy_pattern(r"(?:.*/)?accounts/([^/]+)/models/(.+)|@(cf|hf)/(.+)")  # Fireworks; Cloudflare
_PATHS = lazy_pattern(r"(?:^|.*/)(?:publishers/([^/]+)/)?models/([^/]+)$")
_DOTTED = lazy_pattern(r"(?:(?:us|eu|apac|ap|jp|au|ca|sa|global|us-gov)\.)?([a-z0-9]+)\.(.+)")  # Bedrock
_REVISION = lazy_pattern(r"(?:-(v\d+))?:\d+(?::[0-9a-z]+)?$")  # Bedrock's: -v2:0, -v1:0:200k
# The version at the end of a name, the most telling first.
_VERSION = lazy_pattern(
    r"[-@_](?P<version>"
    r"(?:preview-|exp-)?20\d\d-?[01]\d-?[0-3]\d|(?:preview|exp)-\d\d-\d\d(?:\d\d)?|\d\d-20\d\d"  # days, months
    r"|2[3-9][01]\d|[01]\d[0-3]\d|00\d|latest|preview|exp|default|v\d+(?:\.\d+)?"  # 2411, 0613, 002, words
    r")$"
)
_DIGITS = lazy_pattern(r"(?<=\d)\.(?=\d)")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`provider`: the one named in the id, else the maker's. `name`: the id without prefixes."""

    provider: str = ""
    maker: str = ""
    family: str = ""
    version: str = ""
    name: str = ""


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """A maker of models: how their names begin, its names in ids, its row among the providers."""

    begins: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    provider: str = ""
    dots: str = "."


class _MakerTables(msgspec.Struct, frozen=True):
    makers: dict[str, Maker]
    kinds: dict[str, tuple[str, ...]]


@lru_cache(maxsize=4096)
def identify(id: str) -> Identity:
    """Returns provider, maker, family and version of a model's id. What the id does not tell is empty.

    Examples:
        >>> identity = identify("openrouter/anthropic/claude-sonnet-4.5")
        >>> identity.provider, identity.maker
        ('openrouter', 'anthropic')
    """
    provider, maker_name, name = _split_id(id.strip())
    base, _, tag = name.lower().partition(":")
    maker = (maker_name and _find_maker(maker_name)) or _maker_by_prefix(base)
    row = _tables().makers.get(maker, Maker())
    family, version = _split_version(_DIGITS.sub(row.dots, base))
    provider = provider or row.provider or maker
    return Identity(provider=provider, maker=maker, family=family, version=version or tag, name=name)


@lru_cache(maxsize=4096)
def kind(id: str) -> str:
    """Returns the kind of a model by its name: `chat` unless a pattern names another kind."""
    name = identify(id).name.lower()
    kinds = _tables().kinds.items()
    return next((word for word, patterns in kinds if any(fnmatchcase(name, one) for one in patterns)), "chat")


def _split_id(id: str) -> tuple[str, str, str]:
    """Returns the provider and the maker that the id names, and the rest of the name."""
    provider, rest = _split_provider(id)
    if wrapped := _WRAPPED.fullmatch(rest):
        provider = provider or (_find_provider(wrapped[1]) if wrapped[1] else "cloudflare")
        return provider, *_split_maker(wrapped[2] or wrapped[4])
    if path := _PATHS.fullmatch(rest):
        return provider, path[1] or "", path[2]
    dotted = _DOTTED.fullmatch(rest)
    if dotted and _find_maker(dotted[1]):
        name = _REVISION.sub(lambda found: f"-{found[1]}" if found[1] else "", dotted[2])
        return provider or "bedrock", dotted[1], name
    return provider, *_split_maker(rest)


def _split_provider(id: str) -> tuple[str, str]:
    """Returns the provider in front of an id (`openai/…`, `anthropic:…`), and the rest."""
    head, slash, rest = id.partition("/")
    if slash and _find_provider(head):
        return _find_provider(head), rest
    head, colon, rest = id.partition(":")
    # `qwen:7b` is a model with a tag, although there is a provider `qwen`; `mistral:mistral-large` is not.
    if colon and _find_provider(head) and (_maker_by_prefix(rest.lower()) or not _maker_by_prefix(head.lower())):
        return _find_provider(head), rest
    return "", id.removeprefix("ft:")


def _split_maker(rest: str) -> tuple[str, str]:
    maker, _, name = rest.rpartition("/")
    return maker.rpartition("/")[2], name


def _split_version(name: str) -> tuple[str, str]:
    """Returns family and version. A revision behind a date belongs to neither."""
    found = _VERSION.search(name)
    if found is None or not name[: found.start()]:
        return name, ""
    family, version = name[: found.start()], found["version"]
    again = _VERSION.search(family) if version[:1] == "v" or version in {"latest", "preview", "exp"} else None
    return (family[: again.start()], again["version"]) if again else (family, version)


def _find_maker(name: str) -> str:
    return _maker_names().get(name.lower(), "")


def _maker_by_prefix(model: str) -> str:
    """Returns the maker whose models' names begin like this one's."""
    return next((maker for prefix, maker in _maker_prefixes() if model.startswith(prefix)), "")


def _find_provider(name: str) -> str:
    return _provider_names().get(name.lower().replace("_", "-"), "")


@cache
def _tables() -> _MakerTables:
    return msgspec.convert(read_tables("penstock._providers", "makers.toml"), _MakerTables)


@cache
def _maker_names() -> dict[str, str]:
    return {name: maker for maker, row in _tables().makers.items() for name in (maker, *row.names)}


@cache
def _maker_prefixes() -> list[tuple[str, str]]:
    """Returns prefixes of models' names, the longest first: `text-embedding-3` before `text-embedding-`."""
    found = ((prefix, maker) for maker, row in _tables().makers.items() for prefix in row.begins)
    return sorted(found, key=lambda row: -len(row[0]))


@cache
def _provider_names() -> dict[str, str]:
    return {alias: name for name, row in providers().items() for alias in (name, *row.names)}
