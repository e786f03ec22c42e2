"""State of earlier turns is loaded before a request is converted: awaited where the store can be, once, or not at all."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.messages import convert, convert_request, read_request, state_keys
from penstock.stores import MemoryStore
from penstock.testing import Reply, scripted
from tests.support.each_case import each
from tests.support.thinking_turn import CALLING, THOUGHT, USER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CALL = {"id": "toolu_1", "type": "function", "function": {"name": "read_gauge", "arguments": "{}"}}
BODY: dict[str, Any] = {
    "model": "claude", "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                                    {"role": "tool", "tool_call_id": "toolu_1", "content": "3.2"}],
    "tools": [{"type": "function", "function": {"name": "read_gauge", "parameters": {"type": "object"}}}],
}  # fmt: skip


class AwaitedStore:
    """A store behind a network: what it is asked for comes later, and nobody may wait for it on the loop."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.asked: list[list[str]] = []

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        raise AssertionError(tenant, list(keys))

    async def aget(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        self.asked.append(list(keys))
        await asyncio.sleep(0)
        return {key: self.rows[f"{tenant}/{key}"] for key in keys if f"{tenant}/{key}" in self.rows}

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        self.rows.update({f"{tenant}/{key}": value for key, value in rows.items()})


def test_a_store_that_can_be_awaited_is_never_asked_on_the_way() -> None:
    async def talk(store: AwaitedStore, url: str) -> None:
        config = {"providers": {"up": {"base_url": url, "like": "anthropic", "key": "x"}}, "retries": 1}
        async with Client(config, store=store, tenant="t") as client:
            await client.chat({**BODY, "model": "up/claude", "messages": [USER]})
            await client.chat({**BODY, "model": "up/claude"})

    store = AwaitedStore()
    busy = Reply.body({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, status=529)
    replies = [Reply.of("anthropic", CALLING, stream=False), busy, Reply.of("anthropic", CALLING, stream=False)]
    with scripted(*replies) as upstream:
        asyncio.run(talk(store, upstream.url))
    assert THOUGHT in upstream.requests[-1].json["messages"][1]["content"]
    assert len(store.asked) == 1  # not for the request that nobody has answered yet, and once for both attempts


@each("source", ["openai-chat", "vscode"])
def test_loading_before_is_the_same_as_reading_on_the_way(source: str) -> None:
    """Keys are those after the client's own forms are undone: here the prefix of call ids that a host sees."""
    store = MemoryStore(time.monotonic)
    store.put("t", {})
    bodies = {
        "openai-chat": BODY,
        "vscode": {"messages": [
            {"role": 1, "content": [{"value": "How high?"}]},
            {"role": 2, "content": [{"callId": "gw-toolu_1", "name": "read_gauge", "input": {}}]},
            {"role": 1, "content": [{"callId": "gw-toolu_1", "content": [{"value": "3.2"}]}]},
        ]},
    }  # fmt: skip
    seen: list[list[str]] = []

    class Listening(MemoryStore):
        def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
            seen.append(list(keys))
            return super().get(tenant, seen[-1])

    convert(bodies[source], source, "anthropic", store=Listening(time.monotonic), tenant="t")
    assert [state_keys(read_request(bodies[source], source), source)] == seen
    assert seen == [state_keys(read_request(BODY, "openai-chat"), "openai-chat")]  # the same call, whoever asks


def test_what_was_loaded_is_used_and_no_store_is_asked() -> None:
    store = AwaitedStore()
    request = read_request(BODY, "openai-chat")
    made = convert_request(request, "openai-chat", "anthropic", state={}, store=store)
    assert "thinking" not in str(made.body["messages"])
