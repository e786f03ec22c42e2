"""What a gateway keeps of its turns, opened and closed together: journal, metrics, spans, recordings, state.

Spans only where the process has set OpenTelemetry up (`OTEL_…`) and the extra `otel` is there.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from penstock.errors import MissingExtra
from penstock.gateway.errands import COUNT
from penstock.gateway.journal import Journal
from penstock.gateway.metrics import Metrics
from penstock.gateway.recording import Recorder
from penstock.gateway.sparing import Sparing
from penstock.gateway.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.gateway.config import GatewayConfig
    from penstock.gateway.limits import Limits
    from penstock.gateway.spans import Spans
    from penstock.store.journal import Turn

DAY = 86_400.0
log = logging.getLogger("penstock.kept")


class Kept:
    """All of it. `secrets` are those known by value, kept out of everything that is written."""

    def __init__(
        self, config: GatewayConfig, env: Mapping[str, str], secrets: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.journal = Journal.open(config, secrets)
        self.sparing = Sparing(self.journal.note)
        self.state = State.open(config)
        self.recorder = Recorder(config.record, secrets)
        self.metrics = Metrics(secrets)
        self.spans = _spans(env, secrets)
        self.metrics.gauge("penstock_journal_waiting", "Rows not yet written.", lambda: self.journal.waiting)
        self.metrics.gauge("penstock_journal_lost", "Rows that were not written.", lambda: self.journal.lost)

    def note(self, row: Turn, headers: Mapping[str, str] | None = None, *, sparing: bool = False) -> None:
        """A turn is over. `sparing`: there may be thousands of the kind, and a few rows must do for all."""
        (self.sparing if sparing else self.journal).note(row)
        self.metrics.turn(row)
        if self.spans is not None:
            self.spans.turn(row, headers)

    def seed(self, limits: Limits) -> None:
        """Tell the limits what was used today, before this process."""
        if self.journal.rows is None:
            return
        today = time.time() // DAY * DAY
        for row in self.journal.rows.by("key", since=today, without=COUNT):
            limits.seed(row.name, row.turns - row.refused, row.input + row.output, row.cost)

    def close(self) -> None:
        """Write what waits. Nothing that was noted is lost."""
        self.recorder.close()
        self.sparing.flush()
        self.journal.close()
        if self.spans is not None:
            self.spans.close()
        self.state.close()


def _spans(env: Mapping[str, str], secrets: Callable[[], Iterable[str]]) -> Spans | None:
    if not any(name.startswith("OTEL_") for name in env) or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from penstock.gateway.spans import Spans, setup  # noqa: PLC0415 — an extra

    try:
        if env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            setup()
        return Spans(secrets=secrets)
    except MissingExtra as error:
        log.warning("no spans are made: %s", error)
        return None
