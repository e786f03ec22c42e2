"""Turns are grouped into sessions by what they share: who sees which, what belongs together, stalls and loops."""

from __future__ import annotations

import json
import re
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import events as ev
from penstock.testing import Reply
from tests.page.agent_runs import NO_ESTIMATES, Agent, plays_agent, set_times
from tests.support.client_requests import get
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key, spoken_protocol
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds, set_clock
from tests.support.inspector_calls import CLIENT, ask_inspector, delete, say, send, view
from tests.support.kept_on_disk import on_disk
from tests.support.paused_upstream import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

OWNER, FIRST, SECOND = (f"pk-penstock-{word}0123456789" for word in ("owner", "first", "second"))


def sessions(running: Inspected, key: str = "") -> list[dict[str, Any]]:
    return list(view(running, "sessions", key, limit=200)["sessions"])


def session(running: Inspected, id: str, key: str = "") -> dict[str, Any]:
    return dict(view(running, f"sessions/{id}", key))


def links(running: Inspected, id: str) -> list[str]:
    return [step["link"] for step in session(running, id)["steps"]]


# ── an agent ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def agents() -> Iterator[Inspected]:
    with inspected(plays_agent, features=NO_ESTIMATES) as running:
        yield running


def test_an_agent_is_one_session(agents: Inspected) -> None:
    agent = Agent(agents, "Mend the parser.")
    agent.step()
    other = Agent(agents, "Say hello.").run()
    ids = agent.run()
    ended(agents, ids[-1])
    first, second = sessions(agents)[:2]
    assert [first["id"], second["id"]] == [ids[0], other[0]]
    assert (first["title"], first["client"], first["turns"]) == ("Mend the parser.", "claude-code", 5)
    assert (first["loops"], first["stalls"], first["faults"], first["running"]) == (0, 0, 0, False)
    report = session(agents, ids[0])
    rows = [step["row"] for step in report["steps"]]
    assert [row["id"] for row in rows] == ids
    for name in ("input", "output", "cached"):
        assert first[name] == sum(row[name] for row in rows) > 0
    assert first["cost"] == pytest.approx(sum(row["cost"] for row in rows))
    assert [step["link"] for step in report["steps"]] == ["start", *["continue"] * 4]
    called = [["read_file"], ["bash", "read_file"], ["edit"], ["bash"]]
    assert [[call["name"] for call in step["calls"]] for step in report["steps"]] == [*called, []]
    gaps = [step["gap"] for step in report["steps"]]
    assert gaps[0] is None
    assert [(gap["kind"], [call["name"] for call in gap["calls"]]) for gap in gaps[1:]] == [
        ("tools", one) for one in called
    ]
    assert gaps[1]["calls"] == [{"name": "read_file", "preview": '{"path":"parser.py"}', "failed": False}]
    assert {step["window"] for step in report["steps"]} == {200_000}
    assert session(agents, ids[3]) == report | {"session": report["session"]}
    assert view(agents, f"turns/{ids[3]}/request")["previous"]["id"] == ids[2]
    place = view(agents, f"sessions?turn={ids[3]}")
    assert (place["turns"], [one["id"] for one in place["sessions"]]) == (ids, [ids[0]])


def test_the_user_goes_on_and_edits(agents: Inspected) -> None:
    agent = Agent(agents, "Say hello.", {"user-agent": "edits/1"})
    agent.step()
    agent.add_user_message("Once more.")
    agent.step()
    agent.messages[2:] = [{"role": "user", "content": "In French."}]
    agent.step()
    agent.add_user_message("FAIL")
    agent.step()
    agent.step()
    ended(agents, agent.ids[-1])
    report = session(agents, agent.ids[0])
    assert [step["link"] for step in report["steps"]] == ["start", "continue", "edit", "continue", "retry"]
    assert [step["gap"]["kind"] for step in report["steps"][1:]] == ["user", "user", "user", "client"]
    assert report["session"]["faults"] == 2


def test_the_last_calls_are_known_before_their_results(agents: Inspected) -> None:
    agent = Agent(agents, "Start the server.", {"user-agent": "last-calls/1"})
    agent.step()
    ended(agents, agent.ids[-1])
    (step,) = session(agents, agent.ids[0])["steps"]
    assert step["calls"] == [{"name": "bash", "preview": '{"command":"npm start"}', "failed": None}]


def test_a_loop_of_an_agent_is_found(agents: Inspected) -> None:
    same = Agent(agents, "Start the server.", {"user-agent": "loops/1"}).run(["port in use"] * 4)
    turns = Agent(agents, "Make it pass.", {"user-agent": "loops/1"}).run()
    ended(agents, turns[-1])
    (loop,) = session(agents, same[0])["findings"]
    assert loop == {
        "kind": "loop", "where": "calls", "turn": same[3], "turns": same[:4],
        "words": "bash was called 4 times in a row with the same arguments; the results were the same each time",
    }  # fmt: skip
    (loop,) = session(agents, turns[0])["findings"]
    assert loop["words"].startswith("bash and edit were called in turn, 3 times with the same arguments")
    assert [one["loops"] for one in sessions(agents)[:2]] == [1, 1]


