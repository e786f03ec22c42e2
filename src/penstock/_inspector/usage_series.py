"""Turns rows of the journal into series for charts: usage over time, and the accuracy of token estimates.

Slow for many rows: not for the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._tokens.bpe import counters
from penstock._tokens.families import load_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._store.journal_queries import JournalEstimate, UsagePoint

MAX_SERIES = 20  # those with the most turns; the others are summed up
OTHERS = "others"
MAX_BUCKETS = 500
STEPS = (60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800)  # seconds
USUAL_BUCKETS = 60
MAX_POINTS = 500  # of one model
_PERCENTILE = 0.95


class UsageSeries(msgspec.Struct, omit_defaults=True):
    """The turns of one name, by bucket. The median of no turns is null."""

    name: str
    requests: list[int]
    input: list[int]
    output: list[int]
    cost: list[float]
    ttft: list[float | None]
    p95: list[float | None]
    duration: list[float | None]
    faults: list[int]
    total: UsageTotal


class UsageTotal(msgspec.Struct):
    """The same for the whole period."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0
    faults: int = 0
    ttft: float | None = None
    p95: float | None = None
    duration: float | None = None


class UsageReport(msgspec.Struct):
    """All series. `buckets`: the start of each, in seconds since the epoch."""

    by: str
    bucket: float
    since: float
    until: float
    buckets: list[float]
    series: list[UsageSeries]
    total: UsageTotal


def bucket_seconds(since: float, until: float, wanted: float = 0.0) -> float:
    """Returns the length of a bucket: as requested, unless there would be too many."""
    least = (until - since) / MAX_BUCKETS
    fitting = next((step for step in STEPS if (until - since) / step <= USUAL_BUCKETS), STEPS[-1])
    return max(wanted or fitting, least, 1.0)


def build_usage(rows: list[UsagePoint], by: str, since: float, until: float, step: float) -> UsageReport:
    """Returns the rows in buckets, by name."""
    first = since // step * step
    count = max(1, int((until - first) / step) + (1 if (until - first) % step else 0))
    names: dict[str, int] = defaultdict(int)
    for row in rows:
        names[row.name] += row.turns
    most = sorted(names, key=lambda name: (-names[name], name))
    separate = set(most if len(most) <= MAX_SERIES else most[: MAX_SERIES - 1])
    groups: dict[str, list[UsagePoint]] = {name: [] for name in most if name in separate}
    for row in rows:
        groups.setdefault(row.name if row.name in separate else OTHERS, []).append(row)
    buckets = [first + number * step for number in range(count)]
    series = [_build_series(name, group, first, step, count) for name, group in groups.items()]
    return UsageReport(by, step, since, until, buckets, series, _sum_rows(rows))


def _build_series(name: str, rows: list[UsagePoint], first: float, step: float, count: int) -> UsageSeries:
    cells: list[list[UsagePoint]] = [[] for _ in range(count)]
    for row in rows:
        cells[min(max(int((row.time - first) / step), 0), count - 1)].append(row)
    totals = [_sum_rows(cell) for cell in cells]
    columns: dict[str, Any] = {
        field: [getattr(total, field) for total in totals] for field in UsageTotal.__struct_fields__
    }
    return UsageSeries(name=name, total=_sum_rows(rows), **columns)


def _sum_rows(rows: list[UsagePoint]) -> UsageTotal:
    if not rows:
        return UsageTotal()
    columns = ("turns", "input", "output", "cost")
    turns, inputs, outputs, cost = (sum(getattr(row, name) for row in rows) for name in columns)
    faults = sum(row.turns for row in rows if row.fault)
    ttfts = sorted(row.ttft for row in rows if row.ttft is not None)
    p95 = ttfts[min(int(len(ttfts) * _PERCENTILE), len(ttfts) - 1)] if ttfts else None
    durations = [row.duration for row in rows if row.duration is not None]
    return UsageTotal(turns, inputs, outputs, cost, faults, _median(ttfts), p95, _median(durations))


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────

