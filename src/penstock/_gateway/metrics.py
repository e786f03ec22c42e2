"""Metrics in Prometheus' text format: counters, gauges and histograms of turns.

Labels that clients can create are limited: `ModelLabels` decides which model has a label, and a counter has
a budget of series for each kind of name. The rest is counted as `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from penstock._gateway import read_tables
from penstock._redaction import redact_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._store.journal import JournalEntry

AUX_OPERATIONS = frozenset({"embeddings", "rerank", "count"})  # operations that are not turns
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 1_000  # of one metric, for listed models and other labels
MAX_OPEN_SERIES = 100  # of one metric and provider, for unlisted models
MAX_KEYS = 500  # gateway keys with labels of their own
BATCH_SIZE = 100  # turns that are counted together
TTFT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DURATION_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
Labels: TypeAlias = tuple[str, ...]


OTHER = "other"
# The columns by which turns are told apart.
_read_labels: Callable[[JournalEntry], tuple[object, ...]] = attrgetter(
    *"key team provider model protocol status finish fault operation http".split()
)
_TOKEN_KINDS = ("input", "output", "cached", "written", "reasoning")
_MAX_LABELS = 10_000  # cached labels
_MAX_LABEL_LENGTH = 160  # characters of a label


class SeriesBudget(Enum):
    """The budget of series that a model counts against."""

    CONFIGURED = "configured"  # unlimited: the operator chooses them
    LISTED = "listed"
    OPEN = "open"


ModelLabel: TypeAlias = tuple[str, SeriesBudget]
_OTHER: ModelLabel = (OTHER, SeriesBudget.CONFIGURED)


class CounterMetric:
    """A counter with labels."""

    def __init__(self, labels: Labels = ()) -> None:
        self._model = labels.index("model") if "model" in labels else -1
        self._provider = labels.index("provider") if "provider" in labels else -1
        self._values: dict[Labels, float] = {}
        self._used: Tally[tuple[SeriesBudget, str]] = Tally()

    def add(self, labels: Labels = (), amount: float = 1.0, budget: SeriesBudget = SeriesBudget.LISTED) -> None:
        if labels not in self._values:
            labels = self._limit_series(labels, budget)
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def _limit_series(self, labels: Labels, budget: SeriesBudget) -> Labels:
        """Return the labels of a new series, or of the `other` series if the budget is used up."""
        if budget is SeriesBudget.CONFIGURED:
            return labels
        provider = labels[self._provider] if budget is SeriesBudget.OPEN else ""
        if self._used[budget, provider] < (MAX_OPEN_SERIES if budget is SeriesBudget.OPEN else MAX_SERIES):
            self._used[budget, provider] += 1
            return labels
        return tuple([OTHER if self._model in {position, -1} else one for position, one in enumerate(labels)])

    @property
    def values(self) -> dict[Labels, float]:
        """The value of each series."""
        return self._values


class HistogramMetric:
    """A histogram with labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.values: dict[Labels, HistogramValue] = {}

    def add(self, labels: Labels, values: list[float]) -> None:
        if labels not in self.values and len(self.values) >= MAX_SERIES // 10:
            labels = (OTHER,) * len(labels)
        found = self.values.get(labels)
        if found is None:
            found = self.values[labels] = HistogramValue([0] * (len(self._bounds) + 1))
        for place, count in Tally(map(partial(bisect_left, self._bounds), values)).items():
            found.counts[place] += count
        found.total += sum(values)


class HistogramValue(msgspec.Struct):
    """One series of a histogram: how many values fell into each bucket, and their sum."""

    counts: list[int]
    total: float = 0.0


class MetricsSnapshot(msgspec.Struct):
    """The numbers of one process, or of several. Names are those of `tables.toml`."""

    counters: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, HistogramValue]] = {}
    gauges: dict[str, float] = {}
    levels: dict[str, dict[Labels, float]] = {}  # gauges with labels, of what processes share

    def add(self, other: MetricsSnapshot, gauges: Callable[[str], bool] = lambda _: True) -> None:
        """Add the numbers of another process. `gauges` says which gauges are added."""
        for name, series in other.counters.items():
            values = self.counters.setdefault(name, {})
            for labels, value in series.items():
                values[labels] = values.get(labels, 0.0) + value
        for name, histogram in other.histograms.items():
            found = self.histograms.setdefault(name, {})
            for labels, one in histogram.items():
                before = found.get(labels) or HistogramValue([0] * len(one.counts))
                counts = [a + b for a, b in zip(before.counts, one.counts, strict=True)]
                found[labels] = HistogramValue(counts, before.total + one.total)
        for name, value in other.gauges.items():
            if gauges(name):
                self.gauges[name] = self.gauges.get(name, 0.0) + value
        for name, series in other.levels.items():
            values = self.levels.setdefault(name, {})
            for labels, value in series.items():
                values[labels] = max(values.get(labels, 0.0), value)


