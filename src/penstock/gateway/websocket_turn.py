"""One request of a WebSocket: a turn whose events are its messages, or a note for the next one. Leans on `inside`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import pick
from penstock.errors import PenstockError, StreamFault
from penstock.events import Finish, Start, Usage
from penstock.gateway import inside, refusing
from penstock.gateway.doors.door import Door
from penstock.gateway.doors.responses import Keeper, asked_of, known_of
from penstock.gateway.doors.responses_past import PREVIOUS
from penstock.gateway.frames import Frames
from penstock.gateway.writing import Translation
from penstock.http.response_writer import BODY
from penstock.store.key_value import Past

if TYPE_CHECKING:
    from penstock.gateway.doors.door import Asked, Visit
    from penstock.gateway.doors.responses_past import Told
    from penstock.gateway.websocket import Connection
    from penstock.pick import Object


class WebSocketTurn:
    """A request being answered. `done` once its response is whole, and remembered."""

    def __init__(self, connection: Connection, visit: Visit, body: Object) -> None:
        self._connection, self._visit, self._body = connection, visit, body
        self._frames = Frames(connection.text, connection.pause, body.get("stream_id"))
        self.done = False

    async def turn(self) -> None:
        """Ask somebody."""
        await inside.run(Door("responses", self._asked), self._visit, self._frames.send, self._connection.gone)

    async def warm(self) -> None:
        """Only take note: the next request goes on from here, and nobody is asked for anything yet."""
        try:
            asked = await self._asked(self._visit)
            asked.request.model = asked.request.model or self._visit.services.default
            self._visit.caller.check(asked.request.model)
            if not self._visit.services.means(asked.request.model):
                said = ValueError(f"{asked.request.model[:200]!r} is no model that is known here")
                raise StreamFault(refusing.unknown_model(said))
        except PenstockError as error:
            await self._frames.refuse(*refusing.refusal("responses", refusing.fault_of(error, "responses")))
            return
        way = Translation(asked)
        data = way.feed((b"", [Start(), Usage(input=0, output=0), Finish("stop")])) + way.finish()
        assert asked.over is not None  # noqa: S101 — set by `_asked`
        await asked.over(self._frames.send)({"type": BODY, "body": data, "more_body": False})

    async def _asked(self, visit: Visit) -> Asked:
        known = await known_of(visit, self._body, self._connection.memory)
        keeper = Keeper(visit, known) if self._body.get("store") is not False else None
        return await visit.offload(
            lambda: asked_of(visit, self._body, known, lambda response: self._kept(response, known, keeper))
        )

    def _kept(self, response: Object, known: Told, keeper: Keeper | None) -> None:
        self._frames.ended = True
        if response.get("status") not in {"completed", "incomplete"}:
            return
        chain = keeper.keep(response) if keeper is not None else None
        past, output = known.past.items if known.past else [], pick.listed(response, "output")
        previous, memory = str(self._body.get(PREVIOUS)), self._connection.memory
        size = len(self._visit.raw) + len(msgspec.json.encode(output))
        if past and memory.find(previous) is None:  # it came from the store
            size += len(msgspec.json.encode(past))
        memory.keep(response["id"], Past([*past, *known.new, *output], chain), size, previous)
        self.done = True
