"""Secrets in the binary stream of Bedrock: they are removed, and all of the answer stays readable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from penstock import events as ev
from penstock._framing.aws_messages import find_messages
from penstock._inspector.static_files import StaticFiles
from penstock._redaction import MARK
from penstock.framing import PARSERS
from penstock.testing import Reply, read_recording
from tests.page.exported_page import exported_data, exported_traces
from tests.support.client_requests import post
from tests.support.event_feed import bearer, ended
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest


OWNER = "pk-penstock-owner0123456789"
LOOKS, PASSWORD = "sk-planted0123456789abcdef", "hunter2-planted"
CALL = {"command": "login", "password": PASSWORD}
WORDS = ["first words ", f"a key {LOOKS} ", "last words"]


def tells(_: ReceivedRequest) -> Reply:
    """A stream of Bedrock with a key in a text and a password in a call, in chunks that are no messages."""
    given = json.dumps(CALL)
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in WORDS), ev.TextEnd(0),
        ev.CallStart(1, "call-1", "login"), ev.CallDelta(1, given), ev.CallEnd(1, "call-1", "login", given),
        ev.Usage(input=3, output=2), ev.Finish("calls"),
    ]  # fmt: skip
    reply = Reply.of("bedrock", events)
    data = b"".join(reply.chunks)
    return Reply(tuple(data[at : at + 90] for at in range(0, len(data), 90)), headers=reply.headers)


def test_an_answer_of_bedrock_is_readable_without_its_secrets(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "env": {"OWNER_KEY": OWNER},
        "keys": {"owner": {"env": "OWNER_KEY", "inspect": "all", "inspect_keep": True}},
        "inspector": {"keep": True},
        "data": tmp_path,
        "journal": {"path": str(tmp_path / "journal.sqlite")},
        "record": {"path": str(tmp_path / "record")},
    }
    body = {"model": "bedrock/text", "stream": True, "messages": [{"role": "user", "content": "a question"}]}
    with inspected(tells, **options) as gateway:
        sent = post(f"{gateway.url}/v1/chat/completions", json=body, headers=bearer(OWNER))
        assert LOOKS in sent.text
        name = sent.headers["x-request-id"]
        ended(gateway, name)
        gateway.app.services.recorder.close()
        assert name in gateway.inspector.watch.captures
        shown = _check_turn(gateway.url, f"turns/{name}")
    [tape] = (tmp_path / "record").iterdir()
    _check_tape(tape)
    with inspected(tells, **options) as again:
        assert name not in again.inspector.watch.captures
        assert _check_turn(again.url, f"turns/{name}") == shown
        assert _check_turn(again.url, f"recordings/{tape.name}") == shown
        assert again.inspector.watch.text_index.find_turns("last words", None) == {name}
    file = b"".join(path.read_bytes() for path in tmp_path.glob("turns.sqlite*"))
    assert not [secret for secret in (LOOKS, PASSWORD) if secret.encode() in file]


def _check_turn(base: str, place: str) -> list[Any]:
    """Its trace and its export are whole and hold no secret. Returns the texts of its events."""
    with httpx.Client(base_url=f"{base}/inspector/", headers=bearer(OWNER), timeout=20) as client:
        answer = client.get(place)
        shown = _check_trace(answer.json())
        texts = [answer.text]
        if StaticFiles().built:
            html = client.get(f"{place}/export?with=all").content
            texts += [exported_data(html).decode(), html.decode()]
            _check_trace(exported_traces(html)["openai-chat"])  # those of other clients share its events
    assert not [secret for secret in (LOOKS, PASSWORD) for text in texts if secret in text]
    return shown


def _check_trace(trace: dict[str, Any]) -> list[Any]:
    assert not [mark for mark in trace["marks"] if mark["level"] == "error"], trace["marks"]
    said = json.dumps(trace["events"])
    for words in ("first words", f"a key {MARK}", "last words", "finish"):
        assert words in said, words
    return [event["type"] for event in trace["events"]]


def _check_tape(tape: Path) -> None:
    data = read_recording(tape).data
    frames = PARSERS["eventstream"]().feed([data])
    assert len(frames) == len(list(find_messages(data))) > len(WORDS)
    assert [name for name, _ in frames][-1] == b"metadata"
    whole = b"".join(payload for _, payload in frames).decode()
    assert MARK in whole
    assert not [secret for secret in (LOOKS, PASSWORD) if secret in whole]
