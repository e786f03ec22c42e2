"""Long texts are redacted in threads: some take long to search, and the event loop serves all requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._inspector import api_router
from penstock._inspector.api_router import MAX_INLINE_JSON
from penstock._redaction import find_secrets
from tests.gateway.client_requests import get, post
from tests.inspector import paused_upstream
from tests.inspector.conftest import inspected
from tests.inspector.event_feed import Reader, watching
from tests.inspector.paused_upstream import going, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.slow, pytest.mark.row("V1")]

NAMES = "A_KEY=" * 300


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> dict[bool, list[int]]:
    """How long the texts are that the inspector's answers search, by whether it is done on an event loop."""
    lengths: dict[bool, list[int]] = {True: [0], False: [0]}

    def search(text: str, secrets: Iterable[str] = ()) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            lengths[False].append(len(text))
        else:
            lengths[True].append(len(text))
        return find_secrets(text, secrets)

    monkeypatch.setattr(api_router, "find_secrets", search)
    api_router.contains_secret.cache_clear()
    return lengths


@pytest.mark.parametrize("path", ["turns", "live"])
def test_rows_with_long_names_are_redacted_in_a_thread(searched: dict[bool, list[int]], path: str) -> None:
    with inspected() as gateway, watching(gateway.url) as reader:
        for number in range(12):
            body = {"model": f"{NAMES}{number}", "messages": [{"role": "user", "content": f"hi {number}"}]}
            post(f"{gateway.url}/v1/chat/completions", json=body, headers={"user-agent": NAMES})
        reader.until(lambda: len(reader.rows) >= 12)
        if path == "live":
            with watching(gateway.url) as late:
                late.until(lambda: len(late.rows) >= 12)
        else:
            assert get(f"{gateway.url}/inspector/{path}").status_code == 200
        assert max(searched[True]) <= MAX_INLINE_JSON
        assert max(searched[False]) > MAX_INLINE_JSON


def test_a_long_update_of_a_turn_is_redacted_in_a_thread(
    searched: dict[bool, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"word{number} {'A_KEY=' * 100}" for number in range(40)]
    deltas = [ev.TextDelta(0, word) for word in words]
    events = [ev.Start(id="1", model="m"), ev.TextStart(0), *deltas, ev.TextEnd(0), ev.Finish("stop")]
    monkeypatch.setattr(paused_upstream, "TEXT", events)
    with waiting() as (gateway, gate), watching(gateway.url) as reader, going(gateway, gate, reader) as row:
        with Reader(f"{gateway.url}/inspector/turns/{row['id']}/follow") as follower:
            follower.until(lambda: follower.named("trace"))
            gate.open.set()
            follower.until(lambda: follower.over)
        assert "word39" in str(follower.named("more"))
        assert max(searched[True]) <= MAX_INLINE_JSON
        assert max(searched[False]) > MAX_INLINE_JSON
