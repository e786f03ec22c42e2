"""What tests ask an inspector: turns that are sent through its gateway, and what is shown of them."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.event_feed import bearer, ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.inspector import Inspected

CLIENT = httpx.Client(timeout=20, verify=False, trust_env=False)  # noqa: S501 — loopback; one keeps its connections
FORMS = ("curl", "penstock", "openai", "anthropic", "aisdk")  # of copied requests


def say(gateway: Inspected, text: Any = "Hello", key: str = "", model: str = "openai-chat/text", **fields: Any) -> str:
    """Sends a chat with one message, or with these, and returns the turn's id when the gateway is through with it."""
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    body = {"model": model, "stream": True, "messages": messages, **fields}
    return send(gateway, "/v1/chat/completions", json.dumps(body, ensure_ascii=False).encode(), key)


def send(gateway: Inspected, path: str, body: bytes, key: str = "", **headers: str) -> str:
    """Sends any request, and returns the turn's id."""
    given = {"content-type": "application/json", **headers, **(bearer(key) if key else {})}
    raw = [(header.encode(), value.encode("latin-1")) for header, value in given.items()]
    name: str = CLIENT.post(gateway.url + path, content=body, headers=raw).headers["x-request-id"]
    ended(gateway, name)
    return name


def view(gateway: Inspected, place: str, key: str = "", **params: Any) -> Any:
    """What the inspector answers at a place; it must be an answer."""
    reply = ask_inspector(gateway, place, key, **params)
    assert reply.status_code == 200, f"{place}: {reply.text[:500]}"
    return reply.json()


def ask_inspector(gateway: Inspected, place: str, key: str = "", **params: Any) -> httpx.Response:
    return CLIENT.get(f"{gateway.url}/inspector/{place}", params=params or None, headers=bearer(key) if key else None)


def trace_of(gateway: Inspected, name: str, key: str = "", **params: Any) -> Any:
    return view(gateway, f"turns/{name}", key, **params)


def lost(gateway: Inspected, name: str, key: str = "") -> str:
    """Why there is no content of a turn; empty if there is."""
    return str(trace_of(gateway, name, key).get("lost", ""))


def found(gateway: Inspected, q: str, key: str = "") -> set[str]:
    """The turns that a search finds."""
    return {row["id"] for row in view(gateway, "turns", key, q=q, limit=1_000)["rows"]}


def phrase(gateway: Inspected, words: str, key: str = "") -> set[str]:
    """The turns that hold these words in this order."""
    return found(gateway, json.dumps(words, ensure_ascii=False), key)


def delete(gateway: Inspected, place: str = "turns", key: str = "") -> httpx.Response:
    url, headers = f"{gateway.url}/inspector/{place}", bearer(key) if key else {}
    return CLIENT.delete(url, headers=headers)


def switch(gateway: Inspected, key: str = "", **fields: bool) -> httpx.Response:
    headers = bearer(key) if key else None
    return CLIENT.post(f"{gateway.url}/inspector/keeping", json=fields, headers=headers)


def until(told: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something is so, of which nothing tells; what it is then."""
    ends, pause = time.monotonic() + seconds, threading.Event()
    while not (found := told()):
        assert time.monotonic() < ends
        pause.wait(0.01)
    return found


def file_text(folder: Path) -> str:
    """Everything that the database files of a folder hold: as bytes, and what is packed in them."""
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    for path in folder.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 — the file's own names
                    found += [_unpacked(value) for value in row]
    return "\n".join(one.decode("latin-1") for one in found)


def _unpacked(value: Any) -> bytes:
    if not isinstance(value, bytes):
        return str(value).encode()
    with suppress(zlib.error):
        return zlib.decompress(value)
    return value
