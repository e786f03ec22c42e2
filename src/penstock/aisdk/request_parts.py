"""Parts that model messages and UI messages share: reasoning, inputs of calls, files, custom parts. Both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from penstock import lenient_fields as lenient
from penstock import request as rq
from penstock import strict_fields as strict
from penstock.aisdk import OURS, SDK, encoded, own
from penstock.aisdk.request_settings import METADATA, OPTIONS, dress, note, report, undressed
from penstock.aisdk.wire import first_id, read_data, write_data
from penstock.errors import BadRequest
from penstock.jsontext import decode_or_keep_raw, is_json
from penstock.request_writer import drop_empty, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.lenient_fields import Object
    from penstock.request_writer import RequestDraft

WORDS = {SDK: (OPTIONS, METADATA, "experimental_providerMetadata"), "uistream": (METADATA,)}
FORMS = ("full", "summary", "redacted")


def read_text(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Text:
    """Text, and whether it is a refusal."""
    made = rq.Text(strict.require_text(part, "text"))
    made.refusal = bool(dress(made, part, known, WORDS[protocol], protocol, **marks).get("refusal"))
    return made


def read_reasoning(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Reasoning:
    """Reasoning with its state."""
    made = rq.Reasoning(strict.require_text(part, "text"))
    ours = dress(made, part, known, WORDS[protocol], protocol, **marks)
    made.item = lenient.get_text(ours, "item")
    form: Any = ours.get("form")
    if form in FORMS:
        made.form = form
    elif "redacted" in (made.extra or {}).get("anthropic", ()) and not made.text:
        made.form = "redacted"
    return made


def reasoning_words(part: rq.Reasoning) -> Object:
    """What of reasoning only our own words say."""
    sealed = "redacted" in (part.extra or {}).get("anthropic", ()) and not part.text
    return drop_empty(item=part.item, form="" if part.form == ("redacted" if sealed else "full") else part.form)


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def give_input(call: rq.Call, given: Any, *, free: bool, protocol: str) -> None:
    """The input of a call: free text for tools that take it, else any JSON value."""
    if not isinstance(given, str):
        call.json = encoded(given)
    elif free:
        call.json, call.form = given, "text"
    elif given.lstrip().startswith("{") and is_json(given):
        call.json = given
        _, marks = split_extra(call.extra, protocol)
        note(call, protocol, _={**marks, "text": True})
    else:
        call.json = encoded(given)


def input_of(call: rq.Call, marks: Object) -> Any:
    """The input of a call, as a value."""
    return call.json if call.form == "text" or marks.get("text") else value_of(call.json or "{}")


# ── files and custom parts ────────────────────────────────────────────────────────────────────────


def read_file(part: Object, field: str, default: str, protocol: str = SDK) -> rq.File:
    """A file whose data stands under a field of this name. Pages have data URLs where others have base64."""
    word = "mimeType" if "mediaType" not in part and "mimeType" in part else "mediaType"
    label = strict.get_text(part, word)
    try:
        held = read_data(part.get(field), label, default)
    except BadRequest as error:
        raise error.at(field) from None
    made = rq.File(held.media, held.url, held.data, name=strict.get_text(part, "filename"), id=first_id(held.reference))
    kind = strict.get_text(part, "type")
    usual = "data-url" if field == "url" else ""
    form = "" if held.form == usual else held.form or ("bare" if held.data else "")
    ours = dress(
        made, part, {"type", field, word, "filename"}, WORDS[protocol], protocol, mime=word == "mimeType",
        form=form, kind="" if kind == "file" else kind, media="" if held.media == label else label or "-",
        reference=held.reference,
    )  # fmt: skip
    made.id, made.detail = made.id or lenient.get_text(ours, "id"), lenient.get_text(ours, "detail")
    if kind == "reasoning-file":
        note(made, SDK, reasoning=True)
    return made


def write_file(file: rq.File, field: str, protocol: str = SDK) -> Object:
    """A file; one that was an image part stays one."""
    rest, _, marks = undressed(
        file, word=WORDS[protocol][0], protocol=protocol, id=_loose_id(file, protocol), detail=file.detail
    )
    thought = (file.extra or {}).get(SDK, {}).get("reasoning")
    kind = marks.get("kind") or ("reasoning-file" if thought else "file")
    made: Object = {"type": kind}
    form = marks.get("form") or ("data-url" if field == "url" else "")
    made["image" if kind == "image" else field] = write_data(file, form, marks.get("reference"))
    media = marks.get("media") or file.media
    if media != "-":
        made["mimeType" if marks.get("mime") else "mediaType"] = media
    if file.name:
        made["filename"] = file.name
    return {**rest, **made}


def _loose_id(file: rq.File, protocol: str) -> str:
    """An id that no reference holds."""
    return "" if split_extra(file.extra, protocol)[1].get("reference") else file.id


def read_custom(part: Object, protocol: str = SDK) -> rq.Opaque:
    """A custom part: opaque state of ours, if it says so, else of the SDK's, with the options in the SDK's word."""
    word = WORDS[protocol][0]
    owner, _, kind = strict.get_text(part, "kind").partition(".")
    ours = lenient.get_object(lenient.get_object(part, word), OURS)
    if "opaque" in ours and kind:
        return rq.Opaque(owner, kind, ours["opaque"])
    return rq.Opaque(SDK, "custom", {OPTIONS if key == word else key: value for key, value in part.items()})


def write_custom(part: rq.Opaque, protocol: str = SDK) -> Object:
    """Opaque state as a custom part, which every reader since version 7 keeps."""
    word = WORDS[protocol][0]
    if part.protocol == SDK and part.kind == "custom":
        return {word if key == OPTIONS else key: value for key, value in lenient.as_object(part.data).items()}
    return {"type": "custom", "kind": f"{part.protocol}.{part.kind}", word: {OURS: {"opaque": part.data}}}


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
        return decode_or_keep_raw(json) if json else ""
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json


def plain(value: Any) -> list[rq.ResultPart]:
    """A bare value: text, or any JSON."""
    return [rq.Text(value)] if isinstance(value, str) else [rq.Json(encoded(value))]


def read_output(given: Object) -> Output:
    """An output since version 5."""
    kind = strict.require_text(given, "type")
    beside = strict.unknown_fields(given, {"type", "value"})
    marks: Object = {"beside": beside} if beside else {}
    if kind == "content":
        return Output(strict.read_objects(given, "value", read_content, need=True), marks={**marks, "listed": True})
    if kind == "execution-denied":
        reason = strict.get_text(given, "reason")
        return Output([rq.Text(reason or DENIED)], failed=True, denied=True, marks=marks)
    if kind not in ("text", "json", "error-text", "error-json"):
        raise BadRequest("text, json, error-text, error-json, content or execution-denied", kind, "type")
    if kind.endswith("text"):
        content: list[rq.ResultPart] = [rq.Text(strict.require_text(given, "value"))]
    else:
        content = [rq.Json(encoded(given.get("value")))]
    return Output(content, failed=kind.startswith("error-"), marks=marks)


def read_content(part: Object) -> rq.ResultPart:
    """One part of an output's list."""
    kind = strict.require_text(part, "type")
    if kind == "text":
        made = rq.Text(strict.require_text(part, "text"))
        if not dress(made, part, _TEXT).get("json"):
            return made
        return rq.Json(made.text, extra=made.extra, cache=made.cache)
    if kind in FILES:
        return _file(part, kind)
    held = lenient.get_object(lenient.get_object(lenient.get_object(part, OPTIONS), OURS), "opaque")
    if kind == CUSTOM and lenient.get_text(held, "protocol"):
        return rq.Opaque(lenient.get_text(held, "protocol"), lenient.get_text(held, "kind"), held.get("data"))
    return rq.Opaque(SDK, kind, part)