def test_stalls_are_found(agents: Inspected) -> None:
    ids = Agent(agents, "Mend the parser.", {"user-agent": "stalls/1"}).run()
    ended(agents, ids[-1])
    set_times(agents, ids, [(0, 3), (1, 2), (95, 3), (1, 60), (2, 4)], time.time() - 300)
    report = session(agents, ids[0])
    assert [(found["where"], found["turn"], found["words"]) for found in report["findings"]] == [
        ("gap", ids[2], "bash, read_file took 95.0 s: 63 times the usual gap of 1.5 s"),
        ("turn", ids[3], "the turn took 60.0 s: 20 times the usual 3.0 s"),
    ]  # fmt: skip
    assert [one["stalls"] for one in sessions(agents) if one["id"] == ids[0]] == [2]


def test_stalls_need_others_to_compare_with(agents: Inspected) -> None:
    """Several, and that it took at least ten seconds."""
    slow = ["the turn took 2 min 10 s: 11 times the usual 12.0 s"]
    usual = [12, 12, 12, 12]
    for times, found in (
        ([500, 1], []),
        ([*usual, 12], []),
        ([*usual, 47], []),
        ([*usual, 130], slow),
        ([1, 1, 1, 1, 9], []),
    ):
        agent = Agent(agents, "Say hello.", {"user-agent": f"times-{len(times)}-{times[-1]}/1"})
        for number in range(len(times)):
            agent.add_user_message(f"Again, {number}.")
            agent.step()
        ended(agents, agent.ids[-1])
        set_times(agents, agent.ids, [(40, duration) for duration in times], time.time() - 2_000)
        assert [one["words"] for one in session(agents, agent.ids[0])["findings"]] == found, times


# ── the model that says what it is told ───────────────────────────────────────────────────────────

ANTHROPIC = {"user-agent": "Anthropic/Python 0.50.0", "anthropic-version": "2023-06-01"}
CURL = {"user-agent": "curl/8.5.0"}
CLAUDE_CODE = {"user-agent": "claude-cli/2.1.9 (external, cli)", "anthropic-version": "2023-06-01"}
SUMMARY = "1. Primary request: the parser of dates loses the time zone.\n2. Files: src/dates.py, tests/test_dates.py."
ANSWERS: dict[str, str] = {}  # what the model says to a last message, if it is not what it says to everybody


def says(seen: ReceivedRequest) -> Reply:
    """The model: it says the same to everybody, sums up if it is asked to, and fails if it is told to."""
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    spoken, asked = spoken_protocol(protocol, rest), seen.body.decode()
    last = asked[asked.rindex('"user"') if '"user"' in asked else 0 :]
    told = next((answer for mark, answer in ANSWERS.items() if mark in asked), "I am here to help you with that.")
    if told == "FAIL" or "FAIL" in last:
        return Reply.error("anthropic", 500, "the provider is out of order")
    words = f"<summary>\n{SUMMARY}\n</summary>" if "detailed summary" in last else told
    events: list[ev.AnyEvent] = [ev.Start(id=f"resp_{time.monotonic_ns()}", model="m"), ev.TextStart(0)]
    events += [ev.TextDelta(0, words), ev.TextEnd(0), ev.Usage(input=20, output=9), ev.Finish("stop")]
    return Reply.of(spoken, events, stream=json.loads(seen.body).get("stream") is True or "stream" in rest)


@pytest.fixture(scope="module")
def talking() -> Iterator[Inspected]:
    with inspected(says, features=NO_ESTIMATES) as made:
        yield made


class T(NamedTuple):
    """A turn: its messages, of which those with A are the model's; when it begins, and how long it takes."""

    words: str | list[str]
    at: float | None = None  # by default a second after all others ended
    seconds: float = 1.0
    failed: bool = False
    answer: str = ""  # by default what no other turn has said


_numbers = count()


def _message(word: str) -> dict[str, Any]:
    """`A…` is an answer of the model, everything else is the client's. A short word stands for a distinct text."""
    role = "assistant" if word[0] in "Aa" and len(word) < 8 else "user"
    text = f"{word}: {word * 3} and so on, as was said before." if len(word) < 8 and word[0] != "a" else word
    return {"role": role, "content": text}


def play(running: Inspected, *turns: T | str) -> list[str]:
    """Sends turns of a client of its own at these times. Says of each: `session link messages shared, previous`."""
    client, ids, times, now = f"talk{next(_numbers)}/1.0", list[str](), list[tuple[float, float]](), 0.0
    for turn in (T(one) if isinstance(one, str) else one for one in turns):
        words = turn.words.split() if isinstance(turn.words, str) else turn.words
        mark, messages = f"mark {client} {len(ids)};", [_message(word) for word in words]
        answer = turn.answer or f"what nobody has said before {mark}"
        ANSWERS[mark] = _message(answer)["content"] if answer[0] == "A" and len(answer) < 8 else answer
        if turn.failed:
            ANSWERS[mark] = "FAIL"
        body = {"model": "anthropic/text", "max_tokens": 99, "messages": messages, "metadata": {"user_id": mark}}
        reply = CLIENT.post(f"{running.url}/v1/messages", json=body, headers={"user-agent": client})
        assert reply.is_success is not turn.failed
        ids.append(reply.headers["x-request-id"])
        began = now if turn.at is None else turn.at
        times.append((began, turn.seconds))
        now = max(now, began + turn.seconds + 1)
    ended(running, ids[-1])
    gaps = [(began - (sum(times[n - 1]) if n else 0.0), seconds) for n, (began, seconds) in enumerate(times)]
    set_times(running, ids, gaps, time.time() - 20_000)
    return _describe(running, ids)


