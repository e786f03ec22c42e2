"""Cassettes: what a client receives from a recording is what it received from the provider, in every dialect."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError, NetworkError, ProviderError, RateLimited
from penstock.testing import Cassette, Reply, UnrecordedRequest, Upstream, play, scripted
from tests.client.testing.anew import anew
from tests.support.client_parts import set_bound
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.client import SyncClient

TOOLS = [{"type": "function", "function": {"name": "get_tide", "parameters": {"type": "object"}}}]
MODELS = {
    "openai-chat": "openai/gpt-4o",
    "responses": "openai/o3-pro",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/m",
    "cohere": "cohere/m",
    "ollama": "ollama/m",
    "sagemaker": "sagemaker/e",
}
each_dialect = each("model", MODELS.values())
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP", "AWS_SECRET_ACCESS_KEY": "0123456789abcdef"}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with scripted(keep_alive=False) as up:
        yield up


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recordings" / "tide.json"


def accounts(up: Upstream | None) -> dict[str, Any]:
    """A configuration whose providers are the upstream; without one, a port where nobody listens."""
    url = up.url if up is not None else "http://127.0.0.1:9"
    names = {model.partition("/")[0] for model in MODELS.values()}
    rows = {
        name: {"base_url": f"{url}/v1", "key": "made-up-key", "settings": {"region": "eu-north-1"}} for name in names
    }
    return {"providers": rows, "options": {"timeouts": {"connect": 2}}}


def recording(up: Upstream, path: Path, mode: Any = "once", **options: Any) -> tuple[Cassette, SyncClient]:
    cassette = Cassette(path, mode, **options)
    return cassette, cassette.sync_client(accounts(up), env=KEYS)


def run_tool_loop(client: SyncClient, model: str, question: str = "When is high tide?") -> list[Any]:
    """A program: asks, streams, runs the tools, asks again. Returns every event it saw."""
    messages: list[Any] = [{"role": "user", "content": question}]
    seen: list[Any] = []
    while True:
        answer = client.chat(model, messages, tools=TOOLS)
        seen.append([answer.text, answer.reasoning, [(call.name, call.json) for call in answer.calls], answer.usage])
        if not answer.calls:
            return [*seen, list(client.chat_stream(model, "And then?"))]
        messages.append(answer.to("openai-chat")["choices"][0]["message"])
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "at 06:12"} for call in answer.calls]


SCRIPT = (
    Reply.calls([("get_tide", {"day": 1}), ("get_tide", {"day": 2})], reasoning="Hm.", usage=(5, 1)),
    Reply.calls([("get_tide", {"day": 3})], usage=(9, 2)),
    Reply.text("At six.", usage=(12, 3)),
    Reply.text("Then it falls — slowly. 🌊", usage=(4, 4)),
)


@each_dialect
@anew
def test_a_tool_loop_is_replayed(upstream: Upstream, path: Path, model: str) -> None:
    upstream.script(*SCRIPT)
    cassette, client = recording(upstream, path)
    with cassette, client:
        recorded = run_tool_loop(client, model)
    upstream.assert_request_count(4)
    with Cassette(path) as cassette, cassette.sync_client(accounts(None)) as client:
        assert run_tool_loop(client, model) == recorded
        cassette.assert_all_played()
        cassette.assert_request_count(4)
        cassette.assert_call("get_tide", {"day": 3})
        assert cassette.assert_result("get_tide", "06:12")
        assert (cassette.usage.input, cassette.usage.output) == (30, 10)
    upstream.assert_request_count(4)


@each_dialect
@each("stream", [True, False])
@anew
def test_a_response_is_replayed_byte_for_byte(upstream: Upstream, path: Path, model: str, stream: bool) -> None:
    upstream.script(Reply.of("", play("parallel-tools")))
    cassette, client = recording(upstream, path)

    def ask(client: SyncClient) -> list[Any]:
        return list(client.chat_stream(model, "?")) if stream else client.chat(model, "?").parts

    with cassette, client:
        recorded = ask(client)
    sent = upstream.requests[0].answer_data
    with Cassette(path) as replayed, replayed.sync_client(accounts(None)) as client:
        assert len(ask(client)) == len(recorded)
        assert replayed.last.answer_data == sent
        assert replayed.last.answer_type == upstream.requests[0].answer_type


def test_the_file_is_readable(upstream: Upstream, path: Path) -> None:
    upstream.script(Reply.text("At six.").with_headers(x_request_id="req_1", set_cookie="id=1", x_ratelimit_limit="9"))
    cassette, client = recording(upstream, path)
    with cassette, client:
        client.chat("openai/gpt-4o", "When?")
        list(client.chat_stream("openai/gpt-4o", "When?"))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content) == ["form", "version", "exchanges"]
    whole, stream = content["exchanges"]
    assert list(whole["request"]) == ["method", "url", "json"]
    assert whole["request"]["json"]["messages"] == [{"role": "user", "content": "When?"}]
    assert whole["response"]["headers"] == {"content-type": "application/json", "x-ratelimit-limit": "9"}
    assert whole["response"]["json"]["choices"][0]["message"]["content"] == "At six."
    assert all(frame.startswith("data: ") and frame.endswith("\n\n") for frame in stream["response"]["text"])
    assert len(stream["response"]["text"]) > 3


# ── modes ─────────────────────────────────────────────────────────────────────────────────────────


def ask_each(client: SyncClient, *questions: str) -> list[str]:
    return [client.chat("openai/gpt-4o", question).text for question in questions]


def record(up: Upstream, path: Path, *questions: str, mode: Any = "once", **options: Any) -> list[str]:
    cassette, client = recording(up, path, mode, **options)
    with cassette, client:
        return ask_each(client, *questions)


def counting(up: Upstream) -> None:
    up.script(lambda seen: Reply.text(f"{seen.prompt} {len(up.requests)}"))


def test_once_records_a_new_file_and_then_only_replays(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    assert record(upstream, path, "a", "b") == ["a 1", "b 2"]
    assert record(upstream, path, "b", "a") == ["b 2", "a 1"]
    with pytest.raises(UnrecordedRequest):
        record(upstream, path, "c")
    upstream.assert_request_count(2)


def test_new_replays_and_adds(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    record(upstream, path, "a")
    assert record(upstream, path, "a", "b", mode="new") == ["a 1", "b 2"]
    assert record(upstream, path, "b", "a", mode="none") == ["b 2", "a 1"]
    upstream.assert_request_count(2)


@each_dialect
@anew
def test_new_needs_no_key_for_what_is_recorded(upstream: Upstream, path: Path, model: str) -> None:
    upstream.script("At six.")
    cassette, client = recording(upstream, path)
    with cassette, client:
        client.chat(model, "a")
    name = model.partition("/")[0]
    config = {"providers": {name: {"base_url": "http://127.0.0.1:9/v1", "settings": {"region": "eu-north-1"}}}}
    with Cassette(path, "new") as cassette, cassette.sync_client(config, env={}) as client:
        assert client.chat(model, "a").text == "At six."


def test_all_records_anew(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    record(upstream, path, "a", "b")
    assert record(upstream, path, "b", mode="all") == ["b 3"]
    assert record(upstream, path, "b", mode="none") == ["b 3"]
    with pytest.raises(UnrecordedRequest):
        record(upstream, path, "a", mode="none")


def test_none_needs_a_file_and_sends_nothing(upstream: Upstream, path: Path) -> None:
    with pytest.raises(UnrecordedRequest, match="no such file"):
        record(upstream, path, "a", mode="none")
    upstream.assert_request_count(0)
    assert not path.exists()


def test_nothing_recorded_leaves_the_file_alone(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    record(upstream, path, "a")
    before = path.read_bytes()
    record(upstream, path, mode="all")
    assert path.read_bytes() == before


def test_a_provider_that_is_not_reached_is_not_recorded(path: Path) -> None:
    cassette = Cassette(path, "all")
    with cassette, cassette.sync_client({**accounts(None), "retries": 0}) as client, pytest.raises(ProviderError):
        client.chat("openai/gpt-4o", "a")
    assert not path.exists()


@each("words, problem", [({"mode": "twice"}, "mode: expected"), ({"match": "body"}, "match: expected")])
def test_wrong_words(path: Path, words: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Cassette(path, **words)


@each("text", ["", "[]", '{"form": "other", "version": 1, "exchanges": []}', '{"form": "penstock-cassette", "version": 2, "exchanges": []}',
     '{"exchanges": [{"request": {"method": "GET", "url": ""}, "response": {"status": 200, "base64": ["*"]}}]}'])  # fmt: skip
def test_a_file_that_is_not_a_cassette(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        Cassette(path)


# ── matching ──────────────────────────────────────────────────────────────────────────────────────


def test_repeated_requests_are_played_in_order(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    assert record(upstream, path, "a", "a", "b") == ["a 1", "a 2", "b 3"]
    assert record(upstream, path, "b", "a", "a") == ["b 3", "a 1", "a 2"]
    with pytest.raises(UnrecordedRequest, match="recorded 2 times and is sent once more; repeat=True allows that"):
        record(upstream, path, "a", "a", "a")
    assert record(upstream, path, "a", "a", "a", "a", repeat=True) == ["a 1", "a 2", "a 2", "a 2"]


def test_by_order_bodies_do_not_count(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    record(upstream, path, "a", "b")
    assert record(upstream, path, "x", "y", match="order") == ["a 1", "b 2"]
    with pytest.raises(UnrecordedRequest):
        record(upstream, path, "x", "y", "z", match="order")


def without_messages(body: Any) -> Any:
    return {**body, "messages": []}


def test_what_does_not_count_in_a_body(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    cassette, client = recording(upstream, path)
    with cassette, client:
        client.chat("openai/gpt-4o", "It is 10:00. a", extra_body={"user": "u1", "metadata": {"run": "1"}, "seed": 1})

    def again(body: Any, question: str = "It is 10:00. a", **options: Any) -> str:
        with Cassette(path, **options) as cassette, cassette.sync_client(accounts(None)) as client:
            return client.chat("openai/gpt-4o", question, extra_body=body).text

    assert again({"user": "u2", "seed": 1}) == "It is 10:00. a 1"
    with pytest.raises(UnrecordedRequest, match=r"seed\n      recorded: 1\n      sent:     2"):
        again({"seed": 2})
    assert again({"seed": 2}, ignore=["seed"])
    assert again({"seed": 1}, "It is 11:00. a", ignore=["messages.0.content"])
    assert again({"seed": 1}, "It is 11:00. a", ignore=["messages.*.content"])
    assert again({"seed": 1}, "It is 11:00. a", normalize=without_messages)


def test_the_message_shows_the_nearest_request_and_the_difference(upstream: Upstream, path: Path) -> None:
    counting(upstream)
    long = "Once upon a time, " * 20
    record(upstream, path, "What is the weather in Oslo?", f"{long}a ship sailed")
    cassette = Cassette(path)
    cassette.hint = "record it: pytest --penstock-record=new"
    with cassette, cassette.sync_client(accounts(None)) as client:
        with pytest.raises(UnrecordedRequest) as caught:
            client.chat("openai/gpt-4o", "What is the weather in Bergen?")
        assert str(caught.value).splitlines() == [
            "POST http://127.0.0.1:9/v1/chat/completions is not in the recording",
            f"  file: {path} (2 exchanges, 0 played)",
            "  nearest: exchange 1 (not played) differs in 1 place:",
            "    messages[0].content",
            '      recorded: "What is the weather in Oslo?"',
            '      sent:     "What is the weather in Bergen?"',
            "  record it: pytest --penstock-record=new",
        ]
        with pytest.raises(
            UnrecordedRequest,
            match=r"exchange 2 .*\n.*\n      recorded: …on a time, a ship sailed\"\n      sent:     …on a time, a ship sank\"",
        ):
            client.chat("openai/gpt-4o", f"{long}a ship sank")
        with pytest.raises(UnrecordedRequest, match=r"tools\n      recorded: \(absent\)"):
            client.chat("openai/gpt-4o", f"{long}a ship sailed", tools=TOOLS)
    assert len(cassette.missing) == 3
    assert cassette.unplayed == [f"POST {one}" for one in [upstream.url + "/v1/chat/completions"] * 2]
    with pytest.raises(AssertionError, match="2 exchanges were not played"):
        cassette.assert_all_played()


# ── faults, times, concurrency ────────────────────────────────────────────────────────────────────


@each_dialect
@anew
def test_errors_and_retries_are_replayed_without_waiting(upstream: Upstream, path: Path, model: str) -> None:
    upstream.script(Reply.rate_limit(retry_after=0.01), "At six.", Reply.rate_limit(retry_after=20))
    cassette, client = recording(upstream, path)
    with cassette, client:
        assert client.chat(model, "a").text == "At six."
        with pytest.raises(RateLimited):
            client.chat(model, "b")
    text = path.read_text(encoding="utf-8").replace('"retry-after": "0.01"', '"retry-after": "9"')
    path.write_text(text, encoding="utf-8")
    with Cassette(path) as cassette, cassette.sync_client(accounts(None)) as client:
        assert client.chat(model, "a").text == "At six."
        with pytest.raises(RateLimited) as caught:
            client.chat(model, "b")
        assert caught.value.retry_after == 20
        assert "slow down" in str(caught.value)


@each_dialect
@anew
def test_a_cut_is_replayed(upstream: Upstream, path: Path, model: str) -> None:
    upstream.script(Reply.text("word " * 100).disconnect(after=0.5))
    cassette, client = recording(upstream, path)
    with cassette, client:
        recorded: list[Any] = list(client.chat_stream(model, "a"))
    assert recorded[-1].kind == "network"
    assert json.loads(path.read_text(encoding="utf-8"))["exchanges"][0]["response"]["complete"] is False
    with Cassette(path) as cassette, cassette.sync_client(accounts(None)) as client:
        replayed: list[Any] = list(client.chat_stream(model, "a"))
    assert [type(event) for event in replayed] == [type(event) for event in recorded]
    assert replayed[-1].kind == "network"


def test_a_body_that_is_cut_is_an_error_again(upstream: Upstream, path: Path) -> None:
    upstream.script(Reply.text("At six.").disconnect(after=0.5))
    for up in (upstream, None):
        cassette = Cassette(path, "once")
        with cassette, cassette.sync_client({**accounts(up), "retries": 0}) as client, pytest.raises(NetworkError):
            client.chat("openai/gpt-4o", "a")


def test_times_are_recorded_and_kept(upstream: Upstream, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.script(Reply.text("At six o'clock.").slow(0.02))
    cassette, client = recording(upstream, path, timing=True)
    with cassette, client:
        list(client.chat_stream("openai/gpt-4o", "a"))
    response = json.loads(path.read_text(encoding="utf-8"))["exchanges"][0]["response"]
    assert len(response["times"]) > 3
    assert sum(size for _, size in response["times"]) == len("".join(response["text"]).encode())
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    with Cassette(path, timing=True) as cassette, cassette.sync_client(accounts(None)) as client:
        list(client.chat_stream("openai/gpt-4o", "a"))
    assert sum(waits) == pytest.approx(response["times"][-1][0], abs=0.01)


class SignallingCassette(Cassette):
    """Sets an event when a request has its place in the cassette."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: asyncio.Event = asyncio.Event()

    def start(self, *args: Any, **more: Any) -> Any:
        self.asked.set()
        return super().start(*args, **more)

    def replay(self, *args: Any, **more: Any) -> Any:
        found = super().replay(*args, **more)
        if found is not None:
            self.asked.set()
        return found


