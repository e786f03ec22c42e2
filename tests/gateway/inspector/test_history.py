"""What the journal tells the page: pages of history, a search, figures over time; and nothing where there is none."""

from __future__ import annotations

import time

import pytest

from penstock._inspector import turn_list
from penstock._store.journal import JournalStore
from penstock._store.journal_queries import UsagePoint
from tests.support.client_requests import ask, get
from tests.support.event_feed import watching
from tests.support.inspector import inspected


def test_the_history_has_pages_and_is_searched() -> None:
    with inspected() as gateway:
        names = [
            ask(gateway.url, client, model).headers["x-request-id"]
            for client in ("anthropic", "openai-chat")
            for model in ("openai-chat/text", "anthropic/text", "replay/tools")
        ][::-1]
        url = f"{gateway.url}/inspector/turns"
        first = get(f"{url}?limit=4").json()
        ask(gateway.url, "openai-chat", "replay/text")  # one that comes meanwhile changes no page
        second = get(f"{url}?limit=4&offset=4&upto={first['upto']}").json()
        assert [row["id"] for row in first["rows"] + second["rows"]] == names
        assert (first["total"], first["requests"], first["states"]["finish"]) == (6, 6, 6)
        assert [row["id"] for row in get(f"{url}?q=replay messages").json()["rows"]] == [names[3]]
        assert get(f"{url}?q=100%25").json()["rows"] == []


@pytest.mark.parametrize("newest", [1, 20_000])  # rows that a search looks at first
@pytest.mark.parametrize("most", [2, 3, 1_000])  # rows that are read to count them
def test_a_first_page_counts_all(monkeypatch: pytest.MonkeyPatch, newest: int, most: int) -> None:
    """However its rows are looked for, a page has as many as it should, and its counts are those of all rows."""
    monkeypatch.setattr(JournalStore, "newest_rows", newest)
    monkeypatch.setattr(turn_list, "MAX_ROWS", most)
    with inspected() as gateway:
        for model in ("openai-chat/text", "anthropic/text", "openai-chat-unknown", "openai-chat/text", "replay/tools"):
            ask(gateway.url, "openai-chat", model)
        for query, total, ended in (("model:openai-chat", 3, 2), ("model:anthropic", 1, 1), ("none", 0, 0)):
            for limit in (1, 2):
                page = get(f"{gateway.url}/inspector/turns?q={query}&limit={limit}").json()
                assert len(page["rows"]) == min(limit, total), query
                assert (page["total"], page["requests"], page["states"]["finish"]) == (total, total, ended), query
            page = get(f"{gateway.url}/inspector/turns?q={query}&limit=2&state=finish").json()
            assert (len(page["rows"]), page["total"], sum(page["states"].values())) == (ended, ended, total), query


def test_figures_over_time() -> None:
    with inspected() as gateway:
        for model in ("openai-chat/text", "openai-chat/text", "anthropic/text", "openai-chat/nothing"):
            ask(gateway.url, "openai-chat", model)
        usage = get(f"{gateway.url}/inspector/usage?bucket=3600").json()
        assert usage["total"]["requests"] == 4
        assert len(usage["buckets"]) == len(usage["series"][0]["requests"]) == len(usage["series"][0]["ttft"])
        assert {row["name"]: sum(row["requests"]) for row in usage["series"]}["openai-chat/text"] == 2
        assert usage["series"][0]["total"]["ttft"] > 0
        assert [row["name"] for row in get(f"{gateway.url}/inspector/usage?by=key").json()["series"]] == ["anonymous"]
        none = get(f"{gateway.url}/inspector/usage?since=0&until=1").json()
        assert (none["series"], none["total"]["requests"]) == ([], 0)


def test_without_a_journal_there_is_nothing_to_tell() -> None:
    with inspected(journal={"path": "off"}) as gateway:
        assert get(f"{gateway.url}/inspector/about").json()["journal"] is False
        ask(gateway.url, "openai-chat", "replay/text")
        assert get(f"{gateway.url}/inspector/turns").json()["rows"] == []
        assert get(f"{gateway.url}/inspector/tokens").json()["models"] == []
        assert get(f"{gateway.url}/inspector/usage").json()["series"] == []
        with watching(gateway.url) as reader:
            name = ask(gateway.url, "openai-chat", "replay/text").headers["x-request-id"]
            reader.until(lambda: reader.rows.get(name, {}).get("state") == "finish")
            assert get(f"{gateway.url}/inspector/turns/{name}").json()["events"]


def test_buckets_are_never_too_many() -> None:
    from penstock._inspector.usage_series import MAX_BUCKETS, MAX_SERIES, OTHERS, bucket_seconds, build_usage

    now = time.time()
    for span in (60.0, 3600.0, 86_400.0, 86_400.0 * 90, 86_400.0 * 3650):
        for wanted in (0.0, 0.001, 60.0):
            rows = [UsagePoint(now - 1, f"m{n}", 1, "finish", 1, 1, 0.0, None, 1.0) for n in range(40)]
            made = build_usage(rows, "model", now - span, now, bucket_seconds(now - span, now, wanted))
            assert len(made.buckets) <= MAX_BUCKETS + 1
            assert len(made.series) <= MAX_SERIES
            assert sum(sum(row.requests) for row in made.series) == 40
            assert made.series[-1].name == OTHERS
