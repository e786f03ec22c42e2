"""The nine jobs of examples/, each against scripted providers in every dialect; docs/comparison.md counts their lines.

The examples create their clients themselves. Here `penstock.Client` sends to a scripted upstream instead.
"""

from __future__ import annotations

import asyncio
import re
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.request import Text
from penstock.testing import ReceivedRequest, Reply, scripted
from tests.client.testing.plugin_runner import run_pytest
from tests.support.paths import PROJECT
from tools.code_lines import count_code_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.events import Reason
    from penstock.testing import Upstream

ROOT = PROJECT
EXAMPLES = ROOT / "examples"
MODELS = {
    "openai-chat": "openai/gpt-4o",
    "responses": "acme/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
PATHS = {
    "openai-chat": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
    "gemini": "enerateContent",
}
RESPONSES = {"acme": {"like": "openai-compatible", "base_url": "http://acme.test/v1", "fields": {"has": ["responses"]}}}
STATION = {"station": "upper gate"}
each_dialect = pytest.mark.parametrize("dialect", MODELS)


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """A scripted provider that every new client asks."""
    with scripted(keep_alive=False) as upstream:

        def redirect(kind: Any) -> Any:
            def create(config: Any = None, **options: Any) -> Any:
                return kind({"providers": RESPONSES, **(config or {})}, **options)

            return create

        monkeypatch.setattr(penstock, "Client", redirect(upstream.client))
        monkeypatch.setattr(penstock, "SyncClient", redirect(upstream.sync_client))
        yield upstream
        assert upstream.problems == []


def load(name: str) -> Any:
    """An example as a fresh module."""
    path = EXAMPLES / f"{name}.py"
    spec = spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_in(up: Upstream, dialect: str) -> list[ReceivedRequest]:
    """The requests, all of which must be of this dialect."""
    assert up.requests
    assert all(PATHS[dialect] in request.path for request in up.requests)
    return up.requests


# ── 1. a tool loop for useChat ────────────────────────────────────────────────────────────────────


@each_dialect
def test_a_page_gets_the_tool_loop(up: Upstream, dialect: str) -> None:
    from starlette.testclient import TestClient

    up.script(Reply.calls([("read_gauge", STATION)]), Reply.text("It is 3.2 m."))
    module = load("web_starlette")
    module.MODEL = MODELS[dialect]
    question = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "How high is the water?"}]}
    with TestClient(module.app) as page:
        stream = page.post("/api/chat", json={"id": "chat", "messages": [question]}).text
    for kind in ("tool-input-available", "tool-output-available", "text-delta", "finish"):
        assert f'"type":"{kind}"' in stream
    assert stream.count('"type":"start-step"') == 2
    assert b"3.2 m" in asked_in(up, dialect)[1].body


# ── 2. three providers ────────────────────────────────────────────────────────────────────────────


def answer_reading(request: ReceivedRequest) -> Reply:
    """Asks for the tool first; then gives the output, by the tool for it if there is one."""
    body = request.body.decode()
    reading = {"station": "upper gate", "metres": 3.25}
    if "0.05" not in body:
        return Reply.calls([("correction", STATION)], usage=(100, 10))
    names = set(re.findall(r'"name":\s*"(\w+)"', body)) - {"correction"}
    output = next((name for name in names if f'"{name}"' in body and "parameters" in body), None)
    if "gemini" in request.path and output:
        return Reply.calls([(output, reading)], usage=(100, 10))
    return Reply.text('{"station":"upper gate","metres":3.25}', usage=(100, 10))


