"""Requests of the AI SDK held against the SDK itself.

What a page posts must become the model messages that the SDK would make of it; what we write must be taken as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import request as rq
from tests.oracles.node.oracle import UI_VERSIONS, Oracles, Version
from tests.support import request_protocols as requesting
from tests.support.each_case import each
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

SINCE: dict[str, Version] = {"uistream-page": 7, "uistream-approval": 7}
"""Cases with parts that older versions do not know."""
PAGES = [case for case in cases() if case.source == "uistream" and case.id != "uistream-version4"]


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


def said(request: rq.Request) -> list[Any]:
    """Roles and parts, without state and without what model messages have no part for."""
    rows: list[Any] = []
    for message in request.messages:
        parts = [part for part in message.parts if not isinstance(part, rq.Source | rq.Opaque)]
        bare = [
            {key: value for key, value in msgspec.to_builtins(part).items() if key not in ("extra", "cache")}
            for part in parts
        ]
        rows += [(message.role, bare)] if bare else []
    return rows


@each("ai", UI_VERSIONS)
def test_pages_messages_become_what_the_sdk_makes_of_them(oracles: Oracles, ai: Version) -> None:
    known = [case for case in PAGES if SINCE.get(case.id, 5) <= ai]
    bodies = [case.body("uistream") for case in known]
    bodies += [one.body for one in requesting.recorded("uistream")]
    theirs = oracles.model_messages(ai, [body["messages"] for body in bodies])
    for body, messages in zip(bodies, theirs, strict=True):
        assert said(requesting.read("uistream", body)) == said(requesting.read("aisdk", {"messages": messages}))


@each("ai", UI_VERSIONS)
def test_the_sdk_takes_what_is_written(oracles: Oracles, ai: Version) -> None:
    golden = [case.read() for case in cases() if case.source != "aisdk"]
    some = [one for source in requesting.MAIN for one in requesting.recorded(source)[::25]]
    requests = golden + [requesting.read(one.protocol, one.body) for one in some]
    models = [
        requesting.write("aisdk", request, requesting.quirks("aisdk", version=ai)).body["messages"]
        for request in requests
    ]
    refused = [place for place, found in enumerate(oracles.refused(ai, models)) if found]
    assert refused == []
