"""Both engines over the same upstream bytes, and what may differ between them: the written list of SDK defects.

`tests/data/sdk_defects.toml` names each defect and the recordings that show it; docs/engines.md tells of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import ProviderError
from tests.support.paths import TESTS
from tests.wire.engines.router_setup import ENGINES, asking, events, quick

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import events as ev
    from penstock._engines.router import Router
    from penstock.testing import Reply, Upstream

DEFECTS: dict[str, Any] = tomllib.loads((TESTS / "data/sdk_defects.toml").read_text())
# protocol of the corpus → the provider whose SDK reads it, and the operation
SPOKEN = {
    "openai-chat": ("openai", "chat"),
    "openai-responses": ("openai", "responses"),
    "anthropic-messages": ("anthropic", "chat"),
    "gemini": ("gemini", "chat"),
}
_MINTED = re.compile(r"\b(call|run)_[0-9a-f]{8,16}_")


def defect(name: str) -> str:
    """The defect that a recording is listed under, or nothing."""
    return next((code for code, row in DEFECTS.items() if name in row["entries"]), "")


def listed(protocol: str) -> set[str]:
    return {name for row in DEFECTS.values() for name in row["entries"] if name.startswith(f"{protocol}/")}


async def both(way: Router, up: Upstream, reply: Reply, provider: str, operation: str, *, stream: bool) -> list[Any]:
    """What each engine makes of a reply: events, or an error's own words."""
    up.script(reply)
    made: list[Any] = []
    for engine in ENGINES:
        try:
            found = await way.open(asking(provider, stream=stream), operation, engine=engine, options=quick())
            assert found.engine == engine, found.record.lines()
            made.append(evened(await events(found)))
        except ProviderError as error:
            made.append((type(error), error.message, error.code, error.status, error.request_id, error.retry_after))
    return made


def evened(found: Iterable[ev.AnyEvent]) -> list[Any]:
    """What no SDK hands on is left out: the order of keys in raw JSON, and the bytes that our own ids are made of."""
    return [_evened(event) for event in found]


def _evened(event: Any) -> Any:
    value = msgspec.to_builtins(event)
    if "json" in value:
        value["json"] = _parsed(value["json"])
    return json.loads(_MINTED.sub(r"\1_minted_", json.dumps(value)))


def _parsed(raw: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw
