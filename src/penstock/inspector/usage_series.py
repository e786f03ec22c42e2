"""Usage over time, and estimates beside what they were of: journal rows → series that can be drawn.

Pure but for the history it is handed. Slow for many rows: not for the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.store.history import Point, Spent

SERIES = 20  # those with the most turns; the others are one
OTHERS = "others"
BUCKETS = 500  # at most
STEPS = (60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800)  # seconds
WANTED = 60  # buckets, or a little more
POINTS = 500  # of one model
_HIGH = 0.95


class Series(msgspec.Struct, omit_defaults=True):
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
    total: Total


class Total(msgspec.Struct):
    """The same of all the time."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0
    faults: int = 0
    ttft: float | None = None
    p95: float | None = None
    duration: float | None = None


class Usage(msgspec.Struct):
    """All series. `buckets`: when each begins, in seconds since the epoch."""

    by: str
    bucket: float
    since: float
    until: float
    buckets: list[float]
    series: list[Series]
    total: Total


def step_of(since: float, until: float, wanted: float = 0.0) -> float:
    """How long a bucket is: as asked, but never so short that there are too many."""
    least = (until - since) / BUCKETS
    fitting = next((step for step in STEPS if (until - since) / step <= WANTED), STEPS[-1])
    return max(wanted or fitting, least, 1.0)


def usage(rows: list[Spent], by: str, since: float, until: float, step: float) -> Usage:
    """The rows in buckets, by name."""
    first = since // step * step
    count = max(1, int((until - first) / step) + (1 if (until - first) % step else 0))
    names: dict[str, int] = defaultdict(int)
    for row in rows:
        names[row.name] += row.turns
    most = sorted(names, key=lambda name: (-names[name], name))
    own = set(most if len(most) <= SERIES else most[: SERIES - 1])
    groups: dict[str, list[Spent]] = {name: [] for name in most if name in own}
    for row in rows:
        groups.setdefault(row.name if row.name in own else OTHERS, []).append(row)
    return Usage(
        by=by, bucket=step, since=since, until=until, buckets=[first + place * step for place in range(count)],
        series=[_series(name, group, first, step, count) for name, group in groups.items()], total=_total(rows),
    )  # fmt: skip


def _series(name: str, rows: list[Spent], first: float, step: float, count: int) -> Series:
    cells: list[list[Spent]] = [[] for _ in range(count)]
    for row in rows:
        cells[min(max(int((row.time - first) / step), 0), count - 1)].append(row)
    totals = [_total(cell) for cell in cells]
    return Series(
        name, [one.requests for one in totals], [one.input for one in totals], [one.output for one in totals],
        [one.cost for one in totals], [one.ttft for one in totals], [one.p95 for one in totals],
        [one.duration for one in totals], [one.faults for one in totals], _total(rows),
    )  # fmt: skip


def _total(rows: list[Spent]) -> Total:
    if not rows:
        return Total()
    firsts = sorted(row.ttft for row in rows if row.ttft is not None)
    return Total(
        sum(row.turns for row in rows), sum(row.input for row in rows), sum(row.output for row in rows),
        sum(row.cost for row in rows), sum(row.turns for row in rows if row.fault), _median(firsts),
        firsts[min(int(len(firsts) * _HIGH), len(firsts) - 1)] if firsts else None,
        _median([row.duration for row in rows if row.duration is not None]),
    )  # fmt: skip


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────


class Learned(msgspec.Struct):
    """A factor, and when it was that."""

    time: float
    factor: float


class Shot(msgspec.Struct, gc=False):
    """One turn: what was estimated, and what it was."""

    time: float
    estimate: int
    actual: int
    low: int
    high: int


class Model(msgspec.Struct):
    """What estimates for a model were worth. `coverage`: how many of ten were within their bounds, as a share."""

    model: str
    factor: float
    samples: int
    coverage: float
    median_error: float
    history: list[Learned]
    points: list[Shot]


def tokens(points: Iterable[Point]) -> list[Model]:
    """By model, those with the most turns first."""
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.model].append(point)
    return [_model(name, group) for name, group in sorted(groups.items(), key=lambda row: -len(row[1]))]


def _model(name: str, points: list[Point]) -> Model:
    within = sum(point.low <= point.actual <= point.high for point in points)
    errors = [abs(point.estimate - point.actual) / point.actual for point in points]
    history = [Learned(point.time, point.factor) for point in points if point.factor is not None]
    shots = [Shot(point.time, point.estimate, point.actual, point.low, point.high) for point in points]
    return Model(
        name, history[-1].factor if history else 1.0, len(points), within / len(points), median(errors),
        history[-POINTS:], shots[-POINTS:],
    )  # fmt: skip
