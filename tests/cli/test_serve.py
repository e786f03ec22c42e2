"""`penstock serve`: what it says when it starts, and what it says when it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._cli.serve import base_url, list_models, welcome_text
from penstock.gateway import Config, GatewayConfig
from tests.cli.command_runner import inside
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = ("OpenAI SDKs", "Anthropic SDKs", "Claude Code", "Codex", "Continue", "AI SDK", "useChat", "VS Code")
ALL = "0.0.0.0"  # noqa: S104


def said(config: GatewayConfig, **more: Any) -> str:
    options: dict[str, Any] = {"keyed": False, **more}
    return welcome_text(config, 4480, list_models(config, {}), **options)


def test_every_client_is_told_how() -> None:
    text = said(GatewayConfig())
    assert text.startswith("penstock is listening on http://127.0.0.1:4480\n")
    assert [client for client in CLIENTS if f"\n  {client} " not in text] == []
    assert "replay/text" in text
    assert "ANTHROPIC_MODEL=replay/agent" in text  # of the packaged models, the one that calls tools
    assert text.count("http://127.0.0.1:4480") >= len(CLIENTS)


def test_models_are_those_that_can_be_asked_for() -> None:
    engine = Config(
        aliases={"claude-*": "lab/small", "fast": "lab/small"},
        providers={"lab": {"base_url": "http://x/v1", "models": ("small",)}},
    )
    config = GatewayConfig(engine=engine)
    assert list_models(config, {})[:2] == ["fast", "lab/small"]
    assert "openai/…" in list_models(config, {"OPENAI_API_KEY": "x"})
    assert "ANTHROPIC_MODEL=fast" in said(config)


def test_the_key_that_is_needed_is_named() -> None:
    assert "OPENAI_API_KEY=any" in said(GatewayConfig())
    assert "OPENAI_API_KEY=YOUR_GATEWAY_KEY" in said(GatewayConfig(), keyed=True)
    assert "YOUR_PROVIDER_KEY" in said(GatewayConfig(access={"keys": "forward"}))
    command = "curl -N http://127.0.0.1:4480/v1/chat/completions"
    assert f"{command} -H 'Authorization: Bearer YOUR_GATEWAY_KEY' -d" in said(GatewayConfig(), keyed=True)
    assert f"{command} -d" in said(GatewayConfig())


def test_what_is_open_to_others_is_said() -> None:
    everywhere = GatewayConfig(serve={"host": ALL})
    assert "Other machines are refused" in said(everywhere)
    assert "Other machines" not in said(everywhere, keyed=True) + said(GatewayConfig())
    assert "everybody who can reach this address can use it" in said(replace(everywhere, access={"anonymous": True}))
    assert "recording to    tapes" in said(replace(everywhere, record={"path": "tapes"}))


@pytest.mark.parametrize(
    ("started", "on_path", "command"),
    [
        (".venv/bin/penstock", "", ".venv/bin/penstock"),  # as `make serve` does
        (".venv/bin/penstock", ".venv/bin", "penstock"),
        (".venv/bin/penstock", "other", ".venv/bin/penstock"),  # another installation is not this one
        ("my tools/penstock", "", "'my tools/penstock'"),
        ("lib/penstock/__main__.py", "other", "penstock"),
        ("lib/pytest/__main__.py", "", "penstock"),
        ("penstock", "other", "penstock"),
    ],
)
def test_hints_name_a_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str, on_path: str, command: str
) -> None:
    for folder in (".venv/bin", "other", "my tools"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "penstock").write_text("#!/bin/sh\n")
        (tmp_path / folder / "penstock").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / on_path) if on_path else "")
    monkeypatch.setattr("sys.argv", [str(tmp_path / started) if "/" in started else started, "serve"])
    assert f"\n  permanently     {command} setup claude --model " in said(GatewayConfig())


def test_a_module_is_started_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", [str(tmp_path / "penstock/__main__.py"), "serve"])
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin/python"))
    assert f"{tmp_path}/bin/python -m penstock setup claude" in said(GatewayConfig())


@each("host, base", [(ALL, "http://127.0.0.1:1"), ("::", "http://[::1]:1"), ("gw", "http://gw:1")])
def test_an_address_that_clients_can_use(host: str, base: str) -> None:
    assert base_url(host, 1) == base


def test_a_configuration_can_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("[aliases]\nfast = 'openai/gpt-5'\n'claude-*' = 'openai/gpt-5'\n")
    done = inside("serve", "--check", "--config", str(path), OPENAI_API_KEY="made-up")
    assert (done.returncode, done.stderr.decode()) == (0, f"{path}: nothing is wrong with it\n")
    path.write_text("[serve]\nprot = 1\n")
    done = inside("serve", "--check", PENSTOCK_CONFIG=str(path))
    assert done.returncode == 2
    assert done.stderr.decode() == f"penstock: {path}:2: serve.prot: no such key; did you mean port?\n"


def test_what_it_needs_and_has_not_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("[keys.ci]\nenv = 'NOT_SET'\n")
    done = inside("serve", "--config", str(path), PENSTOCK_DATA=str(tmp_path))
    assert done.stderr.decode() == "penstock: keys.ci.env: the variable NOT_SET is not set\n"
    taken = tmp_path / "file"
    taken.write_text("")
    path.write_text(f"[journal]\npath = '{taken.as_posix()}/x.sqlite'\n")
    done = inside("serve", "--config", str(path), PENSTOCK_DATA=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
