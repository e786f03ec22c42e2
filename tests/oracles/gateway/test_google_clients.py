"""Google's own clients at the end of a stream that fails, and in the silence of one that is slow.

js-genai is read in two versions: 1.30, which Gemini CLI uses, and the newest. `tests/oracles/node/genai` has both.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._http import response_writer
from penstock.testing import Reply, encode_events, play
from tests.oracles.node.oracle import HERE, NODE, Oracles, StreamJob
from tests.support.client_requests import ask, read
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK's own source makes Python complain
    from google import genai
    from google.genai import errors as google_errors

SCRIPT = play("text", id="one", model="m", created=7)
WHOLE = "".join(event.text for event in SCRIPT if isinstance(event, ev.TextDelta))
BUSY = b'{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}'
# As Google sends it, many lines and no event: https://github.com/vercel/ai/issues/5217
BARE = json.dumps(json.loads(BUSY), indent=2).encode() + b"\n"


def _begun(upstream: str) -> bytes:
    return b"".join(encode_events(upstream, SCRIPT)[:4])


def _failing(upstream: str, error: bytes) -> Reply:
    return Reply.body(_begun(upstream) + error, headers={"content-type": "text/event-stream"})


FAILURES = {
    "a connection that breaks, translated": ("anthropic", Reply.of("anthropic", SCRIPT).disconnect(len(_begun("anthropic"))), 502),
    "a connection that breaks, passed through": ("gemini", Reply.of("gemini", SCRIPT).disconnect(len(_begun("gemini"))), 502),
    "an end without a finish reason": ("gemini", _failing("gemini", b""), 502),
    "an error as an event": ("gemini", _failing("gemini", b"data: " + BUSY + b"\n\n"), 503),
    "an error outside of events": ("gemini", _failing("gemini", BARE), 503),
    "an error of another provider": (
        "anthropic",
        _failing("anthropic", b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'),
        503,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["own server", "plain uvicorn"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response(), serve={"ping": 0.1}, plain=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


def _script(both: tuple[Running, Upstream], reply: Reply, times: int) -> str:
    running, up = both
    running.app.services.upstream.router.breakers._circuits.clear()
    up.script(*[reply] * times)
    return running.url


def _read_with_node(base: str, model: str) -> dict[str, Any]:
    """What both versions of js-genai give."""
    done = subprocess.run(
        [NODE, HERE / "genai" / "read.mjs", base, model], capture_output=True, text=True, timeout=60, check=True
    )
    return dict(json.loads(done.stdout))


def _read_with_python(base: str, model: str) -> Iterator[str]:
    """The texts that the official SDK gives."""
    options: Any = {"base_url": base, "timeout": 20_000, "retry_options": {"attempts": 1}}
    with genai.Client(api_key="any", http_options=options) as client:
        models: Any = client.models
        for chunk in models.generate_content_stream(model=model, contents="Say something."):
            yield chunk.text or ""


@pytest.mark.parametrize("case", FAILURES)
def test_js_genai_raises_the_error_of_a_broken_stream(
    both: tuple[Running, Upstream], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "ERROR_GAP", 0.5)  # on a busy machine, too, the client reads twice
    upstream, reply, status = FAILURES[case]
    found = _read_with_node(_script(both, reply, 2), f"{upstream}/text")
    assert list(found) == ["genai1", "genai2"]
    for seen in found.values():
        assert seen["text"], "text before the error is delivered"
        assert WHOLE.startswith(seen["text"])
        assert (seen["status"], seen["finish"]) == (status, None), seen


@pytest.mark.parametrize("case", FAILURES)
def test_js_genai_never_takes_a_broken_stream_for_a_whole_one(
    both: tuple[Running, Upstream], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is too slow reads the text and the error at once. Version 1.30 does not know the status then."""
    monkeypatch.setattr(response_writer, "ERROR_GAP", 0.0)
    upstream, reply, _ = FAILURES[case]
    for version, seen in _read_with_node(_script(both, reply, 2), f"{upstream}/text").items():
        assert seen["error"], version
        assert seen["finish"] is None


@pytest.mark.parametrize("case", FAILURES)
def test_python_genai_raises_the_error_of_a_broken_stream(both: tuple[Running, Upstream], case: str) -> None:
    upstream, reply, status = FAILURES[case]
    texts: list[str] = []
    with pytest.raises(google_errors.ServerError) as raised:
        texts.extend(_read_with_python(_script(both, reply, 1), f"{upstream}/text"))
    text = "".join(texts)
    assert raised.value.code == status
    assert text
    assert WHOLE.startswith(text)


@pytest.mark.parametrize("case", FAILURES)
@pytest.mark.parametrize("ai", [5, 6, 7])
def test_the_ai_sdk_reads_the_error_of_a_broken_stream(
    both: tuple[Running, Upstream], oracles: Oracles, ai: Any, case: str
) -> None:
    upstream, reply, _ = FAILURES[case]
    base = _script(both, reply, 1)
    job = StreamJob(provider="google", base_url=f"{base}/v1beta", model=f"{upstream}/text", settings={"maxRetries": 0})
    (seen,) = oracles.fullstream(ai, [job])
    assert [part["type"] for part in seen.parts].count("error") == 1, seen


@pytest.mark.parametrize("case", FAILURES)
def test_our_own_reader_reads_one_error(both: tuple[Running, Upstream], case: str) -> None:
    upstream, reply, status = FAILURES[case]
    body = ask(_script(both, reply, 1), "gemini", f"{upstream}/text").content
    events = read("gemini", body)
    assert [event.status for event in events if isinstance(event, ev.Fault)] == [status]
    # A reader that splits at blank lines finds the object twice: by itself, then as the data of an event.
    *_, bare, event, rest = body.split(b"\n\n")
    assert (event, rest) == (b"data: " + bare, b"")
    assert json.loads(bare)["error"]["code"] == status


def test_a_slow_stream_is_whole_for_googles_clients(both: tuple[Running, Upstream]) -> None:
    chunks = encode_events("anthropic", SCRIPT)
    halves = b"".join(chunks[:4]), b"".join(chunks[4:])
    base = _script(both, Reply(halves, headers={"content-type": "text/event-stream"}, pace=0.35), 3)
    for seen in _read_with_node(base, "anthropic/text").values():
        assert (seen["text"], seen["finish"], seen["error"]) == (WHOLE, "STOP", None)
    assert "".join(_read_with_python(base, "anthropic/text")) == WHOLE
