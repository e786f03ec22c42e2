"""The routes of the list: searches over the whole history, counts, completion, previews, and whose turns are searched."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.testing import Reply
from tests.support.client_requests import ask, get
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.journal_history import seed
from tests.support.paused_upstream import waiting
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

ANNA, BEN, BOSS = "pk-anna-000000000000", "pk-ben-0000000000000", "pk-boss-000000000000"


def found(running: Inspected, q: str = "", headers: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Returns the answer to a search."""
    url = f"{running.url}/inspector/turns"
    reply = httpx.get(url, params={"q": q, **more}, headers=headers, timeout=30, trust_env=False)
    body: dict[str, Any] = reply.json()
    return body


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        send(running, "openai-chat/needle", "openai-chat")
        for _ in range(3):
            send(running, "openai-chat/text", "openai-chat", stream=False)
        send(running, "anthropic/overloaded")
        send(running, "anthropic/limited")
        send(running, "anthropic/broken")
        send(running, "openai-chat/tools", "anthropic", text="What does the manual say about pumps?")
        send(running, "openai-chat/length", "anthropic")
        send(running, "openai-chat/refusal", "anthropic")
        yield running


@pytest.mark.parametrize(
    ("q", "models"),
    [
        ("needle", ["needle"]),
        ("state:refused", ["limited", "overloaded"]),
        ("state:fault", ["broken"]),
        ("state:broken", ["broken", "limited", "overloaded"]),
        ("state:warning", ["refusal", "length"]),
        ("state:length", ["length"]),
        ("state:failed", ["overloaded"]),
        ("fault:rate-limit", ["limited"]),
        ("provider:anthropic", ["broken", "limited", "overloaded"]),
        ("http:429", ["limited"]),
        ("http>=500", ["overloaded"]),
        ("client:claude -provider:anthropic", ["refusal", "length", "tools"]),
        ("has:tools", ["length", "tools", "broken"]),
        ('"say about pumps"', ["tools"]),
        ('pumps "about say"', []),
        ("since:1h model:needle", ["needle"]),
        ("until:1h", []),
    ],
)
def test_history_is_searched_in_the_pages_language(stage: Inspected, q: str, models: list[str]) -> None:
    body = found(stage, q)
    assert [(row["model"] or row["asked"]).rpartition("/")[2] for row in body["rows"]] == models
    assert body["total"] == len(models) == sum(body["states"].values())


def test_a_turn_before_many_others_is_found_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    seed(path, 1_200)
    with inspected(journal={"path": str(path)}) as running:
        name = ask(running.url, "openai-chat", "openai-chat/needle").headers["x-request-id"]
        for _ in range(230):
            ask(running.url, "openai-chat", "replay/text")
        body = found(running, "needle")
        assert [row["id"] for row in body["rows"]] == [name]
        everything = found(running)
        assert everything["total"] == 1_431
        pages = [found(running, offset=at, upto=everything["upto"], limit=500)["rows"] for at in (0, 500, 1_000)]
        times = [row["time"] for page in pages for row in page]
        assert len(times) == 1_431
        assert times == sorted(times, reverse=True)
        by_cost = [row["cost"] for row in found(running, sort="cost", limit=1_000)["rows"]]
        known = [cost for cost in by_cost if cost is not None]
        assert known == sorted(known, reverse=True)
        assert by_cost[: len(known)] == known  # what is unknown is last


def test_states_narrow_the_list_but_not_the_counts(stage: Inspected) -> None:
    whole, broken = found(stage), found(stage, state="fault,refused")
    assert broken["states"] == whole["states"]
    assert broken["total"] == len(broken["rows"]) == 3
    assert {row["state"] for row in broken["rows"]} == {"fault", "refused"}


def test_an_error_of_a_query_says_where_it_is(stage: Inspected) -> None:
    for route in ("turns", "live"):
        reply = httpx.get(f"{stage.url}/inspector/{route}", params={"q": "a stat:fault"}, trust_env=False)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert (error["code"], error["position"], error["length"]) == ("query", 2, 4)
        assert "did you mean state?" in error["message"]
    reply = httpx.get(f"{stage.url}/inspector/turns", params={"sort": "names"}, trust_env=False)
    assert (reply.status_code, "sort: expected one of time" in reply.text) == (400, True)