class SharedNumbers(Protocol):
    """The numbers of other processes of the same gateway."""

    def add_peers(self, own: MetricsSnapshot) -> MetricsSnapshot:
        """Return the sum of this process's numbers and those of the others."""
        ...


class Metrics:
    """All metrics. Gauges are read when the page is rendered."""

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.models: ModelLabels = ModelLabels(secrets)
        self._counters = {name: CounterMetric(tuple(row["labels"])) for name, row in read_tables()["counters"].items()}
        self._ttft, self._duration = HistogramMetric(TTFT_BUCKETS), HistogramMetric(DURATION_BUCKETS)
        self.shared: SharedNumbers | None = None  # set if the gateway has several processes
        self._gauges: dict[str, Callable[[], float]] = {}
        self._external: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        self._levels: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        self._ended: list[JournalEntry] = []  # not counted yet
        self._keys: dict[tuple[str, str], tuple[str, str]] = {}  # labels of key and team
        self.open_streams: int = 0
        self.add_gauge("open_streams", lambda: self.open_streams)

    def add_gauge(self, name: str, value: Callable[[], float]) -> None:
        """Add a gauge of `tables.toml`."""
        self._gauges[name] = value

    def add_counters(self, name: str, values: Callable[[], Mapping[Labels, float]]) -> None:
        """Add counters of `tables.toml` that are counted elsewhere, such as the router's decisions."""
        self._external[name] = values

    def add_levels(self, name: str, values: Callable[[], Mapping[Labels, float]]) -> None:
        """Add gauges with labels of `tables.toml`. Of several workers, the highest value is shown."""
        self._levels[name] = values

    def count_refusal(self, status: int, reason: str) -> None:
        """Count a refused request."""
        self._counters["refused"].add((str(status), reason))

    def count_turn(self, row: JournalEntry) -> None:
        """Count a finished turn. Turns are counted in batches, which is several times cheaper."""
        self._ended.append(row)
        if len(self._ended) >= BATCH_SIZE:
            self._count_ended()

    def _count_ended(self) -> None:
        ended, self._ended = self._ended, []
        alike: dict[tuple[object, ...], list[JournalEntry]] = {}
        for row in ended:
            alike.setdefault(_read_labels(row), []).append(row)
        for rows in alike.values():
            self._count_rows(rows)

    def _count_rows(self, rows: list[JournalEntry]) -> None:
        """Count turns with the same labels."""
        row, turns = rows[0], len(rows)
        counters, reason = self._counters, row.finish or row.fault
        tokens = {kind: _sum_column(rows, kind) for kind in _TOKEN_KINDS}
        cost = _sum_column(rows, "cost")
        if row.key:
            self._count_key(row, turns, tokens, cost)
        if row.status == "refused":
            counters["refused"].add((str(row.http), reason), turns)
            return
        model, budget = self.models.label(row.provider, row.model, answered=row.status == "finish")
        if row.operation in AUX_OPERATIONS:
            counters["calls"].add((row.operation, row.protocol, row.provider, model, row.status), turns, budget)
        else:
            counters["turns"].add((row.protocol, row.provider, model, row.status, reason), turns, budget)
            self._duration.add((row.provider,), [*map(attrgetter("duration"), rows)])
        for kind, count in tokens.items():
            if count:
                counters["tokens"].add((row.provider, model, kind), count, budget)
        if cost:
            counters["cost_dollars"].add((row.provider, model), cost, budget)
        if tries := _sum_column(rows, "tries"):
            counters["tries"].add((row.provider,), tries)
        counters["client_bytes"].add(("in",), _sum_column(rows, "bytes_in"))
        counters["client_bytes"].add(("out",), _sum_column(rows, "bytes_out"))
        if waits := [row.ttft for row in rows if row.ttft is not None]:
            self._ttft.add((row.provider,), waits)

    def _count_key(self, row: JournalEntry, turns: int, tokens: Mapping[str, int], cost: float) -> None:
        """Count turns for their gateway key. Operators choose their names; the number of series is bounded anyway."""
        counters, own = self._counters, self._keys.get((row.key, row.team))
        if own is None:
            own = (OTHER, OTHER)
            if len(self._keys) < MAX_KEYS:
                own = self._keys[row.key, row.team] = self.models.redact(row.key), self.models.redact(row.team)
        counters["key_turns"].add((*own, row.status), turns, SeriesBudget.CONFIGURED)
        for kind in ("input", "output"):
            if count := tokens[kind]:
                counters["key_tokens"].add((*own, kind), count, SeriesBudget.CONFIGURED)
        if cost:
            counters["key_cost_dollars"].add(own, cost, SeriesBudget.CONFIGURED)

    def snapshot(self) -> MetricsSnapshot:
        """Return all numbers as they are now."""
        self._count_ended()
        counters = {name: metric.values for name, metric in self._counters.items()}
        counters |= {name: dict(values()) for name, values in self._external.items()}
        histograms = {"ttft_seconds": self._ttft.values, "turn_seconds": self._duration.values}
        levels = {name: dict(values()) for name, values in self._levels.items()}
        return MetricsSnapshot(counters, histograms, {name: value() for name, value in self._gauges.items()}, levels)

    def render(self) -> bytes:
        """Render the page: the numbers of all processes."""
        own = self.snapshot()
        return render_snapshot(self.shared.add_peers(own) if self.shared is not None else own)


