"""`penstock models refresh`: what changes is shown, nothing is written unasked, and the facts are used everywhere."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import InputError
from penstock.providers import model
from tests.cli.command_runner import environment, inside
from tests.cli.terminal_session import Terminal
from tests.support.client_parts import load_refreshed_facts, read_models_dev, set_bound
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "models.json"
PACKAGED_SOURCE = model("openai", "gpt-5").source["prices"]
GPT_5: dict[str, Any] = {
    "id": "gpt-5",
    "name": "GPT-5",
    "tool_call": True,
    "reasoning": True,
    "temperature": False,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 400_000, "input": 272_000, "output": 128_000},
    "cost": {"input": 2.5, "output": 20, "cache_read": 0.25},
}
NEW = {**GPT_5, "id": "gpt-99", "name": "GPT-99", "cost": {"input": 1, "output": 2}}
TABLE: dict[str, Any] = {"openai": {"models": {"gpt-5": GPT_5, "gpt-99": NEW}}, "unheard-of": {"models": {}}}
CHANGED = "openai/gpt-5: prices 1.25/10.0/0.125 → 2.5/20.0/0.25"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder. What was loaded from it is forgotten afterwards."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    yield tmp_path
    load_refreshed_facts(tmp_path / "none")


@pytest.fixture
def server() -> Iterator[str]:
    """A server with the table at /api.json and too much at /large."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/api.json": json.dumps(TABLE).encode(), "/large": b" " * 3000, "/text": b"<html>"}.get(self.path)
            if self.path.startswith("/to="):
                self.send_response(302)
                self.send_header("location", self.path.removeprefix("/to="))
            else:
                self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def run(*words: str, folder: Path) -> tuple[int, str, str]:
    done = inside("models", *words, PENSTOCK_DATA=str(folder), OPENAI_API_KEY="made-up")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@each("target", ["http://192.0.2.1/api.json", "ftp://192.0.2.1/api.json"])
def test_no_redirect_leads_to_an_address_that_could_not_be_given(folder: Path, server: str, target: str) -> None:
    code, _, told = run("refresh", "--from", f"{server}/to={target}", folder=folder)
    assert (code, f"{target}: only https:// addresses" in told) == (2, True)
    code, shown, _ = run("refresh", "--from", f"{server}/to={server}/api.json", folder=folder)
    assert (code, CHANGED in shown) == (1, True)


def test_facts_of_an_earlier_refresh_that_go_are_shown(folder: Path) -> None:
    """The file is replaced as a whole."""
    both = {**TABLE, "anthropic": {"models": {"claude-99": {**NEW, "id": "claude-99"}}}}
    (folder / "both.json").write_text(json.dumps(both))
    assert run("refresh", "--from", str(folder / "both.json"), "--yes", folder=folder)[0] == 0
    code, shown, _ = run("refresh", "--from", str(folder / "table.json"), folder=folder)
    assert (code, shown.splitlines()) == (1, ["anthropic/claude-99: gone"])


def test_changes_are_shown_and_not_written_without_a_yes(folder: Path) -> None:
    code, shown, told = run("refresh", "--from", str(folder / "table.json"), folder=folder)
    assert (code, shown.splitlines()) == (1, [CHANGED, "openai/gpt-99: new"])
    assert "nothing is written" in told
    assert not (folder / FILE).exists()


def test_written_facts_are_used_by_commands_and_clients(folder: Path, server: str) -> None:
    code, shown, _ = run("refresh", "--from", f"{server}/api.json", "--yes", folder=folder)
    assert (code, CHANGED in shown) == (0, True)
    code, shown, told = run("openai", "--search", "gpt-99", folder=folder)
    assert "openai/gpt-99" in shown
    assert "facts: refreshed 20" in told
    assert f"from {server}/api.json" in told
    load_refreshed_facts(folder / "none")
    assert model("openai", "gpt-5").source["prices"] == PACKAGED_SOURCE
    penstock.SyncClient().close()
    row, other = model("openai", "gpt-5"), model("openai", "gpt-4o")
    assert row.prices is not None
    assert (row.prices.input, row.source["prices"].split()[0]) == (2.5, "refreshed")
    assert other.source["prices"] == PACKAGED_SOURCE, "models that the table does not have stay"


