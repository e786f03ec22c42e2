"""`penstock keys`: made once, shown once, listed without, revoked at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock._gateway.config import GatewayConfig
from penstock._gateway.keys import KeyRing
from tests.cli.command_runner import inside

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def keys(data: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return inside("keys", *words, PENSTOCK_DATA=str(data))


def test_add_list_revoke(tmp_path: Path) -> None:
    made = keys(
        tmp_path,
        "add",
        "ci",
        "--model",
        "fast",
        "--model",
        "lab/*",
        "--requests",
        "60",
        "--day-cost",
        "2.5",
        "--note",
        "a build",
    )
    secret = made.stdout.decode().strip()
    assert secret.startswith("pk-penstock-")
    assert b"is shown this once" in made.stderr
    listed = keys(tmp_path, "list").stdout.decode()
    assert listed.startswith("ci ")
    assert "fast, lab/*  requests=60  day_cost=2.5  a build" in listed
    row = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    assert row["limits"] == {"requests": 60, "day_cost": 2.5}
    assert secret not in listed + str(row) + (tmp_path / "keys.json").read_text()
    assert keys(tmp_path, "revoke", "ci").returncode == 0
    assert b"there are no keys" in keys(tmp_path, "list").stdout


@pytest.mark.finding("LIB-13")
def test_rotate(tmp_path: Path) -> None:
    old = json.loads(keys(tmp_path, "add", "ci", "--requests", "60", "--note", "a build", "--json").stdout)
    before = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    new = json.loads(keys(tmp_path, "rotate", "ci", "--json").stdout)
    after = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    assert old["key"] != new["key"]
    assert {**before, "hash": ""} == {**after, "hash": ""}
    ring = KeyRing(GatewayConfig(data=tmp_path), {})
    assert ring.find(old["key"]) is None
    found = ring.find(new["key"])
    assert found is not None
    assert (found.name, found.key.note) == ("ci", "a build")
    plain = keys(tmp_path, "rotate", "ci")
    assert plain.stdout.startswith(b"pk-penstock-")
    assert b"is shown this once" in plain.stderr


def test_what_makes_no_sense_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("[keys.fixed]\nenv = 'X'\n")
    keys(tmp_path, "add", "a")
    for words, said in (
        (("add", "a"), "there is a key 'a' already"),
        (("add",), "keys add needs the name of a key"),
        (("revoke", "b"), "there is no key 'b'"),
        (("revoke", "A"), "did you mean a?"),
        (("rotate", "b"), "there is no key 'b'"),
        (("rotate", "fixed", "--config", str(config)), "take [keys.fixed] out of it"),
        (("rotate",), "keys rotate needs the name of a key"),
        (("add", "fixed", "--config", str(config)), "there is a key 'fixed' in"),
        (("revoke", "fixed", "--config", str(config)), "take [keys.fixed] out of it"),
    ):
        done = keys(tmp_path, *words)
        assert done.returncode == 2
        assert said in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1
