"""State between turns, for clients that cannot carry it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.messages import remember, restore
from penstock.stores import MemoryStore
from tests.support.each_case import each
from tests.support.request_passes import Diagnostics, call_key, mark_key, state_keys_of, state_rows, text_key
from tests.support.talks import ask, assistant, call, codes, plain, result, shape, tool, user

SIGNED = rq.Reasoning("Let me look — “there”.", extra={"anthropic": {"signature": "EqQB+/=="}})
REDACTED = rq.Reasoning(form="redacted", extra={"anthropic": {"redacted": "blob"}})
SEALED = rq.Reasoning(
    item="rs_1", form="summary", extra={"responses": {"id": "rs_1", "encrypted_content": "gAAA", "summary": []}}
)


def store() -> MemoryStore:
    return MemoryStore(lambda: 0.0)


def turn(*parts: rq.AnyPart) -> rq.Turn:
    return rq.Turn("t", parts=list(parts))


def next_turn(answer: rq.Turn, *messages: rq.Message, tenant: str = "me") -> tuple[rq.Request, list[str]]:
    kept, notes = store(), Diagnostics()
    remember(answer, kept, "me")
    return restore(ask(*messages), kept, tenant, notes), codes(notes)


def test_a_signature_comes_back_before_its_call_byte_for_byte() -> None:
    made, found = next_turn(turn(SIGNED, call("a")), user("hi"), assistant(call("a")), tool(result("a")))
    assert shape(made)[1] == "assistant reasoning call:a"
    assert made.messages[1].parts[0] == SIGNED
    assert msgspec.json.encode(made.messages[1].parts[0]) == msgspec.json.encode(SIGNED)
    assert found == ["state-restored"]


def test_plain_reasoning_comes_back_too() -> None:
    thought = rq.Reasoning("hm, a file")
    made, _ = next_turn(turn(thought, call("a")), user("hi"), assistant(call("a")), tool(result("a")))
    assert made.messages[1].parts[0] == thought


def test_a_message_without_calls_is_known_by_its_text() -> None:
    made, _ = next_turn(turn(SIGNED, rq.Text("It is a cat.")), user("hi"), assistant("It is a cat.\n"), user("sure?"))
    assert shape(made)[1] == "assistant reasoning text"
    made, _ = next_turn(turn(SIGNED, rq.Text("It is a cat.")), user("hi"), assistant("It is a dog."), user("sure?"))
    assert shape(made)[1] == "assistant text"


@each(
    "parts, said, made",
    [
        ([SIGNED, rq.Text("ok"), call("a")], ["ok", call("a")], "assistant reasoning text call:a"),
        ([rq.Text("ok"), SIGNED, call("a")], ["ok", call("a")], "assistant text reasoning call:a"),
        ([SIGNED, call("a"), SEALED, call("b")], [call("a"), call("b")], "assistant reasoning call:a reasoning call:b"),
        (
            [SIGNED, REDACTED, call("a"), call("b")],
            [call("a"), call("b")],
            "assistant reasoning reasoning call:a call:b",
        ),
        ([SIGNED, call("a"), SEALED], [call("a")], "assistant reasoning call:a reasoning"),
        ([SIGNED, call("a")], [rq.Reasoning("a copy without its state"), call("a")], "assistant reasoning call:a"),
        ([rq.Opaque("responses", "compaction", {"x": 1}), call("a")], [call("a")], "assistant opaque call:a"),
        ([rq.Text("ok"), SIGNED], ["ok"], "assistant text reasoning"),
        ([SIGNED], [], "assistant reasoning"),
    ],
)
def test_everything_goes_to_where_it_was(parts: list[Any], said: list[Any], made: str) -> None:
    request, _ = next_turn(turn(*parts), user("hi"), assistant(*said))
    assert shape(request)[1] == made
    kept = [part for part in request.messages[1].parts if isinstance(part, rq.Reasoning | rq.Opaque)]
    assert kept == [part for part in parts if isinstance(part, rq.Reasoning | rq.Opaque)]


def test_what_came_with_a_call_or_a_text_comes_back_with_it() -> None:
    signed: Any = {"gemini": {"thoughtSignature": "S"}}
    answer = turn(rq.Text("ok", extra={"gemini": {"thoughtSignature": "T"}}), call("a", extra=signed), call("b"))
    own: Any = {"responses": {"id": "fc_1"}}
    made, _ = next_turn(answer, assistant("ok", call("a", extra=own), call("b")))
    text, first, second = made.messages[0].parts
    assert text.extra == {"gemini": {"thoughtSignature": "T"}}  # type: ignore[union-attr]
    assert first.extra == {**own, **signed}  # type: ignore[union-attr]
    assert second.extra is None  # type: ignore[union-attr]


def test_what_the_client_carries_itself_wins() -> None:
    own = rq.Reasoning("mine", extra={"anthropic": {"signature": "other"}})
    made, found = next_turn(turn(SIGNED, call("a")), assistant(own, call("a")))
    assert made.messages[0].parts[0] == own
    assert found == []


def test_another_tenant_gets_nothing() -> None:
    made, found = next_turn(turn(SIGNED, call("a")), assistant(call("a")), tenant="you")
    assert shape(made) == ["assistant call:a"]
    assert found == []


def test_an_id_alone_is_not_enough() -> None:
    """Some providers count their ids from nought in every conversation."""
    made, _ = next_turn(turn(SIGNED, call("call_0", json='{"n":1}')), assistant(call("call_0", json='{"n":2}')))
    assert shape(made) == ["assistant call:call_0"]


@each("one, two", [('{"a":1.0,"b":[2]}', '{ "b": [2.0], "a": 1 }'), ("{}", ""), ('{"a":"\\u00e4"}', '{"a":"ä"}')])
def test_the_spelling_of_an_input_does_not_matter(one: str, two: str) -> None:
    assert call_key(call("a", json=one)) == call_key(call("a", json=two))


def test_other_choices_cut_calls_and_what_a_provider_ran_are_not_kept() -> None:
    assert state_rows([rq.Reasoning("x", choice=1), rq.Text("y")]) == {}
    assert set(state_rows([SIGNED, call("s", by="provider"), call("c", cut=True), rq.Text("ok")])) == {
        text_key([rq.Text("ok")])
    }


def test_nothing_to_keep_is_nothing_kept() -> None:
    kept = store()
    remember(turn(rq.Text("hello"), call("a")), kept, "me")
    assert len(kept) == 0


def test_a_request_that_needs_nothing_asks_for_nothing() -> None:
    assert state_keys_of(ask(user("hi"))) == []
    request = ask(user("hi"), assistant("yo"))
    assert restore(request, store(), "me", Diagnostics()) is request


def test_damaged_rows_are_as_good_as_forgotten() -> None:
    kept, request = store(), ask(assistant(call("a")))
    kept.put("me", {call_key(call("a")): b'{"before":7}'})
    assert restore(request, kept, "me", Diagnostics()) is request


PARTS = st.lists(
    st.one_of(
        st.sampled_from([SIGNED, REDACTED, SEALED, rq.Text("ok"), rq.Text("more", extra={"gemini": {"thoughtSignature": "T"}})]),
        st.builds(lambda n, extra: call(f"c{n}", json=f'{{"n":{n}}}', extra=extra), st.integers(0, 9), st.sampled_from([None, {"gemini": {"x": 1}}])),
    ),
    max_size=7,
    unique_by=lambda part: part.id if isinstance(part, rq.Call) else object(),
)  # fmt: skip


@given(PARTS)
def test_state_survives_a_client_that_carries_none(parts: list[Any]) -> None:
    bare = [msgspec.structs.replace(part, extra=None) for part in parts if isinstance(part, rq.Text | rq.Call)]
    request = ask(user("hi"), rq.Message("assistant", list(bare)))
    before = plain(request)
    kept = store()
    remember(turn(*parts), kept, "me")
    made = restore(request, kept, "me", Diagnostics())
    assert plain(request) == before

    def thoughts(of: list[Any]) -> list[Any]:
        return [part for part in of if isinstance(part, rq.Reasoning)]

    def calls(of: list[Any]) -> list[Any]:
        return [part for part in of if isinstance(part, rq.Call)]

    assert thoughts(made.messages[1].parts) == thoughts(parts)
    assert calls(made.messages[1].parts) == calls(parts)
    assert restore(made, kept, "me", Diagnostics()) == made


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────


def marked(message: rq.Message, marker: str) -> rq.Message:
    message.extra = {"vscode": {"_": {"marker": marker}}}
    return message


def after(mark: str, answer: rq.Turn, *messages: rq.Message) -> rq.Request:
    kept = store()
    remember(answer, kept, "me", mark)
    remember(turn(REDACTED, rq.Text("It is a cat.")), kept, "me", "another")
    return restore(ask(*messages), kept, "me", Diagnostics())


def test_a_mark_leads_to_the_state_whatever_became_of_the_text() -> None:
    answer = turn(SIGNED, rq.Text("It is a cat."))
    for text in ("It is a [cat](https://cats.example).", "It is a cat."):  # the second was said elsewhere since
        said = marked(assistant(text), "acme/tiny\\one")
        assert after("one", answer, user("hi"), said, user("sure?")).messages[1].parts[0] == SIGNED
    lost = marked(assistant("It is a [cat](https://cats.example)."), "acme/tiny\\two")
    assert shape(after("one", answer, user("hi"), lost))[1] == "assistant text"


def test_calls_of_a_marked_message_are_known_by_their_ids_alone() -> None:
    answer = turn(SIGNED, call("a"), SEALED, call("b"))
    changed = [rq.Call(name, "read", '{"path":"elsewhere"}') for name in ("a", "b")]
    made = after("one", answer, user("hi"), marked(assistant(*changed), "tiny\\one"), tool(result("a"), result("b")))
    assert shape(made)[1] == "assistant reasoning call:a reasoning call:b"
    assert [made.messages[1].parts[0], made.messages[1].parts[2]] == [SIGNED, SEALED]
    only = after("one", answer, user("hi"), marked(assistant(changed[1]), "tiny\\one"), tool(result("b")))
    assert shape(only)[1] == "assistant reasoning call:b"
    assert only.messages[1].parts[0] == SEALED


def test_the_first_call_may_be_marked_and_the_second_known_by_itself() -> None:
    """A mark knows the calls that have state; what follows it is looked up under its own key all the same."""
    kept = store()
    remember(turn(SIGNED, call("a")), kept, "me", "one")
    remember(turn(SEALED, call("b")), kept, "me")
    both = marked(assistant(call("a"), call("b")), "tiny\\one")
    made = restore(ask(user("hi"), both, tool(result("a"), result("b"))), kept, "me", Diagnostics())
    assert shape(made)[1] == "assistant reasoning call:a reasoning call:b"


def test_a_marked_row_that_is_damaged_is_as_good_as_none() -> None:
    kept = store()
    kept.put("me", {mark_key("one"): b'{"":7}'})
    said = marked(assistant("hello"), "tiny\\one")
    assert shape(restore(ask(user("hi"), said), kept, "me", Diagnostics()))[1] == "assistant text"
