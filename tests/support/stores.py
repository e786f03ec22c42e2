"""Gateways on each kind of store: memory, SQLite files, PostgreSQL; and what stands in their tables, by SQL."""

from __future__ import annotations

import json
import resource
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from tests.cli.command_runner import inside
from tests.support.client_requests import get, post
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from tests.support.inspector import Inspected

LIMIT = 60.0  # seconds: what takes longer has failed


def until(check: Callable[[], Any], what: str = "") -> Any:
    """Asks again until it is so. Returns what was found."""
    ends = time.monotonic() + LIMIT
    while not (found := check()):
        assert time.monotonic() < ends, what or check
        time.sleep(0.01)
    return found


class Place:
    """Where gateways keep what they keep: `memory`, `file` or `postgres`."""

    def __init__(self, kind: str, folder: Path, url: str = "") -> None:
        self.kind, self.folder, self.url = kind, folder, url
        self.lasts = kind != "memory"

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of a configuration."""
        if self.kind == "postgres":
            return {"journal": {}, "state": {}, "stores": {"postgres": self.url}}
        paths = {name: "memory" if self.kind == "memory" else str(self.path(name)) for name in ("journal", "state")}
        return {name: {"path": path} for name, path in paths.items()}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.sqlite"

    @contextmanager
    def open(self, *replies: Any, **more: Any) -> Generator[Inspected]:
        """A gateway with its inspector. Tables of the configuration go over those of the place."""
        tables = self.tables
        for name, fields in tables.items():
            more[name] = {**fields, **more.get(name, {})}
        with inspected(*replies, data=self.folder, **more) as running:
            yield running

    def run(self, query: str, values: Sequence[Any] = (), file: str = "journal") -> list[tuple[Any, ...]]:
        """Runs a statement, in the file with this name or in PostgreSQL."""
        if self.kind == "postgres":
            with psycopg.connect(self.url, autocommit=True, options="-c search_path=penstock") as connection:
                cursor = connection.execute(query.replace("?", "%s").encode(), values or None)
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.path(file), timeout=LIMIT)) as opened, opened:
            return opened.execute(query, values).fetchall()

    def ids(self) -> list[str]:
        """The turns in the journal, the oldest first."""
        return [row[0] for row in self.run("SELECT request_id FROM turns ORDER BY id")]

    def wait_for(self, *ids: str) -> None:
        """Waits until the journal has these turns, each once."""
        until(lambda: set(ids) <= set(self.ids()), f"{ids} in the journal")
        found = self.ids()
        assert len(found) == len(set(found))

    def clone_turns(self, facts: Sequence[Mapping[str, Any]]) -> None:
        """Adds copies of the first turn, each with facts of its own. `request_id` is among them."""
        names = self._columns()
        quoted = ", ".join(f'"{name}"' for name in names)
        (template,) = self.run(f"SELECT {quoted} FROM turns ORDER BY id LIMIT 1")  # noqa: S608
        values = [[{**dict(zip(names, template, strict=True)), **one}[name] for name in names] for one in facts]
        query = f"INSERT INTO turns ({quoted}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        if self.kind == "postgres":
            with psycopg.connect(self.url, autocommit=True, options="-c search_path=penstock") as connection:
                connection.cursor().executemany(query.replace("?", "%s").encode(), values)
            return
        with closing(sqlite3.connect(self.path("journal"), timeout=LIMIT)) as opened, opened:
            opened.executemany(query, values)

    def _columns(self) -> list[str]:
        if self.kind == "postgres":
            rows = self.run("SELECT column_name FROM information_schema.columns WHERE table_name = 'turns' ORDER BY 1")
            return [name for (name,) in rows if name != "id"]
        return [row[1] for row in self.run("PRAGMA table_info(turns)") if row[1] != "id"]

    def usage(self, *words: str) -> Any:
        """What `penstock usage` says."""
        config = self.folder / "usage.toml"
        path = f'[journal]\npath = "{self.path("journal")}"\n'
        config.write_text(f'[stores]\npostgres = "{self.url}"\n' if self.kind == "postgres" else path)
        given: dict[str, Any] = {"PENSTOCK_DATA": str(self.folder)}
        done = inside("usage", "--json", "--config", str(config), *words, **given)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def turn(running: Any, model: str = "openai-chat/text", text: str = "Hi.", **more: Any) -> str:
    """One turn, to its end. Returns its id."""
    headers = {"content-type": "application/json", **more.pop("headers", {})}
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    content = json.dumps(body)  # with escapes: half a surrogate is sent as one
    reply = post(f"{running.url}/v1/chat/completions", content=content, headers=headers)
    return str(reply.headers["x-request-id"])


def history(running: Any, q: str = "", **more: Any) -> Any:
    """The page of turns that a query finds."""
    headers = more.pop("headers", None)
    reply = get(f"{running.url}/inspector/turns", params={"q": q, **more}, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


def found(running: Any, q: str = "", **more: Any) -> list[str]:
    """The ids of the turns that a query finds."""
    return [row["id"] for row in history(running, q, **more)["rows"]]


@contextmanager
def full_disk(size: int = 4096) -> Generator[None]:
    """No file of this process can grow beyond this, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
