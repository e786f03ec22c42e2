"""What tools gave back, in the AI SDK's words ↔ the content of a result.

An output is text, a JSON value, an error of either kind, a list of content, or a refusal to run the tool at all. Lists
have spelled their files differently in every version: all are read, and version 5's is written only if asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock import pick, reading
from penstock import request as rq
from penstock.aisdk.documents import first_id, read_data, write_data
from penstock.aisdk.options import OPTIONS, dress, report, undressed
from penstock.aisdk.words import OURS, SDK, encoded
from penstock.errors import BadRequest
from penstock.jsontext import plain_or_raw
from penstock.writing import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object
    from penstock.writing import Draft

DENIED = "Tool call execution denied."  # what the SDK says where nobody gave a reason
MEDIA_ONLY = 5  # the version whose content lists know text and `media` alone
CUSTOM, SINCE = "custom", 7  # content of no fixed kind, and since which version
# kind of content → the field with its data, the field with its name at the provider's
FILES: dict[str, tuple[str, str]] = {
    "media": ("data", ""), "file": ("data", ""), "image": ("data", ""), "file-data": ("data", ""),
    "image-data": ("data", ""), "file-url": ("url", ""), "image-url": ("url", ""), "file-id": ("", "fileId"),
    "image-file-id": ("", "fileId"), "file-reference": ("", "providerReference"),
    "image-file-reference": ("", "providerReference"),
}  # fmt: skip


class Output(NamedTuple):
    """What a tool gave."""

    content: list[rq.ResultPart]
    failed: bool = False
    denied: bool = False
    marks: Object | None = None


def value_of(json: str) -> Any:
    """A JSON text as its value; what is none, as text."""
    try:
        return plain_or_raw(json) if json else ""
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json


def plain(value: Any) -> list[rq.ResultPart]:
    """A bare value: text, or any JSON."""
    return [rq.Text(value)] if isinstance(value, str) else [rq.Json(encoded(value))]


def read_output(given: Object) -> Output:
    """An output since version 5."""
    kind = reading.needed(given, "type")
    beside = reading.rest(given, {"type", "value"})
    marks: Object = {"beside": beside} if beside else {}
    if kind == "content":
        return Output(reading.rows(given, "value", read_content, need=True), marks={**marks, "listed": True})
    if kind == "execution-denied":
        reason = reading.text(given, "reason")
        return Output([rq.Text(reason or DENIED)], failed=True, denied=True, marks=marks)
    if kind not in ("text", "json", "error-text", "error-json"):
        raise BadRequest("text, json, error-text, error-json, content or execution-denied", kind, "type")
    if kind.endswith("text"):
        content: list[rq.ResultPart] = [rq.Text(reading.needed(given, "value"))]
    else:
        content = [rq.Json(encoded(given.get("value")))]
    return Output(content, failed=kind.startswith("error-"), marks=marks)


def read_content(part: Object) -> rq.ResultPart:
    """One part of an output's list."""
    kind = reading.needed(part, "type")
    if kind == "text":
        made = rq.Text(reading.needed(part, "text"))
        if not dress(made, part, _TEXT).get("json"):
            return made
        return rq.Json(made.text, extra=made.extra, cache=made.cache)
    if kind in FILES:
        return _file(part, kind)
    held = pick.table(pick.table(pick.table(part, OPTIONS), OURS), "opaque")
    if kind == CUSTOM and pick.text(held, "protocol"):
        return rq.Opaque(pick.text(held, "protocol"), pick.text(held, "kind"), held.get("data"))
    return rq.Opaque(SDK, kind, part)


_TEXT = frozenset({"type", "text"})


def _file(part: Object, kind: str) -> rq.File:
    field, stored = FILES[kind]
    word = "mimeType" if "mediaType" not in part and "mimeType" in part else "mediaType"
    said = reading.text(part, word)
    given: Any = part.get(field or stored)
    try:
        value = {"": given} if stored and isinstance(given, str) else given
        held = read_data(value, said, "image/*" if kind.startswith("image") else "application/octet-stream")
    except BadRequest as error:
        raise error.at(field or stored) from None
    name, id = reading.text(part, "filename"), first_id(held.reference)  # noqa: A001 — as the part calls it
    made = rq.File(held.media, held.url, held.data, name=name, id=id)
    dress(
        made, part, {"type", field or stored, word, "filename"}, kind=kind, form=held.form, mime=word == "mimeType",
        media="" if held.media == said else said or "-", reference=held.reference if value is given else None,
    )  # fmt: skip
    return made


