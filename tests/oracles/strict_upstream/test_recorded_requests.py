"""Requests of real clients are accepted, as their vendors accepted them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles.strict_upstream.valid_requests import read
from tests.support import request_protocols as requesting
from tools.strict_upstream.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOLS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
# These continue a response of an earlier run, which a vendor would find in its store.
STORED = {"ai5-openai-responses/tool/002", "openai-py-responses/text/003"}
# Fields that Mistral and Qwen have and OpenAI has not: `name` of a result, `index` of a call, `reasoning_content`.
OTHER_VENDORS = {"ai7-mistral/tool/002", "mistral-py/tool/002", "qwen/reason/002"}


def protocol_of(url: str) -> str:
    """The protocol of an address; nothing for embeddings and the like."""
    path = url.partition("?")[0]
    if path.endswith(("enerateContent",)):
        return "gemini"
    return next((name for end, name in PROTOCOLS.items() if path.endswith(end)), "")


def test_requests_of_real_clients_are_accepted() -> None:
    root: Path = requesting.root()
    if not root.exists():
        pytest.skip("corpus absent: no recorded requests")
    count, refused = 0, []
    for place in sorted(root.glob("*/*/*.json")):
        recorded: dict[str, Any] = json.loads(place.read_text())
        protocol = protocol_of(recorded["url"])
        if not protocol:
            continue
        count += 1
        try:
            read(protocol, recorded["body"], "gemini-2.5-pro")
        except Refusal as error:
            name = f"{place.parent.parent.name}/{place.parent.name}/{place.name[:3]}"
            if name not in STORED | OTHER_VENDORS:
                refused.append(f"{name}: {error}")
    assert refused == []
    assert count > 100
