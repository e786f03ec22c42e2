"""Counts that learn: after a turn the gateway counts the next prompt from the provider's own count of the last one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.gateway import App
from penstock.request import Message, Text
from penstock.testing import Reply, scripted
from penstock.tokens import HybridTokenEstimator, TokenStore
from tests.support.client_requests import get, post
from tests.support.each_case import each
from tests.support.estimates import estimate_every_turn, held_thread, learn, limit_queue
from tests.support.gateway import Running, gateway, hash_key, read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Upstream

ASKED = "Write down the height of the water at the third gate, hour by hour, and say why it fell. " * 12
ANSWER = "The water fell because the third gate was open from two until five."
NEXT = "And at the fourth gate? Give the height for every hour of the night, and name the keeper who wrote it down."
USED = (1500, 60)  # what the provider counts; the estimate is far below
Talk = list[tuple[str, str]]
TALK: Talk = [("user", ASKED)]
LONGER: Talk = [*TALK, ("assistant", ANSWER), ("user", NEXT)]


def answered(text: str = ANSWER, used: tuple[int, int] = USED, **more: Any) -> list[ev.AnyEvent]:
    words = [ev.TextDelta(0, word) for word in text.replace(" ", " \0").split("\0")]
    return [
        ev.Start(id="1", model="m"), ev.TextStart(0), *words, ev.TextEnd(0), ev.Usage(*used, **more), ev.Finish("stop")
    ]  # fmt: skip


def replies(*events: list[ev.AnyEvent]) -> Callable[[ReceivedRequest], Reply]:
    """The provider's answers, one after the other and the last one again, in the protocol that the path names."""
    waiting = list(events or (answered(),))

    def reply(seen: ReceivedRequest) -> Reply:
        protocol, _, rest = seen.path.lstrip("/").partition("/")
        if "count" in rest.lower():
            return Reply.body({"input_tokens": 42, "totalTokens": 42})
        stream = seen.json.get("stream") is True or "stream" in rest
        return Reply.of(protocol, waiting.pop(0) if len(waiting) > 1 else waiting[0], stream=stream)

    return reply


# ── a conversation in each protocol that counts ───────────────────────────────────────────────────


def _anthropic(model: str, talk: Talk, stream: bool) -> tuple[str, str, Any]:
    said = [{"role": role, "content": text} for role, text in talk]
    body = {"model": model, "messages": said, "max_tokens": 99, "stream": stream}
    return "/v1/messages", "/v1/messages/count_tokens", body


def _gemini(model: str, talk: Talk, stream: bool) -> tuple[str, str, Any]:
    said = [{"role": "model" if role == "assistant" else role, "parts": [{"text": text}]} for role, text in talk]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", f"/v1beta/models/{model}:countTokens", {"contents": said}


def _responses(model: str, talk: Talk, stream: bool) -> tuple[str, str, Any]:
    said = [{"type": "message", "role": role, "content": text} for role, text in talk]
    return "/v1/responses", "/v1/responses/input_tokens", {"model": model, "input": said, "stream": stream}


def _vscode(model: str, talk: Talk, stream: bool) -> tuple[str, str, Any]:
    said = [{"role": 2 if role == "assistant" else 1, "content": [{"value": text}]} for role, text in talk]
    return "/vscode/chat", "/vscode/count", {"version": 1, "model": model, "messages": said, "stream": stream}


TALKING = {"anthropic": _anthropic, "gemini": _gemini, "responses": _responses, "vscode": _vscode}


class Asking:
    """A client of one protocol. `count` returns the number and what the headers say of it."""

    def __init__(
        self, running: Running, protocol: str = "anthropic", model: str = "openai-chat/text", *, key: str = "",
        stream: bool = True,
    ) -> None:  # fmt: skip
        self.running, self._write, self._model, self._stream = running, TALKING[protocol], model, stream
        self._headers = {"x-penstock-key": key} if key else {}

    def say(self, talk: Talk) -> None:
        """One turn, and what is to be learned from it."""
        path, _, body = self._write(self._model, talk, self._stream)
        reply = post(self.running.url + path, json=body, headers=self._headers)
        assert reply.status_code == 200, reply.text
        learn(self.running)

    def count(self, talk: Talk) -> tuple[int, str]:
        _, path, body = self._write(self._model, talk, False)
        reply = post(self.running.url + path, json=body, headers=self._headers)
        assert reply.status_code == 200, reply.text
        said = reply.json()
        tokens = said.get("input_tokens", said.get("totalTokens")) or said["prompt"]["tokens"]
        told = {name: reply.headers[f"x-penstock-tokens-{name}"] for name in ("method", "confidence", "low", "high")}
        assert int(told["low"]) <= tokens <= int(told["high"])
        assert 0 <= float(told["confidence"]) <= 1
        if told["method"] == "actual":
            assert (float(told["confidence"]), int(told["low"]), int(told["high"])) == (1, tokens, tokens)
        if "prompt" in said:
            assert {name: f"{said['prompt'][name]:g}" for name in ("low", "high")} == {
                name: told[name] for name in ("low", "high")
            }
        return tokens, told["method"]

    def count_tail(self, *texts: str) -> int:
        """What the gateway's estimator says of new messages alone."""
        items = [{"role": 1, "content": [{"value": text}]} for text in texts]
        body = {"model": self._model, "items": items}
        return sum(post(f"{self.running.url}/vscode/count", json=body, headers=self._headers).json()["counts"])


