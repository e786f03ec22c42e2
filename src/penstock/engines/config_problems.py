"""Finds what a valid configuration says and cannot work: names that mean nobody, unset variables, wrong engine flags.

`penstock serve --check` prints the problems, `serve` logs them, `/readyz` fails for missing keys. Asks no provider.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from penstock.engines.config import ENGINES, FLAG, valid, variable
from penstock.engines.credentials import find_stored_key
from penstock.engines.model_resolution import (
    REPLAY,
    STAR,
    best_pattern,
    find_alias,
    is_pattern,
    known,
    model_names,
    targets,
)
from penstock.errors import InputError
from penstock.providers.address import fill_template
from penstock.providers.registry import providers
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engines.config import Config
    from penstock.providers.registry import Provider

_SAMPLE = "x"  # stands for what a pattern's star may match


class Problem(msgspec.Struct, frozen=True):
    """`keys`: the setting's place in the file; empty for a variable of the environment. The message names the fix."""

    keys: tuple[str, ...]
    message: str


def find_problems(config: Config, env: Mapping[str, str], *, forward: bool = False) -> list[Problem]:
    """All of them. With `forward` callers bring the providers' keys, so none can be missing."""
    made = [*_flags(config, env), *_accounts(config, env)]
    for table in ("aliases", "fallbacks"):
        made += _names(config, env, table)
    return made if forward else [*made, *find_missing_keys(config, env)]


def find_missing_keys(config: Config, env: Mapping[str, str]) -> list[Problem]:
    """Providers that are configured, and aliases of which no target can be asked, because a key is not there.

    A provider of which only facts about models are given is not configured by them.
    """
    made: list[Problem] = []
    configured = [name for name, account in config.providers.items() if not account.only_facts]
    for name in configured:
        said = missing_key(config.provider(name), config, env)
        if said:
            made.append(Problem(("providers", name, *(["env"] if config.account(name).env else [])), said))
    for name in config.aliases:
        try:
            meant = targets(_sample(name), config, env)
        except InputError:
            continue  # told as a name that means nobody
        lacking = [missing_key(one.provider, config, env) for one in meant]
        if all(lacking) and not any(one.provider.name in configured for one in meant):
            made.append(Problem(("aliases", name), "; ".join(dict.fromkeys(lacking))))
    return made


def missing_key(row: Provider, config: Config, env: Mapping[str, str]) -> str:
    """What is missing to ask a provider; nothing if it has its key, or needs none that is found in a variable."""
    account = config.account(row.name)
    if account.key or (account.env and env.get(account.env)):
        return ""
    stored = find_stored_key(row, account, env)
    if account.env:
        return "" if stored.key else stored.refusal or f"{account.env} is not set: {row.name} needs it as its key"
    if row.engine != "native" or stored.key or any(env.get(name) for name in row.env):
        return ""
    if any(one.optional or one.ambient for one in row.credentials):
        return ""
    if all(one.scheme == "none" for one in row.credentials):
        return ""
    return stored.refusal or f"{' or '.join(row.env)} is not set: {row.name} needs it as its key"


def _flags(config: Config, env: Mapping[str, str]) -> Iterator[Problem]:
    """Engine flags that are wrong, in the file and in the environment."""
    fix = f"expected {' or '.join(ENGINES)}, found"
    if config.engine and not valid(config.engine):
        yield Problem(("engine",), f"{fix} {config.engine!r}; native is used")
    for name, account in config.providers.items():
        if account.engine and not valid(account.engine):
            yield Problem(("providers", name, "engine"), f"{fix} {account.engine!r}; native is used")
    names = {FLAG: "", **{variable(name): name for name in (*providers(), *config.providers)}}
    for name, value in env.items():
        if name != FLAG and not name.startswith(f"{FLAG}_"):
            continue
        if name not in names:
            yield Problem((), f"{name}: no provider is meant by it{_suggest(name, names)}")
        elif value and not valid(value):
            yield Problem((), f"{name}: {fix} {value!r}; native is used")


def _accounts(config: Config, env: Mapping[str, str]) -> Iterator[Problem]:
    """Addresses that need a setting which is neither given nor in the environment."""
    for name, account in config.providers.items():
        row = config.provider(name)
        if row.name != name:
            yield Problem(("providers", name), f"{row.title} is called {row.name} here: write providers.{row.name}")
        try:
            fill_template(row, account.base_url or row.base_url, settings=account.settings, env=env)
        except InputError as error:
            yield Problem(("providers", name), str(error))


def _names(config: Config, env: Mapping[str, str], table: str) -> Iterator[Problem]:
    """Aliases and fallbacks that mean nobody."""
    rows: Mapping[str, str | list[str]] = getattr(config, table)
    for name, given in rows.items():
        keys = (table, name)
        if table == "fallbacks" and not is_pattern(name):
            yield from _name(name, config, env, keys)
        for one in [given] if isinstance(given, str) else given:
            if is_pattern(one) and not is_pattern(name):
                yield Problem(keys, f"{one!r} has a * that nothing fills in: {name!r} has none")
            elif is_pattern(one) and _fits_known(one, config, env):
                continue  # what the star stands for is not known here; some model fits
            else:
                filled_in = (find_alias(_sample(name), {name: one}) or [one])[0]
                yield from _name(filled_in, config, env, keys)


def _name(name: str, config: Config, env: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[Problem]:
    try:
        targets(name, replace(config, fallbacks={}), env)  # a wrong fallback is told once, where it stands
    except InputError as error:
        yield Problem(keys, f"{name!r} means no model{_suggest_model(name, config, env) or f': {error}'}")


def _fits_known(pattern: str, config: Config, env: Mapping[str, str]) -> bool:
    """Whether a target with a star, such as `*` or `replay/*`, fits an alias or a model that is known."""
    rows = [*known(config, env), config.provider(REPLAY)]
    names = (f"{who}{one}" for row in rows for one in model_names(row, config) for who in ("", f"{row.name}/"))
    exact = (one for one in config.aliases if not is_pattern(one))
    played = (f"{REPLAY}/{one}" for one in offered())
    return any(best_pattern(one, [pattern]) for one in (*exact, *names, *played))


def _sample(name: str) -> str:
    return name.replace(STAR, _SAMPLE)


def _suggest_model(name: str, config: Config, env: Mapping[str, str]) -> str:
    """The nearest name: of a provider, where one is named; else of an alias or a model."""
    who, slash, rest = name.partition("/")
    if slash:
        near = difflib.get_close_matches(who, [*config.providers, *providers()], 1)
        return f"; did you mean {near[0]}/{rest}?" if near else ""
    known_here = (one for row in known(config, env) for one in model_names(row, config))
    return _suggest(name, [*config.aliases, *known_here])


def _suggest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [one for one in names if one != name], 1)
    return f"; did you mean {near[0]}?" if near else ""
