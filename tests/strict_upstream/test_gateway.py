"""The vendors' SDKs do the task through the gateway, whatever strict upstream is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.engines.config import Account, Config
from penstock.gateway.app import App
from penstock.gateway.config import GatewayConfig, JournalTable, Serve, StateTable
from tests.gateway.running import Running
from tests.strict_upstream.test_official_clients import CLIENTS, TURNED
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVIDERS: dict[str, dict[str, Any]] = {
    "chat": {"like": "openai", "fields": {"has": ["chat"]}},
    "responses": {"like": "openai", "fields": {"has": ["responses"]}},
    "messages": {"like": "anthropic"},
    "gemini": {"like": "gemini"},
}


def start_gateway(url: str, upstream: str) -> Running:
    """A gateway that sends every model the clients name to the upstream."""
    base = f"{url}/v1beta" if upstream == "gemini" else f"{url}/v1"
    account = Account(base_url=base, key="sk-strict", models=(DEFAULT_MODELS[upstream],), **PROVIDERS[upstream])
    target = f"up/{DEFAULT_MODELS[upstream]}"
    names: dict[str, str | list[str]] = dict.fromkeys(DEFAULT_MODELS.values(), target)
    engine = Config(providers={"up": account}, aliases=names, retries=0)
    journal, state = JournalTable(path="memory"), StateTable(path="memory")
    return Running(App(GatewayConfig(engine=engine, serve=Serve(pace=0.0), journal=journal, state=state), env={}))


def cells() -> Iterator[Any]:
    """Parallel calls in `make test`; a single call shows less, and is left to `make test-all`."""
    for scenario in TURNED:
        marks = [] if scenario == "parallel-calls" else [pytest.mark.exhaustive]
        for client in CLIENTS:
            for upstream in PROVIDERS:
                yield pytest.param(scenario, client, upstream, id=f"{scenario}-{client}-{upstream}", marks=marks)


@pytest.mark.slow
@pytest.mark.finding("AGT-11")
@pytest.mark.parametrize(("scenario", "client", "upstream"), list(cells()))
def test_the_task_is_done_through_the_gateway(scenario: str, client: str, upstream: str) -> None:
    with serve(SCENARIOS[scenario]) as server, start_gateway(server.url, upstream) as gateway:
        said = CLIENTS[client](gateway.url)
    refused = [f"{one.status} {one.message}" for one in server.log.refusals()]
    assert refused == []
    assert TURNED[scenario] in said
    assert [one.outcome for one in server.log.exchanges] == ["answered"] * 3
