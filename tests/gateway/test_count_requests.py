"""Counts of requests: what is refused, what a provider's count may be, and whose count waits for whose."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.token_estimators import SMALL_BODY, TokenEstimators
from penstock.gateway import GatewayConfig
from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.gateway import gateway, hash_key

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.tokens import HybridTokenEstimator


MODEL = "openai-chat/text"
SAID = {"role": "user", "content": "Low water at noon."}


@pytest.fixture(scope="module")
def url() -> Any:
    with gateway() as (running, _):
        yield running.url


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/vscode/count", {"model": MODEL, "items": 5}, "items: expected a list, found a number"),
        ("/vscode/count", {"model": MODEL, "items": {}}, "items: expected a list, found an object"),
        ("/vscode/count", {"model": MODEL, "items": "a text"}, "items: expected a list, found a string"),
        ("/vscode/count", {"model": MODEL, "items": ["a", 5]}, "items[1]: expected an object, found a number"),
        ("/vscode/count", {"model": MODEL, "items": ["a", {"role": 1, "content": 5}]}, "items[1].content: expected"),
        ("/vscode/count", {"model": MODEL, "items": [{"name": 5}]}, "items[0].name: expected"),
        (f"/v1beta/models/{MODEL}:countTokens", {"generateContentRequest": 5}, "generateContentRequest: expected an"),
        ("/v1/responses/input_tokens", {"model": MODEL, "input": None}, "input: expected a text or a list, found null"),
    ],
    ids=str,
)
def test_what_cannot_be_counted_is_refused_with_its_place(url: str, path: str, body: Any, said: str) -> None:
    reply = post(url + path, json=body)
    assert reply.status_code == 400
    assert said in reply.text


@pytest.mark.parametrize("fields", [{"items": ["a"]}, {"messages": [{"role": 1, "content": "a"}]}], ids=str)
def test_a_key_counts_only_for_its_models(fields: dict[str, Any]) -> None:
    keys = {"one": {"hash": hash_key("pk-one-000000"), "models": ("anthropic/*",)}}
    with gateway(keys=keys) as (running, _):
        for model, status in ((MODEL, 403), ("anthropic/text", 200)):
            body = {"model": model, **fields}
            reply = post(f"{running.url}/vscode/count", json=body, headers={"x-penstock-key": "pk-one-000000"})
            assert reply.status_code == status


@pytest.mark.parametrize(
    ("said", "method"),
    [
        (b'{"input_tokens": 42}', "actual"), (b'{"input_tokens": 9007199254740991}', "actual"),
        (b'{"input_tokens": -5}', "estimated"), (b'{"input_tokens": 0}', "estimated"),
        (b'{"input_tokens": 100000000000000000000}', "estimated"), (b'{"input_tokens": 9007199254740992}', "estimated"),
        (b'{"input_tokens": "many"}', "estimated"), (b'{"input_tokens": 1.5}', "estimated"), (b"[]", "estimated"),
        (b"<html>", "estimated"), (b'{"input_tokens": 4', "estimated"), (b"", "estimated"), (b"\xff", "estimated"),
        (b"[" * 5000, "estimated"),
    ],
)  # fmt: skip
def test_a_providers_count_that_cannot_be_right_is_not_used(said: bytes, method: str) -> None:
    with gateway(Reply.body(said)) as (running, _):
        body = {"model": "anthropic/text", "messages": [SAID], "max_tokens": 9}
        reply = post(f"{running.url}/v1/messages/count_tokens", json=body)
        assert (reply.status_code, reply.headers["x-penstock-tokens-method"]) == (200, method)
        if method == "estimated":
            assert 5 < reply.json()["input_tokens"] < 50


# ── whose count waits for whose ───────────────────────────────────────────────────────────────────


def test_small_counts_do_not_wait_for_large_ones_and_tenants_take_turns(tmp_path: Path) -> None:
    estimators = TokenEstimators(GatewayConfig(data=tmp_path))
    gate = threading.Event()
    done: list[str] = []

    def counting(name: str) -> Any:
        def count(estimator: HybridTokenEstimator) -> int:
            assert name == "small" or gate.wait(20)
            done.append(name)
            return estimator.estimate_text(name).tokens

        return count

    async def count_all() -> None:
        large = [
            asyncio.create_task(estimators.run(tenant, counting(f"{tenant}{number}"), SMALL_BODY + 1))
            for tenant, number in (("a", 1), ("a", 2), ("a", 3), ("b", 1))
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await estimators.run("c", counting("small"), SMALL_BODY) > 0
        gate.set()
        await asyncio.gather(*large)

    try:
        asyncio.run(count_all())
    finally:
        gate.set()
        estimators.close()
    assert done == ["small", "a1", "b1", "a2", "a3"]
