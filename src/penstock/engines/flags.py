"""Which engine is wished for: said with the call, by the environment, in the configuration; read for each request.

`PENSTOCK_ENGINE_<PROVIDER>` goes before `PENSTOCK_ENGINE`, the environment before the configuration: a flag turns
things back at once, whatever a file says.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engines.config import Config

ENGINES = ("native", "sdk")
FLAG = "PENSTOCK_ENGINE"
log = logging.getLogger("penstock.engines")


@lru_cache(1000)
def variable(provider: str) -> str:
    """The name of a provider's own flag."""
    return f"{FLAG}_{re.sub('[^A-Z0-9]+', '_', provider.upper())}"


def wished(provider: str, config: Config, env: Mapping[str, str], said: str = "") -> tuple[str, str]:
    """The engine, and who wished for it.

    A wrong value in a call is the caller's error. A wrong flag is not: it is logged, and native is used.
    """
    if said:
        return _checked(said, "the call"), "the call"
    for value, who in _wishes(provider, config, env):
        if value:
            if not valid(value):
                _warn(who, value)
                return ENGINES[0], f"the default, because {who} is neither {' nor '.join(ENGINES)}"
            return _cleaned(value), who
    return ENGINES[0], "the default"


def valid(value: str) -> bool:
    """Whether a flag names an engine."""
    return _cleaned(value) in ENGINES


def _checked(value: str, who: str) -> str:
    if not valid(value):
        raise InputError(f"{who}: expected {' or '.join(ENGINES)}, found {value!r}")
    return _cleaned(value)


def _cleaned(value: str) -> str:
    return value.strip().lower()


@lru_cache(1000)
def _warn(who: str, value: str) -> None:
    """Log a wrong flag, each value once."""
    log.warning("%s: expected %s, found %r; native is used", who, " or ".join(ENGINES), value)


def _wishes(provider: str, config: Config, env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    yield env.get(variable(provider), ""), variable(provider)
    yield env.get(FLAG, ""), FLAG
    yield config.account(provider).engine, f"providers.{provider}.engine"
    yield config.engine, "engine"
