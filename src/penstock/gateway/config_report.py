"""The problems of a gateway's configuration as lines: file, line, setting, what is wrong, what to do.

Adds to `engines.config_problems` what only a gateway has: its keys.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from penstock.engines.alias_patterns import STAR, best_pattern
from penstock.engines.config_problems import Problem, find_problems
from penstock.engines.naming import REPLAY, known, model_names
from penstock.gateway.places import Place
from penstock.providers.registry import providers
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.gateway.config import GatewayConfig

log = logging.getLogger("penstock.config")


def report_problems(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """One line for each problem."""
    found = [*find_problems(config.engine, env, forward=config.forward), *_keys(config, env)]
    if not found:
        return []
    place = Place(config.path.read_text(encoding="utf-8"), config.path) if config.path is not None else None
    return [_line(problem, place) for problem in found]


def log_problems(config: GatewayConfig, env: Mapping[str, str]) -> None:
    """Warn of them: the gateway serves what does work."""
    for line in report_problems(config, env):
        log.warning("%s", line)


def _line(problem: Problem, place: Place | None) -> str:
    if not problem.keys:
        return f"environment: {problem.message}"
    if place is None:
        return f"{'.'.join(problem.keys)}: {problem.message}"
    return place.say(problem.keys, problem.message)


def _keys(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[Problem]:
    names = list(_askable(config, env)) if config.keys else []
    for name, key in config.keys.items():
        if key.env and not env.get(key.env):
            yield Problem(("keys", name, "env"), f"{key.env} is not set: it must hold the key")
        for pattern in key.models:
            if not _matches(pattern, names, config, env):
                said = f"{pattern!r} matches no alias, and no model of a configured provider: it allows nothing"
                yield Problem(("keys", name, "models"), said)


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
