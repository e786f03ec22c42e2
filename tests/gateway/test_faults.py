"""What goes wrong upstream, as a client sees it: the right end in its own dialect, nothing leaked, a row in the journal."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, encode_events, play
from tests.support.client_requests import CALLING, ask, read
from tests.support.gateway import gateway, settled, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

UPSTREAMS = ("openai-chat", "anthropic", "responses")
SCRIPT = play("tools", id="one", model="m", created=7)
# Gemini says UNAVAILABLE of a network that broke, which is read as overloaded.
BROKEN = frozenset({"network", "truncated", "server", "other", "timeout", "malformed", "overloaded"})


# Our own server, and any other, which has only ASGI's ways.
SERVERS = [pytest.param(False, id="own"), pytest.param(True, id="plain", marks=pytest.mark.nightly)]


@pytest.fixture(scope="module", params=SERVERS)
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Upstream]]:
    quick = {"timeouts": {"first_byte": 0.15, "between_bytes": 0.15}}
    with gateway(Reply.no_response(), options=quick, plain=request.param) as found:
        yield found


@pytest.fixture
def both(made: tuple[Running, Upstream]) -> tuple[Running, Upstream]:
    """The gateway, which knows nothing of faults before this test, and its upstream."""
    made[0].close_circuits()
    return made


def ended(client: str, reply: Any) -> str:
    """How an answer ended for its client."""
    if reply.status_code != 200:
        assert reply.headers["content-type"] == "application/json"
        assert "error" in reply.text
        return f"status {reply.status_code}"
    end = read(client, reply.content)[-1]
    return end.kind if isinstance(end, ev.Fault) else f"finish {end.reason}"


@pytest.mark.parametrize("client", CALLING)
def test_a_cut_at_every_frame(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    before, problems = running.tasks() + 1, []  # with the task that waits
    for upstream in UPSTREAMS:
        whole = Reply.of(upstream, SCRIPT)
        places = list(accumulate(len(chunk) for chunk in encode_events(upstream, SCRIPT)))[:-2]
        running.close_circuits()
        for place in (0, *places, places[-1] - 3):
            up.script(whole.disconnect(after=place))
            found = ended(client, ask(running.url, client, f"{upstream}/tools"))
            if found not in BROKEN and not found.startswith("status 50"):
                problems.append((upstream, place, found))
        until(running, lambda: settled(running) and running.tasks() <= before)
        row = running.rows()[0]
        assert (row.status, row.fault != "", row.protocol) == ("fault", True, client)
    assert problems == []


# What the vendor of a client sends in place of a status of Chat's; a bad gateway is known to Chat's clients alone.
VENDORS = {
    ("responses", "overloaded"): 503, ("gemini", "overloaded"): 503, ("gemini", "auth"): 400,
    ("responses", "server"): 500, ("gemini", "server"): 500, ("anthropic", "server"): 500,
}  # fmt: skip


REFUSALS: dict[str, tuple[Reply, int, str]] = {
    "429": (Reply.rate_limit("openai-chat", retry_after=7), 429, "rate-limit"),
    "500": (Reply.error("openai-chat", 500), 500, "server"),
    "529": (Reply.error("openai-chat", 529, kind="overloaded"), 529, "overloaded"),
    "401": (Reply.error("openai-chat", 401), 401, "auth"),
    "400": (Reply.error("openai-chat", 400, "context length exceeded", code="context_length_exceeded"), 400, "too-large"),
    "html": (Reply.body(b"<html>bad gateway</html>", status=502), 502, "server"),
    "nothing": (Reply.no_response(), 502, "network"),
    "noise": (Reply.body(b"not what you think"), 502, "malformed"),
}  # fmt: skip


@pytest.mark.parametrize("client", CALLING)
def test_a_refusal_before_the_stream_has_its_status(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    problems = []
    for name, (reply, known, kind) in REFUSALS.items():
        for stream in (True, False):
            running.close_circuits()
            up.script(reply)
            found = ask(running.url, client, "openai-chat/text", stream=stream)
            row = running.rows()[0]
            if (client, kind, stream) == ("responses", "too-large", True):  # OpenAI tells it inside the stream
                right = (found.status_code, ended(client, found), row.http, row.fault) == (200, kind, 200, kind)
            else:
                status = VENDORS.get((client, kind), known)
                right = (found.status_code, found.headers["content-type"]) == (status, "application/json")
                right = right and (status != 429 or found.headers["retry-after"] == "7")
                right = right and (row.http, row.status) == (status, "refused")
                right = right and row.fault in {kind, "truncated", "server", "invalid"}
            if not right:
                problems.append((name, stream, found.status_code, found.text, row.http, row.status, row.fault))
    assert problems == []


@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "responses"])
def test_a_stall_ends_in_the_dialect(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    for upstream in ("openai-chat", "anthropic"):
        up.script(Reply.of(upstream, SCRIPT).stall(after=len(b"".join(encode_events(upstream, SCRIPT)[:4]))))
        assert ended(client, ask(running.url, client, f"{upstream}/tools")) in BROKEN
        up.script(Reply.of(upstream, SCRIPT).stall(after=0))
        assert ended(client, ask(running.url, client, f"{upstream}/tools")) == "status 504"
    until(running, lambda: settled(running))


@pytest.mark.parametrize("client", CALLING)
def test_garbage_costs_itself_and_not_the_stream(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    frames = encode_events("anthropic", SCRIPT)
    up.script(Reply.of("anthropic", SCRIPT).garbage(after=len(b"".join(frames[:4])), noise=b"data: {]garbage\n\n"))
    assert ended(client, ask(running.url, client, "anthropic/tools")) == "finish calls"


@pytest.mark.parametrize("client", CALLING)
def test_an_error_in_mid_stream_is_told_in_the_dialect(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    for upstream in UPSTREAMS:
        up.script(Reply.of(upstream, play("error", id="one", model="m", created=7)))
        reply = ask(running.url, client, f"{upstream}/error")
        assert reply.status_code == 200
        assert "overloaded" in reply.text
        assert isinstance(read(client, reply.content)[-1], ev.Fault)


def test_silence_is_kept_alive_and_a_late_error_is_in_band() -> None:
    quick = {"ping": 0.02}
    with gateway(Reply.error("openai-chat", 500).delayed(0.2), serve=quick) as (running, up):
        reply = ask(running.url, "anthropic", "openai-chat/text")
        assert reply.status_code == 200  # the head had to go out
        assert reply.content.startswith(b": ")
        assert isinstance(read("anthropic", reply.content)[-1], ev.Fault)
        up.script(Reply.of("openai-chat", SCRIPT).slow(0.05))
        for client in ("openai-chat", "anthropic", "gemini"):
            reply = ask(running.url, client, "openai-chat/tools")
            sign = b"\n\n\n" if client == "gemini" else b"\n: "  # Google's clients know no comments
            assert reply.content.count(sign) + reply.content.startswith(b": ") >= 3
            assert not isinstance(read(client, reply.content)[-1], ev.Fault)
