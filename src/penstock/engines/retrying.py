"""Whether and when to ask again, and whether to ask somebody else. Decisions only: nothing here waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.engines.substitutes import UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engines.job import Job
    from penstock.errors import ProviderError
    from penstock.providers.registry import Retry

BASE, MOST = 0.5, 8.0  # seconds of the first wait, and of any that nobody asked for
PASSING = frozenset({"rate-limit", "overloaded", "server", "timeout", "network", "truncated", "malformed"})
"""Kinds that may have passed when asked again."""
LASTING = frozenset({"auth", "permission", "quota", "not-found", "too-large", "filter", "cancelled", "grammar"})
"""Kinds that asking again does not change, whatever the status."""
ELSEWHERE = PASSING | {"auth", "permission", "quota", "not-found", "other"}
"""Kinds that somebody else may not have. What is wrong with the request is wrong everywhere."""


class Wait(msgspec.Struct, frozen=True):
    """A pause before a provider is asked again: how long, after which kind of no, and what the provider is called."""

    seconds: float
    kind: str
    provider: str


class Watch(Protocol):
    """Who is told how a turn comes about, while it does."""

    def chosen(self, job: Job) -> None:
        """This is going to be asked, unless another is asked after it. It is not signed yet: headers may be added."""
        ...

    async def waits(self, wait: Wait) -> None:
        """Nothing happens for a while."""
        ...


def passing(error: ProviderError, policy: Retry) -> bool:
    """Whether it may be gone the next time."""
    if error.kind in LASTING:
        return False
    return error.kind in PASSING or (error.status is not None and error.status in policy.statuses)


def elsewhere(error: ProviderError) -> bool:
    """Whether the next provider may do better."""
    return error.kind in ELSEWHERE or error.code == UNSUPPORTED


def pause(error: ProviderError, tries: int, policy: Retry, chance: Callable[[], float]) -> float | None:
    """Seconds to wait before the next try; None where it asks for more patience than there is.

    As long as it says, and a little more; else twice as long each time, anywhere in the upper half of that.
    """
    if error.retry_after is not None:
        if error.retry_after > policy.limit:
            return None
        return error.retry_after + chance() * min(0.25, 0.1 + error.retry_after / 10)
    full: float = min(MOST, BASE * 2 ** (tries - 1))
    return full * (0.5 + chance() / 2)
