"""`SyncClient`: the client without `await`."""

from __future__ import annotations

import time

import pytest

from penstock import events as ev
from penstock.client import SyncClient
from penstock.errors import ProviderError
from penstock.testing import Reply, play, scripted
from tests.wire.engines.router_setup import KEY

TEXT = Reply.of("openai-chat", play("text"))
WHOLE = Reply.of("openai-chat", play("text"), stream=False)


def test_the_same_without_await() -> None:
    with (
        scripted(TEXT) as up,
        SyncClient({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": KEY}}}, env={}) as client,
    ):
        found = list(client.chat_stream("openai/gpt-4o", "?"))
        assert isinstance(found[0], ev.Start)
        assert isinstance(found[-1], ev.Finish)
        up.script(WHOLE)
        assert client.chat("openai/gpt-4o", "?").text
        up.script(Reply.body({"data": [{"id": "m"}]}))
        assert [one.id for one in client.list_models("openai")] == ["m"]
        up.script(Reply.error("openai-chat", 400, "no"))
        with pytest.raises(ProviderError):
            client.chat("openai/gpt-4o", "?")


def test_leaving_a_stream_early_closes_it() -> None:
    slow = TEXT.slow(0.05)
    with (
        scripted(slow) as up,
        SyncClient({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": KEY}}}, env={}) as client,
    ):
        for _ in client.chat_stream("openai/gpt-4o", "?"):
            break
        end = time.monotonic() + 5
        while not up.requests[0].finished.is_set() and time.monotonic() < end:
            time.sleep(0.01)  # the event belongs to the loop of another thread
        assert up.requests[0].sent < len(slow.data)
