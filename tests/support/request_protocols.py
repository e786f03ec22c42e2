"""Requests in tests: which protocols read and write them, and what real clients and suites have sent.

Leans on `tests.support.corpus`. Recorded requests lie in two places: beside the answers of the corpus, and in a folder of their
own that `PENSTOCK_REQUESTS` names, else the one beside the project. Where they are absent, tests skip by one reason.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import _protocols as protocols
from penstock._protocols import MODULES, request_module
from tests.support import corpus
from tests.support.paths import PROJECT
from tests.support.recorded_streams import SOURCES

if TYPE_CHECKING:
    from penstock._request_writer import RequestDraft
    from penstock.errors import BadRequest
    from penstock.events import Fault
    from penstock.request import Request

MAIN = ("openai-chat", "responses", "anthropic", "gemini")
"""The four between which nothing that a conversation needs may get lost."""
RECORDED = (
    "openai-chat", "responses", "anthropic", "gemini", "bedrock", "cohere", "ollama", "completions", "uistream",
)  # fmt: skip
"""Those of which requests were recorded."""
PATHS = {
    "_v1_chat_completions": "openai-chat", "_v1_messages": "anthropic", "_v1_messages_count_tokens": "anthropic",
    "_v1_responses": "responses", "streamGenerateContent": "gemini", "generateContent": "gemini",
    "_api_chat": "uistream",
}  # fmt: skip
"""How the name of a recorded request ends, and whose it is."""


@dataclass(frozen=True)
class Recorded:
    """One request that somebody sent."""

    name: str
    protocol: str
    path: Path

    @property
    def body(self) -> Any:
        whole = json.loads(self.path.read_bytes())
        if self.path.name.endswith(".meta.json"):
            whole = whole["request"]
        return whole["body"] if isinstance(whole, dict) and isinstance(whole.get("body"), dict) else whole


READERS = tuple(name for name in MODULES if request_module(name, "read"))
WRITERS = tuple(name for name in READERS if request_module(name, "write"))
"""Those whose requests can be read and written: what a protocol needs to take part in the round trips."""


def module(name: str, direction: str) -> Any:
    found = request_module(name, direction)
    assert found, f"{name} has no module to {direction} requests"
    return import_module(found)


def read(name: str, body: Any) -> Request:
    made: Request = module(name, "read").read_request(body)
    return made


def write(name: str, request: Request, quirks: Any = None) -> RequestDraft:
    made: RequestDraft = module(name, "write").write_request(request, quirks)
    return made


def quirks(name: str, **fields: Any) -> Any:
    """What one provider of a protocol does differently."""
    return module(name, "write").Quirks(**fields)


def error_body(name: str, error: Fault | BadRequest) -> Any:
    """What a client of a protocol gets instead of an answer."""
    return json.loads(protocols.error_body(name, error))


def losses(name: str) -> dict[str, str]:
    return dict(module(name, "write").LOSSES)


def lacks(name: str) -> dict[str, str]:
    """What only some providers cannot say, as their quirks have it."""
    return dict(getattr(module(name, "write"), "LACKS", {}))


def root() -> Path:
    named = os.environ.get("PENSTOCK_REQUESTS")
    return Path(named) if named else PROJECT.parent / "shared" / "recorded-requests"


@cache
def recorded(protocol: str) -> tuple[Recorded, ...]:
    """All recorded requests of a protocol; none where there are no recordings."""
    found = [
        Recorded(entry.name, protocol, meta)
        for entry in corpus.entries()
        if SOURCES.get(entry.protocol) == protocol
        and (meta := entry.path.with_name(entry.path.name.removesuffix(entry.path.suffix) + ".meta.json")).exists()
        and b'"request"' in meta.read_bytes()
    ]
    for path in sorted(root().glob("*/*/*.json")):
        ending = path.stem.partition("-POST-")[2]
        whose = next((ours for end, ours in PATHS.items() if ending.endswith(end)), None)
        if whose == protocol:
            found.append(Recorded("/".join(path.parts[-3:]), protocol, path))
    return tuple(one for one in found if isinstance(one.body, dict))


def recorded_or_skip(protocol: str) -> tuple[Recorded, ...]:
    found = recorded(protocol)
    if not found:
        pytest.skip(f"corpus absent: no recorded requests of {protocol}")
    return found
