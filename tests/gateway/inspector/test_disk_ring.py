"""Turns on disk: by one switch, without secrets, read back byte for byte; what is not written is still in memory."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import events as ev
from penstock._inspector import turn_keeper
from penstock._store.journal_queries import JournalHistory
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock.testing import Reply
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import ended
from tests.support.inspector import Inspected, inspected
from tests.support.kept_on_disk import change, on_disk, trace_of, without_times, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "protocol", ["openai-chat", "anthropic", "responses", "gemini", "vscode", "uistream", "ollama"]
)
@pytest.mark.parametrize("model", ["openai-chat/tools", "anthropic/text", "replay/text"])
def test_a_turn_outlives_the_gateway(tmp_path: Path, protocol: str, model: str) -> None:
    """Its trace is the same as from memory, and its request byte for byte."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, protocol, model).headers["x-request-id"]
        ended(gateway, name)
        before, capture = trace_of(gateway, name), gateway.inspector.watch.captures[name]
        request, attempts, headers = capture.request, capture.attempts, capture.client_headers
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    with inspected(**on_disk(tmp_path)) as again:
        after = trace_of(again, name)
        kept = again.inspector.watch.find_turn(name, None)
        assert kept is not None
        assert (kept.request, kept.attempts, kept.client_headers) == (request, attempts, headers)
        for part in ("frames", "events", "marks", "request", "consumer", "protocol", "title"):
            assert after[part] == before[part], part
        if protocol != "ollama":  # its lines say when they were written
            assert without_times(after["outputs"]) == without_times(before["outputs"])
        (row,) = get(f"{again.url}/inspector/turns").json()["rows"]
        assert row["held"] is True


def test_short_prompts_are_searched_in_memory_and_on_disk(tmp_path: Path) -> None:
    """They are no elements of a conversation: a string of a few words."""
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "frobnicator": ("responses", {"input": "where is the frobnicator", "instructions": "speak like a pirate"}),
        "grommet": ("completions", {"prompt": "the grommet is"}),
        "sailor": (
            "messages",
            {"max_tokens": 9, "system": "a sailor", "messages": [{"role": "user", "content": "Hi"}]},
        ),
    }
    with inspected(**on_disk(tmp_path)) as gateway:
        watch, names = gateway.inspector.watch, dict[str, str]()
        for word, (path, body) in requests.items():
            reply = post(f"{gateway.url}/v1/{path}", json={"model": "openai-chat/text", **body})
            names[word] = reply.headers["x-request-id"]
            ended(gateway, names[word])
        written(gateway)
        names["like a pirate"] = names["frobnicator"]
        for word, name in names.items():
            assert watch.disk.find_turns(word, None) == watch._memory_index.find_turns(word, None) == {name}, word
        trace = trace_of(gateway, names["frobnicator"])
        watch.clear()
        assert trace_of(gateway, names["frobnicator"])["request"] == trace["request"]


def test_a_request_to_fill_in_the_middle_is_read_the_same_from_disk(tmp_path: Path) -> None:
    """Its request and its answer have different protocols."""
    with inspected(**on_disk(tmp_path)) as gateway:
        body = {"model": "mistral/codestral-latest", "prompt": "def f(", "suffix": "): pass"}
        name = post(f"{gateway.url}/v1/fim/completions", json=body).headers["x-request-id"]
        ended(gateway, name)
        before = get(f"{gateway.url}/inspector/turns/{name}/request").json()
        written(gateway)
        gateway.inspector.watch.clear()
        after = get(f"{gateway.url}/inspector/turns/{name}/request").json()
    assert before["canonical_error"] == ""
    assert (after["client"], after["canonical"]) == (before["client"], before["canonical"])


def test_nothing_is_written_unless_it_is_switched_on(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path, inspector={})) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        assert not (tmp_path / FILE).exists()
        state = change(gateway, disk=True).json()
        assert (state["disk"]["on"], state["may_switch"]) == (True, True)
        written(gateway)
        assert gateway.inspector.watch.disk.holds(name), "what is in memory is kept too"
        assert change(gateway, disk=False).json()["disk"]["on"] is False
        other = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, other)
        written(gateway)
        assert not gateway.inspector.watch.disk.holds(other)