# ── the way back ──────────────────────────────────────────────────────────────────────────────────


def write_output(result: rq.Result, draft: Draft, version: int) -> Object:
    """The output of a result."""
    own, marks = split(result.extra, SDK)
    beside: Object = marks.get("beside", {})
    only = alone(result)
    if own.get("denied") and version > MEDIA_ONLY:
        reason = only.text if type(only) is rq.Text and only.text != DENIED else ""
        return {"type": "execution-denied", **({"reason": reason} if reason else {}), **beside}
    error = "error-" if result.failed else ""
    if type(only) is rq.Text:
        return {"type": f"{error}text", "value": only.text, **beside}
    if type(only) is rq.Json:
        return {"type": f"{error}json", "value": value_of(only.json), **beside}
    if result.failed:
        draft.lose("failed-content")
    return {"type": "content", "value": write_content(result.content, draft, version), **beside}


def alone(result: rq.Result) -> rq.Text | rq.Json | None:
    """The one text or value that a result is, if it is no more than that."""
    if len(result.content) != 1 or split(result.extra, SDK)[1].get("listed"):
        return None
    only = result.content[0]
    if not isinstance(only, rq.Text | rq.Json) or only.cache:
        return None
    return None if any(own.keys() - {"_"} for own in (only.extra or {}).values()) else only


def write_content(content: list[rq.ResultPart], draft: Draft, version: int) -> list[Object]:
    """The parts of an output's list."""
    for part in content:
        if not isinstance(part, rq.Opaque) and part.extra is not None:
            report(draft, part.extra)
    return [made for part in content for made in _WRITES[type(part)](part, draft, version)]


def _text(part: rq.Text, _: Draft, __: int) -> list[Object]:
    return [{"type": "text", "text": part.text, **undressed(part)[0]}]


def _json(part: rq.Json, _: Draft, __: int) -> list[Object]:
    return [{"type": "text", "text": part.json, **undressed(part, json=True)[0]}]


def _opaque(part: rq.Opaque, draft: Draft, version: int) -> list[Object]:
    if part.protocol == SDK:
        return [part.data]
    if version >= SINCE:
        held = {"protocol": part.protocol, "kind": part.kind, "data": part.data}
        return [{"type": CUSTOM, OPTIONS: {OURS: {"opaque": held}}}]
    draft.lose("opaque")
    return []


def _source(_: rq.Source, draft: Draft, __: int) -> list[Object]:
    draft.lose("source")
    return []


def _write_file(file: rq.File, draft: Draft, version: int) -> list[Object]:
    rest, _, marks = undressed(file)
    draft.glance(file)
    kind = _kind(file, marks.get("kind", ""), version)
    if not kind:
        draft.lose("result-url")
        return [{"type": "text", "text": f"[{file.name or file.media}]({file.url or file.id})"}]
    field, stored = FILES[kind]
    made: Object = {"type": kind}
    if stored:
        made[stored] = marks.get("reference") or file.id
    else:
        made[field] = write_data(file, marks.get("form", ""), marks.get("reference"))
    media = marks.get("media") or file.media
    if media != "-" and (marks or not media.endswith("*")):
        made["mimeType" if marks.get("mime") else "mediaType"] = media
    if file.name:
        made["filename"] = file.name
    return [{**rest, **made}]


def _kind(file: rq.File, said: str, version: int) -> str:
    """The kind of content that a file is written as; nothing if there is none."""
    if said:
        return said
    if version <= MEDIA_ONLY:
        return "media" if file.data else ""
    head = "image-" if file.media.startswith("image/") else "file-"
    if file.data:
        return head + "data"
    return head + "url" if file.url else "image-file-id" if head == "image-" else "file-id"


_WRITES: dict[type, Callable[[Any, Draft, int], list[Object]]] = {
    rq.Text: _text, rq.Json: _json, rq.File: _write_file, rq.Opaque: _opaque, rq.Source: _source,
}  # fmt: skip
