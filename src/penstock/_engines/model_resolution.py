"""Resolves a model's name to providers: an alias, `provider/model`, or the one configured provider that lists it.

Fallbacks follow the first target. The replay provider answers `replay/…`, and requests without a model while no
provider is configured.

The name of an alias may hold `*`. An exact name wins over every pattern, then the pattern with the most characters
besides `*`. A pattern without a slash matches no name with one: `claude-*` and `*` do not match `provider/model`. Only
`*` is special, because model names hold brackets (`claude-sonnet-4-5[1m]`).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._engines.config import Alias
from penstock._http.header_fields import check_text
from penstock._input_limits import MAX_MODEL_NAME
from penstock._providers.model_identity import identify
from penstock._providers.models import models as list_models
from penstock._providers.registry import Provider, providers
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._engines.config import Config

REPLAY = "replay"
DEFAULT_STREAM = "text"  # the packaged stream for requests that name no model
_MAX_ALIAS_DEPTH = 8  # aliases of aliases


class TargetPool(msgspec.Struct, frozen=True):
    """The alias whose strategy chooses among several targets."""

    name: str
    strategy: str
    sticky: bool


class Target(msgspec.Struct, frozen=True):
    """A provider and a model's name there; `why` says how the name was resolved.

    `pool`: the alias that chooses among its targets by their weights; None: targets are tried in order. `chosen_by`:
    the code of the choice, if one was made.
    """

    provider: Provider
    model: str
    why: str
    weight: float = 1.0
    pool: TargetPool | None = None
    chosen_by: str = ""


class _Candidate(NamedTuple):
    """A name without aliases, on its way to become a target."""

    name: str
    weight: float = 1.0
    pool: TargetPool | None = None


def resolve_targets(name: str, config: Config, env: Mapping[str, str]) -> list[Target]:
    """Returns the targets to try, in order; never empty. An unknown name raises an error with suggestions."""
    if not name:
        return [_resolve_no_name(config, env)]
    check_text(name, "model: the name", ascii_only=False, limit=MAX_MODEL_NAME)
    targets: dict[tuple[str, str], Target] = {}
    for one in _expand_aliases(name, config, _MAX_ALIAS_DEPTH):
        target = _resolve(one.name, config, env)
        if one.pool is not None:
            target = replace(target, weight=one.weight, pool=one.pool)
        targets.setdefault((target.provider.name, target.model), target)
    return list(targets.values())


def _expand_aliases(
    name: str, config: Config, depth: int, before: frozenset[str] = frozenset()
) -> Iterable[_Candidate]:
    """Yields a name with its aliases resolved, then its fallbacks. `before`: the names that led here."""
    if depth == 0:
        raise InputError(f"aliases: {name!r} leads round in a circle")
    path = before | {name}
    found = _find_members(name, config.aliases)
    for one in [_Candidate(name)] if found is None else found:
        # A target is looked up among exact names only: `"*" = "up/m"` must not match its own target.
        if one.name == name or one.name not in config.aliases:
            yield one
            continue
        inner = _expand_aliases(one.name, config, depth - 1, path)
        if one.pool is None:
            yield from inner
        else:
            yield _require_single(one, list(inner))
    for following in find_alias(name, config.fallbacks) or ():
        # A fallback's own fallbacks do not count, unless it is an alias. `"*" = ["backup"]` matches `backup` itself,
        # and two aliases may be each other's fallbacks: each is tried once.
        if following not in config.aliases:
            yield _Candidate(following)
        elif following not in path:
            yield from _expand_aliases(following, config, depth - 1, path)


def _require_single(member: _Candidate, found: list[_Candidate]) -> _Candidate:
    """Returns the one name that a member of a pool leads to."""
    if len(found) > 1:
        pool = member.pool.name if member.pool is not None else ""
        raise InputError(
            f"aliases.{pool}: {member.name!r} leads to several models; a strategy chooses among single ones: name them"
        )
    return member._replace(name=found[0].name)


def _resolve_no_name(config: Config, env: Mapping[str, str]) -> Target:
    """Returns the target for a request without a model: a packaged stream, while no provider is configured."""
    if config.aliases or list_configured_providers(config, env):
        raise InputError("model: expected the name of a model, such as 'openai/gpt-5', found nothing")
    return Target(config.provider(REPLAY), DEFAULT_STREAM, "no model is named and nothing is configured")


def _resolve(name: str, config: Config, env: Mapping[str, str]) -> Target:
    who, slash, rest = name.partition("/")
    if slash and rest and config.has(who):
        row = config.provider(who)
        if row.engine == REPLAY:
            from penstock._replay import check_model  # noqa: PLC0415 — it reads the packaged streams

            check_model(name)
        configured = row.name in config.providers or row.configured(env)
        if not row.local and not configured and not any(one.optional for one in row.credentials):
            listing = [one for one in list_configured_providers(config, env) if name in list_known_models(one, config)]
            if len(listing) == 1:
                return Target(listing[0], name, f"{row.name} has no key, and {listing[0].name} lists it")
        return Target(row, rest, f"{name} names the provider {row.name}")
    return _resolve_bare_name(name, config, env)


def _resolve_bare_name(name: str, config: Config, env: Mapping[str, str]) -> Target:
    here = list_configured_providers(config, env)
    if not here:
        return _resolve_unconfigured(name, config)
    listing = [row for row in here if name in list_known_models(row, config)]
    if len(listing) == 1:
        return Target(listing[0], name, f"{listing[0].name} is the one configured provider that lists it")
    maker = identify(name).provider if _has_maker_prefix(name) else ""
    makers = [row for row in listing or here if maker and maker in {row.name, row.facts, *row.names}]
    if len(makers) == 1:
        return Target(makers[0], name, f"{makers[0].name} makes it")
    if listing:
        choices = ", ".join(f"{row.name}/{name}" for row in listing)
        raise InputError(f"model {name!r} is listed by several providers; say which: {choices}")
    choices = ", ".join(row.name for row in here)
    row = _find_maker(name) if _has_maker_prefix(name) else None
    key = f"; {row.title} makes it, and {row.env[0]} is not set" if row is not None else ""
    raise InputError(
        f"model {name!r} is listed by no configured provider ({choices}): "
        f"write provider/model; `penstock models` lists them{key}"
    )


def _resolve_unconfigured(name: str, config: Config) -> Target:
    """Returns the maker of a model while no provider has a key: the request fails and names the missing variable."""
    row = None if "/" in name else _find_maker(name)
    if row is None:
        raise InputError(_describe_unknown(name))
    return Target(config.provider(row.name), name, f"{row.name} makes it; no provider is configured")


def _has_maker_prefix(name: str) -> bool:
    """True if the part before a name's last slash, if any, is the name of a model maker."""
    head, slash, _ = name.rpartition("/")
    found = identify(f"{head}/-")
    return not slash or bool(found.maker or found.provider)


