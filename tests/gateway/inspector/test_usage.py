"""Usage over time and the accuracy of token estimates, from the journal, and what can only be guessed."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply
from tests.support.event_feed import watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_calls import say, send, view
from tests.support.journal_history import write_turns
from tests.support.paused_upstream import TEXT
from tests.support.sample_turns import send as send_sample
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DRAWN = 8  # series, of which the last are all others


def tokens_of(path: Path, turns: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What is said of the estimates of turns, by `provider/model`. 1,000 tokens were counted in each, by default."""
    rows = []
    for name, given in turns.items():
        provider, model = name.split("/")
        for turn in given:
            estimate = turn["estimate"]
            rows.append({
                "provider": provider, "model": model, "input": 1000, "low": int(estimate * 0.9),
                "high": int(estimate * 1.1), "factor": 1.0, "method": "estimated", "request_id": "a", **turn,
            })  # fmt: skip
    write_turns(path, rows)
    with inspected(journal={"path": str(path)}) as gateway:
        return {row["model"]: row for row in view(gateway, "tokens")["models"]}


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────


def test_errors_have_a_sign(tmp_path: Path) -> None:
    cases: list[tuple[list[int], float, float, float]] = [
        ([820], -0.18, 0.18, 0.0), ([1000, 1050, 980], 0.0, 0.02, 1.0), ([1200, 1200, 1000, 100], 0.1, 0.2, 0.25),
        ([500, 2000], 0.25, 0.75, 0.0),
    ]  # fmt: skip
    turns = {f"p{n}/gpt-4o": [{"estimate": one} for one in estimates] for n, (estimates, *_) in enumerate(cases)}
    told = tokens_of(tmp_path / "journal.sqlite", turns)
    for number, (estimates, bias, median, coverage) in enumerate(cases):
        found = told[f"p{number}/gpt-4o"]
        assert [found[part] for part in ("bias", "median_error", "coverage")] == pytest.approx([bias, median, coverage])
        assert (found["samples"], found["family"], found["exact_text"]) == (len(estimates), "gpt", True)
        assert [point["estimate"] for point in found["points"]] == estimates
        assert {point["actual"] for point in found["points"]} == {1000}
    assert next(iter(told)) == "p2/gpt-4o", "models with more turns come first"


def test_only_turns_with_a_factor_have_taught_and_methods_and_guesses_are_counted(tmp_path: Path) -> None:
    told = tokens_of(tmp_path / "journal.sqlite", {
        "a/taught": [{"estimate": 900, "factor": factor} for factor in (1.02, None, 1.04)],
        "a/untaught": [{"estimate": 900, "factor": None}],
        "a/methods": [
            {"estimate": 1000, "method": "actual"}, {"estimate": 1100, "method": "hybrid", "uncertain": "image-urls"},
            {"estimate": 1300, "method": "hybrid", "uncertain": "audio image-urls"},
            {"estimate": 1000, "method": ""},  # of an older version
        ],
    })  # fmt: skip
    assert (told["a/taught"]["taught"], told["a/taught"]["factor"]) == (2, 1.04)
    assert [entry["factor"] for entry in told["a/taught"]["history"]] == [1.02, 1.04]
    assert told["a/untaught"]["factor"] == 1.0
    assert told["a/methods"]["methods"] == {"actual": 1, "hybrid": 2, "estimated": 0}
    uncertain = [(row["kind"], row["turns"], round(row["median_error"], 3)) for row in told["a/methods"]["uncertain"]]
    assert uncertain == [("audio", 1, 0.3), ("image-urls", 2, 0.2)]


def test_an_estimate_comes_beside_what_was_counted_now_and_then() -> None:
    """Of the first of several turns."""
    with inspected(Reply.of("openai-chat", TEXT)) as gateway, watching(gateway.url) as reader:
        names = [say(gateway) for _ in range(3)]
        row = reader.until(lambda: next((row for row in reader.latest.values() if row["estimate"]), None))
        assert row["id"] == names[0]
        assert row["low"] <= row["estimate"] <= row["high"]
        assert row["input"] == 11
        (model,) = view(gateway, "tokens")["models"]
        assert (model["model"], model["samples"]) == ("openai-chat/text", 1)
        assert [point["actual"] for point in model["points"]] == [11]
        assert model["factor"] == model["history"][-1]["factor"] != 1.0


def test_a_journal_of_an_older_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    write_turns(path, [{"provider": "openai", "model": "gpt-4o", "input": 1000, "estimate": 900, "low": 1, "high": 2}])
    with closing(sqlite3.connect(path)) as database, database:
        for column in ("method", "uncertain"):
            database.execute(f"ALTER TABLE turns DROP COLUMN {column}")
        database.execute("DROP TABLE schema_version")
    with inspected(journal={"path": str(path)}) as gateway:
        (found,) = view(gateway, "tokens")["models"]
    assert (found["samples"], found["points"][0]["method"], found["uncertain"]) == (1, "", [])


