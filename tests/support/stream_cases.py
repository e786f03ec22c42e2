"""The golden cases: one folder each, `tests/streams/<protocol>/<case>/`, which holds

- `about.toml`: what = "…"; optional options = {…} of the decoder, diagnostics = [codes],
  source = "aisdk@5" where the folder's name is not enough, targets = {<protocol> = {options}};
- `wire.<framing>`, the bytes as sent: sse, ndjson, jsonarray, eventstream, or json for an answer that is no stream;
- `events.jsonl`, the canonical events they mean, and `to-<protocol>.*`, what that target is sent.
"""

from __future__ import annotations

import tomllib
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.events import AnyEvent
from tests.support import run_streams as running
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.framing import Frame

FOLDER = TESTS / "streams"
WHOLE = "json"
_read = msgspec.json.Decoder(AnyEvent).decode
_write = msgspec.json.Encoder().encode


class Case:
    """One folder. `source` names the protocol it is read as."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = f"{path.parent.name}/{path.name}"
        (self.wire,) = path.glob("wire.*")
        self.framing = self.wire.suffix[1:]

    @cached_property
    def about(self) -> dict[str, Any]:
        return tomllib.loads((self.path / "about.toml").read_text())

    @property
    def protocol(self) -> str:
        """The folder it lies in, which is its protocol without a version."""
        return self.path.parent.name

    @property
    def source(self) -> str:
        return str(self.about.get("source", self.protocol))

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.about.get("options", {}))

    @property
    def streamed(self) -> bool:
        return self.framing != WHOLE

    @cached_property
    def body(self) -> bytes:
        return self.wire.read_bytes()

    @cached_property
    def frames(self) -> list[Frame]:
        return running.frames_of(self.body, self.framing)

    @property
    def book(self) -> Path:
        return self.path / "events.jsonl"

    @cached_property
    def _expected(self) -> list[AnyEvent]:
        return [_read(line) for line in self.book.read_bytes().splitlines() if line.strip()]

    def expected(self) -> list[AnyEvent]:
        return list(self._expected)

    def decoded(self) -> list[AnyEvent]:
        if self.streamed:
            return running.decode(self.source, self.body, self.framing, self.options)
        return running.decode_body(self.source, self.body, self.options)

    def outputs(self) -> dict[str, Path]:
        """Target to the file with what it is sent."""
        return {path.stem.removeprefix("to-"): path for path in sorted(self.path.glob("to-*"))}

    def written(self, target: str, events: list[AnyEvent], *, slowly: bool = False) -> bytes:
        """What the target is sent for events, all at once or one at a time."""
        write = running.write_slowly if slowly else running.write
        return write(target, events, self.about.get("targets", {}).get(target))


def lines(events: Iterable[AnyEvent]) -> bytes:
    """Events as a case keeps them."""
    return b"".join(_write(event) + b"\n" for event in events)


@cache
def _cases(protocol: str) -> tuple[Case, ...]:
    folder = FOLDER / protocol
    return tuple(Case(path) for path in sorted(folder.iterdir())) if folder.is_dir() else ()


def cases(protocol: str | None = None) -> list[Case]:
    """All cases of the protocols there are, in order."""
    return [case for name in running.NAMES if protocol in {None, name} for case in _cases(name)]
