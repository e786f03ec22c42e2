"""Sessions of a real gateway: who sees which, what is said of them, stalls and loops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._inspector import session_findings as sf
from penstock._inspector import tenant_sessions, turn_sessions
from penstock._inspector.capture_ring import MAX_TURNS
from penstock._inspector.session_digests import CallDigest, ResultDigest
from penstock._inspector.session_messages import digest_calls
from penstock._inspector.tenant_sessions import MAX_DISK_TURNS
from penstock.request import Call
from tests.page.agent_runs import NO_ESTIMATES, Agent, plays_agent, set_times
from tests.support.client_requests import get
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

OWNER, FIRST, SECOND = (f"pk-penstock-{word}0123456789" for word in ("owner", "first", "second"))


@pytest.fixture
def watched() -> Iterator[tuple[Inspected, Reader]]:
    with inspected(plays_agent, features=NO_ESTIMATES) as running, watching(running.url) as reader:
        yield running, reader


def sessions(running: Inspected, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(f"{running.url}/inspector/sessions", headers=headers).json()["sessions"]
    return found


def session(running: Inspected, id: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = get(f"{running.url}/inspector/sessions/{id}", headers=headers).json()
    return found


def test_an_agent_is_one_session(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    agent = Agent(running, "Mend the parser.")
    agent.step()
    other = Agent(running, "Say hello.").run()
    ids = agent.run()
    ended(running, ids[-1])
    first, second = sessions(running)
    assert [first["id"], second["id"]] == [ids[0], other[0]]
    assert (first["title"], first["client"], first["turns"]) == ("Mend the parser.", "claude-code", 5)
    assert (first["loops"], first["stalls"], first["faults"], first["running"]) == (0, 0, 0, False)
    report = session(running, ids[0])
    rows = [step["row"] for step in report["steps"]]
    assert [row["id"] for row in rows] == ids
    for name in ("input", "output", "cached"):
        assert first[name] == sum(row[name] for row in rows) > 0
    assert first["cost"] == pytest.approx(sum(row["cost"] for row in rows))
    assert [step["link"] for step in report["steps"]] == ["start", *["continue"] * 4]
    assert [[call["name"] for call in step["calls"]] for step in report["steps"]] == [
        ["read_file"], ["bash", "read_file"], ["edit"], ["bash"], [],
    ]  # fmt: skip
    gaps = [step["gap"] for step in report["steps"]]
    assert gaps[0] is None
    assert [(gap["kind"], [call["name"] for call in gap["calls"]]) for gap in gaps[1:]] == [
        ("tools", ["read_file"]), ("tools", ["bash", "read_file"]), ("tools", ["edit"]), ("tools", ["bash"]),
    ]  # fmt: skip
    assert gaps[1]["calls"] == [{"name": "read_file", "preview": '{"path":"parser.py"}', "failed": False}]
    assert {step["window"] for step in report["steps"]} == {200_000}
    assert session(running, ids[3]) == report | {"session": report["session"]}
    assert running.inspector.sessions.reader.find_previous(ids[3], None) == ids[2]
    place = get(f"{running.url}/inspector/sessions?turn={ids[3]}").json()
    assert (place["turns"], [one["id"] for one in place["sessions"]]) == (ids, [ids[0]])


def test_the_user_goes_on_and_edits(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    agent = Agent(running, "Say hello.")
    agent.step()
    agent.add_user_message("Once more.")
    agent.step()
    agent.messages[2:] = [{"role": "user", "content": "In French."}]
    agent.step()
    agent.add_user_message("FAIL")
    agent.step()
    agent.step()
    ended(running, agent.ids[-1])
    report = session(running, agent.ids[0])
    assert [step["link"] for step in report["steps"]] == ["start", "continue", "edit", "continue", "retry"]
    assert [step["gap"]["kind"] for step in report["steps"][1:]] == ["user", "user", "user", "client"]
    assert report["session"]["faults"] == 2


def test_the_last_calls_are_known_before_their_results(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    agent = Agent(running, "Start the server.")
    agent.step()
    ended(running, agent.ids[-1])
    (step,) = session(running, agent.ids[0])["steps"]
    assert step["calls"] == [{"name": "bash", "preview": '{"command":"npm start"}', "failed": None}]


def test_a_loop_is_found(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    same, turns = Agent(running, "Start the server.").run(["port in use"] * 4), Agent(running, "Make it pass.").run()
    ended(running, turns[-1])
    (loop,) = session(running, same[0])["findings"]
    assert loop == {
        "kind": "loop", "where": "calls", "turn": same[3], "turns": same[:4],
        "words": "bash was called 4 times in a row with the same arguments; the results were the same each time",
    }  # fmt: skip
    (loop,) = session(running, turns[0])["findings"]
    assert loop["words"].startswith("bash and edit were called in turn, 3 times with the same arguments")
    assert [one["loops"] for one in sessions(running)] == [1, 1]


def test_a_loop_is_found_however_the_arguments_are_written() -> None:
    """The order of the fields and the spaces between them do not matter; what is in a string does."""
    texts = [
        '{"a":1,"b":[1,{"c":2,"d":3}]}',
        '{ "b": [1, {"d": 3, "c": 2}],\n "a": 1 }',
        '{"a":1,"b":[1,{"d":3,"c":2}]}',
    ]
    same = digest_calls([Call(id=f"c{at}", name="bash", json=text) for at, text in enumerate(texts)])
    assert len({call.digest for call in same}) == 1
    (loop,) = sf.find_loops([(call.id, call) for call in same], {})
    assert loop.words == "bash was called 3 times in a row with the same arguments"
    others = ['{"a":"x y"}', '{"a":"x  y"}', '{"a":["x y"]}', '{"a": broken', "{}", ""]
    told_apart = digest_calls([Call(id="c", name="bash", json=text) for text in others])
    assert len({call.digest for call in told_apart}) == 5  # no arguments are the same as an empty object


def test_a_stall_is_found(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    ids = Agent(running, "Mend the parser.").run()
    ended(running, ids[-1])
    set_times(running, ids, [(0, 3), (1, 2), (95, 3), (1, 60), (2, 4)], time.time() - 300)
    report = session(running, ids[0])
    assert [(found["where"], found["turn"], found["words"]) for found in report["findings"]] == [
        ("gap", ids[2], "bash, read_file took 95.0 s: 63 times the usual gap of 1.5 s"),
        ("turn", ids[3], "the turn took 60.0 s: 20 times the usual 3.0 s"),
    ]  # fmt: skip
    assert sessions(running)[0]["stalls"] == 2


def test_keys_see_their_own_sessions() -> None:
    keys = {name: {"hash": hash_key(key), "inspect": "all" if key == OWNER else "own"}
            for name, key in (("owner", OWNER), ("first", FIRST), ("second", SECOND))}  # fmt: skip
    with inspected(plays_agent, keys=keys) as running, watching(running.url, bearer(OWNER)):
        mine = Agent(running, "Say hello.", bearer(FIRST)).run()[0]
        other = Agent(running, "Say hello.", bearer(SECOND)).run()[0]
        ended(running, other)
        assert {one["id"] for one in sessions(running, bearer(OWNER))} == {mine, other}
        for key, seen, hidden in ((FIRST, mine, other), (SECOND, other, mine)):
            assert [one["id"] for one in sessions(running, bearer(key))] == [seen]
            assert get(f"{running.url}/inspector/sessions/{seen}", headers=bearer(key)).status_code == 200
            refused = get(f"{running.url}/inspector/sessions/{hidden}", headers=bearer(key))
            assert (refused.status_code, hidden in refused.text) == (404, True)
            place = get(f"{running.url}/inspector/sessions?turn={hidden}", headers=bearer(key)).json()
            assert place == {"sessions": [], "turns": [], "more": 0}
            assert running.inspector.sessions.reader.find_session(hidden, key) is None
        assert get(f"{running.url}/inspector/sessions").status_code == 401
        assert get(f"{running.url}/inspector/sessions/{mine}").status_code == 401


def test_no_tenant_waits_for_the_sessions_of_another() -> None:
    """Nor does a deletion: who reads the sessions forgets the deleted turns afterwards."""
    keys = {name: {"hash": hash_key(key), "inspect": "own"} for name, key in (("first", FIRST), ("second", SECOND))}
    with inspected(plays_agent, keys=keys) as running, watching(running.url, bearer(FIRST)) as reader:
        with watching(running.url, bearer(SECOND)):
            mine = Agent(running, "Say hello.", bearer(FIRST)).run()[0]
            other = Agent(running, "Say hello.", bearer(SECOND)).run()[0]
            ended(running, other)
        reader.until(lambda: mine in reader.rows)
        assert [one["id"] for one in sessions(running, bearer(SECOND))] == [other]
        found = running.inspector.sessions.reader
        with found.of_tenant(running.inspector.watch.captures[mine].tenant).refreshed():
            assert [one["id"] for one in sessions(running, bearer(SECOND))] == [other]
            for key in (SECOND, FIRST):
                url = f"{running.url}/inspector/turns"
                assert httpx.delete(url, headers=bearer(key), timeout=20, trust_env=False).status_code == 200
            assert list(found.titles) == [mine]
        assert found.titles == {}


def test_secrets_and_forgotten_turns_leave_the_sessions(watched: tuple[Inspected, Reader]) -> None:
    running, _ = watched
    secret = "sk-ant-" + "x" * 40
    ids = Agent(running, f"My key is {secret}").run()
    ended(running, ids[-1])
    text = get(f"{running.url}/inspector/sessions").text + get(f"{running.url}/inspector/sessions/{ids[0]}").text
    assert "My key is" in text
    assert secret not in text
    running.call(_clear(running))
    assert sessions(running) == []
    assert get(f"{running.url}/inspector/sessions/{ids[0]}").status_code == 404
    assert running.inspector.sessions.reader.titles == {}


def test_sessions_of_turns_on_disk(tmp_path: Path) -> None:
    """They outlive the memory and the gateway; what is deleted leaves them."""
    options: dict[str, Any] = {"features": NO_ESTIMATES, "data": tmp_path, "inspector": {"keep": True}}
    with inspected(plays_agent, **options) as running:
        agent = Agent(running, "Start the server.")
        for _ in range(3):
            agent.step("port in use")
        ended(running, agent.ids[-1])
        before = session(running, agent.ids[0])
        running.inspector.watch.disk.flush()
    with inspected(plays_agent, **options) as running:
        after = session(running, agent.ids[1])
        assert [step["row"]["id"] for step in after["steps"]] == agent.ids
        assert after["findings"] == before["findings"] != []
        assert sessions(running)[0]["title"] == "Start the server."
        agent = Agent(running, "")
        agent.messages, agent.ids = [{"role": "user", "content": "Start the server."}], []
        agent.run(["ok"] * 4)
        assert len(sessions(running)) == 2  # the same words again, at another time
        previous = running.inspector.sessions.reader.find_previous(after["steps"][2]["row"]["id"], None)
        assert previous == after["steps"][1]["row"]["id"]
        gone = httpx.delete(f"{running.url}/inspector/turns", timeout=20, trust_env=False)
        assert gone.status_code == 200
        assert sessions(running) == []
        assert running.inspector.sessions.reader.titles == {}


def test_older_turns_on_disk_are_not_read_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_sessions, "MAX_DISK_TURNS", 2)
    options: dict[str, Any] = {"features": NO_ESTIMATES, "data": tmp_path, "inspector": {"keep": True}}
    with inspected(plays_agent, **options) as running:
        for words in ("One.", "Two.", "Three."):
            Agent(running, words).step()
        running.inspector.watch.disk.flush()
        assert get(f"{running.url}/inspector/sessions").json()["unread"] == 0, "they are in memory"
    with inspected(plays_agent, **options) as running:
        found = get(f"{running.url}/inspector/sessions").json()
        assert ([one["title"] for one in found["sessions"]], found["unread"]) == (["Three.", "Two."], 1)


def test_each_turn_that_is_held_may_be_a_session_of_its_own() -> None:
    assert MAX_TURNS + MAX_DISK_TURNS <= turn_sessions.MAX_SESSIONS <= turn_sessions.MAX_GROUPED_TURNS


def test_more_sessions_than_are_grouped(watched: tuple[Inspected, Reader], monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are listed, also when the list is read again."""
    monkeypatch.setattr(turn_sessions, "MAX_SESSIONS", 2)
    running, _ = watched
    for words in ("One.", "Two.", "Three.", "Four."):
        ended(running, Agent(running, words).run([])[-1])
    for _ in range(3):
        assert [one["title"] for one in sessions(running)] == ["Four.", "Three."]