def near(tokens: int) -> Any:
    return pytest.approx(tokens, rel=0.01)


@each(
    "protocol, upstream",
    [
        ("anthropic", "openai-chat"), ("anthropic", "responses"), ("gemini", "openai-chat"),
        ("responses", "openai-chat"), ("responses", "responses"), ("vscode", "openai-chat"), ("vscode", "anthropic"),
        ("vscode", "gemini"),
    ],
)  # fmt: skip
def test_the_next_prompt_is_counted_from_the_last_one(protocol: str, upstream: str) -> None:
    """Translated and passed through, streamed and not. An editor's count never asks the provider."""
    with gateway(replies()) as (running, _):
        for model, stream in (("text", True), ("other", False)):
            client = Asking(running, protocol, f"{upstream}/{model}", stream=stream)
            before, method = client.count(TALK)
            assert (method, before < 800) == ("estimated", True)
            client.say(TALK)
            assert client.count(TALK) == (1500, "actual")
            assert client.count(LONGER) == (near(sum(USED) + client.count_tail(NEXT)), "hybrid")


def test_what_is_known_outlives_the_gateway(tmp_path: Path) -> None:
    with gateway(replies(), data=tmp_path) as (running, _):
        Asking(running).say(TALK)
    assert ASKED[:20].encode() not in (tmp_path / "tokens.sqlite").read_bytes()  # digests and numbers only
    with gateway(replies(), data=tmp_path) as (running, _):
        client = Asking(running)
        assert client.count(TALK) == (1500, "actual")
        assert client.count(LONGER) == (near(sum(USED) + client.count_tail(NEXT)), "hybrid")


def test_of_an_edited_conversation_only_the_tail_is_estimated() -> None:
    edited = NEXT.replace("fourth", "fifth")
    with gateway(replies(answered(), answered("At two.", (4000, 9)))) as (running, _):
        client = Asking(running)
        client.say(TALK)
        client.say(LONGER)
        assert client.count(LONGER) == (4000, "actual")
        third: Talk = [*LONGER, ("assistant", "At two."), ("user", ASKED)]
        assert client.count(third) == (near(4009 + client.count_tail(ASKED)), "hybrid")
        third[2] = ("user", edited)
        assert client.count(third) == (near(sum(USED) + client.count_tail(edited, "At two.", ASKED)), "hybrid")
        changed: Talk = [*TALK, ("assistant", "Something else."), ("user", NEXT)]  # not what the model said
        assert client.count(changed) == (near(1500 + client.count_tail("Something else.", NEXT)), "hybrid")


def test_tenants_are_apart(tmp_path: Path) -> None:
    keys = {"one": {"hash": hash_key("pk-one-000000"), "tenant": "a"}, "two": {"hash": hash_key("pk-two-000000")}}
    with gateway(replies(), data=tmp_path, keys=keys) as (running, _):
        one, two = (Asking(running, key=key) for key in ("pk-one-000000", "pk-two-000000"))
        before = two.count(TALK)
        one.say(TALK)
        assert one.count(TALK) == (1500, "actual")
        assert two.count(TALK) == before
        assert before[1] == "estimated"
        factors = [
            get(f"{running.url}/vscode/models", headers={"x-penstock-key": key}).json()["models"][0]["counting"]
            for key in ("pk-one-000000", "pk-two-000000")
        ]
        assert factors[0]["factor"] > 1
        assert factors[1]["factor"] == 1


def test_a_provider_that_counts_is_asked() -> None:
    with gateway(replies()) as (running, up):
        assert Asking(running, "anthropic", "anthropic/text").count(TALK) == (42, "actual")
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == ["count_tokens"]


# ── factors ───────────────────────────────────────────────────────────────────────────────────────


