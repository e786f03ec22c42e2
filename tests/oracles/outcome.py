"""The neutral form in which oracles answer, and the shelter that keeps an SDK's exception inside an answer."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Call = tuple[str | None, str, Any]
"""Id, name, and arguments: parsed where they are JSON, `{}` where there are none, the raw text where they are neither."""

Link = tuple[str | None, str | None]
"""Url and title of a source; a document has no url."""


class Outcome(msgspec.Struct, kw_only=True):
    """What one message said, in one oracle's reading. Of several choices, the one with index 0.

    `calls` are those the client must run. An SDK cannot say that a call was cut short: where `finish` tells of a length
    limit, the last one may be half a call. `sources` are citations of the text, `found` what a provider-run search
    brought back. `input` and `output` are the provider's own numbers, nothing added; `usage` is the object around them.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Call] = []
    sources: list[Link] = []
    found: list[Link] = []
    finish: str | None = None
    input: int | None = None
    output: int | None = None
    usage: dict[str, Any] = {}
    error: str | None = None
    """What the provider said went wrong."""
    failed: str | None = None
    """What the oracle itself died of: its defect, no statement about the stream."""

    def link(self, url: str | None, title: str | None) -> None:
        if (url, title) not in self.sources:
            self.sources.append((url, title))

    def counted(self, usage: dict[str, Any] | None, input: str, output: str) -> None:
        if usage:
            self.usage, self.input, self.output = usage, usage.get(input), usage.get(output)


def arguments(raw: str | None) -> Any:
    if not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def outcome_of(read: Callable[[bytes, Outcome], None], body: bytes) -> Outcome:
    """What a reader makes of a body, or that it failed."""
    outcome = Outcome()
    with sheltered(outcome):
        read(body, outcome)
    return outcome


@contextmanager
def sheltered(outcome: Outcome) -> Iterator[None]:
    """Turn whatever an SDK throws into `outcome.failed`; its warnings are its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:  # noqa: BLE001  (an oracle's defect is data: the tests count and list them)
            head = (str(error).strip().splitlines() or [""])[0]
            outcome.failed = f"{type(error).__name__}: {head[:160]}"
