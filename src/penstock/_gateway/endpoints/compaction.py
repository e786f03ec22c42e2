"""`POST /v1/responses/compact`: replaces a long conversation by a summary that the model writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest
from penstock._gateway.endpoints.responses import resolve_request
from penstock._gateway.endpoints.stored_responses import input_items, pack_summary
from penstock._gateway.internal_turn import ResponseCollector, run_internal_turn
from penstock._input_limits import decode_deep
from penstock._protocols.responses.encode import build_usage_object
from penstock.errors import StreamFault
from penstock.events import Fault, Usage

if TYPE_CHECKING:
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object

MAX_KEPT_CHARACTERS = 80_000  # of users' messages
MAX_ITEM_CHARACTERS = 20_000  # of one item that are summarized
SUMMARY_PROMPT = (
    "You make conversations short. Below is a conversation between a user and an assistant that uses tools. Write a "
    "summary from which the assistant can go on without having seen the rest: what is wanted, what was decided and "
    "why, what was done, what was found (names, paths, numbers, exact words that matter), what is left to do. Leave "
    "out greetings and repetition. Write the summary only."
)


async def compact_conversation(_: Services, incoming: IncomingRequest) -> bytes:
    """`POST /v1/responses/compact`: replaces a long conversation by a summary that the model writes.

    Users' messages stay as they are, up to a limit; the rest becomes an item that this gateway expands again.
    """
    body = await incoming.offload(incoming.json_body)
    model = strict.require_text(body, "model")
    known = await resolve_request(incoming, {**body, "store": False})
    given = known.body.get("input")
    items = lenient.as_objects(given) if isinstance(given, list) else lenient.as_objects(input_items(known.body))
    transcript = _format_transcript(items, lenient.get_text(body, "instructions"))
    response = await _request_summary(incoming, model, transcript)
    users = _user_messages([*(known.past.items if known.past else ()), *known.new], incoming.id)
    summary = pack_summary(_output_text(response))
    output = [*users, {"type": "compaction", "id": f"cmp_{incoming.id}", "encrypted_content": summary}]
    usage = lenient.get_object(response, "usage") or build_usage_object(Usage(input=0, output=0), {})
    head = {"id": f"resp_{incoming.id}", "object": "response.compaction", "created_at": int(time.time())}
    return msgspec.json.encode({**head, "output": output, "usage": usage})


async def _request_summary(incoming: IncomingRequest, model: str, script: str) -> Object:
    """Ask the model for a summary. The turn is limited and journaled like any other."""
    request = rq.Request(
        model,
        [rq.Message("system", [rq.Text(SUMMARY_PROMPT)]), rq.Message("user", [rq.Text(script)])],
        settings=rq.Settings(store=False),
    )
    turn_request = TurnRequest(
        request, "responses", operation="responses", options={"model": model}, allow_passthrough=False
    )
    caught = ResponseCollector()
    turn = await run_internal_turn(ClientEndpoint("responses", lambda _: turn_request), incoming, caught.send)
    if turn.fault is not None:
        raise StreamFault(turn.fault)
    response = lenient.as_object(decode_deep(caught.body, trusted=True))
    if not _output_text(response):
        raise StreamFault(Fault("server", f"{model} gave no summary of the conversation", status=502))
    return response


def _output_text(response: Object) -> str:
    parts = [part for item in lenient.get_objects(response, "output") for part in lenient.get_objects(item, "content")]
    return "".join(lenient.get_text(part, "text") for part in parts if part.get("type") == "output_text")


def _format_transcript(items: list[Object], instructions: str) -> str:
    """Format a conversation as plain text, which any model can read without the tools."""
    lines = [f"[instructions]\n{instructions}"] if instructions else []
    return "\n\n".join([*lines, *filter(None, map(_format_item, items))]) or "(nothing was said)"


def _format_item(item: Object) -> str:
    kind = lenient.get_text(item, "type") or "message"
    if kind == "message":
        return f"[{lenient.get_text(item, 'role')}]\n{_content_text(item.get('content'))[:MAX_ITEM_CHARACTERS]}"
    if kind.endswith("_output"):
        return f"[result]\n{_content_text(item.get('output'))[:MAX_ITEM_CHARACTERS]}"
    if kind.endswith("_call"):
        given = lenient.get_text(item, "arguments", "input") or msgspec.json.encode(item.get("action")).decode()
        return f"[call of {lenient.get_text(item, 'name') or kind}]\n{given[:MAX_ITEM_CHARACTERS]}"
    return f"[thought]\n{_content_text(item['summary'])[:MAX_ITEM_CHARACTERS]}" if item.get("summary") else ""


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = ((lenient.get_text(part, "text", "refusal"), part) for part in lenient.as_objects(content))
    return "\n".join(text or f"({lenient.get_text(part, 'type')})" for text, part in texts)


def _user_messages(items: list[Any], name: str) -> list[Object]:
    """Return the users' messages in full form, the latest first to be kept."""
    messages: list[Object] = []
    room = MAX_KEPT_CHARACTERS
    for position, item in reversed(list(enumerate(lenient.as_objects(items)))):
        if lenient.get_text(item, "role") != "user":
            continue
        room -= len(_content_text(item.get("content")))
        if room < 0:
            break
        id = lenient.get_text(item, "id") or f"msg_{name}_{position}"  # noqa: A001 — as the item has it
        content = [_complete_part(part) for part in _content_parts(item.get("content"))]
        messages.append({"type": "message", "id": id, "status": "completed", "role": "user", "content": content})
    return messages[::-1]


def _content_parts(content: Any) -> list[Object]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else lenient.as_objects(content)


def _complete_part(part: Object) -> Object:
    return {"detail": "auto", **part} if part.get("type") == "input_image" else part