async def _clear(running: Inspected) -> None:
    running.inspector.watch.clear()


# ── findings ──────────────────────────────────────────────────────────────────────────────────────


def calls(text: str) -> list[tuple[str, CallDigest]]:
    return [(f"t{at}", CallDigest(f"c{at}", letter, letter.encode(), "")) for at, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("sequence", "found"),
    [
        ("", []), ("abc", []), ("aab", []), ("aaab", ["0-2"]), ("xabab", ["1-4"]), ("ababa", ["0-3"]),
        ("abcabcabc", ["0-8"]), ("abcdabcd", ["0-7"]), ("abcdeabcde", []), ("aaabbb", ["0-2", "3-5"]),
        ("aaaaxabab", ["0-3", "5-8"]), ("abba", []),
    ],
)  # fmt: skip
def test_loops(sequence: str, found: list[str]) -> None:
    loops = sf.find_loops(calls(sequence), {})
    assert [f"{loop.turns[0][1:]}-{loop.turns[-1][1:]}" for loop in loops] == found


def test_the_words_of_a_loop_say_whether_results_differ() -> None:
    results = {f"c{at}": ResultDigest(f"c{at}", digest, failed=False) for at, digest in enumerate([b"1", b"2", b"1"])}
    (loop,) = sf.find_loops(calls("aaa"), results)
    assert loop.words == "a was called 3 times in a row with the same arguments; the results differ"