# ── states and rates ──────────────────────────────────────────────────────────────────────────────


def test_turns_that_did_not_end_well_say_so(stage: Inspected) -> None:
    rows = {row["asked"].rpartition("/")[2]: row for row in found(stage)["rows"]}
    assert rows["length"]["warning"] == "length"
    assert rows["refusal"]["warning"] == "refusal"
    assert rows["text"]["warning"] == ""


def test_malformed_frames_make_a_warning_and_a_note() -> None:
    sse = {"content-type": "text/event-stream"}
    chunk = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}\n\n'
    frames = (
        chunk % (b"a", b"null"),
        b'data: {"id":"c","choi\xff\xfe<<<\n\n',
        chunk % (b"b", b'"stop"'),
        b"data: [DONE]\n\n",
    )
    with inspected(Reply(frames, headers=sse)) as running:
        for client in ("openai-chat", "anthropic"):
            send(running, "openai-chat/text", client)
        body = found(running, "state:warning has:notes")
        assert [(row["finish"], row["warning"], row["malformed"]) for row in body["rows"]] == [
            ("stop", "malformed", 1), ("stop", "malformed", 1),
        ]  # fmt: skip
        assert body["states"]["finish"] == 0


def test_a_burst_has_no_rate(stage: Inspected) -> None:
    row = found(stage, "needle")["rows"][0]
    assert row["stream"]
    assert row["output"] > 10
    assert row["rate"] is None


def test_an_unknown_client_has_the_name_in_its_user_agent() -> None:
    with inspected() as running:
        body = {"model": "replay/text", "messages": [{"role": "user", "content": "hi"}]}
        url = f"{running.url}/v1/chat/completions"
        httpx.post(
            url, json=body, headers={"user-agent": "my-script/3 (sk-ant-api03-" + "x" * 90 + ")"}, trust_env=False
        )
        (row,) = found(running, "client:my-script")["rows"]
        assert row["client"] == "my-script"
        assert row["agent"].startswith("my-script/3 (")
        assert "sk-ant-api03-xxx" not in json.dumps(row)


# ── live ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_live_feed_takes_a_query(stage: Inspected) -> None:
    with (
        Reader(f"{stage.url}/inspector/live?q=model:gemini%20-state:running") as reader,
        watching(stage.url) as everything,
    ):
        assert reader.rows == {}
        send(stage, "openai-chat/text", "openai-chat")
        send(stage, "gemini/text", "openai-chat")
        reader.until(lambda: reader.rows)
        assert [row["provider"] for row in reader.rows.values()] == ["gemini"]
        assert len({row["provider"] for row in everything.rows.values()}) > 1


def test_running_turns_tell_their_progress_and_leave_a_search_that_they_match_no_longer() -> None:
    with waiting() as (gateway, gate), Reader(f"{gateway.url}/inspector/live?q=state:streaming") as reader:
        from tests.support.paused_upstream import going

        with going(gateway, gate, reader) as row:
            reader.until(lambda: reader.named("progress"))
            told = reader.named("progress")[-1]
            size, last = told["turns"][row["id"]]
            assert size > 100
            assert row["time"] <= last <= told["now"] <= time.time() + 1
        reader.until(lambda: any(row["id"] in data.get("gone", ()) for data in reader.named("turns")))


def test_what_came_since_a_page_is_in_the_first_event(stage: Inspected) -> None:
    upto = found(stage)["upto"]
    send(stage, "cohere/text", "openai-chat")
    with Reader(f"{stage.url}/inspector/live?after={upto}") as reader:
        assert [row["provider"] for row in reader.rows.values()] == ["cohere"]


# ── completion and previews ───────────────────────────────────────────────────────────────────────


def completed(running: Inspected, q: str, at: int | None = None, key: str = "") -> dict[str, Any]:
    params: dict[str, str | int] = {"q": q} if at is None else {"q": q, "at": at}
    headers = bearer(key) if key else None
    reply = httpx.get(f"{running.url}/inspector/complete", params=params, headers=headers, trust_env=False)
    body: dict[str, Any] = reply.json()
    return body


