"""The access log: one line for each request, with what an operator asks for and nothing that must not be there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
from websockets.sync.client import connect

from penstock.testing import Reply, play, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.gateway import hash_key
from tests.support.process import gateway

if TYPE_CHECKING:
    from pathlib import Path


CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "replay/text", "messages": []}
SECRET = "sk-planted-0123456789abcdef"
CONFIG = """
[keys.alice]
env = 'ALICE_TOKEN'
[providers.lab]
base_url = '{}/v1'
key = 'k'
[providers.lab.models.m.prices]
input = 1000
output = 1000
"""


def test_every_request_of_every_worker_is_a_line_of_json(tmp_path: Path) -> None:
    alice = {"authorization": f"Bearer {SECRET}"}
    options = ("--access-log", "json", "--full-speed", "--workers", "2")
    with (
        scripted(Reply.of("", play("text"))) as upstream,
        gateway(tmp_path, CONFIG.format(upstream.url), *options, ALICE_TOKEN=SECRET) as server,
        httpx.Client(base_url=server.base) as http,
    ):
        turn = http.post(CHAT, json={**BODY, "stream": True}, headers=alice)
        http.post(CHAT, json=BODY)
        http.get(f"/v1/models?key={SECRET}")
        http.get("/healthz")
        http.get(f"/nothing/{SECRET}", headers=alice)
        http.get("/inspector/turns", headers=alice)
        with connect(f"{server.base.replace('http', 'ws')}/v1/responses", additional_headers=alice) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "lab/m", "input": "?"}))
            got = ""
            while "response.completed" not in got:
                got = str(socket.recv(30))
                assert '"type":"error"' not in got, got
    text = server.printed
    lines = {(line["path"], line["status"]): line for line in map(json.loads, text.splitlines())}
    assert len(lines) == len(text.splitlines()) == 8
    whole = lines[CHAT, 200]
    assert (whole["id"], whole["key"], whole["model"]) == (turn.headers["x-request-id"], "alice", "text")
    assert (whole["method"], whole["provider"], whole["bytes"]) == ("POST", "replay", len(turn.content))
    assert 0 < whole["ttft"] <= whole["duration"]
    assert whole["output"] > 0
    assert (lines[CHAT, 401]["key"], lines[CHAT, 401]["model"]) == ("", "")
    assert lines["/v1/models", 200]["key"] == lines["/inspector/turns", 200]["key"] == "alice"
    assert lines["/healthz", 200]["bytes"] == len('{"status":"ok"}')
    spoken = lines["/v1/responses", 200]
    assert (spoken["method"], spoken["model"], spoken["cost"] > 0) == ("WEBSOCKET", "m", True)
    assert lines["/v1/responses", 101]["method"] == "GET"
    assert SECRET not in text
    assert "?" not in text


def test_lines_in_common_log_format() -> None:
    with AsgiGateway(log="common") as made:
        turn = made.ask(CHAT, BODY)
        made.ask("/a%0d%0ab%1b%5b31m%22%20%e2%80%ae")
        first, second = made.lines()
    assert re.fullmatch(
        r'127\.0\.0\.1 - anonymous \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000] "POST /v1/chat/completions HTTP/1\.1" 200 '
        rf"{len(turn.content)} id={turn.headers['x-request-id']} team=- provider=replay model=text "
        r"duration=\d+\.\d{3} ttft=\d+\.\d{3} input=\d+ output=\d+ cost=(-|\d+\.\d{6})",
        first.decode(),
    )
    assert rb'"GET /a\x0d\x0ab\x1b[31m\x22\x20\u202e HTTP/1.1" 404' in second


def test_texts_are_cut_and_controls_escaped_in_both_forms() -> None:
    keys = {"ann": {"hash": hash_key(SECRET)}}
    lab = {"base_url": "http://127.0.0.1:9/v1", "key": "k"}
    for form in ("common", "json"):
        with AsgiGateway(log=form, keys=keys, providers={"lab": lab}, retries=0) as made:
            for path, body in ((f"/{'x' * 1500}", None), (CHAT, {**BODY, "model": f"lab/m\x85 {SECRET}\n"})):
                made.ask(path, body, client="::1", authorization=f"Bearer {SECRET}")
            long, turn = made.lines()
        assert len(long) < 1000
        for line in (long, turn):
            text = line.decode("ascii")
            assert SECRET not in text
            assert text.isprintable()
            if form == "common":
                assert text.startswith("::1 - ann [")
            else:
                found = json.loads(text)
                assert (found["address"], found["key"]) == ("::1", "ann")
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
