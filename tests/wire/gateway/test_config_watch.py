"""A configuration file that changes is used without a restart; a broken one changes nothing, and is reported."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from penstock._gateway.config_reload import restart_settings, watches_file
from penstock.gateway import GatewayConfig
from tests.support.process import gateway
from tests.wire.gateway.test_reload import status, told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.process import Gateway

OWNER = {"PENSTOCK_GATEWAY_KEY": "the-key-of-the-editor", "PENSTOCK_EDITOR_KEYS": "1"}
HEADERS = {"authorization": "Bearer the-key-of-the-editor"}
LIMIT = 60.0


def report(server: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.base}/vscode/status", headers=HEADERS).raise_for_status().json()
    return found


def until(server: Gateway, **wanted: Any) -> dict[str, Any]:
    """Wait until the status of the configuration is this."""
    ends = time.monotonic() + LIMIT
    found: dict[str, Any] = report(server)["config"]
    while not wanted.items() <= found.items():
        assert time.monotonic() < ends, (found, server.said)
        time.sleep(0.05)
        found = report(server)["config"]
    return found


def test_a_changed_file_counts_and_open_streams_go_on(tmp_path: Path) -> None:
    first = "[serve]\npace = 0.05\n[aliases]\nold = 'replay/text'\n"
    with gateway(tmp_path, first) as server, httpx.Client(timeout=LIMIT) as client:
        body = {"model": "replay/reasoning", "stream": True, "messages": []}
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=body) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            server.config.write_text(first.replace("old", "new"))
            told(server, "was reloaded")
            assert (status(server, "new"), status(server, "old")) == (200, 404)
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")


def test_a_broken_file_keeps_the_old_configuration_and_is_reported(tmp_path: Path) -> None:
    first = "[aliases]\nold = 'replay/text'\n"
    with gateway(tmp_path, first, **OWNER) as server:
        before = report(server)
        assert before["config"] == {"path": str(server.config), "error": "", "restart_needed": []}
        server.config.write_text("[serve]\nprot = 1")
        found = until(server, error=f"{server.config}:2: serve.prot: no such key; did you mean port?")
        assert found["restart_needed"] == []
        told(server, "was not reloaded")
        body = {"model": "old", "messages": []}
        assert httpx.post(f"{server.base}/v1/chat/completions", json=body, headers=HEADERS).status_code == 200
        server.config.write_text(f"{first}[journal]\npath = 'memory'\n[serve]\nport = 9\nstreams = 5\n")
        until(server, error="", restart_needed=["journal.path"])  # --port is given on the command line
        told(server, "take effect after a restart: journal.path")
        assert report(server)["revision"] > before["revision"]


def test_keys_of_an_editor_outlive_a_reload(tmp_path: Path) -> None:
    with gateway(tmp_path, "", **OWNER) as server:
        own = {"name": "lab", "base_url": "http://127.0.0.1:1/v1", "models": {"tide": {}}}
        with httpx.Client(base_url=server.base, headers=HEADERS) as client:
            client.put("/vscode/keys", json={"window": "w", "providers": [own]}).raise_for_status()
            server.config.write_text("[aliases]\nquick = 'lab/tide'\n")
            told(server, "was reloaded")
            names = {row["id"] for row in client.get("/vscode/models").json()["models"]}
            assert {"quick", "lab/tide"} <= names


def test_watching_can_be_switched_off(tmp_path: Path) -> None:
    first = "[serve]\nwatch = false\n[aliases]\nold = 'replay/text'\n"
    with gateway(tmp_path, first, "--full-speed") as server:
        server.config.write_text(first.replace("old", "new"))
        server.process.send_signal(1)  # the signal still counts
        told(server, "was reloaded")
        assert status(server, "new") == 200
        assert server.said.count("was reloaded") == 1


def test_who_watches() -> None:
    hosts = {"127.0.0.1": True, "::1": True, "localhost": True, "0.0.0.0": False, "gateway.example.org": False}  # noqa: S104
    assert {host: watches_file(GatewayConfig(serve={"host": host})) for host in hosts} == hosts
    assert watches_file(GatewayConfig(serve={"host": "0.0.0.0", "watch": True}))  # noqa: S104
    assert not watches_file(GatewayConfig(serve={"watch": False}))


def test_what_needs_a_restart_is_named() -> None:
    running = GatewayConfig(serve={"port": 1, "tls_cert": "a"})
    changed = GatewayConfig(
        serve={"port": 2, "host": "::1", "streams": 9, "tls_cert": "b"}, journal={"days": 1},
        stores={"redis": "redis://x", "outage": "fail-open"},
    )  # fmt: skip
    assert restart_settings(running, changed) == ("serve.host", "serve.port", "journal.days", "stores.redis")
    assert restart_settings(running, GatewayConfig(serve={"port": 1})) == ("serve.tls_cert",)