_TEXT = frozenset({"type", "text"})


def _file(part: Object, kind: str) -> rq.File:
    field, stored = FILES[kind]
    word = "mimeType" if "mediaType" not in part and "mimeType" in part else "mediaType"
    said = strict.get_text(part, word)
    given: Any = part.get(field or stored)
    try:
        value = {"": given} if stored and isinstance(given, str) else given
        held = read_data(value, said, "image/*" if kind.startswith("image") else "application/octet-stream")
    except BadRequest as error:
        raise error.at(field or stored) from None
    name, id = strict.get_text(part, "filename"), first_id(held.reference)  # noqa: A001 — as the part calls it
    made = rq.File(held.media, held.url, held.data, name=name, id=id)
    dress(
        made, part, {"type", field or stored, word, "filename"}, kind=kind, form=held.form, mime=word == "mimeType",
        media="" if held.media == said else said or "-", reference=held.reference if value is given else None,
    )  # fmt: skip
    return made


# ── the way back ──────────────────────────────────────────────────────────────────────────────────


def write_output(result: rq.Result, draft: RequestDraft, version: int) -> Object:
    """The output of a result."""
    own, marks = split_extra(result.extra, SDK)
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
        draft.report_loss("failed-content")
    return {"type": "content", "value": write_content(result.content, draft, version), **beside}