METHODS = ("actual", "hybrid", "estimated")


class LearnedFactor(msgspec.Struct):
    """A correction factor at a time."""

    time: float
    factor: float


class EstimatePoint(msgspec.Struct, gc=False):
    """The estimated and the actual count of a turn. `id`: its request id."""

    time: float
    estimate: int
    actual: int
    low: int
    high: int
    method: str
    uncertain: str
    id: str


class UncertainTurns(msgspec.Struct):
    """The turns with one kind of content that can only be guessed, and how far off their estimates were."""

    kind: str
    turns: int
    median_error: float


class ModelAccuracy(msgspec.Struct):
    """The accuracy of the estimates for a model.

    `coverage`: the share of turns within the estimated bounds. `bias`: the median of the signed error; below 0 the
    estimates are too low. `taught`: turns that the factor was learned from. `methods`: turns by the method of their
    estimate. `exact_text`: the extra `bpe` counts text for this model exactly.
    """

    model: str
    family: str
    exact_text: bool
    factor: float
    samples: int
    taught: int
    coverage: float
    median_error: float
    bias: float
    methods: dict[str, int]
    uncertain: list[UncertainTurns]
    history: list[LearnedFactor]
    points: list[EstimatePoint]


class SampledTurns(msgspec.Struct):
    """Why there is nothing to compare: `sampling` is on, all turns of the period, and those that a provider counted."""

    sampling: bool
    turns: int
    counted: int


def build_accuracy(points: Iterable[JournalEstimate]) -> list[ModelAccuracy]:
    """Returns the accuracy by model, those with the most turns first."""
    groups: dict[str, list[JournalEstimate]] = defaultdict(list)
    for point in points:
        groups[point.model].append(point)
    return [_model_accuracy(name, group) for name, group in sorted(groups.items(), key=lambda row: -len(row[1]))]


def _model_accuracy(name: str, points: list[JournalEstimate]) -> ModelAccuracy:
    provider, _, model = name.partition("/")
    family = load_tables().find_family(model, provider)
    count = len(points)
    history = [LearnedFactor(point.time, point.factor) for point in points if point.factor is not None]
    return ModelAccuracy(
        model=name,
        family=family.name,
        exact_text=family.vocabulary in counters(),
        factor=history[-1].factor if history else 1.0,
        samples=count,
        taught=len(history),
        coverage=sum(point.low <= point.actual <= point.high for point in points) / count,
        median_error=median(abs(_signed_error(point)) for point in points),
        bias=median(map(_signed_error, points)),
        methods={method: sum(point.method == method for point in points) for method in METHODS},
        uncertain=_group_uncertain(points),
        history=history[-MAX_POINTS:],
        points=[_estimate_point(point) for point in points[-MAX_POINTS:]],
    )


def _signed_error(point: JournalEstimate) -> float:
    """Returns the share by which an estimate is too high; below 0 it is too low."""
    return (point.estimate - point.actual) / point.actual


def _estimate_point(point: JournalEstimate) -> EstimatePoint:
    counts = (point.estimate, point.actual, point.low, point.high)
    return EstimatePoint(point.time, *counts, point.method, point.uncertain, point.id)


def _group_uncertain(points: list[JournalEstimate]) -> list[UncertainTurns]:
    groups: dict[str, list[float]] = defaultdict(list)
    for point in points:
        for kind in point.uncertain.split():
            groups[kind].append(abs(_signed_error(point)))
    return [UncertainTurns(kind, len(errors), median(errors)) for kind, errors in sorted(groups.items())]


def count_turns(rows: list[UsagePoint], *, sampling: bool) -> SampledTurns:
    """Returns how many turns there are, and how many of them a provider counted."""
    counted = sum(row.turns for row in rows if row.input > 0 and not row.fault)
    return SampledTurns(sampling, sum(row.turns for row in rows), counted)
