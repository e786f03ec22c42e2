"""Remembers endpoints that a server does not have: many OpenAI-compatible ones have no `/responses`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from penstock._lenient_fields import as_object, get_object, get_text
from penstock._vendor_errors import HTTP, normalize_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engines.model_resolution import Target
    from penstock.errors import ProviderError

ALTERNATIVE_OPERATIONS: dict[str, str] = {"responses": "chat"}  # operation → the one to use if its endpoint is missing
MISSING_SECONDS = 3600.0  # seconds
_STATUSES = frozenset({404, 405})
# Error codes and types that add nothing to the status, unlike `model_not_found` and `previous_response_not_found`.
_BARE = frozenset({"", "notfound", "notfounderror", "methodnotallowed", "invalidrequesterror", "unknownurl"})
_MODEL = re.compile(r"(?i)\bmodels?\b")


def is_missing_endpoint(error: ProviderError) -> bool:
    """True if the server has no such endpoint, as opposed to no such model."""
    if error.status not in _STATUSES or normalize_code(error.code) not in _BARE or _MODEL.search(error.message):
        return False
    body = as_object(as_object((error.fault.extra or {}).get(HTTP)).get("body"))
    return get_text(get_object(body, "error"), "param") != "model"


class MissingEndpoints:
    """Endpoints that answered 404 or 405, by provider and URL. Forgotten after an hour: servers are upgraded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def substitute(self, target: Target, operation: str) -> str:
        """Returns the operation to use instead; empty if there is none."""
        other = ALTERNATIVE_OPERATIONS.get(operation, "")
        row, model = target.provider, target.model
        return other if other and row.endpoint(other, model) and not row.only_responses(model) else ""

    def known(self, target: Target, operation: str) -> bool:
        """True if the provider is known to lack the operation."""
        return self._clock() < self._until.get(_key(target, operation), 0.0)

    def learn(self, target: Target, operation: str) -> None:
        self._until[_key(target, operation)] = self._clock() + MISSING_SECONDS

    def forget(self, target: Target, operation: str) -> None:
        self._until.pop(_key(target, operation), None)


def _key(target: Target, operation: str) -> tuple[str, str, str]:
    return target.provider.name, target.provider.base_url, operation