def test_fields_and_values_are_completed(stage: Inspected) -> None:
    fields = completed(stage, "ok mod")
    assert (fields["start"], fields["end"], fields["options"][0]["text"]) == (3, 6, "model:")
    assert "cost>" in [option["text"] for option in completed(stage, "")["options"]]
    models = completed(stage, "model:need")
    assert (models["start"], [option["text"] for option in models["options"]]) == (6, ["needle", "openai-chat/needle"])
    assert models["error"] is None
    states = completed(stage, "state:fault,refu")
    assert (states["start"], [option["text"] for option in states["options"]]) == (12, ["refused", "refusal"])
    quoted = completed(stage, 'state:"a b","faul')
    assert (quoted["start"], [option["text"] for option in quoted["options"]]) == (12, ["fault"])
    tools = completed(stage, "tool:")
    assert tools["options"]
    assert tools["error"]["message"] == "tool needs a value, for example tool:bash"
    assert completed(stage, '"words in quotes')["options"] == []
    assert [option["text"] for option in completed(stage, "-has:note x", 9)["options"]] == ["notes"]


@pytest.mark.parametrize("state", ["length", "odd", "fault model:x"])
def test_the_list_is_only_narrowed_to_states_that_are_counted(stage: Inspected, state: str) -> None:
    answer = httpx.get(f"{stage.url}/inspector/turns", params={"state": state})
    assert (answer.status_code, "expected" in answer.text) == (400, True)


def test_kept_turns_have_previews(stage: Inspected) -> None:
    (row,) = found(stage, "pumps")["rows"]
    previews = get(f"{stage.url}/inspector/previews?ids={row['id']},none").json()
    assert previews.keys() == {row["id"]}
    assert previews[row["id"]]["prompt"] == "What does the manual say about pumps?"
    assert previews[row["id"]]["answer"] != ""


# ── whose turns ───────────────────────────────────────────────────────────────────────────────────


def test_another_keys_turns_are_not_shown_searched_completed_or_counted() -> None:
    keys = {
        "anna": {"hash": hash_key(ANNA), "inspect_keep": True},
        "ben": {"hash": hash_key(BEN), "inspect_keep": True},
        "boss": {"hash": hash_key(BOSS), "inspect": "all"},
    }
    with inspected(keys=keys) as running:
        for key, model, text in ((ANNA, "text", "secret pumps"), (ANNA, "tools", "valves"), (BEN, "length", "pumps")):
            body = {"model": f"openai-chat/{model}", "stream": True, "messages": [{"role": "user", "content": text}]}
            url = f"{running.url}/v1/chat/completions"
            httpx.post(url, json=body, headers=bearer(key), timeout=30, trust_env=False).raise_for_status()
        counts = {}
        for key in (ANNA, BEN, BOSS):
            rows = found(running, headers=bearer(key))
            counts[key] = (rows["total"], len(rows["rows"]), sum(rows["states"].values()))
        assert counts == {ANNA: (2, 2, 2), BEN: (1, 1, 1), BOSS: (3, 3, 3)}
        assert [row["key"] for row in found(running, "pumps", bearer(BEN))["rows"]] == ["ben"]
        assert found(running, '"secret pumps"', bearer(BEN))["total"] == 0
        assert found(running, "pumps", bearer(BOSS))["total"] == 2
        assert found(running, "key:anna", bearer(BEN))["total"] == 0
        assert found(running, "-key:nobody", bearer(BEN))["total"] == 1
        options = {key: completed(running, "model:", key=key)["options"] for key in (ANNA, BEN, BOSS)}
        texts = {key: {option["text"] for option in found_options} for key, found_options in options.items()}
        assert "text" in texts[ANNA]
        assert "text" not in texts[BEN]
        assert texts[ANNA] | texts[BEN] == texts[BOSS]
        assert [one["text"] for one in completed(running, "key:", key=BEN)["options"]] == ["ben"]
        (hidden,) = found(running, '"secret pumps"', bearer(ANNA))["rows"]
        for key, seen in ((BEN, {}), (BOSS, {hidden["id"]}), (ANNA, {hidden["id"]})):
            reply = httpx.get(
                f"{running.url}/inspector/previews?ids={hidden['id']}", headers=bearer(key), trust_env=False
            )
            assert reply.json().keys() == set(seen)
        usage = {
            key: httpx.get(f"{running.url}/inspector/usage?by=key", headers=bearer(key), trust_env=False).json()
            for key in (BEN, BOSS)
        }
        assert [one["name"] for one in usage[BEN]["names"]] == ["ben"]
        assert usage[BEN]["total"]["requests"] == 1
        assert usage[BOSS]["total"]["requests"] == 3
        with Reader(f"{running.url}/inspector/live?q=pumps", bearer(BEN)) as reader:
            assert [row["key"] for row in reader.rows.values()] == ["ben"]


