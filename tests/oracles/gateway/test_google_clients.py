"""Google's own clients at the end of a stream that fails, and in the silence of one that is slow.

js-genai is read in two versions: 1.30, which Gemini CLI uses, and the newest. `tests/oracles/node/genai` has both.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, encode_events, play
from tests.oracles.node.oracle import HERE, NODE, Oracles, StreamJob
from tests.support.client_requests import ask, read
from tests.support.each_case import each
from tests.support.error_gap import set_error_gap
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
    never = {"failures": 1000}  # no circuit opens
    with gateway(Reply.no_response(), serve={"ping": 0.1}, breaker=never, plain=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


def _script(both: tuple[Running, Upstream], *replies: Reply) -> str:
    running, up = both
    up.script(*replies)
    return running.url


def _read_with_node(base: str, *models: str) -> list[dict[str, Any]]:
    """What both versions of js-genai give for each model."""
    command: list[Any] = [NODE, HERE / "genai" / "read.mjs", base, *models]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return list(json.loads(done.stdout))


def _failures_in_node(both: tuple[Running, Upstream]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Each failure as each version reads it: which, the status that it should have, and what was seen."""
    base = _script(both, *(reply for _, reply, _ in FAILURES.values() for _ in range(2)))
    found = _read_with_node(base, *(f"{upstream}/text" for upstream, _, _ in FAILURES.values()))
    for (case, (_, _, status)), versions in zip(FAILURES.items(), found, strict=True):
        assert list(versions) == ["genai1", "genai2"]
        yield from ((f"{case}, {version}", status, seen) for version, seen in versions.items())


def _read_with_python(base: str, model: str) -> Iterator[str]:
    """The texts that the official SDK gives."""
    options: Any = {"base_url": base, "timeout": 20_000, "retry_options": {"attempts": 1}}
    with genai.Client(api_key="any", http_options=options) as client:
        models: Any = client.models
        for chunk in models.generate_content_stream(model=model, contents="Say something."):
            yield chunk.text or ""


def test_js_genai_raises_the_error_of_a_broken_stream(
    both: tuple[Running, Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_error_gap(monkeypatch, 0.5)  # on a busy machine, too, the client reads twice
    for case, status, seen in _failures_in_node(both):
        assert seen["text"], f"{case}: text before the error is delivered"
        assert WHOLE.startswith(seen["text"]), case
        assert (seen["status"], seen["finish"]) == (status, None), (case, seen)


def test_js_genai_never_takes_a_broken_stream_for_a_whole_one(
    both: tuple[Running, Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is too slow reads the text and the error at once. Version 1.30 does not know the status then."""
    set_error_gap(monkeypatch, 0.0)
    for case, _, seen in _failures_in_node(both):
        assert seen["error"], case
        assert seen["finish"] is None, case


@each("case", FAILURES)
def test_python_genai_raises_the_error_of_a_broken_stream(both: tuple[Running, Upstream], case: str) -> None:
    upstream, reply, status = FAILURES[case]
    texts: list[str] = []
    with pytest.raises(google_errors.ServerError) as raised:
        texts.extend(_read_with_python(_script(both, reply), f"{upstream}/text"))
    text = "".join(texts)
    assert raised.value.code == status
    assert text
    assert WHOLE.startswith(text)


@each("ai, case", product([5, 6, 7], FAILURES))
def test_the_ai_sdk_reads_the_error_of_a_broken_stream(
    both: tuple[Running, Upstream], oracles: Oracles, ai: Any, case: str
) -> None:
    upstream, reply, _ = FAILURES[case]
    base = _script(both, reply)
    job = StreamJob(provider="google", base_url=f"{base}/v1beta", model=f"{upstream}/text", settings={"maxRetries": 0})
    (seen,) = oracles.fullstream(ai, [job])
    assert [part["type"] for part in seen.parts].count("error") == 1, seen


@each("case", FAILURES)
def test_our_own_reader_reads_one_error(both: tuple[Running, Upstream], case: str) -> None:
    upstream, reply, status = FAILURES[case]
    body = ask(_script(both, reply), "gemini", f"{upstream}/text").content
    events = read("gemini", body)
    assert [event.status for event in events if isinstance(event, ev.Fault)] == [status]
    # A reader that splits at blank lines finds the object twice: by itself, then as the data of an event.
    *_, bare, event, rest = body.split(b"\n\n")
    assert (event, rest) == (b"data: " + bare, b"")
    assert json.loads(bare)["error"]["code"] == status


def test_a_slow_stream_is_whole_for_googles_clients(both: tuple[Running, Upstream]) -> None:
    chunks = encode_events("anthropic", SCRIPT)
    halves = b"".join(chunks[:4]), b"".join(chunks[4:])
    base = _script(both, *[Reply(halves, headers={"content-type": "text/event-stream"}, pace=0.35)] * 3)
    for seen in _read_with_node(base, "anthropic/text")[0].values():
        assert (seen["text"], seen["finish"], seen["error"]) == (WHOLE, "STOP", None)
    assert "".join(_read_with_python(base, "anthropic/text")) == WHOLE
