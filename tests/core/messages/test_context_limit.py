"""Conversations near the context limit: what is removed first, what is never removed; calls keep their results."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.messages import convert
from penstock.tokens import HybridTokenEstimator
from tests.support.request_passes import CLEARED, Cleared, Diagnostics, estimate_tokens, manage_context, pair
from tests.support.talks import REQUESTS, ask, assistant, call, codes, plain, result, shape, tool, user


def rounds(count: int, size: int = 400, thought: int = 400) -> rq.Request:
    talk = [user("begin")]
    for number in range(count):
        talk += [assistant(rq.Reasoning("t" * thought), call(f"c{number}")), tool(result(f"c{number}", "r" * size))]
    return ask(*talk)


def cleared(request: rq.Request) -> list[int]:
    return [
        place for place, one in enumerate(request.messages) for part in one.parts
        if isinstance(part, rq.Result) and part.content == [rq.Text(CLEARED)]
    ]  # fmt: skip


def talk(turns: int, size: int = 4000) -> rq.Request:
    """A conversation of plain words: a system prompt, turns of question and answer, and one more question."""
    said = [message for n in range(turns) for message in (user(f"{n} " + "q" * size), assistant(f"{n} " + "a" * size))]
    return ask(rq.Message("system", [rq.Text("Be brief.")]), *said, user("and now?"))


def cut(request: rq.Request, limit: int, **more: Any) -> tuple[rq.Request, list[str]]:
    """The request as it is after a provider refused it, and what was said."""
    notes = Diagnostics()
    return manage_context(request, notes, limit=limit, refused=True, **more), codes(notes)


def test_far_from_the_limit_nothing_happens() -> None:
    request = rounds(10)
    notes = Diagnostics()
    assert manage_context(request, notes, limit=100_000) is request
    assert codes(notes) == []


def test_old_results_go_and_the_last_rounds_stay() -> None:
    request = rounds(10)
    made, said = cut(request, limit=2000)
    assert cleared(made) == [2, 4, 6, 8, 10, 12, 14]
    assert (shape(made), said) == (shape(request), ["context-cleared"])


def test_no_more_goes_than_must() -> None:
    made, _ = cut(rounds(10, size=4000, thought=40), limit=11_000)
    assert cleared(made) == [2, 4, 6, 8, 10]


def test_thinking_of_turns_that_are_over_goes_before_results() -> None:
    first = rounds(4, thought=2000)
    request = ask(
        *first.messages,
        assistant("done"),
        user("and now?"),
        assistant(rq.Reasoning("t" * 400), call("z")),
        tool(result("z")),
    )
    made, _ = cut(request, limit=2900)
    assert shape(made)[1:6:2] == [f"assistant call:c{n}" for n in range(3)]
    assert shape(made)[-2] == "assistant reasoning call:z"
    assert cleared(made) == []


def test_whole_turns_go_where_there_is_nothing_to_clear() -> None:
    """The oldest first; never the system prompt and the last user turn; about 60% of the limit stays."""
    request = talk(150)
    reports: list[Cleared] = []
    made, said = cut(request, limit=100_000, report=reports.append)
    kept = made.messages[1:-1]
    assert (made.messages[0], made.messages[-1]) == (request.messages[0], request.messages[-1])
    assert kept == request.messages[-1 - len(kept) : -1]
    assert kept[0].role == "user"
    assert said == ["context-dropped"]
    assert 50_000 <= sum(map(estimate_tokens, made.messages)) <= 70_000
    assert reports == [Cleared(sum(map(estimate_tokens, request.messages)), reports[0].after, 150 - len(kept) // 2)]


def test_results_and_thinking_go_before_turns() -> None:
    request = ask(*talk(2).messages[:-1], *rounds(14, size=4000, thought=10).messages, user("and now?"))
    made, said = cut(request, limit=20_000)
    assert (len(made.messages), said) == (len(request.messages), ["context-cleared"])
    made, said = cut(request, limit=8_000)
    assert said == ["context-cleared", "context-dropped"]


def test_a_conversation_that_grows_is_cut_at_the_same_place_for_a_while() -> None:
    """Otherwise no request would have the beginning of the one before it, and nothing would be cached."""
    starts = [cut(talk(turns), limit=100_000)[0].messages[1].parts for turns in range(56, 64)]
    assert all(start == starts[0] for start in starts)


def test_by_estimate_it_acts_only_if_the_lower_bound_is_over_the_limit() -> None:
    request = ask(
        *[message for n in range(40) for message in (user(f"{n} " + "word " * 500), assistant("ok"))], user("?")
    )
    bound = HybridTokenEstimator(prompts=0).estimate_conversation(request)
    assert manage_context(request, Diagnostics(), limit=bound.low) is request
    notes = Diagnostics()
    made = manage_context(request, notes, limit=bound.low - 1)
    assert len(made.messages) < len(request.messages)
    assert codes(notes) == ["context-dropped"]


def test_a_call_and_its_result_go_together() -> None:
    """Also where a user speaks between them, as in a request that nobody has mended."""
    apart = [user("a" * 4000), assistant(call("c")), user("b" * 4000), tool(result("c", "r" * 4000)), assistant("ok")]
    made, _ = cut(ask(*apart, user("and now?")), limit=1000)
    assert shape(made) == ["user text"]
    made, _ = cut(ask(user("a" * 4000), assistant(call("c")), user("b"), tool(result("c"))), limit=500)
    assert "assistant call:c" in shape(made)


def test_it_says_when_there_is_nothing_to_clear() -> None:
    request = ask(user("x" * 4000))
    made, said = cut(request, limit=100)
    assert made is request
    assert said == ["context-full"]


def test_each_message_is_counted_once_and_once_more_if_it_changed() -> None:
    asked: list[str] = []

    def count(message: rq.Message) -> int:
        asked.append(message.role)
        return estimate_tokens(message)

    request = rounds(200)
    made = manage_context(request, Diagnostics(), limit=30_000, count=count, refused=True)
    changed = sum(new is not old for new, old in zip(made.messages, request.messages, strict=True))
    assert len(asked) == len(request.messages) + changed


@given(REQUESTS, st.integers(1, 400), st.integers(0, 3))
def test_pairs_stay_pairs(request_: rq.Request, limit: int, keep: int) -> None:
    request = pair(request_, Diagnostics())
    before = plain(request)
    made = manage_context(request, Diagnostics(), limit=limit, keep=keep, refused=True)
    assert plain(request) == before
    assert pair(made, Diagnostics()) is made
    again = manage_context(made, Diagnostics(), limit=limit, keep=keep, refused=True)
    assert (
        sum(map(estimate_tokens, again.messages))
        <= sum(map(estimate_tokens, made.messages))
        <= sum(map(estimate_tokens, request.messages)) + 60
    )


def test_a_picture_counts_as_one_however_large() -> None:
    small, large = (estimate_tokens(user(rq.File("image/png", data="A" * size))) for size in (10, 10_000_000))
    assert small == large


def test_items_whose_reasoning_went_lose_their_ids() -> None:
    """OpenAI answers 400 to an id whose reasoning item is missing; calls and results stay pairs by the call's id."""
    said = "word " * 4000
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "q1"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": said}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"role": "user", "content": "q2"},
    ]
    made = convert(
        {"model": "gpt-5", "input": items}, "responses", "responses", context_management=True, max_input=4000,
        overflow=True,
    )  # fmt: skip
    call = next(item for item in made.body["input"] if item.get("type") == "function_call")
    assert (call["call_id"], "id" in call) == ("c1", False)
    assert not any(item.get("type") == "reasoning" for item in made.body["input"])


def test_a_call_that_nobody_answered_does_not_keep_turns_from_going() -> None:
    request = talk(6)
    request.messages[2].parts.append(call("lost"))
    made, said = cut(request, limit=8000)
    assert "context-dropped" in said
    assert len(made.messages) < len(request.messages)


def test_a_call_whose_id_was_answered_before_is_not_answered_by_that() -> None:
    request = talk(6)
    request.messages[2:3] = [assistant(call("c")), tool(result("c", "1")), assistant("a" * 4000, call("c"))]
    made, said = cut(request, limit=8000)
    assert "context-dropped" in said
    assert not any(type(part) is rq.Call for message in made.messages for part in message.parts)
