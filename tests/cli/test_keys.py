"""`penstock keys`: made once, shown once, listed without, revoked at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.command_runner import inside
from tests.support.asgi_gateway import AsgiGateway
from tests.support.each_case import each

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def keys(data: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return inside("keys", *words, PENSTOCK_DATA=str(data))


def answered(data: Path, *secrets: str, path: str = "/v1/models") -> list[int]:
    """The status that a gateway with this data folder answers each key with."""
    with AsgiGateway(data=data) as running:
        return [running.ask(path, authorization=f"Bearer {secret}").status_code for secret in secrets]


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


def test_rotate(tmp_path: Path) -> None:
    old = json.loads(keys(tmp_path, "add", "ci", "--requests", "60", "--note", "a build", "--json").stdout)
    before = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    new = json.loads(keys(tmp_path, "rotate", "ci", "--json").stdout)
    after = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    assert old["key"] != new["key"]
    assert {**before, "hash": ""} == {**after, "hash": ""}
    assert answered(tmp_path, old["key"], new["key"]) == [401, 200]
    assert after["note"] == "a build"
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


def test_edit_changes_only_what_is_named(tmp_path: Path) -> None:
    keys(tmp_path, "add", "ci", "--requests", "60", "--note", "a build")
    assert (
        keys(tmp_path, "edit", "ci", "--month-cost", "40", "--max-output", "900", "--expires", "2099-01-31").returncode
        == 0
    )
    row = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    assert row["limits"] == {"requests": 60, "month_cost": 40.0}
    assert (row["max_output"], row["expires"], row["note"]) == (900, "2099-01-31T00:00:00Z", "a build")
    keys(tmp_path, "edit", "ci", "--requests", "0", "--expires", "never")
    row = json.loads(keys(tmp_path, "list", "--json").stdout)["ci"]
    assert row["limits"] == {"month_cost": 40.0}
    assert "expires" not in row


def test_a_key_that_has_expired_is_not_found_and_can_be_extended(tmp_path: Path) -> None:
    secret = keys(tmp_path, "add", "ci", "--expires", "2020-01-01").stdout.decode().strip()
    assert answered(tmp_path, secret, "") == [401, 401]
    keys(tmp_path, "edit", "ci", "--expires", "90d")
    assert answered(tmp_path, secret) == [200]


def test_rotation_with_overlap(tmp_path: Path) -> None:
    old = keys(tmp_path, "add", "ci").stdout.decode().strip()
    done = keys(tmp_path, "rotate", "ci", "--overlap", "24h")
    new = done.stdout.decode().strip()
    assert b"the old key works until" in done.stderr
    assert answered(tmp_path, old, new) == [200, 200]
    keys(tmp_path, "rotate", "ci")  # without overlap all earlier ones end
    assert answered(tmp_path, old, new) == [401, 401]


def test_teams_and_roles(tmp_path: Path) -> None:
    def teams(*words: str) -> subprocess.CompletedProcess[bytes]:
        return inside("teams", *words, PENSTOCK_DATA=str(tmp_path))

    assert b"there are no teams" in teams("list").stdout
    assert teams("add", "lab", "--month-cost", "500", "--model", "replay/*").returncode == 0
    secret = keys(tmp_path, "add", "root", "--admin", "--team", "lab").stdout.decode().strip()
    plain = keys(tmp_path, "add", "ci").stdout.decode().strip()
    assert answered(tmp_path, secret, plain, path="/admin/keys") == [200, 403]
    assert json.loads(keys(tmp_path, "list", "--json").stdout)["root"]["team"] == "lab"
    assert b"lab " in teams("list").stdout
    refused = teams("remove", "lab")
    assert refused.returncode == 2
    assert b"has 1 keys (root)" in refused.stderr
    keys(tmp_path, "edit", "root", "--team", "")
    assert teams("remove", "lab").returncode == 0


@each(
    "words, said",
    [
        (("keys", "add", "b", "--day-cost", "-3"), "limits.day_cost: expected a number of at least 0, found -3"),
        (("keys", "add", "b", "--week-cost", "nan"), "limits.week_cost: expected a number of at least 0, found nan"),
        (("keys", "edit", "a", "--total-tokens", "-1"), "limits.total_tokens: expected a number of at least 0"),
        (("keys", "edit", "a", "--max-output", "-1"), "max_output: expected a number from 0 to "),
        (("keys", "edit", "a"), "keys edit needs an option that says what to change"),
        (("keys", "edit", "aa", "--note", "x"), "did you mean a?"),
        (("keys", "edit", "a", "--expires", "soon"), "expires: expected a date"),
        (("keys", "edit", "a", "--team", "lba"), "did you mean lab?"),
        (("keys", "rotate", "a", "--overlap", "1y"), "expected a duration such as 90d"),
        (("keys", "add", "a/b"), "'/' is not allowed in a name"),
        (("teams", "add", "lab"), "there is a team 'lab' already"),
        (("teams", "add", "b", "--day-cost", "inf"), "limits.day_cost: expected a number of at least 0"),
        (("teams", "remove", "lba"), "did you mean lab?"),
        (("teams", "edit", "lab"), "teams edit needs an option"),
        (("teams", "add"), "teams add needs the name of a team"),
    ],
)
def test_wrong_values_are_one_line_that_names_them(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    keys(tmp_path, "add", "a")
    inside("teams", "add", "lab", PENSTOCK_DATA=str(tmp_path))
    done = inside(*words, PENSTOCK_DATA=str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
