"""Which providers a model's name means: an alias, `provider/model`, or the one configured provider that lists it.

The replay provider answers only `replay/…`, and requests that name no model while nothing is configured. Fallbacks
follow the first target.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import InputError
from penstock.http.header_fields import check_text
from penstock.input_limits import MAX_MODEL_NAME
from penstock.providers.identity import identify
from penstock.providers.models import models
from penstock.providers.registry import Provider, providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engines.config import Config

REPLAY = "replay"
DEFAULT_STREAM = "text"  # the packaged stream for requests that name no model
_DEEP = 8  # aliases of aliases


class Target(msgspec.Struct, frozen=True):
    """A provider and the name of a model there; `why` it is meant."""

    provider: Provider
    model: str
    why: str


def targets(name: str, config: Config, env: Mapping[str, str]) -> list[Target]:
    """Everyone to ask, in order. Never empty: a name that means nothing is an error that says what would."""
    if not name:
        return [_unnamed(config, env)]
    check_text(name, "model: the name", ascii_only=False, limit=MAX_MODEL_NAME)
    made: dict[tuple[str, str], Target] = {}
    for one in _spread(name, config, _DEEP):
        target = _meant(one, config, env)
        made.setdefault((target.provider.name, target.model), target)
    return list(made.values())


def _spread(name: str, config: Config, depth: int, before: frozenset[str] = frozenset()) -> Iterable[str]:
    """A name, its aliases put in their places, and its fallbacks behind it. `before`: names that led here."""
    if depth == 0:
        raise InputError(f"aliases: {name!r} leads round in a circle")
    path = before | {name}
    found = find_alias(name, config.aliases)
    for one in [name] if found is None else found:
        # A target is looked up among exact names only: `"*" = "up/m"` must not match its own target.
        if one == name or one not in config.aliases:
            yield one
        else:
            yield from _spread(one, config, depth - 1, path)
    for one in find_alias(name, config.fallbacks) or ():
        # The fallbacks of a fallback are its own business, unless it is an alias. `"*" = ["backup"]` matches `backup`
        # itself, and two aliases may be each other's fallbacks: each is asked once.
        if one not in config.aliases:
            yield one
        elif one not in path:
            yield from _spread(one, config, depth - 1, path)


def _unnamed(config: Config, env: Mapping[str, str]) -> Target:
    """Who answers a request that names no model: packaged streams, while nothing is configured."""
    if config.aliases or known(config, env):
        raise InputError("model: expected the name of a model, such as 'openai/gpt-5', found nothing")
    return Target(config.provider(REPLAY), DEFAULT_STREAM, "no model is named and nothing is configured")


def _meant(name: str, config: Config, env: Mapping[str, str]) -> Target:
    who, slash, rest = name.partition("/")
    if slash and rest and config.has(who):
        row = config.provider(who)
        if row.engine == REPLAY:
            _check_packaged(rest)
        if row.local or configured(row, config, env) or any(one.optional for one in row.credentials):
            return Target(row, rest, f"{name} names the provider {row.name}")
        listing = [one for one in known(config, env) if name in model_names(one, config)]
        if len(listing) == 1:
            return Target(listing[0], name, f"{row.name} has no key, and {listing[0].name} lists it")
        return Target(row, rest, f"{name} names the provider {row.name}")
    return _bare(name, config, env)


def _bare(name: str, config: Config, env: Mapping[str, str]) -> Target:
    here = known(config, env)
    if not here:
        return _unconfigured(name, config)
    listing = [row for row in here if name in model_names(row, config)]
    if len(listing) == 1:
        return Target(listing[0], name, f"{listing[0].name} is the one configured provider that lists it")
    maker = identify(name).provider if _is_makers(name) else ""
    own = [row for row in listing or here if maker and maker in {row.name, row.facts, *row.names}]
    if len(own) == 1:
        return Target(own[0], name, f"{own[0].name} makes it")
    if listing:
        choices = ", ".join(f"{row.name}/{name}" for row in listing)
        raise InputError(f"model {name!r} is listed by several providers; say which: {choices}")
    choices = ", ".join(row.name for row in here)
    row = _maker(name) if _is_makers(name) else None
    key = f"; {row.title} makes it, and {row.env[0]} is not set" if row is not None else ""
    raise InputError(
        f"model {name!r} is listed by no configured provider ({choices}): "
        f"write provider/model; `penstock models` lists them{key}"
    )


def _unconfigured(name: str, config: Config) -> Target:
    """The provider that makes a model, where no provider has a key: asking it fails, and names the missing variable."""
    row = None if "/" in name else _maker(name)
    if row is None:
        raise InputError(_nobody(name))
    return Target(config.provider(row.name), name, f"{row.name} makes it; no provider is configured")


def _is_makers(name: str) -> bool:
    """Whether what stands before a name's last slash, if anything does, is called like one who makes models."""
    head, slash, _ = name.rpartition("/")
    found = identify(f"{head}/-")
    return not slash or bool(found.maker or found.provider)


