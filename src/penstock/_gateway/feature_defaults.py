"""Features that a program which starts the gateway switches on for it: PENSTOCK_FEATURES, names with commas between.

The VS Code extension sets it: a coding agent sends long conversations, so caching them and shortening them pays. What
the configuration file says of a feature goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "PENSTOCK_FEATURES"
FEATURES = ("prompt_caching", "context_management")


def default_features(env: Mapping[str, str]) -> dict[str, bool]:
    """Return the features of the variable."""
    names = [name.strip() for name in env.get(VARIABLE, "").split(",") if name.strip()]
    wrong = next((name for name in names if name not in FEATURES), None)
    if wrong is not None:
        raise InputError(f"{VARIABLE}: expected names of {', '.join(FEATURES)} with commas between, found {wrong!r}")
    return dict.fromkeys(names, True)


def with_default_features(tables: dict[str, Any], features: Mapping[str, bool]) -> dict[str, Any]:
    """Return the tables of a file with the features that it says nothing about."""
    table = tables.get("features", {})
    return {**tables, "features": {**features, **table}} if features and isinstance(table, dict) else tables