def test_a_tenant_sees_its_own_estimates(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    turn = {"provider": "openai", "model": "gpt-4o", "input": 1000, "estimate": 900, "low": 800, "high": 1000}
    write_turns(path, [{**turn, "tenant": "x"}])
    keys = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "x", "y")}
    rows = {name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own"} for name, key in keys.items()}
    with inspected(journal={"path": str(path)}, keys=rows) as gateway:
        found = {name: view(gateway, "tokens", key) for name, key in keys.items()}
    assert [row["model"] for row in found["owner"]["models"]] == ["openai/gpt-4o"]
    assert found["x"] == found["owner"]
    assert found["y"] == {"models": [], "seen": {"sampling": True, "turns": 0, "counted": 0}}


def test_why_there_is_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    write_turns(path, [{"provider": "openai", "model": "gpt-4o", "input": 1000}, {"status": "fault"}])
    with inspected(journal={"path": str(path)}, features={"estimates": False}) as gateway:
        assert view(gateway, "tokens") == {"models": [], "seen": {"sampling": False, "turns": 2, "counted": 1}}


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
FAR = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
FILE = {"type": "file", "file": {"file_id": "file-1"}}
GUESSED: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Open?"}, PICTURE]}]}, {}),
    ("chat/completions", {"messages": [{"role": "user", "content": [FAR, FAR]}]}, {"image-urls": 2}),
    ("chat/completions", {"messages": [{"role": "user", "content": [FILE]}]}, {"file-urls": 1}),
    ("chat/completions", {"messages": [{"role": "user", "content": [SOUND]}]}, {"audio": 1}),
    (
        "messages",
        {"max_tokens": 9, "messages": [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"},
                                              {"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
                {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}]}]}]},
        {"image-urls": 1, "hidden-reasoning": 1},
    ),
    ("messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Go"}],
                  "tools": [{"type": "web_search_20250305", "name": "web_search"},
                            {"name": "mine", "input_schema": {"type": "object"}}]}, {"provider-tools": 1}),
]  # fmt: skip


def test_what_can_only_be_guessed_is_found(gateway: Inspected) -> None:
    for path, body, kinds in GUESSED:
        name = send(gateway, f"/v1/{path}", json.dumps({"model": "anthropic/text", **body}).encode())
        counted = view(gateway, f"turns/{name}/breakdown")
        assert (counted["lost"], counted["uncertain"]) == ("", kinds), kinds
        assert sum(line["share"] for line in counted["lines"]) == pytest.approx(1.0)


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────


def test_figures_over_time() -> None:
    with inspected() as gateway:
        for model in ("openai-chat/text", "openai-chat/text", "anthropic/text", "openai-chat/nothing"):
            say(gateway, model=model)
        usage = view(gateway, "usage?bucket=3600")
        assert usage["total"]["requests"] == 4
        assert len(usage["buckets"]) == len(usage["series"][0]["requests"]) == len(usage["series"][0]["ttft"])
        assert {row["name"]: sum(row["requests"]) for row in usage["series"]}["openai-chat/text"] == 2
        assert usage["series"][0]["total"]["ttft"] > 0
        assert [row["name"] for row in view(gateway, "usage?by=key")["series"]] == ["anonymous"]
        none = view(gateway, "usage?since=0&until=1")
        assert (none["series"], none["total"]["requests"]) == ([], 0)


def test_series_and_buckets_are_never_too_many(tmp_path: Path) -> None:
    """All others are one series, once; requests without a model have a plain name."""
    path, now = tmp_path / "journal.sqlite", time.time()
    named = [{"provider": "p", "model": f"m{n}", "input": n + 1, "time": now - 2} for n in range(40)]
    write_turns(path, [*named, {"status": "refused", "http": 400, "time": now - 2}])
    usage: Any = None
    with inspected(journal={"path": str(path)}) as gateway:
        for span in (60.0, 3600.0, 86_400.0, 86_400.0 * 90, 86_400.0 * 3650):
            for bucket in (0.0, 0.001, 60.0):
                usage = view(gateway, "usage", since=now - span, until=now, bucket=bucket)
                assert len(usage["buckets"]) <= 501
                series = [one["name"] for one in usage["series"]]
                assert (len(series), series[-1], series.count("others")) == (DRAWN, "others", 1)
                assert sum(sum(one["requests"]) for one in usage["series"]) == usage["total"]["requests"] == 41
        names = [one["name"] for one in usage["names"]]
        assert ("no model named" in names, "others" in names, len(names)) == (True, False, 41)
        most = [one["name"] for one in usage["series"]][:-1]
        assert most == [f"p/m{n}" for n in range(39, 32, -1)], "those with the most tokens"


def test_usage_counts_refused_turns_and_unknown_costs() -> None:
    """Each figure leads to its requests."""
    with inspected(wired) as running:
        for model in (
            "openai-chat/text",
            "openai-chat/text",
            "anthropic/overloaded",
            "anthropic/limited",
            "anthropic/broken",
        ):
            send_sample(running, model)
        usage = view(running, "usage")
        total = usage["total"]
        assert (total["refused"], total["faults"], total["errors"], total["cost"]) == (2, 1, 3, None)
        assert total["unpriced"] > 0
        names = {one["name"]: one for one in usage["names"]}
        assert "/" not in names
        assert names["anthropic/limited"]["total"]["refused"] == 1
        for one in usage["names"]:
            query = f"{one['query']} {usage['period']}"
            assert view(running, "turns", q=query, limit=1_000)["requests"] == one["total"]["requests"], query
            assert view(running, "turns", q=f"{query} state:broken")["requests"] == one["total"]["errors"], query


def test_figures_are_sums_medians_and_percentiles(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    turns = [
        {"model": "m", "input": 10, "output": 1, "cost": 0.5, "ttft": float(n), "duration": n + 0.5}
        for n in range(1, 101)
    ]
    write_turns(path, [*turns, {"model": "m", "input": 1, "times": 3}, {"model": "m", "status": "cancelled"}])
    with inspected(journal={"path": str(path)}) as gateway:
        (one,) = view(gateway, "usage")["names"]
        total = one["total"]
    assert (total["requests"], total["input"], total["output"]) == (104, 1_001, 100)
    assert (total["cost"], total["unpriced"], total["cancelled"]) == (50.0, 3, 1)
    assert (total["ttft"], total["p95"]) == (50.5, pytest.approx(95.5, abs=0.6))
