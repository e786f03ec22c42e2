"""Call ids with a prefix and back: one to one, without the word that the host reserves; the prefix can be off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import bridge
from penstock import events as ev
from penstock._transforms.tool_names import CallIdPrefix

HOST = "__vscode"
IDS = st.one_of(
    st.text(), st.lists(st.sampled_from(["__vscode", "__vscod-e", "_", "-", "gw-", "e", "call"])).map("".join)
)


def test_a_prefix_is_set_and_taken_away_once() -> None:
    names = CallIdPrefix()
    assert names.name("call_1") == "gw-call_1"
    assert names.restore("gw-call_1") == "call_1"
    assert names.restore("toolu_7") == "toolu_7"  # was never ours
    assert names.name("gw-x") == "gw-gw-x"
    assert names.restore("gw-gw-x") == "gw-x"
    assert CallIdPrefix("mine.").name("call_1") == "mine.call_1"
    assert CallIdPrefix("").name("call_1") == "call_1"
    assert CallIdPrefix("").restore("gw-call_1") == "gw-call_1"
    assert CallIdPrefix(reserved=HOST).restore("gw-call_1__vscode-1712") == "call_1"  # what the host appends is cut off


@given(IDS, st.sampled_from(["gw-", "", "_", "a__vscod"]))
def test_there_and_back(id: str, prefix: str) -> None:
    names = CallIdPrefix(prefix, reserved=HOST)
    named = names.name(id)
    assert HOST not in named
    assert names.restore(named) == id
    assert names.restore(f"{named}__vscode-42") == id


@given(IDS, IDS)
def test_no_two_ids_meet(one: str, other: str) -> None:
    names = CallIdPrefix(reserved=HOST)
    assert (names.name(one) == names.name(other)) == (one == other)


def test_as_a_stage_it_names_calls_results_and_questions() -> None:
    events = [
        ev.Start(), ev.CallStart(0, "a", "f", "provider"), ev.CallDelta(0, "{}"), ev.CallEnd(0, "a", "f", "{}", "provider"),
        ev.Result(1, "a", "f", "1"), ev.CallStart(2, "b", "g"), ev.CallCut(2, "b", "g", "{"), ev.Ask(3, "a", "approval_1"),
        ev.Finish("stop"),
    ]  # fmt: skip
    out = CallIdPrefix().feed(events)
    assert [getattr(event, "id", "") for event in out if "Call" in type(event).__name__ and hasattr(event, "id")] == ["gw-a", "gw-a", "gw-b", "gw-b"]  # fmt: skip
    assert [event.call for event in out if hasattr(event, "call")] == ["gw-a", "gw-a"]
    assert out[7].id == "approval_1"
    assert CallIdPrefix().finish() == []


def test_in_a_bridge() -> None:
    pipe = bridge("events", "events", shaping=(CallIdPrefix("n-"),))
    lines = b'{"type":"start"}\n{"type":"call-start","index":0,"id":"a","name":"f"}\n'
    assert b'"id":"n-a"' in b"".join(pipe.feed([lines]))