def test_answers_that_come_at_once_keep_the_order_of_their_requests(upstream: Upstream, path: Path) -> None:
    upstream.script(lambda seen: Reply.text(seen.prompt).delayed(0.2 if seen.prompt == "slow" else 0))

    async def ask(mode: str, config: Any) -> list[str]:
        async with SignallingCassette(path, mode) as cassette, cassette.client(config) as client:
            first = asyncio.ensure_future(client.chat("openai/gpt-4o", "slow"))
            await cassette.asked.wait()
            return [answer.text for answer in await asyncio.gather(first, client.chat("openai/gpt-4o", "fast"))]

    assert asyncio.run(ask("once", accounts(upstream))) == ["slow", "fast"]
    rows = json.loads(path.read_text(encoding="utf-8"))["exchanges"]
    assert [row["request"]["json"]["messages"][0]["content"] for row in rows] == ["slow", "fast"]
    assert asyncio.run(ask("none", accounts(None))) == ["slow", "fast"]


def test_a_stream_that_the_program_leaves(upstream: Upstream, path: Path) -> None:
    upstream.script(Reply.text("word " * 200).slow(0.001))
    cassette, client = recording(upstream, path)

    def read_some(client: SyncClient) -> str:
        with client.chat_stream("openai/gpt-4o", "a") as stream:
            return next(iter(stream.text()))

    with cassette, client:
        assert read_some(client) == "word"
    with Cassette(path) as cassette, cassette.sync_client(accounts(None)) as client:
        assert read_some(client) == "word"


