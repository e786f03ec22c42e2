"""The stores of correction factors, which several processes learn at once: no request shows how one change is made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresFactors
from penstock._store.tokens import TokenStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.stores import FactorStore


def open_factors(
    url: str, folder: Path, rows: int = 100, clock: Callable[[], float] = time.monotonic
) -> tuple[FactorStore, Any]:
    """A store in PostgreSQL, or in a file if there is no URL; and what is to be closed."""
    if url:
        database = PostgresDatabase(url)
        return PostgresFactors(database, rows=rows, clock=clock), database
    store = TokenStore(folder / "tokens.sqlite", factors=rows)
    return store.factors, store
