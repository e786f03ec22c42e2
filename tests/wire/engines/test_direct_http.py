"""The client's connections: answers split anywhere, compressed, without a length, 1xx first; and hostile ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import threading
import tracemalloc
import zlib
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NetworkError, ProviderError
from penstock.testing import Upstream
from tests.support.routed_client import GOOD, RoutedClient, asking, events, quick, run, staged, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.certificates import Papers

PIECE = 2**18  # bytes that are inflated at once
MOST_LINES, MOST_MEMBERS = 1000, 1000  # header lines of a head; gzip members of one body
LIMIT = 20.0


def body(text: str = "hello there") -> bytes:
    """An answer to a question, and a list of models: whatever was asked."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps({"id": "1", "model": "m", "choices": choices, "data": [{"id": "m"}]}).encode()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
WORDS = body()
SIZED = HEAD + b"content-length: %d\r\n\r\n%b" % (len(WORDS), WORDS)
CHUNKS = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (20, WORDS[:20], len(WORDS) - 20, WORDS[20:])
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS
CLOSED = HEAD + b"connection: close\r\n\r\n" + WORDS


def packed(data: bytes, head: bytes = HEAD) -> bytes:
    return head + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


class RawServer:
    """Answers each request with these bytes, `step` at a time. `seen` has the requests, `connections` their number."""

    def __init__(self, answer: bytes, step: int = 0, *, close: bool = False) -> None:
        self.answer, self.step, self.close = answer, step or len(answer), close
        self.seen: list[bytes] = []
        self.connections = self.port = 0
        self.tasks: set[asyncio.Task[Any] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                self.seen.append(head + await reader.readexactly(size))
                for at in range(0, len(self.answer), self.step):
                    writer.write(self.answer[at : at + self.step])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.close:
                    break
        writer.close()


@asynccontextmanager
async def serving(
    answer: bytes, step: int = 0, *, close: bool = False
) -> AsyncIterator[tuple[RoutedClient, RawServer]]:
    made = RawServer(answer, step, close=close)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    client = asking_at(f"http://127.0.0.1:{made.port}")
    try:
        yield client, made
    finally:
        await client.aclose()
        server.close()
        await asyncio.gather(*filter(None, made.tasks), return_exceptions=True)


def asking_at(url: str, **options: Any) -> RoutedClient:
    account = {"base_url": f"{url}/v1", "like": "openai-compatible"}
    return RoutedClient(
        {"providers": {"lab": account}, "retries": 0, "breaker": {"failures": 10**6}, "options": options}
    )


async def ask(client: RoutedClient, *, stream: bool = False) -> str:
    return (await turn(await client.open(asking("lab", model="m", stream=stream), options=quick()))).text


WRITTEN = {
    "chunked": CHUNKED,
    "sized": SIZED,
    "closed": CLOSED,
    "told before": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + SIZED,
    "packed": packed(gzip.compress(WORDS)),
    "a comment of 3 MB in its gzip header": packed(
        gzip.compress(WORDS)[:3]
        + b"\x10"
        + gzip.compress(WORDS)[4:10]
        + b"c" * 3_000_000
        + b"\0"
        + gzip.compress(WORDS)[10:]
    ),
}


@pytest.mark.parametrize("step", [0, 1, 7])
@staged
async def test_an_answer_however_it_is_written(step: int) -> None:
    for case, answer in WRITTEN.items():
        if step and len(answer) > 10_000:
            continue
        async with serving(answer, step, close=answer is CLOSED) as (client, server):
            assert [await ask(client) for _ in range(3)] == ["hello there"] * 3, case
            assert server.seen[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:")
            assert server.connections == (3 if answer is CLOSED else 1), case


@staged
async def test_an_answer_that_breaks_off_or_is_none_is_no_answer() -> None:
    cut = [CHUNKED[:place] for place in range(len(HEAD) + 30, len(CHUNKED) - 1, 9)]
    for answer in (*cut, b"SSH-2.0-whatever\r\n\r\n"):
        async with serving(answer, close=True) as (client, _):
            with pytest.raises(ProviderError) as error:
                await ask(client)
            assert error.value.kind in ("network", "malformed"), answer


@staged
async def test_a_second_answer_behind_the_first_is_not_read() -> None:
    """Its status and body would be taken for the first one's; the connection is closed after the answer."""
    second = b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\nevil"
    for answer in (SIZED, CHUNKED):
        async with serving(answer + second) as (client, server):
            assert [await ask(client) for _ in range(2)] == ["hello there"] * 2
            assert (len(server.seen), server.connections) == (2, 2)


class Plain(threading.Thread):
    """A server in a thread: it answers `good` requests of each connection and then, having read one more, hangs up."""

    def __init__(self, good: int, *, hasty: bool = False) -> None:
        super().__init__(daemon=True)
        self.seen: list[bytes] = []
        self.closed = threading.Event()
        self._good, self._hasty = good, hasty
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        with suppress(OSError):
            while True:
                self._serve(self._listening.accept()[0])

    def _serve(self, one: socket.socket) -> None:
        with one:
            for _ in range(self._good):
                self.seen.append(self._read(one))
                one.sendall(SIZED)
            if not self._hasty:
                self.seen.append(self._read(one))
        self.closed.set()

    def _read(self, one: socket.socket) -> bytes:
        data = one.recv(65536)
        while data and len(data.partition(b"\r\n\r\n")[2]) < int(
            (re.findall(rb"content-length: (\d+)", data) or [b"0"])[0]
        ):
            data += one.recv(65536)
        return data

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(5)


@contextmanager
def plain(good: int, *, hasty: bool = False) -> Iterator[Plain]:
    server = Plain(good, hasty=hasty)
    server.start()
    try:
        yield server
    finally:
        server.close()


def _run(scene: Any, loop: str) -> None:
    factory = None if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scene)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_end_that_nobody_has_read_yet_is_found_before_a_request_is_sent(loop: str) -> None:
    async def scene(server: Plain) -> None:
        client = asking_at(server.url)
        assert await ask(client) == "hello there"
        server.closed.wait(5)  # the loop stands still: it has not heard of the end
        assert await ask(client) == "hello there"
        await client.aclose()

    with plain(1, hasty=True) as server:
        _run(scene(server), loop)
    assert len(server.seen) == 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_request_that_may_have_been_begun_is_not_sent_twice(loop: str) -> None:
    """The second request comes over a kept connection, is read, and never answered. A GET may be sent again."""

    async def scene(server: Plain, *, get: bool) -> None:
        client = asking_at(server.url)
        await ask(client)
        if get:
            assert [one.id for one in await client.list_models("lab")] == ["m"]
        else:
            with pytest.raises(NetworkError):
                await ask(client)
        await client.aclose()

    for get, expected in ((False, 2), (True, 3)):
        with plain(1) as server:
            _run(scene(server, get=get), loop)
        assert len([one for one in server.seen if one]) == expected


# ── what is packed ────────────────────────────────────────────────────────────────────────────────


@staged
async def test_what_is_packed_comes_whole() -> None:
    for size in (PIECE - 1, PIECE, PIECE + 1, 3 * PIECE):
        text = "".join(f"{number:x}" for number in range(size // 8)).ljust(size - len(body("")), "x")
        data = body(text[: size - len(body(""))])
        assert len(data) == size
        for pack in (gzip.compress(data), zlib.compress(data), gzip.compress(data[:99]) + gzip.compress(data[99:])):
            async with serving(packed(pack), 1000 if size == PIECE else 0) as (client, server):
                for _ in range(2):
                    assert body(await ask(client)) == data
                assert server.connections == 1, "its connection serves again"


def bomb(piece: bytes, count: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(piece) for _ in range(count)), packer.flush()])


@staged
async def test_a_little_that_unpacks_to_very_much_is_given_up_at_the_limit() -> None:
    async with serving(packed(bomb(bytes(2**20), 300))) as (client, _):
        tracemalloc.start()
        with pytest.raises(ProviderError) as error:
            await ask(client)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert error.value.kind == "malformed"
        assert "larger than 67108864 bytes" in str(error.value)
        assert most < 160 * 2**20


def test_a_stream_that_unpacks_to_very_much_is_taken_in_as_it_is_read() -> None:
    """Nobody reads: little is unpacked. Somebody reads: others have their turn meanwhile."""
    first = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
    data = bomb(b": " + b"x" * (PIECE - 4) + b"\n\n", 60)
    whole = packed(gzip.compress(first) + data, HEAD.replace(b"application/json", b"text/event-stream"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scene() -> None:
        async with serving(whole) as (client, _):
            tracemalloc.start()
            reply = await client.open(asking("lab", model="m"), options=quick())
            for _ in range(200):
                await asyncio.sleep(0)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < 20 * PIECE
            waiting = asyncio.create_task(others())
            await events(reply)
            waiting.cancel()
        assert turns >= 50

    run(scene)


HOSTILE = {
    "empty gzip members": packed(gzip.compress(b"", mtime=0) * (MOST_MEMBERS + 2)),
    "header lines of one name": HEAD + b"a:\r\n" * MOST_LINES + b"content-length: 0\r\n\r\n",
    "header lines": HEAD + b"".join(b"a%d:\r\n" % n for n in range(MOST_LINES)) + b"content-length: 0\r\n\r\n",
    "no gzip": packed(b"no gzip at all"),
    "gzip cut": packed(gzip.compress(WORDS)[:-9]),
    "gzip begun": packed(gzip.compress(b"x")[:5]),
}


def test_what_is_hostile_or_not_packed_as_it_says_is_malformed() -> None:
    found: dict[str, str] = {}

    async def scene() -> None:
        for case, answer in HOSTILE.items():
            async with serving(answer) as (client, _):
                with pytest.raises(ProviderError) as error:
                    await ask(client)
                found[case] = error.value.kind

    run(scene)
    assert found == dict.fromkeys(HOSTILE, "malformed")


# ── addresses and what is said of them ────────────────────────────────────────────────────────────

# Words such as ClientPayloadError, gaierror, ReadTimeout: no class of Python's or of a library's is named to people.
CLASS = re.compile(r"\b(?:[A-Z][a-z]+[A-Z]\w*|\w*(?:Error|Exception|Timeout|error))\b")


@staged
async def test_an_address_with_a_name_and_a_password_is_asked_too() -> None:
    async with serving(SIZED) as (_, server):
        client = asking_at(f"http://user:word@127.0.0.1:{server.port}")
        assert await ask(client) == "hello there"
        await client.aclose()
        assert server.connections == 1


@pytest.mark.parametrize("engine", ["native", "sdk"])
def test_messages_of_a_network_that_fails_say_it_in_words(engine: str, certified: Papers) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
    told: dict[str, str] = {}

    async def scene() -> None:
        async with Upstream(GOOD.disconnect(0)) as up, Upstream(GOOD, tls=certified.server) as safe:
            addresses = {
                "nothing listens there": gone,
                "the host's name is not known": "http://nobody.invalid",
                "TLS failed": up.url.replace("http:", "https:"),
                "its certificate is not trusted": safe.url,
                "the connection to the provider broke": up.url,
            }
            for words, url in addresses.items():
                account = {"base_url": f"{url}/v1", "key": "k"}
                client = RoutedClient({"providers": {"openai": account}, "retries": 0, "engine": engine})
                with pytest.raises(NetworkError) as error:
                    await client.open(asking(), options=quick())
                told[words] = error.value.message

    run(scene)
    assert {words: message for words, message in told.items() if words not in message} == {}
    assert {words: message for words, message in told.items() if CLASS.search(message)} == {}
