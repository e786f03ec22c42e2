"""No response of the inspector holds a secret: every route is requested and every response is searched."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx

from penstock import events as ev
from penstock._inspector.static_files import StaticFiles
from penstock._redaction import MARK
from penstock.testing import Reply
from tests.page.exported_page import exported_data
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest


OWNER = "pk-penstock-owner0123456789"
HALVES = "planted-in-two-halves"
LOOKS, ESCAPED = "sk-planted0123456789abcdef", "sk-escaped0123456789abcdef"
# Values that only the names before them tell. Words such as `horse` are not said anywhere else.
PASSWORD, ACCESS_KEY, LOGIN, PHRASE = (
    "hunter2-planted",
    "wJalrXUtn/K7MDENG+planted",
    "plainpw-planted",
    'horse "staple"',
)
NAMED = (PASSWORD, ACCESS_KEY, LOGIN, "wJalrXUtn", "hunter2", "plainpw", "staple")
EXPORTS = f"export AWS_SECRET_ACCESS_KEY={ACCESS_KEY}\npsql postgres://admin:{LOGIN}@db/x # shibboleth"
METADATA = {"metadata": {"password": PASSWORD}}
CALL = {"command": "login", "password": PASSWORD, "nested": json.dumps({"passphrase": PHRASE})}


def tells(seen: ReceivedRequest) -> Reply:
    """Says every secret it can: the key it was sent, what looks like one, one behind an escape, one in two deltas."""
    key = seen.headers["authorization"]
    words = [f"you sent {key} ", f"also {LOOKS} ", f"\n{ESCAPED}\n", HALVES[:9], HALVES[9:], ' "quoted" ']
    words += [f"{EXPORTS}\n", f'config = {{"api_key": "{PASSWORD}"}}']
    given = json.dumps(CALL)
    call: list[ev.AnyEvent] = [
        ev.CallStart(1, "call-1", "login"),
        ev.CallDelta(1, given),
        ev.CallEnd(1, "call-1", "login", given),
    ]
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0), *call,
        ev.Usage(input=3, output=2), ev.Finish("calls"),
    ]  # fmt: skip
    return Reply.of("openai-chat", events)


def test_no_answer_holds_a_secret(tmp_path: Path) -> None:
    env = {"MY_API_KEY": HALVES, "HUE_SECRET": 'he said "no"\n'}
    keys = {"owner": {"env": "OWNER_KEY", "inspect": "all"}}
    with inspected(
        tells, env={**env, "OWNER_KEY": OWNER}, keys=keys, record={"path": str(tmp_path)}
    ) as gateway, watching(gateway.url, bearer(OWNER)) as reader:  # fmt: skip
        headers = {**bearer(OWNER), "x-custom": LOOKS}
        ask(gateway.url, "openai-chat", "openai-chat/bad", headers={"x-api-key": OWNER, "user-agent": LOOKS})
        body = {
            "model": "openai-chat/text",
            "stream": True,
            "messages": [{"role": "user", "content": f'a {LOOKS} he said "no"\n{EXPORTS}\n'}, *_calling()],
            **METADATA,
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
            for secret in ("sk-up-000000", LOOKS, ESCAPED, OWNER, HALVES, "he said", *NAMED):
                assert secret not in text, f"{secret} is in {place}"
        for place in ("turn", f"turns/{name}/request", "copy as curl"):
            assert MARK in answers[place], place
        assert "you sent" in answers["turn"]
        _check_request(answers[f"turns/{name}/request"])
        for tape in tmp_path.iterdir():
            assert not [secret for secret in NAMED if secret in tape.read_text()]


def test_no_kept_turn_holds_a_secret(tmp_path: Path) -> None:
    """From the file: its answers, its index and the file itself. (In memory: the test above.)"""
    env = {"MY_API_KEY": HALVES, "HUE_SECRET": 'he said "no"\n', "OWNER_KEY": OWNER}
    options: dict[str, Any] = {
        "env": env,
        "keys": {"owner": {"env": "OWNER_KEY", "inspect": "all", "inspect_keep": True}},
        "inspector": {"keep": True},
        "data": tmp_path,
        "journal": {"path": str(tmp_path / "journal.sqlite")},
        "record": {"path": str(tmp_path / "record")},
    }
    said = [{"role": "user", "content": f'a {LOOKS} he said "no"\n and {HALVES}\n{EXPORTS}\n'}, *_calling()]
    body = {"model": "openai-chat/text", "stream": True, "messages": said, "max_tokens": 9, **METADATA}
    with inspected(tells, **options) as gateway:
        headers = {**bearer(OWNER), "x-custom": LOOKS}
        name = post(f"{gateway.url}/v1/messages", json=body, headers=headers).headers["x-request-id"]
        ended(gateway, name)
    with inspected(tells, **options) as again:
        assert name not in again.inspector.watch.captures
        answers = _all_answers(again.url, name)
        index = again.inspector.watch.text_index
        assert index.find_turns("you sent", None) == {name}
        assert index.find_turns("shibboleth", None) == {name}
        for secret in (LOOKS, ESCAPED, OWNER, HALVES, *NAMED):
            assert index.find_turns(secret, None) == set(), secret
    file = b"".join(path.read_bytes() for path in tmp_path.glob("turns.sqlite*")).decode("latin-1")
    _check_request(answers[f"turns/{name}/request"])
    for secret in ("sk-up-000000", LOOKS, ESCAPED, OWNER, HALVES, "he said", *NAMED):
        assert secret not in file, secret
        for place, text in answers.items():
            assert secret not in text, f"{secret} is in {place}"


def test_the_search_in_memory_finds_no_secret() -> None:
    """Without a file. Words of the request and of the answer are found."""
    body = {"model": "openai-chat/text", "stream": True, "max_tokens": 9}
    said = [{"role": "user", "content": f'watershed {LOOKS} he said "no"\n and {HALVES}\n{EXPORTS}\n'}, *_calling()]
    body |= METADATA
    env = {"MY_API_KEY": HALVES, "HUE_SECRET": 'he said "no"\n', "OWNER_KEY": OWNER}
    keys = {"owner": {"env": "OWNER_KEY", "inspect": "all", "inspect_keep": True}}
    with inspected(tells, env=env, keys=keys) as gateway:
        headers = {**bearer(OWNER), "x-custom": LOOKS}
        name = post(f"{gateway.url}/v1/messages", json={**body, "messages": said}, headers=headers).headers[
            "x-request-id"
        ]
        ended(gateway, name)
        keeping = httpx.get(f"{gateway.url}/inspector/keeping", headers=bearer(OWNER), timeout=20).json()
        assert not keeping["disk"]["on"]
        for word in ("watershed", "you sent", "shibboleth"):
            assert _found_by(gateway.url, word) == [name], word
        for secret in ("sk-up-000000", LOOKS, ESCAPED, OWNER, HALVES, "he said no", "he said", *NAMED):
            assert _found_by(gateway.url, secret) == [], secret


def test_a_key_that_was_passed_on_is_not_shown() -> None:
    """Nobody knows it by value but the turn that it came with."""
    theirs = "the-callers-very-own"
    with inspected(tells, access={"keys": "forward"}) as gateway, watching(gateway.url) as reader:
        name = ask(gateway.url, "anthropic", "openai-chat/text", headers={"x-api-key": theirs}).headers["x-request-id"]
        ended(gateway, name)
        assert theirs in str(gateway.up.requests[-1].headers)
        place = f"{gateway.url}/inspector/turns/{name}"
        with Reader(f"{place}/follow") as follower:
            follower.until(lambda: follower.over)
        trace = get(place)
        texts = [
            get(f"{place}/{kind}/{n}").text for kind in ("frames", "outputs") for n in range(len(trace.json()[kind]))
        ]
        for said in (trace.text, str(reader.events), str(follower.events), *texts):
            assert theirs not in said


def _calling() -> list[dict[str, Any]]:
    """A call of an earlier turn, in the form of Anthropic, and its result."""
    use = {"type": "tool_use", "id": "call-0", "name": "login", "input": CALL}
    result = {"type": "tool_result", "tool_use_id": "call-0", "content": f'{{"client_secret": "{PASSWORD}"}}'}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def _check_request(view: str) -> None:
    """The request without its secrets is valid JSON: it can be sent again."""
    found = json.loads(view)
    for text in (found["client"]["body"], *(one["attempt"]["body"] for one in found["attempts"])):
        assert isinstance(json.loads(text), dict)
    body = json.loads(found["client"]["body"])
    assert body["metadata"] == {"password": MARK}
    given = body["messages"][1]["content"][0]["input"]
    assert {**given, "nested": json.loads(given["nested"])} == {
        "command": "login", "password": MARK, "nested": {"passphrase": MARK},
    }  # fmt: skip


def _found_by(base: str, text: str) -> list[str]:
    """The turns that a search for a text finds."""
    query = {"q": json.dumps(text)}
    found = httpx.get(f"{base}/inspector/turns", params=query, headers=bearer(OWNER), timeout=20).json()
    assert "rows" in found, (text, found)
    return [row["id"] for row in found["rows"]]


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
        for form in ("curl", "penstock", "openai", "anthropic", "aisdk"):
            found[f"copy as {form}"] = client.get(f"turns/{name}/copy?as={form}").text
        found["headers"] = client.get(f"turns/{name}/headers").text
        asked = (f"turns/{name}/request", f"turns/{name}/breakdown", f"previews?ids={name}", f"sessions/{name}")
        for place in (*asked, f"sessions?turn={name}", "sessions", "complete?q=mod&at=3", "complete?q=client:&at=7"):
            found[place] = client.get(place).text
        if StaticFiles().built:
            html = client.get(f"turns/{name}/export?with=all").content
            found["export"], found["export's page"] = exported_data(html).decode(), html.decode()
            assert MARK in found["export"]
        found["keeping"] = client.get("keeping").text
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
