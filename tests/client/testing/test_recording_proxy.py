"""The recording proxy: programs with the SDKs of vendors are recorded and replayed by a server on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.errors import InputError
from penstock.testing import Cassette, LoggedRequest, Reply, Upstream, play, scripted, wire
from tests.client.testing.anew import anew
from tests.client.testing.test_sdk_clients import SDKS
from tests.support.client_parts import OpenExchange
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
KEY = "sk-planted-0123456789abcdef"
ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "When?"}], "stream": True}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with scripted(keep_alive=False) as up:
        yield up


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tide.json"


def post(base_url: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
    return httpx.post(f"{base_url}{path}", json=ASKED if body is None else body, timeout=10, **more)


STREAMS = {
    "openai": ("/chat/completions", "openai-chat"),
    "anthropic": ("/v1/messages", "anthropic"),
    "gemini": ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "gemini"),
    "bedrock": ("/model/m/converse-stream", "bedrock"),
    "cohere": ("/v2/chat", "cohere"),
    "ollama": ("/api/chat", "ollama"),
}


@each("name", STREAMS)
@anew
def test_bytes_are_replayed_as_they_came(upstream: Upstream, path: Path, name: str) -> None:
    target, protocol = STREAMS[name]
    data = wire("parallel-tools", protocol)
    upstream.script(Reply.of(protocol, play("parallel-tools")))
    got = []
    for mode in ("once", "none"):
        with Cassette(path, mode) as cassette:
            response = post(cassette.base_url(name, upstream=upstream.url), target)
            got.append((response.status_code, response.headers["content-type"], response.content))
    assert got[0] == got[1]
    assert got[0][2] == data
    upstream.assert_request_count(1)


def test_the_request_reaches_the_provider_and_no_secret_the_file(upstream: Upstream, path: Path) -> None:
    upstream.script(
        Reply.text(f"Your key is {KEY} !").with_headers(set_cookie="session=abcdef", openai_organization="acme")
    )
    headers = {"authorization": f"Bearer {KEY}", "cookie": "c=cookie-value", "x-goog-api-key": "goog-key-value"}
    with Cassette(path, "once") as cassette:
        base_url = cassette.base_url("openai", upstream=upstream.url)
        first = post(base_url, "/chat/completions?key=query-key-value", headers=headers)
    seen = upstream.last
    assert (seen.path, seen.query) == ("/v1/chat/completions", "key=query-key-value")
    assert {name: seen.headers[name] for name in headers} == headers
    assert first.headers["openai-organization"] == "acme"  # the program sees all headers; the file has few
    text = path.read_text(encoding="utf-8")
    planted = [KEY, "cookie-value", "goog-key-value", "query-key-value", "session=abcdef", "acme"]
    assert [secret for secret in planted if secret in text] == []
    with Cassette(path) as cassette:
        again = post(cassette.base_url("openai"), "/chat/completions")
        assert (
            "".join(part.text for part in cassette.turns[0].parts if hasattr(part, "text")) == "Your key is [secret] !"
        )
    assert again.status_code == 200


def test_a_request_that_is_not_recorded_is_an_error_of_the_dialect(upstream: Upstream, path: Path) -> None:
    upstream.script("At six.")
    with Cassette(path, "once") as cassette:
        post(cassette.base_url("openai", upstream=upstream.url), "/chat/completions")
    with Cassette(path) as cassette:
        body = {**ASKED, "messages": [{"role": "user", "content": "Where?"}]}
        response = post(cassette.base_url("openai"), "/chat/completions", body)
        assert (response.status_code, response.headers["x-should-retry"]) == (400, "false")
        assert 'sent:     "Where?"' in response.json()["error"]["message"]
        response = post(cassette.base_url("anthropic"), "/v1/messages", body)
        assert response.json()["type"] == "error"
        assert len(cassette.missing) == 2
    upstream.assert_request_count(1)


def test_a_provider_that_is_not_reached(path: Path) -> None:
    with Cassette(path, "once") as cassette:
        response = post(cassette.base_url("openai", upstream="http://127.0.0.1:9"), "/chat/completions")
    assert response.status_code == 502
    assert not path.exists()


def test_faults_are_replayed(upstream: Upstream, path: Path) -> None:
    upstream.script(Reply.rate_limit(retry_after=7), Reply.text("word " * 50).disconnect(after=0.5))
    for mode in ("once", "none"):
        with Cassette(path, mode) as cassette:
            base_url = cassette.base_url("openai", upstream=upstream.url)
            response = post(base_url, "/chat/completions")
            assert (response.status_code, response.headers["retry-after"]) == (429, "7")
            with pytest.raises(httpx.RemoteProtocolError):
                post(base_url, "/chat/completions")
    upstream.assert_request_count(2)


def test_a_form_with_a_binary_file(upstream: Upstream, path: Path) -> None:
    """Uploads have a random boundary and bytes that are no text."""
    upstream.script(Reply.body({"text": "It is six."}))
    for mode in ("once", "none"):
        with Cassette(path, mode) as cassette:
            files: Any = {"file": ("a.wav", b"RIFF\xff\xfe\x00\x80"), "model": (None, "whisper-1")}
            url = f"{cassette.base_url('openai', upstream=upstream.url)}/audio/transcriptions"
            assert httpx.post(url, files=files, headers={"authorization": f"Bearer {KEY}"}).json() == {
                "text": "It is six."
            }
    assert b"\xff\xfe\x00\x80" in upstream.requests[0].body
    row = json.loads(path.read_text(encoding="utf-8"))["exchanges"][0]["request"]
    assert "base64" in row


def test_addresses(path: Path, upstream: Upstream) -> None:
    with Cassette(path) as cassette:
        url = cassette.base_url("openai").removesuffix("/openai/v1")
        assert cassette.base_url("anthropic") == f"{url}/anthropic"
        assert cassette.base_url("google") == f"{url}/gemini"
        assert cassette.base_url("groq") == f"{url}/groq/openai/v1"
        with pytest.raises(InputError, match=r"base_url\('bedrock', upstream="):
            cassette.base_url("bedrock")
        with pytest.raises(InputError, match="unknown provider"):
            cassette.base_url("nobody")
        variables = cassette.sdk_environment()
        assert variables["OPENAI_BASE_URL"] == f"{url}/openai/v1"
        assert variables["OPENAI_API_KEY"]
    with Cassette(path, "once") as cassette:  # to record, the real keys are used
        assert "OPENAI_API_KEY" not in cassette.sdk_environment()
    assert upstream.requests == []


class _Proxied:
    """What the SDK tests need of an upstream: addresses that lead through the cassette."""

    def __init__(self, cassette: Cassette, up: Upstream) -> None:
        self._cassette, self._up = cassette, up
        self.url: str = cassette.base_url("mistral", upstream=up.url).removesuffix("/v1")

    def base_url(self, name: str) -> str:
        return self._cassette.base_url(name, upstream=self._up.url)


def test_an_answer_is_read_as_far_as_it_was_sent() -> None:
    """A client may end at the last frame, before the connection does: what it has read is in the log."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi."}]}'
    logged = LoggedRequest("POST", "/v1/chat/completions", {}, body)
    exchange = OpenExchange(logged, "http://127.0.0.1/v1/chat/completions", ())
    texts = [text_of(logged)]
    exchange.set_head(200, {"content-type": "text/event-stream"})
    for text in ("The tide", " turns."):
        frame = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]}
        exchange.add_chunk(b"data: " + json.dumps(frame).encode() + b"\n\n")
        texts.append(text_of(logged))
    exchange.finish(complete=True)
    assert [*texts, text_of(logged)] == ["", "The tide", "The tide turns.", "The tide turns."]


def text_of(logged: LoggedRequest) -> str:
    return logged.turn.text if logged.turn is not None else ""


@each("ask", SDKS.values())
@each("stream", [True, False])
@anew
def test_sdks(upstream: Upstream, path: Path, ask: Callable[..., str], stream: bool) -> None:
    upstream.script("The tide turns at six.")
    for mode in ("once", "none"):
        with Cassette(path, mode) as cassette:
            assert ask(_Proxied(cassette, upstream), stream=stream) == "The tide turns at six."
            assert cassette.last.prompt == "When?"
            assert cassette.turns[0].text == "The tide turns at six."
    upstream.assert_request_count(1)
    with Cassette(path) as cassette:
        ask(_Proxied(cassette, upstream), stream=stream)
        with pytest.raises(Exception, match="recorded once and is sent once more"):
            ask(_Proxied(cassette, upstream), stream=stream)
        assert len(cassette.missing) == 1  # SDKs do not ask again
