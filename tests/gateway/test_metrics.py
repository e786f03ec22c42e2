"""The metrics page, read back line by line as Prometheus would."""

from __future__ import annotations

import re
from typing import Any

from penstock._gateway import metrics
from penstock._gateway.metrics import MAX_KEYS, Metrics
from penstock._store.journal import JournalEntry
from tests.support.client_requests import ask, get
from tests.support.gateway import gateway

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


def row(**more: Any) -> JournalEntry:
    given: dict[str, Any] = {"time": 1.0, "protocol": "anthropic", "provider": "openai", "model": "m", "tries": 1}
    given |= {"finish": "stop", "duration": 3.0, "ttft": 0.2, "input": 10, "output": 5, "cost": 0.25}
    return JournalEntry(**(given | more))


def figure(page: bytes, name: str, /, **labels: str) -> float:
    return sum(
        value
        for (metric, having), value in parsed(page).items()
        if metric == name and labels.items() <= dict(having).items()
    )


def test_turns_are_counted() -> None:
    made = Metrics()
    made.count_turn(row())
    made.count_turn(row(status="fault", finish="", fault="overloaded"))
    made.count_turn(row(status="refused", http=429, fault="rate-limit"))
    made.open_streams += 1
    page = made.render()
    assert figure(page, "penstock_turns_total", status="finish", reason="stop", protocol="anthropic") == 1
    assert figure(page, "penstock_turns_total", status="fault", reason="overloaded") == 1
    assert figure(page, "penstock_refused_total", status="429") == 1
    assert figure(page, "penstock_tokens_total", kind="input") == 20
    assert figure(page, "penstock_cost_dollars_total", provider="openai") == 0.5
    assert figure(page, "penstock_open_streams") == 1
    assert figure(page, "penstock_turn_seconds_count", provider="openai") == 2
    made.open_streams -= 1
    assert figure(made.render(), "penstock_open_streams") == 0


def test_buckets_add_up() -> None:
    made = Metrics()
    for seconds in (0.1, 0.3, 700.0):
        made.count_turn(row(duration=seconds, ttft=None))
    page = made.render()
    assert figure(page, "penstock_turn_seconds_bucket", le="0.1") == 1  # a bound belongs to its bucket
    assert figure(page, "penstock_turn_seconds_bucket", le="0.5") == 2
    assert figure(page, "penstock_turn_seconds_bucket", le="600") == 2
    assert figure(page, "penstock_turn_seconds_bucket", le="+Inf") == 3
    assert figure(page, "penstock_turn_seconds_sum") == 700.4
    assert figure(page, "penstock_ttft_seconds_count") == 0


def test_names_cannot_break_the_page() -> None:
    made = Metrics()
    made.count_turn(row(model='a"b\\c\nd\ud800'))
    page = made.render()
    assert figure(page, "penstock_turns_total") == 1


def test_invented_names_cannot_fill_the_memory() -> None:
    made = Metrics()
    for number in range(1_500):
        made.count_turn(row(model=str(number)))
    page = made.render()
    assert figure(page, "penstock_turns_total") == 1_500
    assert figure(page, "penstock_turns_total", model="other") == 1_500 - metrics.MAX_OPEN_SERIES
    assert figure(page, "penstock_turns_total", model="other", provider="openai", protocol="anthropic") > 0


def test_invented_names_do_not_push_out_real_ones() -> None:
    """Whatever one client did before, configured models, listed models and other providers keep their series."""
    made = Metrics()
    made.models.configured = lambda _, model: model == "configured"
    made.models.listed = lambda _, model: model.startswith("listed")
    for number in range(2_000):
        made.count_turn(row(model=f"invented-{number}", protocol=f"p{number % 5}"))
        made.count_turn(row(model=f"listed-{number}", status="fault", finish="", fault="not-found"))
    for model in ("configured", "listed"):
        made.count_turn(row(model=model))
    made.count_turn(row(model="local", provider="ollama"))
    page = made.render()
    for model in ("configured", "listed", "local"):
        for metric in ("penstock_turns_total", "penstock_tokens_total", "penstock_cost_dollars_total"):
            assert figure(page, metric, model=model) > 0, (metric, model)


def test_a_name_that_never_answered_has_no_label() -> None:
    made = Metrics()
    made.count_turn(row(model="broken", status="fault", finish="", fault="server"))
    assert figure(made.render(), "penstock_turns_total", model="other") == 1
    made.count_turn(row(model="broken"))
    assert figure(made.render(), "penstock_turns_total", model="broken") == 1


def test_a_label_holds_no_key() -> None:
    made = Metrics(lambda: ["planted value"])
    made.count_turn(row(model="sk-planted0123456789"))
    made.count_turn(row(model="planted value"))
    page = made.render()
    assert b"planted" not in page
    assert figure(page, "penstock_turns_total", model="[secret]") == 2


def test_one_client_cannot_use_up_the_series() -> None:
    """Through a gateway: the upstream answers to any name."""
    with gateway() as (running, _):
        for number in range(metrics.MAX_OPEN_SERIES + 30):
            assert ask(running.url, "openai-chat", f"openai-chat/m{number}", stream=False).status_code == 200
        assert ask(running.url, "openai-chat", "openai-chat/tools", stream=False).status_code == 200
        assert ask(running.url, "openai-chat", "quick", stream=False).status_code == 200
        page = get(f"{running.url}/metrics").content
    assert figure(page, "penstock_turns_total", model="tools") == 1
    assert figure(page, "penstock_turns_total", model="text") == 1
    assert figure(page, "penstock_turns_total", model="other") == 30


def test_figures_of_others_are_asked_for_when_the_page_is() -> None:
    made = Metrics()
    values: dict[tuple[str, ...], float] = {("retry", "timeout", "openai"): 1.0}
    made.add_counters("decisions", lambda: values)
    values["retry", "timeout", "openai"] = 2.0
    assert figure(made.render(), "penstock_decisions_total", what="retry") == 2


def test_turns_tokens_and_costs_are_counted_by_key_and_team_within_bounds() -> None:
    metrics = Metrics()
    shared: dict[str, Any] = {"time": 1.0, "input": 2, "output": 3, "cost": 0.5}
    for number in range(MAX_KEYS + 2):
        metrics.count_turn(JournalEntry(key=f"key{number}", team="research", **shared))
    metrics.count_turn(JournalEntry(time=1.0, key="key0", team="research", status="refused", fault="quota", http=429))
    metrics.count_turn(JournalEntry(time=1.0))  # nobody was admitted
    page = metrics.render().decode()
    assert 'penstock_key_turns_total{key="key0",team="research",status="finish"} 1' in page
    assert 'penstock_key_turns_total{key="key0",team="research",status="refused"} 1' in page
    assert 'penstock_key_tokens_total{key="key0",team="research",kind="output"} 3' in page
    assert 'penstock_key_cost_dollars_total{key="key0",team="research"} 0.5' in page
    assert 'penstock_key_cost_dollars_total{key="other",team="other"} 1' in page
    assert page.count("penstock_key_cost_dollars_total{") == MAX_KEYS + 1
