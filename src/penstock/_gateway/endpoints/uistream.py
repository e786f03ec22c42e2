"""`/api/chat`: requests of `useChat` (AI SDK), and Ollama's chat, which has the same path. The body decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock._gateway.endpoints import REPLAY_PREFIX, Endpoint, IncomingRequest, TurnRequest, read_body
from penstock._gateway.endpoints.ollama import answer_load_request, build_ollama_request, is_load_request
from penstock._messages.request_codecs import reader
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
_UI_FIELDS = frozenset({"id", "trigger", "messageId"})


def is_ollama(body: Object) -> bool:
    """Return whether a body is Ollama's: its messages have `content` instead of `parts`, and it names a model."""
    messages = lenient.get_objects(body, "messages")
    if _UI_FIELDS & body.keys() or any("parts" in message for message in messages):
        return False
    return bool(lenient.get_text(body, "model")) and all(
        "role" in message and "id" not in message for message in messages
    )


def read_chat(incoming: IncomingRequest) -> TurnRequest:
    """Read a UI message stream request, or Ollama's."""
    return read_body(incoming, lambda body: _read_chat_body(incoming, body))


def _read_chat_body(incoming: IncomingRequest, body: Object) -> TurnRequest:
    if is_ollama(body) and "messages" in body:
        return build_ollama_request(body)
    if str(body.get("model", "")).startswith(REPLAY_PREFIX):
        body.setdefault("messages", [])
    request = reader("uistream")(body)
    options = {"id": f"msg_{incoming.id}", "model": request.model}
    return TurnRequest(request, "uistream", options=options, headers=HEADERS)


def find_alternative(incoming: IncomingRequest) -> Any:
    """Return the handler of an Ollama request that only loads a model."""
    if b'"parts"' in incoming.raw:
        return None
    try:
        body = incoming.json_body()
    except PenstockError:
        return None  # the turn reports the error
    if str(body.get("model", "")).startswith(REPLAY_PREFIX) or not is_ollama(body) or not is_load_request(body):
        return None
    return answer_load_request


CHAT = Endpoint("uistream", read_chat, find_alternative)
