"""Usage over time, and estimates beside what they were of: journal rows → series that can be drawn.

Pure but for the history it is handed. Slow for many rows: not for the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._store.history import JournalEstimate, UsagePoint

MAX_SERIES = 20  # those with the most turns; the others are one
OTHERS = "others"
MAX_BUCKETS = 500  # at most
STEPS = (60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800)  # seconds
USUAL_BUCKETS = 60  # buckets, or a little more
MAX_POINTS = 500  # of one model
_PERCENTILE = 0.95


class UsageSeries(msgspec.Struct, omit_defaults=True):
    """Turns of one name, by bucket. A median of none is null."""

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
    """The same of all the time."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0
    faults: int = 0
    ttft: float | None = None
    p95: float | None = None
    duration: float | None = None


class UsageReport(msgspec.Struct):
    """All series. `buckets`: when each begins, in seconds since the epoch."""

    by: str
    bucket: float
    since: float
    until: float
    buckets: list[float]
    series: list[UsageSeries]
    total: UsageTotal


def bucket_seconds(since: float, until: float, wanted: float = 0.0) -> float:
    """How long a bucket is: as asked, but never so short that there are too many."""
    least = (until - since) / MAX_BUCKETS
    fitting = next((step for step in STEPS if (until - since) / step <= USUAL_BUCKETS), STEPS[-1])
    return max(wanted or fitting, least, 1.0)


def build_usage(rows: list[UsagePoint], by: str, since: float, until: float, step: float) -> UsageReport:
    """The rows in buckets, by name."""
    first = since // step * step
    count = max(1, int((until - first) / step) + (1 if (until - first) % step else 0))
    names: dict[str, int] = defaultdict(int)
    for row in rows:
        names[row.name] += row.turns
    most = sorted(names, key=lambda name: (-names[name], name))
    own = set(most if len(most) <= MAX_SERIES else most[: MAX_SERIES - 1])
    groups: dict[str, list[UsagePoint]] = {name: [] for name in most if name in own}
    for row in rows:
        groups.setdefault(row.name if row.name in own else OTHERS, []).append(row)
    return UsageReport(
        by=by,
        bucket=step,
        since=since,
        until=until,
        buckets=[first + place * step for place in range(count)],
        series=[_build_series(name, group, first, step, count) for name, group in groups.items()],
        total=_sum_rows(rows),
    )


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
    firsts = sorted(row.ttft for row in rows if row.ttft is not None)
    return UsageTotal(
        sum(row.turns for row in rows),
        sum(row.input for row in rows),
        sum(row.output for row in rows),
        sum(row.cost for row in rows),
        sum(row.turns for row in rows if row.fault),
        _median(firsts),
        firsts[min(int(len(firsts) * _PERCENTILE), len(firsts) - 1)] if firsts else None,
        _median([row.duration for row in rows if row.duration is not None]),
    )


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────


class LearnedFactor(msgspec.Struct):
    """A factor, and when it was that."""

    time: float
    factor: float


class EstimatePoint(msgspec.Struct, gc=False):
    """One turn: what was estimated, and what it was."""

    time: float
    estimate: int
    actual: int
    low: int
    high: int


class ModelAccuracy(msgspec.Struct):
    """What estimates for a model were worth. `coverage`: how many of ten were within their bounds, as a share."""

    model: str
    factor: float
    samples: int
    coverage: float
    median_error: float
    history: list[LearnedFactor]
    points: list[EstimatePoint]


def build_accuracy(points: Iterable[JournalEstimate]) -> list[ModelAccuracy]:
    """By model, those with the most turns first."""
    groups: dict[str, list[JournalEstimate]] = defaultdict(list)
    for point in points:
        groups[point.model].append(point)
    return [_model_accuracy(name, group) for name, group in sorted(groups.items(), key=lambda row: -len(row[1]))]


def _model_accuracy(name: str, points: list[JournalEstimate]) -> ModelAccuracy:
    within = sum(point.low <= point.actual <= point.high for point in points)
    errors = [abs(point.estimate - point.actual) / point.actual for point in points]
    history = [LearnedFactor(point.time, point.factor) for point in points if point.factor is not None]
    shots = [EstimatePoint(point.time, point.estimate, point.actual, point.low, point.high) for point in points]
    return ModelAccuracy(
        name,
        history[-1].factor if history else 1.0,
        len(points),
        within / len(points),
        median(errors),
        history[-MAX_POINTS:],
        shots[-MAX_POINTS:],
    )
