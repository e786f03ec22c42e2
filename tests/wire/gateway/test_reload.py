"""A new configuration, on SIGHUP or because the file has changed: the next request has it, an open stream is not touched,
a bad file changes nothing and is reported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.process import gateway, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP there")
LIMIT = 60.0
EDITOR = {"PENSTOCK_GATEWAY_KEY": "the-key-of-the-editor", "PENSTOCK_EDITOR_KEYS": "1"}
HEADERS = {"authorization": "Bearer the-key-of-the-editor"}
FIRST = """
[serve]
pace = 0.05
[aliases]
old = "replay/text"
[providers.lab]
base_url = "http://127.0.0.1:1/v1"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that an editor has started. Its file changes."""
    with gateway(tmp_path_factory.mktemp("editor"), FIRST, **EDITOR) as running:
        yield running


def status(server: Gateway, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
    return httpx.post(f"{server.base}/v1/chat/completions", json=body, headers=HEADERS, timeout=LIMIT).status_code


def report(server: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.base}/vscode/status", headers=HEADERS).raise_for_status().json()
    return found


def write(server: Gateway, config: str, *, says: str = "was reloaded", hang_up: bool = False) -> None:
    """Change the file, and wait until the gateway has said what it makes of it."""
    before = server.said.count(says)
    server.config.write_text(config)
    if hang_up:
        server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.said.count(says) > before)


@pytest.mark.parametrize("hang_up", [True, False])
def test_a_changed_file_counts_and_open_streams_go_on(server: Gateway, *, hang_up: bool) -> None:
    write(server, FIRST + f"# {hang_up}\n")
    with httpx.Client(timeout=LIMIT, headers=HEADERS) as client:
        body = {"model": "replay/reasoning", "stream": True, "messages": []}
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=body) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            write(server, FIRST.replace("old", "new"), hang_up=hang_up)
            assert (status(server, "new"), status(server, "old")) == (200, 404)
            if hang_up:
                write(server, "[serve]\nprot = 1", says="was not reloaded", hang_up=True)
                assert f"{server.config}:2: serve.prot: no such key; did you mean port?" in server.said
                assert status(server, "new") == 200
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")


def test_a_broken_file_is_reported_and_what_needs_a_restart_is_named(server: Gateway) -> None:
    write(server, FIRST + "# good\n")
    wait_for(lambda: not report(server)["config"]["error"])
    before = report(server)
    assert before["config"] == {"path": str(server.config), "error": "", "restart_needed": []}
    write(server, "[serve]\nprot = 1", says="was not reloaded")
    error = f"{server.config}:2: serve.prot: no such key; did you mean port?"
    wait_for(lambda: report(server)["config"]["error"] == error)
    assert report(server)["config"]["restart_needed"] == []
    assert status(server, "old") == 200
    changed = "[serve]\nport = 9\nidle = 9.0\nstreams = 5\n[journal]\npath = 'memory'\n[stores]\noutage = 'fail-open'\n"
    write(server, changed)
    wait_for(lambda: not report(server)["config"]["error"])
    needed = ["serve.idle", "journal.path"]  # --port is given on the command line
    assert report(server)["config"]["restart_needed"] == needed
    assert "take effect after a restart: serve.idle, journal.path" in server.said
    assert report(server)["revision"] > before["revision"]


def test_keys_of_an_editor_outlive_a_reload(server: Gateway) -> None:
    own = {"name": "river", "base_url": "http://127.0.0.1:1/v1", "models": {"tide": {}}}
    with httpx.Client(base_url=server.base, headers=HEADERS) as client:
        client.put("/vscode/keys", json={"window": "w", "providers": [own]}).raise_for_status()
        write(server, "[aliases]\nquick = 'river/tide'\n")
        names = {row["id"] for row in client.get("/vscode/models").json()["models"]}
        assert {"quick", "river/tide"} <= names


def test_keys_and_limits_are_reloaded_and_watching_can_be_switched_off(tmp_path: Path) -> None:
    with gateway(tmp_path, "[serve]\nwatch = false\n", "--full-speed", ONE="planted-one-key") as server:
        assert status(server, "replay/text") == 200
        write(server, "[serve]\nwatch = false\n[keys.a]\nenv = 'ONE'\nlimits = { requests = 1 }\n", hang_up=True)
        assert status(server, "replay/text") == 401
        ask = {"url": f"{server.base}/v1/chat/completions", "headers": {"x-api-key": "planted-one-key"}}
        codes = [httpx.post(**ask, json={"model": "replay/text", "messages": []}) for _ in range(2)]  # type: ignore[arg-type]
        assert [one.status_code for one in codes] == [200, 429]
        assert float(codes[1].headers["retry-after"]) > 1
        assert server.said.count("was reloaded") == 1


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