def _find_maker(name: str) -> Provider | None:
    """Returns the provider that makes a model, if it is known and needs a key."""
    row = providers().get(identify(name).provider)
    return row if row is not None and row.env and not row.local else None


def _describe_unknown(name: str) -> str:
    """Returns the error message for an unknown name while no provider is configured."""
    from penstock._replay import describe_scripts  # noqa: PLC0415 — it reads the packaged streams

    scripts = ", ".join(f"{REPLAY}/{one}" for one in describe_scripts())
    who, slash, _ = name.partition("/")
    unknown = f"no provider is called {who!r}, and none is configured" if slash else "no provider is configured"
    return (
        f"model {name!r}: {unknown}. `penstock setup` adds a provider's key (or set OPENAI_API_KEY …; `penstock "
        "providers` lists them), or give one of your own a base_url under [providers] in penstock.toml. Without a key "
        f"these are played: {scripts}"
    )


def list_configured_providers(config: Config, env: Mapping[str, str]) -> list[Provider]:
    """Returns the providers that the configuration names or that have a key in the environment."""
    mine = [config.provider(name) for name in config.providers if name != REPLAY]
    names = {row.name for row in mine}
    return [*mine, *(row for row in providers().values() if row.name not in names and row.configured(env))]


def list_known_models(row: Provider, config: Config) -> frozenset[str]:
    """Returns the models of a provider that are known without a request."""
    models = config.account(row.name).models
    return frozenset(models) if models and not isinstance(models, dict) else _list_packaged_models(row)


@cache
def _list_packaged_models(row: Provider) -> frozenset[str]:
    return frozenset(one.id for one in list_models(row))


WILDCARD = "*"


def is_pattern(name: str) -> bool:
    """True if the name of an alias holds a wildcard."""
    return WILDCARD in name


AnyAlias: TypeAlias = str | list[str] | Alias


def find_alias(name: str, aliases: Mapping[str, AnyAlias] | Mapping[str, list[str]]) -> list[str] | None:
    """Returns the targets of the alias that matches a name, exactly or by pattern; None if none does."""
    found = _find_members(name, aliases)
    return None if found is None else [one.name for one in found]


def alias_targets(alias: AnyAlias) -> list[str]:
    """Returns the names that an alias leads to, as they are configured."""
    if isinstance(alias, Alias):
        return [one.model for one in alias.members()]
    return [alias] if isinstance(alias, str) else list(alias)


def _find_members(name: str, aliases: Mapping[str, AnyAlias] | Mapping[str, list[str]]) -> list[_Candidate] | None:
    """Returns the targets of the alias that matches a name, with their pool; None if none does."""
    pattern = name if name in aliases else best_pattern(name, tuple(aliases))
    if not pattern:
        return None
    found: AnyAlias = aliases[pattern]
    names = alias_targets(found)
    if pattern != name:
        names = [_fill_wildcards(name, pattern, one) for one in names]
    if not isinstance(found, Alias) or found.strategy == "order" or len(names) == 1:
        return [_Candidate(one) for one in names]
    pool = TargetPool(pattern, found.strategy, found.sticky)
    weights = [one.weight for one in found.members()]
    return [_Candidate(one, weight, pool) for one, weight in zip(names, weights, strict=True)]


def best_pattern(name: str, patterns: Sequence[str]) -> str:
    """Returns the longest pattern that matches a name, the first of equals; empty if none does."""
    found = [pattern for pattern in patterns if is_pattern(pattern) and _match(name, pattern) is not None]
    return max(found, key=lambda pattern: len(pattern.replace(WILDCARD, "")), default="")


def _match(name: str, pattern: str) -> re.Match[str] | None:
    if "/" in name and "/" not in pattern:
        return None
    return _compile_pattern(pattern).fullmatch(name)


@lru_cache(1000)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern. Wildcards are lazy and atomic, so that many of them cost linear time each."""
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return re.compile(re.escape(first))
    middle = "".join(f"(?>(.*?){re.escape(text)})" for text in rest[:-1])
    return re.compile(f"{re.escape(first)}{middle}(.*){re.escape(rest[-1])}", re.DOTALL)


def _fill_wildcards(name: str, pattern: str, target: str) -> str:
    """Returns the target with its wildcards replaced by what the pattern's wildcards match, in order."""
    found = _match(name, pattern)
    if not is_pattern(target) or found is None:
        return target
    stars = list(found.groups())
    return "".join(
        text if not number else f"{stars[min(number, len(stars)) - 1]}{text}"
        for number, text in enumerate(target.split(WILDCARD))
    )
