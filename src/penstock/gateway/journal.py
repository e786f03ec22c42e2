"""The journal: a row for every turn, written by a thread of its own. `note` costs the caller an append to a list.

Leans on `store.journal` for the table and its questions. Never holds what was said: no prompt, no answer, no key.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.errors import InputError
from penstock.gateway.config import place_of
from penstock.providers.models import Prices
from penstock.providers.models import model as model_of
from penstock.secrecy import hide
from penstock.store.journal import JournalRows, Turn
from penstock.store.sqlite import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.events import Usage
    from penstock.gateway.config import GatewayConfig

FILE = "journal.sqlite"
DAY = 86_400.0
_LONG = 500  # letters that are kept of a message, or of what a client sent
_READ = 20_000  # and that are searched for secrets: cut first, half of one might be kept
log = logging.getLogger("penstock.journal")

__all__ = ["Journal", "Turn", "cost"]


class Journal:
    """Where turns are noted. `rows` answers questions about them; None where no journal is kept."""

    def __init__(self, rows: JournalRows | None, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.rows = rows
        self._secrets = secrets

    @classmethod
    def open(cls, config: GatewayConfig, secrets: Callable[[], Iterable[str]] = tuple) -> Journal:
        """The journal that a configuration asks for. A file that cannot be written is said, and done without."""
        if config.journal.path == "off":
            return cls(None)
        path = place_of(config.journal.path, config.data, FILE)
        age, size = config.journal.days * DAY, config.journal.size
        try:
            return cls(JournalRows(path, time.time, age=age, size=size), secrets)
        except OSError as error:
            if config.journal.path:
                raise
            log.warning("the journal is kept in memory only: %s", error)
            return cls(JournalRows(ABSENT, time.time, age=age, size=size), secrets)

    def note(self, row: Turn) -> None:
        """Keep a row. Never blocks; a row that there is no room for is counted (`lost`) and logged."""
        if self.rows is not None and not self.rows.add(row, self._clean):
            log.error("a turn was not journaled: too many rows wait for the disk")

    def _clean(self, row: Turn) -> Turn:
        """What others have written, short and without secrets. In the writer's thread: searching takes its time."""
        told = [getattr(row, name) for name in _SAID]
        said = _hidden(_BETWEEN.join([text[:_READ] for text in told]), tuple(self._secrets()))
        return row if said == told else replace(row, **dict(zip(_SAID, said, strict=True)))

    @property
    def waiting(self) -> int:
        return self.rows.waiting if self.rows is not None else 0

    @property
    def lost(self) -> int:
        """Rows that were not written."""
        return self.rows.lost if self.rows is not None else 0

    def flush(self) -> None:
        if self.rows is not None:
            self.rows.flush()

    def close(self) -> None:
        """Write what waits."""
        if self.rows is not None:
            self.rows.close()


_SAID = ("client", "asked", "model", "fault_message", "upstream_id", "decisions", "user")
_BETWEEN = "\n\0\n"  # no secret goes on behind it


@lru_cache(1000)
def _hidden(joined: str, known: tuple[str, ...]) -> list[str]:
    """Searched together, and once for turns that are alike: most are."""
    return [text[:_LONG] for text in hide(joined, known).split(_BETWEEN)]


@lru_cache(1000)
def _prices(provider: str, model: str) -> Prices | None:
    try:
        return model_of(provider, model).prices
    except InputError:  # a provider of one's own
        return None


def cost(provider: str, model: str, usage: Usage | None) -> float | None:
    """Dollars, where the price is known. What is read from or put into a cache has its own, or that of the input."""
    prices = _prices(provider, model) if usage is not None and model else None
    if prices is None or prices.input is None or prices.output is None or usage is None:
        return None
    cached, written = usage.cached or 0, usage.written or 0
    plain = max((usage.input or 0) - cached - written, 0)
    spent = plain * prices.input + (usage.output or 0) * prices.output
    spent += cached * (prices.input if prices.cached is None else prices.cached)
    spent += written * (prices.input if prices.written is None else prices.written)
    return spent / 1_000_000
