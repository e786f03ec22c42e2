"""Metrics in Prometheus' text format: counters, gauges and histograms of turns.

Labels that clients can create are limited: `ModelLabels` decides which model has a label, and a counter has
a budget of series for each kind of name. The rest is counted as `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from penstock._gateway import read_tables
from penstock._redaction import redact_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._store.journal import JournalEntry

AUX_OPERATIONS = frozenset({"embeddings", "rerank", "count"})  # operations that are not turns
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 1_000  # of one metric, for listed models and other labels
MAX_OPEN_SERIES = 100  # of one metric and provider, for unlisted models
BATCH_SIZE = 100  # turns that are counted together
TTFT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DURATION_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
Labels: TypeAlias = tuple[str, ...]


OTHER = "other"
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

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self.name, self._help, self._labels = name, help_text, labels
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

    def render_lines(self) -> Iterable[str]:
        yield from _metric_header(self.name, self._help, "counter")
        for labels, value in sorted(self._values.items()):
            yield f"{self.name}{_format_labels(self._labels, labels)} {_format_number(value)}"


class HistogramMetric:
    """A histogram with labels."""

    def __init__(self, name: str, help_text: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        self.name, self._help, self._bounds, self._labels = name, help_text, bounds, labels
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def add(self, labels: Labels, value: float) -> None:
        if labels not in self._values and len(self._values) >= MAX_SERIES // 10:
            labels = (OTHER,) * len(self._labels)
        counts, total = self._values.setdefault(labels, ([0] * (len(self._bounds) + 1), [0.0]))
        counts[bisect_left(self._bounds, value)] += 1
        total[0] += value

    def render_lines(self) -> Iterable[str]:
        yield from _metric_header(self.name, self._help, "histogram")
        names = (*self._labels, "le")
        for labels, (counts, total) in sorted(self._values.items()):
            running = 0
            for bound, count in zip((*map(_format_number, self._bounds), "+Inf"), counts, strict=True):
                running += count
                yield f"{self.name}_bucket{_format_labels(names, (*labels, bound))} {running}"
            yield f"{self.name}_sum{_format_labels(self._labels, labels)} {_format_number(total[0])}"
            yield f"{self.name}_count{_format_labels(self._labels, labels)} {running}"


class Metrics:
    """All metrics. Gauges are read when the page is rendered."""

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.models: ModelLabels = ModelLabels(secrets)
        self._counters = {
            name: CounterMetric(f"penstock_{name}_total", row["help"], tuple(row["labels"]))
            for name, row in read_tables()["counters"].items()
        }
        self._ttft = HistogramMetric("penstock_ttft_seconds", "Time to the first content.", TTFT_BUCKETS, ("provider",))
        self._duration = HistogramMetric(
            "penstock_turn_seconds", "Time of whole turns.", DURATION_BUCKETS, ("provider",)
        )
        self._gauges: dict[str, Callable[[], float]] = {}
        self._external: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        self._ended: list[JournalEntry] = []  # not counted yet
        self.open_streams: int = 0
        self.add_gauge("open_streams", lambda: self.open_streams)

    def add_gauge(self, name: str, value: Callable[[], float]) -> None:
        """Add a gauge of `tables.toml`."""
        self._gauges[name] = value

    def add_counters(self, name: str, values: Callable[[], Mapping[Labels, float]]) -> None:
        """Add counters of `tables.toml` that are counted elsewhere, such as the router's decisions."""
        self._external[name] = values

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
        for row in ended:
            self._count_row(row)

    def _count_row(self, row: JournalEntry) -> None:
        counters, reason = self._counters, row.finish or row.fault
        if row.status == "refused":
            self.count_refusal(row.http, reason)
            return
        model, budget = self.models.label(row.provider, row.model, answered=row.status == "finish")
        if row.operation in AUX_OPERATIONS:
            counters["calls"].add((row.operation, row.protocol, row.provider, model, row.status), budget=budget)
        else:
            counters["turns"].add((row.protocol, row.provider, model, row.status, reason), budget=budget)
            self._duration.add((row.provider,), row.duration)
        for kind in ("input", "output", "cached", "written", "reasoning"):
            if count := getattr(row, kind):
                counters["tokens"].add((row.provider, model, kind), count, budget)
        if row.cost:
            counters["cost_dollars"].add((row.provider, model), row.cost, budget)
        if row.tries:
            counters["tries"].add((row.provider,), row.tries)
        counters["client_bytes"].add(("in",), row.bytes_in)
        counters["client_bytes"].add(("out",), row.bytes_out)
        if row.ttft is not None:
            self._ttft.add((row.provider,), row.ttft)

    def render(self) -> bytes:
        """Render the page."""
        self._count_ended()
        lines, tables = list[str](), read_tables()
        metrics: list[CounterMetric | HistogramMetric] = [*self._counters.values(), self._ttft, self._duration]
        for metric in metrics:
            lines += metric.render_lines()
        for name, value in self._gauges.items():
            header = _metric_header(f"penstock_{name}", tables["gauges"][name], "gauge")
            lines += [*header, f"penstock_{name} {_format_number(value())}"]
        for name, values in self._external.items():
            row, full_name = tables["external_counters"][name], f"penstock_{name}_total"
            lines += _metric_header(full_name, row["help"], "counter")
            for labels, count in sorted(values().items()):
                lines.append(f"{full_name}{_format_labels(tuple(row['labels']), labels)} {_format_number(count)}")
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")


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
        return redact_cut(model, _MAX_LABEL_LENGTH, self._secrets()), budget
