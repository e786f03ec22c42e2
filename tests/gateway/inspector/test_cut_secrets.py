"""Secrets at the places where a text is cut, and as other encoders escape them: no part of one is shown.

Half of a secret has no known form, so it must be removed before the cut.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._inspector import captured_attempts, live_capture, schemas
from penstock._inspector.static_files import StaticFiles
from penstock._redaction import MARK, cut_bytes, json_spellings, redact_range
from penstock.testing import Reply
from tests.page.exported_page import exported_data
from tests.support.client_requests import get, post
from tests.support.event_feed import ended
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected


SECRET = "correct-horse+battery/staple<9137>"
PART = 8  # characters of it that must not be shown


def _parts() -> set[str]:
    return {SECRET[place : place + PART] for place in range(len(SECRET) - PART + 1)}


def shown_parts(text: str) -> list[str]:
    """Returns the parts of the secret that a text holds."""
    return sorted(part for part in _parts() if part in text)


def tells(_: ReceivedRequest) -> Reply:
    """Says the secret at the end of a preview."""
    answer: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "y" * 145 + " " + SECRET),
        ev.TextEnd(0), ev.Usage(input=3, output=2), ev.Finish("stop"),
    ]  # fmt: skip
    return Reply.of("openai-chat", answer)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _send(gateway: Inspected, messages: list[Any], query: str = "") -> str:
    body = json.dumps({"model": "openai-chat/text", "stream": True, "messages": messages})
    return _send_bytes(gateway, body.encode(), query)


def _send_bytes(gateway: Inspected, body: bytes, query: str = "") -> str:
    name: str = post(f"{gateway.url}/v1/chat/completions{query}", content=body).headers["x-request-id"]
    ended(gateway, name)
    return name


def _responses(gateway: Inspected, name: str) -> dict[str, str]:
    places = [f"turns/{name}", f"turns/{name}?as=anthropic", f"turns/{name}/request", f"turns/{name}/breakdown"]
    places += [f"turns/{name}/copy?as={form}" for form in ("curl", "penstock", "openai", "anthropic", "aisdk")]
    places += [
        f"sessions/{name}",
        f"sessions?turn={name}",
        "sessions",
        f"previews?ids={name}",
        f"turns/{name}/frames/1",
    ]
    answers = {place: get(f"{gateway.url}/inspector/{place}").text for place in places}
    if StaticFiles().built:
        place = f"turns/{name}/export?with=all"
        answers[place] = exported_data(get(f"{gateway.url}/inspector/{place}").content).decode()
        assert MARK in answers[place], place
    return answers


def test_no_part_of_a_secret_is_shown_where_a_text_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_capture, "MAX_REQUEST_BYTES", 2_000)
    monkeypatch.setattr(schemas, "MAX_FRAME_CHARACTERS", 200)
    call = {"name": "bash", "arguments": json.dumps({"command": "z" * 95 + " " + SECRET})}
    calling = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]}
    said = {"role": "assistant", "content": "y"}
    first = _user("x" * 70 + " " + SECRET)
    conversations = (
        [_user("x" * 148 + " " + SECRET)],
        [first, calling, {"role": "tool", "tool_call_id": "c", "content": "done"}],
        [_user("hi"), said, _user(f"b {SECRET} 1")],
        [_user("hi"), said, _user(f"b {SECRET} 2")],
        [_user("w" * 1_900 + SECRET + "w" * 200)],
    )
    options: dict[str, Any] = {"env": {"MY_API_KEY": SECRET}, "inspector": {"keep": True}, "data": tmp_path}
    options["journal"] = {"path": str(tmp_path / "journal.sqlite")}
    with inspected(tells, **options) as gateway:
        names = [_send(gateway, messages) for messages in conversations]
        for name in names:
            for place, text in _responses(gateway, name).items():
                assert shown_parts(text) == [], place
        difference = get(f"{gateway.url}/inspector/turns/{names[3]}/request").json()["previous"]["parts_at"]
        assert difference["now"].endswith(" 2")
        gateway.inspector.watch.disk.flush()
        gateway.inspector.watch.clear()
        for name in names:
            for place, text in _responses(gateway, name).items():
                assert shown_parts(text) == [], f"{place}, from disk"


ENCODERS: dict[str, Callable[[str], str]] = {
    "php": lambda text: json.dumps(text).replace("/", "\\/"),
    "go": lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e"),
    "dotnet": lambda text: json.dumps(text).replace("+", "\\u002B").replace("<", "\\u003C").replace(">", "\\u003E"),
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_secret_is_found_as_other_encoders_escape_it(tmp_path: Path, encoder: str) -> None:
    written = ENCODERS[encoder](f"it is {SECRET}.")
    arguments = ENCODERS[encoder](json.dumps({"command": SECRET}))
    call = f'{{"id":"c","type":"function","function":{{"name":"bash","arguments":{arguments}}}}}'
    body = f"""{{"model":"openai-chat/text","stream":true,"messages":[{{"role":"user","content":{written}}},
        {{"role":"assistant","content":null,"tool_calls":[{call}]}},
        {{"role":"tool","tool_call_id":"c","content":"done"}}]}}"""
    with inspected(
        tells, env={"MY_API_KEY": SECRET}, inspector={"keep": True}, data=tmp_path
    ) as gateway:  # fmt: skip
        name = _send_bytes(gateway, body.encode())
        for _ in range(2):
            for place, text in _responses(gateway, name).items():
                assert shown_parts(text) == [], place
            gateway.inspector.watch.disk.flush()
            gateway.inspector.watch.clear()


def test_secrets_in_the_query_of_a_request_are_not_shown(tmp_path: Path) -> None:
    """Nobody knows them by value, and they have no form: their names tell."""
    query = "?token=hunter2hunter2&api_key=plainplain&key=simplesimple&beta=true"
    with inspected(tells, inspector={"keep": True}, data=tmp_path) as gateway:
        name = _send(gateway, [_user("hi")], query)
        for _ in range(2):
            path = get(f"{gateway.url}/inspector/turns/{name}/request").json()["client"]["path"]
            assert path == f"/v1/chat/completions?token={MARK}&api_key={MARK}&key={MARK}&beta=true"
            gateway.inspector.watch.disk.flush()
            gateway.inspector.watch.clear()
        gateway.inspector.watch.close_files()
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("turns.sqlite*"))
    assert b"hunter2" not in kept


def test_a_part_of_a_text_has_no_part_of_a_secret() -> None:
    text = f"before {SECRET} after"
    start, end = text.index(SECRET), text.index(SECRET) + len(SECRET)
    assert redact_range(text, 0, len(text), [SECRET]) == f"before {MARK} after"
    assert redact_range(text, start + 3, end + 6, [SECRET]) == f"{MARK} after"
    assert redact_range(text, 0, end - 3, [SECRET]) == f"before {MARK}"
    assert redact_range(text, start + 3, end - 3, [SECRET]) == MARK
    assert redact_range(text, 0, start, [SECRET]) == "before "
    assert redact_range(text, end, len(text), [SECRET]) == " after"
    assert cut_bytes(text.encode(), end - 3, [SECRET]) == f"before {MARK}".encode()
    assert cut_bytes(text.encode(), start, [SECRET]) == b"before "
    quoted = 'say "<é/'
    assert {'say \\"<é/', 'say \\"<\\u00e9\\/', "say \\u0022\\u003C\\u00e9/"} <= set(json_spellings(quoted))


@pytest.mark.parametrize("before", [1_750, 1_800, 1_850, 1_900])
def test_the_body_that_a_provider_got_is_cut_without_half_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(captured_attempts, "MAX_UPSTREAM_BODY_BYTES", 2_000)
    options: dict[str, Any] = {"env": {"MY_API_KEY": SECRET}, "inspector": {"keep": True}, "data": tmp_path}
    with inspected(tells, **options) as gateway:
        name = _send(gateway, [_user("w" * before + SECRET * 3 + "w" * 500)])
        sent = len(gateway.up.requests[-1].body)
        gateway.inspector.watch.disk.flush()
        for place in ("memory", "disk"):
            text = get(f"{gateway.url}/inspector/turns/{name}/request").text
            (view,) = json.loads(text)["attempts"]
            assert shown_parts(text) == [], place
            assert (view["attempt"]["body_size"], view["attempt"]["body_cut"]) == (sent, True), place
            assert view["attempt"]["body"].startswith('{"')
            gateway.inspector.watch.clear()
