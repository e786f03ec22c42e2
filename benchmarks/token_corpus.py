"""Recorded requests with the input tokens that their providers reported, as canonical Requests.

Any folder laid out like the corpus will do: `tokens.json` lists the entries, each with the meta file that holds its
request. Leans on penstock's own request readers: what is counted is what they read.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._protocols import request_module
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.request import Request

READERS = {
    "openai-chat": "openai-chat", "mistral": "openai-chat", "anthropic-messages": "anthropic",
    "openai-responses": "responses", "gemini": "gemini", "gemini-interactions": "gemini",
    "bedrock-converse": "bedrock", "cohere": "cohere", "ollama": "ollama", "openai-completions": "completions",
}  # fmt: skip
_NAMED = re.compile(r"/models?/([^/:?]+)")


@dataclass(frozen=True)
class Sample:
    """One request and what it came to."""

    name: str
    request: Request = field(repr=False)
    body: Any = field(repr=False)
    actual: int
    model: str
    provider: str
    protocol: str
    family: str
    group: str
    media: bool
    answer: Path = field(repr=False)
    wire: str | None = None

    @property
    def images(self) -> bool:
        return self.media


def load(folder: Path) -> list[Sample]:
    """All entries of a folder's tokens.json, in its order; one that cannot be read is named and left out."""
    found: list[Sample] = []
    for row in json.loads((folder / "tokens.json").read_bytes()):
        try:
            found.append(_sample(folder, row))
        except (PenstockError, OSError, KeyError) as error:
            print(f"{row.get('meta')} cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def _sample(folder: Path, row: dict[str, Any]) -> Sample:
    path = folder / row["meta"]
    meta = json.loads(path.read_bytes())
    body = meta["request"]
    if isinstance(body, dict) and isinstance(body.get("body"), dict):
        body = body["body"]
    request = read(row["protocol"], body)
    named = _NAMED.search(meta.get("url") or "")
    return Sample(
        name=row["meta"], request=request, body=body, actual=int(row["input_tokens"]),
        model=row["model"] or request.model or (named[1] if named else ""), provider=row["provider"],
        protocol=row["protocol"], family=row["family"], group=row["group"], media=bool(row["media"]),
        answer=path.with_name(meta.get("data_file") or path.name), wire=meta.get("wire"),
    )  # fmt: skip


def read(protocol: str, body: Any) -> Request:
    """The body as its protocol's reader takes it."""
    module = request_module(READERS[protocol], "read") or ""
    request: Request = import_module(module).read_request(body)
    return request
