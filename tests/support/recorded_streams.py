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


def all_shards(size: int) -> list[Any]:
    """Parameters of about equally much work, so that no worker is left with all of it."""
    made: list[Any] = []
    for protocol in SOURCES:
        groups: list[list[Entry]] = [[]]
        for entry in corpus.streams(protocol):
            if sum(one.path.stat().st_size for one in groups[-1]) > size:
                groups.append([])
            groups[-1].append(entry)
        made += [pytest.param(group, id=f"{protocol}-{number}") for number, group in enumerate(groups) if group]
    return made or [pytest.param([], id="none")]
