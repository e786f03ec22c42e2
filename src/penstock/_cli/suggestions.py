"""Suggestions for misspelt names: `did you mean`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engines.config import Config


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns a hint with the known name that is closest; empty if none is close."""
    names = [one for one in known if one != name]
    near = get_close_matches(name, names, 1) or get_close_matches(name.lower(), names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def suggest_model(name: str, config: Config, env: Mapping[str, str]) -> str:
    """Returns a hint with the closest name of a model; empty if the name is known, or none is close."""
    from penstock._engines.model_resolution import REPLAY, list_configured_providers, list_known_models
    from penstock._providers.registry import providers
    from penstock._replay import describe_scripts

    who, slash, rest = name.partition("/")
    if slash and not config.has(who):
        near = get_close_matches(who.lower(), [*config.providers, *providers()], 1)
        return f"; did you mean {near[0]}/{rest}?" if near else ""
    if slash:
        models = describe_scripts() if who == REPLAY else list_known_models(config.provider(who), config)
        return "" if rest in models else suggest(name, [f"{who}/{one}" for one in models])
    rows = list_configured_providers(config, env)
    known = [*config.aliases, *(one for row in rows for one in list_known_models(row, config))]
    return "" if name in known else suggest(name, known)
