"""Whom a model's name means: an alias, `provider/model`, or the one configured provider that lists a bare name.

With nothing configured a bare name is played by the replay provider; one with a slash that names nobody is an error.
Fallbacks follow the first that is meant.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import InputError
from penstock.http.header_fields import check_text
from penstock.input_limits import MAX_MODEL_NAME
from penstock.providers.identity import identify
from penstock.providers.models import models
from penstock.providers.registry import Provider, providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engines.config import Config

REPLAY = "replay"
_DEEP = 8  # aliases of aliases


class Target(msgspec.Struct, frozen=True):
    """A provider and the name of a model there; `why` it is meant."""

    provider: Provider
    model: str
    why: str


def targets(name: str, config: Config, env: Mapping[str, str]) -> list[Target]:
    """Everyone to ask, in order. Never empty: a name that means nothing is an error that says what would."""
    if not name:
        raise InputError("model: expected the name of a model, such as 'openai/gpt-5', found nothing")
    check_text(name, "model: the name", ascii_only=False, limit=MAX_MODEL_NAME)
    made: dict[tuple[str, str], Target] = {}
    for one in _spread(name, config, _DEEP):
        target = _meant(one, config, env)
        made.setdefault((target.provider.name, target.model), target)
    return list(made.values())


def _spread(name: str, config: Config, depth: int) -> Iterable[str]:
    """A name, its aliases put in their places, and its fallbacks behind it."""
    if depth == 0:
        raise InputError(f"aliases: {name!r} leads round in a circle")
    meant = config.aliases.get(name, [name])
    for one in [meant] if isinstance(meant, str) else meant:
        if one == name or one not in config.aliases:
            yield one
        else:
            yield from _spread(one, config, depth - 1)
    for one in config.fallbacks.get(name, ()):
        # The fallbacks of a fallback are its own business, unless it is an alias.
        yield from _spread(one, config, depth - 1) if one in config.aliases else (one,)


def _meant(name: str, config: Config, env: Mapping[str, str]) -> Target:
    who, slash, rest = name.partition("/")
    if slash and rest and config.has(who):
        row = config.provider(who)
        if row.local or configured(row, config, env) or any(one.optional for one in row.credentials):
            return Target(row, rest, f"{name} names the provider {row.name}")
        listing = [one for one in known(config, env) if name in _names(one, config)]
        if len(listing) == 1:
            return Target(listing[0], name, f"{row.name} has no key, and {listing[0].name} lists it")
        return Target(row, rest, f"{name} names the provider {row.name}")
    return _bare(name, config, env)


def _bare(name: str, config: Config, env: Mapping[str, str]) -> Target:
    here = known(config, env)
    if not here and "/" in name:
        raise InputError(_nobody(name))
    if not here:
        return Target(config.provider(REPLAY), name, "nothing is configured: packaged streams are played")
    listing = [row for row in here if name in _names(row, config)]
    if len(listing) == 1:
        return Target(listing[0], name, f"{listing[0].name} is the one configured provider that lists it")
    maker = identify(name).provider
    own = [row for row in listing or here if maker and maker in {row.name, row.facts, *row.names}]
    if len(own) == 1:
        return Target(own[0], name, f"{own[0].name} makes it")
    if listing:
        choices = ", ".join(f"{row.name}/{name}" for row in listing)
        raise InputError(f"model {name!r} is listed by several providers; say which: {choices}")
    choices = ", ".join(row.name for row in here)
    raise InputError(
        f"model {name!r} is listed by no configured provider ({choices}): "
        "write provider/model; `penstock models` lists them"
    )


def _nobody(name: str) -> str:
    """What to say of `whoever/model` where nothing is configured: it is no bare name, and names nobody."""
    from penstock.replay import offered  # noqa: PLC0415 — it reads the packaged streams

    played = ", ".join(f"{REPLAY}/{one}" for one in offered())
    return (
        f"model {name!r}: no provider is called {name.partition('/')[0]!r}, and none is configured. Without a key "
        f"these are played: {played}. To ask a provider set its key (OPENAI_API_KEY …; `penstock providers` lists "
        "them), or give one of your own a base_url under [providers] in penstock.toml"
    )


def known(config: Config, env: Mapping[str, str]) -> list[Provider]:
    """The providers that are configured: in the configuration, or by a key in the environment."""
    mine = [config.provider(name) for name in config.providers if name != REPLAY]
    names = {row.name for row in mine}
    return [*mine, *(row for row in providers().values() if row.name not in names and row.configured(env))]


def configured(row: Provider, config: Config, env: Mapping[str, str]) -> bool:
    """Whether there is anything to ask a provider with."""
    return row.name in config.providers or row.configured(env)


def _names(row: Provider, config: Config) -> frozenset[str]:
    said = config.account(row.name).models
    if said:
        return frozenset(said)
    return _listed(row)


@cache
def _listed(row: Provider) -> frozenset[str]:
    return frozenset(one.id for one in models(row))