def _describe(running: Inspected, ids: list[str]) -> list[str]:
    told: dict[str, str] = {}
    for name in ids:
        if name in told:
            continue
        report = session(running, name)
        for step in report["steps"]:
            previous = f"t{ids.index(step['previous'])}" if step["previous"] else "-"
            shared = step["messages"] - step["added"]
            told[step["row"]["id"]] = f"t{ids.index(report['session']['id'])} {step['link']} {shared} {previous}"
    return [told[name] for name in ids]


PARSER = (
    "The user wants a parser of dates and of times of the day.\nThe tests are in tests/parser, and two of them fail."
)
GROWN = ["U1", *(" ".join(["U1", *(f"A{m} U{m + 1}" for m in range(1, n + 1))]) for n in range(1, 5))]
LAST = "U1 A1 U2 A2 U3 A3 U4 A4 U5 A5 U6"
GROWING = [T(words, answer=f"A{n}") for n, words in enumerate(GROWN, 1)]
CONVERSATIONS: dict[str, tuple[list[T | str], list[str]]] = {
    "it grows": (["U1", "U1 A1 R1", "U1 A1 R1 A2 U2"], ["t0 start 0 -", "t0 continue 1 t0", "t0 continue 3 t1"]),
    "the longest prefix wins": (
        ["U1", "U2", "U1 A1 U3", T("U1 A9 U4", at=4), "U1 A9 U4 A5 U5", "U1 A1 U3 A4 U6"],
        ["t0 start 0 -", "t1 start 0 -", "t0 continue 1 t0", "t3 fork 1 t0", "t3 continue 3 t3", "t0 continue 3 t2"],
    ),
    "a retry stays": ([T("U1", failed=True), "U1"], ["t0 start 0 -", "t0 retry 1 t0"]),
    "a later retry stays": (
        ["U1", T("U1 A1 U2", failed=True), "U1 A1 U2"], ["t0 start 0 -", "t0 continue 1 t0", "t0 retry 3 t1"],
    ),
    "the same first words later are another session": (
        ["U1", "U1", "U1 A2 U2", "U1 A1 U2"],
        ["t0 start 0 -", "t1 start 0 -", "t1 continue 1 t1", "t0 continue 1 t0"],
    ),
    "a failure is forgotten after ten minutes": (
        [T("U1", failed=True), T("U1", at=603)], ["t0 start 0 -", "t1 start 0 -"],
    ),
    "the answer tells equal first words apart": (
        [T("U1", answer="A1"), T("U1", answer="A2"), "U1 A1 U2", "U1 A2 U2"],
        ["t0 start 0 -", "t1 start 0 -", "t0 continue 1 t0", "t1 continue 1 t1"],
    ),
    "an edited message stays": (
        ["U1", "U1 A1 U2", "U1 A1 U2 A2 U3", "U1 A1 U2b", "U1 A1 U2b A2b U3b"],
        ["t0 start 0 -", "t0 continue 1 t0", "t0 continue 3 t1", "t0 edit 2 t2", "t0 continue 3 t3"],
    ),
    "it is recognised from its middle": (
        ["U1 A1 R1 A2 R2", "U1 A1 removed A2 R2 A3 R3"], ["t0 start 0 -", "t0 edit 2 t0"],
    ),
    "a shared beginning without an answer says nothing": (
        ["env U1", "env U2"], ["t0 start 0 -", "t1 start 0 -"],
    ),
    "parallel subagents are sessions of their own": (
        ["U1", T("task T1", at=2, seconds=5), T("task T2", at=2.1, seconds=9), T("task T1 A1 R1", at=8),
         T("task T2 A2 R2", at=12), "U1 A1 R1"],
        ["t0 start 0 -", "t1 start 0 -", "t2 start 0 -", "t1 continue 2 t1", "t2 continue 2 t2", "t0 continue 1 t0"],
    ),
    "subagents that share the context are forks": (
        ["U1 A1 U2", T("U1 A1 U2 A2 T1", at=2, seconds=5), T("U1 A1 U2 A2 T2", at=2.5, seconds=5),
         T("U1 A1 U2 A2 T2", at=3, seconds=5)],
        ["t0 start 0 -", "t0 continue 3 t0", "t2 fork 4 t1", "t3 fork 5 t2"],
    ),
    "compaction keeps answers": (
        ["U1 A1 R1 A2 R2", "sum A2 R2 A3 R3", "sum2 A7 R7"], ["t0 start 0 -", "t0 compact 0 t0", "t2 start 0 -"],
    ),
    "compaction by a summary": (
        ["U1", T("U1 A1 R1 A2 U2", answer=PARSER), T([f"This is continued.\n{PARSER}"]), T(["This is continued."])],
        ["t0 start 0 -", "t0 continue 1 t0", "t0 compact 0 t1", "t3 start 0 -"],
    ),
    "an hour later a summary is of another": (
        ["U1", T("U1 A1 R1 A2 U2", answer=PARSER), T([PARSER], at=3_700)],
        ["t0 start 0 -", "t0 continue 1 t0", "t2 start 0 -"],
    ),
    "compaction keeps only the newest answer": (
        [*GROWING, T(LAST, answer="A6"), "sum A6 U7", "sum A8 U9"],
        [*(f"t0 {'continue' if n else 'start'} {max(0, 2 * n - 1)} {f't{n - 1}' if n else '-'}" for n in range(6)),
         "t0 compact 0 t5", "t7 start 0 -"],
    ),
    "a short answer does not identify a session": (
        [T("U1 A1 U2 A2 U3", answer="a3"), "sum a3 U4"], ["t0 start 0 -", "t1 start 0 -"],
    ),
    **{
        f"the first message and the last ones may stay: {tail}": (
            [*GROWING, T(LAST, answer="A6"), f"U1 sum {tail}", "U1 A1 U2b"],
            [*(f"t0 {'continue' if n else 'start'} {max(0, 2 * n - 1)} {f't{n - 1}' if n else '-'}" for n in range(6)),
             "t0 compact 1 t0", "t0 edit 2 t5"],
        )
        for tail in ("A3 U4 A4 U5", "A4 U5", "A6 U7")
    },
    "turns without messages are alone": (["", ""], ["t0 start 0 -", "t1 start 0 -"]),
}  # fmt: skip