def test_a_learned_factor_is_in_every_count(tmp_path: Path) -> None:
    """What the library has learned changes what the gateway counts and lists."""
    text = "The harbour master wrote down the height of the water every hour of the night."
    talk: Talk = [("user", text)]
    learned: dict[bool, tuple[Any, ...]] = {}
    factor = 1.0
    for after in (False, True):
        if after:
            with closing(TokenStore(tmp_path / "tokens.sqlite")) as store:
                estimator = HybridTokenEstimator(learned=store.factors)
                said = [Message("user", [Text(text=ASKED)])]
                actual = round(1.9 * estimator.estimate_conversation(said, "text", "openai-chat").tokens)
                for _ in range(12):
                    estimator.calibrate(said, actual, "text", "openai-chat")
                factor = estimator.factor("text", "openai-chat").value
        with gateway(replies(), data=tmp_path) as (running, _):
            listed = get(f"{running.url}/vscode/models").json()["models"]
            row = next(row for row in listed if row["id"] == "openai-chat/text")
            body = {"model": "openai-chat/text", "items": [text]}
            items = post(f"{running.url}/vscode/count", json=body).json()
            learned[after] = (
                Asking(running).count(talk)[0], items["counts"][0], items["factor"], row["counting"]["factor"],
                row["counting"]["factors"]["words"],
            )  # fmt: skip
    assert factor > 1.6
    assert learned[False][2:4] == (1, 1)
    assert learned[True][2:4] == (round(factor, 4), round(factor, 4))
    for place in (0, 1, 4):
        assert learned[True][place] == pytest.approx(factor * learned[False][place], rel=0.08)


def test_turns_teach_the_factor_of_the_next_list(tmp_path: Path) -> None:
    with gateway(replies(), data=tmp_path) as (running, _):
        estimate_every_turn(running)
        for number in range(5):
            Asking(running).say([("user", f"{number} {ASKED}")])
        assert factor(running, "openai-chat/text") == running.rows()[0].factor > 1.2
        assert factor(running, "openai-chat/tools") == 1


# ── what teaches nothing ──────────────────────────────────────────────────────────────────────────

SEARCH: list[ev.AnyEvent] = [
    ev.CallStart(0, "s1", "web_search", by="provider"), ev.CallEnd(0, "s1", "web_search", "{}", by="provider"),
    ev.Result(1, "s1", "web_search", '{"found": []}'), ev.TextStart(2), ev.TextDelta(2, ANSWER), ev.TextEnd(2),
]  # fmt: skip


def factor(running: Running, model: str) -> Any:
    """What the list of models says of counting: a factor of 1 if no turn has taught another."""
    listed = {row["id"]: row["counting"] for row in get(f"{running.url}/vscode/models").json()["models"]}
    return listed[model]["factor"]


@each("why", ["off", "no usage", "a fault", "provider-run tools"])
def test_turns_that_teach_nothing(why: str) -> None:
    reply: Any = replies()
    if why == "no usage":
        reply = Reply.of("openai-chat", [event for event in answered() if not isinstance(event, ev.Usage)])
    elif why == "a fault":
        reply = Reply.of("openai-chat", answered()).disconnect(after=-40)
    elif why == "provider-run tools":
        reply = Reply.of("anthropic", [ev.Start(id="1"), *SEARCH, ev.Usage(*USED), ev.Finish("stop")])
    model = "anthropic/text" if why == "provider-run tools" else "openai-chat/text"
    with gateway(reply, features={"estimates": why != "off"}) as (running, _):
        client = Asking(running, "vscode", model)
        path, _, body = TALKING["vscode"](model, TALK, True)
        post(running.url + path, json=body)
        learn(running)
        assert client.count(TALK)[1] == "estimated"
        assert factor(running, model) == 1


def test_of_several_steps_the_last_one_counts() -> None:
    """The provider is a gateway, whose usage of an agent's turn is the sum of its steps."""
    text = answered()
    steps = [*text[:-2], ev.Usage(700, 20, step=1), ev.Usage(*USED, step=2), ev.Usage(2200, 80), text[-1]]
    fields = {"endpoints": {"chat": {"path": "/chat", "protocol": "vscode", "framing": "ndjson"}}}
    with facing(Reply.of("vscode", steps), {}, fields=fields) as (running, _):
        client = Asking(running, "vscode", "mine/tide")
        client.say(TALK)
        row = running.rows()[0]
        assert (row.input, row.output, row.estimate) == (2200, 80, None)  # an estimate of the prompt is not of the sum
        assert client.count(TALK) == (1500, "actual")
        assert client.count(LONGER) == (near(sum(USED) + client.count_tail(NEXT)), "hybrid")
        assert factor(running, "mine/tide") == 1


