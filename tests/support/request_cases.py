"""The golden requests: a folder each below `tests/requests`, which a test reads and `tests.support.rewrite_requests` writes.

`about.toml`: `what` it shows, `source`, and under `[findings]` the
codes that each target reports. `<source>.json` is the body as sent, `canonical.json` what it means, and `<target>.json`
what any other protocol is sent for it. `mended.json` is there if the source is not sent its own body again.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.request import Request
from tests.support import request_protocols as requesting
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._request_writer import RequestDraft

HOME = TESTS / "requests"


@dataclass(frozen=True)
class Case:
    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @cached_property
    def about(self) -> dict[str, Any]:
        return tomllib.loads((self.path / "about.toml").read_text())

    @property
    def source(self) -> str:
        return str(self.about["source"])

    @property
    def targets(self) -> list[str]:
        """The protocols that have a file here, the source among them."""
        return sorted({path.stem for path in self.path.glob("*.json")} - {"canonical", "mended"})

    def body(self, protocol: str) -> Any:
        return json.loads((self.path / f"{protocol}.json").read_bytes())

    def wanted(self, protocol: str) -> Any:
        """What a protocol is sent: its own body, unless that is mended."""
        mended = self.path / "mended.json"
        return self.body("mended" if protocol == self.source and mended.exists() else protocol)

    def read(self) -> Request:
        """What the source's body means, by the code."""
        return requesting.read(self.source, self.body(self.source))

    def canonical(self) -> Request:
        """What it means, by the file."""
        return msgspec.json.decode((self.path / "canonical.json").read_bytes(), type=Request)

    def written(self, target: str) -> RequestDraft:
        """What a target is sent, by the code."""
        return requesting.write(target, self.canonical())

    def findings(self, target: str) -> list[str]:
        found: list[str] = self.about.get("findings", {}).get(target, [])
        return found


def cases() -> list[Case]:
    return [Case(path.parent) for path in sorted(HOME.glob("*/about.toml"))]


def pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