def test_requests_that_are_not_turns(upstream: Upstream, path: Path) -> None:
    vectors = {"data": [{"index": 0, "embedding": [1.0, 0.5]}], "usage": {"prompt_tokens": 1}}
    models = {"data": [{"id": "gpt-4o", "object": "model"}]}
    upstream.script(lambda seen: Reply.body(models if seen.method == "GET" else vectors))
    results: list[Any] = []
    for up in (upstream, None):
        cassette = Cassette(path, "once")
        with cassette, cassette.sync_client(accounts(up)) as client:
            found = client.embed("openai/text-embedding-3-small", "text").vectors
            results.append((found, [model.id for model in client.list_models("openai")]))
    assert results[0] == results[1]
    upstream.assert_request_count(2)


def test_the_sdk_engine_is_not_a_way_around(path: Path) -> None:
    with Cassette(path) as cassette, cassette.sync_client(accounts(None)) as client, pytest.raises(UnrecordedRequest):
        client.chat("openai/gpt-4o", "a", engine="sdk")


def test_a_response_that_is_too_large_is_recorded_in_part(
    upstream: Upstream, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a recorded answer", 1000)
    upstream.script(Reply.text("word " * 100).slow(0))
    cassette, client = recording(upstream, path)
    with cassette, client:
        assert len("".join(client.chat_stream("openai/gpt-4o", "a").text())) == 500
    response = json.loads(path.read_text(encoding="utf-8"))["exchanges"][0]["response"]
    assert response["complete"] is False
    assert len("".join(response.get("text", []))) <= 1000
