"""Turns rows of the journal into series for charts: usage over time, and the accuracy of token estimates.

Slow for many rows: not for the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._inspector.turn_query_terms import format_exact
from penstock._store.journal_queries import MAX_ROWS
from penstock._tokens.bpe import counters
from penstock._tokens.families import load_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._store.journal_queries import JournalEstimate, UsagePoint

MAX_SERIES = 8  # that are drawn, those with the most tokens; the others are one series
MAX_NAMES = 200  # in the table
OTHERS = "others"
MAX_BUCKETS = 500
STEPS = (60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800)  # seconds
USUAL_BUCKETS = 60
MAX_POINTS = 500  # of one model
_PERCENTILE = 0.95
NO_NAMES = {"model": "no model named", "client": "unknown client", "key": "no key", "provider": "no provider"}
"""How turns without a name are called, by group."""


class UsageTotal(msgspec.Struct):
    """Sums and medians of some turns. None is unknown.

    `unpriced`: turns with tokens whose price is not known. `faults` broke off in the answer, `refused` got no answer,
    `errors` are both.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: float | None = None
    unpriced: int = 0
    errors: int = 0
    faults: int = 0
    refused: int = 0
    cancelled: int = 0
    ttft: float | None = None
    p95: float | None = None
    duration: float | None = None


class NamedUsage(msgspec.Struct):
    """All turns of one name. `query` finds them in the list; empty if no query can."""

    name: str
    query: str
    total: UsageTotal


class UsageSeries(NamedUsage):
    """The same by bucket."""

    requests: list[int]
    input: list[int]
    output: list[int]
    cost: list[float | None]
    errors: list[int]
    ttft: list[float | None]


class UsageReport(msgspec.Struct):
    """Usage over time. `buckets`: the start of each, in seconds since the epoch.

    `series` are drawn, `names` are all names. `period` is the query for the time. `partial`: there are more rows than
    are counted; the oldest are left out.
    """

    by: str
    bucket: float
    since: float
    until: float
    period: str
    buckets: list[float]
    series: list[UsageSeries]
    names: list[NamedUsage]
    total: UsageTotal
    partial: bool


def bucket_seconds(since: float, until: float, wanted: float = 0.0) -> float:
    """Returns the length of a bucket: as requested, unless there would be too many."""
    least = (until - since) / MAX_BUCKETS
    fitting = next((step for step in STEPS if (until - since) / step <= USUAL_BUCKETS), STEPS[-1])
    return max(wanted or fitting, least, 1.0)


def build_usage(rows: list[UsagePoint], by: str, since: float, until: float, step: float) -> UsageReport:
    """Returns the rows in buckets, by name."""
    first = since // step * step
    count = max(1, int((until - first) / step) + (1 if (until - first) % step else 0))
    groups: dict[str, list[UsagePoint]] = defaultdict(list)
    for row in rows:
        groups[row.name].append(row)
    names = [_name_usage(by, name, group) for name, group in groups.items()]
    names.sort(key=lambda one: (-one.total.requests, one.name))
    series = [_build_series(*one, first, step, count) for one in _group_series(by, groups)]
    period = f"since:{_format_time(since)} until:{_format_time(until)}"
    buckets = [first + number * step for number in range(count)]
    partial = len(rows) >= MAX_ROWS
    return UsageReport(by, step, since, until, period, buckets, series, names[:MAX_NAMES], _sum_rows(rows), partial)


def _group_series(by: str, groups: dict[str, list[UsagePoint]]) -> list[tuple[str, str, list[UsagePoint]]]:
    """Returns the label, the query and the rows of each series: the largest, then the others together."""
    weights = {name: sum(_weigh(row) for row in group) for name, group in groups.items()}
    order = sorted(groups, key=lambda name: (-weights[name], name))
    drawn = order if len(order) <= MAX_SERIES else order[: MAX_SERIES - 1]
    series = [(name or NO_NAMES[by], format_exact(by, name), groups[name]) for name in drawn]
    if len(order) > len(drawn):
        series.append((OTHERS, "", [row for name in order[len(drawn) :] for row in groups[name]]))
    return series


def _weigh(row: UsagePoint) -> int:
    return (row.input or 0) + (row.output or 0) + row.turns


def _name_usage(by: str, name: str, rows: list[UsagePoint]) -> NamedUsage:
    return NamedUsage(name or NO_NAMES[by], format_exact(by, name), _sum_rows(rows))


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _build_series(name: str, query: str, rows: list[UsagePoint], first: float, step: float, count: int) -> UsageSeries:
    cells: list[list[UsagePoint]] = [[] for _ in range(count)]
    for row in rows:
        cells[min(max(int((row.time - first) / step), 0), count - 1)].append(row)
    totals = [_sum_rows(cell) for cell in cells]
    columns: dict[str, Any] = {
        field: [getattr(total, field) for total in totals]
        for field in ("requests", "input", "output", "cost", "errors", "ttft")
    }
    return UsageSeries(name=name, query=query, total=_sum_rows(rows), **columns)


def _sum_rows(rows: list[UsagePoint]) -> UsageTotal:
    ttfts = sorted(row.ttft for row in rows if row.ttft is not None)
    durations = [row.duration for row in rows if row.duration is not None]
    costs = [row.cost for row in rows if row.cost is not None]
    faults, refused, cancelled = (
        sum(row.turns for row in rows if row.status == status) for status in ("fault", "refused", "cancelled")
    )
    return UsageTotal(
        requests=sum(row.turns for row in rows),
        input=sum(row.input or 0 for row in rows),
        output=sum(row.output or 0 for row in rows),
        cost=sum(costs) if costs else None,
        unpriced=sum(row.turns for row in rows if row.cost is None and (row.input, row.output) != (None, None)),
        errors=faults + refused,
        faults=faults,
        refused=refused,
        cancelled=cancelled,
        ttft=_median(ttfts),
        p95=ttfts[min(int(len(ttfts) * _PERCENTILE), len(ttfts) - 1)] if ttfts else None,
        duration=_median(durations),
    )


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
    counted = sum(row.turns for row in rows if (row.input or 0) > 0 and row.status != "fault")
    return SampledTurns(sampling, sum(row.turns for row in rows), counted)
