"""Gateways that share PostgreSQL: one journal, one set of keys, one store of responses. Outages: test_replicas.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import psycopg

from penstock._gateway.keys import POLL_INTERVAL
from tests.support.gateway import hash_key
from tests.support.process import LIMIT, Gateway, gateway

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.servers import PostgresServer

CONFIG = "[serve]\npace = 0.0\n[access]\nmetrics = 'open'\n"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def penstock(url: str, folder: Path, *words: str) -> str:
    """Runs a command with the same stores."""
    env = {**os.environ, "PENSTOCK_POSTGRES_URL": url, "PENSTOCK_DATA": str(folder / "cli"), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(stack: ExitStack, folder: Path, url: str, config: str = CONFIG) -> Gateway:
    folder.mkdir(exist_ok=True)
    return stack.enter_context(gateway(folder, config, PENSTOCK_POSTGRES_URL=url))


def ask(running: Gateway, key: str = "", text: str = "hidden words", **more: Any) -> httpx.Response:
    body = {"model": "replay/text", "input": text, **more}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.post(f"{running.base}/v1/responses", json=body, headers=headers, timeout=60)


def is_refused(running: Gateway, key: str) -> bool:
    return ask(running, key).status_code == 401


def request_ids(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute("SELECT request_id FROM penstock.turns WHERE status = 'finish'")]


def add_key(url: str, folder: Path, name: str) -> str:
    printed = penstock(url, folder, "keys", "add", name)
    return next(word for word in printed.split() if word.startswith("pk-penstock-"))


def test_gateways_share_keys_journal_and_responses(tmp_path: Path, postgres_url: str) -> None:
    key = add_key(postgres_url, tmp_path, "alice")
    with ExitStack() as stack:
        one, two = (start(stack, tmp_path / name, postgres_url) for name in ("one", "two"))
        assert ask(one).status_code == ask(two, "pk-penstock-wrong").status_code == 401
        first = ask(one, key, "My name is Alice.")
        assert first.status_code == 200, first.text
        id_ = first.json()["id"]
        wait_until(lambda: _get(two, key, f"/v1/responses/{id_}").status_code == 200, "the other gateway has it")
        second = ask(two, key, "And?", previous_response_id=id_)
        assert second.status_code == 200, second.text
        wait_until(lambda: len(request_ids(postgres_url)) == 2, "both turns are in one journal")
        usage = _get(two, key, "/inspector/usage?by=key").json()
        assert usage["total"]["requests"] >= 2
        printed = penstock(postgres_url, tmp_path, "usage", "--by", "key")
        assert "alice" in printed
        assert not list(tmp_path.glob("*/data/journal.sqlite")) + list(tmp_path.glob("*/data/state.sqlite"))
        penstock(postgres_url, tmp_path, "keys", "revoke", "alice")
        for running in (one, two):
            wait_until(partial(is_refused, running, key), "a revoked key is refused")
    assert POLL_INTERVAL <= 0.5  # seconds: a change is seen within one second


def _get(running: Gateway, key: str, path: str) -> httpx.Response:
    return httpx.get(f"{running.base}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=60)


def test_known_keys_hold_for_the_configured_time_then_are_refused(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    key = add_key(postgres_url, tmp_path, "alice")
    with ExitStack() as stack:
        strict = start(stack, tmp_path / "strict", postgres_url, CONFIG + "[stores]\nkeys_hold = 0.5\n")
        patient = start(stack, tmp_path / "patient", postgres_url)
        assert [ask(one, key).status_code for one in (strict, patient)] == [200, 200]
        postgres.kill()
        wait_until(lambda: ask(strict, key).status_code != 200, "keys that nobody can check are refused")
        assert ask(patient, key).status_code == 200
        postgres.start()
        wait_until(lambda: ask(strict, key).status_code == 200, "keys are known again")


def test_the_admin_api_says_that_its_store_is_away(tmp_path: Path, postgres: PostgresServer, postgres_url: str) -> None:
    config = f"{CONFIG}[keys.root]\nhash = '{hash_key('pk-root')}'\nrole = 'admin'\n"
    with ExitStack() as stack:
        running = start(stack, tmp_path / "one", postgres_url, config)
        http = stack.enter_context(httpx.Client(base_url=running.base, timeout=60, trust_env=False))
        http.headers["authorization"] = "Bearer pk-root"
        postgres.kill()
        for reply in (http.post("/admin/keys", json={"name": "a"}), http.get("/admin/audit"), http.get("/admin/usage")):
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "store_unavailable")
            assert reply.headers["retry-after"] == "1"
        postgres.start()
        wait_until(lambda: http.post("/admin/keys", json={"name": "b"}).status_code == 201, "it is back")
    assert "Traceback" not in running.said


def test_a_gateway_does_not_start_without_its_database(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[stores]\npostgres = 'postgresql://me:hunter2-planted@127.0.0.1:1/x'\n")
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(tmp_path / "penstock.toml")]
    env = {**os.environ, "PENSTOCK_DATA": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=LIMIT)
    assert done.returncode != 0
    assert "PostgreSQL at 127.0.0.1:1/x" in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr
