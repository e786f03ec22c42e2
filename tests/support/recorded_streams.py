"""The recorded streams as penstock reads them: which protocol an entry is, and its frames and events.

Leans on `tests.support.corpus` for what there is. Where the corpus is absent, lists are empty and tests skip by its one reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import corpus
from tests.support import run_streams as running

if TYPE_CHECKING:
    from tests.support.corpus import Entry
    from tests.support.run_streams import Run

SOURCES = {
    "openai-chat": "openai-chat", "mistral": "openai-chat", "anthropic-messages": "anthropic",
    "openai-responses": "responses", "gemini": "gemini", "gemini-interactions": "gemini",
    "bedrock-converse": "bedrock", "cohere": "cohere", "ollama": "ollama", "openai-completions": "completions",
    "ai-sdk-full-stream": "aisdk", "ai-sdk-ui-stream": "uistream",
}  # fmt: skip
"""The corpus's word for a protocol to ours."""

MISFILED = {
    "openai-responses/azure/vercel-ai.azure.azure-deepseek-reasoning.1.response.json": "openai-chat",
}
"""Recordings that lie under another protocol's name than their own."""


def source(entry: Entry) -> str:
    return MISFILED.get(entry.name) or SOURCES[entry.protocol]


def read(entry: Entry) -> Run:
    """The stream, in one piece."""
    return running.run(SOURCES[entry.protocol], running.batches([entry.body]))


def error_of(entry: Entry) -> dict[str, Any]:
    """The body of a failed request, out of the envelope that the corpus keeps it in."""
    return dict(json.loads(entry.body)["body"])


def packed(value: Any) -> bytes:
    return json.dumps(value).encode()


def shards(entries: list[Entry], size: int, one_of: int = 1) -> list[Any]:
    """Parameters of about equally much work, so that no worker is left with all of it.

    One of so many runs in `make test`, the others in `make nightly`.
    """
    groups: list[list[Entry]] = [[]]
    room = size
    for entry in entries:
        room -= entry.path.stat().st_size
        groups[-1].append(entry)
        if room < 0:
            groups.append([])
            room = size
    named = [
        pytest.param(
            group,
            id=f"{group[0].protocol}-{number}",
            marks=() if number % one_of == 0 else pytest.mark.nightly,
        )
        for number, group in enumerate(groups)
        if group
    ]
    return named or [pytest.param([], id="none")]


def all_shards(size: int, one_of: int = 1) -> list[Any]:
    return [one for protocol in SOURCES for one in shards(corpus.streams(protocol), size, one_of)]
