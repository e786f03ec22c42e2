"""Who may ask the inspector for what: keys, tenants, the session token, Host and Origin; wrong addresses, numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.testing import wire
from tests.support import process
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_calls import CLIENT, ask_inspector, delete, say, send, until, view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER, FIRST, SECOND, SAME = (f"pk-penstock-{word}0123456789" for word in ("owner", "first", "second", "same"))
KEYS = {
    "owner": {"hash": hash_key(OWNER), "inspect": "all"},
    "first": {"hash": hash_key(FIRST), "inspect_keep": True},
    "second": {"hash": hash_key(SECOND), "inspect_keep": True},
    "same": {"hash": hash_key(SAME), "tenant": "first", "inspect_keep": True},
}
ROUTES = (
    "live", "turns", "turns/x", "turns/x/follow", "turns/x/export", "turns/x/breakdown", "turns/x/frames/0",
    "turns/x/outputs/0", "turns/x/request", "turns/x/copy", "turns/x/headers", "previews", "complete", "keeping",
    "recordings", "recordings/x", "recordings/x/export", "recordings/x/breakdown", "usage", "tokens", "sessions",
    "sessions/x",
)  # fmt: skip
POSTS = ("trace", "export", "breakdown")
TOKEN = "x-penstock-session-token"
FILE = "inspector-session"


@pytest.fixture(scope="module")
def keyed() -> Iterator[Inspected]:
    with inspected(keys=KEYS) as running:
        yield running


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["", "pk-penstock-unknown000"], ids=["none", "unknown"])
def test_without_a_key_nothing_is_told(keyed: Inspected, key: str) -> None:
    for route in ROUTES:
        reply = ask_inspector(keyed, route, key)
        assert reply.status_code == 401, route
        assert "gateway key" in reply.json()["error"]["message"]
    for route in (*POSTS, "convert", "keeping"):
        headers = bearer(key) if key else None
        assert post(f"{keyed.url}/inspector/{route}", content=b"x", headers=headers).status_code == 401
    assert [delete(keyed, place, key).status_code for place in ("turns", "turns/x")] == [401, 401]
    about = view(keyed, "about", key)
    assert (about["key"], about["models"], about["recording"]) == ("needed", [], {"on": False})


def test_with_a_key_it_is_told_what_there_is(keyed: Inspected) -> None:
    about = view(keyed, "about", FIRST)
    assert (about["key"], about["sees"], about["live"]) == ("ok", "own", True)
    assert {"id": "openai-chat/text", "provider": "openai-chat"} in about["models"]
    assert "vscode" in about["consumers"]
    assert view(keyed, "about", OWNER)["sees"] == "all"
    with inspected(env={"PENSTOCK_GATEWAY_KEY": OWNER}) as gateway:  # the key of the one who started it
        about = view(gateway, "about", OWNER)
        assert (about["key"], about["sees"]) == ("ok", "all")


def test_a_key_sees_the_turns_of_its_own_tenant(keyed: Inspected) -> None:
    with (
        watching(keyed.url, bearer(FIRST)) as first,
        watching(keyed.url, bearer(SECOND)) as second,
        watching(keyed.url, bearer(OWNER)) as owner,
    ):
        mine, theirs = (say(keyed, key=key) for key in (SAME, SECOND))
        first.until(lambda: mine in first.rows)
        second.until(lambda: theirs in second.rows)
        owner.until(lambda: {mine, theirs} <= set(owner.rows))
        assert (theirs in first.rows, mine in second.rows) == (False, False)
    sees = {FIRST: [200, 404], SECOND: [404, 200], OWNER: [200, 200]}
    for key, wanted in sees.items():
        for rest in (
            "",
            "/follow",
            "/export",
            "/breakdown",
            "/frames/0",
            "/outputs/0",
            "/request",
            "/copy",
            "/headers",
        ):
            found = [ask_inspector(keyed, f"turns/{name}{rest}", key).status_code for name in (mine, theirs)]
            assert found == wanted, (key, rest)
    # Held no longer, there is the journal: the same answer.
    assert delete(keyed, key=OWNER).status_code == 200
    for key, wanted in sees.items():
        assert [ask_inspector(keyed, f"turns/{name}", key).status_code for name in (mine, theirs)] == wanted
        listed = {row["id"] for row in view(keyed, "turns", key)["rows"]}
        assert [mine in listed, theirs in listed] == [status == 200 for status in wanted]
        names = {row["name"] for row in view(keyed, "usage", key, by="key")["series"]}
        assert names <= ({"same", "first"} if key == FIRST else {"second", "same"})


def test_recordings_are_for_those_who_see_all(keyed: Inspected) -> None:
    for route in ("recordings", "recordings/x", "recordings/x/export", "recordings/x/breakdown"):
        assert ask_inspector(keyed, route, FIRST).status_code == 403
    assert view(keyed, "recordings", OWNER) == {"recordings": []}
    assert ask_inspector(keyed, "recordings/..%2Fsecret", OWNER).status_code == 404


def test_without_keys_it_is_for_this_machine() -> None:
    with inspected(access={"anonymous": True}) as gateway:
        assert view(gateway, "about")["key"] == "none"
        view(gateway, "turns")
        far = {"x-forwarded-for": "203.0.113.9"}  # somebody for whom a proxy speaks
        assert get(f"{gateway.url}/v1/models", headers=far).status_code == 200
        assert get(f"{gateway.url}/inspector/about", headers=far).json()["key"] == "needed"
        refused = {route: get(f"{gateway.url}/inspector/{route}", headers=far).status_code for route in ROUTES}
        assert set(refused.values()) == {403}


# ── the session token of a gateway without keys ───────────────────────────────────────────────────


def test_nothing_about_turns_is_shown_without_the_token(tmp_path: Path) -> None:
    with inspected(without_session=True, data=tmp_path) as closed:
        name = say(closed)  # models need no token
        token = (tmp_path / FILE).read_text().strip()
        assert len(token) >= 32
        turn = f"turns/{name}"
        for path in (turn, f"{turn}/follow", f"{turn}/export", f"{turn}/frames/0", *ROUTES):
            for sent in ({}, {TOKEN: ""}, {TOKEN: token[:-1]}, {TOKEN: f"{token}x"}, bearer(token), {TOKEN: "é"}):
                headers = [(header.encode(), value.encode()) for header, value in sent.items()]
                refused = CLIENT.get(f"{closed.url}/inspector/{path}", headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "session_needed"), (path, sent)
        assert CLIENT.delete(f"{closed.url}/inspector/turns").status_code == 401
        about = view(closed, "about")
        assert (about["key"], about["models"]) == ("session", [])
        own = {TOKEN: token}
        assert CLIENT.get(f"{closed.url}/inspector/{turn}", headers=own).json()["frames"]
        assert CLIENT.get(f"{closed.url}/inspector/about", headers=own).json()["key"] == "none"
        upload = CLIENT.post(f"{closed.url}/inspector/trace", content=wire("text", "openai-chat"))
        assert upload.status_code == 200, "a file needs no token"


def test_a_key_is_enough() -> None:
    with inspected(without_session=True, keys=KEYS) as gateway:
        view(gateway, "turns", OWNER)
        assert view(gateway, "about")["key"] == "needed"


def test_the_token_is_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    """`penstock serve` prints the link with it. A restart keeps it, unless others have seen it."""
    path, elsewhere = tmp_path / "data" / FILE, tmp_path / "elsewhere"
    elsewhere.write_text("x" * 40)

    def start(name: str) -> str:
        """Of a gateway whose folder has this name too: what a process knows of a folder, it does not read again."""
        folder = tmp_path / name
        if name != "data":
            folder.symlink_to(tmp_path / "data")
        with inspected(without_session=True, data=folder) as gateway:
            token = path.read_text().strip()
            reply = CLIENT.get(f"{gateway.url}/inspector/turns", headers={TOKEN: token})
            return token if reply.status_code == 200 else ""

    first = start("data")
    assert (len(first) >= 32, path.stat().st_mode & 0o777) == (True, 0o600)
    with process.gateway(tmp_path) as server:
        until(lambda: f"{server.base}/#session={first}" in server.said)
    path.chmod(0o644)
    second = start("seen")
    assert second not in {first, ""}, "others have seen it"
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.symlink_to(elsewhere)
    assert start("linked") != "x" * 40


# ── Host and Origin ───────────────────────────────────────────────────────────────────────────────

WRONG = [
    {"host": "evil.example"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},  # another page of this machine may use models, not look at turns
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    {"sec-fetch-site": "same-site"},
]


def test_another_page_is_refused(gateway: Inspected) -> None:
    for headers in WRONG:
        for route in ("about", *ROUTES):
            reply = CLIENT.get(f"{gateway.url}/inspector/{route}", headers=headers)
            assert reply.status_code == 403, (headers, route)
            assert "access-control-allow-origin" not in reply.headers
        for route in (*POSTS, "keeping", "convert"):
            assert CLIENT.post(f"{gateway.url}/inspector/{route}", content=b"x", headers=headers).status_code == 403
        assert CLIENT.delete(f"{gateway.url}/inspector/turns", headers=headers).status_code == 403
    own = {"origin": gateway.url, "sec-fetch-site": "same-origin"}
    assert CLIENT.get(f"{gateway.url}/inspector/about", headers=own).status_code == 200
    with inspected(access={"origins": ("http://localhost:5173",)}) as other:
        welcome = {"origin": "http://localhost:5173", "sec-fetch-site": "same-site"}
        assert get(f"{other.url}/inspector/about", headers=welcome).status_code == 200


# ── addresses and parameters ──────────────────────────────────────────────────────────────────────


def test_other_addresses_and_methods_are_not_taken(gateway: Inspected) -> None:
    for path in ("nothing", "turns/x/nothing", "assets/nothing.js", "assets/../app.py", ""):
        reply = ask_inspector(gateway, path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not-found"), path
    assert CLIENT.post(f"{gateway.url}/inspector/turns").status_code == 405
    assert ask_inspector(gateway, "trace").status_code == 405
    assert get(f"{gateway.url}/healthz").json() == {"status": "ok"}, "the gateway goes on behind it"


def test_what_is_asked_wrongly_is_said(gateway: Inspected) -> None:
    for path, said in (
        ("usage?by=weather", "by: expected one of model, client, key"),
        ("usage?since=yesterday", "since: expected a number from 0"),
        ("turns?offset=x", "offset: expected a whole number"), ("turns/x?as=nobody", "there is no turn"),
        ("tokens?since=x", "since: expected a number from 0"),
    ):  # fmt: skip
        reply = ask_inspector(gateway, path)
        assert reply.status_code in {400, 404}
        assert said in reply.json()["error"]["message"], path


ODD = (
    "nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1", "-0", "1e308", "9" * 400, "9" * 5000, "1_000", "0x10", " 1",
    "", "٣", "\uff11", "½", "\x00", "-", ".", "1.5", "e5", "é", "\ud7ff", "true", "null", "%",
)  # fmt: skip
NUMBERS = {
    "inspector/usage": ("since", "until", "bucket"), "inspector/tokens": ("since",),
    "inspector/turns": ("upto", "offset", "limit"), "inspector/live": ("after",), "inspector/complete": ("at",),
    "inspector/turns/{turn}": ("frame", "output"), "v1/responses/{response}": ("starting_after",),
    "v1/responses/{response}/input_items": ("limit",),
}  # fmt: skip
NAMES = sorted({name for names in NUMBERS.values() for name in names} | {
    "q", "as", "by", "name", "protocol", "stream", "after", "order", "key", "alt", "pageSize", "pageToken", "x",
})  # fmt: skip
OTHERS = (
    "healthz", "readyz", "metrics", "", "v1/models", "v1/models/openai-chat/text", "v1beta/models", "api/tags",
    "api/version", "v1/responses/none", "v1/responses/none/input_items",
)  # fmt: skip
LATEST = 253_402_300_798  # the last second but one of the year 9999


@pytest.fixture(scope="module")
def ids(gateway: Inspected) -> dict[str, str]:
    stored = CLIENT.post(f"{gateway.url}/v1/responses", json={"model": "openai-chat/text", "input": "hello"})
    return {"turn": say(gateway), "response": stored.json()["id"]}


def status_of(gateway: Inspected, path: str) -> tuple[int, str]:
    """The status, and the text of a refusal; streams are not read."""
    with httpx.stream("GET", f"{gateway.url}/{path}", timeout=20, trust_env=False) if "live" in path else CLIENT.stream(
        "GET", f"{gateway.url}/{path}"
    ) as reply:  # fmt: skip
        return reply.status_code, reply.read().decode() if reply.status_code >= 400 or "live" not in path else ""


def test_odd_numbers_are_refused_by_name(gateway: Inspected, ids: dict[str, str]) -> None:
    """Finite and in range, or a 400 that names the parameter."""
    for path, name in ((path, name) for path, names in NUMBERS.items() for name in names):
        for value in ODD:
            status, said = status_of(gateway, f"{path.format(**ids)}?{name}={quote(value)}")
            assert status in {200, 400}, (path, value, said)
            assert status == 200 or name in said, (path, value, said)
            refused = value in {"nan", "inf", "9" * 5000, "٣"}
            assert not refused or status == 400, (path, value)
        assert status_of(gateway, f"{path.format(**ids)}?{name}=-5")[0] == 400, path


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_query_is_an_internal_error(gateway: Inspected, ids: dict[str, str], data: st.DataObject) -> None:
    known = [f"inspector/{route.replace('x', ids['turn'], 1)}" for route in ROUTES if not route.startswith("exp")]
    path = data.draw(st.sampled_from([*known, *(path.format(**ids) for path in NUMBERS), *OTHERS]))
    values = st.sampled_from(ODD) | st.text(max_size=20) | st.floats().map(str) | st.integers().map(str)
    query = data.draw(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=4))
    status, said = status_of(gateway, f"{path}?{urlencode(query, errors='replace')}")
    assert status < 500, said


def test_the_latest_times_have_a_date_or_are_refused(gateway: Inspected) -> None:
    """A calendar ends with the year 9999; a period of usage is at least a second long."""
    for name in ("since", "until", "bucket"):
        for value in (LATEST - 0.5, LATEST):
            assert status_of(gateway, f"inspector/usage?{name}={value}")[0] == 200, value
        for value in (LATEST + 0.5, LATEST + 1, LATEST + 2, LATEST + 3):
            status, said = status_of(gateway, f"inspector/usage?{name}={value}")
            assert (status, f"{name}: expected a number from 0 to {LATEST}" in said) == (400, True), (value, said)
    period = view(gateway, f"usage?since={LATEST}&until={LATEST}")["period"]
    assert period == "since:9999-12-31T23:59:58Z until:9999-12-31T23:59:59Z"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.text("0123456789+-.eE_ naif٣", max_size=30) | st.floats().map(repr) | st.integers().map(str))
def test_a_number_is_what_python_reads_and_in_range(gateway: Inspected, said: str) -> None:
    reply = ask_inspector(gateway, "usage", since=said, until=str(LATEST), bucket="86400000000")
    if reply.status_code == 200:
        assert said == "" or 0 <= float(said) <= LATEST
        assert said == "" or reply.json()["since"] == pytest.approx(float(said), abs=1)
    else:
        message = reply.json()["error"]["message"]
        assert (reply.status_code, message.startswith("since: expected a number from 0 to ")) == (400, True)


# ── requests that are converted ───────────────────────────────────────────────────────────────────


def test_a_converted_request_names_its_losses_and_refuses_what_it_cannot_read(gateway: Inspected) -> None:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "seed": 7}
    url = f"{gateway.url}/inspector/convert"
    query = {"from": "openai-chat", "to": "anthropic", "model": "anthropic/text", "stream": "1"}
    made = CLIENT.post(url, params=query, json=body).json()
    assert (made["protocol"], made["path"]) == ("anthropic", "/v1/messages")
    sent = made["body"]
    assert (sent["model"], sent["messages"][0]["role"]) == ("anthropic/text", "user")
    assert any("seed" in str(note) for note in made["notes"])
    for wrong, content in (({**query, "from": "nobody"}, b"{}"), ({**query, "to": "nobody"}, b"{}"), (query, b"{")):
        assert CLIENT.post(url, params=wrong, content=content).status_code == 400
    name = send(gateway, made["path"], json.dumps(sent).encode(), **made["headers"])
    assert view(gateway, f"turns/{name}")["row"]["state"] == "finish"
