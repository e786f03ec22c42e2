"""The request reader, request writer and profile of a protocol, by its name. Modules load when first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock._protocols import MODULES, import_request_module, protocol, reader, typed_errors, writer
from penstock._request_profile import Profile

if TYPE_CHECKING:
    from penstock._diagnostics import Losses

__all__ = ["PROFILES", "losses", "profile_of", "quirks_type", "reader", "typed_errors", "writer"]


class _Profiles(Mapping[str, Profile]):
    """The profiles of the protocols that have one. A protocol is imported when its profile is first used."""

    def __getitem__(self, name: str) -> Profile:
        profile = protocol(name).profile if name in MODULES else None
        if profile is None:
            raise KeyError(name)
        return profile

    def __iter__(self) -> Iterator[str]:
        return (name for name in MODULES if protocol(name).profile is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PROFILES: Mapping[str, Profile] = _Profiles()


@lru_cache(maxsize=64)
def profile_of(protocol: str) -> Profile:
    """Returns a protocol's profile; an empty one if the protocol has none."""
    name = protocol.partition("@")[0]
    return PROFILES.get(name) or Profile(protocol=name)


def quirks_type(name: str) -> Any:
    """Returns the Struct of a writer's quirks; None if it has none."""
    return getattr(import_request_module(name, "write"), "Quirks", None)


def losses(name: str) -> Losses:
    """Returns what a protocol's requests cannot express, and what happens instead."""
    found = import_request_module(name, "write")
    return {**found.LOSSES, **getattr(found, "LACKS", {})}
