"""Responses: a turn as HTTP or a WebSocket asks for it. What is stored is answered for in `stored`.

A request that goes on from an earlier response is given all that was said before; its answer is kept unless the
request says `store: false`.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import lenient_fields as lenient
from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault, Usage
from penstock.framing import SseParser
from penstock.gateway import internal_turn
from penstock.gateway.background import Live
from penstock.gateway.endpoints import PLAYED, Asked, Door
from penstock.gateway.endpoints.count_tokens import counted
from penstock.gateway.endpoints.stored_responses import (
    PREVIOUS,
    STOPPED_ERROR,
    UNFINISHED,
    frames_after,
    items_of,
    refused,
    sealed,
    told,
)
from penstock.gateway.error_responses import unknown_model
from penstock.http.response_writer import BODY, Flow
from penstock.input_limits import decode_deep
from penstock.messages.request_codecs import reader
from penstock.protocols.responses.body import DEFAULTS, build_usage_object
from penstock.store.key_value import Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.endpoints import Visit
    from penstock.gateway.endpoints.stored_responses import Memory, Told
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object

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


async def begun(services: Services, visit: Visit) -> bytes | Flow:
    """Begin a response that nobody need wait for. With `stream` it is followed; who leaves may come back."""
    body = await visit.offload(visit.body)
    if body.get("store") is False:
        raise refused("background: a response that is not stored could not be asked for", param="background")
    if services.background.full:
        raise StreamFault(Fault("rate-limit", "too many responses are being made in the background", retry_after=5))
    known = await known_of(visit, body)
    keeper, live = Keeper(visit, known), Live({})

    def keep(response: Object) -> None:
        live.response = response
        keeper.keep(response)

    asked = await visit.offload(lambda: asked_of(visit, body, known, keep, background=True))
    follow, asked.request.stream = asked.request.stream, True
    asked.request.model = asked.request.model or services.default
    visit.caller.check(asked.request.model)
    if not services.means(asked.request.model):
        raise StreamFault(unknown_model(ValueError(f"{asked.request.model!r} is no model that is known here")))
    keep(shell(asked, "queued"))

    forget_body = visit.hand_over_body()  # it is held longer than the client's own request

    async def work(live: Live) -> None:
        live.response = {**live.response, "status": "in_progress"}
        try:
            await internal_turn.run(Door("responses", lambda _: asked), visit, live.send, live.off, begun=True)
        finally:
            forget_body()
        if live.response["status"] in UNFINISHED:
            lost = {"status": "failed", "error": STOPPED_ERROR} if services.stopped else {"status": "cancelled"}
            keep({**live.response, **lost})

    first = msgspec.json.encode(live.response)
    services.background.start(visit.caller.tenant, live, work)
    return Flow(frames_after(live.follow(), -1)) if follow else first


def instead(visit: Visit) -> Any:
    """What begins a response in the background, where that is what is wanted."""
    if b'"background"' not in visit.raw:
        return None
    try:
        return begun if visit.body().get("background") is True else None
    except PenstockError:
        return None  # the turn will say what is wrong


RESPONSES = Door("responses", read_responses, instead)


_OURS = frozenset({"background", "completed_at", "error", "incomplete_details", "store"})  # not the request's to say
_TOOL: Object = {"type": "function", "name": "", "description": None, "parameters": None, "strict": None}
_FORM: Object = {"type": "json_schema", "name": "", "description": None, "strict": False}
_WORDS = {"effort": {"none", "low", "medium", "high", "xhigh"}, "summary": {"concise", "detailed", "auto"}}


def settings(body: Object, *, background: bool = False) -> Object:
    """All of it. A response is stored unless the request says otherwise."""
    said = {key: body[key] for key in DEFAULTS if key not in _OURS and body.get(key) is not None}
    full = {key: whole(said[key]) for key, whole in _WHOLE.items() if key in said}
    return {**said, **full, "background": background, "store": body.get("store") is not False}


def _tools(given: Any) -> list[Object]:
    rows = lenient.as_objects(given)
    return [
        {**_TOOL, **{key: row[key] for key in _TOOL if key in row}} for row in rows if row.get("type") == "function"
    ]


def _thinking(given: Any) -> Object:
    said = lenient.as_object(given)
    return {**said, **{key: said[key] if said.get(key) in words else None for key, words in _WORDS.items()}}


def _text(given: Any) -> Object:
    made = {"format": {"type": "text"}, **lenient.as_object(given)}
    form = lenient.get_object(made, "format")
    return {**made, "format": {**_FORM, **form, "schema": None}} if form.get("type") == "json_schema" else made


def _choice(given: Any) -> Any:
    """A choice among tools; one of a built-in is said as what it comes to, that some tool must be used."""
    if not isinstance(given, dict):
        return given
    choice = lenient.as_object(given)
    if choice.get("type") == "allowed_tools":
        functions = [row for row in lenient.get_objects(choice, "tools") if row.get("type") == "function"]
        return {"mode": "auto", **choice, "tools": functions}
    return choice if choice.get("type") == "function" else "required"


_WHOLE: dict[str, Callable[[Any], Any]] = {
    "tools": _tools, "reasoning": _thinking, "text": _text, "tool_choice": _choice,
}  # fmt: skip


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.lenient_fields import Object

    Send = Callable[[Any], Awaitable[None]]

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_END = re.compile(rb"response\.(?:completed|incomplete|failed)[\"\s]")
_OK = 200
log = logging.getLogger("penstock.gateway")


class Keeping:
    """Calls `keep` with the response, once. An answer that is refused has none."""

    __slots__ = ("_done", "_keep", "_parser", "_status", "_stream")

    def __init__(self, keep: Callable[[Object], None]) -> None:
        self._keep = keep
        self._status = _OK
        self._stream = True
        self._done = False
        self._parser: SseParser | None = None

    def over(self, send: Send) -> Send:
        async def sending(message: Any) -> None:
            if message["type"] != BODY:
                self._status = message["status"]
                self._stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            elif not self._done and message["body"]:
                self._look(message["body"])
            await send(message)

        return sending

    def _look(self, data: bytes) -> None:
        if not self._stream:
            if self._status == _OK:
                self._found(_value(data))
        elif self._parser is not None or _END.search(data) is not None:
            self._parser = self._parser or SseParser()
            for _, payload in self._parser.feed([data]):
                if _END.search(payload) is not None:  # unless the words stand in somebody's text
                    value = _value(payload)
                    self._found(value["response"] if value.get("type") in ENDS and "response" in value else {})

    def _found(self, response: Any) -> None:
        value = lenient.as_object(response)
        if lenient.get_text(value, "id") and isinstance(value.get("output"), list):
            self._done = True
            try:
                self._keep(value)
            except Exception:  # the answer itself is none the worse for it
                log.exception("response %s was not kept", value["id"])


def _value(data: bytes) -> Object:
    try:
        return lenient.as_object(decode_deep(data, trusted=True))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


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
    model = strict.require_text(body, "model")
    known = await known_of(visit, {**body, "store": False})
    given = known.body.get("input")
    items = lenient.as_objects(given) if isinstance(given, list) else lenient.as_objects(items_of(known.body))
    said = await _summary(visit, model, _script(items, lenient.get_text(body, "instructions")))
    users = _users([*(known.past.items if known.past else ()), *known.new], visit.id)
    output = [*users, {"type": "compaction", "id": f"cmp_{visit.id}", "encrypted_content": sealed(_words(said))}]
    made = {
        "id": f"resp_{visit.id}", "object": "response.compaction", "created_at": int(time.time()), "output": output,
        "usage": lenient.get_object(said, "usage") or build_usage_object(Usage(input=0, output=0), {}),
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
    caught = internal_turn.Caught()
    turn = await internal_turn.run(Door("responses", lambda _: asked), visit, caught.send)
    if turn.fault is not None:
        raise StreamFault(turn.fault)
    response = lenient.as_object(decode_deep(caught.body, trusted=True))
    if not _words(response):
        raise StreamFault(Fault("server", f"{model} gave no summary of the conversation", status=502))
    return response


def _words(response: Object) -> str:
    parts = [part for item in lenient.get_objects(response, "output") for part in lenient.get_objects(item, "content")]
    return "".join(lenient.get_text(part, "text") for part in parts if part.get("type") == "output_text")


# ── what is summed up ─────────────────────────────────────────────────────────────────────────────


def _script(items: list[Object], instructions: str) -> str:
    """A conversation as plain text, which any model can read whatever tools it has not."""
    lines = [f"[instructions]\n{instructions}"] if instructions else []
    return "\n\n".join([*lines, *filter(None, map(_line, items))]) or "(nothing was said)"


def _line(item: Object) -> str:
    kind = lenient.get_text(item, "type") or "message"
    if kind == "message":
        return f"[{lenient.get_text(item, 'role')}]\n{_plain(item.get('content'))[:SHOWN]}"
    if kind.endswith("_output"):
        return f"[result]\n{_plain(item.get('output'))[:SHOWN]}"
    if kind.endswith("_call"):
        given = lenient.get_text(item, "arguments", "input") or msgspec.json.encode(item.get("action")).decode()
        return f"[call of {lenient.get_text(item, 'name') or kind}]\n{given[:SHOWN]}"
    return f"[thought]\n{_plain(item['summary'])[:SHOWN]}" if item.get("summary") else ""


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = lenient.as_objects(content)
    return "\n".join(
        lenient.get_text(part, "text", "refusal") or f"({lenient.get_text(part, 'type')})" for part in parts
    )


def _users(items: list[Any], name: str) -> list[Object]:
    """What users said, in full form, the latest as far as there is room."""
    kept: list[Object] = []
    room = KEPT
    for place, item in reversed(list(enumerate(lenient.as_objects(items)))):
        if lenient.get_text(item, "role") != "user":
            continue
        room -= len(_plain(item.get("content")))
        if room < 0:
            break
        id = lenient.get_text(item, "id") or f"msg_{name}_{place}"  # noqa: A001 — as the item has it
        content = [_part(part) for part in _parts(item.get("content"))]
        kept.append({"type": "message", "id": id, "status": "completed", "role": "user", "content": content})
    return kept[::-1]


def _parts(content: Any) -> list[Object]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else lenient.as_objects(content)


def _part(part: Object) -> Object:
    return {"detail": "auto", **part} if part.get("type") == "input_image" else part
