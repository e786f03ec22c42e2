"""`fit` shortens a conversation to a limit: what goes, what stays, and in which form it comes back."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import convert_messages
from penstock._tokens.conversation import KEPT_CHARACTERS, list_units
from penstock.errors import InputError
from penstock.messages import read_request, write_request
from penstock.request import Call, File, Json, Message, Request, Result, Text, Tool
from penstock.tokens import FitResult, HybridTokenEstimator
from tests.core.tokens.samples import JSON, PROSE
from tests.support import conversations
from tests.support.each_case import each
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "gpt-4o"
TOOL = Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def user(text: str) -> Message:
    return Message("user", [Text(text=text)])


def answer(text: str) -> Message:
    return Message("assistant", [Text(text=text)])


def round_of(number: int, text: str = PROSE) -> list[Message]:
    call = Call(id=f"call-{number}", name="read", json=JSON)
    return [Message("assistant", [call]), Message("tool", [Result(call=call.id, content=[Text(text=text)])])]


SYSTEM = Message("system", [Text(text="Be kind.")])
CHAT = [SYSTEM, *(make(f"{number} {PROSE}") for number in range(10) for make in (user, answer)), user("And now?")]
AGENT = [SYSTEM, user("Old."), answer("Done."), user("Read it all."), *(m for n in range(10) for m in round_of(n))]


def removed_positions(found: FitResult[Any]) -> list[int]:
    return [row.message for row in found.removed if not row.shortened]


# ── what goes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_that_fits_is_given_back_as_it_is() -> None:
    estimator = HybridTokenEstimator()
    request = Request(messages=CHAT)
    found = estimator.fit(request, 1_000_000, model=MODEL)
    assert found.request is request
    assert (found.fits, found.removed, found.estimate) == (True, [], found.before)


def test_the_oldest_turns_go_first_and_nothing_more_than_needed() -> None:
    estimator = HybridTokenEstimator()
    whole = estimator.estimate_conversation(CHAT, MODEL)
    limit = whole.high * 2 // 3
    found = estimator.fit(Request(messages=CHAT, tools=[TOOL]), limit, model=MODEL)
    gone = removed_positions(found)
    assert gone == [*range(1, 1 + len(gone))]
    assert len(gone) % 2 == 0
    assert found.request.messages == [SYSTEM, *CHAT[1 + len(gone) :]]
    assert found.request.tools == [TOOL]
    assert (found.fits, found.estimate.high <= limit) == (True, True)
    assert found.estimate == estimator.estimate_conversation(found.request, MODEL)
    one_more = Request(messages=[SYSTEM, *CHAT[len(gone) - 1 :]], tools=[TOOL])
    assert estimator.estimate_conversation(one_more, MODEL).high > limit
    tokens = [estimator.estimate_message(CHAT[position], MODEL).tokens for position in gone]
    assert [row.tokens for row in found.removed] == tokens
    assert {row.role for row in found.removed} == {"user", "assistant"}


def test_by_tokens_keeps_more_and_a_reserve_keeps_less() -> None:
    estimator = HybridTokenEstimator()
    limit = estimator.estimate_conversation(CHAT, MODEL).tokens * 2 // 3
    by_high, by_tokens = (estimator.fit(CHAT, limit, model=MODEL, by=by) for by in ("high", "tokens"))
    assert len(by_high.request) < len(by_tokens.request) < len(CHAT)
    assert by_tokens.estimate.tokens <= limit < by_tokens.estimate.high
    reserved = estimator.fit(CHAT, limit, reserve=limit // 2, model=MODEL, by="tokens")
    assert reserved.limit == limit - limit // 2
    assert reserved.estimate.tokens <= reserved.limit
    assert reserved.request == estimator.fit(CHAT, limit - limit // 2, model=MODEL, by="tokens").request


def test_after_the_turns_old_rounds_go_and_the_last_one_stays() -> None:
    estimator = HybridTokenEstimator()
    found = estimator.fit(AGENT, estimator.estimate_conversation(AGENT, MODEL).high // 2, model=MODEL)
    gone = removed_positions(found)
    assert gone[:4] == [1, 2, 4, 5], "the first turn, then the first round behind the last message of the user"
    assert found.request[:2] == [SYSTEM, AGENT[3]]
    least = estimator.fit(AGENT, 10, model=MODEL)
    assert least.request == [SYSTEM, AGENT[3], *AGENT[-2:]]
    assert (least.fits, least.estimate.high > 10) == (False, True)


def test_parallel_calls_and_late_results_stay_together() -> None:
    calls = Message("assistant", [Call(id="a", name="read"), Call(id="b", name="read")])
    late = [calls, Message("tool", [Result(call="a")]), user("Go on."), Message("tool", [Result(call="b")])]
    messages = [user("One."), *late, answer("Done."), user("Two."), answer("Yes."), user("Three.")]
    found = HybridTokenEstimator().fit(messages, 1, model=MODEL)
    assert found.request == [user("Three.")]
    partly = HybridTokenEstimator().fit(messages, 60, model=MODEL, by="tokens")
    kept = [id(message) for message in partly.request]
    assert len({id(message) in kept for message in late}) == 1


def test_a_prompt_in_one_message_with_results_stays() -> None:
    """In Anthropic's protocol a message of the user holds results and what the user says beside them."""
    body: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Read." + PROSE}]}
    for number in range(6):
        use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": PROSE}
        said = [{"type": "text", "text": f"Now do {number}."}]
        body["messages"] += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result, *said]}]
        if number == 3:
            body["messages"] += [{"role": "assistant", "content": "Well."}]
    found = HybridTokenEstimator().fit(body, 10, model="claude-sonnet-4-5")
    assert found.request["messages"] == [body["messages"][0], *body["messages"][-2:]]