def test_turns_are_in_the_session_whose_messages_they_share(talking: Inspected) -> None:
    told = {name: play(talking, *turns) for name, (turns, _) in CONVERSATIONS.items()}
    wrong = {name: found for name, found in told.items() if found != CONVERSATIONS[name][1]}
    assert wrong == {}


WISH = "The user wants a parser: its tests are in tests/parser, and two of them fail."


def test_a_summary_is_found_in_what_the_client_puts_around_it(talking: Inspected) -> None:
    openings = [
        WISH, f"Summary: {WISH}", f"Continued. Summary of what was said: {WISH}", f"<summary>{WISH}</summary>",
        f"Here it is:\n<summary>  {WISH} </summary>", f'Summary: "{WISH}"', ("a: <b>" * 30_000) + WISH,
    ]  # fmt: skip
    problems: list[Any] = []
    for answer in (WISH, f"<summary>{WISH}</summary>", f"Of course.\n{WISH}\nIs it right?"):
        for opening in openings:
            told = play(talking, T("U1 A1 U2 A2 U3", answer=answer), T([opening]), T([WISH.replace("parser", "lexer")]))
            links = [one.split()[1] for one in told]
            if links != ["start", "compact" if len(opening) < 1_000 else links[1], "start"]:
                problems.append((answer, opening[:80], told))
    assert problems == []


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=20))
def test_interleaved_conversations_are_kept_apart(talking: Inspected, steps: list[tuple[int, int]]) -> None:
    """Each conversation has its first words, and grows by some messages a turn, in any order."""
    texts: dict[int, list[str]] = {}
    first: dict[int, int] = {}
    turns: list[T | str] = []
    wanted: list[tuple[str, str]] = []
    for place, (who, more) in enumerate(steps):
        mine = texts.setdefault(who, [f"U{who}"])
        if who in first:
            mine += [f"{kind}{who}.{len(mine) + n}" for n in range(more) for kind in "AU"]
        wanted.append((f"t{first.setdefault(who, place)}", "start" if len(mine) == 1 else "continue"))
        turns.append(" ".join(mine))
    assert [tuple(told.split()[:2]) for told in play(talking, *turns)] == wanted


def test_many_runs_with_equal_beginnings_are_told_apart_by_their_answers(talking: Inspected) -> None:
    """Also more of them than a turn is compared with."""
    runs = 70
    turns = [T("U", answer=f"A{n}") for n in range(runs)] + [T(f"U A{n} next") for n in range(0, runs, 9)]
    told = play(talking, *turns)[runs:]
    assert told == [f"t{n} continue 1 t{n}" for n in range(0, runs, 9)]


def test_a_turn_that_comes_before_the_end_was_written_is_no_fork() -> None:
    """It has the answer of a turn that still runs. One without the answer runs beside it."""
    with waiting() as (gateway, gate), watching(gateway.url) as reader:
        asked = [["Go"], ["Go", "A1", "R1"]]
        threads = []
        for place, words in enumerate(asked, 1):
            messages = [_message(word) for word in words]
            threads.append(threading.Thread(target=say, args=(gateway, messages)))
            threads[-1].start()
            reader.until(lambda place=place: len(reader.rows) == place)  # type: ignore[misc]
        (one,) = sessions(gateway)
        assert (one["turns"], one["running"]) == (2, True)
        assert links(gateway, one["id"]) == ["start", "continue"]
        gate.open.set()
        for thread in threads:
            thread.join(20)