def test_overridden_facts_are_listed_and_removed(folder: Path) -> None:
    assert f"those of the package, {PACKAGED_SOURCE}" in run("refresh", "--list", folder=folder)[1]
    run("refresh", "--from", str(folder / "table.json"), "--yes", folder=folder)
    shown = run("refresh", "--list", folder=folder)[1]
    assert shown.splitlines()[-1].split() == ["openai", "1", "1"]
    assert run("refresh", "--from", str(folder / "table.json"), folder=folder)[2].endswith("nothing has changed\n")
    assert "is removed" in run("refresh", "--undo", folder=folder)[2]
    assert model("openai", "gpt-99").source.get("prices") is None
    assert f"facts: {PACKAGED_SOURCE}" in run("openai", folder=folder)[2]


def test_a_terminal_asks(folder: Path) -> None:
    command = [sys.executable, "-m", "penstock", "models", "refresh", "--from", str(folder / "table.json")]
    env = environment(PENSTOCK_DATA=str(folder), TERM="xterm")
    with Terminal(command, env) as terminal:
        terminal.wait_for("Type yes: ")
        terminal.type("no\n")
        assert terminal.wait() == 1
    assert not (folder / FILE).exists()
    with Terminal(command, env) as terminal:
        terminal.wait_for("Type yes: ")
        terminal.type("yes\n")
        assert terminal.wait() == 0
    assert json.loads((folder / FILE).read_text())["tables"]["openai"][1]["id"] == "gpt-99"


BAD = {
    "not JSON": ("<html>", "this is not JSON"),
    "not a table": ("[1]", "a table of models is a JSON object"),
    "nobody known": ('{"unheard-of":{"models":{}}}', "none of the providers"),
    "no models": ('{"openai":[]}', "openai.models: expected an object"),
    "not a model": ('{"openai":{"models":{"x":{"name":"X","limit":{"context":"many"}}}}}', "openai.models.x"),
    "a price that is text": ('{"openai":{"models":{"x":{"name":"X","cost":{"input":"1"}}}}}', "openai"),
    "deep": ("[" * 100_000, "this is not JSON"),
}


@each("case", BAD)
def test_a_bad_table_is_one_line_and_changes_nothing(folder: Path, case: str) -> None:
    text, message = BAD[case]
    (folder / "bad.json").write_text(text)
    code, shown, told = run("refresh", "--from", str(folder / "bad.json"), "--yes", folder=folder)
    assert (code, shown, told.count("\n")) == (2, "", 1)
    assert message in told
    assert not (folder / FILE).exists()


@each("path, message", [("/none", "404"), ("/text", "not JSON"), ("/large", "more than 2,000 bytes")])
def test_a_bad_server_is_one_line(
    folder: Path, server: str, path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of refreshed facts", 2000)
    code, _, told = run("refresh", "--from", f"{server}{path}", "--yes", folder=folder)
    assert code == 2
    assert message in told


@each("url", ["http://models.dev/api.json", "ftp://x/y", "file:///etc/passwd", "http://localhost.evil.example/"])
def test_only_safe_addresses_are_read(folder: Path, url: str) -> None:
    code, _, told = run("refresh", "--from", url, folder=folder)
    assert (code, "only https:// addresses and files are read" in told) == (2, True)


def test_a_broken_file_is_ignored_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / FILE).write_text('{"date":"2026-11-01","origin":"x","tables":{"openai":[{"id":"a","can":"?"}]}}')
    load_refreshed_facts(folder)
    assert "is not used: it is not a file of refreshed facts: unknown capabilities ? of a" in caplog.text
    assert model("openai", "gpt-5").source["prices"] == PACKAGED_SOURCE


def test_the_options_belong_to_refresh(folder: Path) -> None:
    assert "are for `penstock models refresh`" in run("openai", "--undo", folder=folder)[2]
    assert "refresh takes no names" in run("refresh", "openai", folder=folder)[2]


def test_both_forms_of_the_table_give_the_same() -> None:
    flat = {"name": "GPT-5", "tools": True, "reasoning": True, "in": ["text", "image"], "out": ["text"]}
    flat |= {"context": 400_000, "input_limit": 272_000, "output": 128_000, "cost": GPT_5["cost"]}
    assert read_models_dev({"openai": {"models": {"gpt-5": flat}}}) == read_models_dev(
        {"openai": {"models": {"gpt-5": GPT_5}}}
    )
    with pytest.raises(InputError):
        read_models_dev({})


def test_a_negative_price_is_unknown() -> None:
    [line] = read_models_dev({"openai": {"models": {"x": {"name": "X", "cost": {"input": -1, "output": 3}}}}})["openai"]
    assert line["price"] == [None, 3]
