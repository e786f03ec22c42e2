"""Recordings in a user's test suite: recorded with an option, replayed without one, with messages that help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Reply, Upstream, scripted
from tests.client.testing.plugin_runner import run_inside
from tests.client.testing.test_pytest_plugin import APP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-planted-0123456789abcdef"
TESTS = """
    import os
    import pytest
    import app

    @pytest.fixture
    def penstock_config():
        url = os.environ["UPSTREAM"]
        return {"providers": {"openai": {"base_url": url + "/v1"}, "anthropic": {"base_url": url + "/v1"}}}

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    QUESTION = os.environ.get("QUESTION", "When is high tide?")

    @pytest.mark.penstock_recording("tapes/tide.json")
    def test_named(penstock_sync_client, penstock_recording):
        assert app.ask(penstock_sync_client, QUESTION) == "At six."
        penstock_recording.assert_call("get_tide", {"day": 1})
        penstock_recording.assert_result("get_tide", "06:12")
        penstock_recording.assert_request_count(2)

    @pytest.mark.penstock_recording
    @pytest.mark.anyio
    @pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5"])
    async def test_async(penstock_client, model):
        async with penstock_client as client:
            assert await app.ask_stream(client, QUESTION, model) == "At six."

    @pytest.mark.penstock_recording
    @pytest.mark.anyio
    async def test_not_closed(penstock_client):
        assert await app.ask_stream(penstock_client, QUESTION) == "At six."

    class TestGroup:
        def test_default(self, penstock_recording, penstock_config):
            with penstock_recording.sync_client(penstock_config) as client:
                assert client.chat("openai/gpt-4o", QUESTION).text == "At six."
