"""docs/deployments.md: its examples run, in the library and through a gateway, and record what the page shows."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from msgspec.structs import replace

from penstock import Client
from penstock._gateway.app import App
from penstock._gateway.config import JournalTable, StateTable, read_config
from penstock.errors import RateLimited
from penstock.testing import Reply, Upstream, scripted
from tests.gateway.client_requests import ask, get
from tests.gateway.gateway_thread import Running
from tests.gateway.test_metrics import figure
from tools.code_blocks import read_blocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.testing import ReceivedRequest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "deployments.md"
LIMITED = Reply.rate_limit(retry_after=300)


def block(language: str, words: str) -> str:
    """The example of the page that holds some words."""
    return next(one.text for one in read_blocks(PAGE) if one.language == language and words in one.text)


def answer(_: ReceivedRequest) -> Reply:
    return Reply.text("Twelve metres.")


@contextmanager
def upstreams(*names: str) -> Generator[dict[str, Upstream]]:
    """Servers in the place of those that the page names."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(scripted(answer)) for name in names}


def configured(words: str, ups: dict[str, Upstream]) -> str:
    """An example's configuration with the servers' addresses."""
    text = block("toml", words)
    for name, up in ups.items():
        text = text.replace(f"https://{name}.example.com", up.url)
    return text


@contextmanager
def gateway(text: str) -> Generator[Running]:
    config = read_config(text, Path("penstock.toml"))
    memory = {"journal": JournalTable(path="memory"), "state": StateTable(path="memory")}
    with Running(App(replace(config, **memory), env={})) as running:
        yield running


@pytest.mark.row("Q4:weights")
@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "responses"])
def test_a_gateway_spreads_requests_and_writes_each_choice_down(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", Random(7).random)  # 24 choices of any other kind may come out even
    with upstreams("east", "west") as ups, gateway(configured("[aliases.fast]", ups)) as running:
        for _ in range(24):
            assert ask(running.url, client, "fast").status_code == 200
        rows, page = running.rows(), get(f"{running.url}/metrics").content
        counts = {name: len(up.requests) for name, up in ups.items()}
    assert sum(counts.values()) == 24
    assert counts["east"] > counts["west"] > 0
    for row in rows:
        assert row.decisions.startswith(f"route: fast: chosen by weight, {3 if row.provider == 'east' else 1} of 4\n")
    for name, count in counts.items():
        labels = {"what": "route", "code": "weighted", "provider": name}
        assert figure(page, "penstock_decisions_total", **labels) == count


def chat(url: str, *answers: str) -> httpx.Response:
    """The next turn of a conversation."""
    messages = [{"role": "system", "content": "You know the sea."}, {"role": "user", "content": "How deep?"}]
    for text in answers:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And there?"}]
    return httpx.post(f"{url}/v1/chat/completions", json={"model": "fast", "messages": messages}, timeout=30)


@pytest.mark.row("Q4:sticky")
@pytest.mark.row("Q4:cool-down")
def test_a_conversation_stays_at_the_gateway_until_its_target_cools_down() -> None:
    with upstreams("east", "west") as ups, gateway(configured("[aliases.fast]", ups)) as running:
        for turn in range(5):
            assert chat(running.url, *["Twelve metres."] * turn).status_code == 200
        (home,) = {row.provider for row in running.rows()}
        ups[home].script(LIMITED)
        assert chat(running.url, *["Twelve metres."] * 5).status_code == 200
        page = get(f"{running.url}/metrics").content
        moved = running.rows()[0]
        ups[moved.provider].script(LIMITED)
        failed = chat(running.url, *["Twelve metres."] * 6)
        refused = chat(running.url, *["Twelve metres."] * 7)
    assert moved.provider != home
    assert moved.decisions.startswith("route: fast: it has the conversation's earlier turns")
    assert figure(page, "penstock_cooling_targets") == 1
    assert failed.status_code == 429
    assert refused.status_code == 429
    assert "all targets of fast cool down: " in refused.json()["error"]["message"]
    assert 0 < int(refused.headers["retry-after"]) <= 300
    assert refused.headers["x-penstock-refused-by"] == "gateway"


@pytest.mark.row("Q4:keys")
def test_the_keys_of_the_page_are_used_in_turn_and_one_is_revoked(tmp_path: Path) -> None:
    def by_key(request: ReceivedRequest) -> Reply:
        if "sk-lab-one" in request.headers["authorization"]:
            return Reply.error("openai-chat", 401, "no such key")
        return answer(request)

    async def lines() -> list[str]:
        async with Client(tmp_path / "penstock.toml") as client:
            found = await client.chat("lab/tide-1", "How deep?")
            assert found.record is not None
            return found.record.lines()

    with upstreams("lab") as ups:
        text = configured("[providers.lab]", ups)
        (tmp_path / "penstock.toml").write_text(text)
        ups["lab"].script(by_key)
        assert block("text", "retry: the key").strip() in asyncio.run(lines())
        with gateway(text) as running:
            assert ask(running.url, "openai-chat", "lab/tide-1").status_code == 200
            (row,) = running.rows()
    assert "the key of keys[0] is set aside" in row.decisions
    assert "sk-lab" not in row.decisions


@pytest.mark.row("Q4:sticky")
def test_the_library_reports_a_conversation_that_moves() -> None:
    async def scene(config: Any, ups: dict[str, Upstream]) -> None:
        async with Client(config) as client:
            messages: list[Any] = [{"role": "user", "content": "How deep?"}]
            first = await client.chat("fast", messages)
            messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And there?"}]
            home = first.provider
            ups[home].script(LIMITED)
            for number in range(20):  # other conversations meet the limit
                await client.chat("fast", f"Something else {number}")
            second = await client.chat("fast", messages)
            assert second.provider != home
            assert "conversation-moved" in [row.code for row in second.diagnostics]
            ups[second.provider].script(LIMITED)
            with pytest.raises(RateLimited, match="no target of fast answered"):
                await client.chat("fast", messages)

    with upstreams("east", "west") as ups:
        text = configured("[aliases.fast]", ups)
        asyncio.run(scene(read_config(text, Path("penstock.toml")).engine, ups))


def test_embeddings_are_spread_too() -> None:
    def embed(_: ReceivedRequest) -> Reply:
        return Reply.body({"data": [{"index": 0, "embedding": [0.5]}], "model": "tide-1"})

    async def scene(config: Any) -> None:
        async with Client(config) as client:
            for _ in range(16):
                await client.embed("fast", ["a"])
            deployments = client.router.deployments
            assert [deployments.open_requests(name, "tide-1") for name in ("east", "west")] == [0, 0]

    with upstreams("east", "west") as ups:
        for up in ups.values():
            up.script(embed)
        asyncio.run(scene(read_config(configured("[aliases.fast]", ups), Path("penstock.toml")).engine))
        assert all(up.requests for up in ups.values())
