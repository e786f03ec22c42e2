"""What the assistant said and thought in a request: items of type `message` and `reasoning` → parts.

The first part of an item is marked `head` and has what the item says of itself; a further one is marked `more`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import pick, reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.protocols.responses.request_content import read_part
from penstock.protocols.responses.speech import NAME
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.events import Extra, ReasoningForm
    from penstock.pick import Object

MADE = "msg_ps"  # begins the ids that were made up for messages without one
NEXT = "_psn"  # stands in a made-up id, behind its kind, where another message of the assistant begins
MESSAGE = frozenset({"type", "role", "content", "id", "status"})
_SAID = MESSAGE - {"content"}
_UNCITED: Extra = {NAME: {"_": {"also": {"annotations": []}}}}
_REASONING = frozenset({"type", "id", "summary", "content", "status"})
_TEXT = frozenset({"type", "text", "annotations"})
_WORDS = frozenset({"type", "text"})
_FORMS: tuple[tuple[str, ReasoningForm, str], ...] = (
    ("summary", "summary", "summary_text"), ("content", "full", "reasoning_text"),
)  # fmt: skip


def read_said(item: Object) -> list[rq.AnyPart]:
    """The parts of a message of the assistant's."""
    content, id = item.get("content"), reading.text(item, "id")  # noqa: A001 — as the part calls it
    marks: Object = {"head": _head(item, id)}
    if isinstance(content, str):
        parts: list[rq.AnyPart] = [rq.Text(content)]
        if not content:
            marks["blank"] = True
    else:
        parts = _listed(item)
    if not parts or type(parts[0]) is rq.Opaque:
        parts.insert(0, rq.Text())
        marks["blank"] = True
    for part in parts:
        if type(part) is rq.Text or type(part) is rq.File:
            part.item = "" if "id" in marks.get("head", ()) else id
            _mark(part, marks if type(part) is rq.Text else {**marks, "said": True})
            marks = {"more": True}
    return parts


def _head(item: Object, id: str) -> Object:
    """What an item says of itself, and how."""
    head: Object = {"shape": "string" if isinstance(item.get("content"), str) else "list"}
    if "type" not in item:
        head["bare"] = True
    if id.startswith(MADE):
        head["id"] = id
    if item.get("status"):
        head["status"] = item["status"]
    if not item.keys() <= MESSAGE:
        head["fields"] = rest(item, MESSAGE)
    if also := unsaid(item, _SAID):
        head["also"] = also
    return head


def _listed(item: Object) -> list[rq.AnyPart]:
    parts: list[rq.AnyPart] = []
    for row in reading.rows(item, "content", _part):
        for part in row:
            if type(part) is rq.Source:
                part.of = max(place for place, one in enumerate(parts) if type(one) is rq.Text)
            parts.append(part)
    return parts


def _mark(part: rq.Text | rq.File, marks: Object) -> None:
    own = (part.extra or {}).get(NAME, {})
    part.extra = {NAME: {**own, "_": {**own.get("_", {}), **marks}}}


def _part(part: Object) -> list[rq.AnyPart]:
    """Content, and the citations in it."""
    kind = part.get("type")
    if kind not in ("output_text", "input_text", "text"):
        return [read_part(part)]
    if kind == "output_text" and len(part) == 3 and part.get("annotations") == []:  # noqa: PLR2004 — as most are
        return [rq.Text(reading.needed(part, "text"), extra=_UNCITED)]
    extra = keep(NAME, rest(part, _TEXT), also=unsaid(part, _TEXT), kind=kind if kind != "output_text" else "")
    return [rq.Text(reading.needed(part, "text"), extra=extra), *reading.rows(part, "annotations", _cited)]


def _cited(annotation: Object) -> rq.Source:
    first, last = pick.number(annotation, "start_index"), pick.number(annotation, "end_index")
    span = (first, last) if first is not None and last is not None and last > first >= 0 else None
    filename = pick.text(annotation, "filename")
    return rq.Source(
        pick.text(annotation, "url"), pick.text(annotation, "title") or filename, None, span,
        id=pick.text(annotation, "file_id"), filename=filename, extra={NAME: {"annotation": annotation}},
    )  # fmt: skip


def read_thoughts(item: Object) -> list[rq.AnyPart]:
    """The parts of a summary, then those of the full text; the last has what only the provider can read."""
    id = reading.text(item, "id")  # noqa: A001 — as the part calls it
    odd: Object = {}
    parts: list[rq.Reasoning] = []
    for key, form, kind in _FORMS:
        rows = reading.rows(item, key, reading.as_object)
        parts += [rq.Reasoning(_words(row, key, place), form, item=id) for place, row in enumerate(rows)]
        if any(row.keys() != _WORDS or row["type"] != kind for row in rows):
            odd[key] = rows
    if not parts:
        parts.append(rq.Reasoning("", "redacted", item=id))
    head: Object = {"status": item.get("status"), "also": unsaid(item, _REASONING), "odd": odd}
    head = {key: value for key, value in head.items() if value}
    if "summary" not in item:
        head["bare"] = True
    for place, part in enumerate(parts):
        marks = {"more": True} if place else {"head": head}
        part.extra = {NAME: {**(rest(item, _REASONING) if part is parts[-1] else {}), "_": marks}}
    return [*parts]


def _words(row: Object, key: str, place: int) -> str:
    try:
        return reading.text(row, "text")
    except BadRequest as error:
        raise error.at(place).at(key) from None
