"""A damaged file of kept turns: the list and turns in memory stay usable, and what is missing says why.

Deleting all turns mends it.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._inspector import memory_index
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import WORDS, TextPiece
from penstock._store.sqlite import remove_database
from tests.support.client_requests import get, post
from tests.support.event_feed import Reader, bearer, ended
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.inspector import Inspected


def _options(folder: Path) -> dict[str, Any]:
    journal = {"path": str(folder / "journal.sqlite")}
    return {"inspector": {"keep": True}, "data": folder, "journal": journal}


def _send(gateway: Inspected, words: str) -> str:
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": words}]}
    name: str = post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"]
    ended(gateway, name)
    return name


def _spoil_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[3 * 4096 :] = bytes(len(data) - 3 * 4096)
    file.write_bytes(data)


def _spoil_schema(file: Path) -> None:
    database = sqlite3.connect(file)
    database.execute("DROP TABLE bodies")
    database.execute("CREATE VIEW bodies AS SELECT 1")
    database.commit()
    database.close()


def _spoil_all(file: Path) -> None:
    file.write_bytes(b"no database" * 1_000)


@pytest.mark.parametrize("spoil", [_spoil_pages, _spoil_schema, _spoil_all])
def test_a_damaged_file_hides_its_turns_and_nothing_else(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    with inspected(**_options(tmp_path)) as gateway:
        old = [_send(gateway, f"zebra {number}") for number in range(3)]
        gateway.inspector.watch.close_files()
    spoil(tmp_path / FILE)
    with inspected(**_options(tmp_path)) as gateway:
        new = _send(gateway, "zebra again")
        base = f"{gateway.url}/inspector"
        assert {row["id"] for row in get(f"{base}/turns").json()["rows"]} == {*old, new}
        assert new in {row["id"] for row in get(f"{base}/turns?q=zebra").json()["rows"]}
        with Reader(f"{base}/live?q=zebra") as reader:
            reader.until(lambda: new in reader.rows)
        for place in (f"turns/{old[0]}/request", "sessions", f"previews?ids={old[0]},{new}", f"turns/{new}"):
            assert get(f"{base}/{place}").status_code == 200, place
        trace = get(f"{base}/turns/{old[0]}").json()
        assert trace["lost"].startswith("it is not in memory, and the file of kept turns cannot be read")
        assert FILE in get(f"{base}/keeping").json()["disk"]["problem"]
        assert httpx.delete(f"{base}/turns").status_code == 200
        for name in (old[0], new):
            assert get(f"{base}/turns/{name}").json()["frames"] == []
        assert "deleted" in get(f"{base}/turns/{new}").json()["lost"]
        state = get(f"{base}/keeping").json()["disk"]
        assert ("problem" in state, state["turns"]) == (False, 0)
        raw = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
        assert b"zebra" not in raw
        kept = _send(gateway, "zebra at last")
        gateway.inspector.watch.disk.flush()
        assert gateway.inspector.watch.text_index.find_turns("zebra", None) == {kept}
        gateway.inspector.watch.clear()
        assert get(f"{base}/turns/{kept}").json()["frames"], "it is kept on disk"


@pytest.mark.parametrize("table", ["bodies", "texts"])
def test_a_damaged_turn_hides_itself_alone(tmp_path: Path, table: str) -> None:
    """The file can be read and written: nothing says that turns cannot be kept, and other reasons stay true."""
    with inspected(**_options(tmp_path)) as gateway:
        damaged, whole, deleted = (_send(gateway, f"zebra {number}") for number in range(3))
        assert httpx.delete(f"{gateway.url}/inspector/turns/{deleted}").status_code == 200
        gateway.inspector.watch.close_files()
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute(f"UPDATE {table} SET body = x'00' WHERE rowid = 1")  # noqa: S608 — of the test's own list
    with inspected(**_options(tmp_path)) as gateway:
        base = f"{gateway.url}/inspector"
        assert get(f"{base}/turns/{damaged}").json()["lost"].startswith("its content on disk is damaged")
        assert get(f"{base}/turns/{whole}").json()["frames"]
        assert "deleted" in get(f"{base}/turns/{deleted}").json()["lost"]
        disk = get(f"{base}/keeping").json()["disk"]
        assert ("problem" in disk, disk["damaged"], disk["turns"]) == (False, 1, 2)
        assert httpx.delete(f"{base}/turns/{damaged}").status_code == 200
        assert "deleted" in get(f"{base}/turns/{damaged}").json()["lost"]
        assert get(f"{base}/keeping").json()["disk"]["damaged"] == 0


def test_a_damaged_turn_can_be_deleted_alone(tmp_path: Path) -> None:
    """Nobody knows its words any more, but they leave the index; those of others are still found."""
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0)
    rows = [
        KeptTurnRow(name, "", time.time(), b"", [[TextPiece(f"{name} zebra".encode(), WORDS)]])
        for name in ("damaged", "whole")
    ]
    store.write_turns(rows)
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("UPDATE texts SET body = x'00' WHERE number = 1")
    database.commit()
    assert store.delete_turns({"damaged"}) == {"damaged": ""}
    assert store.find_turns("zebra", None) == {"whole"}
    database.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, word_index, row)")
    assert [row[0] for row in database.execute("SELECT term FROM temp.terms")] == ["whole", "zebra"]
    database.close()
    store.close()


def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    """By another worker, because it was damaged, or by hand while the gateway runs."""
    with inspected(**_options(tmp_path)) as gateway:
        old, watch = _send(gateway, "zebra"), gateway.inspector.watch
        watch.disk.flush()
        assert watch.disk.holds(old)
        remove_database(tmp_path / FILE)
        assert not watch.disk.holds(old)
        new = _send(gateway, "zebra")
        watch.disk.flush()
        assert watch.disk.holds(new)
        assert watch.disk.find_turns("zebra", None) == {new}
        assert "problem" not in get(f"{gateway.url}/inspector/keeping").json()["disk"]


def test_a_turn_whose_words_cannot_be_read_does_not_stop_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a decoder with a defect")

    with inspected() as gateway:
        name = _send(gateway, "the first")
        with monkeypatch.context() as patch:
            patch.setattr(memory_index, "_list_texts", fail)
            assert get(f"{gateway.url}/inspector/turns?q=first").json()["total"] == 0
        other = _send(gateway, "the second")
        rows = get(f"{gateway.url}/inspector/turns?q=second").json()["rows"]
        assert [row["id"] for row in rows] == [other]
        assert get(f"{gateway.url}/inspector/turns/{name}").status_code == 200


def test_the_size_of_the_file_is_for_who_sees_all_turns(tmp_path: Path) -> None:
    """It grows with the turns of others; and not, if somebody else has sent the same words before."""
    keys = {"one": {"env": "ONE"}, "all": {"env": "ALL", "inspect": "all"}}
    env = {"ONE": "pk-penstock-one0123456789", "ALL": "pk-penstock-all0123456789"}
    with inspected(env=env, keys=keys, **_options(tmp_path)) as gateway:
        (tmp_path / FILE).touch(mode=0o600)  # an empty file is a database without tables
        seen = {
            name: get(f"{gateway.url}/inspector/keeping", headers=bearer(env[name])).json() for name in ("ONE", "ALL")
        }
        assert "bytes" not in seen["ONE"]["disk"]
        assert seen["ALL"]["disk"]["bytes"] > 0
