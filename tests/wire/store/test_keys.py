"""Gateway keys in a file and in PostgreSQL: what an admin changes, whole changes only, and the audit log of them."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.cli.command_runner import inside
from tests.support.admin import Admin, bearer
from tests.support.client_requests import get, metric
from tests.support.gateway import hash_key
from tests.support.stores import Place, turn, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPIRES = "2099-01-31T00:00:00Z"
FULL: dict[str, Any] = {
    "models": ["openai-chat/*"], "tenant": "t", "team": "research", "limits": {"day_cost": 1.5}, "max_output": 9,
    "expires": EXPIRES, "note": "é",
}  # fmt: skip


def penstock_keys(place: Place, *words: str, given: bytes = b"") -> str:
    """What `penstock keys` prints."""
    config = place.folder / "keys.toml"
    config.write_text(f'[stores]\npostgres = "{place.url}"\n' if place.url else "")
    env: dict[str, Any] = {"PENSTOCK_DATA": str(place.folder)}
    done = inside("keys", *words, "--config", str(config), given=given, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@contextmanager
def admins(place: Place, count: int = 1) -> Iterator[list[Admin]]:
    """Admins of gateways that share their keys."""
    secret = penstock_keys(place, "add", "root", "--admin").split()[-1]
    with ExitStack() as stack:
        made = [Admin(stack.enter_context(place.open(prices={"unknown": "free"})), key=secret) for _ in range(count)]
        for one in made:
            stack.callback(one.http.close)
        yield made


def add(admin: Admin, name: str, status: int = 201, **fields: Any) -> Any:
    return admin.ask("POST", "/admin/keys", status=status, json={"name": name, **fields})


def audit(admin: Admin, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = admin.ask("GET", f"/admin/audit{query}")["data"]
    return rows


def has_keys(admin: Admin, count: int) -> bool:
    return len(admin.ask("GET", "/admin/keys?limit=100")["data"]) >= count


def test_records_come_back_as_they_were_on_every_gateway(lasting: Place) -> None:
    with admins(lasting, 2) as (one, other):
        one.ask("POST", "/admin/teams", status=201, json={"name": "research", "limits": {"requests": 99}, "note": "n"})
        one.ask("PATCH", "/admin/organisation", json={"limits": {"total_tokens": 10**9}})
        made = add(one, "a", **FULL)
        until(lambda: other.http.get("/admin/keys/a").status_code == 200)
        shown = other.ask("GET", "/admin/keys/a")
        assert {name: shown[name] for name in FULL if name != "expires"} == {
            name: value for name, value in FULL.items() if name != "expires"
        }
        assert shown["expires"].startswith("2099-01-31")
        assert other.ask("GET", "/admin/teams/research")["limits"] == {"requests": 99}
        assert other.ask("GET", "/admin/organisation")["limits"] == {"total_tokens": 10**9}
        models, key = f"{other.url}/v1/models", bearer(made["secret"])
        until(lambda: get(models, headers=key).status_code == 200)
        reply = get(models, headers=key)
        assert {row["id"].partition("/")[0] for row in reply.json()["data"]} == {"openai-chat"}
        before = other.http.get("/admin/keys/a").headers["etag"]
        one.ask("PATCH", "/admin/keys/a", json={"note": "two"})
        until(lambda: other.http.get("/admin/keys/a").headers["etag"] != before)
        one.ask("DELETE", "/admin/keys/a", status=204)
        until(lambda: get(models, headers=key).status_code == 401)


def test_a_change_that_fails_changes_nothing(lasting: Place) -> None:
    with admins(lasting) as (admin,):
        add(admin, "a")
        before = (admin.ask("GET", "/admin/keys"), len(audit(admin)))
        wrongs: list[dict[str, Any]] = [
            {"models": []}, {"note": "x" * 2000}, {"limits": {"day_cost": -1}}, {"limits": {"requests": 1e18}},
        ]  # fmt: skip
        for wrong in wrongs:
            add(admin, "b", status=400, **wrong)
        add(admin, "a", status=409)
        assert (admin.ask("GET", "/admin/keys"), len(audit(admin))) == before


def test_changes_of_several_at_once_are_all_there(lasting: Place) -> None:
    with admins(lasting, 2) as both, ThreadPoolExecutor() as pool:
        names = [f"k{number}" for number in range(20)]
        statuses = pool.map(
            lambda row: both[row[0] % 2].http.post("/admin/keys", json={"name": row[1]}).status_code, enumerate(names)
        )
        assert [*statuses] == [201] * 20
        for admin in both:
            until(partial(has_keys, admin, 21))
            rows = audit(admin, "?limit=50")
            assert [row["id"] for row in rows] == [*range(len(rows), 0, -1)]
            assert [row["id"] for row in audit(admin, "?limit=2&before=5")] == [4, 3]
            assert {row["actor"] for row in rows[:20]} == {"key:root"}
            assert not [row for row in both[0].ask("GET", "/admin/keys?limit=100")["data"] if "secret" in row]


def test_once_required_it_stays_so_until_a_reset(lasting: Place) -> None:
    with lasting.open() as running:
        turn(running)
        assert get(f"{running.url}/v1/models").status_code == 200, "local, without any key"
    with admins(lasting) as (admin,):
        assert get(f"{admin.url}/v1/models").status_code == 401
    penstock_keys(lasting, "revoke", "root")
    with lasting.open() as running:
        assert get(f"{running.url}/v1/models").status_code == 401
    penstock_keys(lasting, "reset", "--yes")
    with lasting.open() as running:
        assert get(f"{running.url}/v1/models").status_code == 200
    with admins(lasting) as (admin,):
        assert [row["action"] for row in audit(admin)][-4:] == ["key.add", "reset", "key.revoke", "key.add"]


def test_a_connection_that_was_ended_is_replaced(tmp_path: Path, postgres_url: str) -> None:
    place = Place("postgres", tmp_path, postgres_url)
    with admins(place) as (admin,):
        secret = admin.http.headers["authorization"].split()[1]
        for number in range(3):
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid != pg_backend_pid() AND datname = current_database()"
                )
            add(admin, f"k{number}")
            turn(admin.running, headers=bearer(secret))
        until(lambda: len(place.ids()) == 3)
        assert metric(admin.url, "journal_lost", headers=bearer(secret)) == 0


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def test_an_old_key_file_is_read_and_taken_over_with_a_backup(tmp_path: Path) -> None:
    place, file, backup = Place("file", tmp_path), tmp_path / "keys.json", tmp_path / "keys.json.v1.bak"
    old = {name: {"hash": hash_key(f"pk-{name}")} for name in ("laptop", "format", "keys")}
    file.write_text(json.dumps(old))
    with place.open() as running:
        statuses = {
            name: get(f"{running.url}/v1/models", headers=bearer(f"pk-{name}")).status_code for name in (*old, "x")
        }
        assert statuses == {**dict.fromkeys(old, 200), "x": 401}
    assert not backup.exists(), "to read changes nothing"
    for name in ("new", "newer"):
        penstock_keys(place, "add", name)
        assert json.loads(backup.read_bytes()) == old
    assert json.loads(file.read_bytes())["format"] == 2
    assert sorted(json.loads(file.read_bytes())["keys"]) == ["format", "keys", "laptop", "new", "newer"]
    if sys.platform != "win32":
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("keys.json*")} == {0o600}


@pytest.mark.parametrize(
    "broken", [b"", b"[]", b"\xff", b'{"format": 2, "keys": {"a": {"role": "god"}}}', b'{"format": 3}', b'{"format": 2, "x": 1}']
)  # fmt: skip
def test_a_damaged_file_is_refused_and_never_replaced(tmp_path: Path, broken: bytes) -> None:
    place, file = Place("file", tmp_path), tmp_path / "keys.json"
    file.write_bytes(broken)
    env: dict[str, Any] = {"PENSTOCK_DATA": str(tmp_path)}
    for words in (("add", "a"), ("list",)):
        done = inside("keys", *words, **env)
        assert done.returncode != 0
        assert b"keys.json" in done.stderr
    assert file.read_bytes() == broken
    penstock_keys(place, "reset", "--yes")
    penstock_keys(place, "add", "a")
    assert [*json.loads(file.read_bytes())["keys"]] == ["a"]


def test_the_audit_log_is_bounded_and_half_a_row_of_a_crash_is_skipped(tmp_path: Path) -> None:
    place, log = Place("file", tmp_path), tmp_path / "keys.json.audit"
    with admins(place) as (admin,):
        add(admin, "a")
        row = json.loads(log.read_text().splitlines()[-1])
        number, left = row["id"], 8 * 2**20 - log.stat().st_size - 3_000
        with log.open("a") as file:  # nearly 8 MiB
            while left > 0:
                number += 1
                left -= file.write(json.dumps({**row, "id": number}) + "\n")
            file.write('{"id":99999,"ti')
        for number in range(8):
            add(admin, f"k{number}", note="n" * 500)
        files = sorted(tmp_path.glob("keys.json.audit*"))
        assert [file.name for file in files if "lock" not in file.name] == ["keys.json.audit", "keys.json.audit.1"]
        assert max(file.stat().st_size for file in files) <= 8 * 2**20
        rows = audit(admin, "?limit=20")
        assert [one["id"] for one in rows] == [*range(rows[0]["id"], rows[0]["id"] - 20, -1)], "none is left out"