def _sum_column(rows: list[JournalEntry], name: str) -> Any:
    """Return the sum of a column. None counts as nothing."""
    return sum(filter(None, map(attrgetter(name), rows)))


_BUCKETS = {"ttft_seconds": TTFT_BUCKETS, "turn_seconds": DURATION_BUCKETS}


def render_snapshot(snapshot: MetricsSnapshot) -> bytes:
    """Render numbers in Prometheus' text format."""
    tables, lines = read_tables(), list[str]()
    counters, external = tables["counters"], tables["external_counters"]
    for name in (name for name in counters if name in snapshot.counters):
        lines += _counter_lines(name, counters[name], snapshot.counters[name])
    for name, series in snapshot.histograms.items():
        lines += _histogram_lines(name, tables["histograms"][name], series)
    for name, value in snapshot.gauges.items():
        header = _metric_header(f"penstock_{name}", tables["gauges"][name], "gauge")
        lines += [*header, f"penstock_{name} {_format_number(value)}"]
    for name, levels in snapshot.levels.items():
        lines += _series_lines(f"penstock_{name}", tables["levels"][name], levels, "gauge")
    for name in (name for name in snapshot.counters if name not in counters):
        lines += _counter_lines(name, external[name], snapshot.counters[name])
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _counter_lines(name: str, row: Mapping[str, Any], series: Mapping[Labels, float]) -> Iterable[str]:
    return _series_lines(f"penstock_{name}_total", row, series, "counter")


def _series_lines(full_name: str, row: Mapping[str, Any], series: Mapping[Labels, float], kind: str) -> Iterable[str]:
    names = tuple(row["labels"])
    yield from _metric_header(full_name, row["help"], kind)
    for labels, value in sorted(series.items()):
        yield f"{full_name}{_format_labels(names, labels)} {_format_number(value)}"


def _histogram_lines(name: str, row: Mapping[str, Any], series: Mapping[Labels, HistogramValue]) -> Iterable[str]:
    full_name, names = f"penstock_{name}", tuple(row["labels"])
    yield from _metric_header(full_name, row["help"], "histogram")
    for labels, value in sorted(series.items()):
        running = 0
        for bound, count in zip((*map(_format_number, _BUCKETS[name]), "+Inf"), value.counts, strict=True):
            running += count
            yield f"{full_name}_bucket{_format_labels((*names, 'le'), (*labels, bound))} {running}"
        yield f"{full_name}_sum{_format_labels(names, labels)} {_format_number(value.total)}"
        yield f"{full_name}_count{_format_labels(names, labels)} {running}"


def _metric_header(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _format_labels(names: Labels, values: Labels) -> str:
    pairs = (f'{name}="{_escape_label(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}" if names else ""


def _escape_label(value: str) -> str:
    return value[:200].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


class ModelLabels:
    """Chooses the label of a model. `configured` and `listed` tell whether it is in the configuration or a list."""

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.configured: Callable[[str, str], bool] = lambda _provider, _model: False
        self.listed: Callable[[str, str], bool] = lambda _provider, _model: False
        self._secrets = secrets
        self._labels: dict[tuple[str, str], ModelLabel] = {}

    def clear(self) -> None:
        """Drop cached labels, because the configuration has changed."""
        self._labels.clear()

    def label(self, provider: str, model: str, *, answered: bool) -> ModelLabel:
        """Return the label and budget of a model. `answered`: it has just answered without a fault."""
        found = self._labels.get((provider, model))
        if found is None:
            found = self._choose(provider, model, answered=answered)
            if answered or (found[1] is SeriesBudget.CONFIGURED and found is not _OTHER):  # others may change
                if len(self._labels) >= _MAX_LABELS:
                    self._labels.clear()
                self._labels[provider, model] = found
        return found

    def _choose(self, provider: str, model: str, *, answered: bool) -> ModelLabel:
        if not model:
            return "", SeriesBudget.CONFIGURED
        if self.configured(provider, model):
            budget = SeriesBudget.CONFIGURED
        else:
            listed = self.listed(provider, model)
            if not (listed or answered):
                return _OTHER
            budget = SeriesBudget.LISTED if listed and answered else SeriesBudget.OPEN
        return self.redact(model), budget

    def redact(self, text: str) -> str:
        """Return a text as a label: short, and without secrets."""
        return redact_cut(text, _MAX_LABEL_LENGTH, self._secrets())