def test_a_turn_that_runs_for_long_is_a_stall() -> None:
    with set_clock() as clock, waiting() as (gateway, gate), watching(gateway.url) as reader:
        gate.open.set()
        said = [{"role": "user", "content": "Go."}]
        answer = "".join(f"word{number} " for number in range(40))
        first = ""
        for _ in range(4):
            first = say(gateway, said)
            said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Go on."}]
        gate.open.clear()
        asking = threading.Thread(target=say, args=(gateway, said))
        asking.start()
        (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["state"] == "streaming"])
        assert session(gateway, first)["findings"] == []
        clock.ahead = 40.0
        found = session(gateway, first)["findings"]
        gate.open.set()
        asking.join(20)
        assert [(one["where"], one["turn"]) for one in found] == [("turn", row["id"])]
        assert re.match(r"the turn has run for 4\d\.\d s: \d+ times the usual \d", found[0]["words"])


# ── messages ──────────────────────────────────────────────────────────────────────────────────────

USE = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls -l"}}


def converse(
    running: Inspected, client: str, *conversations: list[Any], path: str = "/v1/messages", **more: Any
) -> Any:
    """Sends conversations of one client; returns the session of the first."""
    ids = []
    for place, messages in enumerate(conversations):
        body = {"model": "anthropic/text", "max_tokens": 9, "messages": messages, "system": f"Day {place}", **more}
        ids.append(send(running, path, json.dumps(body).encode(), **{"user-agent": f"{client}/1"}))
    return session(running, ids[0])


