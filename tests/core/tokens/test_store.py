"""Counts and factors in SQLite: over restarts, between processes, after damage, within bounds."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.events import Usage
from penstock.request import Call, Message, Result, Text
from penstock.stores import MemoryStore
from penstock.tokens import Factors, HybridTokenEstimator, TokenStore, default_path
from tests.cli.command_runner import environment
from tests.core.tokens.samples import CODE, JSON, PROSE, TEXTS
from tests.support.each_case import each
from tests.wire.store.processes import start_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

TALK = [Message("user", [Text(text=f"{number} {PROSE}")]) for number in range(12)]
LEARN = """
import sys
from pathlib import Path
from penstock.request import Message, Text
from penstock._store.tokens import TokenStore
from penstock.tokens import HybridTokenEstimator
store = TokenStore(Path(sys.argv[1]))
estimator = HybridTokenEstimator(counts=store, learned=store.factors)
for number in range(int(sys.argv[2])):
    message = Message("user", [Text(text=f"{sys.argv[3]} {number} " + "low water at noon " * 60)])
    plain = estimator.estimate_conversation([message], "gpt-4o", "p").tokens / estimator.factor("gpt-4o", "p").value
    estimator.calibrate([message], round(plain * 1.4), "gpt-4o", "p")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "tokens.sqlite"


@pytest.fixture
def stores() -> Iterator[list[TokenStore]]:
    opened: list[TokenStore] = []
    yield opened
    for store in opened:
        store.close()


def made(path: Path, stores: list[TokenStore], **options: int) -> tuple[TokenStore, HybridTokenEstimator]:
    store = TokenStore(path, **options)  # type: ignore[arg-type]
    stores.append(store)
    return store, HybridTokenEstimator(counts=store, learned=store.factors)


def test_a_restart_keeps_counts_prompts_and_factors(path: Path, stores: list[TokenStore]) -> None:
    _, first = made(path, stores)
    plain = first.estimate_conversation(TALK, "gpt-4o", "p")
    first.calibrate(TALK, plain.tokens * 2, "gpt-4o", "p")
    learned = first.factor("gpt-4o", "p")
    stores.pop().close()
    assert first.factor("gpt-4o", "p") == learned, "a store that is gone takes nothing back"
    _, second = made(path, stores)
    assert second.estimate_conversation(TALK, "gpt-4o", "p").method == "actual"
    assert second.cache.counted == 0
    assert second.factor("gpt-4o", "p") == learned
    assert second.estimate_conversation(TALK[:3], "gpt-4o", "p").tokens > 1.05 * plain.tokens * 3 / 12


def test_two_processes_share_and_neither_loses_what_the_other_learned(path: Path, stores: list[TokenStore]) -> None:
    _, mine = made(path, stores)
    command = [sys.executable, "-c", LEARN, str(path), "12"]
    running = [subprocess.Popen([*command, name], env=environment(), stderr=subprocess.PIPE) for name in ("a", "b")]
    for process in running:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, b"")
    factor = mine.factor("gpt-4o", "p")
    assert factor.turns == 24
    assert factor.value == pytest.approx(1.4, rel=0.05)
    known = Message("user", [Text(text="a 3 " + "low water at noon " * 60)])
    assert mine.estimate_conversation([known], "gpt-4o", "p").method == "actual"
    assert mine.cache.counted == 0


@pytest.mark.parametrize("damage", ["garbage", "middle"])
def test_a_broken_file_is_moved_aside_and_begun_anew(
    path: Path, stores: list[TokenStore], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, first = made(path, stores)
    first.estimate_conversation(TALK, "gpt-4o")
    store.put("", {f"{number:040}": b"x" * 400 for number in range(300)})
    store.close()
    stores.clear()
    size = path.stat().st_size
    data = (
        b"not a database at all " * 400 if damage == "garbage" else path.read_bytes()[:4096] + b"\xa5" * (size - 4096)
    )
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, "penstock.store"):
        store, second = made(path, stores)
        assert second.estimate_conversation(TALK, "gpt-4o").method == "estimated"
        second.calibrate(TALK, 5000, "gpt-4o")
    aside = path.with_name("tokens.sqlite.broken-1")
    assert store.moved == [aside]
    assert aside.read_bytes()[4096:] == data[4096:]
    assert "is no database any more; it is now tokens.sqlite.broken-1" in caplog.text
    _, third = made(path, stores)
    assert third.estimate_conversation(TALK, "gpt-4o").tokens == 5000


