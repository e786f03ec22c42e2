"""No answer, no file and no search of the inspector holds a secret; what is around it stays readable.

Secrets are known by value (keys, variables), by their form, or by the name before them. Half of a secret has no known
form, so it must be gone before a text is cut.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.framing import PARSERS
from penstock.testing import RecordingHeader, Reply, read_recording, write_recording
from tests.page.exported_page import exported_data, exported_traces
from tests.support.client_requests import post
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import FORMS, file_text, found, phrase, say, send, trace_of, view
from tests.support.kept_on_disk import on_disk, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.testing import ReceivedRequest

MARK = "[secret]"
UPSTREAM_KEY, OWNER, HALVES = "sk-up-000000", "pk-penstock-owner0123456789", "planted-in-two-halves"
LOOKS, ESCAPED = "sk-planted0123456789abcdef", "sk-escaped0123456789abcdef"
# Values that only the names before them tell. Words such as `horse` are not said anywhere else.
PASSWORD, ACCESS_KEY, LOGIN, PHRASE = (
    "hunter2-planted", "wJalrXUtn/K7MDENG+planted", "plainpw-planted", 'horse "staple"',
)  # fmt: skip
NAMED = (PASSWORD, ACCESS_KEY, LOGIN, "wJalrXUtn", "hunter2", "plainpw", "staple")
ALL = (UPSTREAM_KEY, LOOKS, ESCAPED, OWNER, HALVES, "he said", *NAMED)
EXPORTS = f"export AWS_SECRET_ACCESS_KEY={ACCESS_KEY}\npsql postgres://admin:{LOGIN}@db/x # shibboleth"
METADATA = {"metadata": {"password": PASSWORD}}
CALL = {"command": "login", "password": PASSWORD, "nested": json.dumps({"passphrase": PHRASE})}


def tells(seen: ReceivedRequest) -> Reply:
    """Says every secret it can: the key it was sent, what looks like one, one behind an escape, one in two deltas.

    For Bedrock in chunks that are no messages.
    """
    protocol = "bedrock" if seen.path.startswith("/bedrock") else "openai-chat"
    words = [f"you sent {seen.headers.get('authorization', '')} ", f"also {LOOKS} ", f"\n{ESCAPED}\n", HALVES[:9]]
    words += [HALVES[9:], ' "quoted" ', f"{EXPORTS}\n", f'config = {{"api_key": "{PASSWORD}"}}', "last words"]
    given = json.dumps(CALL)
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.CallStart(1, "call-1", "login"), ev.CallDelta(1, given), ev.CallEnd(1, "call-1", "login", given),
        ev.Usage(input=3, output=2), ev.Finish("calls"),
    ]  # fmt: skip
    reply = Reply.of(protocol, events)
    data = b"".join(reply.chunks)
    size = 90 if protocol == "bedrock" else len(data)
    return Reply(tuple(data[at : at + size] for at in range(0, len(data), size)), headers=reply.headers)


@pytest.mark.parametrize("provider", ["openai-chat", "bedrock"])
def test_no_answer_file_or_search_holds_a_secret(tmp_path: Path, provider: str) -> None:
    """From memory, from a recording, live, and from disk after a restart."""
    data, tapes = tmp_path / "data", tmp_path / "record"
    options = on_disk(
        data, env={"MY_API_KEY": HALVES, "HUE_SECRET": 'he said "no"\n', "OWNER_KEY": OWNER},
        keys={"owner": {"env": "OWNER_KEY", "inspect": "all", "inspect_keep": True}}, record={"path": str(tapes)},
    )  # fmt: skip
    said = [{"role": "user", "content": f'a {LOOKS} he said "no"\n and {HALVES}\n{EXPORTS}\n'}, *_calling()]
    body = {"model": f"{provider}/text", "stream": True, "messages": said, "max_tokens": 9, **METADATA}
    with inspected(tells, **options) as gateway, watching(gateway.url, bearer(OWNER)) as reader:
        refused = {"model": f"{provider}/bad", "max_tokens": 9, "messages": []}
        send(gateway, "/v1/messages", json.dumps(refused).encode(), **{"x-api-key": OWNER, "user-agent": LOOKS})
        headers = {**bearer(OWNER), "x-custom": LOOKS}
        reply = post(f"{gateway.url}/v1/messages", json=body, headers=headers)
        assert LOOKS in reply.text
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        recorded(gateway)
        answers = _all_answers(gateway.url, name)
        with Reader(f"{gateway.url}/inspector/turns/{name}/follow", bearer(OWNER)) as follower:
            follower.until(lambda: follower.over)
        answers |= {"live": json.dumps(reader.events), "follow": json.dumps(follower.events)}
        _expect_searches(gateway, name)
    with inspected(tells, **options) as again:
        answers |= {f"{place} from disk": text for place, text in _all_answers(again.url, name).items()}
        _expect_searches(again, name)
    for place, text in answers.items():
        assert [secret for secret in ALL if secret in text] == [], place
    kinds = {place: answers[place] for place in ("turn", f"turns/{name}/request", "copy as curl", "export")}
    assert [place for place, text in kinds.items() if MARK not in text] == []
    for trace in (answers["turn"], answers["turn from disk"], *(answers[row] for row in answers if "tape" in row)):
        _check_trace(json.loads(trace))
    for source in ("", " from disk"):
        _check_request(answers[f"turns/{name}/request{source}"])
    assert [secret for secret in ALL if secret in file_text(data)] == []
    for tape in tapes.iterdir():
        _check_tape(tape, provider)


def _calling() -> list[dict[str, Any]]:
    """A call of an earlier turn, in the form of Anthropic, and its result."""
    use = {"type": "tool_use", "id": "call-0", "name": "login", "input": CALL}
    result = {"type": "tool_result", "tool_use_id": "call-0", "content": f'{{"client_secret": "{PASSWORD}"}}'}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def _expect_searches(gateway: Inspected, name: str) -> None:
    for words in ("you sent", "shibboleth", "last words"):
        assert name in phrase(gateway, words, OWNER), words
    assert [secret for secret in (*ALL, "he said no") if phrase(gateway, secret, OWNER)] == []


def _check_trace(trace: dict[str, Any]) -> None:
    assert [mark for mark in trace["marks"] if mark["level"] == "error"] == []
    said = json.dumps(trace["events"])
    assert [words for words in ("you sent", f"also {MARK}", "last words", "finish") if words not in said] == []


def _check_request(text: str) -> None:
    """The request without its secrets is valid JSON: it can be sent again."""
    request = json.loads(text)
    for body in (request["client"]["body"], *(one["attempt"]["body"] for one in request["attempts"])):
        assert isinstance(json.loads(body), dict)
    body = json.loads(request["client"]["body"])
    assert body["metadata"] == {"password": MARK}
    given = body["messages"][1]["content"][0]["input"]
    assert {**given, "nested": json.loads(given["nested"])} == {
        "command": "login", "password": MARK, "nested": {"passphrase": MARK},
    }  # fmt: skip


def _check_tape(tape: Path, provider: str) -> None:
    data = read_recording(tape).data
    if provider == "bedrock" and data:
        frames = PARSERS["eventstream"]().feed([data])
        assert [name for name, _ in frames][-1] == b"metadata"
        data = b"".join(payload for _, payload in frames)
    assert [secret for secret in (LOOKS, HALVES, *NAMED) if secret.encode() in data + tape.read_bytes()] == []


def _all_answers(base: str, name: str) -> dict[str, str]:
    """What every route says about a turn, its recording, and the file that was made of it."""
    answers: dict[str, str] = {}
    with httpx.Client(base_url=f"{base}/inspector/", headers=bearer(OWNER), timeout=20) as client:
        trace = client.get(f"turns/{name}").json()
        answers["turn"] = json.dumps(trace, ensure_ascii=False)
        for consumer in trace["consumers"]:
            answers[f"turn as {consumer}"] = client.get(f"turns/{name}?as={consumer}").text
        for kind in ("frames", "outputs"):
            for number in range(len(trace[kind])):
                answers[f"{kind} {number}"] = client.get(f"turns/{name}/{kind}/{number}").text
        for form in FORMS:
            answers[f"copy as {form}"] = client.get(f"turns/{name}/copy?as={form}").text
        of_turn = ("request", "breakdown", "headers")
        places = [f"turns/{name}/{place}" for place in of_turn] + [f"previews?ids={name}", f"sessions/{name}"]
        places += ["about", "turns", "usage", "tokens", "recordings", "keeping", "sessions", f"sessions?turn={name}"]
        for place in (*places, "complete?q=mod&at=3", "complete?q=client:&at=7"):
            answers[place] = client.get(place).text
        html = client.get(f"turns/{name}/export?with=all").content
        answers["export"], answers["export's page"] = exported_data(html).decode(), html.decode()
        _check_trace(exported_traces(html)[trace["consumer"]])
        tapes = [row["name"] for row in json.loads(answers["recordings"])["recordings"]]
        tapes = [tape for tape in tapes if client.get(f"recordings/{tape}").json()["frames"]]
        assert tapes
        for tape in tapes:
            answers[f"tape {tape}"] = client.get(f"recordings/{tape}").text
        events: list[ev.AnyEvent] = [ev.Start(), ev.TextStart(0), ev.TextDelta(0, f"{LOOKS} {HALVES}")]
        stream = b"".join(Reply.of("openai-chat", events).chunks)
        answers["file"] = client.post("trace", content=stream).text
        answers["frame of a file"] = client.post("trace?frame=1", content=stream).text
    assert [place for place, text in answers.items() if re.match(r'\{"error"', text)] == []
    return answers


def test_a_key_that_was_passed_on_is_not_shown() -> None:
    """Nobody knows it by value but the turn that it came with."""
    theirs = "the-callers-very-own"
    with inspected(tells, access={"keys": "forward"}) as gateway, watching(gateway.url) as reader:
        body = json.dumps({"model": "openai-chat/text", "stream": True, "max_tokens": 9, "messages": []}).encode()
        name = send(gateway, "/v1/messages", body, **{"x-api-key": theirs})
        assert theirs in str(gateway.up.requests[-1].headers)
        with Reader(f"{gateway.url}/inspector/turns/{name}/follow") as follower:
            follower.until(lambda: follower.over)
        answers = {**_answers(gateway, name), "live": str(reader.events), "follow": str(follower.events)}
        assert [place for place, text in answers.items() if theirs in text] == []


# ── secrets at the places where a text is cut, and as other encoders escape them ──────────────────

SECRET = "correct-horse+battery/staple<9137>"
PART = 8  # characters of it that must not be shown
PARTS = {SECRET[place : place + PART] for place in range(len(SECRET) - PART + 1)}
PLANTED = {"MY_API_KEY": SECRET}


def _shown_parts(answers: dict[str, str]) -> list[tuple[str, str]]:
    return [(place, part) for place, text in answers.items() for part in sorted(PARTS) if part in text]


def ends_with_secret(_: ReceivedRequest) -> Reply:
    """Says the secret at the end of a preview."""
    return Reply.text("y" * 145 + " " + SECRET)


def _answers(gateway: Inspected, name: str, *, export: bool = True) -> dict[str, str]:
    """What is shown of a turn."""
    places = [f"turns/{name}", f"turns/{name}?as=anthropic", f"turns/{name}/request", f"turns/{name}/breakdown"]
    places += [f"turns/{name}/copy?as={form}" for form in FORMS]
    places += [f"turns/{name}/frames/0", f"turns/{name}/outputs/0", f"sessions/{name}", f"sessions?turn={name}"]
    places += ["sessions", f"previews?ids={name}"]
    with httpx.Client(base_url=f"{gateway.url}/inspector/", timeout=20, trust_env=False) as client:
        answers = {place: client.get(place).text.replace("\\/", "/") for place in places}
        if export:
            answers["export"] = exported_data(client.get(f"turns/{name}/export?with=anthropic").content).decode()
    return answers


def test_no_part_of_a_secret_is_shown_where_a_text_is_cut(tmp_path: Path) -> None:
    call = {"name": "bash", "arguments": json.dumps({"command": "z" * 95 + " " + SECRET})}
    calling = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]}
    said = {"role": "assistant", "content": "y"}
    conversations = (
        [_user("x" * 148 + " " + SECRET)],
        [_user("x" * 70 + " " + SECRET), calling, {"role": "tool", "tool_call_id": "c", "content": "done"}],
        [_user("hi"), said, _user(f"b {SECRET} 1")],
        [_user("hi"), said, _user(f"b {SECRET} 2")],
        *([_user("w" * before + SECRET + "w" * 200)] for before in range(1_880, 1_930, 7)),
    )
    with bounds(request=2_000, frame=200):
        with inspected(ends_with_secret, env=PLANTED, **on_disk(tmp_path)) as gateway:
            names = [say(gateway, messages) for messages in conversations]
            assert _shown_anywhere(gateway, names) == []
            shown = [view(gateway, f"turns/{name}/request")["client"] for name in names]
            assert [client["cut"] for client in shown] == [False] * 4 + [True] * 8
            assert {client["body"][-20:] for client in shown[4:]} & {"w" * 12 + MARK} != set()
            difference = view(gateway, f"turns/{names[3]}/request")["previous"]["parts_at"]
            assert difference["now"].endswith(" 2")
        with inspected(ends_with_secret, env=PLANTED, **on_disk(tmp_path)) as again:
            assert _shown_anywhere(again, names) == []
    assert [part for part in PARTS if part in file_text(tmp_path)] == []


def _shown_anywhere(gateway: Inspected, names: list[str]) -> list[tuple[str, str]]:
    answers = [_answers(gateway, name, export=place < 4) for place, name in enumerate(names)]
    return [part for found in answers for part in _shown_parts(found)]


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_the_body_that_a_provider_got_is_cut_without_half_a_secret(tmp_path: Path) -> None:
    with bounds(sent=2_000):
        with inspected(ends_with_secret, env=PLANTED, **on_disk(tmp_path)) as gateway:
            sent = {}
            for before in (1_750, 1_800, 1_850, 1_900):
                name = say(gateway, "w" * before + SECRET * 3 + "w" * 500)
                sent[name] = len(gateway.up.requests[-1].body)
            _expect_cut_bodies(gateway, sent)
        with inspected(ends_with_secret, env=PLANTED, **on_disk(tmp_path)) as again:
            _expect_cut_bodies(again, sent)


def _expect_cut_bodies(gateway: Inspected, sent: dict[str, int]) -> None:
    for name, size in sent.items():
        shown = view(gateway, f"turns/{name}/request")
        (row,) = shown["attempts"]
        assert _shown_parts({name: json.dumps(shown)}) == []
        assert (row["attempt"]["body_size"], row["attempt"]["body_cut"]) == (size, True)
        assert row["attempt"]["body"].startswith('{"')


ENCODERS: dict[str, Callable[[str], str]] = {
    "php": lambda text: json.dumps(text).replace("/", "\\/"),
    "go": lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e"),
    "dotnet": lambda text: json.dumps(text).replace("+", "\\u002B").replace("<", "\\u003C").replace(">", "\\u003E"),
}


def test_a_secret_is_found_as_other_encoders_escape_it(tmp_path: Path) -> None:
    secrets = {**PLANTED, "OTHER_KEY": 'say "<é/'}
    with inspected(ends_with_secret, env=secrets, **on_disk(tmp_path)) as gateway:
        names = []
        for encode in ENCODERS.values():
            call = encode(json.dumps({"command": SECRET}))
            body = f"""{{"model":"openai-chat/text","stream":true,"messages":[
                {{"role":"user","content":{encode(f"it is {SECRET}, and {secrets['OTHER_KEY']}.")}}},
                {{"role":"assistant","content":null,"tool_calls":
                    [{{"id":"c","type":"function","function":{{"name":"bash","arguments":{call}}}}}]}},
                {{"role":"tool","tool_call_id":"c","content":"done"}}]}}"""
            names.append(send(gateway, "/v1/chat/completions", body.encode()))
        assert [part for name in names for part in _shown_parts(_answers(gateway, name))] == []
        first = json.loads(trace_of(gateway, names[0])["request"])["messages"][0]["content"]
        assert first == f"it is {MARK}, and {MARK}."
    with inspected(ends_with_secret, env=secrets, **on_disk(tmp_path)) as again:
        assert [part for name in names for part in _shown_parts(_answers(again, name))] == []


def test_secrets_in_the_query_of_a_request_are_not_shown(tmp_path: Path) -> None:
    """Nobody knows them by value, and they have no form: their names tell."""
    query = "?token=hunter2hunter2&api_key=plainplain&key=simplesimple&beta=true"
    shown = f"/v1/chat/completions?token={MARK}&api_key={MARK}&key={MARK}&beta=true"
    with inspected(**on_disk(tmp_path)) as gateway:
        body = json.dumps({"model": "openai-chat/text", "messages": [_user("hi")]}).encode()
        name = send(gateway, f"/v1/chat/completions{query}", body)
        assert view(gateway, f"turns/{name}/request")["client"]["path"] == shown
    with inspected(**on_disk(tmp_path)) as again:
        assert view(again, f"turns/{name}/request")["client"]["path"] == shown
    assert [word for word in ("hunter2", "plainplain", "simplesimple") if word in file_text(tmp_path)] == []


# ── secrets of another time, and unusual spellings ────────────────────────────────────────────────


def echo(seen: ReceivedRequest) -> Reply:
    return Reply.text(f"you said {seen.json['messages'][-1]['content']}")


def test_a_secret_that_was_replaced_is_not_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    old, new = "custom+form.key-4711-zebra", "another-key-99-lion"
    root = {"hash": hash_key(OWNER), "role": "admin", "inspect": "all", "inspect_keep": True}
    with inspected(echo, env=os.environ, keys={"root": root}, **on_disk(tmp_path)) as gateway:

        def store(secret: str) -> None:
            given = {"name": "groq", "key": secret, "check": False}
            made = post(f"{gateway.url}/admin/providers", json=given, headers=bearer(OWNER))
            assert made.status_code in {200, 201}, made.text

        store(old)
        names = [say(gateway, f"my key is {old} yes", OWNER)]
        store(new)
        names.append(say(gateway, f"the old key was {old}", OWNER))
        for name in names:
            trace = json.dumps(trace_of(gateway, name, OWNER))
            assert (MARK in trace, old in trace, "zebra" in trace) == (True, False, False)
        assert phrase(gateway, "4711 zebra", OWNER) == set()
    kept = file_text(tmp_path).replace(old, "") if (tmp_path / "provider-keys.json").exists() else file_text(tmp_path)
    assert "zebra" not in kept
    assert MARK in kept


def test_the_session_token_is_not_shown(tmp_path: Path) -> None:
    with inspected(echo, data=tmp_path) as gateway:
        token = (tmp_path / "inspector-session").read_text().strip()
        name = say(gateway, f"the link is http://127.0.0.1:4480/#session={token} and alone: {token}")
        answers = _answers(gateway, name)
        assert [place for place, text in answers.items() if token in text] == []
        assert MARK in answers[f"turns/{name}/request"]
        assert phrase(gateway, token) == set()


def test_an_escaped_or_coloured_token_is_neither_shown_nor_found() -> None:
    escaped, coloured = "sk-ant-api03-AbCdEf0123456789zebra", "ghp_AbCdEf0123456789AbCdEf0123456giraffe"
    said = "run: \\u001b[32m%s\\u001b[0m and %s" % (coloured, escaped.replace("-", "\\u002d"))  # noqa: UP031 — escapes
    body = f'{{"model":"openai-chat/text","messages":[{{"role":"user","content":"{said}"}}]}}'.encode()
    with inspected(lambda _: Reply.text("ok")) as gateway:
        name = send(gateway, "/v1/chat/completions", body)
        words = ("zebra", "giraffe")
        assert [
            (place, word) for place, text in _answers(gateway, name).items() for word in words if word in text
        ] == []
        assert [word for word in (escaped, coloured, *words) if phrase(gateway, word)] == []
        assert found(gateway, "run") == {name}


def test_secrets_that_were_taken_out_of_a_recording_are_counted(tmp_path: Path, gateway: Inspected) -> None:
    for count, words in ((1, "1 secret was"), (2, "2 secrets were"), (1_200, "1,200 secrets were")):
        tape = tmp_path / f"{count}.tape"
        write_recording(tape, RecordingHeader(protocol="openai-chat", hidden=count), [(0.0, b"data: [DONE]\n\n")])
        trace = post(f"{gateway.url}/inspector/trace", content=tape.read_bytes()).json()
        assert f"{words} taken out of it ({MARK})" in trace["note"]


def test_secrets_that_were_taken_out_of_a_turn_are_counted(tmp_path: Path) -> None:
    with inspected(echo, **on_disk(tmp_path)) as gateway:
        name = say(gateway, "sk-planted0123456789abcdef")
    with inspected(echo, **on_disk(tmp_path)) as again:
        assert re.fullmatch(r"\d secrets were taken out of it before it was kept", trace_of(again, name)["note"])
