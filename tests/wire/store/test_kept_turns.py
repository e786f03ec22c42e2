"""Turns that the inspector keeps on disk: searches find what is there after any changes, and deleted text leaves the files.

Two gateways have the same file open, as two worker processes have: each writes, deletes and searches.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.gateway import answer
from tests.support.stores import Place, found, history, turn, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

WORDS = ("walnut", "hazel", "chestnut", "almond")
PHRASES = (*WORDS, '"walnut hazel"', '"hazel walnut"', '"almond almond"', "nowhere")
KEEP: dict[str, Any] = {"inspector": {"keep": True}}
SECRET = b"walnut7391"


def delete(running: Inspected, name: str = "") -> Any:
    with httpx.Client(verify=False, trust_env=False, timeout=60) as http:  # noqa: S501 — loopback, no TLS
        reply = http.delete(f"{running.url}/inspector/turns" + (f"/{name}" if name else ""))
    assert reply.status_code in (200, 404), reply.text
    return reply.json()


class Model:
    """Two gateways on one folder, and the texts of the turns that they keep. What is found is compared after each step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.place, self.chance = Place("file", folder), random.Random(seed)
        self.texts: dict[str, str] = {}
        self.stacks = [ExitStack(), ExitStack()]
        self.running = [self.start(0), self.start(1)]

    def start(self, number: int) -> Inspected:
        return self.stacks[number].enter_context(self.place.open(answer, **KEEP))

    def pick(self) -> Inspected:
        return self.chance.choice(self.running)

    def write(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            text = " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 3)))
            self.texts[turn(self.pick(), text=text)] = text

    def write_a_conversation(self) -> None:
        """Later turns have the texts of those before."""
        said: list[str] = []
        for _ in range(3):
            said.append(self.chance.choice(WORDS))
            messages = [{"role": "user", "content": f"{text}."} for text in said]
            name = turn(self.pick(), messages=messages)
            self.texts[name] = ". ".join(said)

    def settle(self) -> None:
        """A turn that one gateway has not written yet cannot be deleted by the other."""
        self.compare(WORDS)

    def delete_some(self) -> None:
        self.settle()
        for name in self.chance.sample([*self.texts], min(2, len(self.texts))):
            delete(self.pick(), name)
            del self.texts[name]

    def delete_all(self) -> None:
        self.settle()
        delete(self.pick())
        self.texts.clear()

    def restart(self) -> None:
        number = self.chance.randrange(2)
        self.stacks[number].close()
        self.running[number] = self.start(number)

    def search(self) -> None:
        self.compare(self.chance.sample(PHRASES, 3))

    def compare(self, phrases: Iterable[str]) -> None:
        for phrase in phrases:
            words = phrase.strip('"')
            expected = {name for name, text in self.texts.items() if words in text}
            for number, running in enumerate(self.running):
                until(partial(self.is_found, running, phrase, expected), f"{phrase} at {number}")

    def is_found(self, running: Inspected, phrase: str, expected: set[str]) -> bool:
        return {*found(running, phrase)} == expected

    def close(self) -> None:
        for stack in self.stacks:
            stack.close()


STEPS = ("write", "write", "write", "write_a_conversation", "delete_some", "search", "search", "restart", "delete_all")


def run_model(folder: Path, seed: int, count: int) -> None:
    model = Model(folder, seed)
    try:
        model.write()
        for step in [*model.chance.choices(STEPS, weights=[3, 3, 3, 2, 2, 3, 3, 1, 1], k=count), "search"]:
            getattr(model, step)()
    finally:
        model.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_searches_find_what_is_there_after_any_changes(tmp_path: Path, seed: int) -> None:
    run_model(tmp_path, seed, 22)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 120))
def test_searches_find_what_is_there_after_many_changes(tmp_path: Path, seed: int) -> None:
    run_model(tmp_path, seed, 120)


def test_a_file_of_another_version_leaves_no_results(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    with place.open(**KEEP) as running:
        name = turn(running, text="walnut")
        until(lambda: found(running, "walnut") == [name])
    with closing(sqlite3.connect(place.path("turns"))) as opened, opened:
        version = opened.execute("PRAGMA user_version").fetchone()[0]
        opened.execute(f"PRAGMA user_version={version + 1}")
    with place.open(**KEEP) as running:
        new = turn(running, text="walnut hazel")
        until(lambda: found(running, "hazel") == [new])
        assert name not in found(running, "walnut"), "the file was begun anew"


# ── deleted text ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def reading(place: Place) -> Iterator[sqlite3.Connection]:
    """Another program, with a read transaction."""
    with closing(sqlite3.connect(place.path("turns"), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        yield reader


def holds_word(place: Place) -> bool:
    return any(SECRET in path.read_bytes() for path in place.folder.glob("turns.sqlite*"))


def keep_one(running: Inspected) -> str:
    name = turn(running, text=SECRET.decode())
    until(lambda: found(running, SECRET.decode()) == [name])
    return name


def test_deleted_text_leaves_the_files(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    with place.open(**KEEP) as running:
        keep_one(running)
        until(lambda: any(path.stat().st_size for path in tmp_path.glob("turns.sqlite*")))
        delete(running)
        until(lambda: not holds_word(place))
        assert history(running, SECRET.decode())["rows"] == []


def test_a_reader_delays_it_until_the_next_attempt_or_the_next_start(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    with place.open(**KEEP) as running:
        keep_one(running)
    for restarts in (False, True):
        with reading(place) as reader, ExitStack() as stack:
            running = stack.enter_context(place.open(**KEEP))
            assert "still in the file" in delete(running)["remains"]
            assert holds_word(place)
            if restarts:
                stack.close()
                running = stack.enter_context(place.open(**KEEP))
            reader.execute("COMMIT")
            assert not delete(running).get("remains")
            assert not holds_word(place)
            keep_one(running)
