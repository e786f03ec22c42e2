"""The recorded streams: where they are, what there is, and one clear word where there are none.
Any folder laid out the same way will do: `PENSTOCK_CORPUS` names it, else the folder beside the project is taken.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from tests.oracles import wire
from tests.support import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROJECT = paths.PROJECT


@dataclass(frozen=True)
class Entry:
    """One recording: a stream, a whole response, an error body or a lone request."""

    name: str
    """Path below the corpus, which is also how a test names it."""
    path: Path
    kind: str
    protocol: str
    provider: str
    model: str | None
    wire: str | None
    features: frozenset[str]
    oddities: frozenset[str]
    provenance: str | None
    status: int | None

    @property
    def body(self) -> bytes:
        return self.path.read_bytes()

    @property
    def messages(self) -> int:
        """How many messages the body holds, as the index has it."""
        odd = next((o for o in self.oddities if o.startswith("concatenated-messages(")), None)
        return int(odd.removeprefix("concatenated-messages(").removesuffix(")")) if odd else 1

    def payloads(self) -> Iterator[Any]:
        """A stream's JSON payloads, or the one document of anything else."""
        if self.wire is None:
            whole = wire.parsed(self.body.decode(errors="replace"))
            return iter(() if whole is None else (whole,))
        return wire.payloads(self.path, self.wire)

    def events(self) -> bytes:
        """The stream as server-sent events, whatever frames it was recorded in; recorded SSE stays as it was."""
        if self.wire == "sse":
            return self.body
        return wire.rewrap(list(self.payloads()), named=self.protocol == "anthropic-messages")

    @cached_property
    def meta(self) -> dict[str, Any]:
        return _json(self._beside(".meta.json")) or {}

    @cached_property
    def expected(self) -> dict[str, Any] | None:
        return _json(self._beside(".expected.json"))

    @property
    def request(self) -> Any:
        return self.meta.get("request")

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name.removesuffix(self.path.suffix) + suffix)


def _json(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_bytes()) if path.exists() else None


def root() -> Path:
    named = os.environ.get("PENSTOCK_CORPUS")
    return Path(named) if named else PROJECT.parent / "shared" / "corpus"


def absent_reason() -> str | None:
    """Why there is no corpus, or None where there is one."""
    if (root() / "index.json").is_file():
        return None
    where = "PENSTOCK_CORPUS" if os.environ.get("PENSTOCK_CORPUS") else "the folder beside the project"
    return f"corpus absent: {where} holds no index.json"


def corpus_or_skip() -> Path:
    reason = absent_reason()
    if reason:
        pytest.skip(reason)
    return root()


def entries(kind: str | None = None, protocol: str | None = None) -> list[Entry]:
    """Entries of a kind and a protocol; nothing where there is no corpus."""
    if absent_reason():
        return []
    return [e for e in _load(root()) if kind in {None, e.kind} and protocol in {None, e.protocol}]


def streams(protocol: str | None = None) -> list[Entry]:
    return entries("stream", protocol)


SHARES = pytest.mark.parametrize("share", [3, pytest.param(1, id="all", marks=pytest.mark.nightly)])
"""For tests that take long: one of three recordings in `make test`, all of them in `make nightly`."""


def take_share(found: Iterable[Entry], share: int) -> list[Entry]:
    """One of so many entries, the same every time."""
    return [entry for entry in found if crc32(entry.name.encode()) % share == 0]


def responses(protocol: str | None = None) -> list[Entry]:
    return entries("response", protocol)


def errors(protocol: str | None = None) -> list[Entry]:
    return entries("error", protocol)


def requests(protocol: str | None = None) -> list[Entry]:
    return entries("request", protocol)


@cache
def _load(where: Path) -> tuple[Entry, ...]:
    return tuple(_entry(where, row) for row in json.loads((where / "index.json").read_bytes())["entries"])


def _entry(where: Path, row: dict[str, Any]) -> Entry:
    return Entry(
        name=row["file"],
        path=where / row["file"],
        kind=row["kind"],
        protocol=row["protocol"],
        provider=row["provider"],
        model=row.get("model"),
        wire=row.get("wire"),
        features=frozenset(row.get("features") or ()),
        oddities=frozenset(row.get("oddities") or ()),
        provenance=row.get("provenance"),
        status=row.get("http_status"),
    )