def test_three_providers_read_the_picture(up: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    models = [MODELS[name] for name in ("openai-chat", "anthropic", "gemini")]
    up.script(answer_reading)
    asyncio.run(load("any_provider").main(*models))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["openai", "anthropic", "gemini", "openai"]
    assert all("Reading(station='upper gate', metres=3.25) 2 $0.0" in line for line in lines)
    assert all(b"iVBORw0KGgo" in request.body for request in up.requests)


def test_the_next_provider_answers_if_one_fails(up: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def answer(request: ReceivedRequest) -> Reply:
        asked.append(request.path)
        return Reply.error(status=503) if len(asked) > 2 and "completions" in request.path else answer_reading(request)

    up.script(answer)
    asyncio.run(load("any_provider").main(MODELS["openai-chat"], MODELS["anthropic"]))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["openai", "anthropic", "anthropic"]


# ── 3. VS Code parts ──────────────────────────────────────────────────────────────────────────────


@each_dialect
def test_an_answer_becomes_parts(up: Upstream, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("tide", {"harbour": "Dover"})
    up.script(Reply.calls([call], text="I look.", reasoning="Which tide?", usage=(12, 34)))
    asyncio.run(load("adapter").main(MODELS[dialect]))
    text = capsys.readouterr().out
    assert "tide {'harbour': 'Dover'}" in text
    assert "TextPart" in text
    assert "used          12 tokens in, 34 out" in text
    asked_in(up, dialect)


# ── 4. trimming ───────────────────────────────────────────────────────────────────────────────────


@each_dialect
def test_a_long_conversation_is_trimmed(up: Upstream, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    up.script(Reply.text("Two metres."))
    asyncio.run(load("trimming").main(MODELS[dialect]))
    assert re.search(r"\d+ tokens are now \d+: \d+ messages removed\nTwo metres.", capsys.readouterr().out)
    [request] = asked_in(up, dialect)
    assert b"And tomorrow?" in request.body
    assert b"day 0?" not in request.body


# ── 5. errors ─────────────────────────────────────────────────────────────────────────────────────

FAILURES = {
    "too many requests: try again in 7.0 s": Reply.rate_limit(retry_after=7),
    "the conversation is too long: ": Reply.error(status=400, kind="too-large", message="prompt is too long"),
    "broke off after 'A pen": Reply.text("A penstock is a pipe that feeds a turbine.").disconnect(after=0.8),
    "A penstock is a pipe.": Reply.text("A penstock is a pipe."),
}


@each_dialect
@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_is_told(up: Upstream, dialect: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    up.script(FAILURES[text])
    asyncio.run(load("errors").main(MODELS[dialect]))
    assert capsys.readouterr().out.startswith(f"{MODELS[dialect]} → {text}")
    asked_in(up, dialect)


@each_dialect
def test_a_refusal_is_told(up: Upstream, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    reason: Reason = "filter" if dialect == "gemini" else "refusal"  # Gemini has no other word for it
    up.script(Reply.parts([Text("Not while people are downstream.", refusal=True)], finish=reason))
    asyncio.run(load("errors").main(MODELS[dialect]))
    assert "→ declined: Not while people are downstream." in capsys.readouterr().out


# ── 6. a notebook ─────────────────────────────────────────────────────────────────────────────────


@each_dialect
def test_a_run_is_a_page(up: Upstream, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    up.script(Reply.calls([("read_gauge", {"station": "<blink>"})]), Reply.text("It is <i>high</i>."))
    load("notebook").main(MODELS[dialect])
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "read_gauge" in page
    assert "It is &lt;i&gt;high&lt;/i&gt;." in page
    assert "<blink>" not in page
    assert not re.search(r"""(?:src|href)=["']?https?:""", page)
    asked_in(up, dialect)


# ── 7. a search ───────────────────────────────────────────────────────────────────────────────────


def test_the_best_document_is_found(up: Upstream) -> None:
    module = load("search")
    up.script(module.count_words)

    async def search() -> list[str]:
        async with penstock.Client() as client:
            models = ("openai/text-embedding-3-small", "cohere/rerank-v3.5")
            found: list[str] = await module.search(client, *models, "turbine water")
            return found

    found = asyncio.run(search())
    assert found[0] == "0.50 A penstock feeds water to a turbine."
    assert len(found) == 2
    assert [request.path.rsplit("/", 1)[-1] for request in up.requests] == ["embeddings", "embeddings", "rerank"]


# ── 8. tests ──────────────────────────────────────────────────────────────────────────────────────


def test_the_tests_of_an_app_pass(tmp_path: Path) -> None:
    source = (EXAMPLES / "test_my_app.py").read_text(encoding="utf-8")
    done = run_pytest(tmp_path, files={"test_my_app.py": source})
    assert done.code == 0, done.text
    assert "3 passed" in done.text


# ── 9. logs and spans ─────────────────────────────────────────────────────────────────────────────


@each_dialect
def test_calls_are_logged(up: Upstream, dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    up.script(Reply.calls([("read_gauge", STATION)], usage=(11, 5)), Reply.text("It is 3.2 m.", usage=(22, 6)))
    module = load("tracing")
    caplog.set_level("INFO", "my.app")

    async def ask() -> None:
        async with penstock.Client(on_request=module.log_request, on_finish=module.log_end) as client:
            assert await module.ask(client, MODELS[dialect]) == "It is 3.2 m."

    asyncio.run(ask())
    texts = [record.getMessage() for record in caplog.records if record.name == "my.app"]
    assert ["messages" in text for text in texts] == [True, False, True, False]
    assert "11 tokens in, 5 out, " in texts[1]
    assert "22 tokens in, 6 out, " in texts[3]
    asked_in(up, dialect)


# ── the comparison ────────────────────────────────────────────────────────────────────────────────


def test_the_page_has_the_right_counts() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = re.findall(r"\[(\w+\.py)\]\(\.\./examples/\1\) \| (\d+) \| (\d+) \|", page)
    assert len(rows) == 9
    for name, ours, theirs in rows:
        assert count_code_lines((EXAMPLES / name).read_text(encoding="utf-8")) == int(ours), name
        assert int(ours) <= int(theirs), name
