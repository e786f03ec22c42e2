"""The inspector's routes about what is kept: its state, the switches, and deleting.

Who sees all turns may switch. Everybody may delete the turns that they see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.callers import make_refusal
from penstock._inspector import capture_ring
from penstock._inspector.api_router import ApiResponse, encode_redacted
from penstock._inspector.journal_access import visible_tenant
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots

_SEVERAL = "this gateway has several processes, which do not share the switch: set inspector.keep in penstock.toml"
_NO_FOLDER = "this gateway has no data folder, so nothing can be kept on disk"
_NOT_ALL = "this key sees the turns of its own tenant only; who sees all turns may switch"


class KeepingChange(msgspec.Struct, forbid_unknown_fields=True):
    """What a page switches. Unset fields stay as they are."""

    disk: bool | None = None
    paused: bool | None = None


class KeepingRoutes:
    """The routes."""

    def __init__(self, services: Services, captures: LiveCaptures, work: WorkerSlots) -> None:
        self._services, self._captures, self._work = services, captures, work

    async def state(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/keeping`: what is kept, and where."""
        tenant = visible_tenant(incoming)
        captures, policy = self._captures, self._captures.policy
        captures.measure_ended()
        held = [one for one in captures.captures.values() if not one.dropped and tenant in {None, one.tenant}]
        state = {
            "paused": policy.paused,
            "keeps": policy.keeps_all or incoming.caller.keeps_turns,
            "all": policy.keeps_all,
            "may_switch": tenant is None and not policy.has_other_workers,
            "memory": {
                "turns": len(held),
                "bytes": sum(one.size for one in held),
                "size": capture_ring.MAX_TOTAL_BYTES,
            },
            "disk": await self._work.run(lambda: captures.disk.describe(tenant)),
        }
        return ApiResponse(encode_redacted(state, self._services.secrets))

    async def switch(self, incoming: IncomingRequest) -> ApiResponse:
        """`POST /inspector/keeping`: keeps turns on disk or not, pauses or resumes. Until the gateway is restarted."""
        if incoming.caller.sees != "all":
            raise make_refusal(403, "permission", _NOT_ALL, code="not_yours")
        try:
            change = msgspec.json.decode(incoming.raw, type=KeepingChange)
        except msgspec.MsgspecError as error:
            raise InputError(f"the body is not a change: {error}") from None
        if self._captures.policy.has_other_workers:
            raise make_refusal(409, "invalid", _SEVERAL, code="several_processes")
        if change.disk and self._captures.disk.path is None:
            raise make_refusal(409, "invalid", _NO_FOLDER, code="no_data_folder")
        if change.disk is not None:
            self._captures.switch_disk(on=change.disk)
        if change.paused is not None:
            self._captures.policy.paused = change.paused
        return await self.state(incoming)

    async def delete_all(self, incoming: IncomingRequest) -> ApiResponse:
        """`DELETE /inspector/turns`: forgets the content of all finished turns that the caller sees."""
        return await self._delete(None, incoming)

    async def delete_one(self, incoming: IncomingRequest) -> ApiResponse:
        """`DELETE /inspector/turns/ID`: forgets the content of one."""
        return await self._delete({incoming.params["one"]}, incoming)

    async def _delete(self, ids: set[str] | None, incoming: IncomingRequest) -> ApiResponse:
        tenant = visible_tenant(incoming)
        try:
            deleted = await self._captures.delete_turns(ids, tenant)
        except OSError as error:
            raise make_refusal(503, "server", str(error), code="file_unusable") from None
        if ids is not None and not deleted.ids and not deleted.pending and not deleted.errors:
            raise make_refusal(404, "not-found", "the content of this turn is not kept here, or the turn still runs")
        problem = "; ".join(dict.fromkeys(deleted.errors))
        more = {"pending": deleted.pending, "error": problem, "remains": deleted.remains}
        given = {name: value for name, value in more.items() if value}
        return ApiResponse(encode_redacted({"deleted": len(deleted.ids), **given}))
