"""What every provider asks of a request, and what a client may expect of it: held against what `convert` makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock.messages import profile_of
from tests.support import request_contents

if TYPE_CHECKING:
    from penstock.messages import Converted


def lawful(request: rq.Request, *, named: bool = True) -> None:
    """Every call has an id of its own and is answered once, in the messages right behind; nothing else is answered."""
    waiting: dict[str, rq.Call] = {}
    seen: set[str] = set()
    for message in request.messages:
        if message.role == "tool":
            for part in message.parts:
                assert isinstance(part, rq.Result)
                found = waiting.pop(part.call)
                assert part.form == found.form
                assert part.name == found.name or not named
            continue
        assert not waiting
        for part in message.parts:
            if isinstance(part, rq.Call) and part.by == "client":
                assert part.id
                assert part.id not in seen
                assert not part.cut
                seen.add(part.id)
                waiting[part.id] = part
    assert not waiting


def fits(made: Converted, target: str) -> None:
    """What every provider asks of a request."""
    profile = profile_of(target)
    lawful(made.request, named=profile.answers)
    for message in made.request.messages:
        for part in message.parts:
            if isinstance(part, rq.Call) and part.by == "client":
                assert not profile.ids.strict or profile.ids.fits(part.id)
                assert not profile.names.strict or profile.names.fits(part.name)
                assert profile.custom or part.form == "json"
    for tool in made.request.tools:
        assert tool.kind not in ("function", "custom") or not profile.names.strict or profile.names.fits(tool.name)
    spoken = [message for message in made.request.messages if message.role != "system"]
    assert not profile.opens or not spoken or spoken[0].role != "assistant"
    json.dumps(made.body)


def called(made: Converted, target: str) -> list[tuple[str, Any]]:
    """The calls of a body in order, under the names that the client knows."""
    known = made.restore.names
    return [
        (known[name].name if name in known else name, _plain(given))
        for turn in request_contents.turns(target, made.body)
        for id, name, given in turn.calls  # noqa: A001 — as everybody calls it
        if not id.startswith(("ran_", "ran-"))
    ]


def asked(request: rq.Request) -> list[tuple[str, Any]]:
    """The calls that a client told of, in order, but for those that nobody made whole."""
    return [
        (part.name, _plain(request_contents.value(part.json or "{}")))
        for message in request.messages
        for part in message.parts
        if isinstance(part, rq.Call) and part.by == "client" and not part.cut
    ]


def _plain(given: Any) -> Any:
    """An input, whichever way it went: free text and broken JSON are the one string of an object."""
    if isinstance(given, dict) and given.keys() in ({"input"}, {"ps:json"}):
        given = next(iter(given.values()))
    return request_contents.value(given)
