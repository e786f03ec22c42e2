"""Items of built-in tools in a request → canonical: calls, answers, or both at once, by the tables of the decoder.

The item as it was is kept in `extra`, so that this protocol gets it back; for all others there are a name, an input
and a content. `write_builtin.py` is the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick, reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.protocols.responses.calls import as_text
from penstock.protocols.responses.request_content import addressed
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.tools import ANSWERS, EARLY, FAILED, LATE, Tool, answered, given, runner

if TYPE_CHECKING:
    from penstock.events import By
    from penstock.pick import Object

_MCP = Tool("", input=("arguments",), answer=("output",))


def read_call(item: Object) -> rq.Call:
    """A call alone. The client runs it, unless the item says that the provider does."""
    tool = LATE[item["type"]]
    return rq.Call(
        _called(item), reading.text(item, "name") or tool.name, given(item, tool), runner(item, tool),
        item=reading.text(item, "id"), extra={NAME: {"item": item}},
    )  # fmt: skip


def _called(item: Object) -> str:
    return reading.text(item, "call_id") or reading.text(item, "id")


def read_run(item: Object) -> list[rq.AnyPart]:
    """A call that the provider ran, with its answer; a picture that it drew is a file as well."""
    kind: str = item["type"]
    tool = EARLY.get(kind, _MCP)
    id = reading.text(item, "id")  # noqa: A001 — as the part calls it
    name = reading.text(item, "name") or tool.name
    about: dict[str, Any] = {NAME: {"id": id, "type": kind}}
    json = as_text(item.get("arguments")) if tool is _MCP else given(item, tool)
    parts: list[rq.AnyPart] = [rq.Call(id, name, json, "provider", item=id, extra=about)]
    picture = pick.text(item, "result") if kind == "image_generation_call" else ""
    if picture:
        media = f"image/{pick.text(item, 'output_format') or 'png'}"
        parts.append(rq.File(media, data=picture, item=id, extra=about))
    answer: list[rq.ResultPart] = [rq.Json(as_json(item.get("error") or answered(item, tool)))]
    parts.append(rq.Result(id, name, answer, failed(item), by="provider", extra={NAME: {"item": item}}))
    return parts


def failed(item: Object) -> bool:
    """Whether an item says that its tool did not do what it should."""
    return bool(item.get("error")) or item.get("status") in FAILED


def read_answer(item: Object, by: By) -> rq.Result:
    """What a built-in gave, run by whoever ran its call."""
    tool = ANSWERS[item["type"]]
    bad = failed(item)
    own: Object = {"item": item, "_": {"failed": True}} if bad else {"item": item}
    content: list[rq.ResultPart] = read_output(item)
    if by == "provider":
        content = [rq.Json(as_json(answered(item, tool)))]
    return rq.Result(_called(item), tool.name, content, bad, by=by, extra={NAME: own})


def read_output(item: Object) -> list[rq.ResultPart]:
    """What a built-in that the client ran gave: words, a screenshot, or JSON."""
    output = answered(item, ANSWERS[item["type"]])
    if isinstance(output, str):
        return [rq.Text(output)] if output else []
    shot = pick.as_object(output)
    if shot.get("type") == "computer_screenshot":
        made, odd = addressed(reading.text(shot, "image_url"), "image/*")
        made.id = reading.text(shot, "file_id")
        made.extra = {NAME: {"_": {"url": odd}}} if odd else None
        return [made]
    return [] if output is None else [rq.Json(as_json(output))]


def read_question(item: Object) -> list[rq.AnyPart]:
    """The provider asks whether it may run a tool of an MCP server."""
    id = reading.needed(item, "id")  # noqa: A001 — as the part calls it
    about: dict[str, Any] = {NAME: {"id": id, "type": item["type"]}}
    call = rq.Call(id, reading.text(item, "name"), as_text(item.get("arguments")), "provider", item=id, extra=about)
    return [call, rq.Ask(id, id, extra={NAME: {"item": item}})]


def read_permission(item: Object) -> rq.Ask:
    """The user's answer to that."""
    asked = reading.needed(item, "approval_request_id")
    approved = reading.flag(item, "approve")
    if approved is None:
        raise BadRequest("true or false", None, "approve")
    return rq.Ask(asked, asked, approved, extra={NAME: {"item": item}})