@pytest.mark.parametrize(
    ("sequence", "known", "said"),
    [
        ("aaaa", "111-", "; the results so far were the same each time"),
        ("aaaa", "11-1", "; the results so far were the same each time"),
        ("aaaa", "112-", "; the results differ"), ("aaaa", "1---", ""), ("aaaa", "----", ""),
        ("ababab", "12121-", "; the results so far were the same each time"),
        ("ababab", "-2121-", "; the results so far were the same each time"),
        ("ababab", "1-121-", ""), ("ababab", "12131-", "; the results differ"),
        ("ababab", "121212", "; the results were the same each time"),
    ],
)  # fmt: skip
def test_a_loop_compares_the_results_that_are_known(sequence: str, known: str, said: str) -> None:
    """The last call of a loop has no result while its turn runs, or if the client gave up."""
    ids = {f"c{at}": sign for at, sign in enumerate(known) if sign != "-"}
    results = {one: ResultDigest(one, sign.encode(), failed=False) for one, sign in ids.items()}
    (loop,) = sf.find_loops(calls(sequence), results)
    assert loop.words.partition(" with the same arguments")[2] == said


def timed(id: str, duration: float, gap: float | None = 1.0, silence: float = 0.0) -> sf.TimedTurn:
    return sf.TimedTurn(id, duration, gap, "bash", silence, 2.0)


