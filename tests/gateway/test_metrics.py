"""The metrics page, read back line by line as Prometheus would."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.budget_requests import ask as ask_as
from tests.support.budget_requests import auth, chat, held_stream, key, open_stream
from tests.support.client_requests import ask, get, post
from tests.support.gateway import answer, gateway

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\.)*)"')
MAX_OPEN_SERIES, MAX_KEYS = 100, 500  # of one metric: models that nobody lists, and keys
PRICES = {"models": {"*": {"input": 10_000.0, "output": 10_000.0}}}


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
            series = (match[1], frozenset(LABEL.findall(match[2] or "")))
            assert series not in found, "a series stands there twice"
            found[series] = float(match[3])
    assert page.endswith(b"\n")
    return found


def figure(page: bytes, name: str, /, **labels: str) -> float:
    return sum(
        value
        for (metric, having), value in parsed(page).items()
        if metric == name and labels.items() <= dict(having).items()
    )


def page_of(url: str, **more: Any) -> bytes:
    return get(f"{url}/metrics", **more).content


def counted(seen: ReceivedRequest) -> Reply:
    """Ten tokens in, five out; what its model is called says how it goes."""
    model = seen.json["model"]
    if model == "busy":
        return Reply.error("openai-chat", 503, "come later")
    if model == "limited":
        return Reply.rate_limit("openai-chat", retry_after=7)
    said: list[ev.AnyEvent] = [ev.Start("1", "m"), ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.TextEnd(0)]
    made = Reply.of("openai-chat", [*said, ev.Usage(10, 5), ev.Finish("stop")], stream=seen.json.get("stream") is True)
    return made.disconnect(after=-250) if model == "broken" else made


def test_turns_are_counted() -> None:
    with gateway(counted, prices=PRICES) as (running, _):
        page = page_of(running.url)
        assert figure(page, "penstock_turns_total") == figure(page, "penstock_ttft_seconds_count") == 0
        for model, stream in (("text", True), ("text", False), ("broken", True), ("limited", True), ("busy", False)):
            ask(running.url, "anthropic", f"openai-chat/{model}", stream=stream)
        running.settle()
        running.rows()
        page = page_of(running.url)
    assert figure(page, "penstock_turns_total", status="finish", reason="stop", protocol="anthropic", model="text") == 2
    assert figure(page, "penstock_turns_total", status="fault") == 1
    assert figure(page, "penstock_refused_total", status="429") == 1
    assert figure(page, "penstock_tokens_total", kind="input", model="text") == 20
    assert figure(page, "penstock_tokens_total", kind="output", model="text") == 10
    assert figure(page, "penstock_cost_dollars_total", provider="openai-chat", model="text") == pytest.approx(0.3)
    assert figure(page, "penstock_open_streams") == 0
    turns = figure(page, "penstock_turns_total")
    buckets = [figure(page, "penstock_turn_seconds_bucket", le=le) for le in ("0.1", "0.5", "600", "+Inf")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == figure(page, "penstock_turn_seconds_count") == turns
    assert 0 < figure(page, "penstock_turn_seconds_sum") < 30


def test_a_stream_that_is_open_is_counted_while_it_is() -> None:
    gate = threading.Event()
    with gateway(lambda _: held_stream(gate, ev.Usage(10, 5)), keys=key("a")) as (running, _):
        with open_stream(running.url, "a") as stream:
            assert figure(page_of(running.url, headers=auth("a")), "penstock_open_streams") == 1
            gate.set()
            stream.read()
        running.settle()
        assert figure(page_of(running.url, headers=auth("a")), "penstock_open_streams") == 0


def test_names_cannot_break_the_page_nor_bring_a_key_onto_it() -> None:
    with gateway(counted) as (running, _):
        for name in ('a"b\\c', "sk-planted0123456789", "sk-up-000000"):
            reply = post(f"{running.url}/v1/chat/completions", json=chat(model=f"openai-chat/{name}"))
            assert reply.status_code == 200
        page = page_of(running.url)
    assert b"planted" not in page
    assert b"sk-up" not in page
    assert figure(page, "penstock_turns_total") == 3
    assert figure(page, "penstock_turns_total", model="[secret]") == 2


def test_one_client_cannot_use_up_the_series() -> None:
    """Configured models, aliases and other providers keep theirs, whatever one client invents. The upstream answers to
    any name.
    """
    with gateway() as (running, _):
        for number in range(MAX_OPEN_SERIES + 30):
            assert ask(running.url, "openai-chat", f"openai-chat/m{number}", stream=False).status_code == 200
        for model in ("openai-chat/tools", "quick", "anthropic/unlisted"):
            assert ask(running.url, "openai-chat", model, stream=False).status_code == 200
        page = page_of(running.url)
    for model, turns in (("tools", 1), ("text", 1), ("unlisted", 1), ("other", 30)):
        assert figure(page, "penstock_turns_total", model=model) == turns, model
        assert figure(page, "penstock_tokens_total", model=model) > 0, model


def test_a_name_that_never_answered_has_no_label() -> None:
    with gateway(counted) as (running, up):
        for script, label in ((counted, "other"), (answer, "broken")):
            up.script(script)
            ask(running.url, "openai-chat", "openai-chat/broken")
            running.rows()
            assert figure(page_of(running.url), "penstock_turns_total", model=label) == 1


def test_decisions_are_counted() -> None:
    with gateway(Reply.error("openai-chat", 503, "later"), answer, retries=1) as (running, _):
        ask(running.url, "openai-chat", "openai-chat/text", stream=False)
        assert figure(page_of(running.url), "penstock_decisions_total", what="retry") == 1


def test_turns_tokens_and_costs_are_counted_by_key_and_team_within_bounds() -> None:
    keys = key("poor", team="research", limits={"total_requests": 1})
    for number in range(MAX_KEYS + 2):
        keys |= key(f"key{number}", team="research")
    with gateway(counted, keys=keys, prices=PRICES, teams={"research": {}}) as (running, _):
        assert [ask_as(running.url, "poor", chat()).status_code for _ in range(2)] == [200, 429]
        with httpx.Client(base_url=running.url, trust_env=False) as http:
            for number in range(MAX_KEYS + 2):
                reply = http.post("/v1/chat/completions", json=chat(), headers=auth(f"key{number}"))
                assert reply.status_code == 200
        running.rows()
        page = page_of(running.url, headers=auth("key0"))
    row = {"key": "key0", "team": "research"}
    assert figure(page, "penstock_key_turns_total", **row, status="finish") == 1
    assert figure(page, "penstock_key_turns_total", key="poor", status="refused") == 1
    assert figure(page, "penstock_key_tokens_total", **row, kind="output") == 5
    assert figure(page, "penstock_key_cost_dollars_total", **row) == pytest.approx(0.15)
    assert figure(page, "penstock_key_cost_dollars_total", key="other", team="other") > 0.29
    assert page.count(b"penstock_key_cost_dollars_total{") <= MAX_KEYS + 1