"""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with scripted() as up:
        call = Reply.calls([("get_tide", {"day": 1})])
        up.script(lambda seen: call if seen.tools and not seen.results else Reply.text("At six."))
        yield up


def run(folder: Path, up: Upstream | None, *words: str, tests: str = TESTS, **variables: str) -> tuple[int, str]:
    keys = {} if up is None else {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    url = "http://127.0.0.1:9" if up is None else up.url
    done = run_inside(folder, *words, files={"app.py": APP, "test_app.py": tests}, UPSTREAM=url, **keys, **variables)
    return done.code, done.text


def test_record_then_replay(upstream: Upstream, tmp_path: Path) -> None:
    code, text = run(tmp_path, upstream, "--penstock-record=once")
    assert code == 0, text
    assert len(upstream.requests) == 5
    assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json"))
    assert files == [
        "recordings/test_app/TestGroup.test_default.json",
        "recordings/test_app/test_async-anthropic-claude-sonnet-4-5.json",
        "recordings/test_app/test_not_closed.json",
        "tapes/tide.json",
    ]
    assert not any(KEY in path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.json"))
    code, text = run(tmp_path, None)  # no upstream, no keys
    assert code == 0, text
    assert len(upstream.requests) == 5
    code, text = run(tmp_path, upstream, "--penstock-record=all")
    assert (code, len(upstream.requests)) == (0, 10), text


def test_a_request_that_is_not_recorded(upstream: Upstream, tmp_path: Path) -> None:
    run(tmp_path, upstream, "--penstock-record=once", "-k", "test_named")
    code, text = run(tmp_path, None, "-k", "test_named", QUESTION="When is low tide?")
    assert code == 1
    assert 'recorded: "When is high tide?"' in text
    assert 'sent:     "When is low tide?"' in text
    assert "record it: pytest --penstock-record=new 'test_app.py::test_named'" in text
    assert "1 failed" in text
    assert "error" not in text.splitlines()[-1]  # it is said once
    code, text = run(tmp_path, upstream, "--penstock-record=new", "-k", "test_named", QUESTION="When is low tide?")
    assert code == 0, text
    assert len(json.loads((tmp_path / "tapes" / "tide.json").read_text(encoding="utf-8"))["exchanges"]) == 4
    code, text = run(tmp_path, None, "-k", "test_async")
    assert code == 1
    assert "(no such file)" in text
    assert "--penstock-record=once 'test_app.py::test_async[anthropic/claude-sonnet-4-5]'" in text


def test_a_hidden_error_fails_the_test(tmp_path: Path) -> None:
    tests = """
        import pytest

        @pytest.mark.penstock_recording
        def test_hidden(penstock_sync_client):
            with pytest.raises(Exception):
                penstock_sync_client.chat("openai/gpt-4o", "?")
    """
    code, text = run(tmp_path, None, tests=tests)
    assert code == 1
    assert "1 passed, 1 error" in text
    assert "is not in the recording" in text


def test_modes_of_marks_and_settings(upstream: Upstream, tmp_path: Path) -> None:
    """The command line comes before the mark, the mark before the setting."""
    tests = """
        import os
        import pytest

        CONFIG = {"providers": {"openai": {"base_url": os.environ["UPSTREAM"] + "/v1"}}}

        @pytest.mark.penstock_recording("a.json", mode="once", ignore=["temperature"], repeat=True)
        def test_mark(penstock_recording):
            with penstock_recording.sync_client(CONFIG) as client:
                client.chat("openai/gpt-4o", "?", temperature=float(os.environ.get("T", "0")))

        def test_setting(penstock_recording):
            assert penstock_recording.mode == "new"
    """
    ini = "[pytest]\naddopts = -p no:cacheprovider\npenstock_record = new\npenstock_recordings = tapes\n"
    files = {"test_app.py": tests, "pytest.ini": ini}
    done = run_inside(tmp_path, files=files, UPSTREAM=upstream.url, OPENAI_API_KEY=KEY)
    assert done.code == 0, done.text
    done = run_inside(tmp_path, "-k", "mark", files=files, UPSTREAM="http://127.0.0.1:9", T="1")
    assert done.code == 0, done.text
    done = run_inside(
        tmp_path, "-k", "mark", "--penstock-record=all", files=files, UPSTREAM=upstream.url, OPENAI_API_KEY=KEY, T="1"
    )
    assert done.code == 0, done.text
    upstream.assert_request_count(2)
    done = run_inside(tmp_path, "--penstock-record=sometimes", files=files)
    assert done.code == 4
    assert "invalid choice" in done.text


def test_the_environment_for_sdks(upstream: Upstream, tmp_path: Path) -> None:
    tests = """
        import os
        import httpx
        import pytest

        @pytest.mark.penstock_recording
        def test_sdk(penstock_sdk_environment, penstock_recording):
            url = penstock_recording.base_url("openai", upstream=os.environ["UPSTREAM"])
            assert os.environ["OPENAI_BASE_URL"] == url
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "When?"}]}
            answer = httpx.post(url + "/chat/completions", json=body, headers={"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
            assert answer.json()["choices"][0]["message"]["content"] == "At six."
    """
    code, text = run(tmp_path, upstream, "--penstock-record=once", tests=tests)
    assert code == 0, text
    code, text = run(tmp_path, None, tests=tests)
    assert code == 0, text
    upstream.assert_request_count(1)


def test_a_test_without_a_network(tmp_path: Path) -> None:
    tests = """
        import asyncio
        import socket
        import httpx
        import pytest
        import penstock

        def test_local(penstock_no_network, penstock_upstream, penstock_sync_client):
            penstock_upstream.script("At six.")
            assert penstock_sync_client.chat("openai/gpt-4o", "?").text == "At six."
            assert httpx.post(penstock_upstream.base_url("openai") + "/responses", json={"input": "?"}).status_code == 200

        def test_remote(penstock_no_network):
            with pytest.raises(OSError, match="must not connect to 192.0.2.1:443"):
                socket.create_connection(("192.0.2.1", 443), timeout=1)

        def test_hidden(penstock_no_network):
            async def ask():
                config = {"providers": {"openai": {"base_url": "http://192.0.2.1/v1", "key": "k"}}, "retries": 0}
                async with penstock.Client(config, options={"proxy": "none"}) as client:
                    await client.chat("openai/gpt-4o", "?")
            with pytest.raises(penstock.ProviderError):
                asyncio.run(ask())

        def test_after():
            assert "connect" not in vars(socket.socket)
            assert "guarded" not in socket.getaddrinfo.__qualname__
    """
    done = run_inside(tmp_path, files={"test_app.py": tests})
    assert done.code == 1
    assert "4 passed, 2 errors" in done.text, done.text
    assert "the test tried to reach 192.0.2.1:443" in done.text
    assert "the test tried to reach 192.0.2.1:80" in done.text


REMOTE_USES = {  # how a program reaches another machine: what is refused
    "datagram.sendto(b'?', REMOTE)": "send to 192.0.2.1:53",
    "datagram.sendto(b'?', 0, REMOTE)": "send to 192.0.2.1:53",
    "datagram.sendmsg([b'?'], [], 0, REMOTE)": "send to 192.0.2.1:53",
    "datagram.connect(REMOTE)": "connect to 192.0.2.1:53",
    "datagram.connect_ex(REMOTE)": "connect to 192.0.2.1:53",
    "socket.getaddrinfo('api.example.com', 443)": "look up api.example.com",
    "socket.getaddrinfo(host=b'api.example.com', port=443)": "look up api.example.com",
    "socket.gethostbyname('api.example.com')": "look up api.example.com",
    "socket.gethostbyname_ex('api.example.com')": "look up api.example.com",
    "socket.gethostbyaddr('192.0.2.1')": "look up 192.0.2.1",
    "socket.getnameinfo(REMOTE, 0)": "look up 192.0.2.1",
    "socket.create_connection(('api.example.com', 443))": "look up api.example.com",
    "asyncio.run(open_endpoint(REMOTE))": "connect to 192.0.2.1:53",
    "asyncio.run(open_endpoint(('api.example.com', 53)))": "look up api.example.com",
    "asyncio.run(send_from_endpoint(REMOTE))": "send to 192.0.2.1:53",
}
NETWORK_TEST = """
    import asyncio
    import socket
    import pytest

    REMOTE = ("192.0.2.1", 53)

    async def open_endpoint(address):
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=address
        )
        transport.close()

    class Endpoint(asyncio.DatagramProtocol):
        def error_received(self, error):
            self.error = error

    async def send_from_endpoint(address):
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(Endpoint, local_addr=("127.0.0.1", 0))
        transport.sendto(b"?", address)
        transport.close()
        raise protocol.error
"""


def test_datagrams_and_lookups_are_refused(tmp_path: Path) -> None:
    tests = f"""{NETWORK_TEST}
    @pytest.mark.parametrize(("use", "message"), {list(REMOTE_USES.items())!r})
    def test_remote(penstock_no_network, use, message):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
            with pytest.raises(OSError, match="a test must not " + message):
                eval(use, globals(), dict(datagram=datagram))
    """
    done = run_inside(tmp_path, files={"test_app.py": tests})
    assert f"{len(REMOTE_USES)} passed, {len(REMOTE_USES)} errors" in done.text, done.text


def test_datagrams_and_lookups_on_this_machine_work(tmp_path: Path) -> None:
    tests = f"""{NETWORK_TEST}
    def test_local(penstock_no_network):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        ):
            receiver.bind(("127.0.0.1", 0))
            receiver.settimeout(30)
            sender.sendto(b"1", receiver.getsockname())
            sender.sendmsg([b"2"], [], 0, receiver.getsockname())
            sender.connect(receiver.getsockname())
            sender.send(b"3")
            sender.sendmsg([b"4"])
            assert [receiver.recv(9) for _ in range(4)] == [b"1", b"2", b"3", b"4"]
            asyncio.run(open_endpoint(receiver.getsockname()))
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with first, second:
            first.sendmsg([b"5"])
            assert second.recv(9) == b"5"
        assert socket.getaddrinfo("localhost", 80)
        assert socket.getaddrinfo(None, 80)
        assert socket.getaddrinfo("192.0.2.1", 80)  # no resolver is asked
        assert socket.gethostbyname("127.0.0.1") == "127.0.0.1"
    """
    done = run_inside(tmp_path, files={"test_app.py": tests})
    assert "1 passed" in done.text, done.text
    assert "error" not in done.text, done.text


def test_help_and_markers(tmp_path: Path) -> None:
    done = run_inside(tmp_path, "--help", files={})
    assert "--penstock-record={none,once,new,all}" in done.text
    done = run_inside(tmp_path, "--markers", files={})
    assert "@pytest.mark.penstock_recording(path, mode" in done.text
