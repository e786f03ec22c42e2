"""Counts of requests: what is refused, what a provider's count may be, and whose count waits for whose."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.estimates import hold_large_counts
from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "openai-chat/text"
SAID = {"role": "user", "content": "Low water at noon."}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway() as (running, _):
        yield running.url


@each(
    "path, body, said",
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
)
def test_what_cannot_be_counted_is_refused_with_its_place(url: str, path: str, body: Any, said: str) -> None:
    reply = post(url + path, json=body)
    assert reply.status_code == 400
    assert said in reply.text


@each("fields", [{"items": ["a"]}, {"messages": [{"role": 1, "content": "a"}]}])
def test_a_key_counts_only_for_its_models(fields: dict[str, Any]) -> None:
    keys = {"one": {"hash": hash_key("pk-one-000000"), "models": ["anthropic/*"]}}
    with gateway(keys=keys) as (running, _):
        for model, status in ((MODEL, 403), ("anthropic/text", 200)):
            body = {"model": model, **fields}
            reply = post(f"{running.url}/vscode/count", json=body, headers={"x-penstock-key": "pk-one-000000"})
            assert reply.status_code == status


COUNTS: dict[bytes, str] = {
    b'{"input_tokens": 42}': "actual", b'{"input_tokens": 9007199254740991}': "actual",
    **dict.fromkeys((
        b'{"input_tokens": -5}', b'{"input_tokens": 0}', b'{"input_tokens": 100000000000000000000}',
        b'{"input_tokens": 9007199254740992}', b'{"input_tokens": "many"}', b'{"input_tokens": 1.5}', b"[]",
        b"<html>", b'{"input_tokens": 4', b"", b"\xff", b"[" * 5000,
    ), "estimated"),
}  # fmt: skip


def test_a_providers_count_that_cannot_be_right_is_not_used() -> None:
    body = {"model": "anthropic/text", "messages": [SAID], "max_tokens": 9}
    with gateway() as (running, up):
        for said, method in COUNTS.items():
            up.script(Reply.body(said))
            reply = post(f"{running.url}/v1/messages/count_tokens", json=body)
            assert (reply.status_code, reply.headers["x-penstock-tokens-method"]) == (200, method), said
            if method == "estimated":
                assert 5 < reply.json()["input_tokens"] < 50


# ── whose count waits for whose ───────────────────────────────────────────────────────────────────


def test_small_counts_do_not_wait_for_large_ones_and_tenants_take_turns() -> None:
    gate = threading.Event()
    keys = {name: {"hash": hash_key(f"pk-{name}-000000")} for name in "abc"}
    with gateway(keys=keys) as (running, _):
        asked, made = hold_large_counts(running, gate)

        def count(name: str, words: int) -> int:
            body = {"model": MODEL, "messages": [{"role": "user", "content": "tide " * words}]}
            headers = {"x-api-key": f"pk-{name}-000000"}
            return post(f"{running.url}/v1/messages/count_tokens", json=body, headers=headers).status_code

        def all_asked(number: int) -> bool:
            return len(asked) == number

        large = [threading.Thread(target=count, args=(name, 20_000)) for name in "aaab"]
        for place, thread in enumerate(large, 1):
            thread.start()
            until(partial(all_asked, place))
        assert count("c", 3) == 200
        gate.set()
        for thread in large:
            thread.join(30)
    assert made == ["c", "a", "b", "a", "a"]
