"""A new configuration on SIGHUP: the next request has it, an open stream is not touched, a bad file changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.process import gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP there")
LIMIT = 60.0


def told(server: Gateway, words: str, times: int = 1) -> None:
    """Wait until the gateway has said so."""
    ends = time.monotonic() + LIMIT
    while server.said.count(words) < times:
        assert time.monotonic() < ends, server.said
        time.sleep(0.02)


def status(server: Gateway, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
    return httpx.post(f"{server.base}/v1/chat/completions", json=body).status_code


def test_hangup_reloads_and_open_streams_go_on(tmp_path: Path) -> None:
    first = (
        "[serve]\npace = 0.05\n[aliases]\nold = 'replay/text'\n[providers.lab]\nbase_url = 'http://127.0.0.1:1/v1'\n"
    )
    with gateway(tmp_path, first) as server, httpx.Client(timeout=LIMIT) as client:
        body = {"model": "replay/reasoning", "stream": True, "messages": []}
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=body) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            server.config.write_text(first.replace("old", "new"))
            server.process.send_signal(signal.SIGHUP)
            told(server, "was reloaded")
            assert (status(server, "new"), status(server, "old")) == (200, 404)
            server.config.write_text("[serve]\nprot = 1")
            server.process.send_signal(signal.SIGHUP)
            told(server, "was not reloaded")
            assert f"{server.config}:2: serve.prot: no such key; did you mean port?" in server.said
            assert status(server, "new") == 200
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")


def test_keys_and_limits_are_reloaded_too(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--full-speed", ONE="planted-one-key") as server:
        assert status(server, "replay/text") == 200
        server.config.write_text("[keys.a]\nenv = 'ONE'\nlimits = { requests = 1 }\n")
        server.process.send_signal(signal.SIGHUP)
        told(server, "was reloaded")
        assert status(server, "replay/text") == 401
        ask = {"url": f"{server.base}/v1/chat/completions", "headers": {"x-api-key": "planted-one-key"}}
        codes = [httpx.post(**ask, json={"model": "replay/text", "messages": []}) for _ in range(2)]  # type: ignore[arg-type]
        assert [one.status_code for one in codes] == [200, 429]
        assert float(codes[1].headers["retry-after"]) > 1


def test_a_terminal_that_closes_ends_the_server(tmp_path: Path) -> None:
    """The same signal: but there is nobody left to talk to."""
    parent, child = os.openpty()
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0"]
    process = subprocess.Popen(
        command, stdin=child, stderr=subprocess.PIPE, start_new_session=True, cwd=tmp_path,
        env={**os.environ, "PENSTOCK_DATA": str(tmp_path)},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        os.close(child)
        os.close(parent)
        process.send_signal(signal.SIGHUP)
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait(LIMIT)
        process.stderr.close()  # type: ignore[union-attr]
