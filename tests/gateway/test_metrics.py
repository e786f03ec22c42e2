"""The metrics page, read back line by line as Prometheus would."""

from __future__ import annotations

import re
from typing import Any

from penstock.gateway import metrics
from penstock.gateway.metrics import Metrics
from penstock.store.journal import Turn

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\.)*)"')


def parsed(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    kinds: dict[str, str] = {}
    for line in page.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            assert re.sub(r"_(bucket|sum|count)$", "", match[1]) in kinds or match[1] in kinds
            key = (match[1], frozenset(LABEL.findall(match[2] or "")))
            assert key not in found, "a series stands there twice"
            found[key] = float(match[3])
    assert page.endswith(b"\n")
    return found


def row(**more: Any) -> Turn:
    given = {"time": 1.0, "protocol": "anthropic", "provider": "openai", "model": "m", "finish": "stop", "tries": 1}
    return Turn(**{**given, "duration": 3.0, "ttft": 0.2, "input": 10, "output": 5, "cost": 0.25, **more})


def figure(page: bytes, name: str, **labels: str) -> float:
    return sum(
        value
        for (metric, having), value in parsed(page).items()
        if metric == name and labels.items() <= dict(having).items()
    )


def test_turns_are_counted() -> None:
    made = Metrics()
    made.turn(row())
    made.turn(row(status="fault", finish="", fault="overloaded"))
    made.turn(row(status="refused", http=429, fault="rate-limit"))
    made.opened()
    page = made.render()
    assert figure(page, "penstock_turns_total", status="finish", reason="stop", protocol="anthropic") == 1
    assert figure(page, "penstock_turns_total", status="fault", reason="overloaded") == 1
    assert figure(page, "penstock_refused_total", status="429") == 1
    assert figure(page, "penstock_tokens_total", kind="input") == 20
    assert figure(page, "penstock_cost_dollars_total", provider="openai") == 0.5
    assert figure(page, "penstock_open_streams") == 1
    assert figure(page, "penstock_turn_seconds_count", provider="openai") == 2
    made.closed()
    assert figure(made.render(), "penstock_open_streams") == 0


def test_buckets_add_up() -> None:
    made = Metrics()
    for seconds in (0.1, 0.3, 700.0):
        made.turn(row(duration=seconds, ttft=None))
    page = made.render()
    assert figure(page, "penstock_turn_seconds_bucket", le="0.1") == 1  # a bound belongs to its bucket
    assert figure(page, "penstock_turn_seconds_bucket", le="0.5") == 2
    assert figure(page, "penstock_turn_seconds_bucket", le="600") == 2
    assert figure(page, "penstock_turn_seconds_bucket", le="+Inf") == 3
    assert figure(page, "penstock_turn_seconds_sum") == 700.4
    assert figure(page, "penstock_ttft_seconds_count") == 0


def test_names_cannot_break_the_page() -> None:
    made = Metrics()
    made.turn(row(model='a"b\\c\nd\ud800'))
    page = made.render()
    assert figure(page, "penstock_turns_total") == 1


def test_strangers_cannot_fill_the_memory() -> None:
    made = Metrics()
    for number in range(metrics.SERIES + 500):
        made.turn(row(model=str(number)))
    page = made.render()
    assert figure(page, "penstock_turns_total") == metrics.SERIES + 500
    assert figure(page, "penstock_turns_total", model="other") == 500


def test_figures_of_others_are_asked_for_when_the_page_is() -> None:
    made = Metrics()
    values: dict[tuple[str, ...], float] = {("retry", "timeout", "openai"): 1.0}
    made.counts("penstock_decisions_total", "Decisions.", ("what", "code", "provider"), lambda: values)
    values["retry", "timeout", "openai"] = 2.0
    assert figure(made.render(), "penstock_decisions_total", what="retry") == 2
