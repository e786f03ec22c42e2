"""Finds settings that are valid but cannot work: unknown model names, unset variables, wrong engine names.

`penstock serve --check` prints the problems, `serve` logs them, `/readyz` fails for missing keys. Sends no request.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from penstock._engines import model_resolution as resolution
from penstock._engines.config import ENGINE_VARIABLE, ENGINES, Account, Alias, Config, engine_variable, is_engine_name
from penstock._engines.credentials import find_stored_key
from penstock._providers.registry import Provider, providers
from penstock._providers.urls import fill_template
from penstock._replay import describe_scripts
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_SAMPLE = "x"  # replaces the wildcard of a pattern


class ConfigProblem(msgspec.Struct, frozen=True):
    """A problem. `keys`: the path of the setting in the file; empty for a variable. The message names the fix."""

    keys: tuple[str, ...]
    message: str


def find_problems(config: Config, env: Mapping[str, str], *, forward: bool = False) -> list[ConfigProblem]:
    """Returns all problems. With `forward` callers bring the providers' keys, so none is missing."""
    problems = [*_check_engines(config, env), *_check_accounts(config, env)]
    for table in ("aliases", "fallbacks"):
        problems += _check_names(config, env, table)
    return problems if forward else [*problems, *find_missing_keys(config, env)]


def find_missing_keys(config: Config, env: Mapping[str, str]) -> list[ConfigProblem]:
    """Returns configured providers without a key, and aliases all of whose targets lack a key.

    A provider with nothing but facts about models does not count as configured.
    """
    problems: list[ConfigProblem] = []
    configured = [name for name, account in config.providers.items() if not account.only_facts]
    for name in configured:
        missing = describe_missing_key(config.provider(name), config, env)
        if missing:
            account = config.account(name)
            setting = ["key_file"] if account.key_file else ["env"] if account.env else []
            keys = ("providers", name, *setting)
            problems.append(ConfigProblem(keys, missing))
    for name in config.aliases:
        try:
            targets = resolution.resolve_targets(_sample(name), config, env)
        except InputError:
            continue  # reported as an unknown name
        missing_keys = [describe_missing_key(target.provider, config, env) for target in targets]
        if all(missing_keys) and not any(target.provider.name in configured for target in targets):
            problems.append(ConfigProblem(("aliases", name), "; ".join(dict.fromkeys(missing_keys))))
    return problems


def describe_missing_key(row: Provider, config: Config, env: Mapping[str, str]) -> str:
    """Returns which key a provider lacks; empty if it has one or needs none."""
    account = config.account(row.name)
    if account.configured_keys(env):
        return ""
    stored = find_stored_key(row, account, env)
    if files := " or ".join(account.key_files):
        return "" if stored.key else stored.refusal or f"{files} holds no key: {row.name} needs it"
    if names := " or ".join(account.variables):
        return "" if stored.key else stored.refusal or f"{names} is not set: {row.name} needs it as its key"
    if row.engine != "native" or stored.key or any(env.get(name) for name in row.env):
        return ""
    rows = row.credentials
    if any(one.optional or one.ambient for one in rows) or all(one.scheme == "none" for one in rows):
        return ""
    return stored.refusal or f"{' or '.join(row.env)} is not set: {row.name} needs it as its key"