def test_a_later_turn_may_spell_its_messages_otherwise(talking: Inspected) -> None:
    """It moves the cache mark, drops the reasoning, changes the system prompt and spells texts as lists."""
    user = {"role": "user", "content": "List the files."}
    marked = [{"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}}]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}]}
    report = converse(
        talking, "spelling", [{"role": "user", "content": marked}],
        [user, {"role": "assistant", "content": [thinking, USE]}, result],
        [user, {"role": "assistant", "content": [USE]}, result, {"role": "assistant", "content": "One."}, user],
    )  # fmt: skip
    steps = [(step["link"], step["messages"], step["added"]) for step in report["steps"]]
    assert steps == [("start", 1, 1), ("continue", 3, 2), ("continue", 5, 2)]
    assert report["steps"][0]["calls"] == [{"name": "bash", "preview": '{"command":"ls -l"}', "failed": False}]


def test_a_cut_request_has_its_first_messages() -> None:
    texts = [{"role": "assistant" if n % 2 else "user", "content": f"text {n} " + "x" * 50} for n in range(50)]
    with bounds(request=3_500), inspected(says, features=NO_ESTIMATES) as running:
        report = converse(running, "cut", texts[:11], texts)
        assert [step["link"] for step in report["steps"]] == ["start", "continue"]
        assert 25 < report["steps"][1]["messages"] < 50


def test_the_title_is_what_the_user_wrote(talking: Inspected) -> None:
    reminder = {"type": "text", "text": "<system-reminder>Be short.</system-reminder>"}
    wish = {"type": "text", "text": "Mend  the\nparser. " * 20}
    titles = [converse(talking, f"title{place}", [{"role": "user", "content": content}])["session"]["title"]
              for place, content in enumerate(([reminder, wish], [reminder]))]  # fmt: skip
    assert titles[0].startswith("Mend the parser. Mend")
    assert (len(titles[0]), titles[1]) == (160, reminder["text"])


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────


def loops_of(running: Inspected, calls: str, results: str = "") -> list[str]:
    """What is said of a conversation with these calls, and these results (`-` is none)."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for place, letter in enumerate(calls):
        use = {"type": "tool_use", "id": f"c{place}", "name": letter, "input": {"x": letter}}
        known = results[place] if results else "-"
        told = [{"type": "tool_result", "tool_use_id": f"c{place}", "content": known}] if known != "-" else "Well?"
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": told}]
    report = converse(running, f"loops-{calls}-{results}", messages[:1], messages)
    return [finding["words"] for finding in report["findings"] if finding["kind"] == "loop"]


def test_loops_are_found(talking: Inspected) -> None:
    """The same call three times in a row, or up to four calls in turn twice."""
    wanted = {
        "": [], "abc": [], "aab": [], "aaab": ["a 3"], "xabab": ["a and b 2"], "ababa": ["a and b 2"],
        "abcabcabc": ["a and b and c 3"], "abcdabcd": ["a and b and c and d 2"], "abcdeabcde": [],
        "aaabbb": ["a 3", "b 3"],
        "aaaaxabab": ["a 4", "a and b 2"], "abba": [],
    }  # fmt: skip

    def short(words: str) -> str:
        names, _, rest = words.partition(" was called " if " was called " in words else " were called in turn, ")
        return f"{names} {rest.split()[0]}"

    assert {calls: [short(words) for words in loops_of(talking, calls)] for calls in wanted} == wanted


def test_a_loop_compares_the_results_that_are_known(talking: Inspected) -> None:
    """The last call of a loop has no result while its turn runs, or if the client gave up."""
    so_far, each_time, differ = (
        "; the results so far were the same each time", "; the results were the same each time", "; the results differ",
    )  # fmt: skip
    wanted = {
        ("aaaa", "111-"): so_far, ("aaaa", "11-1"): so_far, ("aaaa", "112-"): differ, ("aaaa", "1---"): "",
        ("aaaa", "----"): "", ("ababab", "12121-"): so_far, ("ababab", "-2121-"): so_far, ("ababab", "1-121-"): "",
        ("ababab", "12131-"): differ, ("ababab", "121212"): each_time, ("aaa", "121"): differ,
    }  # fmt: skip
    told = {case: loops_of(talking, *case)[0].partition(" with the same arguments")[2] for case in wanted}
    assert told == wanted


def test_a_loop_is_found_however_the_arguments_are_written(talking: Inspected) -> None:
    """The order of the fields and the spaces between them do not matter; what is in a string does."""
    same = [
        '{"a":1,"b":[1,{"c":2,"d":3}]}',
        '{ "b": [1, {"d": 3, "c": 2}],\n "a": 1 }',
        '{"a":1,"b":[1,{"d":3,"c":2}]}',
    ]
    others = ['{"a":"x y"}', '{"a":"x  y"}', '{"a":["x y"]}', '{"a": broken', "{}"]
    told = []
    for name, texts in (("same", same), ("others", [*others, *others[:2]]), ("empty", ["{}", "", "{}"])):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        for place, text in enumerate(texts):
            call = {"id": f"c{place}", "type": "function", "function": {"name": "bash", "arguments": text}}
            messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
            messages += [{"role": "tool", "tool_call_id": f"c{place}", "content": str(place)}]
        report = converse(talking, f"args-{name}", messages[:1], messages, path="/v1/chat/completions", system=None)
        told.append([finding["words"].partition(" with")[0] for finding in report["findings"]])
    in_a_row = ["bash was called 3 times in a row"]
    assert told == [in_a_row, [], in_a_row], "no arguments are the same as an empty object"


# ── real clients ──────────────────────────────────────────────────────────────────────────────────


class Chat:
    """A conversation of one program in one protocol. `ask` sends it all, with another message of the user."""

    def __init__(self, running: Inspected, protocol: str, headers: dict[str, str]) -> None:
        self._running, self.protocol, self.headers = running, protocol, headers
        self.messages: list[tuple[str, str]] = []
        self.ids: list[str] = []

    def ask(self, words: str, system: str = "You help.", model: str = "anthropic/text") -> str:
        self.messages.append(("user", words))
        path, body = self._body(system, model)
        reply = CLIENT.post(f"{self._running.url}{path}", json=body, headers=self.headers)
        self.ids.append(reply.headers["x-request-id"])
        if reply.status_code == 200:
            self.messages.append(("assistant", _text(reply.json())))
        else:
            self.messages.pop()
        ended(self._running, self.ids[-1])
        return self.ids[-1]

    def _body(self, system: str, model: str) -> tuple[str, dict[str, Any]]:
        plain = [{"role": role, "content": text} for role, text in self.messages]
        if self.protocol == "gemini":
            contents = [{"role": "user" if role == "user" else "model", "parts": [{"text": text}]}
                        for role, text in self.messages]  # fmt: skip
            return f"/v1beta/models/{model}:generateContent", {"contents": contents}
        if self.protocol == "anthropic":
            return "/v1/messages", {"model": model, "max_tokens": 99, "system": system, "messages": plain}
        return "/v1/chat/completions", {"model": model, "messages": [{"role": "system", "content": system}, *plain]}


def _text(answer: dict[str, Any]) -> str:
    if "candidates" in answer:
        return str(answer["candidates"][0]["content"]["parts"][0]["text"])
    return str(answer["choices"][0]["message"]["content"] if "choices" in answer else answer["content"][0]["text"])


@pytest.fixture
def running(talking: Inspected) -> Inspected:
    """The same gateway, without turns."""
    assert delete(talking).status_code == 200
    return talking


def grouped(running: Inspected) -> dict[str, list[str]]:
    """The turns of each session by its id."""
    return {
        row["id"]: [step["row"]["id"] for step in session(running, row["id"])["steps"]] for row in sessions(running)
    }


def test_programs_that_say_the_same_are_kept_apart(running: Inspected) -> None:
    """The same words and the same answers, one turn of each after the other."""
    programs = {
        "anthropic-sdk": Chat(running, "anthropic", ANTHROPIC),
        "curl": Chat(running, "anthropic", {**CURL, "anthropic-version": "2023-06-01"}),
        "my-gemini": Chat(running, "gemini", {"user-agent": "my-gemini/1.0"}),
        "node": Chat(running, "openai-chat", {"user-agent": "node"}),
    }
    for words in ("hi", "and now?"):
        for chat in programs.values():
            chat.ask(words)
    assert grouped(running) == {chat.ids[0]: chat.ids for chat in programs.values()}
    for name, chat in programs.items():
        assert session(running, chat.ids[0])["session"]["client"] == name
    rows = view(running, "turns", q="client=curl")["rows"]
    assert ({row["id"] for row in rows} >= set(programs["curl"].ids), rows[0]["agent"]) == (True, "curl/8.5.0")


def test_one_user_agent_in_two_protocols_is_two_programs_until_an_answer_is_shared(running: Inspected) -> None:
    one, two = Chat(running, "openai-chat", CURL), Chat(running, "anthropic", CURL)
    for words in ("hi", "and now?"):
        one.ask(words)
        two.ask(words)
    assert grouped(running) == {one.ids[0]: one.ids, two.ids[0]: two.ids}
    other = Chat(running, "gemini", CURL)
    other.messages = [("user", "hi"), ("assistant", "I come from another gateway.")]
    other.ask("and now?")
    assert other.ids[0] in grouped(running)


def test_a_program_that_runs_again_is_another_session(running: Inspected) -> None:
    """It says the same, and gets the same answers."""
    runs = [Chat(running, "anthropic", CURL) for _ in range(3)]
    for chat in runs:
        for words in ("hi", "and now?", "thanks"):
            chat.ask(words)
    assert grouped(running) == {chat.ids[0]: chat.ids for chat in runs}
    runs[2].messages = runs[2].messages[:4]
    runs[2].ask("thanks")  # the last answer is asked for again
    assert links(running, runs[2].ids[0]) == ["start", "continue", "continue", "retry"]


def test_an_agent_that_changes_the_model_and_the_endpoint_is_one_session(running: Inspected) -> None:
    chat = Chat(running, "anthropic", CURL)
    chat.ask("hi")
    chat.protocol = "openai-chat"
    chat.ask("go on", model="openai-chat/tools")
    chat.ask("and on", model="anthropic/text")
    assert grouped(running) == {chat.ids[0]: chat.ids}
    assert links(running, chat.ids[0]) == ["start", "continue", "continue"]
    assert len(session(running, chat.ids[0])["session"]["models"]) > 1


def respond(running: Inspected, model: str, *texts: str) -> list[str]:
    """Turns of the Responses API, each of which names the response before; their ids."""
    turns: list[str] = []
    previous: dict[str, str] = {}
    for words in texts:
        body = {"model": model, "input": words, **previous}
        reply = CLIENT.post(f"{running.url}/v1/responses", json=body, headers={"user-agent": "OpenAI/Python 3.49.0"})
        turns.append(reply.headers["x-request-id"])
        ended(running, turns[-1])
        if reply.status_code == 200:
            previous = {"previous_response_id": reply.json()["id"]}
    return turns


@pytest.mark.parametrize("model", ["anthropic/text", "responses/text"])
def test_a_response_that_names_the_one_before_is_in_its_session(running: Inspected, model: str) -> None:
    """The id may be the gateway's or the provider's."""
    turns = respond(running, model, "hi", "and again", "FAIL", "FAIL")
    assert grouped(running) == {turns[0]: turns}
    steps = session(running, turns[0])["steps"]
    assert [step["link"] for step in steps] == ["start", "continue", "continue", "retry"]
    assert [step["messages"] for step in steps] == [1, 3, 5, 5]
    assert [step["previous"] for step in steps] == ["", *turns[:3]]
    assert [step["gap"]["kind"] for step in steps[1:]] == ["user", "user", "client"]


def test_two_runs_that_name_responses_and_say_the_same_are_two_sessions(running: Inspected) -> None:
    """A turn belongs to the response that it names, although a turn of the other run has equal messages."""
    runs = [respond(running, "responses/text", "hi", "and again", "and once more") for _ in range(2)]
    assert grouped(running) == {turns[0]: turns for turns in runs}
    for turns in runs:
        assert links(running, turns[0]) == ["start", "continue", "continue"]


def test_a_request_for_a_title_is_no_retry(running: Inspected) -> None:
    """An agent sends the first words with another system message too. That it fails does not make the turn a retry."""
    title, main = Chat(running, "anthropic", CLAUDE_CODE), Chat(running, "anthropic", CLAUDE_CODE)
    title.ask("FAIL to mend the parser", system="Write a title of at most five words.", model="anthropic/tools")
    main.ask("FAIL to mend the parser", system="You are an agent for code.")
    main.ask("FAIL to mend the parser", system="You are an agent for code.")
    assert grouped(running) == {title.ids[0]: title.ids, main.ids[0]: main.ids}
    assert links(running, main.ids[0]) == ["start", "retry"]
    row = session(running, main.ids[0])["session"]
    assert (row["cost"], row["unpriced"]) == (None, 2)
    assert (row["input"], row["output"], row["cached"], row["uncounted"]) == (None, None, None, 2)


def test_a_conversation_that_is_compacted_goes_on(running: Inspected) -> None:
    """The summary is asked for in the conversation; then it is the first message of a new one."""
    chat = Chat(running, "anthropic", CLAUDE_CODE)
    chat.ask("Mend the parser of dates.")
    chat.ask("It loses the time zone.")
    chat.ask("Your task is to create a detailed summary of the conversation so far.")
    lead = "This session is being continued from a previous conversation that ran out of context."
    chat.messages = []
    chat.ask(f"{lead} The conversation is summarized below:\n{SUMMARY}\nPlease continue without asking.")
    chat.ask("Run the tests.")
    assert grouped(running) == {chat.ids[0]: chat.ids}
    assert links(running, chat.ids[0]) == ["start", "continue", "continue", "compact", "continue"]
    assert session(running, chat.ids[0])["steps"][3]["gap"]["kind"] == "client"


def test_a_summary_after_the_first_words_is_a_compaction(running: Inspected) -> None:
    """Some agents keep what the user wrote, and put the summary behind it."""
    chat = Chat(running, "openai-chat", {"user-agent": "codex-like/1.0"})
    for words in ("Mend the parser of dates.", "It loses the time zone.", "Now write a detailed summary."):
        chat.ask(words)
    chat.messages = chat.messages[:1]
    chat.ask(f"Another model has worked on it. Its summary:\n{SUMMARY}")
    assert links(running, chat.ids[0]) == ["start", "continue", "continue", "compact"]


def test_a_subagent_with_its_own_system_message_is_a_session(running: Inspected) -> None:
    """It runs between two turns of the agent, of the same program with the same key."""
    agent, helper = Chat(running, "anthropic", CLAUDE_CODE), Chat(running, "anthropic", CLAUDE_CODE)
    agent.ask("Mend the parser of dates.", system="You are an agent for code.")
    helper.ask("Find where dates are parsed.", system="You search files.")
    helper.ask("Also in the tests.", system="You search files.")
    agent.ask("The helper says: src/dates.py", system="You are an agent for code.")
    assert grouped(running) == {agent.ids[0]: agent.ids, helper.ids[0]: helper.ids}


# ── whose sessions, and which turns ───────────────────────────────────────────────────────────────


def test_keys_see_their_own_sessions() -> None:
    keys = {name: {"hash": hash_key(key), "inspect": "all" if key == OWNER else "own"}
            for name, key in (("owner", OWNER), ("first", FIRST), ("second", SECOND))}  # fmt: skip
    with inspected(plays_agent, keys=keys) as running, watching(running.url, bearer(OWNER)):
        mine, other = (Agent(running, "Say hello.", bearer(key)).run()[0] for key in (FIRST, SECOND))
        ended(running, other)
        assert {one["id"] for one in sessions(running, OWNER)} == {mine, other}
        for key, seen, hidden in ((FIRST, mine, other), (SECOND, other, mine)):
            assert [one["id"] for one in sessions(running, key)] == [seen]
            assert ask_inspector(running, f"sessions/{seen}", key).status_code == 200
            refused = ask_inspector(running, f"sessions/{hidden}", key)
            assert (refused.status_code, hidden in refused.text) == (404, True)
            assert view(running, f"sessions?turn={hidden}", key) == {"sessions": [], "turns": [], "more": 0}
        assert get(f"{running.url}/inspector/sessions").status_code == 401
        assert get(f"{running.url}/inspector/sessions/{mine}").status_code == 401


def test_secrets_and_deleted_turns_leave_the_sessions(running: Inspected) -> None:
    secret = "sk-ant-" + "x" * 40
    chat = Chat(running, "anthropic", CURL)
    chat.ask(f"My key is {secret}")
    chat.ask("and now?")
    text = ask_inspector(running, "sessions").text + ask_inspector(running, f"sessions/{chat.ids[0]}").text
    assert ("My key is" in text, secret in text) == (True, False)
    assert delete(running, f"turns/{chat.ids[0]}").json() == {"deleted": 1}
    assert grouped(running) == {chat.ids[0]: chat.ids[1:]}
    assert delete(running).json() == {"deleted": 1}
    assert sessions(running) == []
    assert ask_inspector(running, f"sessions/{chat.ids[0]}").status_code == 404


def test_sessions_of_turns_on_disk(tmp_path: Path) -> None:
    """They outlive the memory and the gateway; what is deleted leaves them."""
    options = on_disk(tmp_path, features=NO_ESTIMATES)
    with inspected(plays_agent, **options) as running:
        agent = Agent(running, "Start the server.")
        for _ in range(3):
            agent.step("port in use")
        ended(running, agent.ids[-1])
        before = session(running, agent.ids[0])
    with inspected(plays_agent, **options) as running:
        after = session(running, agent.ids[1])
        assert [step["row"]["id"] for step in after["steps"]] == agent.ids
        assert after["findings"] == before["findings"] != []
        assert sessions(running)[0]["title"] == "Start the server."
        Agent(running, "Start the server.").run(["ok"] * 4)
        assert len(sessions(running)) == 2  # the same words again, at another time
        assert view(running, f"turns/{agent.ids[2]}/request")["previous"]["id"] == agent.ids[1]
        assert delete(running).status_code == 200
        assert sessions(running) == []


def test_older_turns_on_disk_are_not_read_and_that_is_said(tmp_path: Path) -> None:
    options = on_disk(tmp_path, features=NO_ESTIMATES)
    with bounds(disk_sessions=2):
        with inspected(says, **options) as running:
            for words in ("One.", "Two.", "Three."):
                say(running, words)
            assert view(running, "sessions")["unread"] == 0, "they are in memory"
        with inspected(says, **options) as running:
            found = view(running, "sessions")
            assert ([one["title"] for one in found["sessions"]], found["unread"]) == (["Three.", "Two."], 1)


def test_of_more_sessions_than_are_grouped_the_newest_are_listed() -> None:
    """Also when the list is read again."""
    with bounds(sessions=2), inspected(says, features=NO_ESTIMATES) as running:
        for words in ("One.", "Two.", "Three.", "Four."):
            say(running, words)
        for _ in range(3):
            assert [one["title"] for one in sessions(running)] == ["Four.", "Three."]
        assert view(running, "sessions?limit=1")["more"] == 1
