"""What bodies over HTTP may hold in memory: bounded for all of them together, and free again afterwards."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import process
from tests.support.client_requests import metric
from tests.support.gateway import SERVERS, answer, gateway
from tests.support.openresponses import LIMIT, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.testing import ReceivedRequest, Reply, Upstream
    from tests.support.gateway import Running


MB = 10**6
LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
SMALL = {"pace": 0.0, "body": 200_000, "body_total": 500_000}
DIALECTS: dict[str, Callable[[Any], str]] = {
    "/v1/chat/completions": lambda body: body["error"]["type"],
    "/v1/messages": lambda body: body["error"]["type"],
    "/v1beta/models/openai-chat/text:generateContent": lambda body: body["error"]["status"],
}


def stalled(seen: ReceivedRequest) -> Reply:
    """Half of an answer: it has not said how it ends, so that nobody stops waiting for the rest."""
    made = answer(seen)
    return made.stall(after=len(made.data) // 2)


def silent(seen: ReceivedRequest) -> Reply:
    """The head of an answer, and nothing of it."""
    return answer(seen).stall()


def asking(url: str, body: bytes, *more: str) -> socket.socket:
    """A connection that has sent a whole request."""
    made = begin(url, "/v1/chat/completions", len(body), 0, *more)
    made.sendall(body)
    return made


def chat(size: int, **more: Any) -> bytes:
    said = {"role": "user", "content": "x" * size}
    return json.dumps({"model": "openai-chat/text", "messages": [said], **more}).encode()


def begin(url: str, path: str, size: int, sent: int, *more: str) -> socket.socket:
    """A connection that has sent so much of a body of `size` bytes."""
    where = httpx.URL(url)
    made = socket.create_connection((where.host, where.port or 0), timeout=LIMIT)
    head = [f"POST {path} HTTP/1.1", f"host: localhost:{where.port}", f"content-length: {size}", *more]
    made.sendall("\r\n".join([*head, "", ""]).encode() + b"x" * sent)
    return made


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One whole answer with a length: its status, headers and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or pytest.fail("the connection was closed")
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536) or pytest.fail("the connection was closed")
    return int(status.split()[1]), headers, body


def used(running: Running) -> int:
    return int(metric(running.url, "body_bytes"))


@pytest.fixture(scope="module", params=SERVERS)
def small(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Upstream]]:
    """A gateway of small limits."""
    with gateway(serve=SMALL, plain=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def own() -> Iterator[tuple[Running, Upstream]]:
    with gateway(serve=SMALL) as found:
        yield found


# ── one body too many ─────────────────────────────────────────────────────────────────────────────


def test_the_largest_unfinished_body_is_refused(small: tuple[Running, Upstream]) -> None:
    """The others may be finished, and a small request is served as if nothing were."""
    running, up = small
    up.script(answer)
    whole = chat(100_000)
    for path, kind in DIALECTS.items():
        with ExitStack() as stack:
            others = [stack.enter_context(begin(running.url, "/v1/chat/completions", len(whole), 0)) for _ in range(3)]
            for connection in others:
                connection.sendall(whole[:-1])
            until(lambda: used(running) == 3 * (len(whole) - 1))
            largest = stack.enter_context(begin(running.url, path, 180_000, 170_000))
            until(lambda: used(running) > 450_000)
            last = stack.enter_context(begin(running.url, "/v1/chat/completions", 100_000, 60_000))
            status, headers, body = read_answer(largest)
            assert status == 503
            assert int(headers["retry-after"]) >= 1
            assert "serve.body_total" in json.loads(body)["error"]["message"]
            assert kind(json.loads(body)) in {"overloaded_error", "UNAVAILABLE", "service_unavailable_error"}
            assert httpx.post(f"{running.url}/v1/chat/completions", content=chat(10), timeout=LIMIT).status_code == 200
            for connection in others:
                connection.sendall(whole[-1:])
                assert read_answer(connection)[0] == 200
            last.close()
            until(lambda: used(running) == 0)
    assert {row.http for row in running.rows() if row.fault == "overloaded"} == {503}


def test_a_whole_body_is_refused_if_nothing_can_be_given_up(own: tuple[Running, Upstream]) -> None:
    """Requests that wait for their provider go on; one more is refused, until one of them is over. A small body that
    has come whole is never refused.
    """
    running, up = own
    up.script(silent)
    with ExitStack() as stack:
        whole, little = chat(150_000, stream=True), chat(10, stream=True)
        turns = [stack.enter_context(asking(running.url, whole)) for _ in range(3)]
        until(lambda: used(running) == 3 * len(whole))
        assert httpx.post(f"{running.url}/v1/chat/completions", content=whole, timeout=LIMIT).status_code == 503
        assert used(running) == 3 * len(whole)
        turns[0].close()
        until(lambda: used(running) == 2 * len(whole))
        stack.enter_context(asking(running.url, whole))
        until(lambda: used(running) == 3 * len(whole))
        for _ in range(3):
            stack.enter_context(asking(running.url, little + b" " * 50_000))
        until(lambda: used(running) == 3 * (len(whole) + len(little) + 50_000))
    until(lambda: used(running) == 0)


def test_a_body_counts_no_more_once_its_provider_answers(own: tuple[Running, Upstream]) -> None:
    """Long answers do not keep others from asking."""
    running, up = own
    up.script(stalled)
    with ExitStack() as stack:
        whole = chat(150_000, stream=True)
        client = stack.enter_context(httpx.Client(base_url=running.url, timeout=LIMIT))
        for _ in range(6):
            turn = stack.enter_context(client.stream("POST", "/v1/chat/completions", content=whole))
            assert turn.status_code == 200
            until(lambda: used(running) == 0)


def test_one_body_of_the_largest_size_always_fits() -> None:
    whole = chat(150_000)
    with gateway(serve={"pace": 0.0, "body": 200_000, "body_total": 1}) as (running, _):
        assert httpx.post(f"{running.url}/v1/chat/completions", content=whole, timeout=LIMIT).status_code == 200
        until(lambda: used(running) == 0)


def test_a_packed_body_counts_as_what_it_is_unpacked(own: tuple[Running, Upstream]) -> None:
    running, up = own
    up.script(silent)
    packed = gzip.compress(chat(180_000, stream=True))
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(asking(running.url, packed, "content-encoding: gzip"))
        until(lambda: used(running) > 360_000)
        client = stack.enter_context(httpx.Client(base_url=running.url, timeout=LIMIT))
        client.headers["content-encoding"] = "gzip"
        assert client.post("/v1/chat/completions", content=packed).status_code == 503
        bomb = gzip.compress(b" " * 200_001)
        assert client.post("/v1/chat/completions", content=bomb).status_code in {413, 503}
    until(lambda: used(running) == 0)


def test_a_response_in_the_background_counts_until_it_is_done(own: tuple[Running, Upstream]) -> None:
    running, up = own
    up.script(stalled)
    asked = {"model": "openai-chat/text", "input": "x" * 50_000, "background": True}
    made = httpx.post(f"{running.url}/v1/responses", json=asked, timeout=LIMIT).json()
    assert made["status"] == "queued"
    assert used(running) > 50_000
    httpx.post(f"{running.url}/v1/responses/{made['id']}/cancel", timeout=LIMIT)
    until(lambda: used(running) == 0)


def test_a_client_that_leaves_gives_its_bytes_back(own: tuple[Running, Upstream]) -> None:
    for path in ("/v1/chat/completions", "/v1/messages/count_tokens"):
        with begin(own[0].url, path, 100_000, 50_000):
            until(lambda: used(own[0]) == 50_000)
        until(lambda: used(own[0]) == 0)


# ── slow, and in small pieces ─────────────────────────────────────────────────────────────────────


def test_a_body_that_does_not_come_is_given_up() -> None:
    """Also one of which not even the first byte comes."""
    with gateway(serve={"pace": 0.0, "read": 0.3}) as (running, _):
        for sent in (0, 10):
            with begin(running.url, "/v1/chat/completions", 100, sent) as connection:
                assert read_answer(connection)[0] == 408
            assert used(running) == 0


def test_a_body_may_come_byte_by_byte(own: tuple[Running, Upstream]) -> None:
    running, up = own
    up.script(answer)
    wire = b"".join(b"1\r\n%c\r\n" % one for one in chat(100_000)) + b"0\r\n\r\n"
    where = httpx.URL(running.url)
    with socket.create_connection((where.host, where.port or 0), timeout=LIMIT) as connection:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head + wire)
        assert read_answer(connection)[0] == 200


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


@LINUX
def test_many_unfinished_bodies_leave_memory_bounded(tmp_path: Path) -> None:
    """Ten clients, each with 30 MB of a body that is not whole: 300 MB without a limit."""
    config = f"[serve]\npace = 0.0\nbody_total = {60 * MB}\n"
    with process.gateway(tmp_path, config) as running, ExitStack() as stack:
        asked = {"model": "replay/text", "messages": []}
        assert httpx.post(f"{running.base}/v1/chat/completions", json=asked, timeout=LIMIT).status_code == 200
        before = most = running.memory
        for _ in range(10):
            stack.enter_context(begin(running.base, "/v1/chat/completions", 31 * MB, 30 * MB))
            most = max(most, running.memory)
        assert most - before < 150 * MB, f"from {before / MB:.0f} to {most / MB:.0f} MB"
        assert httpx.post(f"{running.base}/v1/chat/completions", json=asked, timeout=LIMIT).status_code == 200


def test_a_body_that_nobody_reads_yet_waits_outside(own: tuple[Running, Upstream]) -> None:
    """A second request on a connection whose first is being answered: the server reads only a little of its body."""
    running, up = own
    up.script(stalled)
    with begin(running.url, "/v1/chat/completions", 100, 0) as connection:
        connection.sendall(chat(0, stream=True).ljust(100))
        assert connection.recv(1)
        until(lambda: used(running) == 0)  # its provider answers
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (30 * MB)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.sendall(head + b"x" * (30 * MB))
        assert used(running) == 0