def _check_engines(config: Config, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yields wrong engine names in the file and in the environment."""
    fix = f"expected {' or '.join(ENGINES)}, found"
    if config.engine and not is_engine_name(config.engine):
        yield ConfigProblem(("engine",), f"{fix} {config.engine!r}; native is used")
    for name, account in config.providers.items():
        if account.engine and not is_engine_name(account.engine):
            yield ConfigProblem(("providers", name, "engine"), f"{fix} {account.engine!r}; native is used")
    names = {ENGINE_VARIABLE: "", **{engine_variable(name): name for name in (*providers(), *config.providers)}}
    for name, value in env.items():
        if name != ENGINE_VARIABLE and not name.startswith(f"{ENGINE_VARIABLE}_"):
            continue
        if name not in names:
            yield ConfigProblem((), f"{name}: no provider is meant by it{_suggest(name, names)}")
        elif value and not is_engine_name(value):
            yield ConfigProblem((), f"{name}: {fix} {value!r}; native is used")


def _check_accounts(config: Config, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yields URLs whose settings are neither configured nor in the environment, and keys that are missing or twice."""
    for name, account in config.providers.items():
        yield from _check_several_keys(name, account, env)
        row = config.provider(name)
        if row.name != name:
            yield ConfigProblem(
                ("providers", name), f"{row.title} is called {row.name} here: write providers.{row.name}"
            )
        try:
            fill_template(row, account.base_url or row.base_url, settings=account.settings, env=env)
        except InputError as error:
            yield ConfigProblem(("providers", name), str(error))


def _check_several_keys(name: str, account: Account, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yields variables of a list that are not set while others are, and keys that are given twice."""
    places = [place for place, _ in account.configured_keys(env)]
    for variable in account.variables:
        if variable not in places and places:
            reason = (
                "is not set: the other keys are used" if not env.get(variable) else "holds a key that is given twice"
            )
            yield ConfigProblem(("providers", name, "env"), f"{variable} {reason}")
    if len(set(account.keys)) < len(account.keys):
        yield ConfigProblem(("providers", name, "keys"), "a key is given twice: it is used as one")


def _check_names(config: Config, env: Mapping[str, str], table: str) -> Iterator[ConfigProblem]:
    """Yields aliases and fallbacks that resolve to no model."""
    rows: Mapping[str, resolution.AnyAlias] = getattr(config, table)
    for name, given in rows.items():
        keys = (table, name)
        if table == "fallbacks" and not resolution.is_pattern(name):
            yield from _check_name(name, config, env, keys)
        if isinstance(given, Alias):
            yield from _check_strategy(given, keys)
        for one in resolution.alias_targets(given):
            if resolution.is_pattern(one) and not resolution.is_pattern(name):
                yield ConfigProblem(keys, f"{one!r} has a * that nothing fills in: {name!r} has none")
            elif resolution.is_pattern(one) and _matches_any_model(one, config, env):
                continue  # what the wildcard stands for is not known here; some model matches
            else:
                filled_in = (resolution.find_alias(_sample(name), {name: one}) or [one])[0]
                yield from _check_name(filled_in, config, env, keys)


def _check_strategy(alias: Alias, keys: tuple[str, ...]) -> Iterator[ConfigProblem]:
    """Yields settings of an alias that have no effect."""
    members = alias.members()
    names = [one.model for one in members]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        yield ConfigProblem((*keys, "targets"), f"{twice!r} is named twice: it counts once; give it a weight instead")
    if alias.strategy in {"order", "fastest"} and any(one.weight != 1 for one in members):
        message = f'weights have no effect with strategy = "{alias.strategy}": write "weighted" or "least-busy"'
        yield ConfigProblem((*keys, "targets"), message)
    if len(members) == 1 and alias.strategy != "order":
        yield ConfigProblem((*keys, "strategy"), "there is one target: a strategy needs several")


def _check_name(name: str, config: Config, env: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[ConfigProblem]:
    try:
        resolution.resolve_targets(
            name, replace(config, fallbacks={}), env
        )  # a wrong fallback is reported once, for its own key
    except InputError as error:
        yield ConfigProblem(keys, f"{name!r} means no model{_suggest_model(name, config, env) or f': {error}'}")


def _matches_any_model(pattern: str, config: Config, env: Mapping[str, str]) -> bool:
    """True if a target with a wildcard, such as `*` or `replay/*`, matches an alias or a known model."""
    rows = [*resolution.list_configured_providers(config, env), config.provider(resolution.REPLAY)]
    names = (
        f"{who}{one}"
        for row in rows
        for one in resolution.list_known_models(row, config)
        for who in ("", f"{row.name}/")
    )
    exact = (one for one in config.aliases if not resolution.is_pattern(one))
    scripts = (f"{resolution.REPLAY}/{one}" for one in describe_scripts())
    return any(resolution.best_pattern(one, [pattern]) for one in (*exact, *names, *scripts))


def _sample(name: str) -> str:
    return name.replace(resolution.WILDCARD, _SAMPLE)


def _suggest_model(name: str, config: Config, env: Mapping[str, str]) -> str:
    """Returns a hint with the closest name: of a provider, if one is named; else of an alias or a model."""
    who, slash, rest = name.partition("/")
    if slash:
        near = difflib.get_close_matches(who, [*config.providers, *providers()], 1)
        return f"; did you mean {near[0]}/{rest}?" if near else ""
    models = (
        one
        for row in resolution.list_configured_providers(config, env)
        for one in resolution.list_known_models(row, config)
    )
    return _suggest(name, [*config.aliases, *models])


def _suggest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [one for one in names if one != name], 1)
    return f"; did you mean {near[0]}?" if near else ""
