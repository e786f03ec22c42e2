"""`/api/chat`: what `useChat` posts, and Ollama's own chat, which has the same address. The bodies tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import lenient_fields as lenient
from penstock.errors import PenstockError
from penstock.gateway.endpoints import PLAYED, Asked, Door, read_body
from penstock.gateway.endpoints.ollama import asked_of, loaded, loads
from penstock.messages.request_codecs import reader

if TYPE_CHECKING:
    from penstock.gateway.endpoints import Visit
    from penstock.lenient_fields import Object

HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
_UI = frozenset({"id", "trigger", "messageId"})


def is_ollama(body: Object) -> bool:
    """Messages of a page are made of parts; Ollama's have a content, and its requests always name a model."""
    messages = lenient.get_objects(body, "messages")
    if _UI & body.keys() or any("parts" in message for message in messages):
        return False
    return bool(lenient.get_text(body, "model")) and all(
        "role" in message and "id" not in message for message in messages
    )


def read_chat(visit: Visit) -> Asked:
    """A UI message stream, unless it is Ollama's client that asks."""
    return read_body(visit, lambda body: _read(visit, body))


def _read(visit: Visit, body: Object) -> Asked:
    if is_ollama(body) and "messages" in body:
        return asked_of(body)
    if str(body.get("model", "")).startswith(PLAYED):
        body.setdefault("messages", [])
    request = reader("uistream")(body)
    options = {"id": f"msg_{visit.id}", "model": request.model}
    return Asked(request, "uistream", options=options, headers=HEADERS)


def instead(visit: Visit) -> Any:
    """What answers Ollama's clients that only want a model loaded."""
    if b'"parts"' in visit.raw:
        return None
    try:
        body = visit.body()
    except PenstockError:
        return None  # the turn will say what is wrong
    if str(body.get("model", "")).startswith(PLAYED) or not is_ollama(body) or not loads(body):
        return None
    return loaded


CHAT = Door("uistream", read_chat, instead)
