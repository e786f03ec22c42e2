"""What `GET /inspector/tokens` says of estimates: errors, methods, what was guessed, and why there is nothing."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.token_estimates import find_uncertain_parts
from penstock._inspector.usage_series import build_accuracy
from penstock._store.journal import JournalEntry, JournalStore
from penstock._store.journal_queries import JournalEstimate, JournalHistory
from penstock.request import File, Message, Reasoning, Request, Result, Text, Tool
from tests.support.client_requests import get
from tests.support.event_feed import bearer
from tests.support.gateway import hash_key
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._inspector.usage_series import ModelAccuracy

MODEL = "openai/gpt-4o"


def point(estimate: int, *, actual: int = 1000, **more: Any) -> JournalEstimate:
    fields: dict[str, Any] = {
        "time": 1.0,
        "model": MODEL,
        "factor": 1.0,
        "method": "estimated",
        "uncertain": "",
        "id": "a",
        **more,
    }
    return JournalEstimate(
        estimate=estimate, actual=actual, low=int(estimate * 0.9), high=int(estimate * 1.1), **fields
    )


def accuracy(*points: JournalEstimate) -> ModelAccuracy:
    (found,) = build_accuracy(points)
    return found


@pytest.mark.parametrize(
    ("estimates", "bias", "median_error", "coverage"),
    [
        ([820], -0.18, 0.18, 0.0),
        ([1000, 1050, 980], 0.0, 0.02, 1.0),
        ([1200, 1200, 1000, 100], 0.1, 0.2, 0.25),
        ([500, 2000], 0.25, 0.75, 0.0),
    ],
)
def test_errors_have_a_sign(estimates: list[int], bias: float, median_error: float, coverage: float) -> None:
    found = accuracy(*map(point, estimates))
    assert found.bias == pytest.approx(bias)
    assert found.median_error == pytest.approx(median_error)
    assert found.coverage == pytest.approx(coverage)
    assert (found.samples, found.family, found.exact_text) == (len(estimates), "gpt", True)


def test_only_turns_with_a_factor_have_taught() -> None:
    found = accuracy(point(900, factor=1.02), point(900, factor=None), point(950, factor=1.04))
    assert (found.taught, found.factor) == (2, 1.04)
    assert accuracy(point(900, factor=None)).factor == 1.0


def test_methods_and_guesses_are_counted() -> None:
    found = accuracy(
        point(1000, method="actual"),
        point(1100, method="hybrid", uncertain="image-urls"),
        point(1300, method="hybrid", uncertain="audio image-urls"),
        point(1000, method=""),  # of an older version
    )
    assert found.methods == {"actual": 1, "hybrid": 2, "estimated": 0}
    assert [(row.kind, row.turns, round(row.median_error, 3)) for row in found.uncertain] == [
        ("audio", 1, 0.3),
        ("image-urls", 2, 0.2),
    ]


def test_models_with_more_turns_come_first() -> None:
    found = build_accuracy([point(1, model="a/b"), point(1, model="c/d"), point(1, model="c/d")])
    assert [row.model for row in found] == ["c/d", "a/b"]
    assert build_accuracy([]) == []


# ── what can only be guessed ──────────────────────────────────────────────────────────────────────

PICTURE, SOUND = File(media="image/png", data="iVBORw0KGgo="), File(media="audio/wav", data="UklGRg==")
GUESSED: dict[str, tuple[Request, dict[str, int]]] = {
    "nothing": (Request(messages=[Message("user", [Text(text="Open?"), PICTURE])]), {}),
    "urls": (
        Request(messages=[Message("user", [File(media="image/png", url="https://a.example/b.png")] * 2)]),
        {"image-urls": 2},
    ),
    "ids": (Request(messages=[Message("user", [File(media="application/pdf", id="file-1")])]), {"file-urls": 1}),
    "in a result": (
        Request(messages=[Message("tool", [Result(call="1", content=[File(media="image/png", id="x"), SOUND])])]),
        {"audio": 1, "image-urls": 1},
    ),
    "video": (Request(messages=[Message("user", [File(media="video/mp4", data="AAAA")])]), {"video": 1}),
    "reasoning": (
        Request(messages=[Message("assistant", [Reasoning(extra={"responses": {}}), Reasoning(text="Hm.")])]),
        {"hidden-reasoning": 1},
    ),
    "tools": (Request(tools=[Tool("web_search", kind="provider"), Tool("mine")]), {"provider-tools": 1}),
}


@pytest.mark.parametrize("case", GUESSED)
def test_what_can_only_be_guessed_is_found(case: str) -> None:
    request, kinds = GUESSED[case]
    assert find_uncertain_parts(request) == kinds


# ── the journal ───────────────────────────────────────────────────────────────────────────────────

ROW = JournalEntry(time=time.time() - 60, provider="openai", model="gpt-4o", input=1000, request_id="one", tenant="x")
ESTIMATED = {"estimate": 900, "low": 800, "high": 1000, "factor": 1.1, "method": "hybrid", "uncertain": "audio"}


def test_an_estimate_is_added_to_the_row_of_its_turn(tmp_path: Path) -> None:
    from msgspec.structs import replace

    rows = JournalStore(tmp_path / "journal.sqlite", time.time)
    rows.add(ROW)
    rows.add(replace(ROW, request_id="other"))
    rows.flush()
    history = JournalHistory(rows)
    history.add_estimate(replace(ROW, **ESTIMATED))
    rows.flush()
    (found,) = history.estimates(0)
    assert {name: getattr(found, name) for name in ESTIMATED} == ESTIMATED
    assert (found.id, found.model, found.actual) == ("one", MODEL, 1000)
    assert history.estimates(0, tenant="y") == []
    rows.close()


def test_a_journal_of_an_older_version_is_read(tmp_path: Path) -> None:
    from msgspec.structs import replace

    path = tmp_path / "journal.sqlite"
    rows = JournalStore(path, time.time)
    rows.add(replace(ROW, **ESTIMATED))
    rows.close()
    database = sqlite3.connect(path)
    for column in ("method", "uncertain"):
        database.execute(f"ALTER TABLE turns DROP COLUMN {column}")
    database.execute("DROP TABLE schema_version")
    database.commit()
    database.close()
    rows = JournalStore(path, time.time)
    (found,) = JournalHistory(rows).estimates(0)
    assert (found.estimate, found.method, found.uncertain) == (900, "", "")
    rows.close()


# ── the route ─────────────────────────────────────────────────────────────────────────────────────

KEYS = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "x", "y")}


def test_a_tenant_sees_its_own_estimates(tmp_path: Path) -> None:
    from msgspec.structs import replace

    path = tmp_path / "journal.sqlite"
    rows = JournalStore(path, time.time)
    rows.add(replace(ROW, **ESTIMATED))
    rows.close()
    keys = {name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own"} for name, key in KEYS.items()}
    with inspected(journal={"path": str(path)}, keys=keys) as gateway:
        found = {name: get(f"{gateway.url}/inspector/tokens", headers=bearer(key)).json() for name, key in KEYS.items()}
    assert [row["model"] for row in found["owner"]["models"]] == [MODEL]
    assert found["x"] == found["owner"]
    assert found["y"] == {"models": [], "seen": {"sampling": True, "turns": 0, "counted": 0}}


def test_why_there_is_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    rows = JournalStore(path, time.time)
    rows.add(ROW)
    rows.add(JournalEntry(time=time.time() - 60, status="fault"))
    rows.close()
    features = {"estimates": False}
    with inspected(journal={"path": str(path)}, features=features) as gateway:
        found = get(f"{gateway.url}/inspector/tokens").json()
    assert found == {"models": [], "seen": {"sampling": False, "turns": 2, "counted": 1}}