def test_stalls_need_others_to_compare_with() -> None:
    assert sf.find_stalls([timed("a", 500.0), timed("b", 1.0)]) == []
    usual = [timed(str(number), 12.0, 12.0) for number in range(5)]
    assert sf.find_stalls(usual) == []
    assert sf.find_stalls([*usual, timed("x", 47.0, 47.0)]) == []
    (slow,) = sf.find_stalls([*usual, timed("x", 130.0, None)])
    assert (slow.where, slow.words) == ("turn", "the turn took 2 min 10 s: 11 times the usual 12.0 s")


def test_a_turn_that_runs_has_not_taken_its_time_yet() -> None:
    usual = [timed(str(number), 3.0) for number in range(4)]
    (slow,) = sf.find_stalls([*usual, timed("x", 40.0)._replace(running=True)])
    assert slow.words == "the turn has run for 40.0 s: 13 times the usual 3.0 s"
    (silent,) = sf.find_stalls(
        [timed("a", 30.0, silence=11.0)._replace(running=True, silent_now=True, silent_from=0.0)]
    )
    assert silent.words == "no bytes have come for 11.0 s"


def test_a_stream_without_bytes_is_a_stall() -> None:
    (silent,) = sf.find_stalls([timed("a", 30.0, silence=11.0)])
    assert (silent.where, silent.words) == ("stream", "no bytes came for 11.0 s, from 2.0 s after the beginning")