def test_it_is_bounded_and_the_least_recently_used_go_first(path: Path, stores: list[TokenStore]) -> None:
    now = [0.0]
    store = TokenStore(path, rows=50, clock=lambda: now[0])
    stores.append(store)
    for number in range(200):
        now[0] += 100.0
        store.put("", {str(number): b"x"})
        store.get("", ["0"])
    assert len(store) <= 100
    assert set(store.get("", ["0", "1", "199"])) == {"0", "199"}


@pytest.mark.parametrize(
    ("held", "left"),
    [
        ({"a": 1000, "b": 10}, {"a": 70, "b": 10}),
        ({"b": 10, "a": 1000}, {"a": 70, "b": 10}),
        ({"a": 1000, "b": 500, "c": 5}, {"a": 38, "b": 37, "c": 5}),
        ({"a": 200}, {"a": 80}),
        ({**dict.fromkeys("bcdefgh", 9), "a": 500}, {**dict.fromkeys("bcdefgh", 9), "a": 17}),
    ],
    ids=str,
)
def test_one_tenant_does_not_take_the_room_of_others(
    path: Path, stores: list[TokenStore], held: dict[str, int], left: dict[str, int]
) -> None:
    """The rows that a tenant writes one by one, and the factors that it learns."""
    store = TokenStore(path, rows=80, factors=80)
    stores.append(store)
    for tenant, rows in held.items():
        for number in range(rows):
            store.factors.update(tenant, f"m{number}", lambda _: b"{}")
        store.put(tenant, {f"{number:x}": b"x" for number in range(rows)})
    counted: dict[str, int] = {}
    for table, form in (("counts", "{:x}"), ("factors", "m{}")):
        keys = [form.format(number) for number in range(1000)]
        counted = {tenant: len(store.read(table, tenant, keys)) for tenant in held}
        assert sum(counted.values()) <= 80 + (80 if table == "counts" else 0)  # counts are checked only now and then
        small = [tenant for tenant in held if held[tenant] <= 10]
        assert {tenant: counted[tenant] for tenant in small} == {tenant: held[tenant] for tenant in small}
        if table == "factors":
            assert counted == pytest.approx(left, abs=2)


def test_counts_of_messages_go_before_the_counts_of_prompts(path: Path, stores: list[TokenStore]) -> None:
    store = TokenStore(path, rows=400)
    stores.append(store)
    estimator = HybridTokenEstimator(counts=store, learned=store.factors, tenant="a")
    estimator.calibrate(TALK, 5000, "gpt-4o")
    for number in range(900):
        estimator.estimate_message(Message("user", [Text(text=f"{number}")]), "gpt-4o")
    assert len(store) <= 400 + 256
    again = HybridTokenEstimator(counts=store, learned=store.factors, tenant="a")
    assert again.estimate_conversation(TALK, "gpt-4o").tokens == 5000


@pytest.mark.parametrize(
    "row", [b"", b"x", struct.pack("<dd", math.nan, 1), struct.pack("<dd", 5, math.inf), struct.pack("<dd", -5, 0)]
)
def test_a_count_that_cannot_be_right_is_not_used(path: Path, stores: list[TokenStore], row: bytes) -> None:
    _, first = made(path, stores)
    plain = first.estimate_conversation(TALK, "gpt-4o")
    first.calibrate(TALK, 5000, "gpt-4o", learn=False)
    with closing(sqlite3.connect(path)) as other, other:
        assert other.execute("UPDATE counts SET value = ?", (row,)).rowcount > len(TALK)
    _, second = made(path, stores)
    assert second.estimate_conversation(TALK, "gpt-4o") == plain


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process that keeps everybody out. The file has no WAL yet."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_a_file_that_is_locked_when_it_is_opened_says_so(path: Path) -> None:
    with locked(path), pytest.raises(OSError, match=r"tokens\.sqlite: .*held its lock for 0\.25 s") as caught:
        TokenStore(path, timeout=0.25)
    assert "Errno" not in str(caught.value)


