"""Who may ask the inspector for what: keys, tenants, Host and Origin; and that no answer ever holds a secret."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from penstock import events as ev
from penstock.gateway.config import AccessTable, JournalTable, Key, RecordTable
from penstock.gateway.keys import digest
from penstock.secrecy import MARK
from penstock.store.history import Spent
from penstock.testing import Reply
from tests.gateway.asking import ask, get, post
from tests.inspector.conftest import inspected
from tests.inspector.watching import Reader, ended, watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import Seen
    from tests.inspector.conftest import Inspected

OWNER, FIRST, SECOND, SAME = (f"pk-penstock-{word}0123456789" for word in ("owner", "first", "second", "same"))
KEYS = {
    "owner": Key(hash=digest(OWNER), inspect="all"),
    "first": Key(hash=digest(FIRST)),
    "second": Key(hash=digest(SECOND)),
    "same": Key(hash=digest(SAME), tenant="first"),
}
ROUTES = (
    "live", "turns", "turns/x", "turns/x/follow", "turns/x/export", "turns/x/frames/0", "turns/x/outputs/0",
    "recordings", "recordings/x", "recordings/x/export", "usage", "tokens",
)  # fmt: skip
POSTS = ("trace", "export")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def keyed() -> Iterator[Inspected]:
    with inspected(keys=KEYS) as running:
        yield running


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("G3")
@pytest.mark.parametrize("headers", [{}, bearer("pk-penstock-unknown000")], ids=["none", "unknown"])
def test_without_a_key_nothing_is_told(keyed: Inspected, headers: dict[str, str]) -> None:
    for route in ROUTES:
        reply = get(f"{keyed.url}/inspector/{route}", headers=headers)
        assert reply.status_code == 401, route
        assert "gateway key" in reply.json()["error"]["message"]
    for route in POSTS:
        assert post(f"{keyed.url}/inspector/{route}", content=b"x", headers=headers).status_code == 401
    about = get(f"{keyed.url}/inspector/about", headers=headers).json()
    assert (about["key"], about["models"], about["recording"]) == ("needed", [], {"on": False})


def test_with_a_key_it_is_told_what_there_is(keyed: Inspected) -> None:
    about = get(f"{keyed.url}/inspector/about", headers=bearer(FIRST)).json()
    assert (about["key"], about["sees"], about["live"]) == ("ok", "own", True)
    assert {"id": "openai-chat/text", "provider": "openai-chat"} in about["models"]
    assert "vscode" in about["consumers"]
    assert get(f"{keyed.url}/inspector/about", headers=bearer(OWNER)).json()["sees"] == "all"


@pytest.mark.row("G3")
def test_a_key_sees_the_turns_of_its_own_tenant(keyed: Inspected) -> None:
    with (
        watching(keyed.url, bearer(FIRST)) as first,
        watching(keyed.url, bearer(SECOND)) as second,
        watching(keyed.url, bearer(OWNER)) as owner,
    ):
        mine, theirs = (
            ask(keyed.url, "openai-chat", "openai-chat/text", headers=bearer(key)).headers["x-request-id"]
            for key in (SAME, SECOND)
        )
        first.until(lambda: mine in first.rows)
        second.until(lambda: theirs in second.rows)
        owner.until(lambda: {mine, theirs} <= set(owner.rows))
        ended(keyed, theirs)
        assert theirs not in first.rows
        assert mine not in second.rows
        for key, seen in ((FIRST, [200, 404]), (SECOND, [404, 200]), (OWNER, [200, 200])):
            for rest in ("", "/follow", "/export", "/frames/0", "/outputs/0"):
                found = [_status(f"{keyed.url}/inspector/turns/{name}{rest}", key) for name in (mine, theirs)]
                assert found == seen, (key, rest)
    # Held no longer, there is the journal: the same answer.
    keyed.call(_cleared(keyed))
    for key, seen in ((FIRST, [200, 404]), (SECOND, [404, 200]), (OWNER, [200, 200])):
        assert [_status(f"{keyed.url}/inspector/turns/{name}", key) for name in (mine, theirs)] == seen
        listed = {row["id"] for row in get(f"{keyed.url}/inspector/turns", headers=bearer(key)).json()["rows"]}
        assert [mine in listed, theirs in listed] == [status == 200 for status in seen]
        total = get(f"{keyed.url}/inspector/usage?by=key", headers=bearer(key)).json()
        assert {row["name"] for row in total["series"]} <= ({"same", "first"} if key == FIRST else {"second", "same"})


async def _cleared(gateway: Inspected) -> None:
    gateway.inspector.watch.clear()


def _status(url: str, key: str) -> int:
    return get(url, headers=bearer(key)).status_code


def test_recordings_are_for_those_who_see_all(keyed: Inspected) -> None:
    for route in ("recordings", "recordings/x", "recordings/x/export"):
        assert _status(f"{keyed.url}/inspector/{route}", FIRST) == 403
    assert get(f"{keyed.url}/inspector/recordings", headers=bearer(OWNER)).json() == {"recordings": []}
    assert _status(f"{keyed.url}/inspector/recordings/..%2Fsecret", OWNER) == 404


def test_the_key_of_the_one_who_started_it_sees_all() -> None:
    with inspected(env={"PENSTOCK_GATEWAY_KEY": OWNER}) as gateway:
        about = get(f"{gateway.url}/inspector/about", headers=bearer(OWNER)).json()
        assert (about["key"], about["sees"]) == ("ok", "all")


@pytest.mark.row("G3")
def test_without_keys_it_is_for_this_machine() -> None:
    with inspected(access=AccessTable(anonymous=True)) as gateway:
        assert get(f"{gateway.url}/inspector/about").json()["key"] == "none"
        assert get(f"{gateway.url}/inspector/turns").status_code == 200
        far = {"x-forwarded-for": "203.0.113.9"}  # somebody for whom a proxy speaks
        assert get(f"{gateway.url}/v1/models", headers=far).status_code == 200
        assert get(f"{gateway.url}/inspector/about", headers=far).json()["key"] == "needed"
        for route in ROUTES:
            assert get(f"{gateway.url}/inspector/{route}", headers=far).status_code == 403, route


# ── Host and Origin ───────────────────────────────────────────────────────────────────────────────

WRONG = [
    {"host": "evil.example"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},  # another page of this machine may use models, not look at turns
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.row("G3")
@pytest.mark.parametrize("headers", WRONG, ids=str)
def test_another_page_is_refused(gateway: Inspected, headers: dict[str, str]) -> None:
    for route in ("about", *ROUTES):
        reply = get(f"{gateway.url}/inspector/{route}", headers=headers)
        assert reply.status_code == 403, route
        assert "access-control-allow-origin" not in reply.headers
    for route in POSTS:
        assert post(f"{gateway.url}/inspector/{route}", content=b"x", headers=headers).status_code == 403


def test_its_own_page_and_one_that_is_named_are_not(gateway: Inspected) -> None:
    own = {"origin": gateway.url, "sec-fetch-site": "same-origin"}
    assert get(f"{gateway.url}/inspector/about", headers=own).status_code == 200
    with inspected(access=AccessTable(origins=("http://localhost:5173",))) as other:
        welcome = {"origin": "http://localhost:5173", "sec-fetch-site": "same-site"}
        assert get(f"{other.url}/inspector/about", headers=welcome).status_code == 200


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["nothing", "turns/x/nothing", "assets/nothing.js", "assets/../app.py", ""])
def test_other_addresses_are_not_there(gateway: Inspected, path: str) -> None:
    reply = get(f"{gateway.url}/inspector/{path}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not-found")


def test_another_method_is_not_taken(gateway: Inspected) -> None:
    assert post(f"{gateway.url}/inspector/turns").status_code == 405
    assert get(f"{gateway.url}/inspector/trace").status_code == 405


def test_the_gateway_goes_on_behind_it(gateway: Inspected) -> None:
    assert get(f"{gateway.url}/healthz").json() == {"status": "ok"}
    assert ask(gateway.url, "openai-chat", "openai-chat/text").status_code == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("usage?by=weather", "by: expected one of model, client, key"),
        ("usage?since=yesterday", "since: expected seconds"),
        ("turns?before=x", "before: expected a whole number"),
        ("turns/x?as=nobody", "there is no turn"),
        ("tokens?since=x", "since: expected seconds"),
    ],
)
def test_what_is_asked_wrongly_is_said(gateway: Inspected, path: str, said: str) -> None:
    reply = get(f"{gateway.url}/inspector/{path}")
    assert reply.status_code in {400, 404}
    assert said in reply.json()["error"]["message"]


# ── files ─────────────────────────────────────────────────────────────────────────────────────────

STREAM = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'


def test_a_file_is_traced(gateway: Inspected) -> None:
    url = f"{gateway.url}/inspector/trace"
    trace = post(f"{url}?as=anthropic&name=answer.sse", content=STREAM).json()
    assert (trace["protocol"], trace["consumer"], trace["title"]) == ("openai-chat", "anthropic", "answer.sse")
    assert (trace["timed"], trace["row"], trace["request"]) == (False, None, "")
    assert [event["body"]["kind"] for event in trace["events"] if event["type"] == "fault"] == ["truncated"]
    headed = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + STREAM
    assert post(url, content=headed).json()["events"] == post(url, content=STREAM).json()["events"]
    assert post(f"{url}?frame=0", content=STREAM).text.startswith('{"id":"1"')


@pytest.mark.parametrize(
    ("query", "body", "said"),
    [
        ("", b"", "there is nothing in it"),
        ("", b"Dear Sir or Madam", "protocol"),
        ("?protocol=nobody", STREAM, "nobody"),
        ("?as=nobody", STREAM, "as: nobody is called 'nobody'"),
        ("?as=bedrock", STREAM, "as: nobody is called 'bedrock'"),
        ("?frame=7", STREAM, "frame: there are 1"),
        ("", b'{"form":"penstock-recording","version":99}\n', "version 99"),
        ("", b'{"form":"penstock-recording"}\nnonsense\n', ":2: not a chunk"),
    ],
)
def test_a_file_that_is_none_is_said(gateway: Inspected, query: str, body: bytes, said: str) -> None:
    reply = post(f"{gateway.url}/inspector/trace{query}", content=body)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]


@pytest.mark.row("G3")
def test_more_than_there_is_room_for_is_refused(gateway: Inspected) -> None:
    for route in POSTS:
        reply = post(f"{gateway.url}/inspector/{route}", content=b"x" * (32 * 2**20 + 1))
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too-large")
        assert reply.json()["error"]["message"] == "the body is over 33554432 bytes"


def test_a_recording_has_its_times(gateway: Inspected, tmp_path: Path) -> None:
    from penstock.store.recordings import Header, write

    made = Header(protocol="openai-chat", model="m", provider="p", request={"a": 1}, cut=True)
    write(tmp_path / "one.tape", made, [(0.25, STREAM), (1.5, STREAM)])
    trace = post(f"{gateway.url}/inspector/trace", content=(tmp_path / "one.tape").read_bytes()).json()
    assert [frame["t"] for frame in trace["frames"]] == [0.25, 1.5]
    assert (trace["timed"], trace["request"]) == (True, '{"a":1}')
    assert "cut at its bound" in trace["lost"]


# ── history ───────────────────────────────────────────────────────────────────────────────────────


def test_the_history_has_pages_and_is_searched() -> None:
    with inspected() as gateway:
        names = [
            ask(gateway.url, client, model).headers["x-request-id"]
            for client in ("anthropic", "openai-chat")
            for model in ("openai-chat/text", "anthropic/text", "replay/tools")
        ][::-1]
        url = f"{gateway.url}/inspector/turns"
        first = get(f"{url}?limit=4").json()
        second = get(f"{url}?limit=4&before={first['before']}").json()
        assert [row["id"] for row in first["rows"] + second["rows"]] == names
        assert second["before"] is None
        assert [row["id"] for row in get(f"{url}?q=replay messages").json()["rows"]] == [names[3]]
        assert get(f"{url}?q=100%25").json()["rows"] == []


def test_figures_over_time() -> None:
    with inspected() as gateway:
        for model in ("openai-chat/text", "openai-chat/text", "anthropic/text", "openai-chat/nothing"):
            ask(gateway.url, "openai-chat", model)
        usage = get(f"{gateway.url}/inspector/usage?bucket=3600").json()
        assert usage["total"]["requests"] == 4
        assert len(usage["buckets"]) == len(usage["series"][0]["requests"]) == len(usage["series"][0]["p95"])
        assert {row["name"]: sum(row["requests"]) for row in usage["series"]}["openai-chat/text"] == 2
        assert usage["series"][0]["total"]["ttft"] > 0
        assert [row["name"] for row in get(f"{gateway.url}/inspector/usage?by=key").json()["series"]] == ["anonymous"]
        none = get(f"{gateway.url}/inspector/usage?since=0&until=1").json()
        assert (none["series"], none["total"]["requests"]) == ([], 0)


def test_without_a_journal_there_is_nothing_to_tell() -> None:
    with inspected(journal=JournalTable(path="off")) as gateway:
        assert get(f"{gateway.url}/inspector/about").json()["journal"] is False
        ask(gateway.url, "openai-chat", "replay/text")
        assert get(f"{gateway.url}/inspector/turns").json() == {"rows": [], "before": None}
        assert get(f"{gateway.url}/inspector/tokens").json() == {"models": []}
        assert get(f"{gateway.url}/inspector/usage").json()["series"] == []
        with watching(gateway.url) as reader:
            name = ask(gateway.url, "openai-chat", "replay/text").headers["x-request-id"]
            reader.until(lambda: reader.rows.get(name, {}).get("state") == "finish")
            assert get(f"{gateway.url}/inspector/turns/{name}").json()["events"]


def test_buckets_are_never_too_many() -> None:
    from penstock.inspector.figures import BUCKETS, OTHERS, SERIES, step_of, usage

    now = time.time()
    for span in (60.0, 3600.0, 86_400.0, 86_400.0 * 90, 86_400.0 * 3650):
        for wanted in (0.0, 0.001, 60.0):
            rows = [Spent(now - 1, f"m{n}", 1, False, 1, 1, 0.0, None, 1.0) for n in range(40)]
            made = usage(rows, "model", now - span, now, step_of(now - span, now, wanted))
            assert len(made.buckets) <= BUCKETS + 1
            assert len(made.series) <= SERIES
            assert sum(sum(row.requests) for row in made.series) == 40
            assert made.series[-1].name == OTHERS


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────

ACCOUNT, HALVES = "planted-account-secret", "planted-in-two-halves"
LOOKS, ESCAPED = "sk-planted0123456789abcdef", "sk-escaped0123456789abcdef"


def tells(seen: Seen) -> Reply:
    """Says every secret it can: the key it was sent, what looks like one, one behind an escape, one in two deltas."""
    key = seen.headers["authorization"]
    words = [f"you sent {key} ", f"also {LOOKS} ", f"\n{ESCAPED}\n", HALVES[:9], HALVES[9:], ' "quoted" ']
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.Usage(input=3, output=2), ev.Finish("stop"),
    ]  # fmt: skip
    return Reply.of("openai-chat", events)


@pytest.mark.row("G3")
def test_no_answer_holds_a_secret(tmp_path: Path) -> None:
    env = {"MY_API_KEY": HALVES, "HUE_SECRET": 'he said "no"\n'}
    keys = {"owner": Key(env="OWNER_KEY", inspect="all")}
    with inspected(
        tells, env={**env, "OWNER_KEY": OWNER}, keys=keys, record=RecordTable(path=str(tmp_path))
    ) as gateway, watching(gateway.url, bearer(OWNER)) as reader:  # fmt: skip
        headers = {**bearer(OWNER), "x-custom": LOOKS}
        ask(gateway.url, "openai-chat", "openai-chat/bad", headers={"x-api-key": OWNER, "user-agent": LOOKS})
        body = {
            "model": "openai-chat/text",
            "stream": True,
            "messages": [{"role": "user", "content": f'a {LOOKS} he said "no"\n'}],
        }
        name = post(f"{gateway.url}/v1/messages", json={**body, "max_tokens": 9}, headers=headers).headers[
            "x-request-id"
        ]
        ended(gateway, name)
        gateway.app.services.recorder.close()
        answers = _all_answers(gateway.url, name)
        with Reader(f"{gateway.url}/inspector/turns/{name}/follow", bearer(OWNER)) as follower:
            follower.until(lambda: follower.over)
        answers |= {"live": json.dumps(reader.events), "follow": json.dumps(follower.events)}
        for place, text in answers.items():
            for secret in (ACCOUNT, "sk-up-000000", LOOKS, ESCAPED, OWNER, HALVES, 'he said \\"no\\"'):
                assert secret not in text, f"{secret} is in {place}"
        assert MARK in answers["turn"]
        assert "you sent" in answers["turn"]


def _all_answers(base: str, name: str) -> dict[str, str]:
    """What every route says about a turn, and about the file that was made of it."""
    found: dict[str, str] = {}
    with httpx.Client(base_url=f"{base}/inspector/", headers=bearer(OWNER), timeout=20) as client:
        for place in ("about", "turns", "usage", "tokens", "recordings"):
            found[place] = client.get(place).text
        trace = client.get(f"turns/{name}").json()
        found["turn"] = json.dumps(trace, ensure_ascii=False)
        for consumer in trace["consumers"]:
            found[f"turn as {consumer}"] = client.get(f"turns/{name}?as={consumer}").text
        for kind in ("frames", "outputs"):
            for number in range(len(trace[kind])):
                found[f"{kind} {number}"] = client.get(f"turns/{name}/{kind}/{number}").text
        tapes = [row["name"] for row in json.loads(found["recordings"])["recordings"]]
        assert tapes
        for tape in tapes:
            found[f"tape {tape}"] = client.get(f"recordings/{tape}").text
        stream = b"".join(
            Reply.of("openai-chat", [ev.Start(), ev.TextStart(0), ev.TextDelta(0, f"{LOOKS} {HALVES}")]).chunks
        )
        found["file"] = client.post("trace", content=stream).text
        found["frame of a file"] = client.post("trace?frame=1", content=stream).text
    assert not [place for place, text in found.items() if re.match(r'\{"error"', text)]
    return found
