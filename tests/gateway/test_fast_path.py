"""The fast path for text, through a real gateway: with it and without, clients get the same bytes, journals the same rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import ASKING, ask
from tests.support.gateway import PROVIDERS, gateway, spoken_protocol, without_fast_path
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running

TALKING = tuple(name for name in PROVIDERS if name != "completions")
# What differs from one answer to the next: ids that the gateway makes, and times.
MADE = re.compile(
    rb'"[a-z]+[-_][0-9a-f]{12,}[^"]*"|"[0-9a-f]{32}"|"(?:created|created_at|completed_at|createdAt|[a-z_]+_duration)": ?"?[0-9TZ:.+-]+"?'
)
UNTOLD = {"time", "duration", "ttft", "request_id"}


def long_answer(seen: ReceivedRequest) -> Reply:
    """Thoughts, two texts and a call between them, each in many pieces."""
    protocol, _, path = seen.path.lstrip("/").partition("/")
    words = [f" word{number}" if number % 7 else ' "é"\n' for number in range(60)]
    pieces = ['{"station": "', *(f"gate {number} " for number in range(20)), '"}']
    events: list[Any] = [
        ev.Start("one", "upstream-model", 7),
        ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.CallStart(1, "call_1", "read_gauge"), *(ev.CallDelta(1, piece) for piece in pieces),
        ev.CallEnd(1, "call_1", "read_gauge", "".join(pieces)),
        ev.Usage(12, 90), ev.Finish("calls"),
    ]  # fmt: skip
    return Reply.of(spoken_protocol(protocol, path), events, stream=True)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(long_answer, features={"estimates": False}) as found:  # which are made of a sample of turns
        yield found


def outcome(running: Running, client: str, provider: str) -> tuple[bytes, dict[str, Any]]:
    """What the client got, and what the journal says of it, without what no two answers share."""
    before = len(running.rows())
    reply = ask(running.url, client, f"{provider}/tools")
    assert reply.status_code == 200, reply.text
    until(lambda: len(running.rows()) > before)
    told = {key: value for key, value in msgspec.to_builtins(running.rows()[0]).items() if key not in UNTOLD}
    told["bytes_out"] -= len(reply.content)  # which holds times of several lengths
    return MADE.sub(b"?", reply.content), told


@pytest.mark.parametrize("client", [name for name in ASKING if name != "completions"])
def test_bytes_and_journal_are_the_same(both: tuple[Running, Upstream], client: str) -> None:
    problems = []
    for provider in TALKING:
        fast = outcome(both[0], client, provider)
        with without_fast_path():
            normal = outcome(both[0], client, provider)
        if fast != normal or fast[1]["output"] != 90:
            problems.append((provider, fast, normal))
    assert problems == []
