"""The access log: one line for each request, with what an operator asks for and nothing that must not be there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.sync.client import connect

from penstock._gateway.access_log import AccessLine, format_common, format_json
from penstock.testing import Reply, play, scripted
from tests.support.process import gateway

if TYPE_CHECKING:
    from pathlib import Path


CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "replay/text", "messages": []}
SECRET = "sk-planted-0123456789abcdef"
KEYS = "[keys.alice]\nenv = 'ALICE_TOKEN'\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_request_is_a_line_of_json(tmp_path: Path, workers: str) -> None:
    alice = {"authorization": f"Bearer {SECRET}"}
    options = ("--access-log", "json", "--full-speed", "--workers", workers)
    with gateway(tmp_path, KEYS, *options, ALICE_TOKEN=SECRET) as server:
        base = server.base
        turn = httpx.post(f"{base}{CHAT}", json={**BODY, "stream": True}, headers=alice)
        httpx.post(f"{base}{CHAT}", json=BODY)
        httpx.get(f"{base}/v1/models?key={SECRET}")
        httpx.get(f"{base}/healthz")
        httpx.get(f"{base}/nothing/{SECRET}", headers=alice)
        httpx.get(f"{base}/inspector/turns", headers=alice)
    text = server.printed
    lines = {(line["path"], line["status"]): line for line in map(json.loads, text.splitlines())}
    assert len(lines) == len(text.splitlines()) == 6
    whole = lines[CHAT, 200]
    assert (whole["id"], whole["key"], whole["model"]) == (turn.headers["x-request-id"], "alice", "text")
    assert (whole["method"], whole["provider"], whole["bytes"]) == ("POST", "replay", len(turn.content))
    assert 0 < whole["ttft"] <= whole["duration"]
    assert whole["output"] > 0
    assert (lines[CHAT, 401]["key"], lines[CHAT, 401]["model"]) == ("", "")
    assert lines["/v1/models", 200]["key"] == lines["/inspector/turns", 200]["key"] == "alice"
    assert lines["/healthz", 200]["bytes"] == len('{"status":"ok"}')
    assert SECRET not in text
    assert "?" not in text


def test_lines_in_common_log_format(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--access-log", "common", "--full-speed") as server:
        turn = httpx.post(f"{server.base}{CHAT}", json=BODY)
        httpx.get(f"{server.base}/a%0d%0ab%1b%5b31m%22%20%e2%80%ae")
    first, second = server.printed.splitlines()
    assert re.fullmatch(
        r'127\.0\.0\.1 - anonymous \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000] "POST /v1/chat/completions HTTP/1\.1" 200 '
        rf"{len(turn.content)} id={turn.headers['x-request-id']} team=- provider=replay model=text "
        r"duration=\d+\.\d{3} ttft=\d+\.\d{3} input=\d+ output=\d+ cost=(-|\d+\.\d{6})",
        first,
    )
    assert r'"GET /a\x0d\x0ab\x1b[31m\x22\x20\u202e HTTP/1.1" 404' in second


def test_turns_of_a_websocket_are_lines_and_the_price_is_in_them(tmp_path: Path) -> None:
    with scripted(Reply.of("", play("text"))) as upstream:
        prices = "[providers.lab.models.m.prices]\ninput = 1000\noutput = 1000\n"
        config = f"[providers.lab]\nbase_url = '{upstream.url}/v1'\nkey = 'k'\n{prices}"
        with gateway(tmp_path, config, "--access-log", "json", "--full-speed") as server:
            base = server.base
            with connect(f"{base.replace('http', 'ws')}/v1/responses") as socket:
                socket.send(json.dumps({"type": "response.create", "model": "lab/m", "input": "?"}))
                got = ""
                while "response.completed" not in got:
                    got = str(socket.recv(30))
                    assert '"type":"error"' not in got, got
            asked = {"model": "lab/m", "stream": True, "messages": [{"role": "user", "content": "?"}]}
            httpx.post(f"{base}{CHAT}", json=asked)
    lines = [json.loads(line) for line in server.printed.splitlines()]
    assert [(line["method"], line["status"]) for line in lines] == [("WEBSOCKET", 200), ("GET", 101), ("POST", 200)]
    assert lines[0]["model"] == "m"
    assert all(line["cost"] > 0 for line in lines if line["model"])


def test_texts_are_cut_and_controls_escaped_in_both_forms() -> None:
    line = AccessLine(
        time=0.0, id="i", address="::1", method="GET", path="/" + "x" * 5000, version="1.1", status=200, bytes=1,
        duration=0.5, key='a"b\x7f\x85', model=f"m {SECRET}\n",
    )  # fmt: skip
    common, made = format_common(line, [SECRET]).decode(), json.loads(format_json(line, [SECRET]))
    assert len(common) < 1000
    assert r"::1 - a\x22b\x7f\x85 [01/Jan/1970:00:00:00 +0000]" in common
    assert (made["key"], made["time"]) == ('a"b\\x7f\\x85', "1970-01-01T00:00:00.000Z")
    assert SECRET not in common + str(made)
    assert common.isprintable() is False  # it ends with a line break,
    assert common[:-1].isprintable()  # its only control character
