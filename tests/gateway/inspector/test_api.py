"""Who may ask the inspector for what: keys, tenants, Host and Origin; and what is said of files that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.client_requests import ask, get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

OWNER, FIRST, SECOND, SAME = (f"pk-penstock-{word}0123456789" for word in ("owner", "first", "second", "same"))
KEYS = {
    "owner": {"hash": hash_key(OWNER), "inspect": "all"},
    "first": {"hash": hash_key(FIRST)},
    "second": {"hash": hash_key(SECOND)},
    "same": {"hash": hash_key(SAME), "tenant": "first"},
}
ROUTES = (
    "live", "turns", "turns/x", "turns/x/follow", "turns/x/export", "turns/x/breakdown", "turns/x/frames/0",
    "turns/x/outputs/0", "recordings", "recordings/x", "recordings/x/export", "recordings/x/breakdown", "usage", "tokens",
    "sessions", "sessions/x",
)  # fmt: skip
POSTS = ("trace", "export", "breakdown")


@pytest.fixture(scope="module")
def keyed() -> Iterator[Inspected]:
    with inspected(keys=KEYS) as running:
        yield running


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


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
            for rest in ("", "/follow", "/export", "/breakdown", "/frames/0", "/outputs/0"):
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
    for route in ("recordings", "recordings/x", "recordings/x/export", "recordings/x/breakdown"):
        assert _status(f"{keyed.url}/inspector/{route}", FIRST) == 403
    assert get(f"{keyed.url}/inspector/recordings", headers=bearer(OWNER)).json() == {"recordings": []}
    assert _status(f"{keyed.url}/inspector/recordings/..%2Fsecret", OWNER) == 404


def test_the_key_of_the_one_who_started_it_sees_all() -> None:
    with inspected(env={"PENSTOCK_GATEWAY_KEY": OWNER}) as gateway:
        about = get(f"{gateway.url}/inspector/about", headers=bearer(OWNER)).json()
        assert (about["key"], about["sees"]) == ("ok", "all")


def test_without_keys_it_is_for_this_machine() -> None:
    with inspected(access={"anonymous": True}) as gateway:
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
    with inspected(access={"origins": ("http://localhost:5173",)}) as other:
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
        ("usage?since=yesterday", "since: expected a number from 0"),
        ("turns?offset=x", "offset: expected a whole number"),
        ("turns/x?as=nobody", "there is no turn"),
        ("tokens?since=x", "since: expected a number from 0"),
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


def test_more_than_there_is_room_for_is_refused(gateway: Inspected) -> None:
    for route in POSTS:
        reply = post(f"{gateway.url}/inspector/{route}", content=b"x" * (32 * 2**20 + 1))
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too-large")
        assert reply.json()["error"]["message"] == "the body is over 33554432 bytes"


def test_a_recording_has_its_times(gateway: Inspected, tmp_path: Path) -> None:
    from penstock.testing import RecordingHeader, write_recording

    made = RecordingHeader(protocol="openai-chat", model="m", provider="p", request={"a": 1}, cut=True)
    write_recording(tmp_path / "one.tape", made, [(0.25, STREAM), (1.5, STREAM)])
    trace = post(f"{gateway.url}/inspector/trace", content=(tmp_path / "one.tape").read_bytes()).json()
    assert [frame["t"] for frame in trace["frames"]] == [0.25, 1.5]
    assert (trace["timed"], trace["request"]) == (True, '{"a":1}')
    assert "cut at its bound" in trace["lost"]
