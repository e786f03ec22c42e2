"""Who a model is, read from its id: `openai/gpt-4o-2024-11-20`, `us.anthropic.claude-…-v2:0`, `mistral-large-2411`.

Everything here is spelling; what a model can do is `models`' business. Makers stand in `makers.toml`.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files

import msgspec

from penstock._providers.registry import providers

_WRAPPED = re.compile(r"(?:.*/)?accounts/([^/]+)/models/(.+)|@(cf|hf)/(.+)")  # Fireworks; Cloudflare
_PATHS = re.compile(r"(?:^|.*/)(?:publishers/([^/]+)/)?models/([^/]+)$")
_DOTTED = re.compile(r"(?:(?:us|eu|apac|ap|jp|au|ca|sa|global|us-gov)\.)?([a-z0-9]+)\.(.+)")  # Bedrock
_REVISION = re.compile(r"(?:-(v\d+))?:\d+(?::[0-9a-z]+)?$")  # Bedrock's: -v2:0, -v1:0:200k
# The version at the end of a name, the most telling first.
_VERSION = re.compile(
    r"[-@_](?P<version>"
    r"(?:preview-|exp-)?20\d\d-?[01]\d-?[0-3]\d|(?:preview|exp)-\d\d-\d\d(?:\d\d)?|\d\d-20\d\d"  # days, months
    r"|2[3-9][01]\d|[01]\d[0-3]\d|00\d|latest|preview|exp|default|v\d+(?:\.\d+)?"  # 2411, 0613, 002, words
    r")$"
)
_DIGITS = re.compile(r"(?<=\d)\.(?=\d)")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`provider`: who the id says serves it, else its maker. `name`: the id without anybody's name before it."""

    provider: str = ""
    maker: str = ""
    family: str = ""
    version: str = ""
    name: str = ""


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes models: how their names begin, what the maker is called in ids, its own row among the providers."""

    begins: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    provider: str = ""
    dots: str = "."


class _Tables(msgspec.Struct, frozen=True):
    makers: dict[str, Maker]
    kinds: dict[str, tuple[str, ...]]


@lru_cache(maxsize=4096)
def identify(id: str) -> Identity:
    """The provider, family and version that a model's id tells; what it does not tell is empty."""
    said, told, name = _unwrapped(id.strip())
    base, _, tag = name.lower().partition(":")
    maker = (told and _called(told)) or _beginning(base)
    row = _tables().makers.get(maker, Maker())
    family, version = _parted(_DIGITS.sub(row.dots, base))
    return Identity(
        provider=said or row.provider or maker, maker=maker, family=family, version=version or tag, name=name
    )


@lru_cache(maxsize=4096)
def kind(id: str) -> str:
    """What a model is for, as far as its name tells: `chat` unless it is known to be something else."""
    name = identify(id).name.lower()
    for word, patterns in _tables().kinds.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return word
    return "chat"


def _unwrapped(id: str) -> tuple[str, str, str]:
    """The provider and the maker that the id names, and the name that is left."""
    said, rest = _prefixed(id)
    wrapped = _WRAPPED.fullmatch(rest)
    if wrapped:
        return said or (_provider(wrapped[1]) if wrapped[1] else "cloudflare"), *_split_maker(wrapped[2] or wrapped[4])
    path = _PATHS.fullmatch(rest)
    if path:
        return said, path[1] or "", path[2]
    dotted = _DOTTED.fullmatch(rest)
    if dotted and _called(dotted[1]):
        return said or "bedrock", dotted[1], _REVISION.sub(lambda found: f"-{found[1]}" if found[1] else "", dotted[2])
    return said, *_split_maker(rest)


def _prefixed(id: str) -> tuple[str, str]:
    """`openai/…` and `anthropic:…`: a provider's name in front."""
    head, slash, rest = id.partition("/")
    if slash and _provider(head):
        return _provider(head), rest
    head, colon, rest = id.partition(":")
    # `qwen:7b` is a model with a tag, though a provider goes by its name; `mistral:mistral-large` is not.
    if colon and _provider(head) and (_beginning(rest.lower()) or not _beginning(head.lower())):
        return _provider(head), rest
    return "", id.removeprefix("ft:")


def _split_maker(rest: str) -> tuple[str, str]:
    maker, _, name = rest.rpartition("/")
    return maker.rpartition("/")[2], name


def _parted(name: str) -> tuple[str, str]:
    """Family and version. A revision behind a date is not part of either."""
    found = _VERSION.search(name)
    if found is None or not name[: found.start()]:
        return name, ""
    family, version = name[: found.start()], found["version"]
    again = _VERSION.search(family) if version[:1] == "v" or version in {"latest", "preview", "exp"} else None
    return (family[: again.start()], again["version"]) if again else (family, version)


def _called(word: str) -> str:
    """The maker of that name."""
    return _names().get(word.lower(), "")


def _beginning(name: str) -> str:
    """The maker whose models' names begin like this one's."""
    return next((maker for start, maker in _begins() if name.startswith(start)), "")


def _provider(name: str) -> str:
    """The provider that goes by a name."""
    return _providers().get(name.lower().replace("_", "-"), "")


@cache
def _tables() -> _Tables:
    text = files("penstock._providers").joinpath("makers.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Tables)


@cache
def _names() -> dict[str, str]:
    rows = _tables().makers
    return {word: maker for maker, row in rows.items() for word in (maker, *row.names)}


@cache
def _begins() -> list[tuple[str, str]]:
    """The longest first: `text-embedding-3` before `text-embedding-`."""
    rows = _tables().makers
    found = ((start, maker) for maker, row in rows.items() for start in row.begins)
    return sorted(found, key=lambda row: -len(row[0]))


@cache
def _providers() -> dict[str, str]:
    return {word: name for name, row in providers().items() for word in (name, *row.names)}