@pytest.mark.parametrize("then", ["close", "go on"])
def test_what_is_learned_while_the_file_is_locked_is_written_later(
    path: Path, stores: list[TokenStore], then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(path):
        store = TokenStore(path, timeout=0.05, required=False)
        first = HybridTokenEstimator(counts=store, learned=store.factors)
        for number in range(3):
            first.calibrate(TALK[: number + 1], 5000, "gpt-4o")
        learned = first.factor("gpt-4o")
        assert learned.turns == 3
        assert HybridTokenEstimator(counts=store).estimate_conversation(TALK[:3], "gpt-4o").tokens == 5000
    if then == "go on":
        monkeypatch.setattr(store, "_locked_until", {"read": 0.0, "write": 0.0})  # the interval is over
        first.estimate_text("a", "gpt-4o")
        first.estimate_message(TALK[5], "gpt-4o")
        stores.append(store)
    else:
        store.close()
    _, second = made(path, stores)
    assert second.factor("gpt-4o") == learned
    assert second.estimate_conversation(TALK[:2], "gpt-4o").method == "actual"


def test_tenants_see_only_their_own(path: Path, stores: list[TokenStore]) -> None:
    store, _ = made(path, stores)
    store.put("a", {"k": b"1"})
    store.factors.update("a", "m", lambda _: b"{}")
    assert store.get("b", ["k"]) == {}
    assert store.factors.get("b", ["m"]) == {}
    assert (store.get("a", ["k"]), store.factors.get("a", ["m"])) == ({"k": b"1"}, {"m": b"{}"})


def test_a_change_that_fails_changes_nothing(path: Path, stores: list[TokenStore]) -> None:
    store, _ = made(path, stores)
    store.factors.update("", "m", lambda _: b"1")
    with pytest.raises(ZeroDivisionError):
        store.factors.update("", "m", lambda _: bytes(1 // 0))
    assert store.factors.update("", "m", lambda old: (old or b"") + b"2") == b"12"


@pytest.mark.parametrize("row", [b"junk", b'{"value": 99}', b'{"value": "x"}', b"\xff"])
def test_a_factor_that_cannot_be_right_is_not_used(path: Path, stores: list[TokenStore], row: bytes) -> None:
    store, estimator = made(path, stores)
    store.factors.update("", "p/gpt-4o", lambda _: row)
    assert estimator.factor("gpt-4o", "p").value == 1.0


def test_the_store_in_memory_keeps_the_same_promises() -> None:
    store = MemoryStore(lambda: 0.0)
    first = HybridTokenEstimator(counts=store, learned=store)
    first.calibrate(TALK, 5000, "gpt-4o")
    second = HybridTokenEstimator(counts=store, learned=store)
    assert second.estimate_conversation(TALK, "gpt-4o").tokens == 5000
    assert second.factor("gpt-4o").turns == 1


def test_the_file_has_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    assert default_path() == tmp_path / "tokens.sqlite"


OPEN = """
import sys
from pathlib import Path
from penstock._store.tokens import TokenStore
sys.stdin.readline()
store = TokenStore(Path(sys.argv[1]))
store.put("t", {sys.argv[2]: b"1"})
print(len(store.moved), sorted(store.get("t", [sys.argv[2]])))
store.close()
"""


def test_processes_that_find_the_file_damaged_move_it_once(path: Path) -> None:
    """Each begins with the damaged file; whoever comes second must not move the new one away."""
    path.parent.mkdir()
    path.write_bytes(b"not a database at all " * 1000)
    workers = [start_python(OPEN, str(path), str(number)) for number in range(6)]
    try:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        said = [worker.communicate(timeout=60)[0].split(maxsplit=1) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [keys for _, keys in said] == [f"['{number}']\n" for number in range(6)]
    assert sum(int(moved) for moved, _ in said) == 1
    assert [found.name for found in path.parent.glob("*.broken-*")] == ["tokens.sqlite.broken-1"]
    store = TokenStore(path)
    assert len(store.get("t", [str(number) for number in range(6)])) == 6
    store.close()


# ── An estimator that works from memory: it gives the same counts, and never touches the stores of the o ──


MODEL, PROVIDER = "gpt-5", "openai"
MESSAGES = [{"role": "user", "content": "What is a penstock?"}]
ANSWER = {"role": "assistant", "content": "A pipe that carries water to a turbine."}


class LockedStore:
    """Stores that fail as soon as somebody uses them."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        raise AssertionError(f"read by {tenant!r}: {list(keys)}")

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        raise AssertionError(f"written by {tenant!r}: {list(rows)}")

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        raise AssertionError(f"changed by {tenant!r}: {key}")


def test_it_never_uses_the_stores() -> None:
    store = LockedStore()
    whole = HybridTokenEstimator(counts=store, learned=store)
    with pytest.raises(AssertionError):
        whole.estimate_conversation(MESSAGES, MODEL, PROVIDER)
    assert whole.in_memory().estimate_conversation(MESSAGES, MODEL, PROVIDER).tokens > 0


def test_it_shares_what_is_learned() -> None:
    whole = HybridTokenEstimator(counts=(store := TokenStore()), learned=store.factors)
    quick = whole.in_memory()
    assert not quick.has_counted(MODEL, PROVIDER)
    assert whole.estimate_conversation(MESSAGES, MODEL, PROVIDER) == quick.estimate_conversation(
        MESSAGES, MODEL, PROVIDER
    )
    assert quick.has_counted(MODEL, PROVIDER)
    whole.calibrate(MESSAGES, Usage(input=99, output=9), MODEL, PROVIDER)
    longer = [*MESSAGES, ANSWER, {"role": "user", "content": "Thanks"}]
    assert quick.estimate_conversation(MESSAGES, MODEL, PROVIDER).method == "actual"
    assert quick.estimate_conversation(longer, MODEL, PROVIDER) == whole.estimate_conversation(longer, MODEL, PROVIDER)
    assert quick.factor(MODEL, PROVIDER) == whole.factor(MODEL, PROVIDER)
    store.close()


# ── The factors that a thin client counts with: small, complete, and the same counts in another language ──


HERE = Path(__file__).parent
MODELS = ["gpt-4o", "claude-sonnet-4-5", "gemini-2.0-flash", "gemini-2.5-flash", "qwen3-8b", "never-seen-1"]


def counted(model: str, texts: list[str], messages: list[Message]) -> dict[str, list[int]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    factors = HybridTokenEstimator().factors(model).json()
    rows = [
        {
            "texts": [text for part in message.parts for text in _texts(part)],
            "json": [part.json for part in message.parts if isinstance(part, Call)],
            "calls": sum(isinstance(part, Call) for part in message.parts),
            "results": sum(isinstance(part, Result) for part in message.parts),
        }
        for message in messages
    ]
    given = msgspec.json.encode({"factors": msgspec.Raw(factors), "texts": texts, "messages": rows})
    done = subprocess.run([node, HERE / "reference.mjs"], input=given, capture_output=True, timeout=60, check=True)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def _texts(part: object) -> list[str]:
    if isinstance(part, Call):
        return [part.name]
    if isinstance(part, Result):
        return [one.text for one in part.content if isinstance(one, Text)]
    return [part.text] if isinstance(part, Text) else []


@each("model", MODELS)
def test_a_client_in_another_language_agrees_within_2_percent(model: str) -> None:
    texts = [*TEXTS, "", " ", "  x", "\r\n\r\n", "aA aAA ABC1 ___ é́ 中a文 \U0001f600!", PROSE * 20]
    messages = [
        Message("user", [Text(text=PROSE)]),
        Message("assistant", [Text(text="One moment."), Call(id="1", name="read_file", json=JSON)]),
        Message("tool", [Result(call="1", content=[Text(text=CODE)])]),
    ]
    found, estimator = counted(model, texts, messages), HybridTokenEstimator()
    ours = [estimator.estimate_text(text, model).tokens for text in texts]
    assert found["texts"] == pytest.approx(ours, rel=0.02, abs=1)
    ours = [estimator.estimate_message(message, model).tokens for message in messages]
    assert found["messages"] == pytest.approx(ours, rel=0.02, abs=1)


@each("model", MODELS)
def test_the_factors_are_small_and_come_back_whole(model: str) -> None:
    factors = HybridTokenEstimator().factors(model, "somebody")
    assert len(factors.json()) < 2_500
    assert msgspec.json.decode(factors.json(), type=Factors) == factors


def test_what_was_learned_is_in_them() -> None:
    estimator, message = HybridTokenEstimator(), Message("user", [Text(text=PROSE * 5)])
    plain = estimator.estimate_conversation([message], "gpt-4o").tokens
    for _ in range(5):
        estimator.calibrate([message], plain * 2, "gpt-4o", "other")
    assert estimator.factors("gpt-4o", "other").factor > 1.3
    assert estimator.factors("gpt-4o").factor == 1.0
