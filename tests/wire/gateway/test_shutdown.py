"""The end of a server: streams are let finish, those that take too long are called off, and nothing is forgotten."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from penstock import events as ev
from penstock._store.journal import JournalEntry, JournalStore
from penstock.testing import Reply, scripted
from tests.support.process import LIMIT, gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
ASK = {"model": "replay/reasoning", "stream": True, "messages": [{"role": "user", "content": "?"}]}


def turns(server: Gateway) -> list[JournalEntry]:
    rows = JournalStore(server.data / "journal.sqlite", time.time, read_only=True)
    found = [turn for _, turn in rows.turns()]
    rows.close()
    return found


def test_a_stream_is_let_finish(tmp_path: Path) -> None:
    with gateway(tmp_path, "[serve]\ndrain = 20.0\n") as server, httpx.Client(timeout=LIMIT) as client:
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=ASK) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            server.process.send_signal(signal.SIGTERM)
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")
        assert server.process.wait(LIMIT) in {-signal.SIGTERM, 0}
    assert [(turn.status, turn.finish) for turn in turns(server)] == [("finish", "stop")]


@pytest.mark.parametrize("twice", [False, True], ids=["out of time", "asked twice"])
def test_a_stream_that_takes_too_long_is_called_off_and_noted(tmp_path: Path, twice: bool) -> None:
    events: list[ev.AnyEvent] = [ev.Start(), ev.TextStart(0), ev.TextDelta(0, "a"), ev.TextDelta(0, "b")]
    config = f"[serve]\ndrain = {600 if twice else 1}\n[providers.slow]\nkey = 'x'\nbase_url = "
    with (
        scripted(Reply.of("openai-chat", events).stall(after=400)) as upstream,
        gateway(tmp_path, f"{config}'{upstream.url}'") as server,
        httpx.Client(timeout=LIMIT) as client,
    ):
        body = {**ASK, "model": "slow/m"}
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=body) as stream:
            chunks = stream.iter_bytes()
            next(chunks)
            server.process.send_signal(signal.SIGINT)
            if twice:
                _closed(server.base)
                server.process.send_signal(signal.SIGINT)
            with suppress(httpx.TransportError):
                list(chunks)
        server.process.wait(LIMIT)
    [turn] = turns(server)
    assert (turn.provider, turn.model, turn.stream) == ("slow", "m", True)
    assert turn.status != "finish"


def _closed(base: str) -> None:
    """Wait until nobody else is let in: the first signal was heard."""
    ends = time.monotonic() + LIMIT
    with suppress(httpx.TransportError):
        while time.monotonic() < ends:
            httpx.get(f"{base}/healthz", timeout=1)
