"""Which engine is wished for: said with the call, by the environment, in the configuration; read for each request.

`PENSTOCK_ENGINE_<PROVIDER>` goes before `PENSTOCK_ENGINE`, the environment before the configuration: a flag turns
things back at once, whatever a file says.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engines.config import Config

ENGINES = ("native", "sdk")
FLAG = "PENSTOCK_ENGINE"


@lru_cache(1000)
def variable(provider: str) -> str:
    """The name of a provider's own flag."""
    return f"{FLAG}_{re.sub('[^A-Z0-9]+', '_', provider.upper())}"


def wished(provider: str, config: Config, env: Mapping[str, str], said: str = "") -> tuple[str, str]:
    """The engine, and who wished for it."""
    for value, who in _wishes(provider, config, env, said):
        if value:
            found = value.strip().lower()
            if found not in ENGINES:
                raise InputError(f"{who}: expected {' or '.join(ENGINES)}, found {value!r}")
            return found, who
    return ENGINES[0], "the default"


def _wishes(provider: str, config: Config, env: Mapping[str, str], said: str) -> Iterable[tuple[str, str]]:
    yield said, "the call"
    yield env.get(variable(provider), ""), variable(provider)
    yield env.get(FLAG, ""), FLAG
    yield config.account(provider).engine, f"providers.{provider}.engine"
    yield config.engine, "engine"
