"""The search of turns: by words of prompts, answers and calls, in memory and on disk, live; whose turns are found."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.event_feed import Reader, bearer, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import ask_inspector, delete, found, phrase, say, send, trace_of, view
from tests.support.kept_on_disk import FILE, on_disk, written
from tests.support.paused_upstream import going, waiting
from tests.support.sample_turns import send as send_sample
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ANNA, BEN, BOSS = "pk-anna-000000000000", "pk-ben-0000000000000", "pk-boss-000000000000"
LONG = "filler words " * 100_000  # 1.3 million characters
SSE = {"content-type": "text/event-stream"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        _play(running)
        yield running


def _play(running: Inspected) -> None:
    send_sample(running, "openai-chat/needle", "openai-chat")
    for _ in range(3):
        send_sample(running, "openai-chat/text", "openai-chat", stream=False)
    for model in ("overloaded", "limited", "broken"):
        send_sample(running, f"anthropic/{model}")
    send_sample(running, "openai-chat/tools", "anthropic", text="What does the manual say about pumps?")
    send_sample(running, "openai-chat/length", "anthropic")
    send_sample(running, "openai-chat/refusal", "anthropic")


QUERIES: dict[str, list[str]] = {
    "needle": ["needle"],
    "state:refused": ["limited", "overloaded"],
    "state:fault": ["broken"],
    "state:broken": ["broken", "limited", "overloaded"],
    "state:warning": ["refusal", "length"],
    "state:length": ["length"],
    "state:failed": ["overloaded"],
    "fault:rate-limit": ["limited"],
    "provider:anthropic": ["broken", "limited", "overloaded"],
    "http:429": ["limited"],
    "http>=500": ["overloaded"],
    "client:claude -provider:anthropic": ["refusal", "length", "tools"],
    "has:tools": ["length", "tools", "broken"],
    '"say about pumps"': ["tools"],
    'pumps "about say"': [],
    "since:1h model:needle": ["needle"],
    "until:1h": [],
}


def test_history_is_searched_in_the_pages_language(stage: Inspected) -> None:
    for query, models in QUERIES.items():
        page = view(stage, "turns", q=query)
        assert [(row["model"] or row["asked"]).rpartition("/")[2] for row in page["rows"]] == models, query
        assert page["total"] == len(models) == sum(page["states"].values()), query


def test_a_live_list_shows_what_a_search_of_the_history_finds() -> None:
    """Each list was opened before the turns came."""
    queries = [
        *QUERIES, "-state:finish", "-has:tools", "output>5", "-cost>0", "input>=0", "tries>0", "bytes>200",
        "duration<10s", "key=anonymous", "operation:chat", "-http:200,429",
    ]  # fmt: skip
    with inspected(wired) as running, ExitStack() as lists:
        readers = {
            query: lists.enter_context(Reader(str(httpx.URL(f"{running.url}/inspector/live", params={"q": query}))))
            for query in queries
        }
        _play(running)

        def shown(reader: Reader) -> set[str]:
            gone = {name for data in reader.named("turns") for name in data.get("gone", ())}
            return {name for name, row in reader.rows.items() if name not in gone and row["duration"] is not None}

        for query, reader in readers.items():
            wanted = found(running, query)
            reader.until(lambda reader=reader, wanted=wanted: shown(reader) == wanted)  # type: ignore[misc]


def test_states_narrow_the_list_but_not_the_counts(stage: Inspected) -> None:
    whole, broken = view(stage, "turns"), view(stage, "turns", state="fault,refused")
    assert broken["states"] == whole["states"]
    assert broken["total"] == len(broken["rows"]) == 3
    assert {row["state"] for row in broken["rows"]} == {"fault", "refused"}
    for state in ("length", "odd", "fault model:x"):
        refused = ask_inspector(stage, "turns", state=state)
        assert (refused.status_code, "expected" in refused.text) == (400, True), state


def test_rows_say_what_was_unusual(stage: Inspected) -> None:
    rows = {row["asked"].rpartition("/")[2]: row for row in view(stage, "turns")["rows"]}
    assert [rows[name]["warning"] for name in ("length", "refusal", "text")] == ["length", "refusal", ""]
    burst = rows["needle"]
    assert (burst["stream"], burst["output"] > 10, burst["rate"]) == (True, True, None)


def test_malformed_frames_make_a_warning_and_a_note() -> None:
    chunk = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}\n\n'
    broken = b'data: {"id":"c","choi\xff\xfe<<<\n\n'
    frames = (chunk % (b"a", b"null"), broken, chunk % (b"b", b'"stop"'), b"data: [DONE]\n\n")
    with inspected(Reply(frames, headers=SSE)) as running:
        for client in ("openai-chat", "anthropic"):
            send_sample(running, "openai-chat/text", client)
        page = view(running, "turns", q="state:warning has:notes")
        rows = [(row["finish"], row["warning"], row["malformed"]) for row in page["rows"]]
        assert rows == [("stop", "malformed", 1)] * 2
        assert page["states"]["finish"] == 0


def test_an_unknown_client_has_the_name_in_its_user_agent() -> None:
    with inspected() as running:
        body = json.dumps({"model": "replay/text", "messages": [{"role": "user", "content": "hi"}]}).encode()
        agent = "my-script/3 (sk-ant-api03-" + "x" * 90 + ")"
        send(running, "/v1/chat/completions", body, **{"user-agent": agent})
        (row,) = view(running, "turns", q="client:my-script")["rows"]
        assert row["client"] == "my-script"
        assert row["agent"].startswith("my-script/3 (")
        assert "sk-ant-api03-xxx" not in json.dumps(row)


# ── live ──────────────────────────────────────────────────────────────────────────────────────────


def test_running_turns_tell_their_progress_and_leave_a_search_that_they_match_no_longer() -> None:
    with waiting() as (gateway, gate), Reader(f"{gateway.url}/inspector/live?q=state:streaming") as reader:
        with going(gateway, gate, reader) as row:
            reader.until(lambda: reader.named("progress"))
            told = reader.named("progress")[-1]
            size, last = told["turns"][row["id"]]
            assert size > 100
            assert row["time"] <= last <= told["now"] <= time.time() + 1
            for query in ("state:running", "state:streaming", "-state:finish", "-state:waiting", "model:text"):
                assert row["id"] in first_rows(gateway, query), query
            for query in ("state:finish", "state:stop", "state:waiting", "has:usage"):
                assert row["id"] not in first_rows(gateway, query), query
        reader.until(lambda: any(row["id"] in data.get("gone", ()) for data in reader.named("turns")))


def first_rows(gateway: Inspected, query: str) -> set[str]:
    """The first rows of a list with this query."""
    with Reader(str(httpx.URL(f"{gateway.url}/inspector/live", params={"q": query}))) as reader:
        return set(reader.rows)


def test_what_came_since_a_page_is_in_the_first_event(stage: Inspected) -> None:
    upto = view(stage, "turns")["upto"]
    send_sample(stage, "cohere/text", "openai-chat")
    with Reader(f"{stage.url}/inspector/live?after={upto}") as reader:
        assert [row["provider"] for row in reader.rows.values()] == ["cohere"]


def test_kept_turns_have_previews(stage: Inspected) -> None:
    (name,) = found(stage, "pumps")
    previews = view(stage, f"previews?ids={name},none")
    assert previews.keys() == {name}
    assert previews[name]["prompt"] == "What does the manual say about pumps?"
    assert previews[name]["answer"] != ""


# ── words of turns ────────────────────────────────────────────────────────────────────────────────


def in_memory_and_on_disk(folder: Path, *replies: Any, fill: Callable[[Inspected], Any],
                          check: Callable[[Inspected, Any], None]) -> None:  # fmt: skip
    """Sends turns, and checks what is found: in memory, and from the file after a restart."""
    with inspected(*replies, **on_disk(folder)) as gateway:
        made = fill(gateway)
        check(gateway, made)
    with inspected(*replies, **on_disk(folder)) as again:
        check(again, made)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": [{"role": "assistant", "content": [
        {"type": "tool_use", "name": "listen", "input": {"port_number": 80808081, "hosts": [{"retry_limit": 2.5}]}}]}]}),
    ("chat/completions", {"messages": [{"role": "assistant", "tool_calls": [
        {"function": {"arguments": '{"port_number": 80808081, "hosts": [{"retry_limit": 2.5}]}'}}]}]}),
    ("chat/completions", {"contents": [{"parts": [
        {"functionCall": {"name": "listen", "args": {"port_number": 80808081, "hosts": [{"retry_limit": 2.5}]}}}]}]}),
    ("chat/completions", {"contents": [
        {"functionResponse": {"response": {"port_number": 80808081, "retry_limit": 2.5}}}]}),
    ("chat/completions", {"contents": [
        {"toolResult": {"content": [{"json": {"port_number": 80808081, "retry_limit": 2.5}}]}}]}),
]  # fmt: skip


def test_words_of_requests_are_found_in_every_protocol(tmp_path: Path) -> None:
    """Prompts that are a string, names and numbers of calls, words with escapes; also of requests that were refused."""
    prompts: dict[str, tuple[str, Any]] = {
        "where is the frobnicator": ("responses", {"input": "Where is the frobnicator", "instructions": "a pirate"}),
        "the grommet is": ("completions", {"prompt": "the grommet is"}),
        "a sailor": ("messages", {"system": "a sailor", "messages": [{"role": "user", "content": "Hi"}]}),
        "hello BIG world": ("chat/completions", {"messages": [{"role": "user", "content": "Hello big\nWorld"}]}),
        "cats OR dogs": ("chat/completions", {"messages": [{"role": "user", "content": "cats OR dogs NEAR me"}]}),
        "wo ist ÜMLAUT": ("chat/completions", {"messages": [{"role": "user", "content": "Wo ist Ümlaut?"}]}),
    }  # fmt: skip
    cut = b'{"messages": [{"role": "user", "content": "first\\nsecond \\u00dcmlaut \\ud83d\\ude00 cut \\ud8'
    absent = (
        "big hello",
        "hello world",
        "fish OR dogs",
        "words:cats fish",
        "do*",
        "^cats fish",
        "47114712",
        "sailor Hi",
    )

    def fill(gateway: Inspected) -> tuple[dict[str, str], list[str]]:
        names = {
            words: send(gateway, f"/v1/{path}", json.dumps({"model": "openai-chat/text", **body}).encode())
            for words, (path, body) in prompts.items()
        }
        names |= {"a pirate": names["where is the frobnicator"]}
        names |= {"second Ümlaut": send(gateway, "/v1/chat/completions", cut)}
        calling = [
            json.dumps({"model": "openai-chat/text", "max_tokens": 47114712, **body}).encode() for _, body in CALLS
        ]
        return names, [send(gateway, f"/v1/{path}", body) for (path, _), body in zip(CALLS, calling, strict=True)]

    def check(gateway: Inspected, made: tuple[dict[str, str], list[str]]) -> None:
        names, calling = made
        assert {words: phrase(gateway, words) for words in names} == {words: {name} for words, name in names.items()}
        for words in ("port_number", "80808081", "retry_limit", "2.5"):
            assert phrase(gateway, words) == set(calling), words
        assert [words for words in absent if phrase(gateway, words)] == []

    in_memory_and_on_disk(tmp_path, fill=fill, check=check)


def test_words_of_answers_are_found_in_every_protocol(tmp_path: Path) -> None:
    """Of calls in pieces, of errors, and of fields of frames that nobody knows."""
    arguments = '{"port_number": 80808081, "open": true}'
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "ask the har"), ev.TextDelta(0, "bour master"),
        ev.TextEnd(0), ev.CallStart(1, "a", "listen"), ev.CallDelta(1, arguments[:9]), ev.CallDelta(1, arguments[9:]),
        ev.CallEnd(1, "a", "listen", arguments), ev.Finish("calls"),
    ]  # fmt: skip
    protocols = ("openai-chat", "anthropic", "gemini", "responses", "bedrock")
    odd = (
        b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}],"note":"the last words"}\n\ndata: [DONE]\n\n'
    )
    refused = Reply.body({"error": {"message": "the boiler is cold"}}, status=400)
    replies = (*(Reply.of(protocol, events) for protocol in protocols), Reply((odd,), headers=SSE), refused)

    def fill(gateway: Inspected) -> list[str]:
        names = [say(gateway, model=f"{protocol}/text") for protocol in protocols]
        return [*names, say(gateway), say(gateway)]

    def check(gateway: Inspected, names: list[str]) -> None:
        for words in ("ask the harbour master", "listen", "port_number", "80808081"):
            assert phrase(gateway, words) == set(names[:5]), words
        assert (phrase(gateway, "the last words"), phrase(gateway, "boiler is cold")) == ({names[5]}, {names[6]})
        assert phrase(gateway, "delta") == set()

    in_memory_and_on_disk(tmp_path, *replies, fill=fill, check=check)


def test_long_texts_are_found_to_their_end_without_the_data_in_them(tmp_path: Path) -> None:
    data, long_phrase = "iVBORw0KGgo+/" * 1_000, " ".join(f"word{number}" for number in range(120))
    word = data[:500]  # so few are a word
    answer = [ev.TextDelta(0, text) for text in (LONG, " at the", " end pump")]
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"),
        ev.TextStart(0),
        *answer,
        ev.TextEnd(0),
        ev.Finish("stop"),
    ]

    def fill(gateway: Inspected) -> list[str]:
        first = say(gateway, f"alpha {LONG} valve data:image/png;base64,{data} steam the 東京 omega")
        return [
            first,
            say(gateway, f"before {long_phrase} after"),
            say(gateway, f"{'水。' * 5_000} {word} {'a.' * 3_000}water"),
        ]

    def check(gateway: Inspected, names: list[str]) -> None:
        for words in ("alpha filler", "words filler words valve", "steam the 東京 omega"):
            assert phrase(gateway, words) == {names[0]}, words
        assert phrase(gateway, "end pump") == set(names)
        assert (phrase(gateway, long_phrase), phrase(gateway, f"{long_phrase} later")) == ({names[1]}, set())
        assert phrase(gateway, word) == phrase(gateway, "water") == {names[2]}
        assert found(gateway, '-"omega"') == set(names[1:])
        assert view(gateway, "turns", q="pump")["partial"] == 0

    in_memory_and_on_disk(tmp_path, Reply.of("openai-chat", events), fill=fill, check=check)
    with inspected(**on_disk(tmp_path)) as gateway:
        (name,) = phrase(gateway, "omega")
        assert delete(gateway, f"turns/{name}").json() == {"deleted": 1}
        assert [words for words in ("omega", "alpha", "valve") if phrase(gateway, words)] == []
        assert len(phrase(gateway, "end pump")) == 2


def test_turns_that_are_kept_in_part_are_counted(tmp_path: Path) -> None:
    def fill(gateway: Inspected) -> tuple[str, str]:
        return say(gateway, f"begin {'many words ' * 20_000} end"), say(gateway, "begin and end")

    def check(gateway: Inspected, names: tuple[str, str]) -> None:
        cut, whole = names
        for query, wanted, partial in (
            ("begin", {cut, whole}, 1), ("end", {whole}, 1), ("-end", {cut}, 1), ("-end model:claude", set(), 0),
            ("model:text", {cut, whole}, 0),
        ):  # fmt: skip
            page = view(gateway, "turns", q=query)
            assert ({row["id"] for row in page["rows"]}, page["partial"]) == (wanted, partial), query
        assert view(gateway, "turns", q="end", state="fault")["partial"] == 0

    with bounds(request=100_000):
        in_memory_and_on_disk(tmp_path, fill=fill, check=check)


BODIES = [
    b"not JSON", b"[1, 2]", b'{"a": 1',
    b'{"messages": [{"role": "user"},{"role":"user"} , "x"],\n "tools":[ ], "model":"m"}',
    b'{"messages": ["\\u0001"], "messages": ["twice"]}', b'{"x": "\x01"}', b'{"n": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'{"system": "%s", "input": "hi", "tools": [{"name": "t"}]}' % (b"long " * 100), b'\xff\xfe{"messages": []}',
    b'{"messages":[{"role":"user"},{"role":"assistant"}],"tools":[{"name":"t"}]}',
]  # fmt: skip


def test_a_request_is_read_back_from_disk_byte_for_byte(tmp_path: Path) -> None:
    def check(gateway: Inspected, names: list[str]) -> None:
        shown = [trace_of(gateway, name)["request"] for name in names]
        assert shown == [body.decode("utf-8", "replace") for body in BODIES]

    def fill(gateway: Inspected) -> list[str]:
        return [send(gateway, "/v1/chat/completions", body) for body in BODIES]

    in_memory_and_on_disk(tmp_path, fill=fill, check=check)


def test_a_conversation_is_stored_once(tmp_path: Path) -> None:
    """Agents send all of it with each request. What later turns say is not found in earlier ones."""
    said: list[dict[str, str]] = []
    with inspected(**on_disk(tmp_path)) as gateway:
        names: list[str] = []
        for number in range(12):
            said.append({"role": "user", "content": f"question {number} {secrets.token_hex(10_000)}"})
            names.append(say(gateway, said))
        written(gateway)
        assert phrase(gateway, "question 3") == set(names[3:])
        assert delete(gateway, f"turns/{names[-1]}").status_code == 200
        assert (phrase(gateway, "question 11"), phrase(gateway, "question 10")) == (set(), {names[10]})
    size = sum(path.stat().st_size for path in tmp_path.glob(f"{FILE}*"))
    assert size < 6 * len(json.dumps(said)), "twelve requests are as long as 78 messages"


# ── whose turns ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """Turns of two keys, whose words are equal in part."""
    keys = {
        "anna": {"hash": hash_key(ANNA), "inspect_keep": True},
        "ben": {"hash": hash_key(BEN), "inspect_keep": True},
        "boss": {"hash": hash_key(BOSS), "inspect": "all"},
    }
    with inspected(keys=keys, **on_disk(tmp_path_factory.mktemp("shared"))) as running:
        for key, model, text in ((ANNA, "text", "secret pumps"), (ANNA, "tools", "valves"), (BEN, "length", "pumps")):
            say(running, text, key, f"openai-chat/{model}")
        yield running


def test_another_keys_turns_are_not_shown_searched_completed_or_counted(shared: Inspected) -> None:
    counts = {}
    for key in (ANNA, BEN, BOSS):
        page = view(shared, "turns", key)
        counts[key] = (page["total"], len(page["rows"]), sum(page["states"].values()))
    assert counts == {ANNA: (2, 2, 2), BEN: (1, 1, 1), BOSS: (3, 3, 3)}
    assert [row["key"] for row in view(shared, "turns", BEN, q="pumps")["rows"]] == ["ben"]
    totals = {('"secret pumps"', BEN): 0, ("pumps", BOSS): 2, ("key:anna", BEN): 0, ("-key:nobody", BEN): 1}
    assert {(q, key): view(shared, "turns", key, q=q)["total"] for q, key in totals} == totals
    options = {key: {row["text"] for row in view(shared, "complete", key, q="model:")["options"]} for key in counts}
    assert ("text" in options[ANNA], "text" in options[BEN]) == (True, False)
    assert options[ANNA] | options[BEN] == options[BOSS]
    assert [row["text"] for row in view(shared, "complete", BEN, q="key:")["options"]] == ["ben"]
    (hidden,) = phrase(shared, "secret pumps", ANNA)
    previews = {key: set(view(shared, "previews", key, ids=hidden)) for key in counts}
    assert previews == {BEN: set(), BOSS: {hidden}, ANNA: {hidden}}
    usage = {key: view(shared, "usage", key, by="key") for key in (BEN, BOSS)}
    assert [row["name"] for row in usage[BEN]["names"]] == ["ben"]
    assert (usage[BEN]["total"]["requests"], usage[BOSS]["total"]["requests"]) == (1, 3)
    with Reader(f"{shared.url}/inspector/live?q=pumps", bearer(BEN)) as reader:
        assert [row["key"] for row in reader.rows.values()] == ["ben"]


def test_a_key_does_not_learn_how_many_turns_others_made() -> None:
    """The bound of a page is the row number of the key's last turn, encrypted. Pages still fit together."""
    keys = {name: {"hash": hash_key(key), "inspect_keep": True} for name, key in (("anna", ANNA), ("ben", BEN))}
    with inspected(keys={**keys, "boss": {"hash": hash_key(BOSS), "inspect": "all"}}) as running:
        for _ in range(3):
            say(running, key=ANNA)
        first = view(running, "turns", ANNA)
        assert view(running, "turns", BOSS)["upto"] == 3
        assert first["upto"] > 1_000
        say(running, key=BEN)
        assert view(running, "turns", ANNA)["upto"] == first["upto"]
        say(running, key=ANNA)
        assert abs(view(running, "turns", ANNA)["upto"] - first["upto"]) > 1_000
        again = view(running, "turns", ANNA, upto=first["upto"])
        assert [row["id"] for row in again["rows"]] == [row["id"] for row in first["rows"]]
        assert view(running, "turns", ANNA)["total"] == 4
        with Reader(f"{running.url}/inspector/live?after={first['upto']}", bearer(ANNA)) as reader:
            assert len(reader.rows) == 1


def test_without_a_journal_there_is_nothing_to_tell() -> None:
    with inspected(journal={"path": "off"}) as gateway:
        assert view(gateway, "about")["journal"] is False
        say(gateway, model="replay/text")
        answers = (view(gateway, "turns")["rows"], view(gateway, "tokens")["models"], view(gateway, "usage")["series"])
        assert answers == ([], [], [])
        with watching(gateway.url) as reader:
            name = say(gateway, model="replay/text")
            reader.until(lambda: reader.rows.get(name, {}).get("state") == "finish")
            assert trace_of(gateway, name)["events"]
