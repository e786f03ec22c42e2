"""The clients that need something special, recognised by their headers: rows of `clients.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What a client needs. `headers`: name → pattern, all of which must be found for it to be this one."""

    name: str
    title: str
    headers: dict[str, str] = {}
    models: Literal["openai", "anthropic", "mistral", "gemini", "ollama"] = "openai"  # the shape of the list of models
    whole_calls: bool = False  # a tool call comes in one chunk, name and all
    thinking: bool = False  # reasoning comes among the content of a chat, as Mistral writes it
    tool_index: bool = True  # every call in a chunk says its place
    websockets: bool = False  # it may ask for Responses over a WebSocket
    reads_reasoning: bool = True  # it shows reasoning, where its protocol has a word for it
    unknown_chunks: bool = True  # it passes over what it does not know; otherwise that ends its stream
    comments: bool = True  # a keepalive may be an SSE comment
    crlf: bool = True  # it reads frames that end in CR LF
    repeats_whole: bool = False  # on a fault in mid-stream it asks again without streaming
    dangling_usage: bool = True  # a last chunk may hold usage and no choice
    embedding_id: bool = False  # an answer of embeddings has an id
    notes: str = ""


def clients() -> Mapping[str, Client]:
    """All rows by name, in the order in which they are tried."""
    return _table()


def client(headers: Mapping[str, str]) -> Client:
    """The client that sends these headers; the plain one where nobody is recognised."""
    given = {name.lower(): value for name, value in headers.items()}
    for row in _table().values():
        if row.headers and all(re.search(pattern, given.get(name, "")) for name, pattern in row.headers.items()):
            return row
    return PLAIN


PLAIN = Client(name="", title="any client")


@cache
def _table() -> Mapping[str, Client]:
    rows = tomllib.loads(files("penstock.providers").joinpath("clients.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert({**row, "name": name}, Client) for name, row in rows.items()}