def test_counts_of_the_provider_are_used() -> None:
    """The estimate says that it does not fit, and the provider says that it does; and the other way round."""
    estimator = HybridTokenEstimator()
    plain = estimator.estimate_conversation(CHAT, MODEL)
    estimator.calibrate(CHAT, plain.low // 2, MODEL, learn=False)
    assert estimator.fit(CHAT, plain.low, model=MODEL).removed == []
    again = HybridTokenEstimator()
    limit = plain.high * 2 // 3
    shorter = again.fit(CHAT, limit, model=MODEL)
    again.calibrate(shorter.request, limit + 1, MODEL, learn=False)
    shortest = again.fit(CHAT, limit, model=MODEL)
    assert len(shortest.request) < len(shorter.request)
    assert (shortest.fits, shortest.estimate.method) == (True, "estimated")


def test_each_message_is_counted_once() -> None:
    estimator = HybridTokenEstimator()
    long = [make(f"{number} {PROSE}") for number in range(500) for make in (user, answer)]
    estimator.fit(long, 2_000, model=MODEL)
    assert estimator.cache.counted == len(long) + 1


# ── tool results ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _result_text(message: Message) -> str:
    result = message.parts[0]
    assert isinstance(result, Result)
    text = result.content[0]
    assert isinstance(text, Text)
    return text.text


def test_old_results_are_shortened_before_a_turn_goes() -> None:
    long = [SYSTEM, user("Read it all."), *(m for n in range(5) for m in round_of(n, PROSE * 20))]
    estimator = HybridTokenEstimator()
    whole = estimator.estimate_conversation(long, MODEL)
    found = estimator.fit(long, whole.high * 7 // 10, model=MODEL, shorten_results=True)
    assert [(row.message, row.role, row.shortened) for row in found.removed] == [(3, "tool", True), (5, "tool", True)]
    assert (found.fits, len(found.request)) == (True, len(long))
    text = _result_text(found.request[3])
    assert text.startswith((PROSE * 20)[:KEPT_CHARACTERS])
    assert text.endswith(f"[{len(PROSE * 20) - KEPT_CHARACTERS:,} characters were removed to fit the context]")
    before, after = (estimator.estimate_message(one[3], MODEL).tokens for one in (long, found.request))
    assert found.removed[0].tokens == pytest.approx(before - after, abs=1)
    assert _result_text(long[3]) == PROSE * 20, "the caller's messages are not modified"
    least = estimator.fit(long, 50, model=MODEL, shorten_results=True)
    assert least.request == [long[0], long[1], *long[-2:]]
    assert not any(row.shortened for row in least.removed)


@each(
    "content, shortened",
    [
        ([Text(text="short")], False), ([Json(json=JSON)], False), ([Json(json=json.dumps([JSON] * 20))], True),
        ([File(media="image/png", url="https://example.com/1024x1024.png")], True), ([Text(text=PROSE)] * 9, True),
    ],
)  # fmt: skip
def test_which_results_are_shortened(content: list[Any], shortened: bool) -> None:
    first = [Message("assistant", [Call(id="x", name="f")]), Message("tool", [Result(call="x", content=content)])]
    found = HybridTokenEstimator().fit([user("Go."), *first, *round_of(1)], 10, model=MODEL, shorten_results=True)
    assert removed_positions(found) == [1, 2]
    room = HybridTokenEstimator().estimate_conversation([user("Go."), *first, *round_of(1)], MODEL).high - 1
    found = HybridTokenEstimator().fit([user("Go."), *first, *round_of(1)], room, model=MODEL, shorten_results=True)
    assert [row.shortened for row in found.removed] == ([True] if shortened else [False, False])


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

REQUESTS = TESTS / "requests"
BODIES = sorted(path for path in REQUESTS.glob("*/*.json") if path.stem not in ("canonical", "mended"))
LISTS = ("messages", "contents", "input")
# Fields that change with the messages: those of Cohere's version 1, and a system prompt to which a later one moves up.
MOVED = ("chat_history", "message", "systemInstruction")


def is_subsequence(part: list[Any], whole: list[Any]) -> bool:
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in part)


@each("path", BODIES, name=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_body_comes_back_as_a_body_with_fewer_messages(path: Path) -> None:
    body, protocol = json.loads(path.read_bytes()), path.stem.partition("@")[0]
    given_body = json.dumps(body)
    estimator = HybridTokenEstimator()
    whole = estimator.estimate_conversation(body, MODEL, protocol=protocol)
    for limit in (1, whole.high // 2 or 1, whole.high):
        found = estimator.fit(body, limit, model=MODEL, protocol=protocol)
        assert json.dumps(body) == given_body
        if not found.removed:
            assert found.request is body
            continue
        assert found.request.keys() == body.keys()
        for key in body:
            if key in LISTS:
                assert is_subsequence(found.request[key], body[key])
            elif key not in MOVED:
                assert found.request[key] == body[key]
        again = estimator.estimate_conversation(found.request, MODEL, protocol=protocol)
        if path.parent.name != "responses-built-in":  # a removed message made a tool known
            assert again.tokens == pytest.approx(found.estimate.tokens, abs=5)


def with_long_results(path: Path, protocol: str) -> Request:
    request = read_request(json.loads(path.read_bytes()), protocol)
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Result) and part.by == "client":
                part.content = [Text(text=PROSE * 20)]
    return request


def test_results_are_shortened_in_any_protocol() -> None:
    tried: Counter[str] = Counter()
    estimator = HybridTokenEstimator()
    for path in BODIES:
        protocol = path.stem.partition("@")[0]
        request = with_long_results(path, protocol)
        body = write_request(request, protocol).body
        limit = estimator.estimate_conversation(body, MODEL, protocol=protocol).high - 1
        if any(row.shortened for row in estimator.fit(request, limit, model=MODEL, shorten_results=True).removed):
            shortened = estimator.fit(body, limit, model=MODEL, shorten_results=True, protocol=protocol).request
            assert "characters were removed to fit the context" in json.dumps(shortened), path
            assert len(json.dumps(shortened)) < len(json.dumps(body)) - 1_000
            tried[protocol] += 1
    assert tried.keys() >= {
        "openai-chat",
        "anthropic",
        "gemini",
        "responses",
        "bedrock",
        "cohere",
        "ollama",
        "vscode",
        "aisdk",
    }


def test_a_list_comes_back_with_the_objects_of_the_caller() -> None:
    class HostMessage:
        def __init__(self, role: int, content: list[Any]) -> None:
            self.role, self.content = role, content

    host = [HostMessage(1 + number % 2, [{"value": f"{number} {PROSE}"}]) for number in range(11)]
    estimator = HybridTokenEstimator()
    found = estimator.fit(host, estimator.estimate_conversation(host, MODEL).high // 2, model=MODEL)
    assert 0 < len(found.request) < len(host)
    assert all(one is other for one, other in zip(found.request, host[-len(found.request) :], strict=True))
    texts = tuple(f"{number} {PROSE}" for number in range(9))
    assert estimator.fit(texts, 1, model=MODEL).request == texts[-1:]
    assert estimator.fit(PROSE, 1, model=MODEL).request == PROSE
    chat = [{"role": "user", "content": f"{number} {PROSE}"} for number in range(9)]
    assert estimator.fit(chat, 1, model=MODEL).request == chat[-1:]


@each("target", ["aisdk", "openai-chat", "anthropic", "gemini", "responses"])
def test_the_result_of_convert_messages_comes_back_as_one(target: str) -> None:
    host = [{"role": 1 + number % 2, "content": [{"value": f"{number} {PROSE}"}]} for number in range(11)]
    converted = convert_messages(host, target=target)
    found = HybridTokenEstimator().fit(converted, 1, model=MODEL)
    assert type(found.request) is type(converted)
    assert [*found.request] == [*converted][-1:]
    assert found.request.body == {**converted.body, **{key: [*found.request] for key in LISTS if key in converted.body}}
    assert len(converted) == 11


# ── any conversation ──────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60, deadline=None)
@given(conversations.requests(), st.floats(0.05, 1.1), st.sampled_from(["tokens", "high"]), st.booleans())
def test_of_any_conversation(request: Request, share: float, by: Any, shorten: bool) -> None:
    """It fits, or nothing more can go; order, pairs and the prompt stay; a second run changes nothing."""
    estimator = HybridTokenEstimator()
    limit = max(1, round(getattr(estimator.estimate_conversation(request, MODEL), by) * share))
    found = estimator.fit(request, limit, model=MODEL, by=by, shorten_results=shorten)
    kept = found.request.messages
    assert found.fits == (getattr(found.estimate, by) <= limit)
    assert found.estimate == estimator.estimate_conversation(found.request, MODEL)
    gone = set(removed_positions(found))
    changed = {row.message for row in found.removed}
    rest = [(at, message) for at, message in enumerate(request.messages) if at not in gone]
    assert len(kept) == len(rest)
    for (at, message), new in zip(rest, kept, strict=True):
        assert at in changed or new is message
        assert new.role == message.role
    assert not any(request.messages[at].role == "system" for at in gone)
    users = [at for at, message in enumerate(request.messages) if message.role == "user"]
    assert not users or users[-1] not in gone
    assert pairs(kept) <= pairs(request.messages)
    assert all(
        (call in pairs(kept)) != (call in pairs([request.messages[at] for at in gone]))
        for call in pairs(request.messages)
    )
    again = estimator.fit(found.request, limit, model=MODEL, by=by, shorten_results=shorten)
    assert (again.request, again.removed) == (found.request, [])
    units = list_units(request.messages)
    count = next(number for number in range(len(units) + 1) if sum(map(len, units[:number])) == len(gone))
    assert sorted(at for unit in units[:count] for at in unit) == sorted(gone), "the oldest units, and all of them"
    if count and not shorten:
        before = {at for unit in units[: count - 1] for at in unit}
        longer = replace(request, messages=[one for at, one in enumerate(request.messages) if at not in before])
        assert getattr(estimator.estimate_conversation(longer, MODEL), by) > limit, "nothing more than needed"
    least = estimator.fit(request, 1, model=MODEL, by=by)
    assert least.fits is False
    if not found.fits:
        assert [message.role for message in kept] == [message.role for message in least.request.messages]


def pairs(messages: list[Message]) -> set[tuple[str, str]]:
    """The ids of calls that have a result, and those that have none."""
    calls = {part.id for message in messages for part in message.parts if isinstance(part, Call)}
    results = {part.call for message in messages for part in message.parts if isinstance(part, Result)}
    return {(call, "result" if call in results else "") for call in calls}


@each(
    "limit, more, message",
    [
        (0, {}, "limit: expected more than the reserve of 0 tokens, found 0"),
        (100, {"reserve": 100}, "limit: expected more than the reserve of 100 tokens, found 100"),
        (100, {"reserve": -1}, "limit: expected more than the reserve of -1 tokens, found 100"),
        (100, {"by": "low"}, "by: expected one of tokens, high, found 'low'"),
    ],
)
def test_a_limit_must_leave_room(limit: int, more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HybridTokenEstimator().fit([PROSE], limit, **more)


# ── `fit` uses what the provider counted: the messages of a known prompt are as long as the provider say ──


LONG = [user("What is a tide?")] + [
    one for number in range(10) for one in (answer(f"{number} {PROSE}"), user(f"{number}?"))
]


@each("ratio", [0.4, 1.0, 3.7])
@each("known", [len(LONG), len(LONG) - 2])
@each("share", [0.3, 0.6, 0.9])
@each("by", ["tokens", "high"])
def test_messages_are_as_long_as_the_provider_counted(ratio: float, known: int, share: float, by: Any) -> None:
    """What stays is within the limit by the counts of the provider, which counts every message alike."""
    estimator, plain = HybridTokenEstimator(), HybridTokenEstimator()
    actual = round(plain.estimate_conversation(LONG[:known], MODEL).tokens * ratio)
    estimator.calibrate(LONG[:known], actual, MODEL, learn=False)
    limit = round(actual * share)
    found = estimator.fit(LONG, limit, model=MODEL, by=by)
    assert found.fits
    assert found.removed
    left = plain.estimate_conversation(found.request, MODEL).tokens * ratio
    assert left <= limit + (2 if known == len(LONG) else 40 * ratio), "the end of the conversation is not scaled"
    if known == len(LONG):
        assert left >= limit - actual / 4, "nothing more than needed goes"
    assert sum(row.tokens for row in found.removed) == pytest.approx(actual - left, abs=80 * max(1, ratio))


def test_results_are_shortened_by_the_counts_of_the_provider() -> None:
    request = Request(messages=[user("Look."), *round_of(1, PROSE * 8), *round_of(2, PROSE * 8), user("And now?")])
    estimator = HybridTokenEstimator()
    estimated = estimator.estimate_conversation(request, MODEL).tokens
    estimator.calibrate(request, estimated * 3, MODEL, learn=False)
    found = estimator.fit(request, estimated * 2, model=MODEL, shorten_results=True)
    assert found.fits
    assert {row.shortened for row in found.removed} == {True}
    left = HybridTokenEstimator().estimate_conversation(found.request, MODEL).tokens
    assert found.estimate.tokens == pytest.approx(3 * left, rel=0.01)