def _maker(name: str) -> Provider | None:
    """The provider that makes a model, if it is known and needs a key."""
    row = providers().get(identify(name).provider)
    return row if row is not None and row.env and not row.local else None


def _check_packaged(model: str) -> None:
    from penstock.replay import named  # noqa: PLC0415 — it reads the packaged streams

    named(f"{REPLAY}/{model}")


def _nobody(name: str) -> str:
    """The message for a name that means no provider while none is configured."""
    from penstock.replay import offered  # noqa: PLC0415 — it reads the packaged streams

    played = ", ".join(f"{REPLAY}/{one}" for one in offered())
    who, slash, _ = name.partition("/")
    unknown = f"no provider is called {who!r}, and none is configured" if slash else "no provider is configured"
    return (
        f"model {name!r}: {unknown}. `penstock setup` adds a provider's key (or set OPENAI_API_KEY …; `penstock "
        "providers` lists them), or give one of your own a base_url under [providers] in penstock.toml. Without a key "
        f"these are played: {played}"
    )


def known(config: Config, env: Mapping[str, str]) -> list[Provider]:
    """The providers that are configured: in the configuration, or by a key in the environment."""
    mine = [config.provider(name) for name in config.providers if name != REPLAY]
    names = {row.name for row in mine}
    return [*mine, *(row for row in providers().values() if row.name not in names and row.configured(env))]


def configured(row: Provider, config: Config, env: Mapping[str, str]) -> bool:
    """Whether there is anything to ask a provider with."""
    return row.name in config.providers or row.configured(env)


def model_names(row: Provider, config: Config) -> frozenset[str]:
    """The models that a provider is known to have without asking it."""
    said = config.account(row.name).models
    if said and not isinstance(said, dict):
        return frozenset(said)
    return _listed(row)


@cache
def _listed(row: Provider) -> frozenset[str]:
    return frozenset(one.id for one in models(row))


STAR = "*"


def is_pattern(name: str) -> bool:
    """Whether the name of an alias stands for several names."""
    return STAR in name


def find_alias(name: str, aliases: Mapping[str, str | list[str]]) -> list[str] | None:
    """The targets of the alias that a name means, exactly or by pattern; None if there is none."""
    exact = aliases.get(name)
    if exact is not None:
        return [exact] if isinstance(exact, str) else list(exact)
    pattern = best_pattern(name, tuple(aliases))
    if not pattern:
        return None
    found = aliases[pattern]
    return [_carry_over(name, pattern, one) for one in ([found] if isinstance(found, str) else found)]


def best_pattern(name: str, patterns: Sequence[str]) -> str:
    """The pattern that matches a name with the most characters; the first of equals. Empty if none does."""
    found = [pattern for pattern in patterns if is_pattern(pattern) and _matched(name, pattern) is not None]
    return max(found, key=lambda pattern: len(pattern.replace(STAR, "")), default="")


def _matched(name: str, pattern: str) -> re.Match[str] | None:
    if "/" in name and "/" not in pattern:
        return None
    return _compiled(pattern).fullmatch(name)


@lru_cache(1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A star takes as little as it can and does not give it back, so that many stars cost linear time each."""
    first, *rest = pattern.split(STAR)
    if not rest:
        return re.compile(re.escape(first))
    middle = "".join(f"(?>(.*?){re.escape(text)})" for text in rest[:-1])
    return re.compile(f"{re.escape(first)}{middle}(.*){re.escape(rest[-1])}", re.DOTALL)


def _carry_over(name: str, pattern: str, target: str) -> str:
    """The target with what the pattern's star stands for; several stars are filled in order."""
    found = _matched(name, pattern)
    if not is_pattern(target) or found is None:
        return target
    stars = list(found.groups())
    return "".join(
        piece if not number else f"{stars[min(number, len(stars)) - 1]}{piece}"
        for number, piece in enumerate(target.split(STAR))
    )