def test_without_a_data_folder_it_cannot_be_switched_on() -> None:
    with inspected() as gateway:
        refused = change(gateway, disk=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_data_folder")


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    """In the request, the answer, the headers, the error of a provider, the words of the index."""
    looks, known, halves = "sk-planted0123456789abcdef", "very secret value", "spelled-in-two-halves"
    words = [f"here is {looks} ", f"and {known} ", halves[:9], halves[9:]]
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.Finish("stop"),
    ]  # fmt: skip
    env = {"MY_API_KEY": known, "OTHER_SECRET": halves}
    refused = Reply.body({"error": {"message": f"bad key {looks}"}}, status=401)
    replies = [Reply.of("openai-chat", events), refused]
    with inspected(*replies, env=env, **on_disk(tmp_path)) as gateway:
        body = {
            "model": "openai-chat/text",
            "stream": True,
            "messages": [{"role": "user", "content": f"{looks} {known} ok"}],
        }
        for _ in range(2):
            post(f"{gateway.url}/v1/chat/completions", json=body, headers={"x-api-key": looks, "x-custom": known})
        written(gateway)
        index = gateway.inspector.watch.text_index
        assert len(index.find_turns("ok", None)) == 2
        assert index.find_turns(known, None) == index.find_turns(halves, None) == set()
        texts = _all_texts(tmp_path / FILE)
    raw = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
    for secret in (looks, known, "sk-up-000000", halves):
        assert secret.encode() not in raw
        assert secret not in texts, secret
    assert "here is" in texts


def _all_texts(path: Path) -> str:
    """Everything that the file holds, decompressed."""
    connection = sqlite3.connect(path)
    found: list[bytes] = []
    for table in ("bodies", "texts"):
        found += [zlib.decompress(row[0]) for row in connection.execute(f"SELECT body FROM {table}")]  # noqa: S608
    found += [str(row).encode() for row in connection.execute("SELECT * FROM turns")]
    connection.close()
    return "\n".join(one.decode("latin-1") for one in found)


def test_a_conversation_takes_little_room(tmp_path: Path) -> None:
    """Agents send all of it with each request: each message is stored once."""
    with inspected(**on_disk(tmp_path)) as gateway:
        said: list[dict[str, str]] = []
        for number in range(12):
            said.append({"role": "user", "content": f"question {number} " + f"{number} " * 2_000})
            post(
                f"{gateway.url}/v1/chat/completions",
                json={"model": "openai-chat/text", "messages": said, "stream": True},
            )
        written(gateway)
        connection = sqlite3.connect(tmp_path / FILE)
        stored = connection.execute("SELECT count(*) FROM texts WHERE form = 1").fetchone()[0]
        connection.close()
        assert stored == 12
        found = gateway.inspector.watch.disk.find_turns("question 3", None)
        assert len(found) == 9


def test_turns_that_could_not_be_written_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise sqlite3.OperationalError("disk is full")

    with inspected(**on_disk(tmp_path)) as gateway:
        monkeypatch.setattr(KeptTurnStore, "write_turns", fail)
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        state = get(f"{gateway.url}/inspector/keeping").json()
        assert "disk is full" in state["disk"]["problem"]
        assert trace_of(gateway, name)["frames"], "it is in memory"


def test_too_many_turns_at_once_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_keeper, "MAX_WAITING", 0)
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        watch = gateway.inspector.watch
        assert not watch.disk.holds(name)
        gateway.call(_drop(gateway, name))
        assert "too many turns came at once" in trace_of(gateway, name)["lost"]


async def _drop(gateway: Inspected, name: str) -> None:
    watch = gateway.inspector.watch
    watch.forget_capture(watch.captures[name], "memory")


def test_turns_that_wait_for_the_disk_count_in_the_bound_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes, may_write = KeptTurnStore.write_turns, threading.Event(), threading.Event()

    def write_later(store: KeptTurnStore, rows: list[KeptTurnRow]) -> Any:
        writes.set()
        assert may_write.wait(20)
        return write(store, rows)

    monkeypatch.setattr(KeptTurnStore, "write_turns", write_later)
    with inspected(**on_disk(tmp_path)) as gateway:
        watch: Any = gateway.inspector.watch
        watch.max_size = 2**17
        body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": "x" * 20_000}]}
        names: list[str] = []
        try:
            for _ in range(20):
                names.append(post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"])
                ended(gateway, names[-1])
                assert writes.wait(20)
            waiting = list(watch.disk._keeper._waiting)
            assert len(waiting) == 19
            assert sum(one.size for one in waiting) <= watch.max_size
            assert sum(len(one.request) for one in waiting) <= watch.max_size
            assert watch.size == sum(one.size for one in watch.captures.values())
        finally:
            may_write.set()
        written(gateway)
        assert "too many turns came at once" in trace_of(gateway, names[1])["lost"]
        assert [watch.disk.holds(name) for name in (names[0], names[1], names[-1])] == [True, False, True]
        watch.clear()
        assert trace_of(gateway, names[0])["frames"], "it was written, and has left memory"


def test_an_estimate_that_came_later_is_in_a_turn_from_disk(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path, features={"estimates": False})) as gateway:
        name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        services, watch = gateway.app.services, gateway.inspector.watch
        assert trace_of(gateway, name)["row"].get("estimate") is None
        entry = watch.captures[name].entry
        assert entry is not None
        services.journal.flush()
        JournalHistory(services.journal.rows).add_estimate(
            replace(entry, estimate=100, low=90, high=110, method="estimated")
        )
        watch.clear()
        row = trace_of(gateway, name)["row"]
        assert (row["estimate"], row["low"], row["high"], row["method"]) == (100, 90, 110, "estimated")