@contextmanager
def facing(reply: Any, facts: dict[str, Any], **more: Any) -> Iterator[tuple[Running, Upstream]]:
    """A gateway with one provider, `mine`, and one model, `tide`."""
    features = more.pop("features", {})
    memory: Any = {"journal": {"path": "memory"}, "state": {"path": "memory"}}
    with scripted(reply) as up:
        row = {"base_url": f"{up.url}/v1", "models": {"tide": facts}, "like": "openai-compatible"}
        account = {**row, "fields": {"has": ["chat"]}, **more}
        made = read_config(providers={"mine": account}, retries=0, features=features, **memory)
        with Running(App(made, env={})) as running:
            yield running, up


def test_a_conversation_that_was_shortened_teaches_nothing() -> None:
    rounds: Talk = [(role, ASKED) for _ in range(6) for role in ("user", "assistant")]
    facts = {"context": 1500, "max_output": 100}
    features = {"context_management": True}
    with facing(Reply.of("openai-chat", answered()), facts, features=features) as (running, up):
        client = Asking(running, "vscode", "mine/tide")
        client.say([*rounds, *TALK])
        assert len(up.requests[0].json["messages"]) < len(rounds)
        assert client.count([*rounds, *TALK])[1] == "estimated"
        client.say(TALK)
        assert client.count(TALK) == (1500, "actual")


# ── a queue that is full, a store that is locked or broken ────────────────────────────────────────


def test_a_full_queue_drops_turns_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_queue(monkeypatch, turns=2)
    with gateway(replies()) as (running, _):
        client = Asking(running)
        talks: list[Talk] = [[("user", f"{number} {ASKED}")] for number in range(5)]
        with held_thread(running, monkeypatch) as begun:
            for talk in talks:
                path, _, body = TALKING["anthropic"]("openai-chat/text", talk, True)
                assert post(running.url + path, json=body).status_code == 200
                running.rows()
                assert begun.wait(10)  # the first is taken from the queue, the next two wait
            assert client.count(talks[0])[1] == "estimated"  # a count does not wait for them
        learn(running)
        assert [client.count(talk)[1] for talk in talks] == ["actual"] * 3 + ["estimated"] * 2
        assert "penstock_unlearned_turns_total 2\n" in get(f"{running.url}/metrics").text


def test_a_turn_that_is_too_large_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_queue(monkeypatch, bytes=1000)
    with gateway(replies()) as (running, _):
        client = Asking(running)
        client.say(TALK)
        assert client.count(TALK)[1] == "estimated"
        assert "penstock_unlearned_turns_total 1\n" in get(f"{running.url}/metrics").text


@pytest.mark.parametrize("lock", ["from the beginning", "later", "to the end"])
def test_a_locked_store_costs_nothing_but_what_waits_for_too_long(
    tmp_path: Path, lock: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        with gateway(replies(), data=tmp_path) as (running, _):
            client = Asking(running)
            if lock == "from the beginning":
                other.execute("CREATE TABLE t (x)")
                other.execute("BEGIN EXCLUSIVE")  # not WAL: it keeps everybody out
            else:
                client.count(TALK)  # the file is open
                other.execute("BEGIN IMMEDIATE")
            client.say(TALK)
            assert client.count(TALK) == (1500, "actual")
            assert client.count(LONGER)[1] == "hybrid"
            if lock != "to the end":
                other.execute("ROLLBACK")
        assert any("token counts are not written" in row.message for row in caplog.records)
    with gateway(replies(), data=tmp_path) as (running, _):
        assert Asking(running).count(TALK)[1] == ("estimated" if lock == "to the end" else "actual")
        assert (factor(running, "openai-chat/text") == 1) == (lock == "to the end")


def test_a_broken_store_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "tokens.sqlite").write_bytes(b"not a database at all, and long enough to be sure of that" * 99)
    with gateway(replies(), data=tmp_path) as (running, _):
        client = Asking(running)
        client.say(TALK)
        assert client.count(TALK) == (1500, "actual")
    assert (tmp_path / "tokens.sqlite.broken-1").exists()
    with gateway(replies(), data=tmp_path) as (running, _):
        assert Asking(running).count(TALK) == (1500, "actual")


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tokens.sqlite").mkdir()
    with gateway(replies(), data=tmp_path) as (running, _):
        client = Asking(running)
        client.say(TALK)
        assert client.count(TALK) == (1500, "actual")
    assert any("token counts are kept in memory only" in row.message for row in caplog.records)
