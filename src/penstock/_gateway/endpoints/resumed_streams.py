"""Routes of resumed streams: any route with `Last-Event-ID`, and `/api/chat/{id}/stream`, which `useChat` asks.

On reload `useChat` sends `GET {api}/{chat id}/stream`. 204 tells it that no stream runs
(https://ai-sdk.dev/docs/ai-sdk-ui/chatbot-resume-streams). It expects the stream from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._gateway.stream_resume import UNKNOWN_STREAM, read_event_id
from penstock.errors import StreamFault

if TYPE_CHECKING:
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._http.response_writer import EventStream

CHAT_PREFIX, CHAT_SUFFIX = "/api/chat/", "/stream"


async def continue_stream(services: Services, incoming: IncomingRequest) -> EventStream:
    """Any route with `Last-Event-ID`: sends what follows that event. The body is not read: no turn begins."""
    seen = read_event_id(incoming)
    stream = await services.resume.open(incoming.caller.tenant, seen[0]) if seen is not None else None
    if stream is None or seen is None:
        raise StreamFault(UNKNOWN_STREAM)
    return stream.events(seen[1])


async def resume_chat(services: Services, incoming: IncomingRequest) -> bytes | EventStream:
    """`GET /api/chat/{id}/stream`: the running stream of a chat; with `?ended=true` also one that has ended."""
    stream = await services.resume.find(incoming.caller.tenant, f"chat/{incoming.params['chat']}")
    if stream is None or (stream.state and incoming.query.get("ended") != "true"):
        return b""
    resumed = await stream.after_event(incoming)
    return stream.events() if resumed is None else resumed


async def cancel_chat(services: Services, incoming: IncomingRequest) -> bytes:
    """`DELETE /api/chat/{id}/stream`: cancels the running stream of a chat, on whatever replica it runs."""
    tenant = incoming.caller.tenant
    stream = await services.resume.find(tenant, f"chat/{incoming.params['chat']}")
    if stream is not None:
        await services.resume.cancel(tenant, stream.id)
    return b""


ROUTES = {"GET": resume_chat, "DELETE": cancel_chat}
