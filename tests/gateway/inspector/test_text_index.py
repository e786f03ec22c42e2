"""The text index of kept turns: what is found, for whom, and that removed text is gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock._inspector.request_pieces import join_request, split_request
from penstock._store.kept_turns_index import WORDS, TextIndex, TextPiece
from penstock._store.sqlite import IN_MEMORY, connect
from tests.support.client_requests import ask, post
from tests.support.event_feed import ended, watching
from tests.support.inspector import inspected

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["memory", "file"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(IN_MEMORY if request.param == "memory" else tmp_path / "turns.sqlite")
    yield connection
    connection.close()


@pytest.fixture
def index(database: sqlite3.Connection) -> TextIndex:
    made = TextIndex(database)
    made.create_tables()
    return made


def message(text: str, role: str = "user") -> TextPiece:
    return TextPiece(json.dumps({"role": role, "content": text}).encode())


def words(text: str) -> TextPiece:
    return TextPiece(text.encode(), WORDS)


def test_words_are_found_in_their_order(index: TextIndex) -> None:
    index.add_turn("one", "ours", 1.0, [[message("Hello big\nWorld"), words("the Answer is 42")]])
    assert index.find_turns("hello BIG world", None) == {"one"}
    assert index.find_turns("answer is 42", None) == {"one"}
    for absent in ("big hello", "hello world", "world the answer", "user", "", "???"):
        assert index.find_turns(absent, None) == set(), absent


def test_no_word_of_a_phrase_is_an_operator(index: TextIndex) -> None:
    index.add_turn("one", "ours", 1.0, [[message("cats OR dogs NEAR me")]])
    assert index.find_turns("cats OR dogs", None) == {"one"}
    for absent in ("fish OR dogs", 'fish" OR "dogs', "words:cats fish", "do*", "\0", "^cats fish"):
        assert index.find_turns(absent, None) == set(), absent


def test_nobody_finds_turns_of_another_tenant(index: TextIndex) -> None:
    shared = message("the same question")
    index.add_turn("one", "ours", 1.0, [[shared, words("first")]])
    index.add_turn("two", "theirs", 2.0, [[shared, words("second")]])
    assert index.find_turns("same question", "ours") == {"one"}
    assert index.find_turns("second", "ours") == set()
    assert index.find_turns("same question", None) == {"one", "two"}
    assert index.read_turn("two", "ours") is None


def test_a_conversation_is_stored_once(index: TextIndex, database: sqlite3.Connection) -> None:
    said = [message(f"message number {number}") for number in range(50)]
    for number in range(1, 51):
        index.add_turn(str(number), "", float(number), [[*said[:number], words(f"answer {number}")]])
    assert database.execute("SELECT count(*) FROM texts").fetchone()[0] == 100
    assert database.execute("SELECT count(*) FROM nodes").fetchone()[0] == 100
    assert index.find_turns("number 48", None) == {"49", "50"}
    found = index.read_turn("3", "")
    assert found is not None
    assert found[1] == [[*said[:3], words("answer 3")]]


def test_removed_text_leaves_the_index(index: TextIndex, database: sqlite3.Connection) -> None:
    first, second = message("shared beginning"), message("only here")
    index.add_turn("one", "", 1.0, [[first, words("alpha")]])
    index.add_turn("two", "", 2.0, [[first, second, words("beta")]])
    assert index.remove_turn("two")
    assert not index.remove_turn("two")
    assert index.find_turns("only here", None) == index.find_turns("beta", None) == set()
    assert index.find_turns("shared beginning", None) == {"one"}
    index.remove_turn("one")
    for table in ("texts", "nodes", "turns"):
        assert database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0  # noqa: S608
    assert database.execute("SELECT count(*) FROM word_index WHERE word_index MATCH 'shared'").fetchone()[0] == 0
    database.execute("INSERT INTO word_index (word_index) VALUES ('integrity-check')")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b"[1, 2]",
        b'{"a": 1',
        b'{"messages": [{"role": "user"},{"role":"user"} , "x"],\n "tools":[ ], "model":"m"}',
        b'{"messages": ["\\u0001"], "messages": ["twice"]}',
        b'{"system": "%s", "input": "hi", "tools": [{"name": "t"}]}' % (b"long " * 100),
        b'{"x": "\x01"}',
        b'{"n": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'\xff\xfe{"messages": []}',
    ],
)
def test_a_request_is_joined_byte_for_byte(body: bytes) -> None:
    assert join_request(*split_request(body)) == body


@pytest.mark.parametrize("missing", [slice(0, 1), slice(0, 3)])
def test_pieces_that_are_missing_are_an_error(missing: slice) -> None:
    """A damaged file: the turn cannot be read."""
    template, pieces = split_request(b'{"messages":[{"role":"user"},{"role":"assistant"}],"tools":[{"name":"t"}]}')
    del pieces[missing]
    with pytest.raises(ValueError, match="do not fit the template"):
        join_request(template, pieces)


def test_tools_come_before_messages() -> None:
    """A conversation grows at its end, so that its turns share their beginning."""
    body = b'{"messages":[{"role":"user"},{"role":"assistant"}],"tools":[{"name":"t"}]}'
    template, pieces = split_request(body)
    assert pieces == [b'{"name":"t"}', b'{"role":"user"}', b'{"role":"assistant"}']
    assert join_request(template, pieces) == body


def test_turns_in_memory_are_found_by_prompt_and_answer() -> None:
    with inspected() as gateway, watching(gateway.url):
        asked = {
            "model": "openai-chat/text",
            "stream": True,
            "messages": [{"role": "user", "content": "Where is Ümlaut?"}],
        }
        name = post(f"{gateway.url}/v1/chat/completions", json=asked).headers["x-request-id"]
        other = ask(gateway.url, "anthropic", "openai-chat/tools").headers["x-request-id"]
        ended(gateway, name)
        ended(gateway, other)
        index = gateway.inspector.watch.text_index
        assert index.find_turns("where is ümlaut", None) == {name}
        assert index.find_turns("where is ümlaut", "somebody else") == set()
        tenant = gateway.inspector.watch.captures[name].tenant
        assert index.find_turns("where is ümlaut", tenant) == {name}
        gateway.inspector.watch.clear()
        assert index.find_turns("where is ümlaut", None) == set()
