"""Endpoints that a server turned out not to have: many OpenAI-compatible ones have no `/responses`.

Learned from a 404 or 405 that does not mean the model, for an hour, so that a server that is upgraded is found out.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from penstock.faults import word
from penstock.pick import as_object, table, text
from penstock.vendor_errors import HTTP

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engines.naming import Target
    from penstock.errors import ProviderError

SUBSTITUTES: dict[str, str] = {"responses": "chat"}  # an operation, and what is asked in its place
REMEMBERED = 3600.0  # seconds
_STATUSES = frozenset({404, 405})
# Codes and types that say no more than the status. `model_not_found` and `previous_response_not_found` say more.
_BARE = frozenset({"", "notfound", "notfounderror", "methodnotallowed", "invalidrequesterror", "unknownurl"})
_MODEL = re.compile(r"(?i)\bmodels?\b")


def is_missing_endpoint(error: ProviderError) -> bool:
    """Whether a server has nothing at an address, as opposed to no such model."""
    if error.status not in _STATUSES or word(error.code) not in _BARE or _MODEL.search(error.message):
        return False
    body = as_object(as_object((error.fault.extra or {}).get(HTTP)).get("body"))
    return text(table(body, "error"), "param") != "model"


class MissingEndpoints:
    """What was learned, by provider and address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def substitute(self, target: Target, operation: str) -> str:
        """What can be asked in place of an operation; nothing where there is nothing."""
        other = SUBSTITUTES.get(operation, "")
        row, model = target.provider, target.model
        return other if other and row.endpoint(other, model) and not row.only_responses(model) else ""

    def known(self, target: Target, operation: str) -> bool:
        """Whether the provider is known to lack an operation."""
        return self._clock() < self._until.get(_key(target, operation), 0.0)

    def learn(self, target: Target, operation: str) -> None:
        self._until[_key(target, operation)] = self._clock() + REMEMBERED

    def forget(self, target: Target, operation: str) -> None:
        self._until.pop(_key(target, operation), None)


def _key(target: Target, operation: str) -> tuple[str, str, str]:
    return target.provider.name, target.provider.base_url, operation