def test_a_key_does_not_learn_how_many_turns_others_made() -> None:
    """The bound of a page is the row number of the key's last turn, encrypted. Pages still fit together."""
    keys = {name: {"hash": hash_key(key), "inspect_keep": True} for name, key in (("anna", ANNA), ("ben", BEN))}
    with inspected(keys={**keys, "boss": {"hash": hash_key(BOSS), "inspect": "all"}}) as running:

        def send_as(key: str) -> None:
            ended(
                running,
                ask(running.url, "openai-chat", "openai-chat/text", headers=bearer(key)).headers["x-request-id"],
            )

        def page(key: str, **more: int) -> dict[str, Any]:
            reply = httpx.get(f"{running.url}/inspector/turns", params=more, headers=bearer(key), trust_env=False)
            body: dict[str, Any] = reply.raise_for_status().json()
            return body

        for _ in range(3):
            send_as(ANNA)
        first = page(ANNA)
        assert page(BOSS)["upto"] == 3
        assert first["upto"] > 1_000
        send_as(BEN)
        assert page(ANNA)["upto"] == first["upto"]
        send_as(ANNA)
        assert abs(page(ANNA)["upto"] - first["upto"]) > 1_000
        again = page(ANNA, upto=first["upto"])
        assert [row["id"] for row in again["rows"]] == [row["id"] for row in first["rows"]]
        assert page(ANNA)["total"] == 4
        with Reader(f"{running.url}/inspector/live?after={first['upto']}", bearer(ANNA)) as reader:
            assert len(reader.rows) == 1


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────


def test_usage_counts_refused_turns_and_unknown_costs(stage: Inspected) -> None:
    usage = get(f"{stage.url}/inspector/usage").json()
    total = usage["total"]
    assert (total["refused"], total["faults"], total["errors"]) == (2, 1, 3)
    assert total["cost"] is None
    assert total["unpriced"] > 0
    names = {one["name"]: one for one in usage["names"]}
    assert "/" not in names
    assert names["anthropic/limited"]["total"]["refused"] == 1
    for one in usage["names"]:
        listed = found(stage, f"{one['query']} {usage['period']}", limit=1_000)
        assert listed["requests"] == one["total"]["requests"], one["query"]
        broken = found(stage, f"{one['query']} state:broken {usage['period']}")
        assert broken["requests"] == one["total"]["errors"]


def test_series_are_grouped_once_and_have_plain_names(tmp_path: Path) -> None:
    from penstock._inspector.usage_series import MAX_SERIES, OTHERS

    with inspected(journal={"path": str(tmp_path / "journal.sqlite")}) as running:
        for number in range(12):
            ask(running.url, "openai-chat", f"openai-chat/model-{number}")
        get(f"{running.url}/v1/chat/completions")
        httpx.post(f"{running.url}/v1/chat/completions", json={"messages": 3}, trust_env=False)
        usage = get(f"{running.url}/inspector/usage").json()
        series = [one["name"] for one in usage["series"]]
        assert (len(series), series[-1], series.count(OTHERS)) == (MAX_SERIES, OTHERS, 1)
        assert sum(one["total"]["requests"] for one in usage["series"]) == usage["total"]["requests"]
        names = [one["name"] for one in usage["names"]]
        assert "no model named" in names
        assert OTHERS not in names
