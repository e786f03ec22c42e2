"""The problems of a gateway's configuration as lines: file, line, setting, what is wrong, what to do.

Adds to `engines.config_problems` what only a gateway has: its keys.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from penstock.engines.config_problems import Problem, find_problems
from penstock.engines.model_resolution import REPLAY, STAR, best_pattern, known, model_names
from penstock.gateway.keys import file_of
from penstock.gateway.places import Place
from penstock.providers.registry import providers
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.gateway.config import GatewayConfig, Key

log = logging.getLogger("penstock.config")


def report_problems(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """One line for each problem."""
    found = [*find_problems(config.engine, env, forward=config.forward), *_keys(config, env)]
    place = Place(config.path.read_text(encoding="utf-8"), config.path) if found and config.path is not None else None
    return [*(_format_problem(problem, place) for problem in found), *_stored_keys(config, env)]


def log_problems(config: GatewayConfig, env: Mapping[str, str]) -> None:
    """Warn of them: the gateway serves what does work."""
    for line in report_problems(config, env):
        log.warning("%s", line)


def _format_problem(problem: Problem, place: Place | None) -> str:
    if not problem.keys:
        return f"environment: {problem.message}"
    if place is None:
        return f"{'.'.join(problem.keys)}: {problem.message}"
    return place.say(problem.keys, problem.message)


def _keys(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[Problem]:
    """Keys of the configuration whose variable is not set, or that allow nothing."""
    for name, key in config.keys.items():
        if key.env and not env.get(key.env):
            yield Problem(("keys", name, "env"), f"{key.env} is not set: it must hold the key")
        for said in _useless_patterns(key, config, env):
            yield Problem(("keys", name, "models"), said)


def _stored_keys(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """The same for keys that `penstock keys` has made."""
    file = file_of(config)
    for name, key in file.read().items() if file is not None else ():
        for said in _useless_patterns(key, config, env):
            yield f"{file.path if file else ''}: the key {name!r}: {said}"


def _useless_patterns(key: Key, config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if "*" in key.models:
        return
    names = list(_askable(config, env))
    for pattern in key.models:
        if not _matches(pattern, names, config, env):
            yield f"{pattern!r} matches no alias, and no model of a configured provider: it allows nothing"


def _matches(pattern: str, names: list[str], config: GatewayConfig, env: Mapping[str, str]) -> bool:
    """Whether a key's pattern allows anything. Of a named provider any model may be asked for, listed or not."""
    who, slash, _ = pattern.partition("/")
    if slash and any(fnmatchcase(name, who) for name in _providers(config, env)):
        return True
    if best_pattern(pattern.replace(STAR, ""), list(config.engine.aliases)):
        return True  # an alias that is a pattern itself, for the same names
    return any(fnmatchcase(name, pattern) for name in names)


def _providers(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if config.forward:
        yield from providers()  # callers bring their keys
    for row in known(config.engine, env):
        yield row.name
        yield from row.names
    yield REPLAY


def _askable(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Names that a client can ask for, as far as they are known."""
    yield from config.engine.aliases
    for row in known(config.engine, env):
        for name in model_names(row, config.engine):
            yield name
            yield f"{row.name}/{name}"
    yield from (f"{REPLAY}/{name}" for name in offered())
