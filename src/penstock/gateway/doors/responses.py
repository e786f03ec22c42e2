"""Responses: a turn as HTTP or a WebSocket asks for it. What is stored is answered for in `stored`.

A request that goes on from an earlier response is given all that was said before; its answer is kept unless the
request says `store: false`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.gateway.doors.door import PLAYED, Asked, Door
from penstock.gateway.doors.responses_echo import settings
from penstock.gateway.doors.responses_keep import Keeping
from penstock.gateway.doors.responses_past import PREVIOUS, refused, told
from penstock.messages.request_codecs import reader
from penstock.protocols.responses.body import DEFAULTS
from penstock.store.key_value import Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.doors.door import Visit
    from penstock.gateway.doors.responses_past import Memory, Told
    from penstock.pick import Object

ELSEWHERE = ("elsewhere",)  # a row that there is none of: what stands before is its provider's to know
OURS = ("background", "generate", "stream_id", "type")  # what no provider is told


async def read_responses(visit: Visit) -> Asked:
    """`POST /v1/responses`."""
    body = await visit.offload(visit.body)
    known = await known_of(visit, body)
    keep = Keeper(visit, known).keep if body.get("store") is not False else None
    return await visit.offload(lambda: asked_of(visit, body, known, keep))


async def known_of(visit: Visit, body: Object, memory: Memory | None = None) -> Told:
    """A request with all that was said before it, or the refusal of what is not served."""
    if body.get("conversation") is not None:
        said = "conversation: conversations are not served here; leave it out and go on with previous_response_id"
        raise refused(said, param="conversation")
    if str(body.get("model", "")).startswith(PLAYED):
        body.setdefault("input", [])
    return await told(visit, {key: value for key, value in body.items() if key not in OURS}, memory)


def asked_of(
    visit: Visit, body: Object, known: Told, keep: Callable[[Object], Any] | None, *, background: bool = False
) -> Asked:
    """A turn. `keep` is told of the response when it is whole."""
    request = reader("responses")(known.body)
    asked = Asked(request, "responses", operation="responses", tee=known.past is None and not background)
    asked.options = {
        "id": f"resp_{visit.id}", "model": request.model, "created": int(time.time()), "clock": _now,
        "settings": {**settings(body, background=background), PREVIOUS: body.get(PREVIOUS)},
        "renames": "all" if background else "foreign",
    }  # fmt: skip
    if keep is not None:
        asked.over = Keeping(keep).over
    return asked


class Keeper:
    """Stores what becomes of a request, once or, in the background, several times."""

    def __init__(self, visit: Visit, known: Told) -> None:
        self._store, self._tenant = visit.services.responses, visit.caller.tenant
        past = known.past
        self._before = () if past is None or past.chain is None else past.chain
        if known.body.get(PREVIOUS) is not None:
            self._before = ELSEWHERE
        # what was said on a connection only has no rows that could be named
        self._input = [*past.items, *known.new] if past is not None and past.chain is None else known.new
        self._key = ""

    def keep(self, response: Object) -> tuple[str, ...]:
        """Store it; gives the rows of all that was said until now."""
        self._key = self._store.put(self._tenant, Stored(self._input, response), self._before, self._key)
        return (*self._before, self._key)


def shell(asked: Asked, status: str) -> Object:
    """A response of which nothing is known but that it was asked for."""
    options: dict[str, Any] = asked.options
    return {
        **DEFAULTS, **options["settings"], "id": options["id"], "object": "response", "status": status, "output": [],
        "created_at": options["created"], "model": asked.request.model, "usage": None,
    }  # fmt: skip


def _now() -> int:
    return int(time.time())


def instead(visit: Visit) -> Any:
    """What begins a response in the background, where that is what is wanted."""
    if b'"background"' not in visit.raw:
        return None
    from penstock.gateway.doors import stored  # noqa: PLC0415 — which leans on this file

    try:
        return stored.begun if visit.body().get("background") is True else None
    except PenstockError:
        return None  # the turn will say what is wrong


RESPONSES = Door("responses", read_responses, instead)
