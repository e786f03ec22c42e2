"""How the inspector's routes read the journal, and whose turns a caller sees."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from penstock._gateway.callers import make_refusal
from penstock._store.journal_queries import JournalHistory

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services

T = TypeVar("T")
log = logging.getLogger("penstock.inspector")


def visible_tenant(incoming: IncomingRequest) -> str | None:
    """Returns the tenant whose turns the caller sees; None means all."""
    tenant: str | None = incoming.caller.visible_tenant
    return tenant


def read_journal(services: Services, query: Callable[[JournalHistory], T]) -> T | None:
    """Returns the result of a query of the journal; None without a journal. Not for the event loop."""
    rows = services.journal.rows
    if rows is None:
        return None
    services.journal.flush()
    try:
        return query(JournalHistory(rows))
    except (OSError, sqlite3.Error) as error:
        log.warning("the journal cannot be read: %s", error)
        raise make_refusal(503, "server", "the journal cannot be read just now", retry_after=1.0) from None
