"""`POST /v1/responses/compact`: a long conversation made short by the model itself; and how many tokens an input is.

What users said stays as it is, as far as there is room; the rest becomes a summary in an item that this gateway opens
again (`compaction`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick, reading
from penstock import request as rq
from penstock.errors import StreamFault
from penstock.events import Fault, Usage
from penstock.gateway import inside
from penstock.gateway.doors.compaction import sealed
from penstock.gateway.doors.counting import counted
from penstock.gateway.doors.door import PLAYED, Asked, Door
from penstock.gateway.doors.responses import known_of
from penstock.gateway.doors.responses_past import items_of
from penstock.json_depth import decode_deep
from penstock.messages.request_codecs import reader
from penstock.protocols.responses.body import usage_object

if TYPE_CHECKING:
    from penstock.gateway.doors.door import Visit
    from penstock.gateway.services import Services
    from penstock.pick import Object

KEPT = 80_000  # letters of users' messages that stay as they are
SHOWN = 20_000  # letters of one item that are summed up
TASK = (
    "You make conversations short. Below is a conversation between a user and an assistant that uses tools. Write a "
    "summary from which the assistant can go on without having seen the rest: what is wanted, what was decided and "
    "why, what was done, what was found (names, paths, numbers, exact words that matter), what is left to do. Leave "
    "out greetings and repetition. Write the summary only."
)


async def compact(_: Services, visit: Visit) -> bytes:
    """The compacted conversation."""
    body = await visit.offload(visit.body)
    model = reading.needed(body, "model")
    known = await known_of(visit, {**body, "store": False})
    given = known.body.get("input")
    items = pick.objects(given) if isinstance(given, list) else pick.objects(items_of(known.body))
    said = await _summary(visit, model, _script(items, pick.text(body, "instructions")))
    users = _users([*(known.past.items if known.past else ()), *known.new], visit.id)
    output = [*users, {"type": "compaction", "id": f"cmp_{visit.id}", "encrypted_content": sealed(_words(said))}]
    made = {
        "id": f"resp_{visit.id}", "object": "response.compaction", "created_at": int(time.time()), "output": output,
        "usage": pick.table(said, "usage") or usage_object(Usage(input=0, output=0), {}),
    }  # fmt: skip
    return msgspec.json.encode(made)


async def input_tokens(services: Services, visit: Visit) -> bytes:
    """`POST /v1/responses/input_tokens`: how many tokens a request is, with all that was said before it."""
    body = await visit.offload(visit.body)
    if str(body.get("model", "")).startswith(PLAYED):
        body.setdefault("input", [])
    request = reader("responses")((await known_of(visit, body)).body)
    count, _ = await counted(services, visit, request, "responses")
    return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": count})


async def _summary(visit: Visit, model: str, script: str) -> Object:
    """The response of a model that was asked for a summary: a turn like any other, counted and in the journal."""
    request = rq.Request(
        model, [rq.Message("system", [rq.Text(TASK)]), rq.Message("user", [rq.Text(script)])],
        settings=rq.Settings(store=False),
    )  # fmt: skip
    asked = Asked(request, "responses", operation="responses", options={"model": model}, tee=False)
    caught = inside.Caught()
    turn = await inside.run(Door("responses", lambda _: asked), visit, caught.send)
    if turn.fault is not None:
        raise StreamFault(turn.fault)
    response = pick.as_object(decode_deep(caught.body, trusted=True))
    if not _words(response):
        raise StreamFault(Fault("server", f"{model} gave no summary of the conversation", status=502))
    return response


def _words(response: Object) -> str:
    parts = [part for item in pick.rows(response, "output") for part in pick.rows(item, "content")]
    return "".join(pick.text(part, "text") for part in parts if part.get("type") == "output_text")


# ── what is summed up ─────────────────────────────────────────────────────────────────────────────


def _script(items: list[Object], instructions: str) -> str:
    """A conversation as plain text, which any model can read whatever tools it has not."""
    lines = [f"[instructions]\n{instructions}"] if instructions else []
    return "\n\n".join([*lines, *filter(None, map(_line, items))]) or "(nothing was said)"


def _line(item: Object) -> str:
    kind = pick.text(item, "type") or "message"
    if kind == "message":
        return f"[{pick.text(item, 'role')}]\n{_plain(item.get('content'))[:SHOWN]}"
    if kind.endswith("_output"):
        return f"[result]\n{_plain(item.get('output'))[:SHOWN]}"
    if kind.endswith("_call"):
        given = pick.text(item, "arguments", "input") or msgspec.json.encode(item.get("action")).decode()
        return f"[call of {pick.text(item, 'name') or kind}]\n{given[:SHOWN]}"
    return f"[thought]\n{_plain(item['summary'])[:SHOWN]}" if item.get("summary") else ""


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = pick.objects(content)
    return "\n".join(pick.text(part, "text", "refusal") or f"({pick.text(part, 'type')})" for part in parts)


def _users(items: list[Any], name: str) -> list[Object]:
    """What users said, in full form, the latest as far as there is room."""
    kept: list[Object] = []
    room = KEPT
    for place, item in reversed(list(enumerate(pick.objects(items)))):
        if pick.text(item, "role") != "user":
            continue
        room -= len(_plain(item.get("content")))
        if room < 0:
            break
        id = pick.text(item, "id") or f"msg_{name}_{place}"  # noqa: A001 — as the item has it
        content = [_part(part) for part in _parts(item.get("content"))]
        kept.append({"type": "message", "id": id, "status": "completed", "role": "user", "content": content})
    return kept[::-1]


def _parts(content: Any) -> list[Object]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else pick.objects(content)


def _part(part: Object) -> Object:
    return {"detail": "auto", **part} if part.get("type") == "input_image" else part