def alone(result: rq.Result) -> rq.Text | rq.Json | None:
    """The one text or value that a result is, if it is no more than that."""
    if len(result.content) != 1 or split_extra(result.extra, SDK)[1].get("listed"):
        return None
    only = result.content[0]
    if not isinstance(only, rq.Text | rq.Json) or only.cache:
        return None
    return None if any(own.keys() - {"_"} for own in (only.extra or {}).values()) else only


def write_content(content: list[rq.ResultPart], draft: RequestDraft, version: int) -> list[Object]:
    """The parts of an output's list."""
    for part in content:
        if not isinstance(part, rq.Opaque) and part.extra is not None:
            report(draft, part.extra)
    return [made for part in content for made in _WRITES[type(part)](part, draft, version)]


def _text(part: rq.Text, _: RequestDraft, __: int) -> list[Object]:
    return [{"type": "text", "text": part.text, **undressed(part)[0]}]


def _json(part: rq.Json, _: RequestDraft, __: int) -> list[Object]:
    return [{"type": "text", "text": part.json, **undressed(part, json=True)[0]}]


def _opaque(part: rq.Opaque, draft: RequestDraft, version: int) -> list[Object]:
    if part.protocol == SDK:
        return [part.data]
    if version >= SINCE:
        held = {"protocol": part.protocol, "kind": part.kind, "data": part.data}
        return [{"type": CUSTOM, OPTIONS: {OURS: {"opaque": held}}}]
    draft.report_loss("opaque")
    return []


def _source(_: rq.Source, draft: RequestDraft, __: int) -> list[Object]:
    draft.report_loss("source")
    return []


def _write_file(file: rq.File, draft: RequestDraft, version: int) -> list[Object]:
    rest, _, marks = undressed(file)
    draft.report_image_detail(file)
    kind = _kind(file, marks.get("kind", ""), version)
    if not kind:
        draft.report_loss("result-url")
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


_WRITES: dict[type, Callable[[Any, RequestDraft, int], list[Object]]] = {
    rq.Text: _text, rq.Json: _json, rq.File: _write_file, rq.Opaque: _opaque, rq.Source: _source,
}  # fmt: skip


def served(messages: Iterable[rq.Message]) -> list[rq.Message]:
    """The messages with such calls as the client's, and each turn ended where their results come in."""
    return [row for message in messages for row in _rows(message)]


def _rows(message: rq.Message) -> list[rq.Message]:
    ran = {part.id for part in message.parts if type(part) is rq.Call and own(part.extra).get("sdk")}
    if not ran:
        return [message]
    rows = [replace(message, parts=[])]
    for part in message.parts:
        answer = type(part) is rq.Result and part.call in ran
        role: rq.Role = "tool" if answer else "assistant"
        if rows[-1].role != role:
            rows.append(rq.Message(role, []))
        rows[-1].parts.append(_clients(part) if answer or (type(part) is rq.Call and part.id in ran) else part)
    return rows


def _clients(part: rq.AnyPart) -> rq.AnyPart:
    if not isinstance(part, rq.Call | rq.Result):
        return part
    left = {key: value for key, value in own(part.extra).items() if key != "sdk"}
    others = {protocol: fields for protocol, fields in (part.extra or {}).items() if protocol != SDK}
    return replace(part, by="client", extra={**others, **({SDK: left} if left else {})} or None)
