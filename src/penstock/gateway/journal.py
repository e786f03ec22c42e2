"""The journal: a row for every turn, written by a thread of its own. `note` costs the caller an append to a list.

Leans on `store.journal` for the table and its questions. Never holds what was said: no prompt, no answer, no key.
"""

from __future__ import annotations

import logging
import re
import time
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import fields, replace

from penstock.errors import InputError
from penstock.gateway.config import place_of
from penstock.providers.models import model as model_of
from penstock.redaction import redact, redact_cut
from penstock.store.journal import JournalRows, Turn
from penstock.store.sqlite import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engines.config import Config
    from penstock.events import Usage
    from penstock.gateway.config import GatewayConfig
    from penstock.providers.registry import Prices

FILE = "journal.sqlite"
DAY = 86_400.0
_LONG = 500  # characters that are kept of a message, or of what a client sent,
_CUT = _LONG - 40  # the note about the rest among them
_PRICED = 1000  # models whose prices are remembered: clients choose their names
_OWN_ID = re.compile("[0-9a-f]{32}")  # as `Visit` makes them
log = logging.getLogger("penstock.journal")

__all__ = ["Journal", "PriceList", "Turn", "cost"]


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
        """All texts of a row, short and without secrets. In the writer's thread: searching takes its time.

        This is the one place that redacts for the journal: every text column goes through it.
        """
        known = tuple(self._secrets())
        told = _texts(row)
        shown = _redacted(told, known)
        changed = {} if shown == told else dict(zip(_TEXTS, shown, strict=True))
        if not _OWN_ID.fullmatch(row.request_id):
            changed["request_id"] = redact_cut(row.request_id, _LONG, known)
        return replace(row, **changed) if changed else row

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


# Every column of text but the gateway's own id of a request: no two rows share that, and the others are looked up.
_TEXTS = tuple(
    field.name
    for field in fields(Turn)
    if isinstance(field.default, str) and field.name not in {"request_id", "status"}
)
_texts: Callable[[Turn], tuple[str, ...]] = attrgetter(*_TEXTS)
_BETWEEN = "\n\0\n"  # no secret goes on behind it


@lru_cache(1000)
def _redacted(told: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Searched together, and once for turns that are alike: most are."""
    short = [redact_cut(text, _CUT, known) if len(text) > _LONG else text for text in told]
    joined = _BETWEEN.join(short)
    hidden = redact(joined, known)
    made = short if hidden is joined else hidden.split(_BETWEEN)
    if len(made) != len(told):  # a text that holds the separator itself
        made = [redact(text, known) for text in short]
    return tuple(made)


class PriceList:
    """The prices of models under one configuration, each looked up once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[tuple[str, str], Prices | None] = {}

    def prices(self, provider: str, model: str) -> Prices | None:
        """The prices of a model; None where they are not known."""
        key = (provider, model)
        if key not in self._known:
            if len(self._known) >= _PRICED:
                self._known.clear()
            self._known[key] = self._find(provider, model)
        return self._known[key]

    def _find(self, provider: str, model: str) -> Prices | None:
        try:
            return model_of(self._config.provider(provider), model).prices
        except InputError:  # a provider that a reload has taken out of the configuration
            return None


def cost(listed: PriceList, provider: str, model: str, usage: Usage | None) -> float | None:
    """Dollars, where the price is known. What is read from or put into a cache has its own, or that of the input."""
    if usage is None or not model:
        return None
    prices = listed.prices(provider, model)
    if prices is None or prices.input is None or prices.output is None:
        return None
    cached, written = usage.cached or 0, usage.written or 0
    plain = max((usage.input or 0) - cached - written, 0)
    spent = plain * prices.input + (usage.output or 0) * prices.output
    spent += cached * (prices.input if prices.cached is None else prices.cached)
    spent += written * (prices.input if prices.written is None else prices.written)
    return spent / 1_000_000
