"""Reads stored responses. Without a shared database, what other replicas have deleted is deleted here first."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock._store.key_value import ID_PREFIX
from penstock._store.limit_store import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.config import StoresTable
    from penstock._gateway.stream_resume import StreamResume
    from penstock._gateway.telemetry import StateStore
    from penstock._store.key_value import StoredResponses
    from penstock._store.stream_log import Deletion

T = TypeVar("T")
log = logging.getLogger("penstock.store")


class StoredResponseReads:
    """Reads of stored responses in a thread, and how far notices of deletions were read."""

    def __init__(
        self, state: StateStore, responses: StoredResponses, resume: StreamResume, stores: StoresTable
    ) -> None:
        self._state, self._responses, self._resume = state, responses, resume
        self._is_separate = bool(stores.redis) and not stores.postgres
        self._position = ""  # of the last deletion that was applied

    async def read(self, work: Callable[[], T]) -> T:
        """Return the result of a lookup. While Redis is away, deletions of others are not known."""
        await self.apply_deletions()
        return await self._state.read(work)

    async def apply_deletions(self) -> None:
        """Delete what other replicas have deleted since the last call."""
        try:
            while self._is_separate and (found := await self._resume.log.read_deletions(self._position)):
                await self._state.read(partial(self._drop, found))
                self._position = found[-1].position
        except StoreUnavailable:
            log.warning("Redis is away: responses that other gateways have deleted may be found")

    def _drop(self, deletions: list[Deletion]) -> None:
        for deletion in deletions:
            self._responses.drop(deletion.tenant, ID_PREFIX + deletion.id, exists=True)
