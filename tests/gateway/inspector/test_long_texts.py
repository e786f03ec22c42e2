"""The search of long texts: all words are indexed, in memory and on disk, and leave the index completely."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock._inspector import live_capture
from penstock._inspector.turn_keeper import BATCH_BYTES, TurnKeeper
from penstock._inspector.turn_texts import read_answer_words
from penstock._inspector.work_pace import MAX_PAUSE, CpuUse, WorkPace
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import JSON, WORDS, TextIndex, TextPiece, read_words
from penstock._store.kept_turns_words import DATA_LENGTH, remove_data
from penstock._store.sqlite import connect
from penstock.testing import Reply, encode_events
from tests.support.client_requests import get, post
from tests.support.event_feed import ended
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from pathlib import Path

LONG = "filler words " * 100_000  # 1.3 million characters


def random_words(length: int) -> str:
    return " ".join(secrets.token_hex(8) for _ in range(length // 17))


# ── the index ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", [JSON, WORDS])
def test_the_end_of_a_long_text_is_found_and_leaves_the_index(form: int) -> None:
    text = f"alpha {LONG} the 東京 omega"
    body = json.dumps({"content": text}) if form == JSON else text
    with closing(connect()) as database:
        index = TextIndex(database)
        index.create_tables()
        index.add_turn("long", "", 1.0, [[TextPiece(body.encode(), form)]])
        for phrase in ("alpha filler", "words filler words the 東京 omega", "omega"):
            assert index.find_turns(phrase, None) == index.find_among({"long"}, phrase, None) == {"long"}, phrase
        index.remove_turn("long")
        assert index.find_turns("omega", None) == set()
        database.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, word_index, row)")
        assert database.execute("SELECT term FROM temp.terms").fetchall() == []
        database.execute("INSERT INTO word_index (word_index) VALUES ('integrity-check')")


def test_a_phrase_of_any_length_is_found() -> None:
    phrase = " ".join(f"word{number}" for number in range(120))
    with closing(connect()) as database:
        index = TextIndex(database)
        index.create_tables()
        index.add_turn("one", "", 1.0, [[TextPiece(f"before {phrase} after".encode(), WORDS)]])
        assert len(phrase) > 400
        assert index.find_turns(phrase, None) == {"one"}
        assert index.find_turns(f"{phrase} later", None) == set()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "tool_use", "name": "listen", "input": {"port_number": 8080, "hosts": [{"retry_limit": 2.5}]}},
        {"functionCall": {"name": "listen", "args": {"port_number": 8080, "hosts": [{"retry_limit": 2.5}]}}},
        {"functionResponse": {"response": {"port_number": 8080, "retry_limit": 2.5}}},
        {"toolResult": {"content": [{"json": {"port_number": 8080, "retry_limit": 2.5}}]}},
        {"function": {"arguments": '{"port_number": 8080, "hosts": [{"retry_limit": 2.5}]}'}},
    ],
)
def test_names_and_numbers_of_a_call_are_found_in_every_protocol(message: dict[str, Any]) -> None:
    words = read_words(TextPiece(json.dumps({"max_tokens": 4711, "content": [message]}).encode(), JSON))
    assert all(word in words for word in ("port_number", "8080", "retry_limit", "2.5"))
    assert "max_tokens" not in words, "what every request has is not searched"
    assert "4711" not in words


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic", "gemini", "responses"])
def test_names_and_numbers_of_a_call_in_an_answer_are_found(protocol: str) -> None:
    arguments = '{"port_number": 8080, "open": true}'
    events: list[Any] = [
        ev.Start(id="1", model="m"),
        ev.CallStart(0, id="a", name="listen"),
        ev.CallDelta(0, arguments),
        ev.CallEnd(0, "a", "listen", arguments),
        ev.Finish("calls"),
    ]
    found = read_answer_words(protocol, "sse", encode_events(protocol, events))
    assert found is not None
    words = read_words(found).split()
    assert {"listen", "port_number", "8080", "open"} <= {*words}
    assert "delta" not in words


@pytest.mark.parametrize("place", [0, 1, 2047, 2048, 4097, 10_000])
@pytest.mark.parametrize("length", [DATA_LENGTH, DATA_LENGTH * 5 + 7])
def test_data_is_left_out_alone(place: int, length: int) -> None:
    before, data = ("see this " * 2_000)[:place], "iVBORw0KGgo+/" * length
    text = f'{before}"{data[:length]}" and "{data[: DATA_LENGTH - 1]}" after'
    found = remove_data(text)
    assert found.startswith(before)
    assert found.endswith(f'" and "{data[: DATA_LENGTH - 1]}" after'), "a shorter run is a word"
    assert len(found) < len(before) + DATA_LENGTH + 30
    assert remove_data(found) == found


def test_a_long_text_without_spaces_has_words() -> None:
    text = "水。" * 5_000
    assert remove_data(text) == text
    assert "water" in read_words(TextPiece(json.dumps([f"{'a.' * 3_000}water"]).encode()))


def test_work_on_data_grows_with_its_length_only() -> None:
    """Runs that are almost long enough, and one that is very long."""
    texts = [("a" * (DATA_LENGTH - 1) + " ") * 1_000, "a" * DATA_LENGTH * 1_000]
    for text in texts:
        began = time.thread_time()
        remove_data(text)
        assert time.thread_time() - began < 2.0


def test_words_of_a_broken_json_text_are_whole() -> None:
    """Such as a request of which only the beginning is kept."""
    body = b'{"messages": [{"role": "user", "content": "first\\nsecond \\u00dcmlaut \\ud83d\\ude00 cut \\ud8'
    words = read_words(TextPiece(body))
    assert "first\nsecond Ümlaut 😀 cut" in words
    assert "C:\\new" in read_words(TextPiece(b"the folder C:\\new"))


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


def chat_chunks(texts: list[str], **more: str) -> list[bytes]:
    frames = [{"choices": [{"index": 0, "delta": {"content": text}}], **more} for text in texts]
    return [f"data: {json.dumps(frame)}\n\n".encode() for frame in frames] + [b"data: [DONE]\n\n"]


def test_all_strings_of_frames_are_indexed_once() -> None:
    texts = [f"token{number} " for number in range(20_000)]
    chunks = chat_chunks(texts)
    chunks[-1:-1] = [b'data: {"choices": [], "note": "the last words", "other": "token7 "}\n\n']
    piece = read_answer_words("openai-chat", "sse", chunks)
    assert piece is not None
    counts = Counter(read_words(piece).split())
    assert counts["token19999"] == 1, "a delta is not indexed twice"
    assert counts["token7"] == 2, "other strings that are the same are"
    assert "the last words" in read_words(piece)


# ── the gateway ───────────────────────────────────────────────────────────────────────────────────


def options(folder: Path) -> dict[str, Any]:
    journal = {"path": str(folder / "journal.sqlite")}
    return {"inspector": {"keep": True}, "data": folder, "journal": journal}


def search(url: str, q: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/inspector/turns", params={"q": q}, timeout=60, trust_env=False).json()
    return found


def send(url: str, text: str) -> str:
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": text}]}
    name: str = post(f"{url}/v1/chat/completions", json=body).headers["x-request-id"]
    return name


def answer(*texts: str) -> Reply:
    deltas = [ev.TextDelta(0, text) for text in texts]
    events: list[ev.AnyEvent] = [ev.Start(id="1", model="m"), ev.TextStart(0), *deltas, ev.TextEnd(0)]
    return Reply.of("openai-chat", [*events, ev.Finish("stop")])


def test_memory_and_disk_find_the_same(tmp_path: Path) -> None:
    data = "iVBORw0KGgo" * 1_000
    refused = Reply.body({"error": {"message": "the boiler is cold"}}, status=400)
    with inspected(answer(LONG, " at the", " end pump"), refused, **options(tmp_path)) as gateway:
        first = send(gateway.url, f"{LONG} valve data:image/png;base64,{data} steam")
        second = send(gateway.url, "short")
        for name in (first, second):
            ended(gateway, name)
        watch = gateway.inspector.watch
        watch.disk.flush()
        phrases = {"end pump": {first}, "words valve": {first}, "steam": {first}, "boiler is cold": {second}}
        for phrase, names in phrases.items():
            assert watch._memory_index.find_turns(phrase, None) == names, phrase
            assert watch.disk.find_turns(phrase, None) == names, phrase
            assert {row["id"] for row in search(gateway.url, f'-"{phrase}"')["rows"]} == {first, second} - names
        assert search(gateway.url, "pump")["partial"] == 0
        assert httpx.delete(f"{gateway.url}/inspector/turns/{first}", trust_env=False).json() == {"deleted": 1}
        assert search(gateway.url, "pump")["rows"] == search(gateway.url, "valve")["rows"] == []


def test_turns_that_are_kept_in_part_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_capture, "MAX_REQUEST_BYTES", 100_000)
    with inspected(**options(tmp_path)) as gateway:
        cut, whole = send(gateway.url, f"begin {'many words ' * 20_000} end"), send(gateway.url, "begin and end")
        for name in (cut, whole):
            ended(gateway, name)
        gateway.inspector.watch.disk.flush()
        for _ in ("memory", "disk"):
            for q, names, partial in (
                ("begin", {cut, whole}, 1), ("end", {whole}, 1), ("-end", {cut}, 1), ("-end model:claude", set(), 0),
                ("model:text", {cut, whole}, 0),
            ):  # fmt: skip
                page = search(gateway.url, q)
                assert ({row["id"] for row in page["rows"]}, page["partial"]) == (names, partial), q
            assert get(f"{gateway.url}/inspector/turns", params={"q": "end", "state": "fault"}).json()["partial"] == 0
            gateway.inspector.watch.clear()  # what is on disk stays


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


def test_large_texts_make_room_for_each_other(tmp_path: Path) -> None:
    """FTS5 first marks removed words as deleted: the file would grow, and all turns would go."""
    size, peak = 16 * 2**20, 0
    with closing(KeptTurnStore(tmp_path / FILE, size=size, age=3600.0)) as store:
        for number in range(40):
            text = TextPiece(f"number{number} {random_words(2**18)}".encode(), WORDS)
            store.write_turns([KeptTurnRow(str(number), "", time.time(), b"", [[text]])])
            peak = max(peak, store.file_bytes)
        assert peak <= size
        left = store.count()
        assert 8 <= left < 40
        for number in range(40):
            assert store.find_turns(f"number{number}", None) == ({str(number)} if number >= 40 - left else set())


class FakeUse(CpuUse):
    share = 1.0

    def measure(self) -> float:
        return self.share


def test_long_work_is_followed_by_long_pauses() -> None:
    """How busy the gateway is, is looked at while they last."""
    pace = WorkPace(FakeUse())
    pace.used = 1.0
    pauses: list[float] = []
    while (pause := pace.next_pause()) > 0:
        pauses.append(pause)
    assert sum(pauses) == pytest.approx(49.0)  # 2% of the time is work
    assert max(pauses) == MAX_PAUSE
    pace.used = 1.0
    pace.next_pause()
    FakeUse.share = 0.0
    assert pace.next_pause() == pytest.approx(4 * (1 - MAX_PAUSE / 49))  # 20%


def test_large_turns_are_written_one_by_one(tmp_path: Path) -> None:
    """A transaction is short: other processes wait for its lock."""
    keeper = TurnKeeper(tmp_path / FILE, size=2**26, days=1.0, secrets=tuple, on_forget=lambda *_: None)
    keeper.close()

    class Waiting:
        def __init__(self, size: int) -> None:
            self.size = size

    sizes = [BATCH_BYTES * 2, 10, BATCH_BYTES - 10, 1, *[10] * 30]
    keeper._waiting.extend(Waiting(size) for size in sizes)  # type: ignore[misc]
    batches: list[list[int]] = []
    while keeper.waits:
        batches.append([turn.size for turn in keeper._take_batch()])
    assert [len(batch) for batch in batches] == [1, 2, 20, 11]
    assert [size for batch in batches for size in batch] == sizes
